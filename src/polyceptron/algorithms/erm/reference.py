"""scikit-learn's own minimisers of the same objectives: a cross-check, and `solver="sklearn"`.

Features X/√d, C = 1/λ, no intercept. scikit-learn's default tolerance leaves errors of percents
here, so the tolerance is tightened until the certificate is met.
"""

from __future__ import annotations

import warnings

import numpy as np

from polyceptron.algorithms.erm.objectives import CrossEntropy, Labels
from polyceptron.algorithms.erm.products import Array, Products
from polyceptron.algorithms.erm.result import ERMFit, error_rate
from polyceptron.errors import InvalidInput
from polyceptron.rows import Status


def fit_with_sklearn(
    products: Products, y: Labels, n_classes: int, loss: str, ridge: float, *, tol: float
) -> ERMFit:
    """The minimiser found by scikit-learn, with this package's certificate."""
    if loss == "max-margin" or ridge == 0:
        raise InvalidInput(
            "scikit-learn has no multi-class hard-margin or zero-ridge solver: use solver='auto'"
        )
    A = products.X * products.scale
    if loss == "square":
        from sklearn.linear_model import Ridge

        Y = np.eye(n_classes)[y]
        model = Ridge(alpha=ridge, fit_intercept=False).fit(A, Y)
        W = model.coef_.T
        fields = A @ W
        gradient = A.T @ (fields - Y) + ridge * W
        value = 0.5 * float(((fields - Y) ** 2).sum())
        return _result(W, gradient, value, fields, y, loss, ridge, tol, 1)
    if np.unique(y).size != n_classes:
        raise InvalidInput(
            "scikit-learn's cross-entropy solver needs at least one sample of every class"
        )
    objective = CrossEntropy(y, n_classes)
    strictness = tol * ridge
    for _ in range(3):
        W, n_iter = _logistic(A, y, n_classes, ridge, strictness)
        here = objective.evaluate((A @ W @ objective.basis).T[None])
        gradient = A.T @ (here.residual[0].T @ objective.basis.T) + ridge * W
        fit = _result(W, gradient, float(here.value[0]), A @ W, y, loss, ridge, tol, n_iter)
        if fit.status == Status.OK:
            break
        strictness /= 100
    return fit


def _logistic(A: Array, y: Labels, n_classes: int, ridge: float, tol: float) -> tuple[Array, int]:
    from sklearn.linear_model import LogisticRegression

    # With two classes scikit-learn fits the difference w of the two columns: ‖W‖² = ‖w‖²/2.
    strength = 2 / ridge if n_classes == 2 else 1 / ridge
    model = LogisticRegression(
        C=strength, fit_intercept=False, solver="newton-cg", tol=tol, max_iter=1000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the certificate says how good it is
        model.fit(A, y)
    W = model.coef_.T
    if n_classes == 2:
        W = np.hstack([-W, W]) / 2
    return W, int(np.max(model.n_iter_))


def _result(
    W: Array,
    gradient: Array,
    value: float,
    fields: Array,
    y: Labels,
    loss: str,
    ridge: float,
    tol: float,
    n_iter: int,
) -> ERMFit:
    norm = float(np.linalg.norm(gradient))
    met = norm <= tol * ridge * float(np.linalg.norm(W))
    return ERMFit(
        weights=W,
        gradient_norm=norm,
        distance_bound=norm / ridge,
        n_iter=n_iter,
        matrix_passes=float("nan"),
        training_loss=value / y.size,
        training_error=error_rate(fields.T, y),
        status=Status.OK if met else Status.NOT_CONVERGED,
        ridge=ridge,
        loss=loss,
    )
