"""What there is to see for some settings: drawn where it is ready, and what is still missing."""

from __future__ import annotations

import json
from hashlib import sha1
from typing import Any

from dash import html

from polyceptron.report.explorer.curve_tasks import (
    CHUNK,
    FOLLOWED,
    Task,
    first_tasks,
    followed_range,
    is_slow,
    key_of,
    tasks_of,
    with_fold,
)
from polyceptron.report.explorer.page_figures import (
    Figure,
    landscape_figure,
    learning_figure,
    order_figure,
    phase_words,
)
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.settings import BAYES, PageSettings, make_settings
from polyceptron.report.explorer.settings_sync import to_query
from polyceptron.report.explorer.simulations import Simulation
from polyceptron.report.explorer.theory_queue import TheoryQueue
from polyceptron.report.explorer.traces import Simulated, without
from polyceptron.report.pictures.style import LABELS

KINDS = {"limits": "floor and separability"}
QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is


class PageContent:
    """What is known for the settings now, and what is still missing."""

    def __init__(self, theory: TheoryQueue, settings: PageSettings, tasks: list[Task]) -> None:
        self.settings = settings
        self.simulations: list[Simulation | None] = []
        self.curves: dict[str, list[dict[str, Any]]] = {}
        self.transitions: dict[str, Any] | None = None
        self.limits: dict[str, Any] | None = None
        self.landscape: dict[str, Any] | None = None
        self.fold: list[dict[str, Any]] = []
        self.pending: list[str] = []
        self.errors: list[str] = []
        self._missing: set[str] = set()
        self._long = False
        marks: list[str] = []
        points: dict[str, tuple[int, int, bool]] = {}
        for task in tasks:
            key, kind = key_of(task), task["kind"]
            answer, name = theory.answer(key), task.get("estimators", "")
            words = str(LABELS.get(name, name) if name else KINDS.get(kind, kind))
            marks.append(f"{key}{answer.done}{answer.complete}")
            done, total, missing = points.get(words, (0, 0, False))
            points[words] = (
                done + answer.done, total + task.get("points", 1), missing or not answer.complete
            )  # fmt: skip
            if not answer.complete:
                self._missing.add(kind)
                left = task.get("points", 1) - answer.done
                self._long |= is_slow(task) and left > CHUNK
            if answer.error and f"{words}: {answer.error}" not in self.errors:
                self.errors.append(f"{words}: {answer.error}")
            if answer.result is None:
                continue
            if kind == "curve":
                self.curves[name] = [*self.curves.get(name, []), *answer.result]
            else:
                setattr(self, kind, answer.result)
        self.pending = [
            words + (f" {done} of {total}" if done else "")
            for words, (done, total, missing) in points.items()
            if missing
        ]
        self._marks = [to_query(settings), *marks]
        self.curves = {n: self.curves[n] for n in settings.estimators if n in self.curves}
        if BAYES in self.curves:
            self.curves[BAYES] = with_fold(self.curves[BAYES], self.fold)

    @property
    def mark(self) -> str:
        """Changes when there is something new to see."""
        shown = [
            f"{slot}{one.status}{len(one.rows)}"
            for slot, one in enumerate(self.simulations)
            if one is not None
        ]
        return "|".join([*self._marks, *shown])

    @property
    def busy(self) -> bool:
        """Whether there is more to come."""
        return bool(self.pending or self.moved) or any(
            one.going_on for one in self.simulations if one
        )

    @property
    def slow(self) -> bool:
        """Whether there is far to go, so that fewer and larger steps are better.

        Each costs the browser a tenth of a second, on the cores that compute.
        """
        return self._long and not (self.finding_range or self.moved)

    @property
    def stale(self) -> list[str]:
        """The figures for which there is nothing yet: what stands there is of other settings."""
        missing = [] if self.curves or not (self.pending or self.moved) else ["learning", "order"]
        return missing + (["landscape"] if self.pending and self.landscape is None else [])

    @property
    def finding_range(self) -> bool:
        """Whether the range of α waits for what it follows."""
        return self.settings.range_rule == "follow" and bool(self._missing & {*FOLLOWED})

    @property
    def moved(self) -> PageSettings | None:
        """The settings with the range of α that the page should show instead, if another."""
        settings = self.settings
        if settings.range_rule != "follow" or self.finding_range:
            return None
        if (settings.finite_prior and self.transitions is None) or (
            settings.noisy and self.limits is None
        ):
            return None  # it could not be computed: leave the range
        low, high = followed_range(settings, self.transitions or {}, self.limits or {})
        if (low, high) == (settings.low, settings.high):
            return None
        return make_settings({**settings.as_dict(), "low": low, "high": high})

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
        settings, phase = self.settings, phase_words(self.settings, self.transitions)
        return {
            "learning": learning_figure(
                settings, self.curves, self.transitions, self.simulated, self.limits
            ),
            "order": order_figure(settings, self.curves, self.transitions, self.simulated),
            "landscape": landscape_figure(settings, self.landscape, phase),
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
        if self.pending or self.moved:
            words = f"Computing: {', '.join(self.pending) or 'curves'} …"
            return [html.Span(className="spinner"), words]
        phase = phase_words(self.settings, self.transitions)
        words = f"Ready. At α = {self.settings.alpha:.4g}: {phase}." if phase else "Ready."
        if self.limits is not None:
            words += f" Labels can be separated up to α_s = {self.limits['alpha_s']:.4g}."
        return words


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
    content.simulations = list(session.simulations.slots)
    return content


def _ask(theory: TheoryQueue, session: Session, tasks: list[Task], wait: bool) -> None:
    keys = theory.request(session.name, tasks)
    if wait:
        soon = [
            key
            for key, task in zip(keys, tasks, strict=True)
            if not is_slow(task) or task["kind"] in FOLLOWED
        ]
        theory.wait(soon, QUICK_WAIT)
        theory.wait(keys, SLOW_WAIT)
