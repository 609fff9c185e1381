"""Newton's method: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ side by side.

This is the paper's eq:optimization_ERM with inputs x/√d, in coordinates: weights are (L, r, d) for
L values of λ, r coordinates of the fields (k classes, or their k − 1 differences, `objectives`) and
d features; fields z and residuals ∂ℓ/∂z are (L, r, n). The λ do not mix, but share every read of X,
which is what the time goes into, and drop out as they reach their goal.

The gradient G of the objective bounds the distance to the minimum Û by strong convexity:

    ‖U − Û‖ ≤ (‖G‖ + rounding)/λ ≤ target·‖U‖     at     ‖G‖ ≤ target·λ‖U‖ − rounding,

where `rounding` bounds what double precision may hide of G. This is the error bar of the weights;
`intercept.certificate` makes it, from the norms of fields and residuals, the `stiffness` of each
sample (a bound on ‖∂²ℓ/∂z²‖ at its fields) and the loss's `smoothness` (a bound on ‖∂²ℓ/∂z²‖ at all
fields, None if unknown). An intercept, which bears no ridge, is bounded there in another way.

Steps: one problem alone begins with a descent in single precision (`single_descent`), where that
is quicker. Each Newton direction (`newton_step`) is solved for to a loose tolerance; gradient and
line search are in double precision, so that the steps act as iterative refinement and the answer
has double-precision accuracy. The fields move along with the weights; each descent ends with fresh
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.data.design import Design
from polyceptron.fit.solvers.intercept import Intercept, certificate, pulls_of, size_of
from polyceptron.fit.solvers.line_search import line_search
from polyceptron.fit.solvers.newton_step import (
    Mask,
    by_feature,
    directions,
    solve_whole,
    whole_is_quicker,
)
from polyceptron.fit.solvers.objectives import Evaluation, Objective, lengths, norms
from polyceptron.fit.solvers.single_descent import SingleDescent, single_descent_serves
from polyceptron.numerics import Array

Indices = NDArray[np.int64]
Direction = Callable[[Evaluation, Array], Array]
"""An evaluation and the gradients (L, r, d) there, to Newton directions (L, r, d)."""

# Share of the gradient that the first solves leave: far away, an exact Newton step is waste.
LOOSE_SOLVE = 0.3
# Share of the goal that a solve leaves where one step may reach it.
SHARE_OF_GOAL_LEFT = 0.5
MOST_SLOW_STEPS = 3  # next to the minimum, in double precision
SLOW_SHARE = 0.5  # of the gradient, left by a step that is called slow
NEAR_THE_MINIMUM = 1e-3  # share of the gradient's norm `first`, below which steps are fast
MOST_DESCENTS = 3  # each is followed by fresh fields, and mends what rounding had piled up
STEPS_OF_LATER_DESCENTS = 4
# Share of the target at which a descent in single precision may end.
SHARE_OF_TARGET_IN_SINGLE = 0.3
# A goal is at least this share of the bound on the gradient's rounding: true rounding is seldom
# more than that, and a goal of 0 or below would never be reached.
LEAST_GOAL = 0.05


@dataclass(frozen=True)
class NewtonMinimum:
    """The minima of L problems and what was reached.

    Attributes
    ----------
    U : array (L, r, d)
    Z : array (L, r, n)
        The fields.
    evaluation : Evaluation
        At Z.
    gradient_norm, rounding, distance : array (L,)
        The gradient's norm, what rounding may hide of it, and a bound on the distance to the
        minimum.
    n_iter : array (L,)
    converged : array of bool (L,)
        Whether the distance is within the target, or the minimum is 0 to rounding.
    interrupted : bool
    """

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: Array
    rounding: Array
    distance: Array
    n_iter: NDArray[np.int64]
    converged: Mask
    interrupted: bool = False


def newton_minimise(
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
) -> NewtonMinimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖.

    Parameters
    ----------
    ridges : array (L,)
    direct : callable, optional
        Replaces conjugate gradients where the Newton step can be had in closed form.
    keep : callable, optional
        It is given U after every step; with it, KeyboardInterrupt ends the descent where it is.
    intercept : Intercept, optional
        Its column bears no ridge.
    """
    U = np.array(start, dtype=float)
    newton = _Newton(design, objective, ridges, target, direct, max_iter, keep, intercept, U)
    try:
        return newton.minimum()
    except KeyboardInterrupt:
        if keep is None:
            raise
        return newton.interrupted()


def distances(
    design: Design,
    objective: Objective,
    intercept: Intercept | None,
    ridges: Array,
    U: Array,
    Z: Array,
    here: Evaluation,
    G: Array,
    target: float,
) -> tuple[Array, Array, Array]:
    """Bound the distances of weights U (L, r, d), with fields Z and gradients G, to their minima.

    An objective without `stiffness` (hinges) leaves rounding and intercept out: those who fit it
    have bounds of their own (duality gaps), and use this one to end the descents only.

    Returns
    -------
    rounding : array (L,)
        What rounding may hide of the gradients G.
    distance : array (L,)
        The bound, rounding included.
    enough : array (L,)
        The distance that meets the target.
    """
    stiffness = objective.stiffness(here)
    enough = target * size_of(intercept, U)
    if stiffness is None:
        return np.zeros_like(enough), norms(G) / ridges, enough

    def total_curvature() -> Array:
        """Return the curvature of the objective summed over all samples, in double precision."""
        total: Array = objective.curvature(here, np.float64).total()
        return total

    rounding, distance = certificate(
        design,
        intercept,
        ridges,
        U,
        G,
        sizes=(lengths(Z), lengths(here.residual), stiffness),  # of each sample, (L, n)
        smoothness=objective.smoothness,
        total=total_curvature,
        enough=enough,
    )
    return rounding, distance, enough


class Slopes(NamedTuple):
    """Gradients (m, r, d) of m problems, their norms (m,), and the norms to reach (m,)."""

    gradients: Array
    norms: Array
    goals: Array


@dataclass
class _Descent:
    """The problems that have not reached their goal, in one descent.

    Attributes
    ----------
    index : array (m,)
        Which of the L problems these are.
    here : Evaluation
        At their weights.
    first, previous : array (m,)
        Norms of the gradient: that in comparison with which others are small, and that before the
        last step. An infinite `first` is replaced by the norm where this descent begins.
    n_stalled : array of int (m,)
        Slow steps in double precision.
    double : array of bool (m,)
        Whether directions are solved for in double precision.
    """

    index: Indices
    here: Evaluation
    first: Array
    previous: Array
    n_stalled: Indices
    double: Mask

    def take(self, going: Mask) -> _Descent:
        """Return the problems that go on."""
        if going.all():
            return self
        return _Descent(
            self.index[going],
            self.here.take(going),
            self.first[going],
            self.previous[going],
            self.n_stalled[going],
            self.double[going],
        )

    def note_slow_steps(self, norm: Array) -> None:
        """Count steps that were slow although they were near the minimum.

        There Newton's method is fast: if it is not, rounding holds it back, that of the inner solve
        first (which then goes on in double precision), that of the gradient itself in the end.
        """
        self.first = np.where(np.isinf(self.first), norm, self.first)
        is_near = norm < NEAR_THE_MINIMUM * self.first
        is_slow = (norm > SLOW_SHARE * self.previous) & is_near
        self.n_stalled = self.n_stalled + (is_slow & self.double)
        self.double = self.double | is_slow
        self.previous = norm

    def note_stuck(self, stuck: Mask, is_direct: bool) -> None:
        """Give a problem up whose line search found no step, or solve for it more exactly."""
        self.n_stalled[stuck & (self.double | is_direct)] = MOST_SLOW_STEPS
        self.double = self.double | stuck


@dataclass
class _Newton:
    """Descents from U, in place.

    The arguments of `newton_minimise`, and:

    Attributes
    ----------
    U, Z : array (L, r, d), (L, r, n)
        Weights, and their fields.
    first : array (L,)
        The gradient's norm in comparison with which others are small: that at U = 0, where it has
        been computed, else infinite, and each descent takes the norm at its own beginning.
    n_iter, limit : array of int (L,)
        Steps so far, and how many there may be.
    """

    design: Design
    objective: Objective
    ridges: Array
    target: float
    direct: Direction | None
    max_iter: int
    keep: Callable[[Array], None] | None
    intercept: Intercept | None
    U: Array
    Z: Array = field(init=False)
    first: Array = field(init=False)
    n_iter: NDArray[np.int64] = field(init=False)
    limit: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        n_problems = len(self.U)
        self.Z = np.zeros((*self.U.shape[:2], self.design.n_samples))
        self.first = np.full(n_problems, np.inf)
        self.n_iter = np.zeros(n_problems, np.int64)
        self.limit = np.full(n_problems, self.max_iter)
        if self.U.any():
            if self.objective.smoothness is not None:  # a scale for bounded curvature alone
                at_zero = self.objective.evaluate(self.Z)
                self.first = norms(self.design.back(at_zero.residual))
            self.Z = self.design.fields(self.U)

    def minimum(self) -> NewtonMinimum:
        """Return the minima, by descents that are each followed by fresh fields."""
        every = np.arange(len(self.U))
        if self.begins_in_single():
            self.descend_in_single()
        for descent in range(MOST_DESCENTS + 1):
            here = self.objective.evaluate(self.Z)
            G, norm, goal = self.gradient(here, every)
            todo = np.flatnonzero((norm > goal) & (self.n_iter < self.limit))
            if todo.size == 0 or descent == MOST_DESCENTS:
                break
            self.descend(todo, here.take(todo), Slopes(G[todo], norm[todo], goal[todo]))
            self.limit = np.minimum(self.n_iter + STEPS_OF_LATER_DESCENTS, self.max_iter)
            self.Z = self.design.fields(self.U)
        rounding, distance, enough = self.certificate(every, here, G)
        converged = distance <= enough
        found = NewtonMinimum(
            self.U, self.Z, here, norm, rounding, distance, self.n_iter, converged
        )
        if converged.all() or self.max_iter == 0:
            return found
        return self.zero_where_minimal(found)

    def begins_in_single(self) -> bool:
        """Return whether one large problem begins at zero, without a closed form of its steps."""
        if self.direct is not None or len(self.U) > 1 or self.max_iter == 0 or self.U.any():
            return False
        if whole_is_quicker(self.design, self.U):
            return False
        return single_descent_serves(self.design, self.objective)

    def descend_in_single(self) -> None:
        """Take steps of L-BFGS in single precision, in place."""
        pulls = pulls_of(self.intercept, self.ridges)
        share = SHARE_OF_TARGET_IN_SINGLE * self.target
        descent = SingleDescent(self.design, self.objective, pulls, share)
        self.first = np.array(descent.norms[:1])
        only = np.zeros(1, np.int64)
        while descent.goes_on and self.n_iter[0] < self.limit[0]:
            self.tell(descent.here, np.array(descent.norms[-1:]), only)
            descent.step()
            self.n_iter += 1
            self.U[:] = descent.U
            self.Z[:] = descent.Z
            if self.keep is not None:
                self.keep(self.U)
        self.Z = self.design.fields(self.U)

    def interrupted(self) -> NewtonMinimum:
        """Return the points where a descent was interrupted, of which nothing is certified."""
        unknown = np.full(len(self.U), np.nan)
        converged = np.zeros(len(self.U), dtype=bool)
        here = self.objective.evaluate(self.Z)
        return NewtonMinimum(
            self.U, self.Z, here, unknown, unknown, unknown, self.n_iter, converged, True
        )

    def certificate(self, index: Indices, here: Evaluation, G: Array) -> tuple[Array, Array, Array]:
        """Return `distances` of the problems at `index`."""
        return distances(
            self.design,
            self.objective,
            self.intercept,
            self.ridges[index],
            self.U[index],
            self.Z[index],
            here,
            G,
            self.target,
        )

    def zero_where_minimal(self, found: NewtonMinimum) -> NewtonMinimum:
        """Return U = 0 where the gradient there is no more than rounding.

        No relative bound can be met there.
        """
        zero = replace(self, U=np.zeros_like(self.U), max_iter=0).minimum()  # certifies, no step
        is_minimal = ~found.converged & (zero.gradient_norm <= zero.rounding)
        chosen = np.flatnonzero(is_minimal)
        wide = is_minimal[:, None, None]
        return replace(
            found,
            U=np.where(wide, zero.U, found.U),
            Z=np.where(wide, zero.Z, found.Z),
            gradient_norm=np.where(is_minimal, zero.gradient_norm, found.gradient_norm),
            rounding=np.where(is_minimal, zero.rounding, found.rounding),
            distance=np.where(is_minimal, zero.distance, found.distance),
            converged=found.converged | is_minimal,
            evaluation=found.evaluation.replace(chosen, zero.evaluation.take(chosen)),
        )

    def descend(self, chosen: Indices, here: Evaluation, slopes: Slopes) -> None:
        """Take Newton steps in place, each problem until its goal, its patience or its limit.

        The problems `chosen` (m,) begin at their weights, with the evaluation and slopes there.
        """
        descent = _Descent(
            index=chosen,
            here=here,
            first=self.first[chosen],
            previous=np.full(chosen.size, np.inf),
            n_stalled=np.zeros(chosen.size, np.int64),
            double=np.full(chosen.size, not self.design.single_is_quicker),
        )
        while True:
            G, norm, goal = slopes
            self.tell(descent.here, norm, descent.index)
            descent.note_slow_steps(norm)
            going = (norm > goal) & np.isfinite(norm)
            going &= descent.n_stalled < MOST_SLOW_STEPS
            going &= self.n_iter[descent.index] < self.limit[descent.index]
            if not going.any():
                return
            descent = descent.take(going)
            self.step(descent, G[going], norm[going], goal[going])
            if self.keep is not None:
                self.keep(self.U)
            slopes = self.gradient(descent.here, descent.index)

    def step(self, descent: _Descent, G: Array, norm: Array, goal: Array) -> None:
        """Take one Newton step of the problems of a descent."""
        index = descent.index
        D = self.direction(descent, G, norm, goal)
        length, descent.here, Z = line_search(
            self.design,
            self.objective,
            pulls_of(self.intercept, self.ridges[index]),
            self.U[index],
            self.Z[index],
            descent.here,
            G,
            D,
        )
        descent.note_stuck(length == 0, self.direct is not None)
        self.n_iter[index] += 1
        self.U[index] += length[:, None, None] * D
        self.Z[index] = Z

    def direction(self, descent: _Descent, G: Array, norm: Array, goal: Array) -> Array:
        """Return Newton directions (m, r, d): in closed form, whole, or by conjugate gradients."""
        if self.direct is not None:
            return self.direct(descent.here, G)
        ridges = pulls_of(self.intercept, self.ridges[descent.index])
        whole = solve_whole(self.design, self.objective, descent.here, ridges, G)
        if whole is not None:
            return whole
        superlinear = np.sqrt(norm / descent.first)  # ever more exact: better than linear in all
        reaching_goal = SHARE_OF_GOAL_LEFT * goal / norm  # more exact than this is waste
        left = np.minimum(LOOSE_SOLVE, np.maximum(superlinear, reaching_goal))
        return directions(
            self.design, self.objective, descent.here, ridges, G, left, descent.double
        )

    def gradient(self, here: Evaluation, index: Indices) -> Slopes:
        """Return the gradients of some problems (m,), their norms, and the norms to reach.

        Rounding is taken off the norms to reach. The certificate is asked for only where a gradient
        seems small enough.
        """
        ridges = self.ridges[index]
        U = self.U[index]
        G = self.design.back(here.residual) + by_feature(pulls_of(self.intercept, ridges)) * U
        norm = norms(G)
        goal = self.target * ridges * size_of(self.intercept, U)
        near = np.flatnonzero(norm <= goal)
        if near.size:
            part = here if near.size == len(norm) else here.take(near)
            goal[near] = self.certified_goal(index[near], part, G[near], norm[near], goal[near])
        return Slopes(G, norm, goal)

    def certified_goal(
        self, index: Indices, here: Evaluation, G: Array, norm: Array, goal: Array
    ) -> Array:
        """Return the norms (m,) of gradients at which the distance is certified.

        Without an intercept, (‖G‖ + rounding)/λ ≤ enough gives ‖G‖ ≤ goal − rounding. With one, the
        distance is about proportional to ‖G‖ + rounding, which has to shrink by enough/distance.
        """
        rounding, distance, enough = self.certificate(index, here, G)
        least = LEAST_GOAL * rounding
        if self.intercept is None:
            return np.maximum(goal - rounding, least)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(enough / distance, nan=1.0)
        shorter = np.maximum(share * (norm + rounding) - rounding, least)
        return np.where(share >= 1, goal, shorter)

    def tell(self, here: Evaluation, norm: Array, index: Indices) -> None:
        """Report the problem that is furthest from its minimum."""
        size = size_of(self.intercept, self.U[index])
        ridges = self.ridges[index]
        with np.errstate(divide="ignore"):
            distance = norm / (ridges * size)
        worst = int(distance.argmax())
        penalty = 0.5 * float(ridges[worst] * size[worst] ** 2)
        self.design.watch.step(
            int(self.n_iter.max()),
            int(self.limit.max()),
            float(distance[worst]),
            self.target,
            (float(here.value[worst]) + penalty) / self.design.n_samples,
        )
