"""How far a fit is, for whoever wants to know: a callback, lines on standard error, a checkpoint.

A fit tells its `Watch` of every iteration, and a design of every pass over X. A callback sees each
as a `FitProgress`; to stop the fit it raises KeyboardInterrupt, as Ctrl-C does, and the fit returns
what there is with the status 'interrupted'.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.rows import Status

FIRST_SECONDS = 2.0  # without a word
LINE_SECONDS = 5.0
_BEAT_SECONDS = 0.5
_WINDOW = 8  # iterations from which the time left is judged


@dataclass(frozen=True)
class FitProgress:
    """A fit at one moment: its name, the iteration, max_iter that it may take, and so many seconds.

    change: what convergence is judged on, `target` being where it ends: the relative change of the
    weights in message passing, the certified relative distance to the minimiser in a fit.
    objective: the mean loss of a sample with its share of the ridge, in a fit. passes: reads of X.
    seconds_left: from how fast the change has fallen; None while that is not known.

    >>> print(FitProgress("amp", 7, 200, 0.01, 1e-8, None, 8.0, 3.0, 10.4))
    amp: iteration 7, change 0.01 (to 1e-08), 8 passes over X, 3 s, about 10 s left
    """

    name: str
    iteration: int
    max_iter: int
    change: float
    target: float
    objective: float | None
    passes: float
    seconds: float
    seconds_left: float | None

    def __str__(self) -> str:
        parts = [f"{self.name}: iteration {self.iteration}"]
        if self.objective is not None:
            parts.append(f"objective {self.objective:.6g}")
        if math.isfinite(self.change):
            parts.append(f"change {self.change:.2g} (to {self.target:.0e})")
        parts += [f"{self.passes:.0f} passes over X", f"{self.seconds:.0f} s"]
        if self.seconds_left is not None:
            parts.append(f"about {self.seconds_left:.0f} s left")
        return ", ".join(parts)


Callback = Callable[[FitProgress], object]


class Watch:
    """Tells callback and reader of a fit's iterations; silent unless asked."""

    def __init__(self, name: str = "fit", verbose: Any = 0, callback: Callback | None = None):
        if not isinstance(verbose, int) or verbose < 0:
            raise InvalidInput(f"verbose must be 0, 1 or 2, got {verbose!r}")
        if callback is not None and not callable(callback):
            raise InvalidInput(f"callback must be a function of one argument, got {callback!r}")
        self.verbose, self.callback = int(verbose), callback
        self.checkpoint: Any = None  # a `Checkpoint`, where a fit is kept
        self._begin = time.monotonic()
        self._last = FitProgress(name, 0, 0, math.inf, 0.0, None, 0.0, 0.0, None)
        self._past: deque[tuple[float, int, float]] = deque(maxlen=_WINDOW)
        self._next_beat, self._next_line = _BEAT_SECONDS, FIRST_SECONDS

    def step(
        self, iteration: int, max_iter: int, change: float, target: float,
        objective: float | None = None,
    ) -> None:  # fmt: skip
        """One more iteration is done."""
        if self.callback is None and not self.verbose:
            return
        now = self._seconds()
        if self._past and iteration < self._past[-1][1]:
            self._past.clear()  # another part of the work
        if change > 0:
            self._past.append((now, iteration, math.log(change)))
        left = self._left(now, iteration, max_iter, change, target)
        self._last = replace(
            self._last, iteration=iteration, max_iter=max_iter, change=change, target=target,
            objective=objective, seconds=now, seconds_left=left,
        )  # fmt: skip
        self._tell(whole=True)

    def read(self, passes: float) -> None:
        """X has been read so many times."""
        if self.callback is None and not self.verbose:
            return
        now = self._seconds()
        left = self._last.seconds_left
        if left is not None:
            left = max(0.0, left - (now - self._last.seconds))
        self._last = replace(self._last, passes=passes, seconds=now, seconds_left=left)
        if now >= self._next_beat:
            self._tell(whole=False)

    def _seconds(self) -> float:
        return time.monotonic() - self._begin

    def _left(
        self, now: float, iteration: int, max_iter: int, change: float, target: float
    ) -> float | None:
        """From the slope of ln(change) over the last iterations; no more than max_iter allows."""
        if len(self._past) < 2:
            return None
        first, last = self._past[0], self._past[-1]
        steps, seconds = last[1] - first[1], last[0] - first[0]
        if steps <= 0 or seconds <= 0:
            return None
        most = (max_iter - iteration) * seconds / steps
        fall = (first[2] - last[2]) / seconds
        if not 0 < fall < math.inf:
            return most
        return min(most, max(0.0, math.log(change / target) / fall)) if change > 0 else 0.0

    def _tell(self, whole: bool) -> None:
        now = self._last.seconds
        self._next_beat = now + _BEAT_SECONDS
        if self.callback is not None:
            self.callback(self._last)
        if self.verbose and (now >= self._next_line or (whole and self.verbose > 1)):
            self._next_line = now + LINE_SECONDS
            sys.stderr.write(f"{self._last}\n")


SILENT = Watch()


def uninterrupted(found: Any) -> Any:
    """The result of one fit of many; if it was interrupted, so is the work that it is part of."""
    if found.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found


def check_seconds(value: Any, name: str) -> float:
    """Seconds of 0 or more, or a sentence."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidInput(f"{name} must be a number of seconds, 0 or more, got {value!r}")
    return float(value)
