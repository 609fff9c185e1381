"""Where unequal classes can be separated: known values, two ways of computing, and drawn data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad, simpson
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.special import expit
from scipy.stats import norm

import polyceptron as pc
from polyceptron.problem import Teacher
from polyceptron.problem.populations import Mixture
from polyceptron.theory import separability_unequal
from polyceptron.theory.separability_unequal import saddle_limit, separable_limit

pytestmark = pytest.mark.slow


def short(mean):
    """E(−u)₊² of u ~ N(mean, 1), by quadrature."""

    def integrand(u):
        return u * u * math.exp(-0.5 * (u - mean) ** 2) / math.sqrt(2 * math.pi)

    return quad(integrand, mean - 12, 0, points=[mean])[0]


@pytest.mark.parametrize("share", [0.5, 0.7, 0.95])
def test_random_labels_of_unequal_shares(share):
    """No signal: 1/α_s is the least of p E(h + b)₋² + (1 − p) E(h + b)₊²; without b it is 2."""
    nothing = Mixture((share, 1 - share), gram=np.zeros((2, 2)))
    least = minimize_scalar(lambda b: share * short(b) + (1 - share) * short(-b)).fun
    assert abs(separable_limit(nothing, True).value * least - 1) < 1e-7
    assert abs(separable_limit(nothing, False).value - 2) < 1e-9


def test_logit_with_intercept_is_the_formula_of_candes_and_sur():
    """P(y = 1) = σ(β₀ + γ₀x): 1/α = min over t₀, t₁ of E(t₀Y + t₁Yx − z)₊² (their theorem 1)."""
    beta, gamma = 0.8, 1.5
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    up, u = expit(beta + gamma * x), np.linspace(0, 40, 2001)

    def cost(t):
        at = t[0] + t[1] * x
        away = [simpson(u * u * norm.pdf(u + s * at[:, None]), x=u) for s in (1, -1)]
        return w @ (up * away[0] + (1 - up) * away[1])

    least = minimize(cost, [0.1, 0.1], method="Nelder-Mead").fun
    # Two fields z ± with slope β: their gap √2 z̃ has logit β√2.
    slope = gamma / math.sqrt(2)
    teacher = Teacher(2, noise=f"softmax:{slope}", biases=(beta / slope, 0.0))
    assert abs(separable_limit(teacher, True).value * least - 1) < 1e-6


@pytest.mark.parametrize("noise", ["softmax:1.41421356", "flips:0.05", "gaussian:1"])
def test_two_alike_classes_need_no_intercept(noise):
    expected = pc.separability(Teacher(2, noise=noise)).alpha_s
    for intercept in (False, True):
        found = separable_limit(Teacher(2, noise=noise), intercept)
        assert abs(found.value - expected) < 1e-8


def test_matrices_agree_with_scalars_and_with_closed_forms():
    teacher = Teacher(3, noise="softmax:1.5")
    found = saddle_limit(teacher, True)
    assert abs(found.value - pc.separability(teacher).alpha_s) < found.uncertainty
    assert found.uncertainty < 0.02
    unlike = Mixture((0.7, 0.3), gram=[[2, 0.5], [0.5, 1]], variances=(1, 0.5))
    for intercept in (True, False):
        exact, found = separable_limit(unlike, intercept), saddle_limit(unlike, intercept)
        assert abs(found.value - exact.value) < found.uncertainty
    # Random labels of three alike classes: 12/5.
    found = saddle_limit(Mixture(np.ones(3) / 3, gram=np.zeros((3, 3))), True)
    assert abs(found.value - 2.4) < found.uncertainty + 1e-4


def test_two_hard_classes_decide():
    """The third class is far away: what remains is to separate the first two, alone."""
    gram = np.diag([0.2, 0.2, 60.0])
    found = pc.separability(Mixture((0.5, 0.3, 0.2), gram=gram), intercept=True)
    two = separable_limit(Mixture((0.625, 0.375), gram=0.2 * np.eye(2)), True)
    assert abs(found.alpha_s - two.value / 0.8) < 1e-6


def separable(X, y, k, intercept):
    """Whether a linear program finds margins above 0."""
    n = len(X)
    X = np.hstack([X, np.ones((n, 1))]) if intercept else X
    rows = []
    for h in range(k):
        there = y != h
        part = np.zeros((there.sum(), k, X.shape[1]))
        part[np.arange(there.sum()), y[there]] = -X[there]
        part[:, h] += X[there]
        rows.append(part.reshape(len(part), -1))
    A = np.concatenate(rows)
    A = np.hstack([A, np.ones((len(A), 1))])
    cost = np.append(np.zeros(A.shape[1] - 1), -1.0)
    bounds = [(-1, 1)] * (A.shape[1] - 1) + [(0, 1)]
    return -linprog(cost, A, np.zeros(len(A)), bounds=bounds).fun > 1e-9


@pytest.mark.parametrize(
    ("population", "dimension"),
    [
        (Mixture((0.9, 0.1), gram=[[1, 0], [0, 1]], variances=(1, 2)), 60),
        (Teacher(2, noise="softmax:2", biases=(1.0, 0.0)), 60),
        (Mixture((0.6, 0.25, 0.15), gram=np.eye(3)), 14),
    ],
)
def test_drawn_data_lose_their_separability_there(population, dimension, monkeypatch):
    # A quarter of the points: a limit known to a per cent, and data 30 % below and 40 % above.
    fewer = separability_unequal.LOG2_POINTS_OF_THREE_CLASSES - 2
    monkeypatch.setattr(separability_unequal, "LOG2_POINTS_OF_THREE_CLASSES", fewer)
    k = population.n_classes
    for intercept in (True, False):
        limit = pc.separability(population, intercept=intercept).alpha_s
        for factor, expected in ((0.7, True), (1.4, False)):
            n = round(factor * limit * dimension)
            found = [
                separable(*population.sample(n, dimension, seed)[:2], k, intercept)
                for seed in range(3)
            ]
            assert sum(f == expected for f in found) >= 2


def test_biased_labels_are_not_separable_through_the_origin():
    """A noiseless teacher's own intercept is needed, however many samples: α_s is finite."""
    teacher, d = Teacher(2, biases=(0.5, -0.5)), 80
    limit = pc.separability(teacher).alpha_s
    for factor, expected in ((0.75, True), (1.3, False)):
        data = [teacher.sample(round(factor * limit * d), d, seed)[:2] for seed in range(3)]
        assert sum(separable(*each, 2, False) == expected for each in data) >= 2
        assert all(separable(*each, 2, True) for each in data)


def test_refusals_and_the_public_name():
    assert math.isinf(pc.separability(Teacher(3, biases=(0, 1, 2)), intercept=True).alpha_s)
    own = Mixture((0.5, 0.5), separation=1.0, levels=[[0.5, 1, 2], [0.5, 2, 1]])
    with pytest.raises(pc.InvalidInput, match="one covariance for all classes"):
        pc.separability(own)
    # A spectrum in common is whitened away.
    shared = Mixture((0.6, 0.4), gram=np.eye(2), levels=[[0.5, 1, 1], [0.5, 4, 4]])
    alike = Mixture((0.6, 0.4), gram=np.eye(2) * (0.5 + 0.5 / 4))
    both = [pc.separability(one, intercept=True).alpha_s for one in (shared, alike)]
    assert abs(both[0] - both[1]) < 1e-9
