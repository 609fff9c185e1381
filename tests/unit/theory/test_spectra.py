"""Correlated features in theory: what must not change, what must, and closed forms beside it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import polyceptron as pc
from polyceptron.problem import Conjugates, MaxMargin, Penalty, Ridge, ScalarOrder, Spectrum
from polyceptron.problem.spectrum import isotropic
from polyceptron.sides.scalar import erm_sides
from polyceptron.sides.weights.row_rule import row_rule
from polyceptron.sides.weights.side import PriorSide
from polyceptron.theory.bayes.solution_curve import curve_of
from polyceptron.theory.erm.coarse_root import coarse_root
from polyceptron.theory.erm.equations import RidgeEquations, equations
from polyceptron.theory.erm.refinement import refine
from polyceptron.theory.erm.square_closed_form import best_square_ridge, solve_square

pytestmark = pytest.mark.slow

TWO = Spectrum([4.0, 0.25], [0.5, 2.0], [0.3, 0.7])
ALMOST = Spectrum([1.0 + 1e-9, 1.0])  # two levels: the general code at what is one


def test_equal_eigenvalues_give_the_numbers_of_independent_features():
    for k, alpha in ((2, 0.6), (3, 3.0)):
        flat, near = pc.Teacher(k), pc.Teacher(k, features=ALMOST)
        assert not near.features.isotropic
        for loss, ridge in (
            ("cross-entropy", 0.05),
            ("cross-entropy", 0),
            ("square", 0.3),
            ("square", 0),
        ):
            one, other = (pc.erm_fixed_point(t, pc.ERM(loss, ridge), alpha) for t in (flat, near))
            assert other.q == pytest.approx(one.q, rel=2e-6)
            for name, spread in (
                ("generalisation_error", "uncertainty"),
                ("training_error", "training_error_uncertainty"),
                ("training_loss", "training_loss_uncertainty"),
            ):
                allowed = getattr(one, spread) + getattr(other, spread) + 1e-8
                assert abs(getattr(one, name) - getattr(other, name)) < allowed
        best = [pc.fixed_points(t, alpha, branch="optimal")[0] for t in (flat, near)]
        assert best[1].q == pytest.approx(best[0].q, abs=1e-8)
        assert best[1].free_entropy == pytest.approx(best[0].free_entropy, abs=1e-8)


def test_equations_of_a_ridge_hold_for_scale_free_losses():
    """`RidgeEquations` know nothing of f ∝ 1/V."""
    problem = erm_sides(pc.Teacher(3), MaxMargin(), 1.0, 3.0)
    better, general = equations(problem), RidgeEquations(problem)
    near, far = coarse_root(better), coarse_root(general)
    assert far.converged
    law, other = (s.law(refine(s, r, 1e-8).theta) for s, r in ((better, near), (general, far)))
    assert law.tau == pytest.approx(other.tau, rel=1e-6)
    assert law.q == pytest.approx(other.q, rel=1e-6)


def test_general_forms_at_one_eigenvalue():
    """What holds for any spectrum, against the forms of independent features."""
    side = PriorSide(pc.Teacher(3, features=ALMOST), 0)
    weights = side.moments(np.array([0.3, 2.0]), np.zeros(2, int))
    np.testing.assert_allclose(weights[0], 1 / (1 + np.array([0.3, 2.0])), rtol=1e-8)
    for ridge in (0.0, 0.2):
        k, c, alpha = 3, 0.4, 0.7
        V = (1 - ridge - alpha + math.hypot(ridge + alpha - 1, 2 * ridge**0.5)) / (2 * ridge or 1)
        shrink = V / (1 + V) if ridge else 1.0
        m, A = alpha * c * shrink, alpha * shrink**2
        q = (m**2 + A * (1 / k - 2 * m * c)) / (1 - A)
        for spectrum in (isotropic(), pc.Teacher(3, features=ALMOST).features):
            found, overlap = solve_square(k, c, alpha, ridge, spectrum)
            np.testing.assert_allclose([overlap, found.q], [m, q], rtol=1e-9)
            assert found.tau == pytest.approx(m / math.sqrt(q - m**2), rel=1e-9)


def random_matrix_risk(spectrum, c, k, alpha, ridge):
    """Ridge regression in random-matrix theory: bias and variance by the companion transform v(−λ).

    1/v = λ' + γ⟨s/(1+vs)⟩ with γ = d/n, λ' = λγ for weights that are not divided by √d; the target
    is c z* plus a part of variance 1/k − c² that no linear rule sees. Training risk is test risk
    times (λ'v)², the identity behind generalised cross-validation.
    """
    s, share, power = spectrum.eigenvalues, spectrum.fraction, spectrum.power
    gamma = 1 / alpha
    reg = ridge * gamma
    v = brentq(
        lambda v: 1 / v - reg - gamma * float(share @ (s / (1 + v * s))), 1e-12, 1e12, xtol=1e-15
    )
    shrunk = v * s / (1 + v * s)
    left = 1 - gamma * float(share @ shrunk**2)
    bias = c**2 * float(share @ (power / (1 + v * s) ** 2)) / left
    variance = (1 / k - c**2) * (1 - left) / left
    signal = c * float(share @ (power * shrunk))
    total = bias + variance + 1 / k - c**2
    return bias + variance, signal, total * (reg * v) ** 2


@pytest.mark.parametrize("spectrum", [TWO, pc.Teacher(2, features="power:1.3:400").features])
@pytest.mark.parametrize(("k", "noise"), [(2, "none"), (4, "flips:0.1")])
def test_square_loss_against_random_matrix_theory(spectrum, k, noise):
    teacher = pc.Teacher(k, noise=noise, features=spectrum)
    c = teacher.channel.signal(k)
    for alpha, ridge in ((0.5, 0.2), (3.0, 0.01), (1.0, 1e-6)):
        point = pc.erm_fixed_point(teacher, pc.ERM("square", ridge), alpha)
        risk, signal, training = random_matrix_risk(spectrum, c, k, alpha, ridge)
        assert point.m == pytest.approx(signal, rel=1e-9)
        assert point.q - 2 * c * point.m + c**2 == pytest.approx(risk, rel=1e-8)
        # Along (1, …, 1) the target is a constant 1/√k without any signal.
        along = random_matrix_risk(spectrum, 0.0, k, alpha, ridge)[2]
        loss = ((k - 1) * training + along) / 2
        assert point.training_loss == pytest.approx(loss, rel=1e-8)


def test_best_ridge_of_the_square_loss_is_noise_over_signal_where_every_weight_is_alike():
    """Equal θ: σ²/c² whatever the eigenvalues, as for Bayesian linear regression."""
    teacher = pc.Teacher(3, features="levels:5x0.3,0.2x0.7")
    channel = teacher.channel
    found = best_square_ridge(channel, 3, 0.8, teacher.features)
    assert found == pytest.approx(best_square_ridge(channel, 3), rel=1e-5)
    # A signal in the small directions only, which any ridge would hide: none is best.
    quiet = pc.Teacher(3, features="levels:10x0.1@0,1x0.9@1")
    assert pc.optimal_ridge(quiet, "square", 0.3) == 0
    least = pc.erm_fixed_point(quiet, pc.ERM("square", 0), 0.3).generalisation_error
    for ridge in (1e-3, 0.1, 1.0):
        some = pc.erm_fixed_point(quiet, pc.ERM("square", ridge), 0.3)
        assert some.generalisation_error > least


def test_bayes_depends_on_the_products_alone_and_a_ridge_does_not():
    moved = Spectrum(TWO.eigenvalues * [2.0, 0.5], TWO.signal / [2.0, 0.5], TWO.fraction)
    one, other = (pc.Teacher(3, noise="flips:0.05", features=s) for s in (TWO, moved))
    a, b = (pc.fixed_points(t, 2.0, branch="optimal")[0] for t in (one, other))
    assert a.q == pytest.approx(b.q, rel=1e-12)
    assert a.free_entropy == pytest.approx(b.free_entropy, rel=1e-12)
    ridge = [pc.erm_fixed_point(t, pc.ERM("square", 0.5), 2.0).m for t in (one, other)]
    assert abs(ridge[0] - ridge[1]) > 1e-3


def test_scale_of_inputs_and_fields_changes_nothing():
    scaled = Spectrum(7 * TWO.eigenvalues, 3 * TWO.signal, TWO.fraction)
    np.testing.assert_allclose(scaled.eigenvalues, TWO.eigenvalues, rtol=1e-14)
    np.testing.assert_allclose(scaled.signal, TWO.signal, rtol=1e-14)


@pytest.mark.parametrize("prior", ["gaussian", "rademacher", "ternary", "laplace"])
def test_bayes_overlap_is_the_slope_of_the_free_entropy(prior):
    """2 dψ/dq̂ = −r v with v from its own sum, by differences; and the curve's fixed point."""
    teacher = pc.Teacher(2 if prior == "laplace" else 3, prior, features=TWO)
    side, q_hat, step, mean = PriorSide(teacher, 0), np.array([0.7]), 1e-5, np.zeros(1, int)
    v, _ = side.moments(q_hat, mean)
    up, down = (side.moments(q_hat + s, mean)[1] for s in (step, -step))
    rank = teacher.reduced_rank
    assert float((up - down)[0] / step) / rank == pytest.approx(-float(v[0]), rel=1e-8)
    one = row_rule(teacher)(0.7 * TWO.power)[:, 0]
    assert float(v[0]) == pytest.approx(float((TWO.fraction * TWO.power) @ one), rel=1e-9)
    steps = pc.state_evolution(teacher, 2.0, 200)
    assert steps.q[-1] == pytest.approx(pc.fixed_points(teacher, 2.0, branch="amp")[0].q, rel=1e-9)


@pytest.mark.parametrize("prior", ["rademacher", "ternary", "laplace"])
def test_any_prior_at_one_eigenvalue_is_that_of_independent_features(prior):
    one, near = (pc.Teacher(2, prior, features=f) for f in ("isotropic", ALMOST))
    assert not near.features.flat
    for a, b in zip(*(pc.fixed_points(t, [0.5, 1.6]) for t in (one, near)), strict=True):
        assert a.branch == b.branch
        assert b.q == pytest.approx(a.q, abs=1e-8)
        assert b.free_entropy == pytest.approx(a.free_entropy, abs=1e-8)
    a, b = pc.transitions(one), pc.transitions(near)
    assert (a.alpha_it is None) == (b.alpha_it is None) == (prior == "laplace")
    if a.alpha_it is not None:
        assert b.alpha_it == pytest.approx(a.alpha_it, rel=1e-7)
        assert b.alpha_algo == pytest.approx(a.alpha_algo, rel=1e-7)


def test_many_eigenvalues_are_averaged_over_a_few():
    """A finite prior falls as exp(−q̂p): three nodes on short stretches against the whole sum."""
    teacher = pc.Teacher(2, "rademacher", features="power:1.1:4000")
    side, mean = PriorSide(teacher, 0), np.zeros(1, int)
    assert len(side.power) < 700
    for q_hat in (0.1, 3.0, 40.0, 900.0):
        v, psi = side.moments(np.array([q_hat]), mean)
        p, f = teacher.features.power, teacher.features.fraction
        one_v, one_psi = side.rows(q_hat * p, np.zeros(len(p), int))
        assert float(v[0]) == pytest.approx(float(one_v @ (p * f)), rel=1e-8)
        assert float(psi[0]) == pytest.approx(float(one_psi @ f), rel=1e-8)


def test_perfect_recovery_is_one_jump_of_all_eigenvalues():
    """Strong directions jump first, to an overlap below 1; the last jump ends at q̂ = ∞."""
    spectrum = Spectrum([100.0, 1.0], fraction=[0.8, 0.2])
    teacher = pc.Perceptron("rademacher", features=spectrum)
    curve, found = curve_of(teacher), pc.transitions(teacher)
    branches = curve.branches()
    assert [b.rising for b in branches] == [True, False, True, False]
    first, last = branches[0].alpha_at_high, branches[2].alpha_at_high
    assert found.alpha_algo == pytest.approx(last, rel=1e-9)
    assert first < 0.3 * found.alpha_it < found.alpha_algo
    assert curve.grid(0).alpha[-1] < 1e-3  # the curve comes down: no α without v = 0
    for alpha, strong, weak in (
        (0.95 * first, (0.4, 0.9), (0.0, 0.1)),
        (1.1 * first, (0.999, 1.0), (0.0, 0.3)),
        (0.99 * last, (0.999999, 1.0), (0.5, 0.99)),
        (1.01 * last, (1.0, 1.0), (1.0, 1.0)),
    ):
        (point,) = pc.fixed_points(teacher, alpha, branch="amp")
        steps = pc.state_evolution(teacher, alpha, 600)
        assert steps.q[-1] == pytest.approx(point.q, abs=1e-9)
        if math.isinf(point.q_hat):
            recovered = [1.0, 1.0]
        else:
            recovered = 1 - row_rule(teacher)(point.q_hat * spectrum.power)[:, 0]
        assert strong[0] <= recovered[0] <= strong[1]
        assert weak[0] <= recovered[1] <= weak[1]
    # Rows without signal stay unknown and count for nothing.
    half = pc.Perceptron("rademacher", features=Spectrum([1.0, 1.0], [1.0, 0.0]))
    whole = pc.transitions(pc.Perceptron("rademacher"))
    assert pc.transitions(half).alpha_it == pytest.approx(0.5 * whole.alpha_it, rel=1e-6)


def test_equal_products_are_independent_features_in_disguise():
    whitened = Spectrum([4.0, 0.25], [0.25, 4.0])
    a, b = (
        pc.fixed_points(t, 1.0)[0].q
        for t in (pc.Teacher(2, "rademacher", features=whitened), pc.Teacher(2, "rademacher"))
    )
    assert a == pytest.approx(b, rel=1e-12)
    # A ridge sees the variance of the weights only.
    one = pc.erm_fixed_point(pc.Teacher(2, "rademacher", features=TWO), pc.ERM("square", 1), 1.0)
    two = pc.erm_fixed_point(pc.Teacher(2, features=TWO), pc.ERM("square", 1), 1.0)
    assert one.m == two.m


def test_separability_does_not_know_the_spectrum():
    noise = "flips:0.1"
    flat, two = pc.Teacher(2, noise=noise), pc.Teacher(2, noise=noise, features=TWO)
    limit = pc.separability(flat).alpha_s
    assert pc.separability(two).alpha_s == limit
    above = [pc.erm_fixed_point(t, pc.ERM("cross-entropy", 0), 1.3 * limit) for t in (flat, two)]
    assert above[1].generalisation_error == pytest.approx(
        above[0].generalisation_error, abs=2e-6
    )  # without a ridge a linear map of the inputs changes nothing
    below = [pc.erm_fixed_point(t, pc.ERM("cross-entropy", 0), 0.6 * limit) for t in (flat, two)]
    assert abs(below[0].generalisation_error - below[1].generalisation_error) > 1e-3
    # The norm of max-margin diverges there for both: 1/q falls to 0.
    for teacher in (flat, two):
        q = [pc.erm_fixed_point(teacher, "max-margin", share * limit).q for share in (0.9, 0.99)]
        assert q[1] > 5 * q[0]
    half = pc.Teacher(2, noise=noise, features="marchenko-pastur:2")  # half of the directions
    assert pc.separability(half).alpha_s == pytest.approx(limit / 2)


def test_double_descent_of_the_square_loss_is_at_the_rank():
    for features, rank in ((TWO, 1.0), ("marchenko-pastur:2", 0.5)):
        teacher = pc.Teacher(2, features=features)
        at = [pc.erm_fixed_point(teacher, pc.ERM("square", 0), rank * x) for x in (0.5, 1, 1.5)]
        assert [str(p.status) for p in at] == ["ok", "diverges", "ok"]
        assert at[1].generalisation_error == 0.5
        assert max(at[0].generalisation_error, at[2].generalisation_error) < 0.45
        assert (at[0].training_error, at[0].training_loss) == (0.0, 0.0)
        tiny = pc.erm_fixed_point(teacher, pc.ERM("square", 1e-9), 0.5 * rank)
        assert tiny.generalisation_error == pytest.approx(at[0].generalisation_error, abs=1e-6)


@pytest.mark.parametrize(("a", "b"), [(1.5, 2.0), (2.0, 3.0)])
def test_exponents_under_power_laws_are_those_of_source_and_capacity(a, b):
    """Excess risk n^(−(b−1)/b) at the best ridge for sθ ∝ i^(−b), (b − 1) < 2a: the minimax rate.

    In the usual letters capacity a and source r, b = 1 + 2ra: the exponent is 2ra/(1 + 2ra).
    """
    d = 1e7  # so many that none is missed, in bins of neighbours
    edges = np.unique(np.round(np.geomspace(1, d, 400)))
    i = np.sqrt(edges[1:] * edges[:-1])
    features = Spectrum(i**-a, i ** (a - b), np.diff(edges))
    teacher = pc.Teacher(2, noise="gaussian:1", features=features)
    n = np.array([1000.0, 4000.0])
    expected = (b - 1) / b
    square = [
        1 / pc.erm_fixed_point(teacher, pc.ERM("square", "optimal"), x / d).tau ** 2 for x in n
    ]
    bayes = [pc.fixed_points(teacher, x / d, branch="optimal")[0].v for x in n]
    for values in (square, bayes):
        slope = -math.log(values[1] / values[0]) / math.log(n[1] / n[0])
        assert slope == pytest.approx(expected, abs=0.05)


def test_a_ridge_that_holds_back_nearly_everything_ends_where_the_plain_loop_does():
    teacher, student = pc.Teacher(2, noise="flips:0.2", features=TWO), pc.ERM(ridge=1e5)
    point, step = (
        pc.erm_fixed_point(teacher, student, 20.0),
        pc.erm_state_evolution(teacher, student, 20.0, 30)[-1],
    )
    assert point.m == pytest.approx(step.m, rel=1e-6)
    assert point.q == pytest.approx(step.q, rel=1e-6)


class ByLevels(Penalty):
    """A ridge that says only what it does to independent features."""

    name = "by-levels"

    def __init__(self, strength):
        self.strength = strength

    def denoise(self, gamma, precision):
        raise NotImplementedError

    def isotropic_law(self, hats, row):
        V = 1 / (self.strength + hats.V)
        return ScalarOrder.of_overlaps(hats.m * V, (hats.m**2 + hats.q) * V**2, V)


def test_a_penalty_of_one_level_is_carried_over_a_spectrum():
    hats, row = Conjugates(1.3, 0.8, 0.6), pc.Teacher(2).row
    one, other = ByLevels(0.4).law(hats, TWO, row), Ridge(0.4).law(hats, TWO, row)
    for name in ("m", "q", "V"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-12)
