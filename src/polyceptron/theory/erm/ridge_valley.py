"""The bottom of a smooth valley of the error ε over x = ln λ, at the price of a few coarse roots.

Most errors have one valley over the ridge. Its bottom is found on a coarse level of the rule, and
corrected by the slope on a finer one, before anything is solved for with full accuracy:

1. *Bracket.* Coarse roots at x and at x ± 1; further out, until ε has risen on both sides: by many
   tolerances, or step by step beyond doubt where it hardly depends on the ridge. Each root is
   computed on the first level whose own checks do not doubt how much ε has risen: averages that
   miss samples make valleys of their own.
2. *Bottom.* The least value of the polynomial through all points, where the next root is computed,
   until the polynomial promises less than the tolerance.
3. *Correct.* The root of the slope by the secant method, with

       dε/dx = −|dε/d ln τ| (d ln τ/dx),      dθ/dx = −J⁻¹ ∂F/∂x,

   on the first level where it differs little from that of the level before.

A valley that this does not see, because ε has kinks, is flat, or falls up to a limit, is none of
this file's: `find_valley` returns None, and `best_ridge` searches step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

from polyceptron.numerics import Array
from polyceptron.sides.fields.integrand import Averages
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.sides.scalar import Problem
from polyceptron.solve import error_model
from polyceptron.solve.root import is_in_range, jacobian_at, newton
from polyceptron.theory.erm.coarse_root import coarse_root
from polyceptron.theory.erm.equations import Equations, equations

RISE_IN_TOLERANCES = 10.0  # by which ε must have risen on both sides of a valley
STEPS_OF_STEADY_RISE = 4  # of 1 in x: so many in a row are a rise as well, however small
MAX_BRACKET_STEPS = 12
# Finer levels that are tried where ε is in doubt by less than the tolerance, yet not by as little
# as a steady rise asks for.
LEVELS_FOR_STEADY_RISE = 2
PROBE_DISTANCE = 0.25  # in x, of the slopes whose difference is the second derivative
SHARE_IN_DOUBT = 0.2  # of a rise of ε: the second derivative is then known to about as much
GAIN_SHARE = 0.15  # of the tolerance: a gain for which no further step is made
SMALL_DOUBT_SHARE = 0.05  # of the tolerance: ε in doubt by less is as good as known
# |error of d ln τ/d ln λ| over what the averages miss by their own checks: usual are 0.1 to 3, and
# the most is 42, for 4 to 100 classes with 0.3 to 156 samples per dimension.
MOST_ERROR_PER_DOUBT = 100.0
# The same beside the change between two levels, which may be small by chance.
USUAL_ERROR_PER_DOUBT = 10.0


class Valley(NamedTuple):
    """Where ε is least over x = ln λ, and how to begin to solve there.

    Attributes
    ----------
    log_ridge : float
    theta : array (3,)
        Near the fixed point at this ridge.
    tangent : array (3,)
        dθ/dx.
    jacobian : array (3, 3)
        ∂F/∂θ.
    left_open : float
        What a further search could gain.
    width : float
        By how much x may be off.
    """

    log_ridge: float
    theta: Array
    tangent: Array
    jacobian: Array
    left_open: float
    width: float


def find_valley(problem: Problem, first_ridge: float, tol: float) -> Valley | None:
    """Return the valley next to a first guess of the ridge; None if this needs a careful search.

    Parameters
    ----------
    problem : Problem
        At any ridge.
    first_ridge : float
    tol : float
        Of ε.
    """
    if problem.nodes_are_random or problem.loss.coordinates.jumps:
        return None
    log_ridge = math.log(first_ridge)
    try:
        root = coarse_root(equations(problem.at_ridge(first_ridge)))
        if not root.converged:
            return None
        first = _Point(log_ridge, root.theta, root.jacobian, math.nan, math.nan)
        return _ValleySearch(problem, tol, root.level, first).valley()
    except (ArithmeticError, np.linalg.LinAlgError):
        return None


def ridge_tangent(system: Equations, theta: Array, level: int) -> tuple[Array, Array]:
    """Return dθ/d ln λ at fixed α, shape (3,), and the Jacobian ∂F/∂θ, shape (3, 3), at a root."""
    averages_at = system.placed(level, system.problem.fields.rule.placement(theta))
    averages = averages_at(system.law(theta)).mean()
    value = system.residual(theta, averages)[:, 0]
    jacobian = jacobian_at(system.on(averages_at), theta, value)
    tangent = np.linalg.solve(jacobian, -_change_with_ridge(system, theta, averages))
    return np.asarray(tangent), jacobian


def _change_with_ridge(system: Equations, theta: Array, averages: Averages) -> Array:
    """Return ∂F/∂ln λ (3,): only the weights side depends on λ, so that the averages stay."""
    step = 1e-4
    ends = []
    for shift in (-step, step):
        ridge = system.problem.ridge * math.exp(shift)
        shifted = equations(system.problem.at_ridge(ridge))
        ends.append(shifted.residual(theta, averages)[:, 0])
    return np.asarray((ends[1] - ends[0]) / (2 * step))


class _Slope(NamedTuple):
    """dε/dx at x, the root there, and by how much the slope may be off."""

    x: float
    theta: Array
    tangent: Array
    jacobian: Array
    slope: float
    error: float


class _Point(NamedTuple):
    """A coarse root at x, ε there, and by how much ε may be off."""

    x: float
    theta: Array
    jacobian: Array
    error: float
    doubt: float


@dataclass
class _ValleySearch:
    """The coarse roots so far, by rising x, each on `level` or a finer one."""

    problem: Problem
    absolute_tol: float
    level: int
    first: _Point  # the root of another level, to begin with
    points: list[_Point] = field(default_factory=list)

    def valley(self) -> Valley | None:
        """Return the valley around the first root, None where there is none to be seen."""
        if not self._add(self.first.x, self.absolute_tol) or not self.bracket():
            return None
        log_ridge = self.bottom()
        if log_ridge is None:
            return None
        return self.corrected(log_ridge)

    @property
    def tol(self) -> float:
        """The tolerance on ε: where ε is small, a thousandth of it."""
        return min(self.absolute_tol, 1e-3 * self._best().error)

    def bracket(self) -> bool:
        """Go to smaller and larger x until ε has risen on both sides; return whether it has."""
        for _ in range(MAX_BRACKET_STEPS):
            i = self.points.index(self._best())
            if not self._has_risen(self.points[i::-1]):
                outer = self.points[0].x - 1.0
            elif not self._has_risen(self.points[i:]):
                outer = self.points[-1].x + 1.0
            else:
                return True
            if not self._add(outer, SMALL_DOUBT_SHARE * self.tol):
                return False
        return False

    def _has_risen(self, outwards: list[_Point]) -> bool:
        """Return whether ε has risen from the best point to the last one of a side."""
        rise = outwards[-1].error - outwards[0].error
        if rise >= RISE_IN_TOLERANCES * self.tol:
            return True
        steps = list(pairwise(outwards))[-STEPS_OF_STEADY_RISE:]
        return len(steps) == STEPS_OF_STEADY_RISE and all(_rises(*step) for step in steps)

    def bottom(self) -> float | None:
        """Return the x of least ε, None if the polynomials do not settle."""
        for _ in range(6):
            best = self._best()
            around = self._around(best)
            x = _lowest(around, best.x)
            if x is None:
                return None
            if best.error - float(around(x)) < self.tol:  # the slope corrects the rest
                return x
            if not self._add(x, self.absolute_tol):
                return None
        return None

    def corrected(self, x: float) -> Valley | None:
        """Return the valley by the root of the slope, on levels that see it well.

        The second derivative is that of the slopes themselves: the polynomial of coarse roots is
        believed in nothing but where to begin.
        """
        bend = float(self._around(self._best()).deriv(2)(x))
        if not bend > 0:
            return None
        here = self._slope_at(x, self._predicted(x), bend)
        if here is None:
            return None
        probe = x - math.copysign(PROBE_DISTANCE, here.slope)
        before = here
        here = self._slope_at(probe, before.theta + (probe - x) * before.tangent, bend)
        for _ in range(3):
            if here is None:
                return None
            bend = (here.slope - before.slope) / (here.x - before.x)
            shift = -here.slope / bend
            if not bend > 0 or abs(shift) > 2 * PROBE_DISTANCE:
                return None
            slope_left = SHARE_IN_DOUBT * abs(here.slope) + here.error
            left_open = slope_left**2 / (2 * bend)
            theta = here.theta + shift * here.tangent
            if left_open < GAIN_SHARE * self.tol:
                width = slope_left / bend
                x = here.x + shift
                return Valley(x, theta, here.tangent, here.jacobian, left_open, width)
            before = here
            here = self._slope_at(before.x + shift, theta, bend)
        return None

    def _slope_at(self, x: float, theta: Array, bend: float) -> _Slope | None:
        """Return the slope of ε at x on the first level that sees it well, None without any."""
        system = equations(self.problem.at_ridge(math.exp(x)))
        fall = error_slope(self.problem.channel, math.exp(theta[0]), self.problem.n_classes)
        # An error of the slope by so much would gain a third of what is left open.
        largest_error = math.sqrt(2 * bend * GAIN_SHARE / 3 * self.tol) / fall
        jacobian = min(self.points, key=lambda point: abs(point.x - x)).jacobian
        rule = self.problem.fields.rule
        slope_before = math.inf  # d ln τ/dx on the level before
        first = 0  # level
        if MOST_ERROR_PER_DOUBT * system.at(1, theta)[1] < largest_error:
            first = 1
        for level in range(first, rule.n_levels):
            residual = system.on(system.placed(level, rule.placement(theta)))
            tol = rule.root_tolerances[level]
            root = newton(residual, theta, tol=tol, jacobian=jacobian, chord=True)
            if not root.converged:
                return None
            theta = root.theta + root.step()
            tangent, jacobian = ridge_tangent(system, theta, level)
            slope = float(tangent[0])
            doubt = system.at(level, theta)[1]
            error = abs(slope - slope_before) + USUAL_ERROR_PER_DOUBT * doubt
            if level > 0:
                error = min(error, MOST_ERROR_PER_DOUBT * doubt)
            if error < largest_error:
                return _Slope(x, theta, tangent, jacobian, -fall * slope, fall * error)
            slope_before = slope
        return None

    def _best(self) -> _Point:
        return min(self.points, key=lambda point: point.error)

    def _around(self, best: _Point) -> Polynomial:
        """Return the polynomial through the points next to the best one, at most five."""
        nearest = sorted(self.points, key=lambda point: abs(point.x - best.x))[:5]
        x = [point.x for point in nearest]
        errors = [point.error for point in nearest]
        return Polynomial.fit(x, errors, len(nearest) - 1)

    def _add(self, x: float, small_doubt: float) -> bool:
        """Add the root at x, on the first level that does not doubt it; return whether there is.

        A doubt that is small needs no finer level, however little ε has risen.
        """
        system = equations(self.problem.at_ridge(math.exp(x)))
        rule = self.problem.fields.rule
        theta = self._predicted(x)
        nearest = min(self.points, key=lambda point: abs(point.x - x), default=self.first)
        jacobian = nearest.jacobian
        for level in range(self.level, rule.n_levels - 1):
            if not is_in_range(theta):
                return False
            residual = system.on(system.placed(level, rule.placement(theta)))
            tol = rule.root_tolerances[level]
            root = newton(residual, theta, tol=tol, jacobian=jacobian, chord=True)
            if not root.converged:
                return False
            theta = root.theta + root.step()  # more digits than the search gave
            jacobian = root.jacobian
            tau = math.exp(theta[0])
            n_classes = self.problem.n_classes
            error = float(error_on_labels(self.problem.channel, tau, n_classes))
            doubt = self._doubt(system, level, root.theta)
            if level - self.level >= LEVELS_FOR_STEADY_RISE:
                small_doubt = self.absolute_tol
            if doubt <= max(small_doubt, SHARE_IN_DOUBT * self._rise_to(error)):
                self.points.append(_Point(x, theta, jacobian, error, doubt))
                self.points.sort(key=lambda point: point.x)
                return True
        return False

    def _rise_to(self, error: float) -> float:
        """Return by how much an ε is above the least one so far; 0 for the first."""
        if not self.points:
            return 0.0
        return error - self._best().error

    def _doubt(self, system: Equations, level: int, theta: Array) -> float:
        """Return by how much ε may be off at a root, by the level's own checks."""
        if not self.problem.nodes_follow_order:
            return 0.0
        averages, doubt = system.at(level, theta)
        error_of_log_tau = error_model.DOUBT_FACTOR * doubt
        error_of_log_tau += error_model.MISSED_PULL * averages.missed(self.problem.n_classes - 1)
        fall = error_slope(self.problem.channel, math.exp(theta[0]), self.problem.n_classes)
        return fall * error_of_log_tau

    def _predicted(self, x: float) -> Array:
        """Return θ (3,) at x by the polynomial through the nearest roots, at most four."""
        nearest = sorted(self.points, key=lambda point: abs(point.x - x))[:4]
        if not nearest:
            return self.first.theta
        if len(nearest) == 1:
            point = nearest[0]
            return point.theta + (x - point.x) * self._tangent(point)
        theta = np.zeros(3)
        for point in nearest:
            weight = 1.0
            for other in nearest:
                if other is not point:
                    weight *= (x - other.x) / (point.x - other.x)
            theta += weight * point.theta
        return theta

    def _tangent(self, point: _Point) -> Array:
        """Return dθ/dx (3,) on the level of the search, with the Jacobian that the root left."""
        system = equations(self.problem.at_ridge(math.exp(point.x)))
        averages, _ = system.at(self.level, point.theta)
        by_ridge = _change_with_ridge(system, point.theta, averages)
        return np.asarray(np.linalg.solve(point.jacobian, -by_ridge))


def _rises(inner: _Point, outer: _Point) -> bool:
    """Return whether ε rises beyond doubt from one point to the next."""
    return outer.error - inner.error > inner.doubt + outer.doubt


def _lowest(polynomial: Polynomial, near: float) -> float | None:
    """Return the place of the minimum of a polynomial that is nearest to a given one, if any."""
    slope = polynomial.deriv()
    places = [float(x.real) for x in slope.roots() if abs(x.imag) < 1e-9]
    minima = [x for x in places if polynomial.deriv(2)(x) > 0]
    return min(minima, key=lambda x: abs(x - near), default=None)
