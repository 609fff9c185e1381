"""Newton's method for a few smooth equations in logarithmic unknowns, with shortened steps.

The equations are evaluated at several levels of accuracy: Newton runs on the coarsest, and each
finer level only corrects its predecessor with the Jacobian already at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Residual = Callable[[Array], Array]

LONGEST_STEP = 1.5  # of a logarithmic unknown
DIFFERENCE = 1e-5


class Root(NamedTuple):
    """Where the search ended, its residual and Jacobian there, and whether it arrived."""

    theta: Array
    residual: Array
    jacobian: Array
    converged: bool


def jacobian_at(residual: Residual, theta: Array, value: Array) -> Array:
    """Forward differences, (n, n)."""
    columns = []
    for i in range(len(theta)):
        shifted = theta.copy()
        shifted[i] += DIFFERENCE
        columns.append((residual(shifted) - value) / DIFFERENCE)
    return np.stack(columns, axis=1)


def newton(residual: Residual, theta: Array, *, tol: float = 1e-9, max_iter: int = 40) -> Root:
    """Solve residual(θ) = 0 from θ; a step that does not lower the residual is shortened."""
    value = residual(theta)
    jacobian = jacobian_at(residual, theta, value)
    for _ in range(max_iter):
        size = float(np.max(np.abs(value)))
        try:
            step = np.linalg.solve(jacobian, -value)
        except np.linalg.LinAlgError:
            return Root(theta, value, jacobian, False)
        if not np.isfinite(step).all():
            return Root(theta, value, jacobian, False)
        longest = float(np.max(np.abs(step)))
        scale = min(1.0, LONGEST_STEP / longest) if longest > 0 else 1.0
        for _ in range(8):
            trial = theta + scale * step
            trial_value = residual(trial)
            if np.max(np.abs(trial_value)) < (1 - 0.1 * scale) * size:
                break
            scale /= 3
        else:
            arrived = size < 1e3 * tol
            return Root(theta, value, jacobian, arrived)
        fast = np.max(np.abs(trial_value)) < 0.1 * size
        theta, value = trial, trial_value
        if longest * scale < tol or np.max(np.abs(value)) < 0.1 * tol:
            return Root(theta, value, jacobian, True)
        if not fast:  # a Jacobian that still gives a digit a step is not worth renewing
            jacobian = jacobian_at(residual, theta, value)
    return Root(theta, value, jacobian, False)


def correct(residual: Residual, root: Root, *, tol: float, max_iter: int = 6) -> Root:
    """Chord iterations on a finer residual from the root of a coarser one."""
    theta, jacobian = root.theta, root.jacobian
    value = residual(theta)
    for _ in range(max_iter):
        size = float(np.max(np.abs(value)))
        step = np.linalg.solve(jacobian, -value)
        if not np.isfinite(step).all() or np.max(np.abs(step)) > 0.3:
            return newton(residual, theta, tol=tol)
        theta = theta + step
        if np.max(np.abs(step)) < tol:
            return Root(theta, value, jacobian, True)
        value = residual(theta)
        if not np.max(np.abs(value)) < 0.3 * size and size > 0.1 * tol:
            return newton(residual, theta, tol=tol)
    return newton(residual, theta, tol=tol)
