"""How far a fit is, for whoever wants to know: a callback, lines on standard error, a checkpoint.

A fit tells its `Watch` of every iteration, and a design of every pass over X. A callback sees each
as a `FitProgress`; to stop the fit it raises KeyboardInterrupt, as Ctrl-C does.

A checkpoint is one .npz file of plain arrays: the state of each part of a fit under its name, and
what problem it belongs to. It is written every so many seconds, at the end, and when the fit is
interrupted; where it cannot be written, the fit goes on with a warning. That X is the same is
judged by the lengths of a thousand of its rows; tolerance and number of iterations may be others
than before.
"""

import json
import math
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable, check_writable, write_atomically
from polyceptron.progress import say
from polyceptron.rows import Status

State = dict[str, Any]  # of arrays and numbers
FIRST_SECONDS = 2.0  # without a word
LINE_SECONDS = 5.0
_BEAT_SECONDS = 0.5


@dataclass(frozen=True)
class FitProgress:
    """A fit at one moment.

    Attributes
    ----------
    name, iteration, max_iter
        What is fitted, the iteration, and the most that it may take.
    change, target : float
        What convergence is judged on, and where it ends: the relative change of the weights in
        message passing, the certified relative distance to the minimiser in a fit.
    objective : float or None
        In a fit, the mean loss of a sample with its share of the ridge.
    passes, seconds : float
        Reads of X, and the time since the begin.
    seconds_left : float or None
        From how fast the change has fallen; None while that is not known.

    Examples
    --------
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


class Checkpoint:
    """Where a fit is kept: nowhere, until a file is opened for one problem."""

    path: Path | None = None

    def open(self, path: Any, every: Any, design: Any, y: Any, **settings: Any) -> None:
        """Keep the fit of this design and labels at a path (None: nowhere), or an error message."""
        if path is None:
            return
        if not isinstance(path, str | Path):
            raise InvalidInput(f"checkpoint must be the path of a file, got {path!r}")
        self.path = check_writable(path)
        number = isinstance(every, int | float) and not isinstance(every, bool)
        if not number or not 0 <= every < math.inf:
            raise InvalidInput(
                f"checkpoint_every must be a number of seconds, 0 or more, got {every!r}"
            )
        self.every = float(every)
        self._lengths = design.row_norms[:: -(-design.n_samples // 1000)]
        self._problem = {
            "format": 6,
            "shape": list(design.shape),
            "labels": zlib.crc32(np.ascontiguousarray(y).tobytes()),
            **{name: str(value) for name, value in settings.items()},
        }
        self._next = time.monotonic() + self.every
        self._part, self._others = "", State()
        self._warned = False

    def load(self, part: str = "fit") -> State | None:
        """What was saved of a part, None where nothing is; an error message for another fit's."""
        above = f"{part}/"
        saved = {n.removeprefix(above): v for n, v in self._read().items() if n.startswith(above)}
        return {name: v if v.ndim else v.item() for name, v in saved.items()} or None

    def _read(self) -> State:
        if self.path is None or not self.path.exists():
            return {}
        check_readable(self.path, "checkpoint")
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = {name: file[name] for name in file.files}
            problem = json.loads(str(state.pop("problem")))
            lengths = state.pop("lengths")
        except Exception as error:  # whatever a damaged file makes of a reader
            raise InvalidInput(
                f"{str(self.path)!r} is no checkpoint, or a damaged one ({type(error).__name__}): "
                "remove it, or give another path"
            ) from None
        other = [name for name, value in self._problem.items() if problem.get(name) != value]
        same = lengths.shape == self._lengths.shape  # lengths may be summed in another order
        if not other and not (same and np.allclose(lengths, self._lengths, rtol=1e-5, atol=0)):
            other = ["X"]
        if other:
            raise InvalidInput(
                f"the checkpoint {str(self.path)!r} is of another fit (not the same: "
                f"{', '.join(other)}): remove it, or give another path"
            )
        return state

    def save(self, state: Callable[[], State], part: str = "fit", *, now: bool = False) -> None:
        """Write the state of a part, beside the others', if the time has come, or now.

        A fit goes on without its checkpoint where that cannot be written, with one warning.
        """
        if self.path is None or (not now and time.monotonic() < self._next):
            return
        try:
            self._write(state(), part)
        except (InvalidInput, OSError) as error:
            if not self._warned:
                self._warned = True
                warnings.warn(f"{error}; the fit goes on, and is not kept there", stacklevel=2)
        self._next = time.monotonic() + self.every

    def _write(self, state: State, part: str) -> None:
        """Write the state of a part, beside those of the others."""
        assert self.path is not None
        if part != self._part:  # what the others have saved stays
            saved, own = self._read(), f"{part}/"
            self._part, self._others = part, {n: saved[n] for n in saved if not n.startswith(own)}
        given = self._others | {f"{part}/{name}": value for name, value in state.items()}
        given |= {"problem": json.dumps(self._problem), "lengths": self._lengths}

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **given)

        write_atomically(self.path, write)


class Watch:
    """Tells callback and reader of a fit's iterations; silent unless asked."""

    def __init__(self, name: str = "fit", verbose: Any = 0, callback: Callback | None = None):
        if not isinstance(verbose, int) or verbose < 0:
            raise InvalidInput(f"verbose must be 0, 1 or 2, got {verbose!r}")
        if callback is not None and not callable(callback):
            raise InvalidInput(f"callback must be a function of one argument, got {callback!r}")
        self.verbose, self.callback = int(verbose), callback
        self.checkpoint = Checkpoint()
        self._begin = time.monotonic()
        self._last = FitProgress(name, 0, 0, math.inf, 0.0, None, 0.0, 0.0, None)
        self._past: list[tuple[float, int, float]] = []
        self._next_beat, self._next_line = _BEAT_SECONDS, FIRST_SECONDS

    def step(
        self, iteration: int, max_iter: int, change: float, target: float, objective: Any = None
    ) -> None:
        if self.callback is None and not self.verbose:
            return
        now = time.monotonic() - self._begin
        if self._past and (iteration < self._past[-1][1] or change < self._past[-1][2] == math.inf):
            self._past.clear()  # another part of the work, or the first change that is known
        if change > 0:
            self._past.append((now, iteration, math.log(change)))
        left = self._left(iteration, max_iter, change, target)
        self._last = replace(
            self._last,
            iteration=iteration,
            max_iter=max_iter,
            change=change,
            target=target,
            objective=objective,
            seconds=now,
            seconds_left=left,
        )
        self._tell(whole=True)

    def read(self, passes: float) -> None:
        if self.callback is None and not self.verbose:
            return
        now = time.monotonic() - self._begin
        if (left := self._last.seconds_left) is not None:
            left = max(0.0, left - (now - self._last.seconds))
        self._last = replace(self._last, passes=passes, seconds=now, seconds_left=left)
        if now >= self._next_beat:
            self._tell(whole=False)

    def _left(self, iteration: int, max_iter: int, change: float, target: float) -> float | None:
        """From the steeper slope of ln(change), of late or in all; None where it has not fallen."""
        if len(self._past) < 2:
            return None
        now, since = np.array(self._past[-1]), np.array([self._past[0], self._past[-8:][0]])
        with np.errstate(invalid="ignore"):
            seconds, steps, rises = (now - since).T
        if steps[1] <= 0 or seconds[1] <= 0:
            return None
        most, fall = (max_iter - iteration) * seconds[1] / steps[1], max(-rises / seconds)
        if not 0 < fall < math.inf:
            return float(most) if change == math.inf else None  # inf: of work in known parts
        return float(min(most, max(0.0, math.log(change / target) / fall))) if change > 0 else 0.0

    def _tell(self, whole: bool) -> None:
        now = self._last.seconds
        self._next_beat = now + _BEAT_SECONDS
        if self.callback is not None:
            self.callback(self._last)
        if self.verbose and (now >= self._next_line or (whole and self.verbose > 1)):
            self._next_line = now + LINE_SECONDS
            say(str(self._last))


SILENT = Watch()


def uninterrupted(found: Any) -> Any:
    """The result of one fit of many; if it was interrupted, so is the work that it is part of."""
    if found.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found
