"""What a fit returns, and the checks that every fit makes first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.erm.objectives import Labels
from polyceptron.algorithms.erm.products import Array
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model.arrays import as_numbers
from polyceptron.model.teacher import check_classes
from polyceptron.rows import Status

LOSSES = ("cross-entropy", "square", "max-margin")
SOLVERS = ("auto", "sklearn")


@dataclass(frozen=True)
class ERMFit:
    """Weights Ŵ (d, k) with the certificate of how close to the minimiser they are.

    ‖weights − minimiser‖_F ≤ distance_bound, by strong convexity (gradient norm over λ; for
    max-margin the square root of twice the duality gap). `status` is OK when the bound is within
    the asked tolerance times the norm of the weights. `matrix_passes` counts the reads of X, one
    in single precision being one half. `training_loss` is the mean per sample, without the ridge.
    """

    weights: Array
    gradient_norm: float
    distance_bound: float
    n_iter: int
    matrix_passes: float
    training_loss: float
    training_error: float
    status: Status
    ridge: float
    loss: str


def check_problem(X: Any, y: Any, n_classes: int) -> tuple[Array, Labels]:
    """X (n, d) as doubles and y (n,) as class indices below k, or a sentence."""
    X = as_numbers(X, "X").astype(float, copy=False)
    labels = np.asarray(y)
    if X.ndim != 2 or 0 in X.shape:
        raise InvalidInput(f"X must be a matrix of samples by features, got shape {X.shape}")
    if labels.shape != (X.shape[0],):
        raise InvalidInput(
            f"y must have one label per sample: X has {X.shape[0]}, y {labels.shape}"
        )
    if not np.isfinite(X).all():
        raise InvalidInput("X must be finite; it contains NaN or infinity")
    check_classes(n_classes)
    if not np.issubdtype(labels.dtype, np.integer):
        raise InvalidInput(f"y must hold class indices (whole numbers), got dtype {labels.dtype}")
    if labels.size and (labels.min() < 0 or labels.max() >= n_classes):
        raise InvalidInput(
            f"class indices must be 0 to {n_classes - 1}, got {labels.min()} to {labels.max()}"
        )
    return X, labels.astype(np.int64, copy=False)


def check_ridge(ridge: Any) -> float:
    """λ as a float that is finite and not negative, or a sentence."""
    try:
        value = float(ridge)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(ridge, bool) or not (math.isfinite(value) and value >= 0):
        raise InvalidInput(f"the ridge must be a finite number of 0 or more, got {ridge!r}")
    return value


def check_list(ridges: Any) -> list[Any]:
    """Several ridges as a list, or a sentence."""
    try:
        return [ridges] if isinstance(ridges, str) else list(ridges)
    except TypeError:
        raise InvalidInput(f"the ridges must be a list of numbers, got {ridges!r}") from None


def loss_name(loss: Any) -> str:
    """'cross-entropy', 'square' or 'max-margin' from a name or from an object that has one.

    >>> loss_name("cross_entropy")
    'cross-entropy'
    """
    name = str(getattr(loss, "name", loss)).replace("_", "-")
    if name not in LOSSES:
        raise InvalidInput(f"unknown loss {loss!r}: allowed are {', '.join(LOSSES)}")
    return name


def check_solver(solver: str) -> str:
    """A known solver, or a sentence."""
    if solver not in SOLVERS:
        raise InvalidInput(f"unknown solver {solver!r}: allowed are {', '.join(SOLVERS)}")
    return solver


def require_converged(fit: ERMFit, tol: float) -> ERMFit:
    """The fit itself, or a loud failure when its certificate misses the tolerance."""
    if fit.status != Status.OK:
        raise ComputationFailed(
            f"the {fit.loss} fit at ridge {fit.ridge:g} ended with status {fit.status}: its "
            f"weights are certified to within {fit.distance_bound:.2g} of the minimiser (norm "
            f"{np.linalg.norm(fit.weights):.3g}), the tolerance asked is {tol:g} relative; "
            "ask for a larger tolerance or ridge"
        )
    return fit


def error_rate(fields: Array, y: Labels) -> float:
    """The fraction of samples whose largest field (k, n) is not the label's."""
    return float((fields.argmax(0) != y).mean())
