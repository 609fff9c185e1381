"""The root of the equations F(θ) = 0 on a coarse level of the rule: where every answer begins.

θ = (ln τ, ln q, ln V), with τ = ρ/√(1 − ρ²). `coarse_root` tries, in this order: a start that the
caller knows, the solution of two classes with as many samples per boundary, the loss's quadratic
expansion, and continuation in λ (in α for losses without a scale). Nodes are placed at a law that
is rounded to a lattice, so that the answer does not depend on the way by which the root was found.

Close to α_s, where weights without a ridge diverge, a rule puts α_s off by its own error and has no
root closer to it than that: the closer, the finer the level on which the search begins.
"""

import math

from polyceptron.numerics import Array
from polyceptron.solve.continuation import follow_root
from polyceptron.solve.root import Root, is_in_range, jacobian_at, newton, no_root
from polyceptron.theory.erm.equations import Equations
from polyceptron.theory.erm.starts import quadratic_guess, two_class_twin

# Sums may have a root where they err by less than this by their own checks.
USABLE_DOUBT = 5e-3
NEAR_SEPARABILITY = 5e-3  # |α/α_s − 1|: closer, only a start that was followed there can be near


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
        if root.converged or room < NEAR_SEPARABILITY:
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
    rule = problem.fields.rule
    tol = rule.root_tolerances[level]
    theta = start
    for _ in range(8):  # on the edge of two lattice cells either will do
        place = rule.placement(theta)
        residual = system.on(system.placed(level, place))
        root = newton(residual, theta, tol=tol, jacobian=jacobian)
        theta = root.theta
        jacobian = root.jacobian
        if not root.converged or not is_in_range(theta):
            return no_root(start)
        if problem.nodes_follow_order or (rule.placement(theta) == place).all():
            break
    if problem.nodes_are_random:
        # Random levels see only the replicates' spread, so their steps need the Jacobian here.
        root = root._replace(jacobian=jacobian_at(residual, theta, root.residual))
    return root._replace(level=level)


def _first_level(system: Equations, theta: Array, room: float) -> int | None:
    """Return the coarsest level that may have a root near θ, None if there is none."""
    if system.problem.nodes_follow_order:
        return _first_level_of_sums(system, theta, room)
    rule = system.problem.fields.rule
    return len([distance for distance in rule.closest_roots if room < distance])


def _first_level_of_sums(system: Equations, theta: Array, room: float) -> int | None:
    """Return the coarsest level whose own checks say that it may have a root near θ.

    If on the third one far more samples are missed than pull, finer ones will not do either.
    """
    problem = system.problem
    largest_doubt = min(USABLE_DOUBT, 0.05 * room)
    last = problem.fields.rule.n_levels - 2
    for level in range(last + 1):
        averages, doubt = system.at(level, theta)
        missed = 0.0
        if not problem.loss.scale_free:
            missed = averages.missed(problem.n_classes - 1)
        if missed < 1 and doubt < largest_doubt:
            return level
        hopeless = missed > 30 or doubt > 2 * USABLE_DOUBT
        if hopeless and level == 2 and math.isinf(room):
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
        """Search for the root of the problem whose logarithm is x."""
        here = system
        if x != goal:
            here = system.of(system.problem.at_alpha(math.exp(x)))
        return _from_guess_or(here, theta, jacobian)

    return follow_root(attempt, 0.0, goal)


def _follow_ridge(system: Equations) -> Root:
    """Return the root by continuation in ln λ from a large λ; the last step may lead to λ = 0."""
    problem = system.problem
    largest = 10 * max(1.0, problem.ridge, problem.alpha)
    smallest_followed = 1e-9  # from where the last step may lead to 0
    goal = math.log(max(problem.ridge, smallest_followed))

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        """Search for the root of the problem whose logarithm is x."""
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
