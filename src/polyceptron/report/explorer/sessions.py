"""Visitors, their pages, and the simulations that they run; two people never see each other's work.

A browser is a visitor, and each page that it opens a `Session`. What one visitor keeps is never
dropped to make room for another: only its own oldest pages go, and what was left alone for half a
day. A `Simulation` has a process of its own, with progress, a time limit, and a cancel that ends
it; it waits for its turn, first come first served, within a page's and everybody's bounds.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.page_figures import preview
from polyceptron.report.explorer.settings import MAX_KEPT, PageSettings, check_simulation
from polyceptron.report.explorer.workers import TheoryQueue, WorkerProcess

SIMULATION_SECONDS = 300.0
MAX_RUNNING = 2  # simulations of one page
MAX_RUNNING_IN_ALL = 4
MAX_PAGES = 16  # of one visitor
MAX_VISITORS = 64
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # and before its results are


class Simulation:
    """A simulation that runs in a process of its own once it is started."""

    def __init__(self, settings: PageSettings, time_limit: float = SIMULATION_SECONDS) -> None:
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

    def start(self, at_end: Callable[[], object] = bool) -> None:
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

    def _follow(self, worker: WorkerProcess, at_end: Callable[[], object]) -> None:
        task = {"kind": "simulation", **self.settings.as_dict()}
        cure = "choose fewer runs or a smaller dimension"
        try:
            for message in worker.work(task, self.time_limit, cure, lambda _: self.running):
                if "row" in message:
                    with self._lock:
                        if self.running:
                            self.rows = [*self.rows, message["row"]]
                else:
                    error = message.get("error", "")
                    self._end("failed" if error else "finished", error)
        finally:
            worker.kill()
            at_end()

    def _end(self, status: str, reason: str = "") -> None:
        with self._lock:
            if self.going_on:
                self.status, self.reason = status, reason


class Session:
    """One opened page, with its simulations, each in a slot that is its own until it is removed.

    A slot has its buttons on the page from the start, so that a press never meets one that has
    just been drawn anew, or another simulation's.
    """

    def __init__(self, visitor: str, page: str) -> None:
        self.visitor, self.page = visitor, page
        self.name = f"{visitor}-{page}"  # a key for this page among all
        self.slots: list[Simulation | None] = [None] * MAX_KEPT
        self.link_is_read = False  # the simulations of a link are started once
        self.stamp = 0  # of the newest settings that were asked for
        self.next_stamp = itertools.count(1).__next__
        self.last_seen = time.monotonic()
        self._lock = threading.Lock()

    @property
    def simulations(self) -> list[Simulation]:
        """Those that are kept, going on or over."""
        return [one for one in self.slots if one is not None]

    def keep(self, settings: PageSettings) -> Simulation:
        """A new simulation, waiting, if its bounds and the slots allow it; or an error message."""
        check_simulation(settings)
        with self._lock:
            if None not in self.slots:
                raise InvalidInput(f"{MAX_KEPT} simulations are kept: remove one first")
            new = Simulation(settings)
            self.slots[self.slots.index(None)] = new
        return new

    def cancel(self, slot: int) -> None:
        """End the simulation in that slot, if any."""
        one = self.slots[slot]
        if one is not None:
            one.cancel()

    def remove(self, slot: int) -> None:
        """Forget the simulation in that slot, if it is over."""
        with self._lock:
            one = self.slots[slot]
            if one is not None and not one.going_on:
                self.slots[slot] = None

    def stop(self) -> None:
        """End them all."""
        for one in self.simulations:
            one.cancel()


class Sessions:
    """All of them, with the theory that they share, and whose turn it is to simulate."""

    def __init__(self, theory: TheoryQueue | None = None) -> None:
        self.theory = theory or TheoryQueue()
        self._lock = threading.Lock()
        self._all: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._turns: list[tuple[Session, Simulation]] = []
        self._closed = threading.Event()
        self._previews: dict[tuple[tuple[str, int], ...], str] = {}
        threading.Thread(target=self._sweep, daemon=True).start()

    def __len__(self) -> int:
        return len(self._all)

    def preview(self, curves: Mapping[str, list[dict[str, Any]]]) -> str:
        """The picture of the page's first curves, drawn once for each state of completion."""
        key = tuple((name, len(rows)) for name, rows in curves.items())
        with self._lock:
            if key not in self._previews:
                self._previews[key] = preview(curves)
            return self._previews[key]

    def get(self, visitor: str, page: str) -> Session:
        """The session of that page, new if need be; an error message for too many visitors."""
        with self._lock:
            session = self._all.get((visitor, page))
            if session is None:
                self._make_room(visitor)
                session = self._all[visitor, page] = Session(visitor, page)
            self._all.move_to_end((visitor, page))
            session.last_seen = time.monotonic()
        return session

    def start(self, session: Session, settings: PageSettings) -> Simulation:
        """A simulation for this page, started now or when there is room; or an error message."""
        new = session.keep(settings)
        with self._lock:
            self._turns.append((session, new))
        self._advance()
        return new

    def _advance(self) -> None:
        """Start the simulations that can start."""
        with self._lock:
            self._turns = [turn for turn in self._turns if turn[1].going_on]
            for owner, one in self._turns:
                if sum(other.running for _, other in self._turns) >= MAX_RUNNING_IN_ALL:
                    break
                if sum(other.running for other in owner.simulations) < MAX_RUNNING:
                    one.start(self._advance)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        with self._lock:
            for session in self._all.values():
                session.stop()
        self.theory.close()

    def _make_room(self, visitor: str) -> None:
        own = [one for one in self._all.values() if one.visitor == visitor]
        for old in own[: max(0, len(own) + 1 - MAX_PAGES)]:
            self._drop(old)
        others = {one.visitor for one in self._all.values()} - {visitor}
        if len(others) >= MAX_VISITORS:
            raise InvalidInput(f"{MAX_VISITORS} visitors are here already: try again later")

    def _drop(self, session: Session) -> None:
        self._rest(session)
        del self._all[session.visitor, session.page]

    def _rest(self, session: Session) -> None:
        session.stop()
        self.theory.forget(session.name)

    def _sweep(self) -> None:
        """Stop the work of pages that were closed."""
        while not self._closed.wait(10.0):
            self.tidy(time.monotonic())

    def tidy(self, now: float) -> None:
        """What pages without a sign of life lose: their work, and much later their results."""
        with self._lock:
            for session in list(self._all.values()):
                if now - session.last_seen > FORGOTTEN:
                    self._drop(session)
                elif now - session.last_seen > ABSENT:
                    self._rest(session)
