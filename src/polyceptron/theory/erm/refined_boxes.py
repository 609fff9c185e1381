"""The fixed point of two and three unequal classes, on finer and finer boxes.

The bar of a number is what it moved between the last two levels, and a share of what all numbers
moved: one may stand still by chance.
"""

from __future__ import annotations

import math

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate
from polyceptron.sides.matrix.graph import LAST_LEVEL, GraphFields
from polyceptron.sides.matrix.loop import round_residual
from polyceptron.sides.matrix.order import MatrixProblem
from polyceptron.solve.error_model import CHANCE_AGREEMENT
from polyceptron.theory.erm.first_root import (
    FINER_BOXES,
    LARGEST_SHARE_OUTSIDE,
    LONGEST_RELATIVE_STEP_ON_A_PATH,
    PathOnFinerBoxes,
    first_root,
)
from polyceptron.theory.erm.matrix_solver import MISSED_TOO_MUCH, MatrixSolver, Solved
from polyceptron.theory.erm.population_numbers import (
    Numbers,
    is_scalar,
    numbers_of,
    point_without_numbers,
    solved_point_of,
)
from polyceptron.theory.erm.population_point import PopulationPoint

FIRST_TOLERANCE = 1e-2  # of θ, on the coarsest boxes
# The largest residual of a root: of θ, and as a share of the tolerance.
ROOT_TOLERANCE = 1e-10
ROOT_SHARE_OF_TOLERANCE = 1e-3
# A residual of θ below the root's tolerance leaves at most so many times as much of a number.
LEFT_BY_ROOT = 10
MAX_PLACEMENTS = 4
# Numbers near 0 count as this large in a relative change.
SMALLEST_NUMBER = 1e-3
# A root at nodes that were left behind is none: there a round on fresh nodes moves θ by more.
LARGEST_RESIDUAL_ON_FRESH_NODES = 1.0


def refined_on_boxes(problem: MatrixProblem, theta: Array, tol: float) -> PopulationPoint:
    """Return the fixed point with its error to `tol`, from θ (unknowns,) on."""
    solver = MatrixSolver(problem)
    solved = first_root(solver, theta, FIRST_TOLERANCE)
    first_level = 0
    accuracy = max(ROOT_TOLERANCE, ROOT_SHARE_OF_TOLERANCE * tol)
    if problem.n_classes == 2:  # nodes on a line are cheap
        first_level = 1
        accuracy = ROOT_TOLERANCE
    if not solved.converged:
        solver = MatrixSolver(problem, LONGEST_RELATIVE_STEP_ON_A_PATH)
        solved = PathOnFinerBoxes(solver, FIRST_TOLERANCE).root()
        first_level = FINER_BOXES.level
    solved = _root_on_level(solver, solved, first_level, accuracy)
    if not solved.converged:
        return point_without_numbers(problem, solved)
    coarse = numbers_of(problem, solved, math.inf)
    for level in range(first_level + 1, LAST_LEVEL + 1):
        solved = _root_on_level(solver, solved, level, accuracy)
        if not solved.converged:
            return point_without_numbers(problem, solved)
        fine = numbers_of(problem, solved, tol)
        numbers = _with_bars_of_levels(coarse, fine, solved.averages.missed, accuracy)
        if float(numbers["generalisation_error"].uncertainty) < tol:
            return solved_point_of(problem, solved, numbers, tol)
        coarse = fine
    if not _is_root_on_fresh_nodes(problem, solved):
        return point_without_numbers(problem, solved)
    return solved_point_of(problem, solved, numbers, tol)


def _root_on_level(solver: MatrixSolver, solved: Solved, level: int, accuracy: float) -> Solved:
    """Return the root on boxes of a level, placed anew until they hold all samples."""
    for placement in range(MAX_PLACEMENTS):
        fields = solved.fields
        if level > 0 or placement > 0:
            fields = GraphFields(solver.problem, solved.order, level)
        near = solved.theta
        solved = solver.solve(fields, near, tol=accuracy)
        if not solved.converged and solved.averages.missed <= MISSED_TOO_MUCH:
            solved = _newton_or(solved, solver, near, accuracy)
        if solved.converged and solved.averages.missed < LARGEST_SHARE_OUTSIDE:
            break
    return solved


def _newton_or(rounds: Solved, solver: MatrixSolver, near: Array, accuracy: float) -> Solved:
    """Return the root that Newton's method finds near θ, or where the rounds ended if it fails."""
    by_newton = solver.solve_by_newton(rounds.fields, near, tol=accuracy)
    if by_newton.converged:
        return by_newton
    return rounds


def _with_bars_of_levels(coarse: Numbers, fine: Numbers, missed: float, accuracy: float) -> Numbers:
    """Return the numbers of the finer level, with bars for what two levels differ by."""
    moved = {name: np.abs(fine[name].value - coarse[name].value) for name in fine}
    relative = [
        moved[name] / (np.abs(estimate.value) + SMALLEST_NUMBER)
        for name, estimate in fine.items()
        if is_scalar(estimate)
    ]
    share = CHANCE_AGREEMENT * float(np.nanmax(relative)) + missed
    numbers = {}
    for name, (value, own_bar) in fine.items():
        bar = own_bar + moved[name] + share * np.abs(value) + LEFT_BY_ROOT * accuracy
        numbers[name] = Estimate(value, bar)
    return numbers


def _is_root_on_fresh_nodes(problem: MatrixProblem, solved: Solved) -> bool:
    """Return whether a round on the finest boxes, placed anew, hardly moves θ."""
    fresh = GraphFields(problem, solved.order, LAST_LEVEL)(solved.order)
    residual = round_residual(problem, solved.order, fresh, solved.theta)
    if residual is None:
        return False
    return float(np.abs(residual).max()) <= LARGEST_RESIDUAL_ON_FRESH_NODES
