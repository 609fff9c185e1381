"""Simulations: one process each, with progress, a time limit, and a cancel that ends it."""

from __future__ import annotations

import threading
import time
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.process import Child
from polyceptron.report.explorer.state import State, check_simulation

TIME_LIMIT = 300.0
MAX_RUNNING = 2  # of one visitor
MAX_RUNNING_IN_ALL = 4
MAX_KEPT = 12  # of one visitor, running or not


class Job:
    """A simulation that runs in a process of its own from the moment it is made."""

    def __init__(self, number: int, state: State, time_limit: float = TIME_LIMIT) -> None:
        self.number, self.state, self.time_limit = number, state, time_limit
        self.rows: list[dict[str, Any]] = []
        self.total = state.places * state.runs
        self.status = "running"  # then finished, cancelled or failed
        self.reason = ""
        self._lock = threading.Lock()
        self._child = Child()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there is more to come."""
        return self.status == "running"

    @property
    def process_id(self) -> int:
        """Of the process that does the work."""
        return self._child.process.pid

    def cancel(self) -> None:
        """End the process; the rows that are there stay. Returns when the process is gone."""
        self._end("cancelled")
        self._child.kill()

    def _follow(self) -> None:
        start = time.monotonic()
        try:
            self._child.send({"simulate": self.state.as_dict()})
            while self.running:
                message = self._child.receive(0.2)
                if message is None:
                    if time.monotonic() - start > self.time_limit:
                        self._end("failed", f"stopped after {self.time_limit:.0f} s")
                elif "row" in message:
                    with self._lock:
                        if self.running:
                            self.rows = [*self.rows, message["row"]]
                else:
                    error = message.get("error")
                    self._end("failed" if error else "finished", error or "")
        except ComputationFailed as error:
            self._end("failed", str(error))
        finally:
            self._child.kill()

    def _end(self, status: str, reason: str = "") -> None:
        with self._lock:
            if self.running:
                self.status, self.reason = status, reason


class Jobs:
    """The simulations of one visitor; `running_elsewhere` counts those of the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 1
        self.all: list[Job] = []

    @property
    def running(self) -> int:
        """How many are at work."""
        return sum(job.running for job in self.all)

    def start(self, state: State, running_elsewhere: int = 0) -> Job:
        """Check the bounds and start, or a sentence."""
        check_simulation(state)
        with self._lock:
            if self.running >= MAX_RUNNING:
                raise InvalidInput(
                    f"{MAX_RUNNING} simulations are running: wait for one, or cancel it"
                )
            if self.running + running_elsewhere >= MAX_RUNNING_IN_ALL:
                raise InvalidInput("the server is busy with other simulations: try again later")
            if len(self.all) >= MAX_KEPT:
                raise InvalidInput(f"{MAX_KEPT} simulations are kept: remove one first")
            job = Job(self._next, state)
            self._next += 1
            self.all = [*self.all, job]
        return job

    def find(self, number: int) -> Job | None:
        """The job of that number, if it is here."""
        return next((job for job in self.all if job.number == number), None)

    def remove(self, number: int) -> None:
        """Cancel it and forget it."""
        job = self.find(number)
        if job is not None:
            job.cancel()
            with self._lock:
                self.all = [other for other in self.all if other is not job]

    def close(self) -> None:
        """End them all."""
        for job in self.all:
            job.cancel()
