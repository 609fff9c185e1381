"""How much to damp: more when steps turn back on themselves and grow, or have stopped shrinking.

Leaving a plateau also grows the steps, but in one direction, and is let go.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_DAMPING = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
_GROWTH = 3.0  # near a transition steps double on their way out of a plateau, unaided
_PATIENCE = 3  # grown steps in a row before the damping rises
_WINDOW = 30  # steps over which to see whether they still shrink


@dataclass
class Damper:
    """The damping, and the evidence for raising it."""

    level: int = 0
    strikes: int = 0
    least: float = math.inf
    direction: Array | None = None
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    turns: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def copy(self) -> Damper:
        """One that can change without this one."""
        return replace(self, sizes=self.sizes.copy(), turns=self.turns.copy())

    @property
    def value(self) -> float:
        """δ."""
        return _DAMPING[self.level]

    def judge(self, size: float, step: Array) -> bool:
        """Whether to damp more, having seen a proposed step (r, d) of this size."""
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


def inner(a: Array, b: Array) -> float:
    """Σ ab: for arrays this small, waking the threads of a BLAS product costs more than adding."""
    return float((a * b).sum())
