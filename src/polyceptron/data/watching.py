"""How far a fit is, for whoever wants to know: a callback, lines on standard error, a checkpoint.

A fit tells its `Watch` of every iteration, and a design of every pass over X. A callback sees each
as a `FitProgress`; to stop the fit it raises KeyboardInterrupt, as Ctrl-C does.

A checkpoint is one .npz file of plain arrays: the state of each part of a fit under its name, and
what problem it belongs to. It is written every so many seconds, at the end, and when the fit is
interrupted; where it cannot be written, the fit goes on with a warning. That X and the labels are
the same is judged by a hash of all their numbers; tolerance and number of iterations may be others
than before.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable, check_writable, write_atomically
from polyceptron.numerics import Array
from polyceptron.progress import say
from polyceptron.rows import Status

State = dict[str, Any]
"""The arrays and numbers that a part of a fit saves, by name."""

# Seconds before the first line on standard error, and between two lines: short fits say nothing.
FIRST_SECONDS = 2.0
LINE_SECONDS = 5.0

# Least seconds between two calls of the callback for passes over X inside one iteration.
SECONDS_BETWEEN_CALLS = 0.5

# Steps back from which the recent rate of convergence is measured.
RECENT_STEPS = 8


@dataclass(frozen=True)
class FitProgress:
    """The progress of a fit at one moment.

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


class DesignContent(Protocol):
    """The identity of a design (n, d): what a checkpoint asks of it."""

    n_samples: int
    shape: tuple[int, int]

    @property
    def row_norms(self) -> Array:
        """Return the norms of all rows, (n,)."""

    @property
    def content(self) -> str:
        """Return a hash of all entries."""


class Checkpoint:
    """The file in which the state of a fit is kept; none, until `open` is called with a path.

    The file is an .npz archive with the arrays "part/name" of each part of the fit, "problem"
    (JSON: shape, hashes of X and of the labels, settings), "lengths", norms of a thousand rows
    of the design (features that are scaled differently have the same X), and "checksum" of these.
    """

    path: Path | None = None

    def open(
        self,
        path: object,
        every: object,
        design: DesignContent,
        y: ArrayLike,
        **settings: object,
    ) -> None:
        """Keep the fit of this design and labels (n,) in the file `path`; None keeps it nowhere.

        Parameters
        ----------
        path : str, Path or None
            The file.
        every : float
            Seconds between two writes.
        design, y
            X (n, d) and labels (n,).
        **settings
            What a saved state must agree in to be of the same fit.
        """
        if path is None:
            return
        if not isinstance(path, str | Path):
            raise InvalidInput(f"checkpoint must be the path of a file, got {path!r}")
        self.path = check_writable(path)
        seconds = math.nan
        if isinstance(every, int | float) and not isinstance(every, bool):
            seconds = float(every)
        if not 0 <= seconds < math.inf:
            raise InvalidInput(
                f"checkpoint_every must be a number of seconds, 0 or more, got {every!r}"
            )
        self.every = seconds
        self._lengths = design.row_norms[:: -(-design.n_samples // 1000)]
        self._problem = {
            "format": 8,
            "shape": list(design.shape),
            "X": design.content,
            "labels": hashlib.blake2b(np.asarray(y).tobytes(), digest_size=16).hexdigest(),
            **{name: str(value) for name, value in settings.items()},
        }
        self._next = time.monotonic() + self.every
        self._part = ""
        self._others = State()
        self._warned = False

    def load(self, part: str = "fit") -> State | None:
        """Return what was saved of a part, or None; raise InvalidInput for another fit's file."""
        prefix = f"{part}/"
        saved = State()
        for name, array in self._read().items():
            if name.startswith(prefix):
                saved[name.removeprefix(prefix)] = array if array.ndim else array.item()
        return saved or None

    def _read(self) -> State:
        """Return all arrays in the file, by "part/name"; nothing where there is no file."""
        if self.path is None or not self.path.exists():
            return {}
        check_readable(self.path, "checkpoint")
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = {name: file[name] for name in file.files}
            if str(state.pop("checksum")) != _checksum(state):
                raise ValueError("it was changed")
            problem = json.loads(str(state.pop("problem")))
            lengths = state.pop("lengths")
        except Exception as error:  # whatever a damaged file makes of a reader
            raise InvalidInput(
                f"{str(self.path)!r} is no checkpoint, or a damaged one ({type(error).__name__}): "
                "remove it, or give another path"
            ) from None
        different = self._differences(problem, lengths)
        if different:
            raise InvalidInput(
                f"the checkpoint {str(self.path)!r} is of another fit (not the same: "
                f"{', '.join(different)}): remove it, or give another path"
            )
        return state

    def _differences(self, problem: dict[str, object], lengths: Array) -> list[str]:
        """Return the names of what differs between the file's fit and this one."""
        names = [name for name, value in self._problem.items() if problem.get(name) != value]
        if names:
            return names
        # Not exactly: norms of rows may be summed in another order.
        if lengths.shape != self._lengths.shape:
            return ["X"]
        if not np.allclose(lengths, self._lengths, rtol=1e-5, atol=0):
            return ["X"]
        return []

    def save(self, state: Callable[[], State], part: str = "fit", *, now: bool = False) -> None:
        """Write the state of a part of the fit if `every` seconds have passed, or if `now`.

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
        """Write the state of a part; what other parts have saved stays in the file."""
        assert self.path is not None
        prefix = f"{part}/"
        if part != self._part:
            saved = self._read()
            self._part = part
            self._others = {name: saved[name] for name in saved if not name.startswith(prefix)}
        arrays = self._others | {f"{prefix}{name}": value for name, value in state.items()}
        arrays["problem"] = json.dumps(self._problem)
        arrays["lengths"] = self._lengths
        arrays["checksum"] = _checksum(arrays)

        def write(path: Path) -> None:
            """Write the archive under its temporary name."""
            with path.open("wb") as file:
                np.savez(file, **arrays)

        write_atomically(self.path, write)


def _checksum(arrays: State) -> str:
    """Return a hash of named arrays, with their types and shapes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {np.shape(arrays[name])};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class _PastStep:
    """When an iteration ended, and the logarithm of its change."""

    seconds: float
    iteration: int
    log_change: float

    def falling_rate(self, earlier: _PastStep) -> float:
        """Return how fast ln(change) has fallen since an earlier step, per second."""
        return (earlier.log_change - self.log_change) / (self.seconds - earlier.seconds)


class Watch:
    """Reports a fit's iterations to a callback and to standard error; silent unless asked.

    Parameters
    ----------
    name : str
        What is fitted.
    verbose : int
        0 for no lines, 1 for one every few seconds, 2 for one at each iteration.
    callback : callable or None
        Is called with a `FitProgress` at each iteration.
    """

    def __init__(self, name: str = "fit", verbose: object = 0, callback: Callback | None = None):
        if not isinstance(verbose, int) or verbose < 0:
            raise InvalidInput(f"verbose must be 0, 1 or 2, got {verbose!r}")
        if callback is not None and not callable(callback):
            raise InvalidInput(f"callback must be a function of one argument, got {callback!r}")
        self.verbose = int(verbose)
        self.callback = callback
        self.checkpoint = Checkpoint()
        self._begin = time.monotonic()
        self._last = FitProgress(name, 0, 0, math.inf, 0.0, None, 0.0, 0.0, None)
        self._past: list[_PastStep] = []
        self._next_call = SECONDS_BETWEEN_CALLS
        self._next_line = FIRST_SECONDS

    @property
    def is_silent(self) -> bool:
        """Return whether nobody asked for reports."""
        return self.callback is None and not self.verbose

    def step(
        self,
        iteration: int,
        max_iter: int,
        change: float,
        target: float,
        objective: float | None = None,
    ) -> None:
        """Report an iteration of at most `max_iter`, its change, and the change it aims at.

        An infinite change stands for work in `max_iter` known parts of equal length.
        """
        if self.is_silent:
            return
        now = time.monotonic() - self._begin
        if self._past:
            last = self._past[-1]
            is_another_part = iteration < last.iteration
            is_first_known_change = change < last.log_change == math.inf
            if is_another_part or is_first_known_change:
                self._past.clear()
        if change > 0:
            self._past.append(_PastStep(now, iteration, math.log(change)))
        self._last = replace(
            self._last,
            iteration=iteration,
            max_iter=max_iter,
            change=change,
            target=target,
            objective=objective,
            seconds=now,
            seconds_left=self._seconds_left(max_iter, change, target),
        )
        self._report(whole_iteration=True)

    def read(self, passes: float) -> None:
        """Report that X has been read so many times."""
        if self.is_silent:
            return
        now = time.monotonic() - self._begin
        left = self._last.seconds_left
        if left is not None:
            left = max(0.0, left - (now - self._last.seconds))
        self._last = replace(self._last, passes=passes, seconds=now, seconds_left=left)
        if now >= self._next_call:
            self._report(whole_iteration=False)

    def _seconds_left(self, max_iter: int, change: float, target: float) -> float | None:
        """Return the time until the change falls to its target, or until the last iteration.

        The change is taken to go on falling exponentially, at its rate since the first step or
        over recent ones, whichever is faster. None where it has not fallen.
        """
        if len(self._past) < 2:
            return None
        last = self._past[-1]
        recent = self._past[-RECENT_STEPS:][0]
        if last.iteration <= recent.iteration or last.seconds <= recent.seconds:
            return None
        seconds_per_step = (last.seconds - recent.seconds) / (last.iteration - recent.iteration)
        most = (max_iter - last.iteration) * seconds_per_step
        if change == math.inf:  # work in known parts
            return most
        if change <= 0:
            return 0.0
        rate = max(last.falling_rate(self._past[0]), last.falling_rate(recent))
        if not 0 < rate < math.inf:
            return None
        return min(most, max(0.0, math.log(change / target) / rate))

    def _report(self, whole_iteration: bool) -> None:
        """Call the callback, and write a line if it is time for one."""
        now = self._last.seconds
        self._next_call = now + SECONDS_BETWEEN_CALLS
        if self.callback is not None:
            self.callback(self._last)
        if not self.verbose:
            return
        every_iteration = whole_iteration and self.verbose > 1
        if now >= self._next_line or every_iteration:
            self._next_line = now + LINE_SECONDS
            say(str(self._last))


SILENT = Watch()


class HasStatus(Protocol):
    """The result of a fit, which says how the fit ended."""

    @property
    def status(self) -> str:
        """Return a member of `Status`."""


FitResult = TypeVar("FitResult", bound=HasStatus)


def uninterrupted(result: FitResult) -> FitResult:
    """Return the result of one fit of many; if it was interrupted, raise KeyboardInterrupt."""
    if result.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result
