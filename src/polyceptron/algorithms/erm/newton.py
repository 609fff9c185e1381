"""Newton's method with conjugate gradients: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d.

Each step solves (Hessian) D = −(gradient) by conjugate gradients in single precision, to a
loose tolerance; gradient and line search are in double precision, so the steps act as iterative
refinement and the answer has double-precision accuracy. A line search costs no pass over X, since
the fields are linear in U.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.erm.objectives import Curvature, Evaluation, Objective
from polyceptron.algorithms.erm.products import AnyArray, Array, Products

Direction = Callable[[Evaluation, Array], Array]

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_MAX_CG = 1000
_PATIENCE = 3  # slow steps next to the minimum, in double precision


@dataclass(frozen=True)
class Minimum:
    """U (k−1, d), its fields Z (k−1, n), the last evaluation, gradient norm and iterations."""

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: float
    n_iter: int
    converged: bool


def minimise(
    products: Products,
    objective: Objective,
    ridge: float,
    start: Array,
    *,
    target: float,
    direct: Direction | None = None,
    max_iter: int = 100,
) -> Minimum:
    """Minimise from `start` (k−1, d) until ‖gradient‖ ≤ target·λ‖U‖.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form.
    """
    U = np.array(start, dtype=float)
    Z = _fields(products, U)
    here = objective.evaluate(Z)
    dtype: Any = np.float32 if products.single_is_safe() else np.float64
    first = previous = math.inf
    fresh = True  # whether Z was computed from U, not updated
    n_iter = stalled = 0
    while True:
        G = products.back(here.residual) + ridge * U
        norm = float(np.linalg.norm(G))
        goal = target * ridge * float(np.linalg.norm(U))
        if norm <= goal and not fresh:
            Z, fresh = products.fields(U), True
            here = objective.evaluate(Z)
            continue
        if norm <= goal or n_iter == max_iter or not math.isfinite(norm):
            return Minimum(U, Z, here, norm, n_iter, norm <= goal)
        if math.isinf(first):
            first = norm
        elif norm > 0.5 * previous and norm < 1e-3 * first:
            # So close, Newton's method is fast: rounding holds it back, of the inner solve first.
            if dtype == np.float64:
                stalled += 1
            dtype = np.float64
            if stalled >= _PATIENCE:
                return Minimum(U, Z, here, norm, n_iter, False)
        previous = norm
        loosest = min(_LOOSE, math.sqrt(norm / first))
        tolerance = min(_LOOSE, max(loosest, 0.5 * goal / norm))
        if direct is not None:
            D = direct(here, G)
        else:
            curvature = objective.curvature(here, dtype)
            D = _conjugate_gradients(products, curvature, ridge, G, tolerance, dtype)
        moved = _line_search(products, objective, ridge, U, Z, here, G, D)
        n_iter += 1
        if moved is None:
            if dtype == np.float64 or direct is not None:
                return Minimum(U, Z, here, norm, n_iter, False)
            dtype = np.float64
            continue
        U, Z, here = moved
        fresh = False


def _fields(products: Products, U: Array) -> Array:
    """Fields of U without reading X when U = 0."""
    if not U.any():
        return np.zeros((U.shape[0], products.n_samples))
    return products.fields(U)


def _conjugate_gradients(
    products: Products,
    curvature: Curvature,
    ridge: float,
    gradient: Array,
    tolerance: float,
    dtype: Any,
) -> Array:
    """Conjugate gradients on (Hessian) D = −gradient, stopped at a relative residual."""
    scale = float(np.linalg.norm(gradient))
    r: AnyArray = (-gradient / scale).astype(dtype)
    D = np.zeros_like(r)
    p = r.copy()
    shift = r.dtype.type(ridge)
    rho = float(np.vdot(r, r))
    for _ in range(_MAX_CG):
        Hp = products.back(curvature(products.fields(p))) + shift * p
        bend = float(np.vdot(p, Hp))
        if not bend > 0:  # rounding only: the Hessian is positive definite
            break
        step = r.dtype.type(rho / bend)
        D += step * p
        r -= step * Hp
        rho, last = float(np.vdot(r, r)), rho
        if math.sqrt(rho) <= tolerance:
            break
        p *= r.dtype.type(rho / last)
        p += r
    return D.astype(float) * scale


def _line_search(
    products: Products,
    objective: Objective,
    ridge: float,
    U: Array,
    Z: Array,
    here: Evaluation,
    G: Array,
    D: Array,
) -> tuple[Array, Array, Evaluation] | None:
    """Halve the step until the objective falls by the Armijo rule; None if it never does."""
    slope = float(np.vdot(G, D))
    if not slope < 0:
        return None
    ZD = products.fields(D)
    UD, DD = ridge * float(np.vdot(U, D)), ridge * float(np.vdot(D, D))
    # Differences below the rounding of the sum carry no information: let them pass.
    noise = 4 * np.finfo(float).eps * (abs(here.value) + 0.5 * ridge * float(np.vdot(U, U)))
    step = 1.0
    for _ in range(40):
        there = objective.evaluate(Z + step * ZD)
        change = there.value - here.value + step * UD + 0.5 * step**2 * DD
        if change <= 1e-4 * step * slope + noise:
            return U + step * D, Z + step * ZD, there
        step *= 0.5
    return None
