"""The first root of the loop with matrices: on the coarsest boxes, or at few points.

A search from small fields arrives where the pull is weak. Where it does not arrive, an easier
problem is solved first, with a larger ridge, or for hard margins with fewer samples, and the search
begins at its root; that problem may have an easier one before it in turn.

Where fields are much larger than the noise of labels the coarsest boxes have no root. Finer ones do
then, and are followed from a problem that is easier by many powers of ten (`PathOnFinerBoxes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import logarithms_in, start, unpack
from polyceptron.sides.matrix.order import MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.solve.continuation import follow_root
from polyceptron.solve.root import Root
from polyceptron.theory.erm.matrix_solver import MatrixSolver, Solved

# Rounds at few points, whose root may not exist.
ROUNDS_AT_FEW_POINTS = 60


class FollowingBoxes(NamedTuple):
    """A search on boxes that follow the law.

    Attributes
    ----------
    level : int
        Of the boxes.
    placements : int
        How often they are placed anew.
    rounds : int
        Of the loop, on each placement.
    """

    level: int
    placements: int
    rounds: int


COARSEST_BOXES = FollowingBoxes(level=0, placements=25, rounds=8)
# test_populations.py asks for problems on which the coarsest boxes fail.
FINER_BOXES = FollowingBoxes(level=2, placements=12, rounds=15)
LONGEST_RELATIVE_STEP_ON_A_PATH = 0.1
# A path begins at a problem that is easier by MAX_EASIER_PROBLEMS steps, or by a multiple of that.
MAX_BEGINNINGS_OF_A_PATH = 3
# Boxes are still where they should be while θ has moved by less than this, and so little of a group
# is outside them.
LARGEST_MOVE_OF_A_PLACEMENT = 0.2
LARGEST_SHARE_OUTSIDE = 5e-3
# A search for Q and V is not on its way to a root where a logarithm of theirs is beyond this.
LOGARITHM_OF_NO_RETURN = 100
# Easier problems on the way, each with ten times the ridge or half the samples of the one after it.
MAX_EASIER_PROBLEMS = 6
TOLERANCE_OF_EASIER_PROBLEM = 1e-3
# Where few points had no root at a smaller ridge, they have none below this one either.
LEAST_HOPEFUL_RIDGE = 1e-3


def first_root(
    solver: MatrixSolver,
    theta: Array,
    tol: float,
    few: PointFields | None = None,
    n_easier: int = 0,
) -> Solved:
    """Find a root at few points, or on the coarsest boxes, which follow the law.

    Parameters
    ----------
    solver : MatrixSolver
    theta : array, shape (unknowns,)
        Where to begin.
    tol : float
        The largest residual of a root.
    few : PointFields, optional
        Without points there are boxes.
    n_easier : int
        How many easier problems are on the way to this one already.
    """
    if not _is_hopeless(solver.problem, few, n_easier):
        solved = _attempt(solver, theta, tol, few)
        if solved.converged or n_easier == MAX_EASIER_PROBLEMS:
            return solved
    easier = _easier(solver.problem, _factor_of_easier(solver.problem))
    its_points = None
    if few is not None:
        its_points = PointFields(easier, few.blocks)
    its_tol = max(tol, TOLERANCE_OF_EASIER_PROBLEM)
    on_the_way = first_root(MatrixSolver(easier), start(easier), its_tol, its_points, n_easier + 1)
    solver.memory.forget()
    return _attempt(solver, on_the_way.theta, tol, few)


@dataclass
class PathOnFinerBoxes:
    """A search on finer boxes, along the roots of easier problems.

    Hard margins of plenty of samples, and small ridges, have roots that move far with α and λ. A
    step of ln λ, or ln α, that fails is halved (`follow_root`).

    Attributes
    ----------
    solver : MatrixSolver
        Of the problem at the end.
    tol : float
        The largest residual of a root.
    last : Solved, optional
        Where the last search ended.
    """

    solver: MatrixSolver
    tol: float
    last: Solved | None = None

    def root(self) -> Solved:
        """Return where the search ends."""
        problem = self.solver.problem
        step = MAX_EASIER_PROBLEMS * math.log(_factor_of_easier(problem))
        for n_steps in range(1, MAX_BEGINNINGS_OF_A_PATH + 1):
            easier_by = n_steps * step
            begin = self.attempt(easier_by, start(_easier(problem, math.exp(easier_by))), None)
            if begin.converged:
                follow_root(self.attempt, easier_by, 0.0, begin)
                break
        assert self.last is not None
        return self.last

    def attempt(self, easier_by: float, theta: Array | None, jacobian: Array | None) -> Root:
        """Search for the root of a problem that is easier by a logarithm, from θ."""
        assert theta is not None
        solver = self.solver
        if easier_by > 0:
            easier = _easier(solver.problem, math.exp(easier_by))
            solver = MatrixSolver(easier, LONGEST_RELATIVE_STEP_ON_A_PATH)
        solver.memory.forget()
        self.last = _attempt_on_boxes(solver, theta, self.tol, FINER_BOXES)
        unknown = np.full_like(theta, math.nan)
        return Root(self.last.theta, unknown, np.eye(len(theta)), self.last.converged)


def _is_hopeless(problem: MatrixProblem, few: PointFields | None, n_easier: int) -> bool:
    """Return whether few points had no root at a smaller ridge, and will have none here."""
    return (
        few is not None
        and 0 < n_easier < MAX_EASIER_PROBLEMS
        and problem.ridge < LEAST_HOPEFUL_RIDGE
    )


def _easier(problem: MatrixProblem, factor: float) -> MatrixProblem:
    """Return the problem with fewer samples for hard margins, else with a larger ridge."""
    if problem.loss.scale_free:
        return replace(problem, alpha=problem.alpha / factor)
    return replace(problem, ridge=factor * problem.ridge)


def _factor_of_easier(problem: MatrixProblem) -> float:
    """Return by how much α or λ of the next easier problem differs."""
    if problem.loss.scale_free:
        return 2.0
    return 10.0


def _attempt(solver: MatrixSolver, theta: Array, tol: float, few: PointFields | None) -> Solved:
    """Search from θ, and return where the search ended."""
    if few is not None:
        return solver.solve(few, theta, tol=tol, max_rounds=ROUNDS_AT_FEW_POINTS)
    return _attempt_on_boxes(solver, theta, tol, COARSEST_BOXES)


def _attempt_on_boxes(
    solver: MatrixSolver, theta: Array, tol: float, boxes: FollowingBoxes
) -> Solved:
    """Search from θ on boxes that follow the law, and return where the search ended."""
    for _ in range(boxes.placements):
        fields = GraphFields(solver.problem, unpack(solver.problem, theta), boxes.level)
        solved = solver.solve(fields, theta, tol=tol, max_rounds=boxes.rounds)
        moved = float(np.abs(solved.theta - theta).max())
        theta = solved.theta
        if solved.converged and _boxes_serve(solver.problem, solved, moved):
            break
        if not np.abs(logarithms_in(solver.problem, theta)).max() < LOGARITHM_OF_NO_RETURN:
            break
    return solved


def _boxes_serve(problem: MatrixProblem, solved: Solved, moved: float) -> bool:
    """Return whether the boxes hold the samples, although the law has moved since."""
    if problem.n_classes == 2:  # on a line the nodes of a finer rule follow in any case
        return True
    return moved < LARGEST_MOVE_OF_A_PLACEMENT and solved.averages.missed < LARGEST_SHARE_OUTSIDE
