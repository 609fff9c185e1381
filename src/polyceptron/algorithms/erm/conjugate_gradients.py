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
    D, p, rho = np.zeros_like(r), r.copy(), _squares(r)
    for _ in range(_MAX_ITERATIONS):
        Hp = design.through(p, curvature)[0]
        Hp += shift * p
        bend = np.einsum("lij,lij->l", p, Hp, dtype=np.float64)
        fine = bend > 0  # else rounding only: the Hessian is positive definite
        step = np.where(fine, rho / np.where(fine, bend, 1.0), 0.0).astype(dtype)[:, None, None]
        D += step * p
        r -= step * Hp
        last, rho = rho, _squares(r)
        going = fine & (rho > tolerance[index] ** 2)
        if not going.all():
            out[index[~going]] = D[~going]
            index = index[going]
            if index.size == 0:
                break
            D, r, p, shift = D[going], r[going], p[going], shift[going]
            last, rho, curvature = last[going], rho[going], curvature.take(going)
        p *= (rho / last).astype(dtype)[:, None, None]
        p += r
    else:
        out[index] = D
    return out * scale[:, None, None]


def _squares(a: AnyArray) -> Array:
    result: Array = np.einsum("lij,lij->l", a, a, dtype=np.float64)
    return result
