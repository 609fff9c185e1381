"""Newton's method by conjugate gradients: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ.

Each step solves (Hessian) D = −(gradient) by conjugate gradients in single precision, to a
loose tolerance; gradient and line search are in double precision, so the steps act as iterative
refinement and the answer has double-precision accuracy. A line search costs no pass over X, since
the fields are linear in U. Several λ advance side by side: they do not mix, but share every read of
X, which is what the time goes into. The first axis of all arrays counts the λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.erm.conjugate import solve_newton
from polyceptron.algorithms.erm.objectives import Evaluation, Objective
from polyceptron.algorithms.erm.products import Array, Products

Direction = Callable[[Evaluation, Array], Array]

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision
_HALVINGS = 40
_REPAIRS = 4  # more steps when fresh fields show that rounding had piled up


@dataclass(frozen=True)
class Minimum:
    """U (L, k−1, d), its fields Z (L, k−1, n), the evaluation there, and what was reached."""

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: Array
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]


@dataclass
class _Progress:
    """The λ still at work: their number in the batch and how their gradients have fallen."""

    index: NDArray[np.int64]
    first: Array
    previous: Array
    stalled: NDArray[np.int64]
    double: NDArray[np.bool_]  # whether the inner solves need double precision

    def keep(self, mask: NDArray[np.bool_]) -> None:
        for name in ("index", "first", "previous", "stalled", "double"):
            setattr(self, name, getattr(self, name)[mask])


def minimise(
    products: Products,
    objective: Objective,
    ridges: Array,
    start: Array,
    *,
    target: float,
    direct: Direction | None = None,
    max_iter: int = 100,
) -> Minimum:
    """Minimise from `start` (L, k−1, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form.
    """
    U = np.array(start, dtype=float)
    count = np.zeros(len(U), dtype=np.int64)
    Z = products.fields(U) if U.any() else np.zeros((*U.shape[:2], products.n_samples))
    limit = np.full(len(U), max_iter)
    for _ in range(3):  # fields are updated along the way: the last word is with fresh ones
        here = objective.evaluate(Z)
        norm, goal = _gradient_norm(products, here, ridges, U, target)[1:]
        todo = np.flatnonzero((norm > goal) & (count < limit))
        if todo.size == 0:
            break
        _descend(products, objective, ridges, U, Z, count, todo, target, direct, limit)
        limit = np.minimum(count + _REPAIRS, max_iter)
        Z = products.fields(U)
    else:
        here = objective.evaluate(Z)
        norm, goal = _gradient_norm(products, here, ridges, U, target)[1:]
    return Minimum(U, Z, here, norm, count, norm <= goal)


def _descend(
    products: Products,
    objective: Objective,
    ridges: Array,
    U: Array,
    Z: Array,
    count: NDArray[np.int64],
    todo: NDArray[np.int64],
    target: float,
    direct: Direction | None,
    limit: NDArray[np.int64],
) -> None:
    """Newton steps in place, each λ of `todo` until its goal, its patience or its limit."""
    infinite = np.full(todo.size, np.inf)
    safe = products.single_is_safe
    work = _Progress(
        todo, infinite, infinite.copy(), np.zeros(todo.size, np.int64), np.full(todo.size, not safe)
    )
    here = objective.evaluate(Z[todo])
    while True:
        G, norm, goal = _gradient_norm(products, here, ridges[work.index], U[work.index], target)
        work.first = np.where(np.isinf(work.first), norm, work.first)
        # So close, Newton's method is fast: if not, rounding holds it back, of the inner solve
        # first (which then goes on in double precision), of the gradient itself in the end.
        slow = (norm > 0.5 * work.previous) & (norm < 1e-3 * work.first)
        work.stalled += slow & work.double
        work.double |= slow
        going = (norm > goal) & (work.stalled < _PATIENCE) & (count[work.index] < limit[work.index])
        going &= np.isfinite(norm)
        work.previous = norm
        if not going.all():
            work.keep(going)
            here, G, norm, goal = here.take(going), G[going], norm[going], goal[going]
            if work.index.size == 0:
                return
        if direct is not None:
            D = direct(here, G)
        else:
            rest = np.minimum(_LOOSE, np.sqrt(norm / work.first))
            tolerance = np.minimum(_LOOSE, np.maximum(rest, 0.5 * goal / norm))
            D = _directions(
                products, objective, here, ridges[work.index], G, tolerance, work.double
            )
        step, there = _line_search(
            products, objective, ridges[work.index], U[work.index], Z, work.index, here, G, D
        )
        count[work.index] += 1
        stuck = step == 0
        if direct is not None:
            work.stalled[stuck] = _PATIENCE
        work.stalled[stuck & work.double] = _PATIENCE
        work.double |= stuck
        U[work.index] += step[:, None, None] * D
        here = there


def _gradient_norm(
    products: Products, here: Evaluation, ridges: Array, U: Array, target: float
) -> tuple[Array, Array, Array]:
    """Gradients (L, k−1, d), their norms (L,), and the norms to reach (L,)."""
    G = products.back(here.residual) + ridges[:, None, None] * U
    return G, _norms(G), target * ridges * _norms(U)


def _directions(
    products: Products,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    double: NDArray[np.bool_],
) -> Array:
    """Newton directions, each in the precision that its λ needs."""
    D = np.empty_like(G)
    for dtype, chosen in ((np.float32, ~double), (np.float64, double)):
        if chosen.any():
            curvature = objective.curvature(here.take(chosen), dtype)
            D[chosen] = solve_newton(
                products, curvature, ridges[chosen], G[chosen], tolerance[chosen], dtype
            )
    return D


def _line_search(
    products: Products,
    objective: Objective,
    ridges: Array,
    U: Array,
    Z: Array,
    index: NDArray[np.int64],
    here: Evaluation,
    G: Array,
    D: Array,
) -> tuple[Array, Evaluation]:
    """Steps (L,) halved until the objective falls by the Armijo rule, 0 if it never does.

    Moves the fields Z[index] along, and returns the evaluation there.
    """
    slope = _dots(G, D)
    ZD = products.fields(D)
    linear, quadratic = ridges * _dots(U, D), 0.5 * ridges * _dots(D, D)
    # Differences below the rounding of the sum carry no information: let them pass.
    noise = 4 * np.finfo(float).eps * (np.abs(here.value) + 0.5 * ridges * _dots(U, U))
    step = np.where(slope < 0, 1.0, 0.0)
    open_, old = np.flatnonzero(step), Z[index]
    new, there = old.copy(), here
    for _ in range(_HALVINGS):
        t = step[open_]
        new[open_] = old[open_] + t[:, None, None] * ZD[open_]
        trial = objective.evaluate(new[open_])
        change = trial.value - here.value[open_] + t * linear[open_] + t * t * quadratic[open_]
        good = change <= 1e-4 * t * slope[open_] + noise[open_]
        there = trial if open_.size == len(step) else there.replace(open_, trial)
        if good.all():
            break
        open_ = open_[~good]
        step[open_] *= 0.5
    else:
        step[open_] = 0.0
        new[open_] = old[open_]
        there = there.replace(open_, here.take(open_))
    Z[index] = new
    return step, there


def _dots(A: Array, B: Array) -> Array:
    result: Array = np.einsum("lij,lij->l", A, B)
    return result


def _norms(A: Array) -> Array:
    return np.sqrt(_dots(A, A))
