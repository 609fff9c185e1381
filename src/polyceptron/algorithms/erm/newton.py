"""A Newton step by conjugate gradients, of problems side by side, and its length.

    (Σ_μ x̂_μ x̂_μᵀ ⊗ H_μ + λ) D = −G,   x̂ = x/√d

D comes in single precision where that will do (`directions`). A line search costs no pass over X,
since the fields are linear in U. The first axis of all arrays counts the problems: they do not mix,
but share every read of X.

Where the Hessian of all weights is small it is written out (`whole_hessian`): it gives Newton
steps, also without one sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.objectives import (
    Curvature,
    Evaluation,
    Objective,
)
from polyceptron.numerics import AnyArray, Array

Ease = Callable[[AnyArray, Labels], AnyArray]
"""Residuals (m, r, d) and which problems they are of, to about the inverse Hessians' images."""


def sample_matrices(curvature: Curvature, shape: tuple[int, ...]) -> AnyArray:
    """H_μ of every sample, (L, n, r, r), of problems with fields of the shape (L, r, n)."""
    count, r, n = shape
    bend = curvature.rows(slice(0, n))
    units = np.broadcast_to(np.eye(r)[:, None, :, None], (r, count, r, n))
    columns = np.array([bend(unit.copy())[0] for unit in units])  # (r, L, r, n): n is contiguous
    return columns.transpose(1, 3, 2, 0)


def whole_hessian(rows: AnyArray, H: AnyArray, ridge: Any) -> AnyArray:
    """Σ x̂x̂ᵀ ⊗ H + λ, (r·d, r·d), of rows x̂ (n, d) and matrices H (n, r, r); λ also (d,)."""
    d, r = rows.shape[1], H.shape[1]
    whole = np.empty((r, d, r, d), rows.dtype)
    for a in range(r):
        for b in range(a, r):
            whole[a, :, b] = (rows * H[:, a, b, None]).T @ rows
            whole[b, :, a] = whole[a, :, b].T
    flat = whole.reshape(r * d, r * d)
    flat[np.diag_indices(r * d)] += np.broadcast_to(ridge, (r, d)).ravel()
    return flat


def solve_newton(
    design: Design,
    curvature: Curvature,
    ridges: Array,
    gradients: Array,
    tolerance: Array,
    dtype: Any,
    ease: Ease | None = None,
) -> Array:
    """Directions (L, r, d) with residuals below `tolerance` (L,) times the gradients' norms.

    Eased by what is given, else by the diagonal where features are uneven.
    `ridges` (L,), or (L, d) where those of the features differ.
    """
    scale = np.sqrt(dots(gradients, gradients))
    r: AnyArray = (-gradients / scale[:, None, None]).astype(dtype)
    shift = by_feature(ridges).astype(dtype)
    out = np.zeros_like(gradients)
    index = np.arange(len(r))
    if ease is None:
        ease = _diagonal(design, curvature, ridges, dtype)
    D, size = np.zeros_like(r), dots(r, r)
    s = r if ease is None else ease(r, index)
    p, rho = s.copy(), size if ease is None else dots(r, s)
    for _ in range(1000):
        Hp = design.through(p, curvature)[0]
        Hp += shift * p
        bend = dots(p, Hp)
        fine = bend > 0  # else rounding only: the Hessian is positive definite
        step = np.where(fine, rho / np.where(fine, bend, 1.0), 0.0).astype(dtype)[:, None, None]
        D += step * p
        r -= step * Hp
        last, size = rho, dots(r, r)
        going = fine & (size > tolerance[index] ** 2)
        if not going.all():
            out[index[~going]] = D[~going]
            index = index[going]
            if index.size == 0:
                break
            D, r, p, shift = D[going], r[going], p[going], shift[going]
            last, size, curvature = last[going], size[going], curvature.take(going)
        s = r if ease is None else ease(r, index)
        rho = size if ease is None else dots(r, s)
        p *= (rho / last).astype(dtype)[:, None, None]
        p += s
    else:
        out[index] = D
    return out * scale[:, None, None]


def directions(
    design: Design,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    double: NDArray[np.bool_],
) -> Array:
    """Newton directions (L, r, d), in single precision or `double`."""
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


def _diagonal(design: Design, curvature: Curvature, ridges: Array, dtype: Any) -> Ease | None:
    """About the inverse of the Hessian's diagonal where some features are far louder than the rest.

    Or where their ridges differ, as that of an intercept does. Alike features need none, and go
    without, as do features that are dear to read.
    """
    if design.reading_is_dear and ridges.ndim == 1:
        return None
    if design.reading_is_dear:
        squares = np.full(design.dimension, float((design.row_norms**2).sum()) / design.dimension)
    else:
        squares = design.column_squares
    if ridges.ndim == 1 and squares.max() <= 5 * squares.mean():
        return None
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + by_feature(ridges)[:, 0]
    seen = diagonal > np.finfo(dtype).tiny  # else flat: an intercept where every p is 0 or 1
    inverse = np.where(seen, 1 / np.where(seen, diagonal, 1.0), 0.0).astype(dtype)[:, None]
    return lambda r, at: r * inverse[at]


def by_feature(ridges: Array) -> Array:
    """Ridges of each problem (L,), or of each of its features too (L, d), beside U (L, r, d)."""
    return ridges.reshape(len(ridges), 1, -1)


def dots(A: AnyArray, B: AnyArray) -> Array:
    """⟨A, B⟩ of each problem, (L,), in double precision."""
    return np.asarray(np.einsum("lij,lij->l", A, B, dtype=np.float64))


def line_search(
    design: Design,
    objective: Objective,
    ridges: Array,
    U: Array,
    Z: Array,
    here: Evaluation,
    G: Array,
    D: Array,
) -> tuple[Array, Evaluation, Array]:
    """Steps (L,) halved until the objective falls by the Armijo rule, 0 if it never does.

    Returns the evaluation there too, and the fields (L, r, n); Z are those at U.
    """
    slope = dots(G, D)
    ZD, pull = design.fields(D), by_feature(ridges)
    linear, quadratic = dots(pull * U, D), 0.5 * dots(pull * D, D)
    # Differences below the rounding of the sum carry no information: let them pass.
    noise = 4 * np.finfo(Z.dtype).eps * (np.abs(here.value) + 0.5 * dots(pull * U, U))
    step = np.where(slope < 0, 1.0, 0.0)
    open_, new, there = np.flatnonzero(step), Z.copy(), here
    for _ in range(40 if open_.size else 0):
        t = step[open_]
        new[open_] = Z[open_] + t.astype(Z.dtype)[:, None, None] * ZD[open_]
        trial = objective.take(open_).evaluate(new[open_])
        change = trial.value - here.value[open_] + t * linear[open_] + t * t * quadratic[open_]
        good = change <= 1e-4 * t * slope[open_] + noise[open_]
        there = trial if open_.size == len(step) else there.replace(open_, trial)
        if good.all():
            break
        open_ = open_[~good]
        step[open_] *= 0.5
    else:
        step[open_] = 0.0
        new[open_] = Z[open_]
        there = there.replace(open_, here.take(open_))
    return step, there, new
