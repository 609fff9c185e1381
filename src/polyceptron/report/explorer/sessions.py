"""Who is there: one session for each opened page, with its simulations.

A session is known by a name that only its page and the server know. What a page keeps is never
dropped while it is at work. What was left alone for long goes, and where too many pages are open,
the one that was left alone for longest gives way to a new one.
"""

from __future__ import annotations

import itertools
import threading
import time

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.work_queue import Simulation, WorkQueue

MAX_PAGES = 200
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # seconds without a sign of a page before its results are dropped
SECONDS_BETWEEN_SWEEPS = 10.0  # through the sessions, for those left alone


class Session:
    """One opened page, with its simulations, each in a slot that is its own until it is removed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.slots: list[Simulation | None] = [None] * form.MAX_KEPT
        self.link_is_read = False  # the simulations of a link are started once
        self.stamp = 0  # of the newest settings that were asked for
        self.next_stamp = itertools.count(1).__next__
        self.last_seen = time.monotonic()

    @property
    def simulations(self) -> list[Simulation]:
        """Those that are kept, going on or over."""
        return [kept for kept in self.slots if kept is not None]

    @property
    def idle(self) -> bool:
        """Return whether none of its simulations is going on."""
        return all(simulation.complete for simulation in self.simulations)

    def remove(self, slot: int) -> None:
        """Forget the simulation in that slot, if it is over."""
        kept = self.slots[slot]
        if kept is not None and kept.complete:
            self.slots[slot] = None


class Sessions:
    """All sessions, with the queue of work that they share."""

    def __init__(self, work: WorkQueue | None = None) -> None:
        self.work = work or WorkQueue()
        self._lock = threading.RLock()
        self._all: dict[str, Session] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._sweep, daemon=True).start()

    def get(self, name: str) -> Session:
        """Return the session of that page, a new one if need be."""
        with self._lock:
            if name not in self._all:
                if len(self._all) >= MAX_PAGES:
                    self._make_room()
                self._all[name] = Session(name)
            session = self._all[name]
            session.last_seen = time.monotonic()
            return session

    def _make_room(self) -> None:
        """Drop the pages without a sign of life, else the idle one that was seen longest ago."""
        self.tidy(time.monotonic(), ABSENT)
        if len(self._all) < MAX_PAGES:
            return
        idle = [session for session in self._all.values() if session.idle]
        if not idle:
            raise InvalidInput(
                f"{MAX_PAGES} pages with running simulations are open: try again later"
            )
        oldest = min(idle, key=lambda session: (len(session.simulations) > 0, session.last_seen))
        self.work.forget(oldest.name)
        del self._all[oldest.name]

    def start(self, session: Session, settings: form.PageSettings) -> Simulation:
        """Start a simulation for this page, now or when there is room."""
        form.check_simulation(settings)
        with self._lock:
            if None not in session.slots:
                raise InvalidInput(f"{form.MAX_KEPT} simulations are kept: remove one first")
            new = Simulation(settings, session.name)
            session.slots[session.slots.index(None)] = new
        self.work.add(new)
        return new

    def cancel(self, session: Session, *slots: int) -> None:
        """End the simulations in these slots, in all of them if none is named."""
        for slot in slots or range(form.MAX_KEPT):
            kept = session.slots[slot]
            if kept is not None:
                self.work.cancel(kept)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        for session in self._all.values():
            self.cancel(session)
        self.work.close()

    def tidy(self, now: float, forgotten: float = FORGOTTEN) -> None:
        """Take from pages without a sign of life their work, and much later their results."""
        with self._lock:
            for session in list(self._all.values()):
                unseen = now - session.last_seen
                if unseen > ABSENT:
                    self.cancel(session)
                    self.work.forget(session.name)
                if unseen > forgotten:
                    del self._all[session.name]

    def _sweep(self) -> None:
        """Tidy up now and then until the server closes."""
        while not self._closed.wait(SECONDS_BETWEEN_SWEEPS):
            self.tidy(time.monotonic())
