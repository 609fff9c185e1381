"""Newton's method for a few smooth equations in logarithmic unknowns, with shortened steps.

The equations are evaluated at several levels of accuracy: Newton runs on the coarsest, and each
finer level corrects its predecessor from the Jacobian already at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array

Residual = Callable[[Array], Array]

LONGEST_STEP = 1.5  # of a logarithmic unknown: a factor 4.5
STALLED = 1e-4  # a residual as small as that may be what rounding leaves of it
DIFFERENCE = 1e-5  # rounding 1e-11 over it and curvature times it are both about 1e-5


class Root(NamedTuple):
    """Where a search ended, residual and Jacobian there, whether it arrived, on which level."""

    theta: Array
    residual: Array
    jacobian: Array
    converged: bool
    level: int = 0


def jacobian_at(
    residual: Residual, theta: Array, value: Array, first: Array | None = None
) -> Array:
    """Forward differences, (n, n); the first column may be given."""
    columns = [] if first is None else [first]
    for i in range(len(columns), len(theta)):
        shifted = theta.copy()
        shifted[i] += DIFFERENCE
        columns.append((residual(shifted) - value) / DIFFERENCE)
    return np.stack(columns, axis=1)


def newton(
    residual: Residual,
    theta: Array,
    *,
    tol: float = 1e-9,
    max_iter: int = 40,
    jacobian: Array | None = None,
    value: Array | None = None,
) -> Root:
    """Solve residual(θ) = 0 from θ; a step that does not lower the residual is shortened.

    A Jacobian from nearby is renewed when it no longer gives a digit a step, and kept up to date by
    Broyden's rank-one corrections meanwhile.
    """
    if value is None:
        value = residual(theta)
    fresh = jacobian is None
    if jacobian is None:
        jacobian = jacobian_at(residual, theta, value)
    for _ in range(max_iter):
        size = float(np.max(np.abs(value)))
        # A Jacobian from elsewhere is not worth many trials.
        trial = _shortened_step(residual, theta, value, jacobian, 8 if fresh else 2)
        if trial is None:
            if fresh:  # the residual is at its rounding, or there is no way down
                return Root(theta, value, jacobian, size < min(1e3 * tol, STALLED))
            jacobian, fresh = jacobian_at(residual, theta, value), True
            continue
        new_theta, new_value = trial
        step = new_theta - theta
        slow = np.max(np.abs(new_value)) > 0.3 * size
        surprise = new_value - value - jacobian @ step
        theta, value = new_theta, new_value
        if np.max(np.abs(step)) < tol or np.max(np.abs(value)) < 0.1 * tol:
            return Root(theta, value, jacobian, True)
        if slow:
            jacobian, fresh = jacobian_at(residual, theta, value), True
        else:
            jacobian, fresh = jacobian + np.outer(surprise, step) / (step @ step), False
    return Root(theta, value, jacobian, False)


def _shortened_step(
    residual: Residual, theta: Array, value: Array, jacobian: Array, trials: int
) -> tuple[Array, Array] | None:
    """A Newton step, cut to LONGEST_STEP and until the residual falls; None if it never does."""
    try:
        step = np.linalg.solve(jacobian, -value)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(step).all():
        return None
    size, longest = float(np.max(np.abs(value))), float(np.max(np.abs(step)))
    scale = min(1.0, LONGEST_STEP / longest) if longest > 0 else 1.0
    for _ in range(trials):
        trial = theta + scale * step
        trial_value = residual(trial)
        if np.max(np.abs(trial_value)) < (1 - 0.1 * scale) * size:
            return trial, trial_value
        scale /= 3
    return None
