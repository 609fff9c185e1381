"""Square loss on one-hot labels: min_W ½‖AW − Y‖²_F + (λ/2)‖W‖²_F with A = X/√d, for every λ.

One eigendecomposition of the smaller Gram matrix serves every λ:

    n ≥ d:  (AᵀA + λ) W = AᵀY            n < d:  (AAᵀ + λ) C = Y,  W = AᵀC

Residuals are then computed from A itself and corrected through the same eigenvectors, which
removes the rounding that squaring the condition number brings in. λ = 0 is the solution of least
norm. All λ move together, so that the products with A are those of wide blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from polyceptron.algorithms.erm.objectives import Labels
from polyceptron.algorithms.erm.products import Array, Products
from polyceptron.algorithms.erm.result import ERMFit, error_rate
from polyceptron.rows import Status

_CORRECTIONS = 4
_BLOCK = 256  # columns treated at once: keeps memory bounded for long lists of λ


class _Gram:
    """The eigendecomposition of AᵀA (n ≥ d) or AAᵀ (n < d), and solves with any shift."""

    def __init__(self, A: Array) -> None:
        self.A = A
        self.tall = A.shape[0] >= A.shape[1]
        gram = A.T @ A if self.tall else A @ A.T
        values, self.vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        self.null = values <= max(A.shape) * np.finfo(float).eps * max(float(values[-1]), 0.0)
        self.values = np.where(self.null, 0.0, values)[:, None]
        positive = values[~self.null]
        self.smallest = float(positive[0]) if positive.size else 1.0

    def solve(self, right: Array, shift: Array) -> Array:
        """(Gram + λ)⁻¹ right, one λ per column; directions of zero stay zero where λ = 0."""
        total = self.values + shift
        inner = (self.vectors.T @ right) / np.where(total > 0, total, np.inf)
        result: Array = self.vectors @ inner
        return result

    def weights(self, solution: Array) -> Array:
        """W from the unknown that is solved for."""
        return solution if self.tall else self.A.T @ solution

    def convexity(self, ridge: float) -> float:
        """The least curvature of the objective among the weights that a solve can return."""
        if ridge > 0 and self.tall and self.null.any():
            return ridge
        return ridge + self.smallest


def fit_square(
    products: Products, y: Labels, n_classes: int, ridges: Sequence[float], *, tol: float
) -> list[ERMFit]:
    """One fit per λ, in the order given."""
    gram = _Gram(products.X * products.scale)
    products.passes += 1
    per_block = max(1, _BLOCK // n_classes)
    fits: list[ERMFit] = []
    for first in range(0, len(ridges), per_block):
        fits += _fit_block(gram, products, y, n_classes, ridges[first : first + per_block], tol)
    return fits


def _fit_block(
    gram: _Gram, products: Products, y: Labels, k: int, ridges: Sequence[float], tol: float
) -> list[ERMFit]:
    A, count = gram.A, len(ridges)
    before = products.passes
    shift = np.repeat(np.array(ridges, dtype=float), k)
    convexity = np.array([gram.convexity(ridge) for ridge in ridges])
    Y = np.eye(k)[y]
    tiled = np.tile(Y, count)
    solution = gram.solve(np.tile(A.T @ Y if gram.tall else Y, count), shift)
    for step in range(_CORRECTIONS + 1):
        W = gram.weights(solution)
        fields = A @ W
        misfit = tiled - fields
        residual = (A.T @ misfit if gram.tall else misfit) - shift * solution
        gradient = gram.weights(residual)
        products.passes += 2 if gram.tall else 3
        norms, sizes = _norms(gradient, k), _norms(W, k)
        bounds = norms / convexity
        if (bounds <= tol * sizes).all() or step == _CORRECTIONS:
            break
        solution = solution + gram.solve(residual, shift)
    met = bounds <= tol * sizes
    losses = 0.5 * _norms(misfit, k) ** 2 / y.size
    return [
        ERMFit(
            weights=np.ascontiguousarray(W[:, i * k : (i + 1) * k]),
            gradient_norm=float(norms[i]),
            distance_bound=float(bounds[i]),
            n_iter=step + 1,
            matrix_passes=(products.passes - before) / count,
            training_loss=float(losses[i]),
            training_error=error_rate(fields[:, i * k : (i + 1) * k].T, y),
            status=Status.OK if met[i] else Status.NOT_CONVERGED,
            ridge=ridge,
            loss="square",
        )
        for i, ridge in enumerate(ridges)
    ]


def _norms(columns: Array, k: int) -> Array:
    """Frobenius norm of each consecutive group of k columns."""
    squares = np.einsum("ij,ij->j", columns, columns)
    result: Array = np.sqrt(squares.reshape(-1, k).sum(1))
    return result
