"""Message passing with prox and ridge lands on the minimiser that scikit-learn finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import polyceptron as pc
from polyceptron.message_passing.posterior_mean import amp_erm
from polyceptron.problem.losses import as_loss
from polyceptron.rows import Status

pytestmark = pytest.mark.slow


def reference(X: np.ndarray, y: np.ndarray, k: int, loss: str, ridge: float) -> np.ndarray:
    features = X / np.sqrt(X.shape[1])
    if loss == "square":
        model = Ridge(alpha=ridge, fit_intercept=False, solver="cholesky")
        return model.fit(features, np.eye(k)[y]).coef_.T
    model = LogisticRegression(
        C=1 / ridge, fit_intercept=False, solver="newton-cg", tol=1e-11, max_iter=2000
    )
    coef = model.fit(features, y).coef_
    if k == 2:  # one column for the difference of the classes, with half the penalty of two
        model.set_params(C=2 / ridge)
        coef = model.fit(features, y).coef_
        return np.vstack([-coef / 2, coef / 2]).T
    return coef.T


@pytest.mark.parametrize(
    ("k", "loss", "ridge", "alpha"),
    [
        (2, "cross-entropy", 0.5, 2.0),
        (3, "cross-entropy", 1.0, 2.0),
        (3, "cross-entropy", 0.02, 3.0),
        (6, "cross-entropy", 0.1, 3.0),
        (3, "square", 1.0, 2.0),
        (3, "square", 0.05, 1.2),
        (6, "square", 0.5, 0.6),
    ],
)
def test_weights_of_scikit_learn(k: int, loss: str, ridge: float, alpha: float) -> None:
    d = 200
    X, y, W = pc.Teacher(k).sample(round(alpha * d), d, [k, 1])
    result = amp_erm(X, y, loss, ridge, teacher_weights=W)
    assert result.status == Status.OK
    exact = reference(X, y, k, loss, ridge)
    assert np.linalg.norm(result.weights - exact) < 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("loss", ["cross-entropy", "square", "max-margin"])
def test_the_fixed_point_is_stationary(loss: str) -> None:
    """λŴ = −Xᵀ∇ℓ(z)/√d; max-margin, which has no gradient, must meet its least margin of 1."""
    d, k, ridge = 150, 3, 0.3
    X, y, _ = pc.Teacher(k).sample(225, d, 5)
    result = amp_erm(X, y, loss, ridge, max_iter=2000)
    assert result.status == Status.OK
    z = X @ result.weights / np.sqrt(d)
    if loss == "max-margin":
        gap = np.take_along_axis(z, y[:, None], 1) - z
        np.put_along_axis(gap, y[:, None], np.inf, 1)
        assert gap.min() == pytest.approx(1, abs=1e-6)
        return
    f = -as_loss(loss).gradient(z, y)
    np.testing.assert_allclose(ridge * result.weights, X.T @ f / np.sqrt(d), atol=1e-7)


def test_overlaps_of_the_theory() -> None:
    """The error of one instance at d = 600 is near the asymptotic one, cross-entropy."""
    d, k, ridge, alpha = 600, 3, 1.0, 3.0
    X, y, W = pc.Teacher(k).sample(round(alpha * d), d, 0)
    last = amp_erm(X, y, "cross-entropy", ridge, teacher_weights=W).trace[-1]
    theory = pc.erm_fixed_point(pc.Teacher(k), pc.ERM("cross-entropy", ridge), alpha)
    assert last["generalisation_error"] == pytest.approx(theory.generalisation_error, abs=0.02)
