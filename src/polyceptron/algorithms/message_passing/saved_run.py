"""A run of message passing in a checkpoint: every number of it, so that it goes on as it was.

A run that is loaded takes the same steps to the last bit, with the trace of those before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.checkpoints import Checkpoint, State, open_checkpoint
from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.message_passing.amp_result import OverlapTrace
from polyceptron.algorithms.message_passing.iteration import (
    Change,
    Damper,
    Ending,
    Iterate,
    Run,
    Step,
    iterate,
)
from polyceptron.algorithms.watching import Watch

_PARTS = ("weights", "variance", "scores")


@dataclass(frozen=True)
class RunKeeper:
    """Keeps a run and its trace in a checkpoint."""

    checkpoint: Checkpoint
    trace: OverlapTrace

    def load(self) -> Run | None:
        """The run that is there, if any; its trace is put back."""
        saved = self.checkpoint.load()
        if saved is None:
            return None
        names = [str(name) for name in saved["trace_names"]]
        self.trace.restore([dict(zip(names, row, strict=True)) for row in saved["trace"].tolist()])
        return Run(
            _iterate(saved, "here"),
            _iterate(saved, "best"),
            Change(*saved["least"].tolist()),
            _damper(saved),
            float(saved["used"]),
            int(saved["t"]),
            int(saved["retreats"]),
        )

    def save(self, run: Run, *, now: bool = False) -> None:
        """Keep the run, if it is time or now."""
        self.checkpoint.save(lambda: self._state(run), now=now)

    def _state(self, run: Run) -> State:
        entries = self.trace.so_far[: run.t + 1]
        damper = run.damper
        state: State = {
            "least": np.array(run.least),
            "used": run.used,
            "t": run.t,
            "retreats": run.retreats,
            "damper": np.array([damper.level, damper.strikes, damper.least]),
            "sizes": np.array(damper.sizes),
            "turns": np.array(damper.turns, dtype=bool),
            "trace_names": np.array(list(entries[0])),
            "trace": np.array([list(entry.values()) for entry in entries]),
        }
        if damper.direction is not None:
            state["direction"] = damper.direction
        for name, point in (("here", run.here), ("best", run.best)):
            state |= {f"{name}_{part}": getattr(point, part) for part in _PARTS}
        return state


def iterate_watched(
    design: Design,
    y: Labels,
    step: Step,
    begin: Iterate,
    trace: OverlapTrace,
    tol: float,
    max_iter: int,
    watch: Watch,
    checkpoint: Any,
    every: Any,
    settings: State,
) -> Ending:
    """Iterate on a design, told to a watch and kept in a checkpoint if there is one."""
    opened = open_checkpoint(checkpoint, every, design, y, **settings)
    keeper = None if opened is None else RunKeeper(opened, trace)
    with design.watched(watch):
        end = iterate(
            step, begin, tol=tol, max_iter=max_iter, observe=trace, watch=watch, keeper=keeper
        )
    trace.restore(trace.so_far[: end.n_iter + 1])  # an interrupted step has not happened
    return end


def _iterate(saved: State, name: str) -> Iterate:
    weights, variance, scores = (saved[f"{name}_{part}"] for part in _PARTS)
    return Iterate(weights, float(variance) if variance.ndim == 0 else variance, scores)


def _damper(saved: State) -> Damper:
    level, strikes, least = saved["damper"].tolist()
    fresh = Damper()
    sizes: deque[Any] = deque(saved["sizes"].tolist(), maxlen=fresh.sizes.maxlen)
    turns: deque[Any] = deque(saved["turns"].tolist(), maxlen=fresh.turns.maxlen)
    return Damper(int(level), int(strikes), least, saved.get("direction"), sizes, turns)
