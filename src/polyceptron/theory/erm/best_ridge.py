"""The ridge of least generalisation error, at given α.

ε falls with τ alone, whatever the labels' noise, so the best λ makes ln τ stationary. Along the
solutions at fixed α, dθ/d ln λ = −J⁻¹(∂F/∂ln λ), and a bracketed root of its first component is the
optimum: no comparison of nearly equal errors is needed.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.sides.scalar import Problem
from polyceptron.theory.erm.coarse_root import Root, coarse_root, home, jacobian_at, newton
from polyceptron.theory.erm.equations import Equations, equations

ENDS = math.log(1e-30), math.log(1e6)  # of ln λ
_AHEAD = 1.0  # of ln λ: as far as a tangent is followed
_SHARE = 0.3  # of the tolerance: twice what a ridge that is off may cost, over |dε/d ln τ|
_FINER, _NEAR = 2, 3e-4  # level of sums, and the step of θ with which a root is near enough
_SOUND = 1e-5  # doubt of sums whose tangent can be trusted: it errs by hundreds of times as much
_STEP = 1e-4  # of ln λ, for the equations' own dependence on it
_FLAT, _NARROW = 1e-5, 0.25  # a slope that may be rounding; of ln λ: the end of a plateau


def ridge_tangent(
    system: Equations, root: Root, level: int, first: Array | None = None
) -> tuple[Array, Array]:
    """dθ/d ln λ at fixed α, and the Jacobian, whose first column may be given if ρ′ ≈ 0."""
    theta, problem = root.theta, system.problem
    averages_at = system.placed(level, home(system, theta))
    averages = averages_at(system.law(theta)).mean()
    low, high = (
        equations(problem.at(ridge=problem.ridge * math.exp(s))).residual(theta, averages)[:, 0]
        for s in (-_STEP, _STEP)
    )
    jacobian = root.jacobian
    if not problem.fields.rule.sampled:  # there it is fresh already
        value = system.residual(theta, averages)[:, 0]
        jacobian = jacobian_at(system.on(averages_at), theta, value, first)
    return np.asarray(np.linalg.solve(jacobian, -(high - low) / (2 * _STEP))), jacobian


def best_ridge(problem: Problem, tol: float) -> tuple[Problem, Root, Array]:
    """The problem at its best ridge, a root near, how far θ may be off; sums are finer ones."""
    seen: dict[float, tuple[Array, Root]] = {}
    sums = problem.fields.rule.follows

    def ahead_of(x: float, step: float) -> Root:
        """The root seen at ln λ = x, moved along its tangent."""
        tangent, known = seen[x]
        return known._replace(theta=known.theta + step * tangent)

    def slope(x: float) -> float:
        if x in seen:
            return float(seen[x][0][0])
        system = equations(problem.at(ridge=math.exp(x)))
        near = min(seen, key=lambda other: abs(other - x), default=None)
        if near is None:
            root = coarse_root(system)
        elif sums:
            root = ahead_of(near, x - near)
        else:
            root = ahead_of(near, max(-_AHEAD, min(x - near, _AHEAD)))
            root = coarse_root(system, root.theta, root.jacobian)
        level = max(_FINER, root.level)
        while sums and root.converged:
            walk = system.on(system.placed(level, root.theta))
            root = newton(walk, root.theta, tol=_NEAR, jacobian=root.jacobian)
            root = root._replace(level=level)
            if system.at(level, root.theta)[1] < _SOUND:
                break
            level += 1
            root = root._replace(converged=root.converged and level < problem.fields.rule.n_levels)
        if not root.converged:
            raise ComputationFailed(
                f"no fixed point at alpha {problem.alpha:g} and ridge {math.exp(x):.3g} on the way "
                f"to the optimal ridge; give a ridge instead of 'optimal'"
            )
        column = root.jacobian[:, 0] if sums and seen else None
        tangent, jacobian = ridge_tangent(system, root, root.level if sums else 1, column)
        seen[x] = tangent, root._replace(jacobian=jacobian)
        return float(tangent[0])

    try:
        # About right for cross-entropy, read off optima at 2 to 1000 classes: λ ≈ 0.11 for
        # scarce data, 0.25/α² of two classes for many.
        k = problem.n_classes
        twin = problem.alpha * boundary_density(k) / (k - 1)
        low, high = bracket(slope, math.log(0.125 * k**-0.23 / (1 + 0.4 * twin**2)))
        # How far off ln λ may be: the error is second order in it.
        bend = abs(slope(high) - slope(low)) / max(high - low, 1e-300)
        off = 1e-3 if k <= 3 else min(max(math.sqrt(_SHARE * tol / max(bend, 1e-3)), 2e-2), 0.2)
        x = brentq(slope, low, high, xtol=off) if high > low else low
    except ComputationFailed:
        if not sums:
            raise
        # At fields of enormous spread the sums have no root: random points serve instead.
        return best_ridge(problem.at(by_points=True), tol)
    near = min(seen, key=lambda other: abs(other - x))
    return problem.at(ridge=math.exp(x)), ahead_of(near, x - near), off * seen[near][0]


def bracket(
    slope: Callable[[float], float], x: float, step: float = 0.5, ends: tuple[float, float] = ENDS
) -> tuple[float, float]:
    """Two points around the zero of a falling function; equal ones if it lies at an end, or flat.

    The minimiser of a loss with kinks does not depend on a small or on a large λ: there the slope
    is rounding, and the zero is looked for beyond, at larger λ first.
    """
    bottom, top = ends
    begin, here, aside = x, slope(x), 1.0
    while abs(here) < _FLAT:
        x += aside
        if not bottom < x < top:
            if aside < 0:
                return begin, begin
            x, aside = begin - 1.0, -1.0
        here = slope(x)
    while bottom < x < top:
        other = min(max(x + math.copysign(step, here), bottom), top)
        there = slope(other)
        while abs(there) < _FLAT and abs(other - x) > _NARROW:
            other = (x + other) / 2
            there = slope(other)
        if abs(there) < _FLAT:
            return other, other
        if (there > 0) != (here > 0):
            return min(x, other), max(x, other)
        # On to where the chord ends, and a little beyond: the zero is then between two near points.
        reach = 1.3 * abs(there) / max(abs(here - there), 1e-300) * abs(other - x)
        x, here, step = other, there, min(max(reach, 0.5 * step), 4 * step)
    return x, x
