"""Newton's method: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ side by side.

Each step is solved for by conjugate gradients in single precision, to a loose tolerance (`newton`);
gradient and line search are in double precision, so the steps act as iterative refinement and the
answer has double-precision accuracy. What rounding does to the gradient counts against the goal
(`gradient_rounding`). Several λ share every read of X, which is what the time goes into, and drop
out as they reach their goal. The first axis of all arrays counts the λ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm import newton
from polyceptron.algorithms.erm.intercept import Intercept, certificate, lengths, norms
from polyceptron.algorithms.erm.objectives import Evaluation, Objective
from polyceptron.numerics import Array

Direction = Callable[[Evaluation, Array], Array]

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision


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
    keep: Callable[[Array], None] | None = None,
    intercept: Intercept | None = None,
) -> Minimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. `keep` is given U after every step, and with it
    KeyboardInterrupt ends the descent where it is. With a `max_iter` of 0 it is the certificate
    of `start`. The column of an `intercept` bears no ridge, and counts in distance and norm.
    """
    U = np.array(start, dtype=float)
    Z = design.fields(U) if U.any() else np.zeros((*U.shape[:2], design.n_samples))
    count = np.zeros(len(U), dtype=np.int64)
    at = _Newton(
        design, objective, ridges, target, direct, max_iter, keep, intercept, U, Z, count,
        np.full(len(U), max_iter),
    )  # fmt: skip
    try:
        return at.minimum()
    except KeyboardInterrupt:
        if keep is None:
            raise
        unknown, no = np.full(len(U), np.nan), np.zeros(len(U), dtype=bool)
        here = objective.evaluate(at.Z)
        return Minimum(U, at.Z, here, unknown, unknown, unknown, count, no, True)


@dataclass
class _Newton:
    """A descent: U (L, r, d), its fields Z (L, r, n), the steps made and allowed (L,)."""

    design: Design
    objective: Objective
    ridges: Array
    target: float
    direct: Direction | None
    max_iter: int
    keep: Callable[[Array], None] | None
    intercept: Intercept | None
    U: Array
    Z: Array
    count: NDArray[np.int64]
    limit: NDArray[np.int64]

    def minimum(self) -> Minimum:
        """Descents, each followed by fresh fields: those of the way are updated along it."""
        every = np.arange(len(self.U))
        for stage in range(4):
            here = self.objective.evaluate(self.Z)
            G, norm, goal = self.gradient(here, every)
            todo = np.flatnonzero((norm > goal) & (self.count < self.limit))
            if todo.size == 0 or stage == 3:
                break
            self.descend(todo)
            self.limit = np.minimum(self.count + 4, self.max_iter)  # to repair what had piled up
            self.Z = self.design.fields(self.U)
        rounding, distance, enough = self.certificate(here, self.Z, self.U, G, self.ridges)
        met = distance <= enough
        found = Minimum(self.U, self.Z, here, norm, rounding, distance, self.count, met)
        return found if met.all() else self.zero_where_minimal(found)

    def pulls(self, index: NDArray[np.int64]) -> Array:
        """Ridges of every feature, beside U (L, r, d)."""
        ridges = self.ridges[index]
        return newton.by_feature(ridges if self.intercept is None else self.intercept.pulls(ridges))

    def size(self, U: Array) -> Array:
        return norms(U) if self.intercept is None else self.intercept.size(U)

    def certificate(
        self, here: Evaluation, Z: Array, U: Array, G: Array, ridges: Array
    ) -> tuple[Array, Array, Array]:
        """Rounding of the gradients G, distance to the minimum, and that which is enough, (L,)."""
        stiffness, enough = self.objective.stiffness(here), self.target * self.size(U)
        if stiffness is None:
            return 0 * enough, norms(G) / ridges, enough
        rounding, distance = certificate(
            self.design, self.intercept, ridges, U, G,
            (lengths(Z), lengths(here.residual), stiffness), self.objective.smoothness,
            lambda: self.objective.curvature(here, np.float64).total(), enough,
        )  # fmt: skip
        return rounding, distance, enough

    def zero_where_minimal(self, found: Minimum) -> Minimum:
        """U = 0 where the gradient there is no more than rounding: no relative bound can be met."""
        Z = np.zeros_like(found.Z[:1])
        here = self.objective.evaluate(Z)
        G = self.design.back(here.residual)
        norm = norms(G)
        rounding, distance, _ = self.certificate(here, Z, 0 * G, G, self.ridges)
        at = ~found.converged & (norm <= rounding)
        index = np.flatnonzero(at)
        repeated = here.take(np.zeros(index.size, dtype=np.int64))
        return Minimum(
            np.where(at[:, None, None], 0.0, found.U),
            np.where(at[:, None, None], 0.0, found.Z),
            found.evaluation.replace(index, repeated),
            np.where(at, norm, found.gradient_norm),
            np.where(at, rounding, found.rounding),
            np.where(at, distance, found.distance),
            found.n_iter,
            found.converged | at,
        )

    def descend(self, chosen: NDArray[np.int64]) -> None:
        """Newton steps in place, each λ until its goal, its patience or its limit."""
        U, Z = self.U, self.Z
        first = previous = np.full(chosen.size, np.inf)
        stalled = 0 * chosen
        double = np.full(chosen.size, not self.design.single_is_quicker)  # of the inner solves
        here = self.objective.evaluate(Z[chosen])
        while True:
            G, norm, goal = self.gradient(here, chosen)
            first = np.where(np.isinf(first), norm, first)
            self.tell(here, norm, chosen)
            # So close, Newton's method is fast: if not, rounding holds it back, of the inner solve
            # first (which then goes on in double precision), of the gradient itself in the end.
            slow = (norm > 0.5 * previous) & (norm < 1e-3 * first)
            stalled += slow & double
            double |= slow
            going = (norm > goal) & (stalled < _PATIENCE) & np.isfinite(norm)
            going &= self.count[chosen] < self.limit[chosen]
            previous = norm
            if not going.all():
                if not going.any():
                    return
                chosen, stalled, double, here = (
                    chosen[going], stalled[going], double[going], here.take(going)
                )  # fmt: skip
                first, G, norm, goal = first[going], G[going], norm[going], goal[going]
                previous = norm
            ridges = self.ridges[chosen]
            if self.intercept is not None:
                ridges = self.intercept.pulls(ridges)
            if self.direct is not None:
                D = self.direct(here, G)
            else:
                rest = np.minimum(_LOOSE, np.sqrt(norm / first))
                tolerance = np.minimum(_LOOSE, np.maximum(rest, 0.5 * goal / norm))
                steps = tolerance, double
                D = newton.directions(self.design, self.objective, here, ridges, G, *steps)
            step, here, new = newton.line_search(
                self.design, self.objective, ridges, U[chosen], Z[chosen], here, G, D
            )
            stuck = step == 0
            stalled[stuck & (double | (self.direct is not None))] = _PATIENCE
            double |= stuck
            self.count[chosen] += 1
            U[chosen] += step[:, None, None] * D
            Z[chosen] = new
            if self.keep is not None:
                self.keep(U)

    def gradient(self, here: Evaluation, index: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Gradients (L, r, d), their norms (L,), and those to reach (L,), less what rounding takes.

        The certificate is asked for only where a gradient seems small enough.
        """
        ridges, U = self.ridges[index], self.U[index]
        G = self.design.back(here.residual) + self.pulls(index) * U
        norm = norms(G)
        goal = self.target * ridges * self.size(U)
        near = np.flatnonzero(norm <= goal)
        if near.size:
            part = here if near.size == len(norm) else here.take(near)
            rounding, distance, enough = self.certificate(
                part, self.Z[index[near]], U[near], G[near], ridges[near]
            )
            if self.intercept is None:
                goal[near] = np.maximum(goal[near] - rounding, 0.05 * rounding)
            else:  # the distance is linear in the gradient, but for rounding
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.nan_to_num(enough / distance, nan=1.0)
                short = np.maximum(share * (norm[near] + rounding) - rounding, 0.05 * rounding)
                goal[near] = np.where(share >= 1, goal[near], short)
        return G, norm, goal

    def tell(self, here: Evaluation, norm: Array, index: NDArray[np.int64]) -> None:
        """Report the problem that is furthest from its minimum."""
        size, ridges = self.size(self.U[index]), self.ridges[index]
        with np.errstate(divide="ignore"):
            distance = norm / (ridges * size)
        worst = int(distance.argmax())
        total = float(here.value[worst]) + 0.5 * float(ridges[worst] * size[worst] ** 2)
        self.design.watch.step(
            int(self.count.max()), int(self.limit.max()), float(distance[worst]), self.target,
            total / self.design.n_samples,
        )  # fmt: skip
