"""Where Newton's method is, so that it can be kept and go on as it was."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.checkpoints import State
from polyceptron.algorithms.design import Array


@dataclass
class AtWork:
    """The λ still at work: their number in the batch and how their gradients have fallen."""

    index: NDArray[np.int64]
    first: Array
    previous: Array
    stalled: NDArray[np.int64]
    double: NDArray[np.bool_]  # whether the inner solves need double precision

    @classmethod
    def begin(cls, index: NDArray[np.int64], *, single: bool) -> AtWork:
        """These λ, in single precision or in double from the start."""
        infinite = np.full(index.size, np.inf)
        stalled = np.zeros(index.size, np.int64)
        return cls(index, infinite, infinite.copy(), stalled, np.full(index.size, not single))

    def copy(self) -> AtWork:
        """One that can change without this one."""
        return AtWork(*(getattr(self, field.name).copy() for field in fields(self)))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Go on with these alone."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[mask])


@dataclass
class Descent:
    """U (L, r, d) and its fields Z (L, r, n), the steps made and allowed (L,), and who is at work.

    `stage` counts how often the fields were made afresh; `whole` is False while U and Z move. All
    of it is as it was at the end of a step: an interrupted one has not happened.
    """

    U: Array
    Z: Array
    count: NDArray[np.int64]
    limit: NDArray[np.int64]
    stage: int = 0
    work: AtWork | None = None
    whole: bool = True

    def arrays(self) -> State:
        """All of it, for a checkpoint."""
        state: State = {name: getattr(self, name) for name in ("U", "Z", "count", "limit", "stage")}
        if self.work is not None:
            state |= {f"work_{f.name}": getattr(self.work, f.name) for f in fields(AtWork)}
        return state

    @classmethod
    def of(cls, state: State) -> Descent:
        """The inverse of `arrays`."""
        work: Any = None
        if "work_index" in state:
            work = AtWork(*(state[f"work_{f.name}"] for f in fields(AtWork)))
        U, Z, count, limit = (state[name] for name in ("U", "Z", "count", "limit"))
        return cls(U, Z, count, limit, int(state["stage"]), work)
