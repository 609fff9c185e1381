"""A fixed-point iteration x ← x + (1 − δ)(T(x) − x) that chooses its own damping δ.

Convergence is judged on T(x) − x, the step that was proposed, not on the damped step that was
taken: damping slows an iteration down, it does not make it look converged. δ starts at 0, as state
evolution assumes, and rises when steps turn back on themselves and grow, or have stopped shrinking
(`Damper`; leaving a plateau also grows the steps, but in one direction, and is let go); then the
iteration resumes from the best point so far. A checkpoint keeps every number of a run: one that is
loaded takes the same steps to the last bit, with the trace of those before it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from polyceptron.algorithms.watching import SILENT, State, Watch
from polyceptron.numerics import Array
from polyceptron.rows import Status

_DAMPING = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
_GROWTH = 3.0  # near a transition steps double on their way out of a plateau, unaided
_PATIENCE = 3  # grown steps in a row before the damping rises
_WINDOW = 30  # steps over which to see whether they still shrink


@dataclass
class Damper:
    """The damping, and the evidence for raising it."""

    stage: int = 0  # place in the list of dampings
    strikes: int = 0
    least: float = math.inf
    direction: Array | None = None
    sizes: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    turns: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def copy(self) -> Damper:
        sizes, turns = deque(self.sizes, _WINDOW), deque(self.turns, _WINDOW)
        return replace(self, sizes=sizes, turns=turns)

    @property
    def value(self) -> float:
        return _DAMPING[self.stage]

    def judge(self, size: float, step: Array) -> bool:
        """Whether to damp more, having seen a proposed step (r, d) of this size."""
        turning = self.direction is not None and self._slope(step, self.direction) < 0.9
        growing = turning and size > max(_GROWTH * self.least, 0.98 * self.sizes[-1])
        self.direction = step
        self.sizes.append(size)
        self.turns.append(turning)
        self.least = min(self.least, size)
        self.strikes = self.strikes + 1 if growing else 0
        sizes, half = list(self.sizes), _WINDOW // 2
        stagnates = (
            len(sizes) == _WINDOW
            and min(sizes[half:]) > 0.9 * min(sizes[:half])
            and sum(self.turns) > 0.8 * _WINDOW
        )
        if self.strikes < _PATIENCE and not stagnates:
            return False
        self.increase()
        return True

    def _slope(self, step: Array, last: Array) -> float:
        """The map's own factor along the last step: above 1 it runs away, which no damping stops.

        Damping turns a factor λ of the map into δ + (1 − δ)λ from one proposed step to the next.
        """
        square = inner(last, last)
        seen = inner(step, last) / square if square > 0 else 1.0
        return (seen - self.value) / (1 - self.value)

    def increase(self) -> None:
        """More damping, judged afresh."""
        self.stage = min(self.stage + 1, len(_DAMPING) - 1)
        self.strikes, self.least, self.direction = 0, math.inf, None
        self.sizes.clear()
        self.turns.clear()


def inner(a: Array, b: Array) -> float:
    """Σ ab: for arrays this small, waking the threads of a BLAS product costs more than adding."""
    return float((a * b).sum())


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


Step = Callable[[Iterate], Iterate]
Observe = Callable[[Iterate], dict[str, float]]


@dataclass(frozen=True)
class Ending:
    """Where an iteration ended: its last point, how many steps it took, and its residual."""

    last: Iterate
    n_iter: int
    status: Status
    residual: float
    damping: float
    trace: tuple[dict[str, float], ...]


class Change(NamedTuple):
    """The size of a proposed step per entry, and the scale of the weights it changes."""

    size: float
    scale: float

    @property
    def relative(self) -> float:
        return self.size / self.scale if self.scale > 0 else self.size


_NONE = Change(math.inf, 1.0)


@dataclass(frozen=True)
class Run:
    """Where an iteration is after t steps: its point, the best one and the step that led there.

    `trace` has an entry for each step: what was observed, and residual and damping of the step.
    """

    here: Iterate
    best: Iterate
    least: Change = _NONE
    damper: Damper = field(default_factory=Damper)
    used: float = 0.0
    t: int = 0
    retreats: int = 0
    trace: tuple[dict[str, float], ...] = ()

    def state(self) -> State:
        """All of it, for a checkpoint; the trace by columns."""
        columns = {name: [entry[name] for entry in self.trace] for name in self.trace[0]}
        return asdict(self) | {"trace": columns}

    @classmethod
    def of(cls, state: State) -> Run:
        """The inverse of `state`."""
        columns = {name: column.tolist() for name, column in state["trace"].items()}
        parts = {
            "here": Iterate(**state["here"]),
            "best": Iterate(**state["best"]),
            "least": Change(*state["least"].tolist()),
            "damper": Damper(**state["damper"]).copy(),
            "trace": tuple(
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ),
        }
        return cls(**state | parts)


def damped_iteration(
    step: Step,
    start: Iterate,
    *,
    tol: float,
    max_iter: int,
    observe: Observe = lambda point: {},
    watch: Watch = SILENT,
) -> Ending:
    """Apply `step` until it moves the point by less than `tol`, relatively; else the best point.

    Entry t of the trace is what `observe` gives of the point after t steps, with the residual of
    the step that led there (infinite for the start, t = 0). The run comes from the watch's
    checkpoint, if it has one, and goes there. KeyboardInterrupt ends it with the best point so far.
    """
    saved, keep = watch.checkpoint.load(), watch.checkpoint.save

    def seen(run: Run, point: Iterate, residual: float, damping: float) -> Run:
        entry = {"iteration": run.t, **observe(point), "residual": residual, "damping": damping}
        return replace(run, trace=(*run.trace, entry))

    run = seen(Run(start, start), start, math.inf, 0.0) if saved is None else Run.of(saved)
    status = Status.NOT_CONVERGED
    try:
        while run.t < max_iter:
            new = step(run.here)
            change, t = _change(run.here, new), run.t + 1
            parts = (new.weights, new.variance, new.scores, change.size)
            if not all(bool(np.isfinite(part).all()) for part in parts):
                if run.retreats == _MAX_RETREATS:
                    run = replace(run, t=t)
                    break
                damper, retreats = run.damper.copy(), run.retreats + 1
                damper.increase()  # and back to the best point
                run = replace(run, here=run.best, damper=damper, used=damper.value, t=t)
                change = run.least
                run = seen(replace(run, retreats=retreats), run.best, change.relative, run.used)
            elif change.relative < tol:
                keep(run.state, now=True)  # the same last step can be made again from there
                watch.step(t, max_iter, change.relative, tol)
                last = seen(replace(run, t=t), new, change.relative, run.damper.value)
                return Ending(new, t, Status.OK, change.relative, run.used, last.trace)
            else:
                run, change = _advance(run, new, change)
                run = seen(run, run.here, change.relative, run.damper.value)
            keep(run.state)
            watch.step(run.t, max_iter, change.relative, tol)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    keep(run.state, now=True)
    return Ending(run.best, run.t, status, run.least.relative, run.used, run.trace)


def _advance(run: Run, new: Iterate, change: Change) -> tuple[Run, Change]:
    """The run after a step towards `new`, or back to the best point if it is damped more from now.

    The run given stays as it is, so that an interrupted step has not happened.
    """
    here, damper, used, t = run.here, run.damper.copy(), run.used, run.t + 1
    best, least = run.best, run.least
    if change.size < least.size or t == 1:
        best, least = new, change
    if damper.judge(change.size, new.weights - here.weights):
        used, here, change = damper.value, best, least
    else:
        here = new if damper.value == 0 else here.towards(new, 1 - damper.value)
    run = replace(run, here=here, best=best, least=least, damper=damper, used=used, t=t)
    return run, change


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
