"""The fixed point of four unequal classes and more, on more and more random points.

The root at few points is cheap, and its rounds answer to a change of θ nearly as those at all
points do. With F and F₀ the steps of a round at all points and at few, the next θ is the root of

    F₀(θ) + F(θ₀) − F₀(θ₀)

at few points. Each replicate of the points has a root of its own in the same way, and the spread of
their numbers is the uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, student_quantile
from polyceptron.sides.matrix.loop import round_residual
from polyceptron.sides.matrix.order import MatrixAverages, MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.solve.error_model import RARE_EVENTS
from polyceptron.solve.refine import doublings_needed
from polyceptron.theory.erm.first_root import first_root
from polyceptron.theory.erm.matrix_solver import MatrixSolver, Solved
from polyceptron.theory.erm.population_numbers import (
    Numbers,
    fields_law,
    numbers_of,
    point_without_numbers,
    solved_point_of,
)
from polyceptron.theory.erm.population_point import PopulationPoint

N_REPLICATES = 8
# log2 of the points of a class in a replicate at first, and of all points together at most.
LOG2_FIRST_POINTS = 7
LOG2_ALL_POINTS = 18
# Points of a replicate for each class, at least: as many give x its moments.
POINTS_PER_CLASS = 8
# log2 of how many times more points are tried where few have no root, in turn.
LOG2_MORE_POINTS = (3, 5)
# The root at few points is found to this in θ, and that at all points to this share of tol.
FIRST_TOLERANCE = 1e-3
ROOT_SHARE_OF_TOLERANCE = 0.05
# A step at few points is solved for to this share of itself, and to this at best.
STEP_ACCURACY = 0.05
BEST_STEP_ACCURACY = 1e-10
MAX_CORRECTIONS = 10
# Share of the tolerance for the spread of replicates: scores have the remaining share.
SPREAD_SHARE_OF_TOLERANCE = 0.6
# Share for the scores of what is then left: the error of the law that they are of is not known.
SCORES_SHARE_OF_LEFT = 0.995
# Bars fall as N^(−3/4) in the number of points: coverage in tests/references.
RATE_OF_POINTS = 0.75
# Points bend averages as 1/N, which counts beside the spread up to so many times (log2) the first.
LOG2_WHERE_BEND_COUNTS = 3


def refined_on_points(problem: MatrixProblem, theta: Array, tol: float) -> PopulationPoint:
    """Return the fixed point with its error to `tol`, from θ (unknowns,) on."""
    search = PointSearch(problem, theta, tol)
    log2 = search.log2_first
    while True:
        points = PointFields.drawn(problem, log2, N_REPLICATES)
        roots = search.roots_at(points)
        if roots is None:
            return point_without_numbers(problem, search.few.solved)
        of_replicates = _numbers_of_replicates(problem, roots)
        spread = _spread(of_replicates)
        excess = float(spread["generalisation_error"]) / (SPREAD_SHARE_OF_TOLERANCE * tol)
        if excess <= 1 or log2 == search.log2_last:
            break
        log2 = min(log2 + doublings_needed(excess, RATE_OF_POINTS), search.log2_last)
    root = roots[0]
    _add_rare_events(spread, problem, points)
    if log2 < search.log2_first + LOG2_WHERE_BEND_COUNTS:
        half_as_many = PointFields.drawn(problem, log2 - 1, 2 * N_REPLICATES)(root.order)
        _add_bend(spread, half_as_many, root.averages)
    estimated_error = float(of_replicates[0]["generalisation_error"].value)
    numbers = _with_bars_of_replicates(problem, root, spread, estimated_error, tol)
    return solved_point_of(problem, root, numbers, tol)


def least_log2_points(problem: MatrixProblem) -> int:
    """Return log2 of as many points in a replicate as give it the moments of x."""
    return max(LOG2_FIRST_POINTS, math.ceil(math.log2(POINTS_PER_CLASS * problem.n_classes)))


class RootAtFewPoints(NamedTuple):
    """The root at few points, with the solver that found it and remembers the way."""

    solver: MatrixSolver
    fields: PointFields
    solved: Solved


@dataclass
class PointSearch:
    """The search for roots at many points, each from the last one.

    Attributes
    ----------
    problem : MatrixProblem
    theta : array, shape (unknowns,)
        Where the search at few points begins.
    tol : float
    few : RootAtFewPoints
        Few points, and the best root so far.
    more : list of int
        log2 of how many times as many are still to be tried as few points.
    """

    problem: MatrixProblem
    theta: Array
    tol: float
    few: RootAtFewPoints = field(init=False)
    more: list[int] = field(default_factory=lambda: list(LOG2_MORE_POINTS))

    def __post_init__(self) -> None:
        self.few = self._root_at_few(0)

    @property
    def log2_first(self) -> int:
        """log2 of the points of a class in a replicate at first."""
        return least_log2_points(self.problem)

    @property
    def log2_last(self) -> int:
        """The same at most."""
        sets = math.ceil(math.log2(N_REPLICATES * self.problem.n_classes))
        return max(LOG2_ALL_POINTS - sets, self.log2_first)

    def _root_at_few(self, more: int) -> RootAtFewPoints:
        """Return a root at 2^more times the least number of points, which may have none."""
        points = PointFields.drawn(self.problem, self.log2_first + more, 1)
        solver = MatrixSolver(self.problem)
        solved = first_root(solver, self.theta, FIRST_TOLERANCE, points)
        return RootAtFewPoints(solver, points, solved)

    def roots_at(self, points: PointFields) -> list[Solved] | None:
        """Return the root at all points and at each replicate, None where there is none."""
        while True:
            roots = roots_from_few(self.few, points, ROOT_SHARE_OF_TOLERANCE * self.tol)
            if roots:
                self.few = self.few._replace(solved=roots[0])
                return roots
            if not self.more:
                return None
            self.few = self._root_at_few(self.more.pop(0))


def roots_from_few(few: RootAtFewPoints, points: PointFields, tol: float) -> list[Solved]:
    """Return the root at all points, then that of each replicate; none if it is too far.

    Parameters
    ----------
    few : RootAtFewPoints
    points : PointFields
    tol : float
        The largest residual of θ.
    """
    if not few.solved.converged:
        return []
    here = few.solved
    last_size = None
    for _ in range(MAX_CORRECTIONS):
        by_points = points.replicated(here.order)
        if few.solver.closed_form is not None:  # points are for the mistakes in training only
            return [here._replace(averages=averages) for averages in by_points]
        at_few = few.fields(here.order)
        at_all = _moved(few, here, at_few, by_points[0])
        if at_all is None:
            return []
        # Steps fall at a rate: the next one is below `tol`, or all points are asked again.
        rate = 1.0
        if last_size is not None:
            rate = min(at_all.size / last_size, 1.0)
        if at_all.size * rate < tol:
            of_replicates = [_moved(few, here, at_few, own) for own in by_points[1:]]
            arrived = [moved.solved for moved in (at_all, *of_replicates) if moved is not None]
            if len(arrived) < len(by_points):
                return []
            return arrived
        last_size = at_all.size
        here = at_all.solved
    return []


class Moved(NamedTuple):
    """A root at few points that were corrected by more points, and the size of that correction."""

    solved: Solved
    size: float


def _moved(
    few: RootAtFewPoints, here: Solved, at_few: MatrixAverages, averages: MatrixAverages
) -> Moved | None:
    """Return the root of F₀(θ) + F(θ₀) − F₀(θ₀), where `averages` make F(θ₀); None without one."""
    problem = few.solver.problem
    base = round_residual(problem, here.order, at_few, here.theta)
    step = round_residual(problem, here.order, averages, here.theta)
    if base is None or step is None:
        return None
    size = float(np.abs(step).max())
    accuracy = max(STEP_ACCURACY * size, BEST_STEP_ACCURACY)
    root = few.solver.solve(few.fields, here.theta, tol=accuracy, shift=step - base)
    if not root.converged:
        return None
    corrected = averages._replace(
        loss=averages.loss + root.averages.loss - at_few.loss,
        error=averages.error + root.averages.error - at_few.error,
    )
    return Moved(root._replace(averages=corrected), size)


def _numbers_of_replicates(problem: MatrixProblem, roots: Sequence[Solved]) -> list[Numbers]:
    """Return the numbers of each replicate, with scores on the same points of the first law."""
    law = fields_law(problem, roots[0].order)
    return [numbers_of(problem, root, math.inf, law) for root in roots[1:]]


def _spread(of_replicates: Sequence[Numbers]) -> dict[str, Array]:
    """Return the half width of each number that replicates show."""
    t = student_quantile(N_REPLICATES) / math.sqrt(N_REPLICATES)
    return {
        name: t * np.std([numbers[name].value for numbers in of_replicates], axis=0, ddof=1)
        for name in of_replicates[0]
    }


def _add_rare_events(spread: dict[str, Array], problem: MatrixProblem, points: PointFields) -> None:
    """Widen bars of training samples for events that no point may have met."""
    shares = problem.population.group_shares
    weight_of_a_point = max(
        shares[block.group] * float(block.weight.mean()) for block in points.blocks
    )
    rare = weight_of_a_point / N_REPLICATES
    spread["training_error"] = spread["training_error"] + RARE_EVENTS * rare
    if problem.loss.coordinates.jumps:  # most samples may have no loss
        spread["training_loss"] = spread["training_loss"] + RARE_EVENTS * rare


def _add_bend(
    spread: dict[str, Array], half_as_many: MatrixAverages, averages: MatrixAverages
) -> None:
    """Widen bars of training samples by what half as many points make of them.

    Points with the moments of x bend averages as 1/N. The spread falls as N^(−3/4), and of many
    points counts alone.
    """
    for name, bend in (
        ("training_loss", half_as_many.loss - averages.loss),
        ("training_error", half_as_many.error - averages.error),
    ):
        spread[name] = spread[name] + abs(bend)


def _with_bars_of_replicates(
    problem: MatrixProblem,
    root: Solved,
    spread: dict[str, Array],
    estimated_error: float,
    tol: float,
) -> Numbers:
    """Return the numbers at all points, with bars for replicates, the root and the scores."""
    # θ are logarithms: what is left of them is relative.
    left_by_root = 2 * ROOT_SHARE_OF_TOLERANCE * tol
    left = tol - left_by_root * estimated_error - float(spread["generalisation_error"])
    numbers = numbers_of(problem, root, max(SCORES_SHARE_OF_LEFT * left, tol / 3))
    return {
        name: Estimate(value, bar + spread[name] + left_by_root * np.abs(value))
        for name, (value, bar) in numbers.items()
    }
