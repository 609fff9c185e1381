"""Follow a root along a parameter x, such as ln λ or ln α, to where it is wanted.

Each root is the start of the next, moved along the chord of the last two. A step of x that fails is
halved; one that succeeds lets the next be longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from polyceptron.numerics import Array
from polyceptron.solve.root import Root, is_in_range

# Takes x, a start for θ and a Jacobian (both None at the first x), and returns the root there.
Attempt = Callable[[float, Array | None, Array | None], Root]

FIRST_STEP = 1.2  # in x, a logarithm
STEP_GROWTH = 1.5  # after a step that succeeded


def follow_root(attempt: Attempt, x: float, goal: float, root: Root | None = None) -> Root:
    """Return the root at `goal`, reached from that at x.

    Parameters
    ----------
    attempt : callable
        Takes a place, a start (n,) and a Jacobian (n, n), and returns the root there.
    x, goal : float
        Where the path begins and ends.
    root : Root, optional
        The root at x, if it is known.

    Returns
    -------
    Root
        Not converged where the path could not be followed to its end.
    """
    if root is None:
        root = attempt(x, None, None)
    path = _Path(attempt, x, goal, root)
    while path.root.converged and path.x != goal:
        failed = path.advance()
        if failed is not None:
            return failed
    return path.root


@dataclass
class _Path:
    """The last root on the way, and the one before it."""

    attempt: Attempt
    x: float
    goal: float
    root: Root
    step: float = FIRST_STEP
    x_before: float = math.nan
    theta_before: Array | None = None

    def advance(self) -> Root | None:
        """Try one step; return the failure if no shorter step is left to try."""
        target = self._target()
        trial = self.attempt(target, self._start(target), self.root.jacobian)
        if trial.converged:
            self.x_before = self.x
            self.theta_before = self.root.theta
            self.x = target
            self.root = trial
            self.step = STEP_GROWTH * self.step
            return None
        if self.step < 0.02:  # there is no root further on
            return trial
        self.step /= 2
        return None

    def _target(self) -> float:
        """Return the next x: the goal itself, if it is not much further than a step."""
        left = self.goal - self.x
        if abs(left) <= STEP_GROWTH * self.step:
            return self.goal
        return self.x + math.copysign(self.step, left)

    def _start(self, target: float) -> Array:
        """Return θ on the chord of the last two roots."""
        theta = self.root.theta
        if self.theta_before is None:
            return theta
        ratio = (target - self.x) / (self.x - self.x_before)
        extrapolated = theta + ratio * (theta - self.theta_before)
        if not is_in_range(extrapolated):
            return theta
        return extrapolated
