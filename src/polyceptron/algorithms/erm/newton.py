"""Steps that lower the objective, without a pass over X: the fields are linear in the weights.

Gradients of many problems side by side, their norms, and what rounding takes of the goal.

Conjugate gradients for Newton's equations of several λ at once: (∂²ℓ-part + λ) D = −G.

The systems do not mix; they share the reads of X in each iteration, and drop out as they reach
their tolerance.

Newton's method by conjugate gradients: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ.

Each step solves (Hessian) D = −(gradient) by conjugate gradients in single precision, to a
loose tolerance; gradient and line search are in double precision, so the steps act as iterative
refinement and the answer has double-precision accuracy. What rounding does to the gradient counts
against the goal (`rounding`). A line search costs no pass over X, since
the fields are linear in U. Several λ advance side by side: they do not mix, but share every read of
X, which is what the time goes into. The first axis of all arrays counts the λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.erm_fit import AtWork, Descent
from polyceptron.algorithms.erm.objectives import (
    Curvature,
    Evaluation,
    Objective,
    gradient_rounding,
)
from polyceptron.algorithms.erm.whole_hessian import Ease, Factors
from polyceptron.numerics import AnyArray, Array

_HALVINGS = 40


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
    for _ in range(_HALVINGS):
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


_RESERVE = 0.05  # of the rounding: no gradient need be smaller


def gradient(
    design: Design,
    objective: Objective,
    here: Evaluation,
    Z: Array,
    ridges: Array,
    U: Array,
    target: float,
) -> tuple[Array, Array, Array]:
    """Gradients (L, r, d), their norms (L,), and the norms to reach (L,), less what rounding takes.

    Rounding is asked for only where a gradient seems small enough.
    """
    G = design.back(here.residual) + ridges[:, None, None] * U
    norm, size = norms(G), norms(U)
    goal = target * ridges * size
    near = np.flatnonzero(norm <= goal)
    if near.size:
        part = here if near.size == len(norm) else here.take(near)
        rounding = rounding_of(
            design, objective, part, Z[near], ridges[near], size[near], goal[near] - norm[near]
        )
        goal[near] = np.maximum(goal[near] - rounding, _RESERVE * rounding)
    return G, norm, goal


def rounding_of(
    design: Design,
    objective: Objective,
    here: Evaluation,
    Z: Array,
    ridges: Array,
    norm: Array,
    enough: Array,
) -> Array:
    """Bounds (L,) on the rounding of the gradients, 0 for an objective that takes no account."""
    stiffness = objective.stiffness(here)
    if stiffness is None:
        return np.zeros(len(norm))
    sizes = [np.sqrt(np.einsum("lrn,lrn->ln", part, part)) for part in (Z, here.residual)]
    smoothness = objective.smoothness
    return gradient_rounding(
        design, norm, ridges, sizes[0], sizes[1], stiffness, smoothness, enough
    )


def dots(A: Array, B: Array) -> Array:
    """⟨A, B⟩ of each problem, (L,)."""
    result: Array = np.einsum("lij,lij->l", A, B)
    return result


def by_feature(ridges: Array) -> Array:
    """Ridges of each problem (L,), or of each of its features too (L, d), beside U (L, r, d)."""
    return ridges.reshape(len(ridges), 1, -1)


def norms(A: Array) -> Array:
    """Frobenius norm of each problem, (L,)."""
    return np.sqrt(dots(A, A))


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
    `ridges` (L,), or (L, d) where those of the features differ.
    """
    scale = np.sqrt(np.einsum("lij,lij->l", gradients, gradients))
    r: AnyArray = (-gradients / scale[:, None, None]).astype(dtype)
    shift = by_feature(ridges).astype(dtype)
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
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + by_feature(ridges)[:, 0]
    inverse = (1 / diagonal).astype(dtype)[:, None]
    return lambda r, at: r * inverse[at]


def _squares(a: AnyArray) -> Array:
    return _products(a, a)


def _products(a: AnyArray, b: AnyArray) -> Array:
    result: Array = np.einsum("lij,lij->l", a, b, dtype=np.float64)
    return result


Direction = Callable[[Evaluation, Array], Array]


class DescentKeeper(Protocol):
    """Where a descent is kept."""

    def load(self) -> Descent | None:
        """The descent that is there."""
        ...

    def save(self, at: Descent, *, now: bool = False) -> None:
        """Keep the descent, if it is time or now."""
        ...


_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision
_REPAIRS = 4  # more steps when fresh fields show that rounding had piled up


@dataclass(frozen=True)
class Minimum:
    """U (L, r, d), its fields Z (L, r, n), the evaluation there, and what was reached.

    The true gradient differs from the computed one, of norm `gradient_norm` (L,), by `rounding`
    (L,) at most; `converged` where their sum is within the target, or the minimum is 0 to rounding.
    """

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: Array
    rounding: Array
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]
    interrupted: bool = False


def minimise(
    design: Design,
    objective: Objective,
    ridges: Array,
    start: Array,
    *,
    target: float,
    direct: Direction | None = None,
    max_iter: int = 100,
    keeper: DescentKeeper | None = None,
    near: bool = False,
) -> Minimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. With a keeper the descent comes from there and goes
    there, and KeyboardInterrupt ends it where it is. `near`: the start is near the minimum, so that
    its Hessian may be worth writing down.
    """
    at = keeper.load() if keeper is not None else None
    if at is None:
        U = np.array(start, dtype=float)
        Z = design.fields(U) if U.any() else np.zeros((*U.shape[:2], design.n_samples))
        at = Descent(U, Z, np.zeros(len(U), dtype=np.int64), np.full(len(U), max_iter))
    try:
        factors = Factors.near(design, objective, ridges, start) if near else None
        return _minimum(design, objective, ridges, at, target, direct, max_iter, keeper, factors)
    except KeyboardInterrupt:
        if keeper is None:
            raise
        if at.whole:
            keeper.save(at, now=True)
        unknown = np.full(len(at.U), np.nan)
        here = objective.evaluate(at.Z)
        no = np.zeros(len(at.U), dtype=bool)
        return Minimum(at.U, at.Z, here, unknown, unknown, at.count, no, interrupted=True)


def _minimum(
    design: Design,
    objective: Objective,
    ridges: Array,
    at: Descent,
    target: float,
    direct: Direction | None,
    max_iter: int,
    keeper: DescentKeeper | None,
    factors: Factors | None,
) -> Minimum:
    while at.stage < 3:  # fields are updated along the way: the last word is with fresh ones
        if at.work is None:
            here = objective.evaluate(at.Z)
            norm, goal = gradient(design, objective, here, at.Z, ridges, at.U, target)[1:]
            todo = np.flatnonzero((norm > goal) & (at.count < at.limit))
            if todo.size == 0:
                break
            at.work = AtWork.begin(todo, single=design.single_is_quicker)
        _descend(design, objective, ridges, at, at.work.copy(), target, direct, keeper, factors)
        at.limit = np.minimum(at.count + _REPAIRS, max_iter)
        at.Z = design.fields(at.U)
        at.stage, at.work = at.stage + 1, None
    else:
        here = objective.evaluate(at.Z)
        norm = gradient(design, objective, here, at.Z, ridges, at.U, target)[1]
    bound = target * ridges * norms(at.U)
    rounding = rounding_of(design, objective, here, at.Z, ridges, norms(at.U), bound)
    found = Minimum(at.U, at.Z, here, norm, rounding, at.count, norm + rounding <= bound)
    return found if found.converged.all() else _zero_where_minimal(design, objective, ridges, found)


def _zero_where_minimal(
    design: Design, objective: Objective, ridges: Array, found: Minimum
) -> Minimum:
    """U = 0 where the gradient there is no more than rounding: no relative bound can be met."""
    Z = np.zeros_like(found.Z[:1])
    here = objective.evaluate(Z)
    norm = norms(design.back(here.residual))
    rounding = rounding_of(design, objective, here, Z, np.ones(1), np.zeros(1), norm)
    if norm[0] > rounding[0]:
        return found
    at = ~found.converged
    index = np.flatnonzero(at)
    repeated = here.take(np.zeros(index.size, dtype=np.int64))
    return Minimum(
        np.where(at[:, None, None], 0.0, found.U),
        np.where(at[:, None, None], 0.0, found.Z),
        found.evaluation.replace(index, repeated),
        np.where(at, norm, found.gradient_norm),
        np.where(at, rounding, found.rounding),
        found.n_iter,
        np.full(at.size, True),
    )


def _descend(
    design: Design,
    objective: Objective,
    ridges: Array,
    at: Descent,
    work: AtWork,
    target: float,
    direct: Direction | None,
    keeper: DescentKeeper | None,
    factors: Factors | None,
) -> None:
    """Newton steps in place, each λ at work until its goal, its patience or its limit."""
    U, Z, count, limit = at.U, at.Z, at.count, at.limit
    here = objective.evaluate(Z[work.index])
    while True:
        G, norm, goal = gradient(
            design, objective, here, Z[work.index], ridges[work.index], U[work.index], target
        )
        work.first = np.where(np.isinf(work.first), norm, work.first)
        _tell(design, ridges[work.index], U[work.index], here, norm, count, limit, target)
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
            D = directions(design, objective, here, ridges[work.index], G, tolerance, work, factors)
        chosen = work.index
        step, there, new = line_search(
            design, objective, ridges[chosen], U[chosen], Z[chosen], here, G, D
        )
        stuck = step == 0
        if direct is not None:
            work.stalled[stuck] = _PATIENCE
        work.stalled[stuck & work.double] = _PATIENCE
        work.double |= stuck
        at.whole = False
        count[chosen] += 1
        U[chosen] += step[:, None, None] * D
        Z[chosen] = new
        at.work, at.whole = work.copy(), True
        here = there
        if keeper is not None:
            keeper.save(at)


def _tell(
    design: Design,
    ridges: Array,
    U: Array,
    here: Evaluation,
    norm: Array,
    count: NDArray[np.int64],
    limit: NDArray[np.int64],
    target: float,
) -> None:
    """Report the problem that is furthest from its minimum."""
    size = norms(U)
    with np.errstate(divide="ignore"):
        distance = norm / (ridges * size)
    worst = int(distance.argmax())
    total = float(here.value[worst]) + 0.5 * float(ridges[worst] * size[worst] ** 2)
    design.watch.step(
        int(count.max()), int(limit.max()), float(distance[worst]), target, total / design.n_samples
    )
