"""Hinges and smoothed labels: theory against equations written here, limits and drawn data."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import fsolve
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.message_passing.posterior_mean import amp_erm
from polyceptron.problem import as_channel, as_loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FEW
from polyceptron.sides.fields.points import Points
from polyceptron.theory.erm.fixed_point import erm_fixed_point

pytestmark = pytest.mark.slow

KINKED = ["hinge", "weston-watkins", "squared-hinge"]
OTHERS = [*KINKED, "smoothed:0.2"]
D = 100  # features of drawn data


def fixed_point(k, loss, ridge, alpha, tol=None, **teacher):
    return erm_fixed_point(pc.Teacher(k, **teacher), pc.ERM(loss, ridge), alpha, tol)


def quadrature(alpha, ridge, noise):
    """ε of the two-class hinge, from integrals over the gap of two fields.

    The gap g is normal with variance 2q; training adds 2a to it, a = clip((1 − g)/2, 0, V), and
    the label is its own sign with probability Φ(slope·g).
    """

    def of(tau, q, V):
        spread, rho = math.sqrt(2 * q), tau / math.hypot(1, tau)
        blur = math.sqrt(2 * (1 / (1 + tau * tau) + noise))
        slope = rho / math.sqrt(q) / blur

        def mean(h):
            def integrand(g):
                density = math.exp(-0.5 * (g / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
                return 2 * density * h(g, min(max((1 - g) / 2, 0.0), V) / V)

            ends = [-9 * spread, 1 - 2 * V, 1.0, 9 * spread]
            cuts = sorted({max(x, ends[0]) for x in ends})
            parts = pairwise(cuts)
            return sum(quad(integrand, *part, epsabs=1e-13, epsrel=1e-12)[0] for part in parts)

        def bell(g):
            return math.exp(-0.5 * (slope * g) ** 2) / (blur * math.sqrt(2 * math.pi))

        M = mean(lambda g, a: 2 * a * bell(g))
        Q = mean(lambda g, a: 2 * a * a * ndtr(slope * g))
        C = mean(lambda g, a: (1 - 2 * V < g < 1) / V * ndtr(slope * g))
        return alpha * M, alpha * Q, alpha * C

    def off(theta):
        tau, q, V = np.exp(theta)
        m_hat, q_hat, V_hat = of(tau, q, V)
        new_V = 1 / (ridge + V_hat)
        new = m_hat / math.sqrt(q_hat), (m_hat**2 + q_hat) * new_V**2, new_V
        return theta - np.log(new)

    tau = math.exp(fsolve(off, np.log([2.0, 1.0, 0.8]), xtol=1e-13)[0])
    rho = tau / math.hypot(1, tau) / math.sqrt(1 + noise)
    return math.acos(rho) / math.pi


@pytest.mark.parametrize(("alpha", "ridge", "noise"), [(3.0, 0.5, 0.0), (6.0, 0.2, 0.3)])
def test_the_two_class_hinge_solves_its_scalar_equations(alpha, ridge, noise):
    name = f"gaussian:{noise}" if noise else "none"
    found = fixed_point(2, "hinge", ridge, alpha, 1e-9, noise=name)
    assert found.status == "ok"
    assert abs(found.generalisation_error - quadrature(alpha, ridge, noise)) < 1e-8
    same = fixed_point(2, "weston-watkins", ridge, alpha, 1e-9, noise=name)
    assert abs(found.generalisation_error - same.generalisation_error) < 1e-9


@pytest.mark.parametrize("loss", OTHERS)
@pytest.mark.parametrize("law", [ScalarOrder(1.3, 4.6, 0.4), ScalarOrder(0.9, 30.0, 8.0)])
def test_panels_on_the_kinks_agree_with_points_that_know_none(loss, law):
    loss, channel = as_loss(loss), as_channel("gaussian:0.3")
    panels = FEW[3].place(loss, channel, 3, law, 4)(law)
    assert panels.doubt(law, by_parts=1.0) < 1e-10  # total probability, and C = (m/q)M − D
    sampled = Points().place(loss, channel, 3, law, 3)(law)
    for name in ("M", "Q", "C", "loss", "error"):
        values = getattr(sampled, name)
        spread = values.std(ddof=1) / math.sqrt(len(values))
        assert abs(values.mean() - getattr(panels, name)[0]) < 4.5 * spread + 1e-9, name


@cache
def widest(k, tol):
    return fixed_point(k, "max-margin", 0, 1.5, tol)


@pytest.mark.parametrize("loss", KINKED)
def test_hinges_on_separable_labels_become_max_margin(loss):
    cases = [(2, 1e-6), (3, 1e-6), (4, 1e-3)]
    for k, tol in cases[: 2 if loss == "squared-hinge" else 3]:
        limit = widest(k, tol)
        near = fixed_point(k, loss, 1e-6, 1.5, tol)
        spread = limit.uncertainty + near.uncertainty
        assert abs(limit.generalisation_error - near.generalisation_error) < spread
        assert near.q == pytest.approx(limit.q, rel=1e-5 if k < 4 else 1e-3)
        assert fixed_point(k, loss, 0, 1.5, tol).generalisation_error == limit.generalisation_error


@pytest.mark.parametrize(
    ("k", "loss", "alpha", "ridge"),
    [(20, "weston-watkins", 0.1, 1e-4), (3, "weston-watkins", 0.1325, 3.123e-4)],
)
def test_a_loss_of_separable_labels_that_is_rounding_says_so(k, loss, alpha, ridge):
    """No sample is inside its margin: what is left is that of proximal points at V = 1e4."""
    found = erm_fixed_point(pc.Teacher(k, noise="flips:0.255"), pc.ERM(loss, ridge), alpha)
    assert 0 <= found.training_loss <= found.training_loss_uncertainty < 1e-8


def test_without_a_ridge_labels_that_are_not_separable_have_a_minimiser_of_their_own():
    noisy = {"noise": "gaussian:0.5"}
    none, small = (fixed_point(2, "hinge", ridge, 8.0, **noisy) for ridge in (0, 1e-7))
    assert abs(none.generalisation_error - small.generalisation_error) < 1e-6


@pytest.mark.parametrize("k", [2, 3, 4])
def test_labels_smoothed_by_nothing_are_those_of_cross_entropy(k):
    tol = 1e-6 if k < 4 else 1e-3
    plain = fixed_point(k, "cross-entropy", 0.2, 2.0, tol)
    for eps in ("0", "1e-7")[k == 4 :]:
        one = fixed_point(k, f"smoothed:{eps}", 0.2, 2.0, tol)
        spread = one.uncertainty + plain.uncertainty
        assert abs(one.generalisation_error - plain.generalisation_error) < spread
        assert abs(one.training_loss - plain.training_loss) < (
            1e-6 + one.training_loss_uncertainty + plain.training_loss_uncertainty
        )


def test_points_that_are_unlucky_are_within_their_bar():
    """Drawn from the model with three seeds: 0.510682, 0.510685 and 0.510684, ± 1e-5 each."""
    teacher = pc.Teacher(4, noise="flips:0.218", features="levels:19.83x0.27@2.22,1x0.73")
    point = erm_fixed_point(teacher, pc.ERM("smoothed:0.1", 2.542), 1.296)
    assert abs(point.generalisation_error - 0.510684) < point.uncertainty


@pytest.mark.parametrize(("k", "noise", "alpha"), [(3, "softmax:0.3", 17.2), (6, "flips:0.6", 20)])
def test_a_hinge_without_a_majority_has_no_weights(k, noise, alpha):
    """The ridge does not matter; a fit has none at d = 30 either; fewer data have some."""
    teacher = pc.Teacher(k, noise=noise)
    for ridge in (1e-3, 1e4) if k == 3 else (1e4,):
        point = erm_fixed_point(teacher, pc.ERM("hinge", ridge), alpha)
        assert (point.status, point.q, point.training_loss) == ("ok", 0.0, 1.0)
        assert point.generalisation_error == pytest.approx(1 - 1 / k)
    if k == 3:
        data = teacher.sample(n_samples=900, dimension=30, seed=1)
        weights = pc.fit_erm(data.X, data.y, "hinge", ridge=0.1).weights
        assert np.abs(weights - weights.mean(1, keepdims=True)).max() < 1e-9
        # λV is what is left of 1, on a line down to 0 at α = 17.148
        V = [erm_fixed_point(teacher, pc.ERM("hinge", 0.1), a).V for a in (17.06, 17.1, 17.14)]
        assert V[1] == pytest.approx((V[0] + V[2]) / 2, rel=1e-2)
        assert 17.1 + 0.04 * V[1] / (V[1] - V[2]) == pytest.approx(17.148, abs=1e-3)


def test_small_weights_may_lower_a_hinge_and_a_step_along_the_teacher_not():
    """At the scale of V the teacher pulls up, far beyond it down: there are no weights."""
    teacher = pc.Teacher(6, noise="gaussian:0.977", features="random-features:tanh:1.5")
    point = erm_fixed_point(teacher, pc.ERM("hinge", 1.253), 266.6)
    assert (point.status, point.q) == ("ok", 0.0)


def test_a_closed_form_knows_no_more_than_its_labels():
    """Chances of softmax labels are a table: with a penalty as with a ridge."""
    teacher = pc.Teacher(3, noise="softmax:1.722")
    for spec in (pc.ERM("square", 0.2), pc.ERM("square", penalty="elastic-net:0.02:0.2")):
        assert erm_fixed_point(teacher, spec, 0.5).uncertainty >= teacher.channel.accuracy


def test_two_smoothed_classes_add_observations_of_the_other():
    """Diaconis and Ylvisaker: the likelihood of labels t = 1 − ε/2 and ε/2."""
    z, y, eps = np.array([[0.3, -1.0], [2.0, 0.5]]), np.array([0, 1]), 0.2
    plain = as_loss("cross-entropy")
    both = (1 - eps / 2) * plain.value(z, y) + eps / 2 * plain.value(z, 1 - y)
    assert np.allclose(as_loss(f"smoothed:{eps}").value(z, y), both)


def test_the_smoothed_loss_is_least_at_its_labels():
    eps, k = 0.3, 4
    loss = as_loss(f"smoothed:{eps}")
    z = math.log1p((1 - eps) * k / eps) * np.eye(k)
    assert np.abs(loss.gradient(z, np.arange(k))).max() < 1e-15
    assert np.allclose(loss.probabilities(z), (1 - eps) * np.eye(k) + eps / k)


@cache
def drawn_fits(k, loss, noise):
    """Samples, their teacher's weights and message passing's, of four data sets: α = 3, λ = 0.5."""
    teacher, found = pc.Teacher(k, noise=noise), []
    for seed in range(4):
        X, y, W = teacher.sample(3 * D, D, seed)
        fit = amp_erm(X, y, loss, 0.5)
        assert fit.status == "ok"
        found.append((X / math.sqrt(D), y, W, fit.weights))
    return found


@pytest.mark.parametrize(
    ("k", "loss", "noise"),
    [
        (3, "hinge", "gaussian:0.3"),
        (3, "weston-watkins", "gaussian:0.3"),
        (4, "squared-hinge", "flips:0.1"),
        (3, "smoothed:0.2", "none"),
    ],
)
def test_theory_meets_message_passing_on_drawn_data(k, loss, noise):
    teacher = pc.Teacher(k, noise=noise)
    exact = erm_fixed_point(teacher, pc.ERM(loss, 0.5), 3.0, 1e-3)
    errors, losses = [], []
    for X, y, W, weights in drawn_fits(k, loss, noise):
        errors.append(pc.exact_generalisation_error(weights, W, noise=teacher.channel).value)
        losses.append(as_loss(loss).value(X @ weights, y).mean())
    for values, theory, bar in (
        (errors, exact.generalisation_error, exact.uncertainty),
        (losses, exact.training_loss, exact.training_loss_uncertainty),
    ):
        spread = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values) - theory) < 4 * spread + bar


def test_the_hinge_is_that_of_liblinear():
    from sklearn.svm import LinearSVC

    X, y, _ = pc.Teacher(3).sample(90, 30, 3)
    ours = amp_erm(X, y, "hinge", 0.3).weights
    machine = LinearSVC(
        C=1 / 0.3, multi_class="crammer_singer", fit_intercept=False, tol=1e-9, max_iter=100_000
    )
    theirs = machine.fit(X / math.sqrt(30), y).coef_.T
    assert np.linalg.norm(ours - theirs) < 1e-6 * np.linalg.norm(theirs)


@pytest.mark.parametrize("loss", ["squared-hinge", "smoothed:0.1"])
def test_smooth_ones_are_fitted_with_a_certificate(loss):
    X, y, _ = pc.Teacher(3).sample(200, 60, 4)
    fit = pc.fit_erm(X, y, loss, 0.3)
    assert fit.status == "ok"
    other = amp_erm(X, y, loss, 0.3).weights
    assert np.linalg.norm(fit.weights - other) < 1e-6 * np.linalg.norm(other)


@pytest.mark.parametrize("name", ["smoothed", "smoothed:1", "smoothed:-0.1", "smoothed:nan"])
def test_a_share_of_smoothed_labels_is_below_one(name):
    with pytest.raises(InvalidInput, match=r"must be"):
        as_loss(name)


def test_names_with_numbers_are_one_estimator():
    assert pc.ERM("smoothed:0.10", 0.1) == pc.ERM("smoothed:0.1", 0.1)
    assert pc.ERM("smoothed:0.1").name == "smoothed:0.1"
    frame = pc.learning_curve(pc.Teacher(2), pc.ERM("smoothed:0.1", 0.1), [1.0]).frame
    assert frame["estimator"].tolist() == ["smoothed:0.1"]


@pytest.mark.parametrize(("k", "loss"), [(2, "hinge"), (3, "hinge"), (3, "weston-watkins")])
def test_margins_of_training_samples_have_an_atom_at_one(k, loss):
    law = pc.margin_law(pc.Teacher(k, noise="gaussian:0.3"), pc.ERM(loss, 0.5), 3.0)
    assert np.trapezoid(law.training, law.margin) + law.atom == pytest.approx(1, abs=5e-3)
    shares = []
    for X, y, _, weights in drawn_fits(k, loss, "gaussian:0.3"):
        z = X @ weights
        own = z[np.arange(len(y)), y]
        z[np.arange(len(y)), y] = -np.inf
        shares.append(np.mean(np.abs(own - z.max(1) - 1) < 1e-4))
    spread = np.std(shares, ddof=1) / 2
    assert abs(np.mean(shares) - law.atom) < 4 * max(spread, 0.01)
