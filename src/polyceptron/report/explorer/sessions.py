"""Visitors: one session for each opened page, so that two people never see each other's work."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.jobs import Job, Jobs
from polyceptron.report.explorer.preview import preview
from polyceptron.report.explorer.state import State
from polyceptron.report.explorer.theory_queue import TheoryQueue

MAX_SESSIONS = 64
ABSENT = 150.0  # seconds without a sign of a page that has work running, before it is stopped


class Session:
    """One opened page."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs = Jobs()
        self.stamp = 0  # of the newest state that was asked for
        self.last_seen = time.monotonic()


class Sessions:
    """All of them, with the theory that they share."""

    def __init__(self, theory: TheoryQueue | None = None) -> None:
        self.theory = theory or TheoryQueue()
        self._lock = threading.Lock()
        self._all: OrderedDict[str, Session] = OrderedDict()
        self._closed = threading.Event()
        self._previews: dict[tuple[tuple[str, int], ...], str] = {}
        threading.Thread(target=self._sweep, daemon=True).start()

    def preview(self, curves: Mapping[str, list[dict[str, Any]]]) -> str:
        """The picture of the page's first curves, drawn once for each state of completion."""
        key = tuple((name, len(rows)) for name, rows in curves.items())
        with self._lock:
            if key not in self._previews:
                self._previews[key] = preview(curves)
            return self._previews[key]

    @staticmethod
    def new_name() -> str:
        """A name that cannot be guessed."""
        return uuid.uuid4().hex

    def get(self, name: object) -> Session:
        """The session of that name, new if need be; a sentence if it is no name of ours."""
        if not isinstance(name, str) or not re.fullmatch(r"[0-9a-f]{32}", name):
            raise InvalidInput("this page has lost its session: reload it")
        with self._lock:
            session = self._all.setdefault(name, Session(name))
            self._all.move_to_end(name)
            session.last_seen = time.monotonic()
            surplus = [
                one for one in self._all.values() if one is not session and not one.jobs.running
            ]
            for old in surplus[: max(0, len(self._all) - MAX_SESSIONS)]:
                self._drop(old)
        return session

    def start(self, session: Session, state: State) -> Job:
        """Start a simulation for this visitor, within everybody's bounds."""
        with self._lock:
            others = sum(one.jobs.running for one in self._all.values() if one is not session)
        return session.jobs.start(state, others)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        with self._lock:
            for session in self._all.values():
                session.jobs.close()
        self.theory.close()

    def _drop(self, session: Session) -> None:
        session.jobs.close()
        self.theory.forget(session.name)
        del self._all[session.name]

    def _sweep(self) -> None:
        """Stop the work of pages that were closed."""
        while not self._closed.wait(10.0):
            with self._lock:
                for session in list(self._all.values()):
                    if time.monotonic() - session.last_seen > ABSENT:
                        session.jobs.close()
                        self.theory.forget(session.name)
