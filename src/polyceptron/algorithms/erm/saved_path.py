"""A path of fits in a checkpoint: those that are done, and how far the one at work is.

A fit that goes in rounds, each a descent, in a checkpoint: what it knew when the round began,
and how far the descent is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from polyceptron.algorithms.checkpoints import Checkpoint, State
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.erm_fit import Descent, ERMFit
from polyceptron.numerics import Array
from polyceptron.rows import Status

_NAN = math.nan
_NUMBERS = (
    "gradient_norm", "distance_bound", "n_iter", "matrix_passes", "training_loss",
    "training_error", "ridge",
)  # fmt: skip


@dataclass
class SavedPath:
    """The fits of a path that are done; without a checkpoint they are kept in memory alone."""

    checkpoint: Checkpoint | None
    design: Design
    loss: str
    done: dict[float, ERMFit] = field(default_factory=dict)
    at_work: State | None = None

    def __post_init__(self) -> None:
        saved = self.checkpoint.load() if self.checkpoint is not None else None
        if saved is None:
            return
        for weights, numbers, status in zip(
            saved.pop("weights"), saved.pop("numbers"), saved.pop("status"), strict=True
        ):
            values: dict[str, Any] = dict(zip(_NUMBERS, numbers.tolist(), strict=True))
            values["n_iter"] = int(values["n_iter"])
            known = next(member for member in Status if member == str(status))
            fit = ERMFit(weights=weights, status=known, loss=self.loss, **values)
            self.done[fit.ridge] = fit
        self.at_work = saved if "U" in saved else None

    def add(self, fits: Sequence[ERMFit]) -> None:
        """These are done."""
        self.done |= {fit.ridge: fit for fit in fits}
        if self.checkpoint is not None:
            self.checkpoint.save(self.state, now=True)

    def keeper(self, ridges: Sequence[float], before: float) -> BlockKeeper:
        """The keeper of the descent at these ridges, begun when X had been read `before` times."""
        return BlockKeeper(self, np.array(ridges), before)

    def state(self) -> State:
        fits = list(self.done.values())
        return {
            "weights": np.array([fit.weights for fit in fits]),
            "numbers": np.array([[getattr(fit, name) for name in _NUMBERS] for fit in fits]),
            "status": np.array([str(fit.status) for fit in fits], dtype=str),
        }


@dataclass
class BlockKeeper:
    """Keeps the descent of several λ beside the fits that are done."""

    path: SavedPath
    ridges: Array
    before: float

    def load(self) -> Descent | None:
        """The descent at these ridges, if that is what was at work."""
        saved = self.path.at_work
        if saved is None or not np.array_equal(saved["ridges"], self.ridges):
            return None
        self.before -= float(saved["passes"])
        return Descent.of(saved)

    def save(self, at: Descent, *, now: bool = False) -> None:
        """Keep the descent, if it is time or now."""
        checkpoint = self.path.checkpoint
        if checkpoint is None:
            return
        passes = self.path.design.passes - self.before
        checkpoint.save(
            lambda: self.path.state() | at.arrays() | {"ridges": self.ridges, "passes": passes},
            now=now,
        )


def stopped(fit: ERMFit) -> ERMFit:
    """The fit as one that was interrupted: nothing is known of its distance to the minimiser."""
    return replace(fit, status=Status.INTERRUPTED, gradient_norm=_NAN, distance_bound=math.inf)


def stopped_at(weights: Array, ridge: float, loss: str) -> ERMFit:
    """Weights (d, k) of which nothing is known."""
    status = Status.INTERRUPTED
    return ERMFit(weights, _NAN, math.inf, 0, 0.0, _NAN, _NAN, status, ridge, loss)


def not_begun(fit: ERMFit, ridge: float) -> ERMFit:
    """For a λ whose turn did not come after this one: no weights."""
    return stopped_at(0 * fit.weights, ridge, fit.loss)


Known = TypeVar("Known", bound=Any)  # a dataclass of arrays and numbers


class SavedRounds:
    """The keeper of every round's descent; without a checkpoint it only ends them in good order."""

    def __init__(self, design: Design, part: str) -> None:
        self._design, self._part = design, part
        self._checkpoint = design.watch.checkpoint
        saved = None if self._checkpoint is None else self._checkpoint.load(part)
        self._saved = saved
        self.before = design.passes - (0.0 if saved is None else float(saved["passes"]))
        self._known: Any = None
        self._last: Descent | None = None

    @property
    def begun(self) -> bool:
        """Whether the checkpoint has a part of this fit."""
        return self._saved is not None

    def known(self, fresh: Known) -> Known:
        """What was known when the round at work began: that of the checkpoint, or `fresh`."""
        if self._saved is None:
            return fresh
        kept = {f.name: self._saved[f"known_{f.name}"] for f in fields(fresh)}
        return replace(fresh, **{n: v if v.ndim else v.item() for n, v in kept.items()})

    def begin(self, known: Any) -> SavedRounds:
        """A round begins, with this known; itself, to keep its descent."""
        self._known = replace(known)
        return self

    def load(self) -> Descent | None:
        """The descent of this round, if that is what was at work."""
        saved, self._saved = self._saved, None
        return None if saved is None else Descent.of(saved)

    def save(self, at: Descent, *, now: bool = False) -> None:
        """Keep the descent, if it is time or now."""
        if self._checkpoint is None:
            return
        self._last = at
        known = {f"known_{f.name}": getattr(self._known, f.name) for f in fields(self._known)}
        passes = {"passes": self._design.passes - self.before}
        self._checkpoint.save(lambda: known | passes | at.arrays(), self._part, now=now)

    def ended(self) -> None:
        """Keep the last round's descent: the same call finds it, and has little left to do."""
        if self._last is not None:
            self.save(self._last, now=True)
