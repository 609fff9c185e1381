"""Visitors: one session for each opened page, so that two people never see each other's work.

A browser is a visitor. What one visitor keeps is never dropped to make room for another: only its
own oldest pages go, and what was left alone for half a day.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.page_figures import preview
from polyceptron.report.explorer.settings import PageSettings
from polyceptron.report.explorer.simulations import RunningNow, Simulation, Simulations
from polyceptron.report.explorer.theory_queue import TheoryQueue

MAX_PAGES = 16  # of one visitor
MAX_VISITORS = 64
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # and before its results are


class Session:
    """One opened page."""

    def __init__(self, visitor: str, page: str) -> None:
        self.visitor, self.page = visitor, page
        self.simulations = Simulations()
        self.link_is_read = False  # the simulations of a link are started once
        self.stamp = 0  # of the newest settings that were asked for
        self.next_stamp = itertools.count(1).__next__
        self.last_seen = time.monotonic()

    @property
    def name(self) -> str:
        """A key for this page among all."""
        return f"{self.visitor}-{self.page}"


class Sessions:
    """All of them, with the theory that they share."""

    def __init__(self, theory: TheoryQueue | None = None) -> None:
        self.theory = theory or TheoryQueue()
        self.running_now = RunningNow()
        self._lock = threading.Lock()
        self._all: OrderedDict[tuple[str, str], Session] = OrderedDict()
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
        """The session of that page, new if need be; a sentence if there are too many visitors."""
        with self._lock:
            session = self._all.get((visitor, page))
            if session is None:
                self._make_room(visitor)
                session = self._all[visitor, page] = Session(visitor, page)
            self._all.move_to_end((visitor, page))
            session.last_seen = time.monotonic()
        return session

    def start(self, session: Session, settings: PageSettings) -> Simulation:
        """Start a simulation for this page, now or when there is room; or a sentence."""
        return self.running_now.add(session.simulations, settings)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        with self._lock:
            for session in self._all.values():
                session.simulations.close()
        self.theory.close()

    def _make_room(self, visitor: str) -> None:
        own = [one for one in self._all.values() if one.visitor == visitor]
        for old in own[: max(0, len(own) + 1 - MAX_PAGES)]:
            self._drop(old)
        others = {one.visitor for one in self._all.values()} - {visitor}
        if len(others) >= MAX_VISITORS:
            raise InvalidInput(f"{MAX_VISITORS} visitors are here already: try again later")

    def _drop(self, session: Session) -> None:
        session.simulations.close()
        self.theory.forget(session.name)
        del self._all[session.visitor, session.page]

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
                    session.simulations.close()
                    self.theory.forget(session.name)
