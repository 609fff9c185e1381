"""Newton's method by conjugate gradients: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ.

    (Σ_μ x̂_μ x̂_μᵀ ⊗ H_μ + λ) D = −G,   x̂ = x/√d

Each step solves for D by conjugate gradients in single precision, to a loose tolerance
(`directions`); gradient and line search are in double precision, so the steps act as iterative
refinement and the answer has double-precision accuracy. What rounding does to the gradient counts
against the goal (`gradient_rounding`). A line search costs no pass over X, since the fields are
linear in U. Several λ advance side by side: they do not mix, but share every read of X, which is
what the time goes into, and drop out as they reach their goal. The first axis of all arrays counts
the λ.

Where the Hessian of all weights is small it is written out (`whole_hessian`): it gives Newton
steps, also without one sample; and one of problems that differ little (`SharedFactor`) makes
conjugate gradients end in a few iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.objectives import (
    Curvature,
    Evaluation,
    Objective,
    gradient_rounding,
)
from polyceptron.algorithms.watching import Kept
from polyceptron.numerics import AnyArray, Array

Ease = Callable[[AnyArray, Labels], AnyArray]
"""Residuals (m, r, d) and which problems they are of, to about the inverse Hessians' images."""

_NUMBERS = 20_000_000  # of all factors


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


class SharedFactor:
    """A Cholesky factor in single precision, made once solves get long.

    It is that of the mean Hessian of problems that differ little, `shape` (L, r, d).
    """

    def __init__(self, design: Design, shape: tuple[int, ...]) -> None:
        (n, d), (count, r) = design.shape, shape[:2]
        self.design, self._shape, self._due = design, (count, r, n), False
        self._factor: Any = None
        numbers = max((r * d) ** 2, count * n * r * r)
        small = r * d <= 1200 and numbers <= _NUMBERS and design.may_be_copied
        # In iterations: an operation of large products takes 0.3 of one of thin ones.
        price = 0.3 * (d * (r + 1) / 4 + (r * d) ** 2 / (12 * n))
        self._patience = 0.1 * price if small else np.inf  # there will be ten solves

    @cached_property
    def _rows(self) -> AnyArray:
        return self.design.scaled_rows(slice(None)).astype(np.float32)

    def took(self, iterations: int) -> None:
        """A solve's iterations: after a long one, a new factor is due."""
        if iterations > self._patience and self.design.single_is_quicker:
            self._due = True

    def at(self, curvature: Curvature, ridges: Array) -> Ease | None:
        """What replaces the inverse Hessians, made anew here if that is due."""
        if self._due:
            self._due = False
            H = sample_matrices(curvature, self._shape).astype(np.float32).mean(0)
            whole = whole_hessian(self._rows, H, ridges[0])
            try:
                self._factor = scipy.linalg.cholesky(
                    whole, lower=True, overwrite_a=True, check_finite=False
                )
            except np.linalg.LinAlgError:  # more digits are needed: never mind
                self._factor, self._patience = None, np.inf
        return None if self._factor is None else self._solve

    def _solve(self, r: AnyArray, at: Labels) -> AnyArray:
        """Residuals (m, r, d), each times about the inverse Hessian."""
        flat = r.reshape(len(r), -1).astype(np.float32, copy=False)
        solved = scipy.linalg.cho_solve((self._factor, True), flat.T, check_finite=False)
        return np.asarray(solved.T.astype(r.dtype, copy=False)).reshape(r.shape)


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
    spent = 0
    while spent < 1000:
        spent += 1
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
    return out * scale[:, None, None], spent


def directions(
    design: Design,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    double: NDArray[np.bool_],
    factor: SharedFactor | None = None,
) -> Array:
    """Newton directions (L, r, d), in single precision or `double`; a factor is of all problems."""
    D = np.empty_like(G)
    for dtype, chosen in ((np.float32, ~double), (np.float64, double)):
        if chosen.any():
            curvature = objective.curvature(here.take(chosen), dtype)
            ease = None if factor is None else factor.at(curvature, ridges[chosen])
            with np.errstate(over="ignore", invalid="ignore"):
                D[chosen], spent = solve_newton(
                    design, curvature, ridges[chosen], G[chosen], tolerance[chosen], dtype, ease
                )
            if factor is not None:
                factor.took(spent)
    D[~np.isfinite(D).all(axis=(1, 2))] = 0.0  # beyond single precision: no step, then in double
    return D


def _diagonal(design: Design, curvature: Curvature, ridges: Array, dtype: Any) -> Ease | None:
    """About the inverse of the Hessian's diagonal where some features are far louder than the rest.

    As the column of an intercept is; alike features need none, and go without, as do features that
    are dear to read.
    """
    if design.reading_is_dear:
        return None
    squares = design.column_squares
    if squares.max() <= 5 * squares.mean():
        return None
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + by_feature(ridges)[:, 0]
    inverse = (1 / diagonal).astype(dtype)[:, None]
    return lambda r, at: r * inverse[at]


def by_feature(ridges: Array) -> Array:
    """Ridges of each problem (L,), or of each of its features too (L, d), beside U (L, r, d)."""
    return ridges.reshape(len(ridges), 1, -1)


def dots(A: AnyArray, B: AnyArray) -> Array:
    """⟨A, B⟩ of each problem, (L,), in double precision."""
    return np.asarray(np.einsum("lij,lij->l", A, B, dtype=np.float64))


Direction = Callable[[Evaluation, Array], Array]

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision


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


def norms(A: Array) -> Array:
    """Frobenius norm of each problem, (L,)."""
    return np.sqrt(dots(A, A))


@dataclass
class AtWork:
    """The λ still at work: their number in the batch and how their gradients have fallen."""

    index: NDArray[np.int64]
    first: Array
    previous: Array
    stalled: NDArray[np.int64]
    double: NDArray[np.bool_]  # whether the inner solves need double precision

    def keep(self, mask: NDArray[np.bool_]) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[mask])


@dataclass
class Descent:
    """U (L, r, d) and its fields Z (L, r, n), the steps made and allowed (L,), and who is at work.

    `stage` counts how often the fields were made afresh; `whole` is False while U and Z move. All
    of it is as it was at the end of a step: an interrupted one has not happened.
    """

    U: Array
    Z: Array
    count: NDArray[np.int64]
    limit: NDArray[np.int64]
    stage: int = 0
    work: AtWork | None = None
    whole: bool = True


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
    keeper: Kept | None = None,
) -> Minimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. With a keeper the descent comes from there and goes
    there, and KeyboardInterrupt ends it where it is. With a `max_iter` of 0 it is the certificate
    of `start`.
    """
    saved = keeper.load() if keeper is not None else None
    if saved is not None:
        work = AtWork(**saved["work"]) if "work" in saved else None
        at = Descent(**saved | {"work": work})
    else:
        U = np.array(start, dtype=float)
        Z = design.fields(U) if U.any() else np.zeros((*U.shape[:2], design.n_samples))
        at = Descent(U, Z, np.zeros(len(U), dtype=np.int64), np.full(len(U), max_iter))
    try:
        newton = _Newton(design, objective, ridges, target, direct, max_iter, keeper)
        return newton.minimum(at)
    except KeyboardInterrupt:
        if keeper is None:
            raise
        if at.whole:
            keeper.save(partial(asdict, at), now=True)
        unknown = np.full(len(at.U), np.nan)
        here = objective.evaluate(at.Z)
        no = np.zeros(len(at.U), dtype=bool)
        return Minimum(at.U, at.Z, here, unknown, unknown, at.count, no, interrupted=True)


@dataclass(frozen=True)
class _Newton:
    """What does not change on the way down."""

    design: Design
    objective: Objective
    ridges: Array
    target: float
    direct: Direction | None
    max_iter: int
    keeper: Kept | None

    def minimum(self, at: Descent) -> Minimum:
        """Descents, each followed by fresh fields: those of the way are updated along it."""
        design, every = self.design, np.arange(len(at.U))
        while at.stage < 3:
            if at.work is None:
                here = self.objective.evaluate(at.Z)
                norm, goal = self.gradient(here, at, every)[1:]
                todo = np.flatnonzero((norm > goal) & (at.count < at.limit))
                if todo.size == 0:
                    break
                far, double = np.full(todo.size, np.inf), not design.single_is_quicker
                at.work = AtWork(todo, far, far, 0 * todo, np.full(todo.size, double))
            self.descend(at, AtWork(**asdict(at.work)))
            at.limit = np.minimum(at.count + 4, self.max_iter)  # to repair what had piled up
            at.Z = design.fields(at.U)
            at.stage, at.work = at.stage + 1, None
        else:
            here = self.objective.evaluate(at.Z)
            norm = self.gradient(here, at, every)[1]
        size = norms(at.U)
        bound = self.target * self.ridges * size
        rounding = self.rounding(here, at.Z, self.ridges, size, bound)
        met = norm + rounding <= bound
        found = Minimum(at.U, at.Z, here, norm, rounding, at.count, met)
        return found if met.all() else self.zero_where_minimal(found)

    def zero_where_minimal(self, found: Minimum) -> Minimum:
        """U = 0 where the gradient there is no more than rounding: no relative bound can be met."""
        Z = np.zeros_like(found.Z[:1])
        here = self.objective.evaluate(Z)
        norm = norms(self.design.back(here.residual))
        rounding = self.rounding(here, Z, np.ones(1), np.zeros(1), norm)
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

    def descend(self, at: Descent, work: AtWork) -> None:
        """Newton steps in place, each λ at work until its goal, its patience or its limit."""
        U, Z, count, limit = at.U, at.Z, at.count, at.limit
        here = self.objective.evaluate(Z[work.index])
        while True:
            G, norm, goal = self.gradient(here, at, work.index)
            work.first = np.where(np.isinf(work.first), norm, work.first)
            self.tell(here, norm, at, work.index)
            # So close, Newton's method is fast: if not, rounding holds it back, of the inner solve
            # first (which then goes on in double precision), of the gradient itself in the end.
            slow = (norm > 0.5 * work.previous) & (norm < 1e-3 * work.first)
            work.stalled += slow & work.double
            work.double |= slow
            going = (norm > goal) & (work.stalled < _PATIENCE) & np.isfinite(norm)
            going &= count[work.index] < limit[work.index]
            work.previous = norm
            if not going.all():
                work.keep(going)
                here, G, norm, goal = here.take(going), G[going], norm[going], goal[going]
                if work.index.size == 0:
                    return
            chosen = work.index
            ridges = self.ridges[chosen]
            if self.direct is not None:
                D = self.direct(here, G)
            else:
                rest = np.minimum(_LOOSE, np.sqrt(norm / work.first))
                tolerance = np.minimum(_LOOSE, np.maximum(rest, 0.5 * goal / norm))
                D = directions(self.design, self.objective, here, ridges, G, tolerance, work.double)
            step, there, new = line_search(
                self.design, self.objective, ridges, U[chosen], Z[chosen], here, G, D
            )
            stuck = step == 0
            work.stalled[stuck & (work.double | (self.direct is not None))] = _PATIENCE
            work.double |= stuck
            at.whole = False
            count[chosen] += 1
            U[chosen] += step[:, None, None] * D
            Z[chosen] = new
            at.work, at.whole = AtWork(**asdict(work)), True
            here = there
            if self.keeper is not None:
                self.keeper.save(partial(asdict, at))

    def gradient(
        self, here: Evaluation, at: Descent, index: NDArray[np.int64]
    ) -> tuple[Array, Array, Array]:
        """Gradients (L, r, d), their norms (L,), and those to reach (L,), less what rounding takes.

        Rounding is asked for only where a gradient seems small enough.
        """
        ridges, U = self.ridges[index], at.U[index]
        G = self.design.back(here.residual) + ridges[:, None, None] * U
        norm, size = norms(G), norms(U)
        goal = self.target * ridges * size
        near = np.flatnonzero(norm <= goal)
        if near.size:
            part = here if near.size == len(norm) else here.take(near)
            rounding = self.rounding(
                part, at.Z[index[near]], ridges[near], size[near], goal[near] - norm[near]
            )
            goal[near] = np.maximum(goal[near] - rounding, 0.05 * rounding)
        return G, norm, goal

    def rounding(
        self, here: Evaluation, Z: Array, ridges: Array, norm: Array, enough: Array
    ) -> Array:
        """Bounds (L,) on the rounding of gradients, 0 for an objective that takes no account."""
        stiffness = self.objective.stiffness(here)
        if stiffness is None:
            return np.zeros(len(norm))
        z, g = (np.sqrt(np.einsum("lrn,lrn->ln", part, part)) for part in (Z, here.residual))
        smoothness = self.objective.smoothness
        return gradient_rounding(self.design, norm, ridges, z, g, stiffness, smoothness, enough)

    def tell(self, here: Evaluation, norm: Array, at: Descent, index: NDArray[np.int64]) -> None:
        """Report the problem that is furthest from its minimum."""
        size, ridges = norms(at.U[index]), self.ridges[index]
        with np.errstate(divide="ignore"):
            distance = norm / (ridges * size)
        worst = int(distance.argmax())
        total = float(here.value[worst]) + 0.5 * float(ridges[worst] * size[worst] ** 2)
        self.design.watch.step(
            int(at.count.max()), int(at.limit.max()), float(distance[worst]), self.target,
            total / self.design.n_samples,
        )  # fmt: skip
