"""A fixed-point iteration x ← x + (1 − δ)(T(x) − x) that chooses its own damping δ.

Convergence is judged on T(x) − x, the step that was proposed, not on the damped step that was
taken: damping slows an iteration down, it does not make it look converged. δ starts at 0, as state
evolution assumes, and rises only when steps turn back on themselves and grow, or have stopped
shrinking; then the iteration resumes from the best point so far. Leaving a plateau also grows the
steps, but in one direction, and is let go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.rows import Status

Array = NDArray[np.float64]
_DAMPING = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
_GROWTH = 3.0  # near a transition steps double on their way out of a plateau, unaided
_PATIENCE = 3  # grown steps in a row before the damping rises
_MAX_IDLE = 25  # steps without progress before it rises
_MAX_RETREATS = 5  # returns to the best point at the highest damping before giving up


@dataclass(frozen=True)
class State:
    """What an iteration hands to the next.

    weights U (r, d), their variance V (a number, or an array (c, d)), channel scores F (r, n).
    """

    weights: Array
    variance: Any
    scores: Array

    def towards(self, new: State, share: float) -> State:
        """(1 − share)·self + share·new, component by component."""
        return State(
            self.weights + share * (new.weights - self.weights),
            self.variance + share * (new.variance - self.variance),
            self.scores + share * (new.scores - self.scores),
        )

    @property
    def spread(self) -> float:
        """The variance per direction: arrays list the directions' variances first."""
        if np.ndim(self.variance) == 0:
            return float(self.variance)
        return float(np.mean(self.variance[: len(self.weights)]))

    def is_finite(self) -> bool:
        """Whether every number is."""
        parts = (self.weights, self.variance, self.scores)
        return all(bool(np.isfinite(part).all()) for part in parts)


@dataclass(frozen=True)
class Outcome:
    """Where an iteration ended: the state, how many steps it took, and its residual."""

    state: State
    n_iter: int
    status: Status
    residual: float
    damping: float


@dataclass
class _Damper:
    """The damping, and the evidence for raising it."""

    level: int = 0
    strikes: int = 0
    idle: int = 0
    retreats: int = 0
    least: float = math.inf
    direction: Array | None = field(default=None, repr=False)

    @property
    def value(self) -> float:
        return _DAMPING[self.level]

    def judge(self, residual: float, step: Array) -> bool:
        """Whether to damp more: steps turn back and have grown, or have long not shrunk."""
        turning = self.direction is not None and _cosine(step, self.direction) < 0.2
        self.direction = step
        self.idle = 0 if residual < self.least else self.idle + 1
        self.least = min(self.least, residual)
        grown = turning and residual > _GROWTH * self.least
        self.strikes = self.strikes + 1 if grown else 0
        if self.strikes < _PATIENCE and not (turning and self.idle >= _MAX_IDLE):
            return False
        self.raise_level()
        return True

    def raise_level(self) -> None:
        """More damping, judged afresh."""
        self.level = min(self.level + 1, len(_DAMPING) - 1)
        self.strikes, self.idle, self.least, self.direction = 0, 0, math.inf, None


def iterate(
    step: Callable[[State], State],
    start: State,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[int, State, float, float], None],
) -> Outcome:
    """Apply `step` until it moves the state by less than `tol`, relatively; else the best point.

    `observe(t, state, residual, damping)` sees the state after t steps and the residual of the step
    that led there (infinite for the start, t = 0).
    """
    damper = _Damper()
    state, best, least = start, start, math.inf
    observe(0, start, math.inf, 0.0)
    used, residual, t = 0.0, math.inf, 0
    while t < max_iter:
        t += 1
        new = step(state)
        if not new.is_finite():
            if damper.retreats == _MAX_RETREATS:
                break
            damper.retreats += 1
            damper.raise_level()
            state = best
            observe(t, state, least, damper.value)
            continue
        residual = _residual(state, new)
        if residual < least or t == 1:
            best, least = new, residual
        if residual < tol:
            observe(t, new, residual, damper.value)
            return Outcome(new, t, Status.OK, residual, used)
        if damper.judge(residual, new.weights - state.weights):
            used = damper.value
            state, residual = best, least
        else:
            state = new if damper.value == 0 else state.towards(new, 1 - damper.value)
        observe(t, state, residual, damper.value)
    return Outcome(best, t, Status.NOT_CONVERGED, least, used)


def _residual(old: State, new: State) -> float:
    """The larger change of weights and of the fields' correction V f, relative to the weights.

    The map depends on the scores through V f alone, so that is the scale on which they matter.
    """
    size = float(np.linalg.norm(new.weights)) / math.sqrt(new.weights.size)
    weights = float(np.linalg.norm(new.weights - old.weights)) / math.sqrt(new.weights.size)
    scores = float(np.linalg.norm(new.scores - old.scores)) / math.sqrt(new.scores.size)
    change = max(weights, scores * new.spread)
    return change / size if size > 0 else change


def _cosine(a: Array, b: Array) -> float:
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.vdot(a, b)) / scale if scale > 0 else 1.0
