"""The fixed point of the loop with matrices, at given nodes of the fields side.

The square loss on a mixture has it in closed form. Else Anderson's method takes the combination of
the last rounds whose residual is least (`solve/anderson.py`), in the unknowns θ of `loop.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.sides.matrix.linear_loss import is_linear, linear_law
from polyceptron.sides.matrix.loop import Fields, pack, round_residual, start, unpack
from polyceptron.sides.matrix.order import MatrixAverages, MatrixOrder, MatrixProblem
from polyceptron.solve.anderson import Anderson
from polyceptron.solve.root import newton

# Moves that are remembered: on boxes, and on points, whose unknowns are many.
DEPTH_ON_BOXES = 12
DEPTH_ON_POINTS = 20
SINGULAR_VALUE_CUTOFF = 1e-10
# The longest step of an unknown, a logarithm, in a round: shorter on points, and for hard margins.
LONGEST_STEP_ON_BOXES = 2.0
LONGEST_STEP_ON_POINTS = 1.0
LONGEST_STEP_OF_HARD_MARGINS = 0.7
# Share of a plain round with covariances in full on points, whose rounds swing up.
DAMPING_OF_FULL_COVARIANCES = 0.3
# A combination of rounds has failed where the residual grows by more than this.
WORSE = 2.0
# Nodes are left behind where they miss so much of a group.
MISSED_TOO_MUCH = 0.1


class Solved(NamedTuple):
    """Where a search ended.

    Attributes
    ----------
    order : MatrixOrder
    theta : array, shape (unknowns,)
        The same as a vector.
    averages : MatrixAverages
        There.
    converged : bool
    fields : callable
        The fields side, at the nodes of the search.
    """

    order: MatrixOrder
    theta: Array
    averages: MatrixAverages
    converged: bool
    fields: Fields


@dataclass
class MatrixSolver:
    """Solves for the fixed point; moves are remembered from one level of accuracy to the next.

    Attributes
    ----------
    problem : MatrixProblem
    longest_relative_step : float
        A round may move an unknown by this share of it, however large that is. Hard margins of
        plenty of samples have unknowns of hundreds.
    memory : Anderson
    """

    problem: MatrixProblem
    longest_relative_step: float = 0.0
    memory: Anderson = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Anderson(min(DEPTH_ON_BOXES, len(start(self.problem))), SINGULAR_VALUE_CUTOFF)
        if self.problem.sampled:
            self.memory.depth = DEPTH_ON_POINTS
            if self.problem.population.full_features is not None:
                self.memory.damping = DAMPING_OF_FULL_COVARIANCES

    @cached_property
    def closed_form(self) -> MatrixOrder | None:
        """The law where it is known in closed form."""
        if not is_linear(self.problem):
            return None
        try:
            return linear_law(self.problem)
        except np.linalg.LinAlgError:  # rounding left none
            return None

    @cached_property
    def longest_step(self) -> float:
        """The longest step of an unknown in a round."""
        longest = LONGEST_STEP_ON_BOXES
        if self.problem.sampled:
            longest = LONGEST_STEP_ON_POINTS
        if self.problem.loss.scale_free:
            longest = min(longest, LONGEST_STEP_OF_HARD_MARGINS)
        return longest

    def solve(
        self,
        fields: Fields,
        theta: Array,
        *,
        tol: float,
        shift: Array | None = None,
        max_rounds: int = 200,
    ) -> Solved:
        """Find θ = round(θ) + shift.

        Parameters
        ----------
        fields : callable
            The fields side.
        theta : array, shape (unknowns,)
            Where to begin.
        tol : float
            The largest residual of a root.
        shift : array, shape (unknowns,), optional
        max_rounds : int
        """
        if self.closed_form is not None:
            theta = pack(self.problem, self.closed_form)
            return Solved(self.closed_form, theta, fields(self.closed_form), True, fields)
        self.memory.leave_point()
        converged = False
        for _ in range(max_rounds):
            order = unpack(self.problem, theta)
            averages = fields(order)
            residual = round_residual(self.problem, order, averages, theta)
            if residual is None or self._left_nodes_behind(averages):
                self.memory.forget()
                break
            if shift is not None:
                residual = residual + shift
            converged = float(np.abs(residual).max()) < tol
            if converged:
                self.memory.record(theta, residual)
                break
            theta = self._next(theta, residual)
        return Solved(order, theta, averages, converged, fields)

    def solve_by_newton(self, fields: Fields, theta: Array, *, tol: float) -> Solved:
        """Find θ = round(θ) near θ by Newton's method, with differences for the Jacobian.

        Combinations of rounds swing where a round moves θ by a multiple of what is missing: with
        small ridges and hardly any noise.
        """

        def residual(theta: Array) -> Array:
            """Return by how much a round moves θ, NaN where it leads to no law."""
            order = unpack(self.problem, theta)
            moved = round_residual(self.problem, order, fields(order), theta)
            if moved is None:
                return np.full_like(theta, np.nan)
            return moved

        root = newton(residual, theta, tol=tol)
        order = unpack(self.problem, root.theta)
        self.memory.forget()
        return Solved(order, root.theta, fields(order), root.converged, fields)

    def _left_nodes_behind(self, averages: MatrixAverages) -> bool:
        """Return whether the search, and not its start, is where too few nodes are."""
        return self.memory.last_point is not None and averages.missed > MISSED_TOO_MUCH

    def _next(self, theta: Array, residual: Array) -> Array:
        """Return θ after a combination of rounds, or after a plain one from before a failed one."""
        memory = self.memory
        if memory.failed(residual, WORSE):
            assert memory.last_point is not None
            assert memory.last_residual is not None
            back = memory.last_point + self._shortened(memory.last_residual, theta)
            memory.forget()
            return back
        memory.record(theta, residual)
        return theta + self._shortened(memory.step(residual), theta)

    def _shortened(self, step: Array, theta: Array) -> Array:
        """Return a step from θ, shortened where an unknown would move too far."""
        allowed = np.maximum(self.longest_step, self.longest_relative_step * np.abs(theta))
        ratio = max(float((np.abs(step) / allowed).max()), 1e-300)
        return step * min(1.0, 1 / ratio)
