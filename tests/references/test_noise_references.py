"""Noisy labels against values computed elsewhere, and against a scalar solver written here."""

import math

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit

import polyceptron as pc
from polyceptron.problem.channels import as_channel
from polyceptron.report.verify.known_values import LABELS_OF_CHANCE, SEPARABLE
from polyceptron.sides.fields.information import few_moments

pytestmark = pytest.mark.slow

LOGIT_SLOPE = math.sqrt(5)  # of a unit field: softmax of two classes with slope γ/√2
TEACHER = pc.Teacher(2, noise=f"softmax:{LOGIT_SLOPE / math.sqrt(2)!r}")


def scalar_mle(kappa: float, gamma: float, start: tuple[float, float, float]) -> np.ndarray:
    """(bias factor, spread, λ) of logistic regression with d/n = κ, as statisticians write it.

    With ρ(t) = ln(1 + e^t), P = prox_{λρ}(Q₂) and (Q₁, Q₂) Gaussian of covariance
    [[γ², −aγ²], [−aγ², a²γ² + κσ²]]:

        κ²σ² = E 2ρ'(Q₁)(λρ'(P))²,   0 = E ρ'(Q₁)Q₁λρ'(P),   1 − κ = E 2ρ'(Q₁)/(1 + λρ''(P))
    """
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    x, y = np.meshgrid(node, node, indexing="ij")
    both = np.outer(weight, weight)

    def equations(unknowns):
        a, sigma, lam = unknowns
        first = gamma * x
        second = -a * gamma * x + math.sqrt(kappa) * sigma * y
        point = second.copy()
        for _ in range(60):
            p = expit(point)
            point -= (point + lam * p - second) / (1 + lam * p * (1 - p))
        p = expit(point)
        label = 2 * expit(first)
        return [
            float((both * label * (lam * p) ** 2).sum()) - (kappa * sigma) ** 2,
            float((both * label * first * lam * p).sum()),
            float((both * label / (1 + lam * p * (1 - p))).sum()) - (1 - kappa),
        ]

    found = root(equations, start, tol=1e-12)
    assert found.success
    return found.x


@pytest.mark.parametrize(("kappa", "factor"), [(0.1, 1.167782), (0.2, 1.499350)])
def test_maximum_likelihood_of_two_classes(kappa, factor):
    """m in units of the teacher's slope is the bias factor; q − m² its spread.

    `scalar_mle` solves the equations of Sur and Candès, who print 1.4994 at κ = 0.2 and γ² = 5; the
    further digits of `factor` are its own.
    """
    slope = LOGIT_SLOPE / math.sqrt(2)
    point = pc.erm_fixed_point(TEACHER, pc.ERM("cross-entropy", 0), 1 / kappa, tol=1e-8)
    bias, sigma, lam = scalar_mle(kappa, LOGIT_SLOPE, (1.2, 2.0, 1.0))
    assert point.m / slope == pytest.approx(factor, abs=1e-6)
    assert point.m / slope == pytest.approx(bias, abs=1e-6)
    # logits of two classes are differences of two fields: their spread is 2(q − m²) = κσ²
    assert 2 * (point.q - point.m**2) == pytest.approx(kappa * sigma**2, rel=1e-5)
    assert pytest.approx(lam, rel=1e-5) == 2 * point.V


@pytest.mark.parametrize(("noise", "value", "digits"), SEPARABLE)
def test_separability_of_two_classes(noise, value, digits):
    found = pc.separability(pc.Teacher(2, noise=noise))
    assert found.status == "ok"
    assert 1 / found.alpha_s == pytest.approx(value, abs=digits)


@pytest.mark.parametrize(("k", "value"), LABELS_OF_CHANCE)
def test_labels_of_chance_have_a_known_threshold(k, value):
    for noise in ("gaussian:1e9", "softmax:1e-5"):
        found = pc.separability(pc.Teacher(k, noise=noise))
        assert found.alpha_s == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_close_to_the_threshold(k):
    """Weights of margin 1 grow as 1/(α_s − α) below it; the direction goes through."""
    teacher, estimator = pc.Teacher(k, noise="gaussian:0.5"), pc.ERM("cross-entropy", 0)
    limit = pc.separability(teacher, 1e-10).alpha_s
    below = [pc.erm_fixed_point(teacher, estimator, limit * (1 - x)) for x in (1e-3, 1e-6)]
    near = (1e-4, 1e-6) if k == 2 else (1e-3,)
    above = [pc.erm_fixed_point(teacher, estimator, limit * (1 + x)) for x in near]
    for point in (*below, *above):
        assert point.status == "ok"
        assert point.uncertainty < 1e-6
    assert below[1].q / below[0].q == pytest.approx(1e6, rel=3e-3)
    gaps = [below[1].generalisation_error - point.generalisation_error for point in above]
    assert 0 < gaps[-1] < 10 * near[-1]
    assert below[0].training_error == below[1].training_error == 0 < above[-1].training_error
    assert gaps[0] / gaps[-1] == pytest.approx(near[0] / near[-1], rel=0.3)


def test_closer_than_doubles_allow():
    teacher = pc.Teacher(2, noise="gaussian:0.5")
    limit = pc.separability(teacher, 1e-10).alpha_s
    nearer = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 0), limit * (1 + 1e-13))
    assert nearer.status in ("tolerance-not-met", "not-converged")
    assert "alpha" in nearer.status.remedy or "tolerance" in nearer.status.remedy


def test_a_small_ridge_tends_to_none():
    found = [
        pc.erm_fixed_point(TEACHER, pc.ERM("cross-entropy", ridge), 10.0, tol=1e-8).m
        for ridge in (1e-2, 1e-3, 0)
    ]
    assert found[1] - found[2] == pytest.approx((found[0] - found[2]) / 10, rel=0.05)


NOISES = ("gaussian:1e-12", "softmax:1e3", "flips:1e-9")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("estimator", [pc.ERM("cross-entropy", 0.1), pc.ERM("square", 0.5)])
def test_little_noise_is_no_noise(noise, estimator):
    clean, noisy = (
        pc.erm_fixed_point(pc.Teacher(3, noise=n), estimator, 2.0) for n in ("none", noise)
    )
    assert noisy.generalisation_error == pytest.approx(clean.generalisation_error, abs=2e-5)
    assert noisy.q == pytest.approx(clean.q, rel=1e-4)


@pytest.mark.parametrize("noise", ["gaussian:1e8", "softmax:1e-4", "flips:0.66666"])
def test_much_noise_is_a_guess(noise):
    for estimator in (pc.ERM("cross-entropy", 0.1), pc.BayesOptimal()):
        row = pc.learning_curve(pc.Teacher(3, noise=noise), estimator, [2.0]).frame.iloc[0]
        assert row.generalisation_error == pytest.approx(2 / 3, abs=1e-3)


def test_much_ridge_is_the_mean_of_each_class():
    """λ → ∞: W ∝ Σ x(e_y − 1/k), so ρ² = αc²/(αc² + 1/k) with c = E[z_y]/(k − 1), by sampling."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((400_000, 3))
    for noise in ("softmax:2", "gaussian:0.5", "flips:0.2"):
        y = as_channel(noise).sample(z, rng)
        c = float((z[np.arange(len(z)), y] - z.mean(1)).mean() / 2)
        point = pc.erm_fixed_point(pc.Teacher(3, noise=noise), pc.ERM("cross-entropy", 1e5), 2.0)
        # Var of e_y on a class direction is 1/k, of which c² is along the teacher's field
        assert point.correlation**2 == pytest.approx(2 * c**2 / (2 * c**2 + 1 / 3), abs=3e-3)


@pytest.mark.parametrize(
    ("k", "noise"),
    [
        *((2, noise) for noise in ("gaussian:1e-10", "softmax:1e5", "flips:1e-7")),
        *((3, noise) for noise in ("gaussian:1e-10", "flips:1e-7")),
    ],
)
def test_little_noise_is_no_noise_for_bayes(k, noise):
    clean, noisy = (pc.fixed_points(pc.Teacher(k, noise=n), 2.0)[0] for n in ("none", noise))
    for name in ("generalisation_error", "q", "free_entropy"):
        assert getattr(noisy, name) == pytest.approx(getattr(clean, name), abs=2e-5)


def test_a_steep_softmax_of_three_classes_is_no_noise_for_bayes():
    """I and Ψ_out at two overlaps: its whole table would take seconds."""
    for v in (0.05, 0.4):
        clean, steep = (few_moments(as_channel(n), v, 3) for n in ("none", "softmax:1e5"))
        assert steep == pytest.approx(clean, abs=2e-5)


def test_the_hard_phase_of_rademacher_weights_closes():
    """Flips leave perfect learning a state; Gaussian noise narrows the phase until it is gone."""
    found = {
        noise: pc.transitions(pc.Teacher(3, "rademacher", noise))
        for noise in (
            "none",
            "flips:1e-7",
            "flips:0.01",
            "gaussian:0.006",
            "gaussian:0.012",
            "softmax:20",
        )
    }
    clean, nearly = found["none"], found["flips:1e-7"]
    assert nearly.alpha_it == pytest.approx(clean.alpha_it, abs=1e-4)
    assert nearly.alpha_algo == pytest.approx(clean.alpha_algo, abs=1e-4)
    width = {noise: one.alpha_algo - one.alpha_it for noise, one in found.items()}
    assert clean.alpha_it < found["flips:0.01"].alpha_it < found["flips:0.01"].alpha_algo
    assert width["none"] > width["gaussian:0.006"] > width["gaussian:0.012"] > 0
    assert width["none"] > width["softmax:20"] > 0
    for noise in ("gaussian:0.02", "softmax:10"):
        assert pc.transitions(pc.Teacher(3, "rademacher", noise)).alpha_it is None
