"""Computations behind figures: functions with plain arguments, whose rows are kept in files.

A computation can be written down, run in any process, and shared by figures that ask for the same.
A run that was stopped goes on from the rows that it left.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from polyceptron.files import write_text
from polyceptron.lab.engine import Listener, Progress
from polyceptron.rows import Row
from polyceptron.version import VERSION


@dataclass(frozen=True)
class Computation:
    """The rows that `function(**arguments)` returns."""

    function: Callable[..., list[Row]]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def key(self) -> str:
        """The name of its file: the same for two that ask the same of the same version."""
        text = json.dumps([VERSION, self.name, self.arguments], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
        return f"{self.function.__name__}-{digest[:16]}.json"

    def run(self, folder: Path) -> list[Row]:
        """Return the rows that an earlier run left in the folder, or compute and leave them."""
        with contextlib.suppress(OSError, ValueError, KeyError):  # damaged is as good as missing
            return list(json.loads((folder / self.key).read_text(encoding="utf-8"))["rows"])
        rows = self.function(**self.arguments)
        record = {
            "function": self.name,
            "arguments": self.arguments,
            "version": VERSION,
            "rows": rows,
        }
        write_text(folder / self.key, json.dumps(record, default=float))
        return rows


def ask(function: Callable[..., list[Row]], **arguments: Any) -> Computation:
    """Return the computation of a function with these arguments."""
    return Computation(function, arguments)


def run_computations(
    asked: Iterable[Computation], folder: Path, workers: int, tell: Listener = bool
) -> dict[str, list[Row]]:
    """Return the rows of each computation by its key; equal ones run once.

    Parameters
    ----------
    asked : iterable of Computation
        The last ones run first.
    folder : Path
        Where rows are kept.
    workers : int
        Processes at most, of one BLAS thread each.
    tell : callable
        Is given the `Progress` after each.
    """
    folder.mkdir(exist_ok=True)
    by_key = {computation.key: computation for computation in reversed(list(asked))}
    is_known = [(folder / key).exists() for key in by_key]
    progress = Progress("lines and laws", len(by_key), sum(is_known))
    n_processes = max(min(workers, is_known.count(False)), 1)
    pool = Parallel(n_processes, return_as="generator", batch_size=1)
    calls = (delayed(computation.run)(folder) for computation in by_key.values())
    begin = time.monotonic()
    results: dict[str, list[Row]] = {}
    for key, rows, known in zip(by_key, pool(calls), is_known, strict=True):
        results[key] = rows
        if not known:
            progress.computed += 1
        progress.seconds = time.monotonic() - begin
        tell(progress)
    return results
