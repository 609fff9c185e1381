"""The open pages, and what there is to see on each; none sees another's work.

A `Session` is one opened page, known by a name that only its server and itself know. What a page
keeps is never dropped to make room for another: only what was left alone for long goes.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import page_figures as drawing
from polyceptron.report.explorer import page_tasks as asking
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.exports import page_html, python_lines
from polyceptron.report.explorer.work_queue import Simulation, WorkQueue
from polyceptron.report.pictures.parts import label_of

MAX_PAGES = 200
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # and before its results are
QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is
Slots = Sequence[Simulation | None]


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
        return [one for one in self.slots if one is not None]

    def remove(self, slot: int) -> None:
        """Forget the simulation in that slot, if it is over."""
        one = self.slots[slot]
        if one is not None and one.complete:
            self.slots[slot] = None


class Sessions:
    """All of them, with the queue of work that they share."""

    def __init__(self, work: WorkQueue | None = None) -> None:
        self.work = work or WorkQueue()
        self._lock = threading.RLock()
        self._all: dict[str, Session] = {}
        self._closed = threading.Event()

        def sweep() -> None:
            while not self._closed.wait(10.0):
                self.tidy(time.monotonic())

        threading.Thread(target=sweep, daemon=True).start()

    def get(self, name: str) -> Session:
        """The session of that page, new if need be; an error message for too many pages."""
        with self._lock:
            if name not in self._all:
                if len(self._all) >= MAX_PAGES:  # those without a sign of life go first
                    self.tidy(time.monotonic(), ABSENT)
                if len(self._all) >= MAX_PAGES:
                    raise InvalidInput(f"{MAX_PAGES} pages are open already: try again later")
                self._all[name] = Session(name)
            self._all[name].last_seen = time.monotonic()
            return self._all[name]

    def start(self, session: Session, settings: form.PageSettings) -> Simulation:
        """A simulation for this page, started now or when there is room; or an error message."""
        form.check_simulation(settings)
        with self._lock:
            if None not in session.slots:
                raise InvalidInput(f"{form.MAX_KEPT} simulations are kept: remove one first")
            session.slots[session.slots.index(None)] = new = Simulation(settings, session.name)
        self.work.add(new)
        return new

    def cancel(self, session: Session, *slots: int) -> None:
        """End the simulations in these slots, in all of them if none is named."""
        for slot in slots or range(form.MAX_KEPT):
            if (one := session.slots[slot]) is not None:
                self.work.cancel(one)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        for session in self._all.values():
            self.cancel(session)
        self.work.close()

    def tidy(self, now: float, forgotten: float = FORGOTTEN) -> None:
        """What pages without a sign of life lose: their work, and much later their results."""
        with self._lock:
            for session in list(self._all.values()):
                if now - session.last_seen > ABSENT:
                    self.cancel(session)
                    self.work.forget(session.name)
                if now - session.last_seen > forgotten:
                    del self._all[session.name]


class PageContent:
    """What there is to see for some settings now, and what is still missing.

    `curves` and `points` are rows by estimator (none while the range of α is `finding`), `found` is
    what else was found, by the kind of task.
    """

    def __init__(
        self, work: WorkQueue, settings: form.PageSettings, slots: Slots = (), finding: bool = False
    ) -> None:
        self.settings = settings
        # As they are now: rows that come while this is drawn are the next look's.
        self.simulations = [copy.copy(one) for one in slots]
        self.answers = [work.answer(task) for task in asking.tasks_of(settings)]
        self.missing = {one.task["kind"] for one in self.answers if not one.complete}
        self.found: dict[str, Any] = {}
        rows: dict[str, dict[str, list[asking.Row]]] = {"curve": {}, "point": {}}
        for one in self.answers:
            if one.task["kind"] not in rows:
                self.found[one.task["kind"]] = one.result
            elif one.result:
                rows[one.task["kind"]][one.task["estimators"]] = one.result
        self.limits = self.found.get("limits") or {}
        self.curves, self.points = (
            {name: some[name] for name in settings.estimators if name in some}
            for some in ({} if finding else rows["curve"], rows["point"])
        )
        self.simulated = [
            drawing.Simulated(one.settings, one.result, slot)
            for slot, one in enumerate(self.simulations)
            if one is not None and one.result
        ]

    @property
    def status(self) -> tuple[str, list[str]]:
        """At work on what, or ready; and what could not be computed, or not to its end, and why."""
        pending: list[str] = []
        errors: list[str] = []
        for one in self.answers:
            name, kind = one.task.get("estimators"), one.task["kind"]
            kind = "transitions and floor" if kind == "limits" else kind
            words = label_of(name) if name else kind
            if not one.complete:
                points = f" {one.done} of {one.task.get('points', 1)}" if one.done else ""
                pending.append(words + points)
            if one.reason:
                errors.append(f"{words}: {one.reason}")
        phase = drawing.phase_words(self.settings, self.limits)
        line = f"Ready. At α = {self.settings.alpha:.4g}: {phase}." if phase else "Ready."
        if pending:
            line = f"Computing: {', '.join(dict.fromkeys(pending))} …"
        elif (end := self.limits.get("alpha_s")) is not None:
            line += f" Labels can be separated up to α_s = {end:.4g}."
        return line, list(dict.fromkeys(errors))

    @property
    def mark(self) -> str:
        """Changes when there is something new to see."""
        known = [f"{asking.key_of(one.task)}{one.done}{one.complete}" for one in self.answers]
        shown = [f"{i}{a.status}{len(a.result)}" for i, a in enumerate(self.simulations) if a]
        return "|".join([form.to_query(self.settings), *known, *shown])

    @property
    def busy(self) -> bool:
        """Whether there is more to come."""
        return bool(self.missing) or any(not one.complete for one in self.simulations if one)

    @property
    def stale(self) -> list[str]:
        """The figures for which there is nothing yet: what stands there is of other settings."""
        curves = ["learning", "order"] if self.missing and not self.curves else []
        last = self.found.get("landscape") or self.points
        return curves + ["landscape"] * bool(self.missing and not last)

    @cached_property
    def figures(self) -> dict[str, drawing.Figure]:
        """The three figures, by the ids of their graphs."""
        settings, curves, simulated = self.settings, self.curves, self.simulated
        phase = drawing.phase_words(settings, self.limits)
        if settings.alike:
            last = drawing.landscape_figure(settings, self.found.get("landscape"), phase)
        else:
            last = drawing.confusion_figure(settings, self.points)
        learning = drawing.learning_figure(settings, curves, self.limits, simulated)
        order = drawing.order_figure(settings, curves, simulated)
        return {"learning": learning, "order": order, "landscape": last}

    @property
    def rows(self) -> list[asking.Row]:
        """Everything as one table."""
        return [*itertools.chain(*self.curves.values(), *(one.rows for one in self.simulated))]

    @property
    def python(self) -> str:
        """A script that draws it."""
        return python_lines(self.settings, [one.state for one in self.simulated], self.figures)

    @property
    def html(self) -> str:
        """A page of its own with the figures."""
        named = zip(self.settings.titles, self.figures.values(), strict=True)
        return page_html(self.settings, dict(named), self.status[0], self.python)


def wanted_content(
    sessions: Sessions, session: Session, settings: form.PageSettings, wait: bool
) -> PageContent:
    """Ask for what the settings need, and give it a moment if `wait`.

    Where the range of α follows what is found, the curves are asked for when that is known.
    """
    work, limits = sessions.work, asking.limits_task(settings)
    slow = [limits] if limits and settings.range_rule == form.FOLLOW else []
    if slow:
        work.request(session.name, asking.tasks_of(settings)[:2])
        work.wait(slow, QUICK_WAIT if wait else 0.0)
    finding = not all(work.answer(task).complete for task in slow)
    if settings.range_rule == form.FOLLOW:
        known = (work.answer(limits).result or {}) if limits else {}
        low, high = asking.followed_range(settings, known)
        settings = settings.changed(range_rule="set", low=low, high=high)
    if not finding:
        tasks = asking.tasks_of(settings)
        work.request(session.name, tasks)
        if wait:
            work.wait([task for task in tasks if not asking.is_slow(task)], QUICK_WAIT)
            work.wait(tasks, SLOW_WAIT)
    return PageContent(work, settings, session.slots, finding)
