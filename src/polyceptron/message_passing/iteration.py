"""The damped iteration of a message-passing map until it stands still.

A map T takes an iterate x = (Ŵ, V, f), i.e. weights, their variance and the samples' scores, to the
next one (`steps`, `correlated`). What is iterated is

    x ← x + (1 − δ)(T(x) − x)

with a damping δ that starts at 0, as state evolution assumes, and is raised only on evidence
(`Damper`): when proposed steps T(x) − x turn back on themselves and have stopped shrinking. Steps
that grow in one direction, as they do when the iteration leaves a plateau, are no such evidence.
After each rise the iteration resumes from the best point so far.

Convergence is judged on the proposed step T(x) − x, never on the damped one, so that a strong
damping cannot make a moving point look converged. A checkpoint keeps the iterate and the damping: a
run that is loaded takes the same steps as one that was never stopped, and its trace begins there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polyceptron.data.watching import SILENT, Watch
from polyceptron.numerics import Array
from polyceptron.rows import Status

# A map that turns back by the factor −g at each step converges with damping δ if
# g < (1 + δ)/(1 − δ): here g < 1, 1.9, 3, 5.7, 12, 28 and 66, about twice as much at each rise.
DAMPINGS = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)

# Steps in a row that turn back without shrinking, until the damping rises.
# tests: test_amp_iteration.py::test_an_oscillation_is_damped_to_its_fixed_point and the plateau.
STEPS_BEFORE_DAMPING_RISES = 5

# A step counts as shrinking if it is below this share of the smallest one so far.
SHRINKING_SHARE = 0.9

# Where the map multiplies its last step by a factor below this, it is turning back: at factors
# near 1 or above it runs away in one direction, which damping does not change.
TURNING_FACTOR = 0.5


class Iterate(NamedTuple):
    """The point x = (Ŵ, V, f) that one step hands to the next.

    Attributes
    ----------
    weights : ndarray of shape (r, d)
        Ŵ in r coordinates of the classes; (r, d + 1) with intercepts as its last column.
    variance : float or ndarray
        V: one number for all weights, an array (c, d) with one for each weight, an array (1, n)
        with one for each sample, or a matrix (r, r) of the classes.
    scores : ndarray of shape (r, n)
        f of every sample, in the same coordinates.
    """

    weights: Array
    variance: Any
    scores: Array

    def towards(self, new: Iterate, share: float) -> Iterate:
        """Return (1 − share)·self + share·new, component by component."""
        return Iterate(
            self.weights + share * (new.weights - self.weights),
            self.variance + share * (new.variance - self.variance),
            self.scores + share * (new.scores - self.scores),
        )

    @property
    def mean_variance(self) -> float:
        """The mean variance of a weight in one class direction."""
        variance = np.asarray(self.variance)
        directions = len(self.weights)
        if variance.ndim == 0:
            return float(variance)
        if variance.shape == (directions, directions):
            return float(np.trace(variance)) / directions
        return float(np.mean(variance[:directions]))

    def is_finite(self) -> bool:
        """Return whether every number of the iterate is finite."""
        return all(bool(np.isfinite(part).all()) for part in self)


Step = Callable[[Iterate], Iterate]
"""The map T of one iteration."""


@dataclass(frozen=True)
class Ending:
    """Where an iteration ended.

    Attributes
    ----------
    last : Iterate
        The fixed point; where there is none, the point after the smallest step.
    n_iter : int
        Steps taken, those before a checkpoint included.
    status : Status
        'ok', 'not-converged' or 'interrupted'.
    residual : float
        Relative size of the proposed step that led to `last`.
    damping : float
        δ at the end, which is the largest that was used.
    trace : tuple of dict
        One entry for each iterate, the start included.
    """

    last: Iterate
    n_iter: int
    status: Status
    residual: float
    damping: float
    trace: tuple[dict[str, float], ...]


def inner_product(a: Array, b: Array) -> float:
    """Return Σ ab. Arrays here are small: waking the threads of a BLAS product costs more."""
    return float((a * b).sum())


@dataclass
class Damper:
    """The damping δ, and the evidence for raising it."""

    stage: int = 0  # place in DAMPINGS
    unproductive_steps: int = 0  # in a row
    smallest_size: float = math.inf
    last_step: Array | None = None

    @property
    def value(self) -> float:
        """The damping δ."""
        return DAMPINGS[self.stage]

    def rises_after(self, size: float, step: Array) -> bool:
        """Return whether δ was raised, having seen a proposed step (r, d) of this size."""
        turning = self._turns_back(step)
        self.last_step = step
        if size < SHRINKING_SHARE * self.smallest_size or not turning:
            self.smallest_size = size
            self.unproductive_steps = 0
        else:
            self.unproductive_steps += 1
        if self.unproductive_steps < STEPS_BEFORE_DAMPING_RISES:
            return False
        self.increase()
        return True

    def increase(self) -> None:
        """Raise the damping to the next stage, if there is one, and forget the evidence."""
        self.stage = min(self.stage + 1, len(DAMPINGS) - 1)
        self.unproductive_steps = 0
        self.smallest_size = math.inf
        self.last_step = None

    def _turns_back(self, step: Array) -> bool:
        """Return whether the undamped map turns back along its last proposed step.

        If the map multiplies the last step by λ, then under damping the next proposed step is
        δ + (1 − δ)λ times the last one; that factor is measured, and λ computed from it.
        """
        if self.last_step is None:
            return False
        square = inner_product(self.last_step, self.last_step)
        measured = 1.0
        if square > 0:
            measured = inner_product(step, self.last_step) / square
        return (measured - self.value) / (1 - self.value) < TURNING_FACTOR


class _Change(NamedTuple):
    """The size of a proposed step: per entry, and relative to the weights; infinite before one."""

    size: float = math.inf
    relative: float = math.inf


def _change(old: Iterate, new: Iterate) -> _Change:
    """Return the larger root mean square change, of the weights or of the fields' correction V f.

    The map depends on the scores through V f alone, so that is the scale on which they matter.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        of_weights = _root_mean_square(new.weights - old.weights)
        of_scores = _root_mean_square(new.scores - old.scores)
        size = max(of_weights, of_scores * new.mean_variance)
        scale = _root_mean_square(new.weights)
    if scale > 0:
        return _Change(size, size / scale)
    return _Change(size, size)


def _root_mean_square(x: Array) -> float:
    return math.sqrt(inner_product(x, x) / x.size)


Observe = Callable[[Iterate], dict[str, float]]
"""What is to be recorded of an iterate in the trace."""


def _nothing(point: Iterate) -> dict[str, float]:
    return {}


@dataclass
class _Progress:
    """The state of a damped iteration after t steps."""

    t: int
    here: Iterate
    damper: Damper
    best: Iterate
    observe: Observe
    best_change: _Change = field(default_factory=_Change)
    overflows: int = 0
    trace: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def of_checkpoint(cls, start: Iterate, observe: Observe, watch: Watch) -> _Progress:
        """Return the state that the watch's checkpoint has, or that of the start."""
        saved = watch.checkpoint.load() or {"t": 0, "stage": 0}
        t = saved.pop("t")
        damper = Damper(saved.pop("stage"))
        here = start._replace(**saved)
        return cls(t, here, damper, best=here, observe=observe)

    def save(self, watch: Watch, now: bool = False) -> None:
        """Write the state to the checkpoint, if the time has come, or now."""
        watch.checkpoint.save(
            lambda: {"t": self.t, "stage": self.damper.stage, **self.here._asdict()}, now=now
        )

    def record(self, point: Iterate, residual: float) -> None:
        """Append a point, and the residual of the step that led to it, to the trace."""
        last = {"residual": residual, "damping": self.damper.value}
        self.trace.append({"iteration": self.t, **self.observe(point), **last})

    def may_go_on(self, max_iter: int) -> bool:
        """Return whether steps are left, and not every damping has led to an overflow."""
        return self.t < max_iter and self.overflows < len(DAMPINGS) - 1

    def advance(self, new: Iterate, change: _Change) -> float:
        """Move towards T(x), or back to the best point; return the residual that led there."""
        finite = new.is_finite() and math.isfinite(change.size)
        if finite and change.size < self.best_change.size:
            self.best = new
            self.best_change = change
        if not finite:
            self.overflows += 1
            self.damper.increase()
            return self._return_to_best()
        if self.damper.rises_after(change.size, new.weights - self.here.weights):
            return self._return_to_best()
        if self.damper.value == 0:
            self.here = new
        else:
            self.here = self.here.towards(new, 1 - self.damper.value)
        return change.relative

    def _return_to_best(self) -> float:
        self.here = self.best
        return self.best_change.relative

    def ending(self, last: Iterate, status: Status, residual: float) -> Ending:
        """Return what the iteration ended with."""
        return Ending(last, self.t, status, residual, self.damper.value, tuple(self.trace))


def damped_iteration(
    step: Step,
    start: Iterate,
    *,
    tol: float,
    max_iter: int,
    observe: Observe = _nothing,
    watch: Watch = SILENT,
) -> Ending:
    """Apply `step` until it moves the point by less than `tol`, relative to its weights.

    Parameters
    ----------
    step : callable
        The map T from an Iterate to the next.
    start : Iterate
        Where to begin, unless the checkpoint of `watch` has a later point.
    tol : float
        Relative size of a proposed step at which the iteration has converged.
    max_iter : int
        Most steps, those before a checkpoint included.
    observe : callable
        What the trace records of an Iterate, a dict of numbers.
    watch : Watch
        Is told of every step, and keeps the checkpoint.

    Returns
    -------
    Ending
        Entry t of its trace is the point after t steps, with the residual of the step that led
        there (infinite for the start, t = 0). Without convergence, or after KeyboardInterrupt, its
        point is the best so far.
    """
    progress = _Progress.of_checkpoint(start, observe, watch)
    progress.record(progress.here, math.inf)
    status = Status.NOT_CONVERGED
    try:
        while progress.may_go_on(max_iter):
            new = step(progress.here)
            change = _change(progress.here, new)
            if change.relative < tol and new.is_finite():
                # Saved before this step is counted: a loaded run makes the same last step again.
                progress.save(watch, now=True)
                progress.t += 1
                watch.step(progress.t, max_iter, change.relative, tol)
                progress.record(new, change.relative)
                return progress.ending(new, Status.OK, change.relative)
            progress.t += 1
            residual = progress.advance(new, change)
            progress.record(progress.here, residual)
            progress.save(watch)
            watch.step(progress.t, max_iter, residual, tol)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    progress.save(watch, now=True)
    return progress.ending(progress.best, status, progress.best_change.relative)
