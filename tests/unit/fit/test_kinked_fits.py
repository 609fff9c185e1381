"""Fits of losses with kinks: scikit-learn's objective, the bound, and the limit of no ridge."""

import warnings

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

import polyceptron as pc
from polyceptron.fit.solvers.hinge_objective import HingeObjective
from polyceptron.problem.losses import as_loss


def objective(loss, X, y, W, ridge, weights=1.0):
    losses = as_loss(loss).value(X @ W / np.sqrt(X.shape[1]), y)
    return float((weights * losses).sum()) + ridge / 2 * float((W**2).sum())


def test_crammer_and_singers_objective_is_not_above_scikit_learns():
    X, y, _ = pc.Teacher(3, noise="gaussian:0.5").sample(200, 20, 0)
    fit = pc.fit_erm(X, y, "hinge", 1.0, strict=True, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = LinearSVC(multi_class="crammer_singer", C=1.0, fit_intercept=False, tol=1e-8)
        W = peer.fit(X / np.sqrt(20), y).coef_.T
    own, theirs = (objective("hinge", X, y, w, 1.0) for w in (fit.weights, W))
    assert own <= theirs + 1e-8 * theirs
    np.testing.assert_allclose(fit.weights, W - W.mean(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "weston-watkins"])
def test_the_bound_holds_and_no_other_weights_are_better(loss):
    X, y, _ = pc.Teacher(4, noise="flips:0.1").sample(100, 20, 1)
    weights = 1.0 + np.arange(100) % 3
    fit = pc.fit_erm(X, y, loss, 0.5, sample_weight=weights)
    loose = pc.fit_erm(X, y, loss, 0.5, sample_weight=weights, tol=1e-2)
    size = np.linalg.norm(fit.weights)
    assert fit.status == loose.status == "ok"
    assert fit.distance_bound <= 1.1e-5 * size
    assert np.linalg.norm(loose.weights - fit.weights) <= loose.distance_bound + fit.distance_bound
    best = objective(loss, X, y, fit.weights, 0.5, weights)
    rng = np.random.default_rng(0)
    for scale in (1e-1, 1e-3, 1e-4):
        for _ in range(10):
            moved = fit.weights + scale * rng.standard_normal(fit.weights.shape)
            assert objective(loss, X, y, moved, 0.5, weights) > best


@pytest.mark.parametrize("loss", ["hinge", "weston-watkins", "max-margin"])
def test_the_curvature_is_the_slope_of_the_gradient(loss):
    rng = np.random.default_rng(2)
    y, alpha = rng.integers(0, 4, 60), rng.random((4, 60)) / 3
    alpha[y, np.arange(60)] = 0.0
    smooth = HingeObjective(as_loss(loss), y, alpha, 2.0)
    Z, D = rng.standard_normal((2, 1, 3, 60))
    step = 1e-7
    here = smooth.evaluate(Z)
    moved = (smooth.evaluate(Z + step * D).residual - here.residual) / step
    bent = smooth.curvature(here, np.float64)(D)[0]
    kinks = np.abs(moved - bent).max(1)[0] > 1e-5  # a step may cross one
    assert kinks.sum() <= 1
    change = (smooth.evaluate(Z + step * D).value - here.value)[0] / step
    assert change == pytest.approx((here.residual * D).sum(), abs=1e-4)


def test_without_a_ridge_it_is_the_hard_margin():
    X, y, _ = pc.Teacher(3).sample(40, 30, 3)
    hard = pc.fit_erm(X, y, "max-margin")
    np.testing.assert_array_equal(pc.fit_erm(X, y, "hinge", 0.0).weights, hard.weights)
    small = pc.fit_erm(X, y, "hinge", 1e-2)
    np.testing.assert_allclose(small.weights, hard.weights, atol=1e-4 * np.abs(hard.weights).max())


def test_with_an_intercept_two_classes_are_a_support_vector_machine():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6)) + 1.0
    y = (X @ rng.standard_normal(6) + 2 * rng.standard_normal(150) > 3).astype(int)
    fit = pc.fit_erm(X, y, "hinge", 0.2, intercept=True)
    assert fit.status == "ok"
    peer = SVC(kernel="linear", C=2 / 0.2, tol=1e-10).fit(X / np.sqrt(6), y)
    w = fit.weights[:, 1] - fit.weights[:, 0]
    apart = np.linalg.norm(w - peer.coef_[0]) / np.sqrt(2)
    assert apart <= fit.distance_bound + 1e-6 * np.linalg.norm(fit.weights)
    assert fit.intercepts[1] - fit.intercepts[0] == pytest.approx(peer.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("loss", ["hinge", "weston-watkins"])
def test_with_an_intercept_no_step_is_below_the_certified_minimum(loss):
    """Strong convexity: at U the objective is at least P̂ + (λ/2)‖U − Ŵ‖², whatever b is."""
    rng = np.random.default_rng(1)
    X, ridge = rng.standard_normal((80, 5)), 0.3
    y = (X @ rng.standard_normal((5, 3)) + rng.standard_normal((80, 3)) + [1, 0, 0]).argmax(1)
    fit = pc.fit_erm(X, y, loss, ridge, intercept=True)
    assert fit.status == "ok"

    def at(W, b):
        z = X @ W / np.sqrt(5) + b
        return as_loss(loss).value(z, y).sum() + ridge / 2 * (W**2).sum()

    best = at(fit.weights, fit.intercepts)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            step, shift = size * rng.standard_normal((5, 3)), size * rng.standard_normal(3)
            step -= step.mean(1, keepdims=True)
            far = max(np.linalg.norm(step) - fit.distance_bound, 0.0)
            there = at(fit.weights + step, fit.intercepts + shift)
            assert there >= best - ridge / 2 * fit.distance_bound**2 + ridge / 2 * far**2
