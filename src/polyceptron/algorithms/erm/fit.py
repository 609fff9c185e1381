"""Empirical risk minimisers: Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F  (eq. optimization_ERM).

`fit_erm` fits one λ, `fit_erm_path` many on the same data. Every fit carries its certificate.
λ = 0 means the limit λ → 0⁺: max-margin for cross-entropy (in direction; normalised to a smallest
margin of 1), least norm for the square loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyceptron.algorithms.erm.cross_entropy import fit_cross_entropy_path
from polyceptron.algorithms.erm.max_margin import fit_max_margin
from polyceptron.algorithms.erm.objectives import Labels
from polyceptron.algorithms.erm.products import Array, Products
from polyceptron.algorithms.erm.reference import fit_with_sklearn
from polyceptron.algorithms.erm.result import (
    ERMFit,
    check_list,
    check_problem,
    check_ridge,
    check_solver,
    loss_name,
    require_converged,
)
from polyceptron.algorithms.erm.square import fit_square
from polyceptron.errors import InvalidInput
from polyceptron.model.arrays import as_numbers


def fit_erm(
    X: Any,
    y: Any,
    n_classes: int,
    loss: Any,
    ridge: float = 0.0,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    start: Any = None,
    strict: bool = False,
) -> ERMFit:
    """Fit X (n, d) and class indices y (n,) to relative distance `tol` of the minimiser.

    `loss` is 'cross-entropy', 'square' or 'max-margin' (which ignores the ridge); `start` (d, k)
    are weights to begin from. With `strict`, missing the tolerance raises ComputationFailed.

    >>> fit_erm([[1.0], [-1.0]], [0, 1], 2, "square", 1.0).weights.round(3).tolist()
    [[0.333, -0.333]]
    """
    return fit_erm_path(
        X, y, n_classes, loss, [ridge], solver=solver, tol=tol, start=start, strict=strict
    )[0]


def fit_erm_path(
    X: Any,
    y: Any,
    n_classes: int,
    loss: Any,
    ridges: Sequence[float],
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    start: Any = None,
    strict: bool = False,
) -> list[ERMFit]:
    """One fit per λ, in the order given; work on the data is shared between them.

    >>> from polyceptron.model import Teacher
    >>> X, y, _ = Teacher(3).sample(n_samples=200, dimension=50, seed=0)
    >>> fits = fit_erm_path(X, y, 3, "cross-entropy", [0.1, 1.0])
    >>> [fit.training_loss < 1 for fit in fits], fits[0].training_loss < fits[1].training_loss
    ([True, True], True)
    """
    X, y = check_problem(X, y, n_classes)
    name = loss_name(loss)
    check_solver(solver)
    if not isinstance(tol, int | float | np.number) or not 0 < tol < 1:
        raise InvalidInput(f"the tolerance must be a number between 0 and 1, got {tol!r}")
    values = [check_ridge(ridge) for ridge in check_list(ridges)]
    first = _check_start(start, X.shape[1], n_classes)
    products = Products(X)
    if solver == "sklearn":
        fits = [fit_with_sklearn(products, y, n_classes, name, v, tol=tol) for v in values]
    elif name == "square":
        fits = fit_square(products, y, n_classes, values, tol=tol)
    elif name == "max-margin":
        fits = [fit_max_margin(products, y, n_classes, tol=tol, start=first)] * len(values)
    else:
        fits = _cross_entropy_path(products, y, n_classes, values, tol, first)
    return [require_converged(fit, tol) for fit in fits] if strict else fits


def _cross_entropy_path(
    products: Products,
    y: Labels,
    n_classes: int,
    ridges: Sequence[float],
    tol: float,
    start: Array | None,
) -> list[ERMFit]:
    positive = [ridge for ridge in ridges if ridge > 0]
    done = fit_cross_entropy_path(products, y, n_classes, positive, tol=tol, start=start)
    if len(positive) < len(ridges):
        done[0.0] = fit_max_margin(products, y, n_classes, tol=tol)
    return [done[ridge] for ridge in ridges]


def _check_start(start: Any, dimension: int, n_classes: int) -> Array | None:
    if start is None:
        return None
    weights = as_numbers(start, "start").astype(float)
    if weights.shape != (dimension, n_classes) or not np.isfinite(weights).all():
        raise InvalidInput(
            f"start must be finite weights of shape {(dimension, n_classes)}, got {weights.shape}"
        )
    return weights
