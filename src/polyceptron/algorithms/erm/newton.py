"""Newton's method by conjugate gradients: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ.

Each step solves (Hessian) D = −(gradient) by conjugate gradients in single precision, to a loose
tolerance (`directions`); gradient and line search are in double precision, so the steps act as
iterative refinement and the answer has double-precision accuracy. What rounding does to the
gradient counts against the goal (`gradient_rounding`). A line search costs no pass over X, since
the fields are linear in U. Several λ advance side by side: they do not mix, but share every read of
X, which is what the time goes into. The first axis of all arrays counts the λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.directions import SharedFactor, by_feature, directions, dots
from polyceptron.algorithms.erm.objectives import Evaluation, Objective, gradient_rounding
from polyceptron.algorithms.watching import Kept, State
from polyceptron.numerics import Array

Direction = Callable[[Evaluation, Array], Array]

_HALVINGS = 40
_RESERVE = 0.05  # of the rounding: no gradient need be smaller
_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision
_REPAIRS = 4  # more steps when fresh fields show that rounding had piled up


def line_search(
    design: Design, objective: Objective, ridges: Array, U: Array, Z: Array, here: Evaluation,
    G: Array, D: Array,
) -> tuple[Array, Evaluation, Array]:  # fmt: skip
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
    for _ in range(_HALVINGS if open_.size else 0):
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

    @classmethod
    def begin(cls, index: NDArray[np.int64], *, single: bool) -> AtWork:
        """These λ, in single precision or in double from the start."""
        infinite = np.full(index.size, np.inf)
        stalled = np.zeros(index.size, np.int64)
        return cls(index, infinite, infinite.copy(), stalled, np.full(index.size, not single))

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

    @classmethod
    def of(cls, state: State) -> Descent:
        """From what a checkpoint kept of its `asdict`."""
        work = AtWork(**state["work"]) if "work" in state else None
        return cls(**state | {"work": work})


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
    factor: SharedFactor | None = None,
) -> Minimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. With a keeper the descent comes from there and goes
    there, and KeyboardInterrupt ends it where it is. With a `max_iter` of 0 it is the certificate
    of `start`. `factor` eases the conjugate gradients.
    """
    saved = keeper.load() if keeper is not None else None
    if saved is not None:
        at = Descent.of(saved)
    else:
        U = np.array(start, dtype=float)
        Z = design.fields(U) if U.any() else np.zeros((*U.shape[:2], design.n_samples))
        at = Descent(U, Z, np.zeros(len(U), dtype=np.int64), np.full(len(U), max_iter))
    try:
        newton = _Newton(design, objective, ridges, target, direct, max_iter, keeper, factor)
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
    factor: SharedFactor | None

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
                at.work = AtWork.begin(todo, single=design.single_is_quicker)
            self.descend(at, AtWork(**asdict(at.work)))
            at.limit = np.minimum(at.count + _REPAIRS, self.max_iter)
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
                D = directions(
                    self.design, self.objective, here, ridges, G, tolerance, work.double,
                    self.factor,
                )  # fmt: skip
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
            goal[near] = np.maximum(goal[near] - rounding, _RESERVE * rounding)
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
