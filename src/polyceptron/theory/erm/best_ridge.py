"""The ridge of least generalisation error, at given α.

Each ridge that is tried is solved for with its full accuracy, from the nearest one that is known
along the tangent of the solutions at fixed α,

    dθ/d ln λ = −J⁻¹ ∂F/∂ln λ,    θ = (ln τ, ln q, ln V),    J = ∂F/∂θ.

The error ε falls with τ alone, whatever the labels' noise, so that the first component also gives
the slope dε/d ln λ = (dε/d ln τ)(d ln τ/d ln λ), whose root is known better than the place of the
least of several nearly equal errors. `polyceptron.solve.minimise` does the search; what it leaves
open is a part of the error bar.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.problem.order import ScalarOrder
from polyceptron.rows import Status
from polyceptron.sides.generalisation import error_slope
from polyceptron.sides.scalar import Problem
from polyceptron.solve.minimise import Minimum, Place, Trial, minimise
from polyceptron.theory.erm.equations import Equations, equations
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.ridge_valley import find_valley, ridge_tangent

FIXED_POINT_SHARE = 0.8  # of the tolerance: the rest is left to the search
# Of sums, by their own checks: the tangent errs by up to a hundred times as much
# (test_a_tangent_of_sums_in_doubt_is_not_believed).
LARGEST_DOUBT_OF_TANGENT = 1e-5
SMALLEST_RIDGE = 1e-30  # that is tried before the limit λ → 0: the best ridge falls as 1/α²

# Solves a problem for its fixed point: tolerance, θ and Jacobian to start from.
Solve = Callable[[Problem, float, Array | None, Array | None], ErmFixedPoint]


@dataclass(frozen=True)
class _Known:
    """The fixed point at a ridge, with the tangent dθ/d ln λ and the Jacobian where it has them."""

    point: ErmFixedPoint
    tangent: Array | None = None
    jacobian: Array | None = None

    @property
    def theta(self) -> Array:
        """θ = (ln τ, ln q, ln V), (3,)."""
        return np.log([self.point.tau, self.point.q, self.point.V])


@dataclass
class _RidgeObjective:
    """ε as a function of the ridge, with its slope; remembers the solutions to start from."""

    problem: Problem
    tol: float
    solve: Solve
    without_ridge: Callable[[], ErmFixedPoint]
    known: dict[float, _Known] = field(default_factory=dict)  # by ln λ
    has_slopes: bool = True  # until a ridge is met at which no level is good enough for a tangent

    def __call__(self, ridge: float) -> Trial:
        if ridge == 0:
            return self._limit()
        log_ridge = math.log(ridge)
        here = self.problem.at_ridge(ridge)
        theta, jacobian = self._start(log_ridge)
        point = self.solve(here, FIXED_POINT_SHARE * self.tol, theta, jacobian)
        if point.status == Status.NOT_CONVERGED:
            return Trial(math.inf)
        known = _Known(point)
        if self.has_slopes:
            known = _with_tangent(here, point)
            self.has_slopes = known.tangent is not None
        self.known[log_ridge] = known
        slope = math.nan
        if known.tangent is not None:
            fall = error_slope(here.channel, point.tau, here.n_classes)
            slope = -fall * float(known.tangent[0])
        return Trial(point.generalisation_error, slope, known)

    def _limit(self) -> Trial:
        """λ → 0; a loss that has no such limit, or weights that diverge, are no candidates."""
        try:
            point = self.without_ridge()
        except (InvalidInput, ComputationFailed, ArithmeticError, ValueError):
            return Trial(math.inf)
        if point.status in (Status.NOT_CONVERGED, Status.DIVERGES):
            return Trial(math.inf)
        return Trial(point.generalisation_error, answer=_Known(point))

    def _start(self, log_ridge: float) -> tuple[Array | None, Array | None]:
        """θ and the Jacobian from the nearest ridge that is known, along its tangent."""
        if not self.known:
            return None, None
        nearest = min(self.known, key=lambda other: abs(other - log_ridge))
        known = self.known[nearest]
        if known.tangent is None:
            return known.theta, None
        step = min(max(log_ridge - nearest, -1.0), 1.0)  # no tangent is followed further
        return known.theta + step * known.tangent, known.jacobian


def best_ridge(
    problem: Problem,
    tol: float,
    solve: Solve,
    without_ridge: Callable[[], ErmFixedPoint],
) -> ErmFixedPoint:
    """Return the fixed point at the ridge of least error.

    Parameters
    ----------
    problem : Problem
        At any ridge.
    tol : float
        Of the error, for a fixed point and the search together.
    solve : callable
        Solves for the fixed point of a problem, from θ and a Jacobian near by.
    without_ridge : callable
        Returns the fixed point in the limit λ → 0.

    Returns
    -------
    ErmFixedPoint
        Its uncertainty counts what a further search could gain. Its status is not `ok` if the error
        was still falling at the last ridge that could be solved for.
    """
    by_valley = _in_valley(problem, tol, solve)
    if by_valley is not None:
        return by_valley
    objective = _RidgeObjective(problem, tol, solve, without_ridge)
    largest = 1e8 * max(1.0, problem.alpha)  # where the error differs from its limit by 1e-8
    found = minimise(
        objective,
        _first_guess(problem),
        tol,
        relative_tol=1e-3,
        range_=(SMALLEST_RIDGE, largest),
        limit_at_zero=True,
    )
    if found is None:
        raise ComputationFailed(
            f"no fixed point at alpha {problem.alpha:g} on the way to the optimal ridge; give a "
            f"ridge instead of 'optimal'"
        )
    return _with_search(problem, found, tol)


def _in_valley(problem: Problem, tol: float, solve: Solve) -> ErmFixedPoint | None:
    """Return the point at the bottom of a smooth valley; None where a careful search is needed."""
    valley = find_valley(problem, _first_guess(problem), tol)
    if valley is None:
        return None
    ridge = math.exp(valley.log_ridge)
    here = problem.at_ridge(ridge)
    point = solve(here, FIXED_POINT_SHARE * tol, valley.theta, valley.jacobian)
    if point.status != Status.OK:
        return None
    trial = Trial(point.generalisation_error, answer=_Known(point, valley.tangent))
    found = Minimum(ridge, trial, valley.left_open, valley.width, Place.INSIDE)
    return _with_search(here, found, tol)


def _first_guess(problem: Problem) -> float:
    """About right for cross-entropy, read off optima at 2 to 1000 classes.

    λ ≈ 0.11 for scarce data, 0.25/α² of two classes for many.
    """
    k = problem.n_classes
    samples_per_boundary = problem.alpha * boundary_density(k) / (k - 1)
    return 0.125 * k**-0.23 / (1 + 0.4 * samples_per_boundary**2)


def _with_search(problem: Problem, found: Minimum, tol: float) -> ErmFixedPoint:
    """Count in the uncertainties of a fixed point what the search for its ridge left open."""
    known: _Known = found.trial.answer
    point = known.point
    uncertainty = point.uncertainty + found.left_open
    status = point.status
    if status == Status.OK and (uncertainty > tol or found.place == Place.EDGE):
        status = Status.TOLERANCE_NOT_MET
    point = replace(point, uncertainty=uncertainty, status=status)
    if known.tangent is None:
        return point
    moved = known.theta + found.width * known.tangent
    there = ScalarOrder(*np.exp(moved).tolist())
    loss_before, error_before = _training(problem, point.law, point.law)
    loss_after, error_after = _training(problem, point.law, there)
    return replace(
        point,
        training_loss_uncertainty=point.training_loss_uncertainty + abs(loss_after - loss_before),
        training_error_uncertainty=(
            point.training_error_uncertainty + abs(error_after - error_before)
        ),
    )


def _training(problem: Problem, place: ScalarOrder, law: ScalarOrder) -> tuple[float, float]:
    """Training loss and training error at a law, with nodes placed for another near by."""
    averages = problem.fields.averages(1, place)(law).mean()
    error = problem.training_error(law)
    if error is None:
        error = float(averages.error[0])
    return float(averages.loss[0]), error


def _with_tangent(problem: Problem, point: ErmFixedPoint) -> _Known:
    """The fixed point with its tangent, or without where the averages are not good enough."""
    if not (math.isfinite(point.tau) and point.tau > 0 and math.isfinite(point.V)):
        return _Known(point)
    system = equations(problem)
    theta = np.log([point.tau, point.q, point.V])
    level = _level_of_tangent(system, theta)
    if level is None:
        return _Known(point)
    try:
        tangent, jacobian = ridge_tangent(system, theta, level)
    except (ArithmeticError, np.linalg.LinAlgError):
        return _Known(point)
    if not np.isfinite(tangent).all():
        return _Known(point)
    return _Known(point, tangent, jacobian)


def _level_of_tangent(system: Equations, theta: Array) -> int | None:
    """The coarsest level whose tangent can be trusted; None if there is none."""
    if not system.problem.nodes_follow_order:
        return 1
    for level in range(2, system.problem.fields.rule.n_levels):
        if system.at(level, theta)[1] < LARGEST_DOUBT_OF_TANGENT:
            return level
    return None
