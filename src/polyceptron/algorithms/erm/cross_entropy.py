"""Cross-entropy with a ridge: min_W Σ_μ [ln Σ_h e^{z_h} − z_y] + (λ/2)‖W‖²_F,  λ > 0.

The minimiser has no part along (1, …, 1), so the solver works on k−1 columns. It starts from the
given weights, else from zero; Newton's method with conjugate gradients does the rest.
"""

from __future__ import annotations

import numpy as np

from polyceptron.algorithms.erm.newton import minimise
from polyceptron.algorithms.erm.objectives import CrossEntropy, Labels
from polyceptron.algorithms.erm.products import Array, Products
from polyceptron.algorithms.erm.result import ERMFit, error_rate
from polyceptron.rows import Status


def fit_cross_entropy(
    products: Products,
    y: Labels,
    n_classes: int,
    ridge: float,
    *,
    tol: float,
    start: Array | None = None,
    max_iter: int = 100,
) -> ERMFit:
    """The minimiser to relative distance `tol`, from `start` (d, k)."""
    objective = CrossEntropy(y, n_classes)
    before = products.passes
    if start is None:
        U = np.zeros((n_classes - 1, products.dimension))
    else:
        U = (start @ objective.basis).T
    found = minimise(products, objective, ridge, U, target=tol, max_iter=max_iter)
    return ERMFit(
        weights=found.U.T @ objective.basis.T,
        gradient_norm=found.gradient_norm,
        distance_bound=found.gradient_norm / ridge,
        n_iter=found.n_iter,
        matrix_passes=products.passes - before,
        training_loss=found.evaluation.value / y.size,
        training_error=error_rate(objective.basis @ found.Z, y),
        status=Status.OK if found.converged else Status.NOT_CONVERGED,
        ridge=ridge,
        loss="cross-entropy",
    )
