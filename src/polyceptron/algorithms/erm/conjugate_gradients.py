"""Conjugate gradients for Newton's equations of several λ at once: (∂²ℓ-part + λ) D = −G.

The systems do not mix; they share the reads of X in each iteration, and drop out as they reach
their tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.algorithms.design import AnyArray, Array, Design
from polyceptron.algorithms.erm.descent import AtWork
from polyceptron.algorithms.erm.objectives import Curvature, Evaluation, Objective
from polyceptron.algorithms.erm.whole_hessian import Ease, Factors

_MAX_ITERATIONS = 1000
_LOUD = 5.0  # times the mean square of a feature


def solve_newton(
    design: Design,
    curvature: Curvature,
    ridges: Array,
    gradients: Array,
    tolerance: Array,
    dtype: Any,
    ease: Ease | None = None,
) -> tuple[Array, int]:
    """Directions (L, r, d) with residuals below `tolerance` (L,) times the gradients' norms.

    Eased by what is given, else by the diagonal where features are uneven; and the iterations.
    """
    scale = np.sqrt(np.einsum("lij,lij->l", gradients, gradients))
    r: AnyArray = (-gradients / scale[:, None, None]).astype(dtype)
    shift = ridges.astype(dtype)[:, None, None]
    out = np.zeros_like(gradients)
    index = np.arange(len(r))
    if ease is None:
        ease = _diagonal(design, curvature, ridges, dtype)
    D, size = np.zeros_like(r), _squares(r)
    s = r if ease is None else ease(r, index)
    p, rho = s.copy(), size if ease is None else _products(r, s)
    spent = 0
    while spent < _MAX_ITERATIONS:
        spent += 1
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
        s = r if ease is None else ease(r, index)
        rho = size if ease is None else _products(r, s)
        p *= (rho / last).astype(dtype)[:, None, None]
        p += s
    else:
        out[index] = D
    return out * scale[:, None, None], spent


def directions(
    design: Design,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    work: AtWork,
    factors: Factors | None,
) -> Array:
    """Newton directions (L, r, d) of the problems at work, each in the precision that it needs."""
    D = np.empty_like(G)
    due = factors is not None and factors.due
    if factors is not None:
        factors.due = False
    for dtype, chosen in ((np.float32, ~work.double), (np.float64, work.double)):
        if chosen.any():
            which, curvature = work.index[chosen], objective.curvature(here.take(chosen), dtype)
            if factors is not None and due:
                factors.make(which, curvature, ridges[chosen], G.shape[1])
            D[chosen], spent = solve_newton(
                design, curvature, ridges[chosen], G[chosen], tolerance[chosen], dtype,
                None if factors is None else factors.solver(which),
            )  # fmt: skip
            if factors is not None:
                factors.took(spent)
    return D


def _diagonal(design: Design, curvature: Curvature, ridges: Array, dtype: Any) -> Ease | None:
    """About the inverse of the Hessian's diagonal where some features are far louder than the rest.

    As the column of an intercept is; alike features need none, and go without, as do features that
    are dear to read.
    """
    if design.reading_is_dear:
        return None
    squares = design.column_squares
    if squares.max() <= _LOUD * squares.mean():
        return None
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + ridges[:, None]
    inverse = (1 / diagonal).astype(dtype)[:, None]
    return lambda r, at: r * inverse[at]


def _squares(a: AnyArray) -> Array:
    return _products(a, a)


def _products(a: AnyArray, b: AnyArray) -> Array:
    result: Array = np.einsum("lij,lij->l", a, b, dtype=np.float64)
    return result
