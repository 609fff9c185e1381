"""Visitors, their pages, and what there is to see on each; nobody sees another's work.

A browser is a visitor, and each page that it opens a `Session`. What one visitor keeps is never
dropped to make room for another: only its own oldest pages go, and what was left alone for half a
day. `PageContent` is what is known for some settings now, drawn, and what is still missing;
`wanted_content` asks for what is missing.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha1
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import page_figures as drawing
from polyceptron.report.explorer import page_tasks as asking
from polyceptron.report.explorer.page_figures import python_lines
from polyceptron.report.explorer.settings import MAX_KEPT, PageSettings, check_simulation, to_query
from polyceptron.report.explorer.work_queue import Simulation, WorkQueue
from polyceptron.report.pictures.parts import label_of

MAX_PAGES = 16  # of one visitor
MAX_VISITORS = 64
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # and before its results are
Slots = Sequence[Simulation | None]
QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is


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
            new = Simulation(settings, self.name)
            self.slots[self.slots.index(None)] = new
        return new

    def remove(self, slot: int) -> None:
        """Forget the simulation in that slot, if it is over."""
        with self._lock:
            one = self.slots[slot]
            if one is not None and one.complete:
                self.slots[slot] = None


class Sessions:
    """All of them, with the queue of work that they share."""

    def __init__(self, work: WorkQueue | None = None) -> None:
        self.work = work or WorkQueue()
        self._lock = threading.Lock()
        self._all: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._closed = threading.Event()
        self._previews: dict[tuple[tuple[str, int], ...], str] = {}

        def sweep() -> None:
            while not self._closed.wait(10.0):
                self.tidy(time.monotonic())

        threading.Thread(target=sweep, daemon=True).start()

    def __len__(self) -> int:
        return len(self._all)

    def preview(self, curves: drawing.Curves) -> str:
        """The picture of the page's first curves, drawn once for each state of completion."""
        key = tuple((name, len(rows)) for name, rows in curves.items())
        with self._lock:
            if key not in self._previews:
                self._previews[key] = drawing.preview(curves)
            return self._previews[key]

    def get(self, visitor: str, page: str) -> Session:
        """The session of that page, new if need be; an error message for too many visitors."""
        with self._lock:
            session = self._all.get((visitor, page))
            if session is None:
                own = [one for one in self._all.values() if one.visitor == visitor]
                for old in own[: max(0, len(own) + 1 - MAX_PAGES)]:
                    self._stop(old, forget=True)
                if len({one.visitor for one in self._all.values()} - {visitor}) >= MAX_VISITORS:
                    raise InvalidInput(f"{MAX_VISITORS} visitors are here already: try again later")
                session = self._all[visitor, page] = Session(visitor, page)
            self._all.move_to_end((visitor, page))
            session.last_seen = time.monotonic()
        return session

    def start(self, session: Session, settings: PageSettings) -> Simulation:
        """A simulation for this page, started now or when there is room; or an error message."""
        new = session.keep(settings)
        self.work.add(new)
        return new

    def cancel(self, session: Session, *slots: int) -> None:
        """End the simulations in these slots, in all of them if none is named."""
        for slot in slots or range(MAX_KEPT):
            one = session.slots[slot]
            if one is not None:
                self.work.cancel(one)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        with self._lock:
            for session in self._all.values():
                self.cancel(session)
        self.work.close()

    def _stop(self, session: Session, *, forget: bool) -> None:
        """End the work of a page, and `forget` its results too."""
        self.cancel(session)
        self.work.forget(session.name)
        if forget:
            del self._all[session.visitor, session.page]

    def tidy(self, now: float) -> None:
        """What pages without a sign of life lose: their work, and much later their results."""
        with self._lock:
            for session in list(self._all.values()):
                if now - session.last_seen > ABSENT:
                    self._stop(session, forget=now - session.last_seen > FORGOTTEN)


class PageContent:
    """What there is to see for some settings now, and what is still missing.

    `curves` are rows by estimator, `found` is what else was found, by the kind of task.
    """

    def __init__(
        self, work: WorkQueue, settings: PageSettings, tasks: list[asking.Task], slots: Slots = ()
    ) -> None:
        self.settings = settings
        # As they are now: rows that come while this is drawn are the next look's.
        self.simulations = [None if one is None else one.snapshot() for one in slots]
        self.answers = [work.answer(task) for task in tasks]
        self.missing = {one.task["kind"] for one in self.answers if not one.complete}
        self.found: dict[str, Any] = {}
        rows: dict[str, list[asking.Row]] = {}
        for one in self.answers:
            if one.task["kind"] != "curve":
                self.found[one.task["kind"]] = one.result
            elif one.result is not None:
                rows.setdefault(one.task["estimators"], []).extend(one.result)
        self.curves = {name: rows[name] for name in settings.estimators if name in rows}
        self.simulated = [
            drawing.Simulated(one.settings, one.result, slot)
            for slot, one in enumerate(self.simulations)
            if one is not None and one.result
        ]
        # Whether the range of α waits for what it follows.
        followed = self.missing.intersection(asking.FOLLOWED)
        self.finding_range = settings.range_rule == "follow" and bool(followed)

    @cached_property
    def moved(self) -> PageSettings | None:
        """The settings with the range of α that the page should show instead, if another."""
        settings = self.settings
        if settings.range_rule != "follow" or self.finding_range:
            return None
        needed = ["transitions"] * settings.finite_prior + ["limits"] * settings.noisy
        if any(self.found.get(kind) is None for kind in needed):
            return None  # it could not be computed: leave the range
        known = (self.found.get(kind) or {} for kind in asking.FOLLOWED)
        low, high = asking.followed_range(settings, *known)
        if (low, high) == (settings.low, settings.high):
            return None
        return settings.changed(low=low, high=high)

    @property
    def status(self) -> tuple[str, list[str]]:
        """At work on what, with the number of points that are there, or ready.

        And what could not be computed, or not to its end, and why.
        """
        points: dict[str, list[int]] = {}
        errors: list[str] = []
        for one in self.answers:
            name, kind = one.task.get("estimators"), one.task["kind"]
            words: str = "floor and separability" if kind == "limits" else kind
            words = label_of(name) if name else words
            so_far = points.setdefault(words, [0, 0, 0])
            for i, more in enumerate((one.done, one.task.get("points", 1), not one.complete)):
                so_far[i] += more
            if one.reason:
                errors.append(f"{words}: {one.reason}")
        phase = drawing.phase_words(self.settings, self.found.get("transitions"))
        line = f"Ready. At α = {self.settings.alpha:.4g}: {phase}." if phase else "Ready."
        if self.missing or self.moved:
            pending = [
                words + (f" {done} of {total}" if done else "")
                for words, (done, total, missing) in points.items()
                if missing
            ]
            line = f"Computing: {', '.join(pending) or 'curves'} …"
        elif limits := self.found.get("limits"):
            line += f" Labels can be separated up to α_s = {limits['alpha_s']:.4g}."
        return line, list(dict.fromkeys(errors))

    @property
    def mark(self) -> str:
        """Changes when there is something new to see."""
        known = [f"{asking.key_of(one.task)}{one.done}{one.complete}" for one in self.answers]
        kept = ((i, one) for i, one in enumerate(self.simulations) if one is not None)
        shown = [f"{i}{one.status}{len(one.result)}" for i, one in kept]
        return "|".join([to_query(self.settings), *known, *shown])

    @property
    def busy(self) -> bool:
        """Whether there is more to come."""
        simulating = any(not one.complete for one in self.simulations if one)
        return bool(self.missing or self.moved or simulating)

    @property
    def stale(self) -> list[str]:
        """The figures for which there is nothing yet: what stands there is of other settings."""
        coming = bool(self.missing or self.moved)
        curves = ["learning", "order"] if coming and not self.curves else []
        return curves + ["landscape"] * bool(self.missing and not self.found.get("landscape"))

    @cached_property
    def figures(self) -> dict[str, drawing.Figure]:
        """The three figures, by the ids of their graphs."""
        settings, curves, simulated = self.settings, self.curves, self.simulated
        transitions, limits, landscape = map(self.found.get, (*asking.FOLLOWED, "landscape"))
        phase = drawing.phase_words(settings, transitions)
        return {
            "learning": drawing.learning_figure(settings, curves, transitions, simulated, limits),
            "order": drawing.order_figure(settings, curves, simulated),
            "landscape": drawing.landscape_figure(settings, landscape, phase),
        }

    @property
    def rows(self) -> list[asking.Row]:
        """Everything as one table."""
        simulated = (one.rows for one in self.simulated)
        return [*itertools.chain(*self.curves.values(), *simulated)]

    @property
    def python(self) -> str:
        """A script that draws it."""
        return python_lines(self.settings, [one.state for one in self.simulated])

    def drawn(self, stamp: int, before: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What the page keeps of it: a short string for each figure, so that none is drawn twice.

        A stale one stays as it was `before`.
        """
        texts = {n: json.dumps(one, sort_keys=True).encode() for n, one in self.figures.items()}
        marks: dict[str, str | None]
        marks = {n: sha1(text, usedforsecurity=False).hexdigest() for n, text in texts.items()}
        marks |= {name: (before or {}).get(name) for name in self.stale}
        return {"mark": self.mark, "stamp": stamp, "stale": self.stale, "figures": marks}


def wanted_content(
    sessions: Sessions, session: Session, settings: PageSettings, wait: bool
) -> PageContent:
    """Ask for what the settings need, and give it a moment if `wait`.

    Where the range of α follows what is found, the curves are asked for when that is known.
    """

    def content(tasks: list[asking.Task]) -> PageContent:
        return PageContent(sessions.work, settings, tasks, session.slots)

    def ask(tasks: list[asking.Task]) -> PageContent:
        sessions.work.request(session.name, tasks)
        if wait:
            soon = [t for t in tasks if not asking.is_slow(t) or t["kind"] in asking.FOLLOWED]
            sessions.work.wait(soon, QUICK_WAIT)
            sessions.work.wait(tasks, SLOW_WAIT)
        return content(tasks)

    tasks = asking.first_tasks(settings)
    found = content(tasks)
    if found.finding_range:
        found = ask(tasks)
    if found.moved is not None:  # the page asks for it in a moment: begin now
        sessions.work.request(session.name, asking.tasks_of(found.moved))
    elif not found.finding_range:
        found = ask(asking.tasks_of(settings))
    return found
