"""A ridge of 0 on data: max-margin where they can be separated, else maximum likelihood."""

import math

import numpy as np
import pytest
from tests.fits import run_erm

import polyceptron as pc
from polyceptron.data.stored_designs import open_design
from polyceptron.fit import separation as maximum_likelihood
from polyceptron.fit.solvers.newton import newton_minimise
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective


def plain_newton(X, y, k):
    """Maximum likelihood with class 0 as the reference, by Newton's method on all unknowns."""
    d = X.shape[1]
    A, W = X / math.sqrt(d), np.zeros((d, k))
    hot = np.eye(k)[y]
    for _ in range(40):
        z = A @ W
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        G = (A.T @ (p - hot))[:, 1:].T.ravel()
        H = np.zeros(((k - 1) * d, (k - 1) * d))
        for i in range(1, k):
            for j in range(1, k):
                c = p[:, i] * ((i == j) - p[:, j])
                rows, columns = slice((i - 1) * d, i * d), slice((j - 1) * d, j * d)
                H[rows, columns] = (A * c[:, None]).T @ A
        W[:, 1:] -= np.linalg.solve(H, G).reshape(k - 1, d).T
    return W - W.mean(1, keepdims=True)


@pytest.mark.parametrize("way", ["dense", "lanczos"])
@pytest.mark.parametrize("k", [2, 3])
def test_the_minimiser_and_its_bound(k, way, monkeypatch):
    if way == "lanczos":
        monkeypatch.setattr(maximum_likelihood, "MAX_UNKNOWNS_OF_A_MATRIX", 0)
    X, y, _ = pc.Teacher(k, noise="flips:0.2").sample(300, 30, seed=0)
    expected = plain_newton(X, y, k)
    for tol in (1e-3, 1e-8):
        fit = pc.fit_erm(X, y, "cross-entropy", 0, tol=tol)
        assert fit.status == "ok"
        assert (fit.loss, fit.ridge) == ("cross-entropy", 0)
        assert np.linalg.norm(fit.weights - expected) <= fit.distance_bound
        assert fit.distance_bound <= 1.01 * tol * np.linalg.norm(fit.weights)
    found = fit.separability
    assert found.separable is False
    signed = -found.multipliers  # they prove that nothing separates: a ≥ 0 that balance
    rows = np.arange(len(y))
    assert found.multipliers.min() >= 0
    assert np.all(signed[rows, y] == 0)
    signed[rows, y] = found.multipliers.sum(1)
    residual = np.linalg.norm(X.T @ signed) / math.sqrt(30)
    assert residual == pytest.approx(found.residual, abs=1e-14)
    assert residual < 1e-6


@pytest.mark.parametrize("k", [2, 3])
def test_the_curvature_is_that_of_the_loss(k):
    """Against differences of gradients, in directions of the class basis."""
    X, y, _ = pc.Teacher(k, noise="flips:0.2").sample(80, 6, seed=0)
    design, objective = open_design(X), SoftmaxObjective(y, k)
    start = np.random.default_rng(0).standard_normal((1, k - 1, 6))
    found = newton_minimise(design, objective, np.ones(1), start, target=1e-2)
    U, h = found.U[0], 1e-5

    def slope(u):
        Z = design.fields(u.reshape(1, k - 1, 6))
        return design.back(objective.evaluate(Z).residual)[0].ravel()

    at, axes = U.ravel(), h * np.eye(U.size)
    columns = [(slope(at + e) - slope(at - e)) / (2 * h) for e in axes]
    expected = np.linalg.eigvalsh(np.array(columns))[0]
    dense = maximum_likelihood._smallest_curvature(design, objective, found)
    assert dense == pytest.approx(expected, rel=1e-5)


def test_separable_data_have_their_max_margin_weights():
    X, y, _ = pc.Teacher(3, noise="softmax:2").sample(100, 60, seed=0)
    fit = pc.fit_erm(X, y, "cross-entropy", 0)
    assert fit.loss == "max-margin"
    assert fit.separability.separable is True
    z = X @ fit.separability.weights / math.sqrt(60)
    margins = z[np.arange(100), y][:, None] - z
    assert np.sort(margins, 1)[:, 1].min() == pytest.approx(1)


def test_neither_is_said_and_ends():
    """Separable but for samples on the boundary: the likelihood has no maximum."""
    X = np.array([[1.0, 0], [2, 0], [0, 1], [0, -1], [-1, 0], [-2, 0], [0, 1]])
    fit = pc.fit_erm(X, [0, 0, 0, 0, 1, 1, 1], "cross-entropy", 0)
    assert fit.status == "not-converged"
    assert fit.separability is None
    assert math.isinf(fit.distance_bound)


def test_the_classifier_says_what_it_found():
    X, y, _ = pc.Teacher(2, noise="flips:0.2").sample(300, 20, seed=0)
    assert pc.ERMClassifier(ridge=0).fit(X, y).separability_.separable is False
    assert pc.ERMClassifier(ridge=0).fit(X[:15], y[:15]).separability_.separable is True
    assert pc.ERMClassifier().fit(X, y).separability_ is None
    with pytest.raises(pc.ComputationFailed, match="maximum-likelihood"):
        pc.ERMClassifier("max-margin").fit(X, y)


@pytest.mark.slow
def test_fits_follow_the_theory_and_not_that_of_more_samples():
    teacher, d, alpha = pc.Teacher(3, noise="softmax:2"), 150, 8.0
    runs = [run_erm(teacher, [pc.ERM("cross-entropy", 0)], alpha, d, seed)[0] for seed in range(6)]
    theory = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 0), alpha)
    wrong = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 0), 1.25 * alpha)
    for name in ("m", "q", "training_loss", "generalisation_error"):
        found = np.array([row[name] for row in runs])
        # a standard error of six runs is known to 30 %: five of them, and 1/d for the limit
        allowed = 5 * found.std(ddof=1) / math.sqrt(6) + 5 * getattr(theory, name) / d
        assert abs(found.mean() - getattr(theory, name)) < allowed
    assert abs(np.mean([row["q"] for row in runs]) - wrong.q) > 0.1 * wrong.q
