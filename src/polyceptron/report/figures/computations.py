"""Work of a figure that is no row of a sweep: transitions, traces, margins, curves of many classes.

A computation is a function of this package with plain arguments, so that it can be written down,
run in any process and shared by figures that ask for the same. What it gives is kept in a file
named by a hash of what was asked, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polyceptron.experiments.progress import Listener, Progress
from polyceptron.files import write_text
from polyceptron.rows import VERSION

Row = dict[str, Any]


@dataclass(frozen=True)
class Computation:
    """`function(**arguments)` gives rows; `seconds` is about what it takes on one core."""

    function: Callable[..., list[Row]]
    arguments: dict[str, Any] = field(default_factory=dict)
    seconds: float = 1.0

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def key(self) -> str:
        """The same for two that ask the same of the same version."""
        text = json.dumps([VERSION, self.name, self.arguments], sort_keys=True)
        return f"{self.function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def toml(self) -> str:
        """The computation as a TOML table."""
        lines = [f'[[computation]]\nfunction = "{self.name}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in self.arguments.items()]
        return "\n".join(lines) + "\n"

    def kept(self, folder: Path) -> list[Row] | None:
        """The rows that an earlier run has left in the folder; None if there are none."""
        try:
            rows = json.loads((folder / f"{self.key}.json").read_text(encoding="utf-8"))["rows"]
        except (OSError, ValueError, KeyError, TypeError):  # damaged is as good as missing
            return None
        return rows if isinstance(rows, list) else None

    def keep(self, rows: list[Row], folder: Path) -> None:
        """Write the rows and what they answer, in one piece."""
        asked = {"function": self.name, "arguments": self.arguments, "version": VERSION}
        write_text(folder / f"{self.key}.json", json.dumps({**asked, "rows": rows}, default=float))


def run_computations(
    asked: Sequence[Computation], folder: Path, workers: int, tell: Listener | None = None
) -> dict[str, list[Row]]:
    """The rows of each by its key, kept in the folder; equal ones run once, long ones first."""
    folder.mkdir(exist_ok=True)
    results, todo = dict[str, list[Row]](), dict[str, Computation]()
    for one in asked:
        rows = results.get(one.key) or one.kept(folder)
        if rows is None:
            todo[one.key] = one
        else:
            results[one.key] = rows
    now = Progress("lines and laws", len(todo) + len(results), len(results))
    begin = time.monotonic()
    for key, rows in _finished(sorted(todo.values(), key=lambda one: -one.seconds), workers):
        todo[key].keep(rows, folder)
        results[key] = rows
        now.done += 1
        now.computed += 1
        now.seconds = time.monotonic() - begin
        if tell is not None:
            tell(now)
    return results


def _finished(todo: list[Computation], workers: int) -> Iterable[tuple[str, list[Row]]]:
    if workers == 1 or len(todo) < 2:
        return map(_run, todo)
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=min(workers, len(todo)), return_as="generator_unordered", batch_size=1
    )  # loky gives each process one BLAS thread
    return pool(delayed(_run)(one) for one in todo)  # type: ignore[no-any-return]


def _run(one: Computation) -> tuple[str, list[Row]]:
    return one.key, one.function(**one.arguments)
