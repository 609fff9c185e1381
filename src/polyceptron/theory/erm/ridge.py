"""The ridge of least generalisation error, at given α.

ε falls with τ alone, so the best λ makes ln τ stationary. Along the solutions at fixed α only the
ridge's own equation moves, ∂θ/∂ln λ = −J⁻¹(∂F/∂ln λ), and a bracketed root of its first component
is the optimum: no comparison of nearly equal errors is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from polyceptron.errors import ComputationFailed
from polyceptron.model.losses import Loss
from polyceptron.numerics.erm_nodes import Array
from polyceptron.theory.erm.equations import Problem, rule_at, two_class_twin
from polyceptron.theory.erm.fixed_point import ErmFixedPoint, coarse_root, refresh_jacobian, solve

SMALLEST, LARGEST = 1e-30, 1e6


def ridge_tangent(problem: Problem, theta: Array, level: int) -> Array:
    """dθ/d ln λ along the solutions at fixed α."""
    law = problem.law(theta)
    a = rule_at(problem, level, law)(law)
    jacobian = refresh_jacobian(problem, theta, level)
    ridge, alpha = problem.ridge, problem.alpha
    change = np.array(
        [
            0.0,
            ridge / (ridge + alpha * float(np.mean(a.D_minus))),
            ridge / (ridge + alpha * float(np.mean(a.C))),
        ]
    )
    return np.asarray(np.linalg.solve(jacobian, -change))


def best_ridge(
    n_classes: int, loss: Loss, alpha: float, tol: float, start: ErmFixedPoint | None = None
) -> ErmFixedPoint:
    """The fixed point at the best ridge; `start` is the answer at a nearby α."""
    theta = None if start is None else start.theta
    seen: dict[float, Array] = {}
    level = 1 if n_classes <= 3 else 0  # the error is second order in ln λ, so this is ample

    def slope(x: float) -> float:
        problem = Problem(n_classes, loss, math.exp(x), alpha)
        near = min(seen, key=lambda other: abs(other - x), default=None)
        root = coarse_root(problem, theta if near is None else seen[near])
        if not root.converged:
            raise ComputationFailed(
                f"no fixed point at alpha {alpha:g} and ridge {problem.ridge:.3g} on the way to "
                f"the optimal ridge; give a ridge instead of 'optimal'"
            )
        seen[x] = root.theta
        return float(ridge_tangent(problem, root.theta, level)[0])

    x = math.log(start.ridge) if start is not None else guess_log_ridge(n_classes, alpha)
    low, high = bracket(slope, x)
    x = low if low == high else float(brentq(slope, low, high, xtol=1e-3, rtol=1e-6))
    near = min(seen, key=lambda other: abs(other - x))
    return solve(Problem(n_classes, loss, math.exp(x), alpha), tol, seen[near])


def guess_log_ridge(n_classes: int, alpha: float) -> float:
    """About right for cross-entropy: constant for scarce data, ∝ α⁻² for plentiful ones."""
    problem = Problem(n_classes, None, 1.0, alpha)  # type: ignore[arg-type]
    twin = two_class_twin(problem).alpha
    return math.log(0.11 / (1 + twin**2 / 2.5))


def bracket(slope: Callable[[float], float], x: float, step: float = 0.5) -> tuple[float, float]:
    """Two points around the zero of a falling function; equal ones if it lies at an end."""
    here = slope(x)
    if here == 0:
        return x, x
    direction = math.copysign(1.0, here)
    bottom, top = math.log(SMALLEST), math.log(LARGEST)
    while bottom < x < top:
        other = min(max(x + direction * step, bottom), top)
        there = slope(other)
        if there == 0 or (there > 0) != (here > 0):
            return min(x, other), max(x, other)
        x, here, step = other, there, 2 * step
    return x, x
