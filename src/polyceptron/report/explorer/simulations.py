"""Simulations: one process each, with progress, a time limit, and a cancel that ends it.

A simulation waits for its turn: `RunningNow` counts what runs, of one page and in all.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.settings import PageSettings
from polyceptron.report.explorer.simulation_runs import MAX_KEPT, check_simulation
from polyceptron.report.explorer.theory_queue import WorkerProcess

TIME_LIMIT = 300.0
MAX_RUNNING = 2  # of one page
MAX_RUNNING_IN_ALL = 4


class Simulation:
    """A simulation that runs in a process of its own once it is started."""

    def __init__(self, settings: PageSettings, time_limit: float = TIME_LIMIT) -> None:
        self.settings, self.time_limit = settings, time_limit
        self.rows: list[dict[str, Any]] = []
        self.total = settings.places * settings.runs
        self.status = "waiting"  # then running, then finished, cancelled or failed
        self.reason = ""
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None

    @property
    def running(self) -> bool:
        """Whether a process is at work on it."""
        return self.status == "running"

    @property
    def going_on(self) -> bool:
        """Whether there is more to come."""
        return self.status in ("waiting", "running")

    @property
    def process_id(self) -> int:
        """Of the process that does the work; 0 before it starts."""
        return self._worker.process.pid if self._worker else 0

    def start(self, at_end: Any = None) -> None:
        """Begin, if it waits; `at_end` is called when it is over, whatever the end."""
        with self._lock:
            if self.status != "waiting":
                return
            self.status = "running"
            self._worker = WorkerProcess()
        threading.Thread(target=self._follow, args=(self._worker, at_end), daemon=True).start()

    def cancel(self) -> None:
        """End the process; the rows that are there stay. Returns when the process is gone."""
        self._end("cancelled")
        if self._worker is not None:
            self._worker.kill()

    def _follow(self, worker: WorkerProcess, at_end: Any) -> None:
        start = time.monotonic()
        try:
            worker.send({"simulate": self.settings.as_dict()})
            while self.running:
                message = worker.receive(0.2)
                if time.monotonic() - start > self.time_limit:
                    self._end("failed", f"stopped after {self.time_limit:.0f} s")
                elif message is not None and "row" in message:
                    with self._lock:
                        if self.running:
                            self.rows = [*self.rows, message["row"]]
                elif message is not None:
                    error = message.get("error")
                    self._end("failed" if error else "finished", error or "")
        except ComputationFailed as error:
            self._end("failed", str(error))
        finally:
            worker.kill()
            if at_end is not None:
                at_end()

    def _end(self, status: str, reason: str = "") -> None:
        with self._lock:
            if self.going_on:
                self.status, self.reason = status, reason


class Simulations:
    """The simulations of one page, each in a slot that is its own until it is removed.

    A slot has its buttons on the page from the start, so that a press never meets one that has
    just been drawn anew, or another simulation's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.slots: list[Simulation | None] = [None] * MAX_KEPT

    @property
    def all(self) -> list[Simulation]:
        """Those that are kept, going on or over."""
        return [one for one in self.slots if one is not None]

    @property
    def running(self) -> int:
        """How many are at work."""
        return sum(one.running for one in self.all)

    def add(self, settings: PageSettings) -> Simulation:
        """Check the bounds and keep it, waiting; or a sentence."""
        check_simulation(settings)
        with self._lock:
            if None not in self.slots:
                raise InvalidInput(f"{MAX_KEPT} simulations are kept: remove one first")
            new = Simulation(settings)
            self.slots[self.slots.index(None)] = new
        return new

    def cancel(self, slot: int) -> None:
        """End the one in that slot, if any."""
        one = self.slots[slot]
        if one is not None:
            one.cancel()

    def remove(self, slot: int) -> None:
        """Forget the one in that slot, if it is over."""
        with self._lock:
            one = self.slots[slot]
            if one is not None and not one.going_on:
                self.slots[slot] = None

    def close(self) -> None:
        """End them all."""
        for one in self.all:
            one.cancel()


class RunningNow:
    """Whose turn it is: first come first served, within a page's and everybody's bounds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: list[tuple[Simulations, Simulation]] = []

    def add(self, owner: Simulations, settings: PageSettings) -> Simulation:
        """A new simulation of `owner`, started now or when there is room."""
        new = owner.add(settings)
        with self._lock:
            self._queue.append((owner, new))
        self.advance()
        return new

    def advance(self) -> None:
        """Start what can start."""
        with self._lock:
            self._queue = [pair for pair in self._queue if pair[1].going_on]
            for owner, one in self._queue:
                if sum(other.running for _, other in self._queue) >= MAX_RUNNING_IN_ALL:
                    break
                if one.status == "waiting" and owner.running < MAX_RUNNING:
                    one.start(self.advance)
