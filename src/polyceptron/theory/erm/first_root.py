"""The first root of the loop with matrices: on the coarsest boxes, or at few points.

A search from small fields arrives where the pull is weak. Where it does not arrive, an easier
problem is solved first, with a larger ridge, or for hard margins with fewer samples, and the search
begins at its root; that problem may have an easier one before it in turn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from polyceptron.numerics import Array
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import start, unpack
from polyceptron.sides.matrix.order import MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.theory.erm.matrix_solver import MatrixSolver, Solved

# Rounds at few points, whose root may not exist.
ROUNDS_AT_FEW_POINTS = 60
# On boxes: placements of nodes, and rounds before nodes follow the law.
PLACEMENTS_ON_BOXES = 25
ROUNDS_OF_A_PLACEMENT = 8
# Boxes are still where they should be while θ has moved by less than this, and so little of a group
# is outside them.
LARGEST_MOVE_OF_A_PLACEMENT = 0.2
LARGEST_SHARE_OUTSIDE = 5e-3
# θ, of logarithms, beyond this is not on its way to a root.
THETA_OF_NO_RETURN = 100
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
    easier = _easier(solver.problem)
    its_points = None
    if few is not None:
        its_points = PointFields(easier, few.blocks)
    its_tol = max(tol, TOLERANCE_OF_EASIER_PROBLEM)
    on_the_way = first_root(MatrixSolver(easier), start(easier), its_tol, its_points, n_easier + 1)
    solver.memory.forget()
    return _attempt(solver, on_the_way.theta, tol, few)


def _is_hopeless(problem: MatrixProblem, few: PointFields | None, n_easier: int) -> bool:
    """Return whether few points had no root at a smaller ridge, and will have none here."""
    return (
        few is not None
        and 0 < n_easier < MAX_EASIER_PROBLEMS
        and problem.ridge < LEAST_HOPEFUL_RIDGE
    )


def _easier(problem: MatrixProblem) -> MatrixProblem:
    """Return the problem with fewer samples for hard margins, else with a larger ridge."""
    if problem.loss.scale_free:
        return replace(problem, alpha=problem.alpha / 2)
    return replace(problem, ridge=10 * problem.ridge)


def _attempt(solver: MatrixSolver, theta: Array, tol: float, few: PointFields | None) -> Solved:
    """Search from θ, and return where the search ended."""
    if few is not None:
        return solver.solve(few, theta, tol=tol, max_rounds=ROUNDS_AT_FEW_POINTS)
    for _ in range(PLACEMENTS_ON_BOXES):
        fields = GraphFields(solver.problem, unpack(solver.problem, theta), 0)
        solved = solver.solve(fields, theta, tol=tol, max_rounds=ROUNDS_OF_A_PLACEMENT)
        moved = float(np.abs(solved.theta - theta).max())
        theta = solved.theta
        if solved.converged and _boxes_serve(solver.problem, solved, moved):
            break
        if not np.abs(theta).max() < THETA_OF_NO_RETURN:
            break
    return solved


def _boxes_serve(problem: MatrixProblem, solved: Solved, moved: float) -> bool:
    """Return whether the boxes hold the samples, although the law has moved since."""
    if problem.n_classes == 2:  # on a line the nodes of a finer rule follow in any case
        return True
    return moved < LARGEST_MOVE_OF_A_PLACEMENT and solved.averages.missed < LARGEST_SHARE_OUTSIDE
