"""How far a sweep is, for people: rows done, rate, time left, failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass
class Progress:
    """A sweep at one moment. Rows stored by earlier runs count as done, not in the rate."""

    name: str
    rows: int
    done: int
    computed: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Rows computed in a second, by this run."""
        return self.computed / self.seconds if self.seconds > 0 else 0.0


Listener = Callable[[Progress], object]


class ProgressBar:
    """A bar on standard error; without a terminal, one line every half minute."""

    LINE_SECONDS = 30.0

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._next_line = time.monotonic() + self.LINE_SECONDS

    def __enter__(self) -> ProgressBar:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("[red]{task.fields[failures]}"),
                console=console,
            )
            self._bar.start()
        return self

    def __call__(self, now: Progress) -> None:
        """Show this moment."""
        failures = f"{now.failed} failed" if now.failed else ""
        rate = f"{now.rate:.3g} rows/s"
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(
                    now.name, total=now.rows, completed=now.done, rate="", failures=""
                )
            self._bar.update(self._task, completed=now.done, rate=rate, failures=failures)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + self.LINE_SECONDS
            left = (now.rows - now.done) / now.rate if now.rate else float("inf")
            sys.stderr.write(
                f"{now.name}: {now.done} of {now.rows} rows, {rate}, about {left:.0f} s left"
                + (f", {failures}\n" if failures else "\n")
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
