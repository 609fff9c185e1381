"""Conjugate gradients for Newton's equations of several λ at once: (∂²ℓ-part + λ) D = −G.

The systems do not mix; they share the reads of X in each iteration, and drop out as they reach
their tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.algorithms.design import AnyArray, Array, Design
from polyceptron.algorithms.erm.objectives import Curvature

_MAX_ITERATIONS = 1000
_LOUD = 5.0  # times the mean square of a feature


def solve_newton(
    design: Design,
    curvature: Curvature,
    ridges: Array,
    gradients: Array,
    tolerance: Array,
    dtype: Any,
) -> Array:
    """Directions (L, r, d) with residuals below `tolerance` (L,) times the gradients' norms."""
    scale = np.sqrt(np.einsum("lij,lij->l", gradients, gradients))
    r: AnyArray = (-gradients / scale[:, None, None]).astype(dtype)
    shift = ridges.astype(dtype)[:, None, None]
    out = np.zeros_like(gradients)
    index = np.arange(len(r))
    diagonal = uneven_diagonal(design, curvature, ridges)
    ease = None if diagonal is None else (1 / diagonal).astype(dtype)[:, None]
    D, size = np.zeros_like(r), _squares(r)
    s = r if ease is None else r * ease
    p, rho = s.copy(), size if ease is None else _products(r, s)
    for _ in range(_MAX_ITERATIONS):
        Hp = design.through(p, curvature)[0]
        Hp += shift * p
        bend = np.einsum("lij,lij->l", p, Hp, dtype=np.float64)
        fine = bend > 0  # else rounding only: the Hessian is positive definite
        step = np.where(fine, rho / np.where(fine, bend, 1.0), 0.0).astype(dtype)[:, None, None]
        D += step * p
        r -= step * Hp
        last, size = rho, _squares(r)
        going = fine & (size > tolerance[index] ** 2)
        if not going.all():
            out[index[~going]] = D[~going]
            index = index[going]
            if index.size == 0:
                break
            D, r, p, shift = D[going], r[going], p[going], shift[going]
            last, size, curvature = last[going], size[going], curvature.take(going)
            ease = None if ease is None else ease[going]
        s = r if ease is None else r * ease
        rho = size if ease is None else _products(r, s)
        p *= (rho / last).astype(dtype)[:, None, None]
        p += s
    else:
        out[index] = D
    return out * scale[:, None, None]


def uneven_diagonal(design: Design, curvature: Curvature, ridges: Array) -> Array | None:
    """About the Hessian's diagonal (L, d) where some features are far louder than the rest.

    As the column of an intercept is; alike features need none, and go without, as do features that
    are dear to read.
    """
    if design.reading_is_dear:
        return None
    squares = design.column_squares
    if squares.max() <= _LOUD * squares.mean():
        return None
    return np.maximum(curvature.mean(), 0.0)[:, None] * squares + ridges[:, None]


def _squares(a: AnyArray) -> Array:
    return _products(a, a)


def _products(a: AnyArray, b: AnyArray) -> Array:
    result: Array = np.einsum("lij,lij->l", a, b, dtype=np.float64)
    return result
