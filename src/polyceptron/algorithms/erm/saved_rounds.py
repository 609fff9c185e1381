"""A fit that goes in rounds, each a descent, in a checkpoint: what it knew when the round began,
and how far the descent is."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.descent import Descent

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
