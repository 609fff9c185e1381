"""How far a sweep is, for people: rows done, rate, time left, failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from polyceptron.experiments.cost import describe_seconds


@dataclass
class Progress:
    """A sweep at one moment. Rows stored by earlier runs count as done, not in the rate.

    `work` and `work_done` are expected seconds of one core: rows differ too much in cost for their
    number to tell the time that is left.
    """

    name: str
    rows: int
    done: int
    computed: int = 0
    failed: int = 0
    seconds: float = 0.0
    work: float = 0.0
    work_done: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """From the expected cost of what is done and of what is not; None before any is done."""
        if self.work_done <= 0:
            return None
        return self.seconds * max(0.0, self.work - self.work_done) / self.work_done

    @property
    def rate(self) -> float:
        """Rows computed in a second, by this run."""
        return self.computed / self.seconds if self.seconds > 0 else 0.0


Listener = Callable[[Progress], object]


class ProgressBar:
    """A bar on standard error; without a terminal, a line after 2 s and every half minute."""

    FIRST_SECONDS = 2.0
    LINE_SECONDS = 30.0

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._next_line = time.monotonic() + self.FIRST_SECONDS

    def __enter__(self) -> ProgressBar:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("[red]{task.fields[failures]}"),
                console=console,
            )
            self._bar.start()
        return self

    def __call__(self, now: Progress) -> None:
        """Show this moment."""
        failures = f"{now.failed} failed" if now.failed else ""
        rate, left = f"{now.rate:.3g} rows/s", now.seconds_left
        remaining = "" if left is None else f"about {describe_seconds(left)} left"
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(
                    now.name, total=now.rows, completed=now.done, rate="", left="", failures=""
                )
            self._bar.update(
                self._task, completed=now.done, rate=rate, left=remaining, failures=failures
            )
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + self.LINE_SECONDS
            parts = [f"{now.done} of {now.rows} rows", rate, remaining, failures]
            sys.stderr.write(f"{now.name}: {', '.join(part for part in parts if part)}\n")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
