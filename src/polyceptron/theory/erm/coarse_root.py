"""The root of the equations F(θ) = 0 on a coarse level of the rule: where every answer begins.

θ = (ln τ, ln q, ln V), with τ = ρ/√(1 − ρ²). `coarse_root` tries, in this order: a start that the
caller knows, the solution of two classes with as many samples per boundary, the loss's quadratic
expansion, and continuation in λ (in α for losses without a scale). Nodes are placed at a law that
is rounded to a lattice, so that the answer does not depend on the way by which the root was found.

Close to α_s, where weights without a ridge diverge, a rule puts α_s off by its own error and has no
root closer to it than that: the closer, the finer the level on which the search begins.
"""

import math

import numpy as np

from polyceptron.numerics import Array
from polyceptron.sides.scalar import Problem
from polyceptron.solve.continuation import follow_root
from polyceptron.solve.root import Root, is_in_range, jacobian_at, newton, no_root
from polyceptron.theory.erm.equations import Equations
from polyceptron.theory.erm.starts import quadratic_guess, two_class_twin

LATTICE_SPACING = 0.5  # of θ: nodes serve a law that is off by half of this well
MAX_PLACEMENTS = 8  # of nodes: on the edge of two lattice cells either will do
# Tolerance on θ of the root: of the panels of two and three classes by level, of points and sums.
TOLERANCE_OF_PANELS = (1e-7, 1e-9, 1e-11, 1e-12, 1e-13)
TOLERANCE_OF_POINTS = 1e-4
TOLERANCE_OF_SUMS = 1e-3

# |α/α_s − 1| from which levels 0, 1, 2 and 3 of the panels have a root.
SMALLEST_DISTANCE_OF_PANELS = (5e-3, 1.5e-4, 1.5e-6, 5e-9)
USABLE_DOUBT = 5e-3  # of sums, by their own checks: below this they may have a root
DOUBT_PER_DISTANCE = 0.05  # and below this share of |α/α_s − 1|
# On this level of sums, if so many times the pulling samples are missed, finer ones will not do.
DECISIVE_LEVEL_OF_SUMS = 2
HOPELESS_MISSED_SHARE = 30.0

SMALLEST_RIDGE_FOLLOWED = 1e-9  # of a continuation whose last step goes to λ = 0


def lattice_point(system: Equations, theta: Array) -> Array:
    """Return the θ (3,) for whose law nodes are placed, for roots near a given θ."""
    if system.problem.nodes_follow_order:
        return theta
    return np.asarray(np.round(theta / LATTICE_SPACING) * LATTICE_SPACING)


def coarse_root(
    system: Equations,
    start: Array | None = None,
    jacobian: Array | None = None,
    room: float = math.inf,
) -> Root:
    """Return the root on the first level that has one.

    Parameters
    ----------
    system : Equations
    start : array (3,), optional
        θ near the root.
    jacobian : array (3, 3), optional
        ∂F/∂θ near the root.
    room : float
        |α/α_s − 1| where weights diverge at α_s; close to it only `start` is tried.
    """
    problem = system.problem
    if start is not None and start.size:
        root = try_from(system, start, jacobian, room)
        if root.converged or room < SMALLEST_DISTANCE_OF_PANELS[0]:
            return root
    twin = two_class_twin(problem)
    if twin is not None:
        solution = coarse_root(system.of(twin))
        if solution.converged:
            root = try_from(system, solution.theta, solution.jacobian)
            # Sums that do not serve near the twin's solution serve nowhere: the caller samples.
            if root.converged or problem.nodes_follow_order:
                return root
    root = try_from(system, quadratic_guess(problem))
    if root.converged:
        return root
    return continuation(system)


def try_from(
    system: Equations, start: Array, jacobian: Array | None = None, room: float = math.inf
) -> Root:
    """Search from a start on a coarse level; the result is not converged where there is no root.

    Nodes are placed anew until the root is in the lattice cell for which they were placed.
    """
    level = None
    if is_in_range(start):
        level = _first_level(system, start, room)
    if level is None:
        return no_root(start)
    problem = system.problem
    tol = _tolerance(problem, level)
    theta = start
    for _ in range(MAX_PLACEMENTS):
        place = lattice_point(system, theta)
        residual = system.on(system.placed(level, place))
        root = newton(residual, theta, tol=tol, jacobian=jacobian)
        theta = root.theta
        jacobian = root.jacobian
        if not root.converged or not is_in_range(theta):
            return no_root(start)
        if problem.nodes_follow_order or (lattice_point(system, theta) == place).all():
            break
    if problem.nodes_are_random:
        # Random levels see only the replicates' spread, so their steps need the Jacobian here.
        root = root._replace(jacobian=jacobian_at(residual, theta, root.residual))
    return root._replace(level=level)


def _tolerance(problem: Problem, level: int) -> float:
    """Return to how many digits of θ a root on a coarse level is worth knowing."""
    if problem.nodes_follow_order:
        return TOLERANCE_OF_SUMS
    if problem.nodes_are_random:
        return TOLERANCE_OF_POINTS
    return TOLERANCE_OF_PANELS[level]


def _first_level(system: Equations, theta: Array, room: float) -> int | None:
    """Return the coarsest level that may have a root near θ, None if there is none."""
    if system.problem.nodes_follow_order:
        return _first_level_of_sums(system, theta, room)
    if system.problem.nodes_are_random:
        return 0
    too_close = [distance for distance in SMALLEST_DISTANCE_OF_PANELS if room < distance]
    return len(too_close)


def _first_level_of_sums(system: Equations, theta: Array, room: float) -> int | None:
    """Return the coarsest level whose own checks say that it may have a root near θ."""
    problem = system.problem
    last = problem.fields.rule.n_levels - 2
    for level in range(last + 1):
        averages, doubt = system.at(level, theta)
        missed = 0.0
        if not problem.loss.scale_free:
            missed = averages.missed(problem.n_classes - 1)
        if missed < 1 and doubt < min(USABLE_DOUBT, DOUBT_PER_DISTANCE * room):
            return level
        hopeless = missed > HOPELESS_MISSED_SHARE or doubt > 2 * USABLE_DOUBT
        if hopeless and level == DECISIVE_LEVEL_OF_SUMS and math.isinf(room):
            return None
    if math.isinf(room):
        return None
    return last


def continuation(system: Equations) -> Root:
    """Return the root by following it from a problem where the quadratic guess is good.

    This is a large ridge, or α = 1 for losses without a scale, whose ridge changes nothing.
    """
    problem = system.problem
    if problem.loss.scale_free:
        return _follow_alpha(system)
    return _follow_ridge(system)


def _follow_alpha(system: Equations) -> Root:
    """Return the root by continuation in ln α from α = 1."""
    goal = math.log(system.problem.alpha)

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        here = system
        if x != goal:
            here = system.of(system.problem.at_alpha(math.exp(x)))
        return _from_guess_or(here, theta, jacobian)

    return follow_root(attempt, 0.0, goal)


def _follow_ridge(system: Equations) -> Root:
    """Return the root by continuation in ln λ from a large λ; the last step may lead to λ = 0."""
    problem = system.problem
    largest = 10 * max(1.0, problem.ridge, problem.alpha)
    goal = math.log(max(problem.ridge, SMALLEST_RIDGE_FOLLOWED))

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        here = system
        if x != goal or problem.ridge == 0:
            here = system.of(problem.at_ridge(math.exp(x)))
        return _from_guess_or(here, theta, jacobian)

    root = follow_root(attempt, math.log(largest), goal)
    if problem.ridge > 0 or not root.converged:
        return root
    return try_from(system, root.theta, root.jacobian)


def _from_guess_or(system: Equations, theta: Array | None, jacobian: Array | None) -> Root:
    """Search from θ, or from the quadratic guess if there is none."""
    if theta is None:
        theta = quadratic_guess(system.problem)
    return try_from(system, theta, jacobian)
