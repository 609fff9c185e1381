"""Newton's method: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ side by side.

Each step is solved for by conjugate gradients in single precision, to a loose tolerance (`newton`);
gradient and line search are in double precision, so the steps act as iterative refinement and the
answer has double-precision accuracy. What rounding does to the gradient counts against the goal
(`gradient_rounding`). Several λ share every read of X, which is what the time goes into, and drop
out as they reach their goal. The first axis of all arrays counts the λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm import newton
from polyceptron.algorithms.erm.intercept import Intercept
from polyceptron.algorithms.erm.objectives import (
    Evaluation,
    Objective,
    gradient_rounding,
    roundings,
)
from polyceptron.algorithms.watching import Kept
from polyceptron.numerics import Array

Direction = Callable[[Evaluation, Array], Array]

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision


def _lengths(*parts: Array) -> list[Array]:
    """The norm of each sample's column (L, n), of fields or residuals (L, r, n)."""
    return [np.sqrt(np.einsum("lrn,lrn->ln", part, part)) for part in parts]


def norms(A: Array) -> Array:
    """Frobenius norm of each problem, (L,)."""
    return np.sqrt(newton.dots(A, A))


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
    (L,) at most, so that the minimum is no further than `distance` (L,); `converged` where that is
    within the target, or the minimum is 0 to rounding.
    """

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: Array
    rounding: Array
    distance: Array
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
    intercept: Intercept | None = None,
) -> Minimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. With a keeper the descent comes from there and goes
    there, and KeyboardInterrupt ends it where it is. With a `max_iter` of 0 it is the certificate
    of `start`. The column of an `intercept` bears no ridge, and counts in distance and norm.
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
        return _Newton(
            design, objective, ridges, target, direct, max_iter, keeper, intercept
        ).minimum(at)
    except KeyboardInterrupt:
        if keeper is None:
            raise
        if at.whole:
            keeper.save(partial(asdict, at), now=True)
        unknown = np.full(len(at.U), np.nan)
        here = objective.evaluate(at.Z)
        no = np.zeros(len(at.U), dtype=bool)
        return Minimum(at.U, at.Z, here, unknown, unknown, unknown, at.count, no, True)


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
    intercept: Intercept | None

    def minimum(self, at: Descent) -> Minimum:
        """Descents, each followed by fresh fields: those of the way are updated along it."""
        design, every = self.design, np.arange(len(at.U))
        while at.stage < 3:
            if at.work is None:
                here = self.objective.evaluate(at.Z)
                G, norm, goal = self.gradient(here, at, every)
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
            G = self.gradient(here, at, every)[0]
        rounding, distance, enough = self.certificate(here, at, every, G)
        met = distance <= enough
        found = Minimum(at.U, at.Z, here, norms(G), rounding, distance, at.count, met)
        return found if met.all() else self.zero_where_minimal(found)

    def pulls(self, index: NDArray[np.int64]) -> Array:
        """Ridges of every feature, beside U (L, r, d)."""
        ridges = self.ridges[index]
        return newton.by_feature(ridges if self.intercept is None else self.intercept.pulls(ridges))

    def size(self, U: Array) -> Array:
        return norms(U) if self.intercept is None else self.intercept.size(U)

    def certificate(
        self, here: Evaluation, at: Descent, index: NDArray[np.int64], G: Array
    ) -> tuple[Array, Array, Array]:
        """Rounding of the gradients G, distance to the minimum, and that which is enough, (L,)."""
        ridges, U, norm = self.ridges[index], at.U[index], norms(G)
        enough, size = self.target * self.size(U), norms(U)
        if self.intercept is not None:
            slopes = norms(G[..., :-1]), norms(G[..., -1:])
            rounding, distance = self.distance(here, at.Z[index], ridges, size, slopes)
            return rounding, distance, enough
        rounding = self.rounding(here, at.Z[index], ridges, size, ridges * enough - norm)
        return rounding, (norm + rounding) / ridges, enough

    def distance(
        self, here: Evaluation, Z: Array, ridges: Array, norm: Array, slopes: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """With an intercept: rounding of the gradients' sums, and distance to the minimum, (L,)."""
        assert self.intercept is not None
        stiffness = self.objective.stiffness(here)
        if stiffness is None:
            return 0 * norm, np.hypot(*slopes) / ridges
        off, rest = roundings(self.design, norm, ridges, *_lengths(Z, here.residual))
        total = self.objective.curvature(here, np.float64).total()
        found = self.intercept.distance(
            ridges, (slopes[0] + rest, slopes[1] + rest), total, stiffness,
            self.design.row_norms, off,
        )  # fmt: skip
        return rest, found

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
        distance = (norm + rounding) / self.ridges
        if self.intercept is not None:
            distance = self.distance(here, Z, self.ridges, 0 * norm, (norm, norm))[1]
        return Minimum(
            np.where(at[:, None, None], 0.0, found.U),
            np.where(at[:, None, None], 0.0, found.Z),
            found.evaluation.replace(index, repeated),
            np.where(at, norm, found.gradient_norm),
            np.where(at, rounding, found.rounding),
            np.where(at, distance, found.distance),
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
            if self.intercept is not None:
                ridges = self.intercept.pulls(ridges)
            if self.direct is not None:
                D = self.direct(here, G)
            else:
                rest = np.minimum(_LOOSE, np.sqrt(norm / work.first))
                tolerance = np.minimum(_LOOSE, np.maximum(rest, 0.5 * goal / norm))
                steps = tolerance, work.double
                D = newton.directions(self.design, self.objective, here, ridges, G, *steps)
            step, there, new = newton.line_search(
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

        The certificate is asked for only where a gradient seems small enough.
        """
        ridges, U = self.ridges[index], at.U[index]
        G = self.design.back(here.residual) + self.pulls(index) * U
        norm = norms(G)
        goal = self.target * ridges * self.size(U)
        near = np.flatnonzero(norm <= goal)
        if near.size:
            part = here if near.size == len(norm) else here.take(near)
            rounding, distance, enough = self.certificate(part, at, index[near], G[near])
            if self.intercept is None:
                goal[near] = np.maximum(goal[near] - rounding, 0.05 * rounding)
            else:  # the distance is linear in the gradient, but for rounding
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.nan_to_num(enough / distance, nan=1.0)
                short = np.maximum(share * (norm[near] + rounding) - rounding, 0.05 * rounding)
                goal[near] = np.where(share >= 1, goal[near], short)
        return G, norm, goal

    def rounding(
        self, here: Evaluation, Z: Array, ridges: Array, norm: Array, enough: Array
    ) -> Array:
        """Bounds (L,) on the rounding of gradients, 0 for an objective that takes no account."""
        stiffness = self.objective.stiffness(here)
        if stiffness is None:
            return np.zeros(len(norm))
        z, g = _lengths(Z, here.residual)
        smoothness = self.objective.smoothness
        return gradient_rounding(self.design, norm, ridges, z, g, stiffness, smoothness, enough)

    def tell(self, here: Evaluation, norm: Array, at: Descent, index: NDArray[np.int64]) -> None:
        """Report the problem that is furthest from its minimum."""
        size, ridges = self.size(at.U[index]), self.ridges[index]
        with np.errstate(divide="ignore"):
            distance = norm / (ridges * size)
        worst = int(distance.argmax())
        total = float(here.value[worst]) + 0.5 * float(ridges[worst] * size[worst] ** 2)
        self.design.watch.step(
            int(at.count.max()), int(at.limit.max()), float(distance[worst]), self.target,
            total / self.design.n_samples,
        )  # fmt: skip
