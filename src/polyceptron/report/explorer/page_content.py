"""What there is to see for some settings: drawn where it is ready, and what is still missing."""

from __future__ import annotations

import json
from hashlib import sha1
from typing import Any

from dash import html

from polyceptron.report.explorer.page_figures import (
    Figure,
    Simulated,
    landscape_figure,
    learning_figure,
    order_figure,
    phase_words,
    without,
)
from polyceptron.report.explorer.page_tasks import (
    CHUNK,
    FOLLOWED,
    Task,
    first_tasks,
    followed_range,
    is_slow,
    key_of,
    tasks_of,
)
from polyceptron.report.explorer.sessions import Session, Sessions, Simulation
from polyceptron.report.explorer.settings import PageSettings, to_query
from polyceptron.report.explorer.workers import TheoryQueue
from polyceptron.report.pictures.style import label_of

QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is


class PageContent:
    """What is known for the settings now, and what is still missing.

    `curves` are rows by estimator, `found` is what else was found, by the kind of task.
    """

    def __init__(self, theory: TheoryQueue, settings: PageSettings, tasks: list[Task]) -> None:
        self.settings = settings
        self.simulations: list[Simulation | None] = []
        self.found: dict[str, Any] = {}
        self.answers = [(task, theory.answer(key_of(task))) for task in tasks]
        self.missing = {task["kind"] for task, answer in self.answers if not answer.complete}
        rows: dict[str, list[dict[str, Any]]] = {}
        for task, answer in self.answers:
            if task["kind"] != "curve":
                self.found[task["kind"]] = answer.result
            elif answer.result is not None:
                rows.setdefault(task["estimators"], []).extend(answer.result)
        self.curves = {name: rows[name] for name in settings.estimators if name in rows}

    @property
    def pending(self) -> list[str]:
        """What is being computed, with the number of points that are there."""
        points: dict[str, tuple[int, int, bool]] = {}
        for task, answer in self.answers:
            done, total, missing = points.get(_words(task), (0, 0, False))
            total += task.get("points", 1)
            points[_words(task)] = done + answer.done, total, missing or not answer.complete
        return [
            words + (f" {done} of {total}" if done else "")
            for words, (done, total, missing) in points.items()
            if missing
        ]

    @property
    def errors(self) -> list[str]:
        """What could not be computed, or not to its end, and why."""
        failed = [f"{_words(task)}: {one.error}" for task, one in self.answers if one.error]
        return list(dict.fromkeys(failed))

    @property
    def mark(self) -> str:
        """Changes when there is something new to see."""
        known = [f"{key_of(task)}{one.done}{one.complete}" for task, one in self.answers]
        shown = [
            f"{slot}{one.status}{len(one.rows)}"
            for slot, one in enumerate(self.simulations)
            if one is not None
        ]
        return "|".join([to_query(self.settings), *known, *shown])

    @property
    def busy(self) -> bool:
        """Whether there is more to come."""
        simulating = any(one.going_on for one in self.simulations if one)
        return bool(self.missing or self.moved or simulating)

    @property
    def slow(self) -> bool:
        """Whether there is far to go, so that fewer and larger steps are better.

        Each costs the browser a tenth of a second, on the cores that compute.
        """
        return not (self.finding_range or self.moved) and any(
            is_slow(task) and not one.complete and task.get("points", 1) - one.done > CHUNK
            for task, one in self.answers
        )

    @property
    def stale(self) -> list[str]:
        """The figures for which there is nothing yet: what stands there is of other settings."""
        coming = bool(self.missing or self.moved)
        curves = ["learning", "order"] if coming and not self.curves else []
        return curves + ["landscape"] * bool(self.missing and not self.found.get("landscape"))

    @property
    def finding_range(self) -> bool:
        """Whether the range of α waits for what it follows."""
        return self.settings.range_rule == "follow" and bool(self.missing & {*FOLLOWED})

    @property
    def moved(self) -> PageSettings | None:
        """The settings with the range of α that the page should show instead, if another."""
        settings = self.settings
        if settings.range_rule != "follow" or self.finding_range:
            return None
        needed = ["transitions"] * settings.finite_prior + ["limits"] * settings.noisy
        if any(self.found.get(kind) is None for kind in needed):
            return None  # it could not be computed: leave the range
        known = (self.found.get(kind) or {} for kind in FOLLOWED)
        low, high = followed_range(settings, *known)
        if (low, high) == (settings.low, settings.high):
            return None
        return settings.changed(low=low, high=high)

    @property
    def simulated(self) -> list[Simulated]:
        """The simulations that have something to draw."""
        return [
            Simulated(one.settings, one.rows, slot)
            for slot, one in enumerate(self.simulations)
            if one is not None and one.rows
        ]

    @property
    def figures(self) -> dict[str, Figure]:
        """The three figures, by the ids of their graphs."""
        settings, found = self.settings, self.found
        transitions, limits = found.get("transitions"), found.get("limits")
        curves, simulated = self.curves, self.simulated
        return {
            "learning": learning_figure(settings, curves, transitions, simulated, limits),
            "order": order_figure(settings, curves, simulated),
            "landscape": landscape_figure(
                settings, found.get("landscape"), phase_words(settings, transitions)
            ),
        }

    @property
    def note(self) -> str:
        """What the figure of the quantity shown cannot have."""
        return without(self.settings, self.curves, self.simulated)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Everything as one table."""
        theory = [row for rows in self.curves.values() for row in rows]
        return theory + [row for one in self.simulations if one for row in one.rows]

    @property
    def status(self) -> Any:
        """One line: at work on what, or ready."""
        if self.missing or self.moved:
            words = f"Computing: {', '.join(self.pending) or 'curves'} …"
            return [html.Span(className="spinner"), words]
        phase = phase_words(self.settings, self.found.get("transitions"))
        words = f"Ready. At α = {self.settings.alpha:.4g}: {phase}." if phase else "Ready."
        if limits := self.found.get("limits"):
            words += f" Labels can be separated up to α_s = {limits['alpha_s']:.4g}."
        return words


def _words(task: Task) -> str:
    name = task.get("estimators")
    kind: str = task["kind"]
    return label_of(name) if name else "floor and separability" if kind == "limits" else kind


def mark_of(figure: Figure) -> str:
    """A short string that changes with the figure, so that none is drawn twice."""
    return sha1(json.dumps(figure, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def kept_content(sessions: Sessions, settings: PageSettings) -> PageContent:
    """What is known already; nothing is started for it."""
    return PageContent(sessions.theory, settings, tasks_of(settings))


def wanted_content(
    sessions: Sessions, session: Session, settings: PageSettings, wait: bool
) -> PageContent:
    """Ask for what the settings need, and give it a moment if `wait`.

    Where the range of α follows what is found, the curves are asked for when that is known.
    """
    theory, tasks = sessions.theory, first_tasks(settings)
    content = PageContent(theory, settings, tasks)
    if content.finding_range:
        _ask(theory, session, tasks, wait)
        content = PageContent(theory, settings, tasks)
    if content.moved is not None:  # the page asks for it in a moment: begin now
        theory.request(session.name, tasks_of(content.moved))
    elif not content.finding_range:
        tasks = tasks_of(settings)
        _ask(theory, session, tasks, wait)
        content = PageContent(theory, settings, tasks)
    content.simulations = list(session.slots)
    return content


def _ask(theory: TheoryQueue, session: Session, tasks: list[Task], wait: bool) -> None:
    keys = theory.request(session.name, tasks)
    if wait:
        soon = [task for task in tasks if not is_slow(task) or task["kind"] in FOLLOWED]
        theory.wait(map(key_of, soon), QUICK_WAIT)
        theory.wait(keys, SLOW_WAIT)
