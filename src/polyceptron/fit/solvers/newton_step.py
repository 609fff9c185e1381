"""Directions of Newton's method, (Σ_μ x̂_μ x̂_μᵀ ⊗ H_μ + λ) D = −G with x̂ = x/√d.

`solve_whole` solves with the whole matrix where the problem is small. `directions` uses conjugate
gradients, in single precision where that will do. Arrays are (L, r, d) for L problems side by side
in r coordinates of the fields and d features; their λ do not mix, but share every read of X.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyceptron.data.checks import Labels
from polyceptron.data.design import Design
from polyceptron.fit.solvers.objectives import Curvature, Evaluation, Objective
from polyceptron.numerics import AnyArray, Array

Mask: TypeAlias = NDArray[np.bool_]
Preconditioner = Callable[[AnyArray, Labels], AnyArray]
"""Residuals (m, r, d) and which problems they are of, to about the inverse Hessians' images."""

# Products for all of a Hessian, up to which it is solved for whole (bench_erm_solvers.py).
MOST_PRODUCTS_OF_A_WHOLE_HESSIAN = 3_000_000
# A feature whose squares are so many times the mean is louder than the rest: it is eased.
LOUD_FEATURE = 5.0
MOST_ITERATIONS = 1000
# In exact arithmetic, conjugate gradients need as many iterations as there are unknowns.
ITERATIONS_PER_UNKNOWN = 10


def by_feature(ridges: Array) -> Array:
    """Return ridges of each problem (L,), or of each of its features (L, d), beside U (L, r, d)."""
    return ridges.reshape(len(ridges), 1, -1)


def dots(A: AnyArray, B: AnyArray) -> Array:
    """Return ⟨A, B⟩ of each problem, (L,), in double precision."""
    return np.asarray(np.einsum("lij,lij->l", A, B, dtype=np.float64))


def sample_matrices(curvature: Curvature, shape: tuple[int, ...]) -> AnyArray:
    """Return H_μ of every sample, (L, n, r, r), of problems with fields of the shape (L, r, n)."""
    n_problems, r, n = shape
    units = np.broadcast_to(np.eye(r)[:, None, :, None], (r, n_problems, r, n))
    columns = np.array([curvature(unit.copy())[0] for unit in units])  # n is contiguous
    return columns.transpose(1, 3, 2, 0)


def whole_hessian(rows: AnyArray, H: AnyArray, ridge: Array | float) -> AnyArray:
    """Return Σ x̂x̂ᵀ ⊗ H + λ, (…, r·d, r·d).

    Parameters
    ----------
    rows : array (n, d)
        The x̂.
    H : array (…, n, r, r)
    ridge : float or array (…, d)
    """
    d = rows.shape[1]
    r = H.shape[-1]
    lead = H.shape[:-3]
    whole = np.empty((*lead, r, d, r, d), rows.dtype)
    for a, b in combinations_with_replacement(range(r), 2):
        block = (rows.T * H[..., None, :, a, b]) @ rows
        whole[..., a, :, b, :] = block
        whole[..., b, :, a, :] = block.swapaxes(-1, -2)
    np.einsum("...ijij->...ij", whole)[...] += np.broadcast_to(ridge, (*lead, d))[..., None, :]
    return whole.reshape(*lead, r * d, r * d)


def whole_is_quicker(design: Design, U: Array) -> bool:
    """Return whether problems with weights U (L, r, d) are small enough for whole Hessians."""
    n_products = U.size * U[0].size * design.n_samples
    return n_products <= MOST_PRODUCTS_OF_A_WHOLE_HESSIAN and not design.reading_is_dear


def solve_whole(
    design: Design, objective: Objective, here: Evaluation, ridges: Array, G: Array
) -> Array | None:
    """Return Newton directions (L, r, d) of a small smooth problem; None of others.

    None is returned of a singular Hessian too.
    """
    if objective.kinked or not whole_is_quicker(design, G):
        return None
    H = sample_matrices(objective.curvature(here, np.float64), here.residual.shape)
    whole = whole_hessian(design.scaled_rows(slice(None)), H, by_feature(ridges)[:, 0])
    with suppress(np.linalg.LinAlgError):
        D = np.asarray(np.linalg.solve(whole, -G.reshape(len(G), -1, 1))).reshape(G.shape)
        if (dots(D, G) < 0).all():
            return D
    return None


def directions(
    design: Design,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    double: Mask,
) -> Array:
    """Return Newton directions (L, r, d) by conjugate gradients.

    Parameters
    ----------
    here : Evaluation
        At the fields from which the step is taken.
    ridges : array (L,) or (L, d)
    G : array (L, r, d)
        The gradients.
    tolerance : array (L,)
        Residuals that may be left, in units of the gradients' norms.
    double : array of bool (L,)
        Which problems are solved in double precision.
    """
    D = np.empty_like(G)
    for dtype, chosen in ((np.float32, ~double), (np.float64, double)):
        if chosen.any():
            curvature = objective.curvature(here.take(chosen), dtype)
            with np.errstate(over="ignore", invalid="ignore"):
                D[chosen] = solve_newton(
                    design, curvature, ridges[chosen], G[chosen], tolerance[chosen], dtype
                )
    D[~np.isfinite(D).all(axis=(1, 2))] = 0.0  # beyond single precision: no step, then in double
    return D


def solve_newton(
    design: Design,
    curvature: Curvature,
    ridges: Array,
    gradients: Array,
    tolerance: Array,
    dtype: DTypeLike,
    ease: Preconditioner | None = None,
) -> Array:
    """Return directions (L, r, d) with residuals below `tolerance` (L,) times the gradients' norms.

    Without a preconditioner `ease`, the diagonal is one where features are uneven. Ridges are (L,)
    or (L, d).
    """
    scale = np.sqrt(dots(gradients, gradients))
    if ease is None:
        ease = diagonal_preconditioner(design, curvature, ridges, dtype)
    iteration = _ConjugateGradients(
        design,
        curvature,
        shift=by_feature(ridges).astype(dtype),
        tolerance=tolerance,
        residual=(-gradients / scale[:, None, None]).astype(dtype),
        ease=ease,
    )
    n_unknowns = gradients[0].size
    directions = iteration.run(min(MOST_ITERATIONS, ITERATIONS_PER_UNKNOWN * n_unknowns))
    return directions * scale[:, None, None]


@dataclass
class _ConjugateGradients:
    """Conjugate gradients of problems side by side; those that have arrived drop out.

    Attributes
    ----------
    shift : array (m, 1, 1) or (m, 1, d)
        The ridges.
    tolerance : array (L,)
        Norms of residuals at which a problem has arrived.
    residual, solution, direction, eased : array (m, r, d)
        Of the m problems that have not arrived; `eased` is the preconditioned residual.
    rho, size : array (m,)
        ⟨residual, eased⟩ and ‖residual‖².
    index : array (m,)
        Which problems these are.
    """

    design: Design
    curvature: Curvature
    shift: AnyArray
    tolerance: Array
    residual: AnyArray
    ease: Preconditioner | None
    solution: AnyArray = field(init=False)
    direction: AnyArray = field(init=False)
    eased: AnyArray = field(init=False)
    rho: Array = field(init=False)
    size: Array = field(init=False)
    index: Labels = field(init=False)

    def __post_init__(self) -> None:
        self.index = np.arange(len(self.residual))
        self.solution = np.zeros_like(self.residual)
        self.size = dots(self.residual, self.residual)
        self._precondition()
        self.direction = self.eased.copy()

    def run(self, most_iterations: int) -> Array:
        """Return the solutions (L, r, d) in double precision, after so many iterations at most."""
        found = np.zeros(self.residual.shape)
        for _ in range(most_iterations):
            arrived = self._advance()
            if arrived.any():
                found[self.index[arrived]] = self.solution[arrived]
                self._keep(~arrived)
                if self.index.size == 0:
                    return found
            self._turn()
        found[self.index] = self.solution
        return found

    def _advance(self) -> Mask:
        """Step along the directions, and return which problems have arrived (m,)."""
        image = self.design.through(self.direction, self.curvature)[0]
        image += self.shift * self.direction
        bend = dots(self.direction, image)
        is_positive = bend > 0  # else rounding only: the Hessian is positive definite
        length = np.where(is_positive, self.rho / np.where(is_positive, bend, 1.0), 0.0)
        step = length.astype(self.residual.dtype)[:, None, None]
        self.solution += step * self.direction
        self.residual -= step * image
        self.size = dots(self.residual, self.residual)
        return ~is_positive | (self.size <= self.tolerance[self.index] ** 2)

    def _keep(self, going: Mask) -> None:
        """Drop the problems that have arrived."""
        self.index = self.index[going]
        if self.index.size == 0:
            return
        self.solution = self.solution[going]
        self.residual = self.residual[going]
        self.direction = self.direction[going]
        self.shift = self.shift[going]
        self.rho = self.rho[going]
        self.size = self.size[going]
        self.curvature = self.curvature.take(going)

    def _turn(self) -> None:
        """Make the next directions, conjugate to the last ones."""
        before = self.rho
        self._precondition()
        self.direction *= (self.rho / before).astype(self.residual.dtype)[:, None, None]
        self.direction += self.eased

    def _precondition(self) -> None:
        if self.ease is None:
            self.eased = self.residual
            self.rho = self.size
        else:
            self.eased = self.ease(self.residual, self.index)
            self.rho = dots(self.residual, self.eased)


def diagonal_preconditioner(
    design: Design, curvature: Curvature, ridges: Array, dtype: DTypeLike
) -> Preconditioner | None:
    """Return about the inverse of the Hessian's diagonal, where some features are far louder.

    It is used too where the ridges of features differ, as that of an intercept does; others go
    without.
    """
    if design.reading_is_dear:
        mean_square = float((design.row_norms**2).sum()) / design.dimension
        squares = np.full(design.dimension, mean_square)
    else:
        squares = design.column_squares
    if ridges.ndim == 1 and squares.max() <= LOUD_FEATURE * squares.mean():
        return None
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + by_feature(ridges)[:, 0]
    is_seen = diagonal > np.finfo(dtype).tiny  # else flat: an intercept where every p is 0 or 1
    inverse = np.where(is_seen, 1 / np.where(is_seen, diagonal, 1.0), 0.0).astype(dtype)[:, None]

    def ease(residual: AnyArray, problems: Labels) -> AnyArray:
        """Divide the residual by the diagonal of the Hessian: the preconditioner."""
        return residual * inverse[problems]

    return ease
