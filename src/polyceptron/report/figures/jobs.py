"""Work of a figure that is no row of a sweep: transitions, traces, margins, curves of many classes.

A job is a function of this package with plain arguments, so that it can be written down, run in any
process and shared by figures that ask for the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyceptron.experiments.progress import Listener, Progress

Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """`function(**arguments)` gives rows; `seconds` is about what it takes on one core."""

    function: Callable[..., list[Row]]
    arguments: dict[str, Any] = field(default_factory=dict)
    seconds: float = 1.0

    @property
    def key(self) -> str:
        """The same for two jobs that ask for the same."""
        return f"{self.function.__module__}.{self.function.__name__}({json.dumps(self.arguments)})"

    def toml(self) -> str:
        """The job as a TOML table."""
        lines = [f'[[job]]\nfunction = "{self.function.__module__}.{self.function.__name__}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in self.arguments.items()]
        return "\n".join(lines) + "\n"


def run_jobs(
    jobs: Sequence[Job], workers: int, tell: Listener | None = None
) -> dict[str, list[Row]]:
    """The rows of every job by its key; equal jobs run once, long ones first."""
    todo = sorted({job.key: job for job in jobs}.values(), key=lambda job: -job.seconds)
    now = Progress("lines and laws", len(todo), 0)
    begin = time.monotonic()
    results: dict[str, list[Row]] = {}
    for key, rows in _finished(todo, workers):
        results[key] = rows
        now.done += 1
        now.computed += 1
        now.seconds = time.monotonic() - begin
        if tell is not None:
            tell(now)
    return results


def _finished(jobs: list[Job], workers: int) -> Iterable[tuple[str, list[Row]]]:
    if workers == 1 or len(jobs) < 2:
        return map(_run, jobs)
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=min(workers, len(jobs)), return_as="generator_unordered", batch_size=1
    )  # loky gives each process one BLAS thread
    return pool(delayed(_run)(job) for job in jobs)  # type: ignore[no-any-return]


def _run(job: Job) -> tuple[str, list[Row]]:
    return job.key, job.function(**job.arguments)
