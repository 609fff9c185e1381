"""scikit-learn's own minimisers of the same objectives: a cross-check, and `solver="sklearn"`.

Features X/√d, C = 1/λ, no intercept. scikit-learn's default tolerance leaves errors of percents
here, so the tolerance is tightened until the certificate is met.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from polyceptron.algorithms.data_checks import Labels, Samples
from polyceptron.algorithms.design import Array
from polyceptron.algorithms.erm.erm_fit import ERMFit, bound_in_weights
from polyceptron.algorithms.erm.gradients import rounding_of
from polyceptron.algorithms.erm.loss_objective import LossObjective
from polyceptron.errors import InvalidInput
from polyceptron.model.losses import Loss
from polyceptron.rows import Status

_TIGHTENINGS = 3


def fit_with_sklearn(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """The minimisers found by scikit-learn, with this package's certificate."""
    if loss.solver not in ("softmax", "least-squares") or 0 in ridges:
        raise InvalidInput(
            f"scikit-learn has no solver for the loss {loss.name!r} at these ridges (it has no "
            "multi-class hard-margin or zero-ridge solver): use solver='auto'"
        )
    if samples.weights is not None:
        raise InvalidInput("solver='sklearn' takes no sample_weight: use solver='auto'")
    A = samples.design.scaled_rows(slice(None))
    return [_fit(A, samples, loss, ridge, tol) for ridge in ridges]


def _fit(A: Array, samples: Samples, loss: Loss, ridge: float, tol: float) -> ERMFit:
    y, k = samples.y, samples.n_classes
    if loss.solver == "least-squares":
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=ridge, fit_intercept=False).fit(A, np.eye(k)[y])
        return _certified(samples, loss, ridge, model.coef_.T, 1, tol)
    if np.unique(y).size != k:
        raise InvalidInput(
            "scikit-learn's cross-entropy solver needs at least one sample of every class"
        )
    strictness = tol * ridge
    for _ in range(_TIGHTENINGS):
        fit = _certified(samples, loss, ridge, *_logistic(A, y, k, ridge, strictness), tol)
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


def _certified(
    samples: Samples, loss: Loss, ridge: float, W: Array, n_iter: int, tol: float
) -> ERMFit:
    """The certificate of weights W (d, k), by the loss's own gradient."""
    design, y, _ = samples
    objective = LossObjective(loss, y, samples.n_classes)
    U = (W @ objective.basis).T[None]
    Z = design.fields(U)
    here = objective.evaluate(Z)
    gradient = design.back(here.residual) + ridge * U
    norm, size = float(np.linalg.norm(gradient)), float(np.linalg.norm(U))
    enough = np.array([tol * ridge * size])
    rounding = float(
        rounding_of(design, objective, here, Z, np.array([ridge]), np.array([size]), enough)[0]
    )
    bound = (norm + rounding) / ridge
    return ERMFit(
        weights=W,
        gradient_norm=norm,
        distance_bound=bound_in_weights(bound, W),
        n_iter=n_iter,
        matrix_passes=float("nan"),
        training_loss=float(here.value[0]) / y.size,
        training_error=samples.error_rate(objective.basis @ Z[0]),
        status=Status.OK if bound <= tol * size else Status.TOLERANCE_NOT_MET,
        ridge=ridge,
        loss=loss.name,
    )
