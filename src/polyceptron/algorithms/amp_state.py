"""A fixed-point iteration x ← x + (1 − δ)(T(x) − x) that chooses its own damping δ.

Convergence is judged on T(x) − x, the step that was proposed, not on the damped step that was
taken: damping slows an iteration down, it does not make it look converged. δ starts at 0, as state
evolution assumes, and rises only when steps turn back on themselves and grow, or have stopped
shrinking; then the iteration resumes from the best point so far. Leaving a plateau also grows the
steps, but in one direction, and is let go.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.amp_products import inner
from polyceptron.rows import Status

Array = NDArray[np.float64]
_DAMPING = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
_GROWTH = 3.0  # near a transition steps double on their way out of a plateau, unaided
_PATIENCE = 3  # grown steps in a row before the damping rises
_WINDOW = 30  # steps over which to see whether they still shrink
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
    retreats: int = 0
    strikes: int = 0
    least: float = math.inf
    direction: Array | None = None
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    turns: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    @property
    def value(self) -> float:
        return _DAMPING[self.level]

    def judge(self, size: float, step: Array) -> bool:
        """Whether to damp more: steps turn back and keep growing, or have stopped shrinking."""
        turning = self.direction is not None and self._slope(step, self.direction) < 0.9
        growing = turning and size > max(_GROWTH * self.least, 0.98 * self.sizes[-1])
        self.direction = step
        self.sizes.append(size)
        self.turns.append(turning)
        self.least = min(self.least, size)
        self.strikes = self.strikes + 1 if growing else 0
        if self.strikes < _PATIENCE and not self._stagnates():
            return False
        self.raise_level()
        return True

    def _stagnates(self) -> bool:
        sizes, half = list(self.sizes), _WINDOW // 2
        return (
            len(sizes) == _WINDOW
            and min(sizes[half:]) > 0.9 * min(sizes[:half])
            and sum(self.turns) > 0.8 * _WINDOW
        )

    def _slope(self, step: Array, last: Array) -> float:
        """The map's own factor along the last step: above 1 it runs away, which no damping stops.

        Damping turns a factor λ of the map into δ + (1 − δ)λ from one proposed step to the next.
        """
        square = inner(last, last)
        seen = inner(step, last) / square if square > 0 else 1.0
        return (seen - self.value) / (1 - self.value)

    def raise_level(self) -> None:
        """More damping, judged afresh."""
        self.level = min(self.level + 1, len(_DAMPING) - 1)
        self.strikes, self.least, self.direction = 0, math.inf, None
        self.sizes.clear()
        self.turns.clear()


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
    state, best, least = start, start, Change(math.inf, 1.0)
    observe(0, start, math.inf, 0.0)
    used, t = 0.0, 0
    while t < max_iter:
        t += 1
        new = step(state)
        change = _change(state, new)
        if not new.is_finite() or not math.isfinite(change.size):
            if damper.retreats == _MAX_RETREATS:
                break
            damper.retreats += 1
            damper.raise_level()
            used, state = damper.value, best
            observe(t, state, least.relative, damper.value)
            continue
        if change.size < least.size or t == 1:
            best, least = new, change
        if change.relative < tol:
            observe(t, new, change.relative, damper.value)
            return Outcome(new, t, Status.OK, change.relative, used)
        if damper.judge(change.size, new.weights - state.weights):
            used, state, change = damper.value, best, least
        else:
            state = new if damper.value == 0 else state.towards(new, 1 - damper.value)
        observe(t, state, change.relative, damper.value)
    return Outcome(best, t, Status.NOT_CONVERGED, least.relative, used)


class Change(NamedTuple):
    """The size of a proposed step per entry, and the scale of the weights it changes."""

    size: float
    scale: float

    @property
    def relative(self) -> float:
        """What convergence is judged on."""
        return self.size / self.scale if self.scale > 0 else self.size


def _change(old: State, new: State) -> Change:
    """The larger change of the weights and of the fields' correction V f.

    The map depends on the scores through V f alone, so that is the scale on which they matter.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        weights, scores = new.weights - old.weights, new.scores - old.scores
        change = max(_rms(weights), _rms(scores) * new.spread)
        return Change(change, _rms(new.weights))


def _rms(x: Array) -> float:
    return math.sqrt(inner(x, x) / x.size)
