"""A long fit on disk, so that it can go on after the program was stopped or killed.

A checkpoint is one .npz file of plain arrays: the state of the iteration to the last bit, and what
problem it belongs to. It is written beside its name and moved into place, so there is always a
whole one. It is written after the first iteration that ends `every` seconds or more after the last,
at the end, and when the fit is interrupted; a fit that finds it goes on from there.

A fit of several parts, one after the other, keeps each under its own name.

That X is the same is judged by the lengths of a thousand of its rows, which the first pass over X
has found; tolerance and number of iterations may be others than before.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.watching import check_seconds
from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable, check_writable, write_atomically

State = dict[str, Any]  # of arrays and numbers
_FORMAT = 2
_ROWS = 1000
_SAME = 1e-5  # relative, of lengths summed in another order or precision


class Checkpoint:
    """The file at `path`, for one problem."""

    def __init__(
        self, path: str | Path, every: float, design: Design, y: Labels, **settings: Any
    ) -> None:
        self.path = check_writable(path)
        self.every = check_seconds(every, "checkpoint_every")
        self._lengths = design.row_norms[:: -(-design.n_samples // _ROWS)]
        self._problem = {
            "format": _FORMAT,
            "shape": list(design.shape),
            "labels": zlib.crc32(np.ascontiguousarray(y).tobytes()),
            **{name: str(value) for name, value in settings.items()},
        }
        self._next = time.monotonic() + self.every
        self._part, self._others = "", dict[str, State]()

    def load(self, part: str = "fit") -> State | None:
        """What was saved of a part, None where nothing is; a sentence if it is of another fit."""
        return self._read().get(part)

    def _read(self) -> dict[str, State]:
        if not self.path.exists():
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
        if not other and not (
            lengths.shape == self._lengths.shape
            and np.allclose(lengths, self._lengths, rtol=_SAME, atol=0)
        ):
            other = ["X"]
        if other:
            raise InvalidInput(
                f"the checkpoint {str(self.path)!r} is of another fit (not the same: "
                f"{', '.join(other)}): remove it, or give another path"
            )
        parts: dict[str, State] = {}
        for name, value in state.items():
            part, _, own = name.partition(".")
            parts.setdefault(part, {})[own] = value
        return parts

    def save(self, state: Callable[[], State], part: str = "fit", *, now: bool = False) -> None:
        """Write the state of a part, beside the others', if the time has come, or now."""
        if not now and time.monotonic() < self._next:
            return
        if part != self._part:  # what the others have saved stays
            saved = self._read()
            self._part, self._others = part, {n: saved[n] for n in saved if n != part}
        parts = self._others | {part: state()}
        given = {f"{name}.{own}": value for name in parts for own, value in parts[name].items()}
        given |= {"problem": json.dumps(self._problem), "lengths": self._lengths}
        write_atomically(self.path, lambda path: _write(path.open("wb"), given))
        self._next = time.monotonic() + self.every


def _write(file: BinaryIO, arrays: State) -> None:
    with file:
        np.savez(file, **arrays)


def open_checkpoint(
    path: Any, every: Any, design: Design, y: Labels, **settings: Any
) -> Checkpoint | None:
    """The checkpoint at a path, None for None, or a sentence."""
    if path is None:
        return None
    if not isinstance(path, str | Path):
        raise InvalidInput(f"checkpoint must be the path of a file, got {path!r}")
    return Checkpoint(path, every, design, y, **settings)
