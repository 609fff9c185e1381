"""A fixed-point iteration x ← x + (1 − δ)(T(x) − x) that chooses its own damping δ.

Convergence is judged on T(x) − x, the step that was proposed, not on the damped step that was
taken: damping slows an iteration down, it does not make it look converged. δ starts at 0, as state
evolution assumes, and rises when `damping` finds evidence that it must; then the iteration resumes
from the best point so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.message_passing.damping import Damper, inner
from polyceptron.rows import Status

Array = NDArray[np.float64]
_MAX_RETREATS = 5  # returns to the best point at the highest damping before giving up


@dataclass(frozen=True)
class Iterate:
    """What an iteration hands to the next.

    weights U (r, d), their variance V (a number, or an array (c, d)), scores F (r, n).
    """

    weights: Array
    variance: Any
    scores: Array

    def towards(self, new: Iterate, share: float) -> Iterate:
        """(1 − share)·self + share·new, component by component."""
        return Iterate(
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


Step = Callable[[Iterate], Iterate]


@dataclass(frozen=True)
class Ending:
    """Where an iteration ended: its last point, how many steps it took, and its residual."""

    last: Iterate
    n_iter: int
    status: Status
    residual: float
    damping: float


def iterate(
    step: Step,
    start: Iterate,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[int, Iterate, float, float], None],
) -> Ending:
    """Apply `step` until it moves the point by less than `tol`, relatively; else the best point.

    `observe(t, point, residual, damping)` sees the point after t steps and the residual of the step
    that led there (infinite for the start, t = 0).
    """
    damper = Damper()
    here, best, least = start, start, Change(math.inf, 1.0)
    observe(0, start, math.inf, 0.0)
    used, t, retreats = 0.0, 0, 0
    while t < max_iter:
        t += 1
        new = step(here)
        change = _change(here, new)
        if not new.is_finite() or not math.isfinite(change.size):
            if retreats == _MAX_RETREATS:
                break
            retreats += 1
            damper.raise_level()
            used, here = damper.value, best
            observe(t, here, least.relative, damper.value)
            continue
        if change.size < least.size or t == 1:
            best, least = new, change
        if change.relative < tol:
            observe(t, new, change.relative, damper.value)
            return Ending(new, t, Status.OK, change.relative, used)
        if damper.judge(change.size, new.weights - here.weights):
            used, here, change = damper.value, best, least
        else:
            here = new if damper.value == 0 else here.towards(new, 1 - damper.value)
        observe(t, here, change.relative, damper.value)
    return Ending(best, t, Status.NOT_CONVERGED, least.relative, used)


class Change(NamedTuple):
    """The size of a proposed step per entry, and the scale of the weights it changes."""

    size: float
    scale: float

    @property
    def relative(self) -> float:
        """What convergence is judged on."""
        return self.size / self.scale if self.scale > 0 else self.size


def _change(old: Iterate, new: Iterate) -> Change:
    """The larger change of the weights and of the fields' correction V f.

    The map depends on the scores through V f alone, so that is the scale on which they matter.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        weights, scores = new.weights - old.weights, new.scores - old.scores
        change = max(_rms(weights), _rms(scores) * new.spread)
        return Change(change, _rms(new.weights))


def _rms(x: Array) -> float:
    return math.sqrt(inner(x, x) / x.size)
