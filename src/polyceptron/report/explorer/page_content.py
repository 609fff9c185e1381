"""What there is to see on the page, and to take away: a table, a script, a page of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import cached_property

from polyceptron.pictures.parts import label_of
from polyceptron.report.explorer import page_figures as drawing
from polyceptron.report.explorer import page_tasks as asking
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.links import to_query
from polyceptron.report.explorer.script import TEMPLATES, Figures, caption, python_lines
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.work_queue import Job, Simulation, WorkQueue
from polyceptron.rows import Row, frame, without_formulas
from polyceptron.version import VERSION

RowsByEstimator = dict[str, list[Row]]


def to_csv(rows: Iterable[Row]) -> str:
    """Return the rows as CSV, one line each, with the columns that at least one of them has."""
    return str(without_formulas(frame(rows)).to_csv(index=False))


def page_html(settings: form.PageSettings, figures: Figures, words: str, code: str) -> str:
    """Return one file with live figures (by their titles), which needs nothing from elsewhere."""
    from plotly.offline import get_plotlyjs

    return TEMPLATES.get_template("lecture.html").render(
        title=caption(settings),
        figures=figures,
        words=words,
        code=code,
        version=VERSION,
        plotly=get_plotlyjs(),
    )


# Seconds to wait for an answer before showing what there is.
QUICK_WAIT = 0.7
SLOW_WAIT = 0.1


class PageContent:
    """What there is to see for some settings now, and what is still missing.

    Parameters
    ----------
    work : WorkQueue
        Has the answers.
    settings : PageSettings
        With a range of α that is set.
    slots : sequence of Simulation or None
        Those of the page.
    finding : bool
        Whether the range of α is still being looked for: then no curve is shown.

    Attributes
    ----------
    curves, points : dict
        Rows by estimator.
    found : dict
        What else was found, by the kind of task.
    """

    def __init__(
        self,
        work: WorkQueue,
        settings: form.PageSettings,
        slots: Sequence[Simulation | None] = (),
        finding: bool = False,
    ) -> None:
        self.settings = settings
        # As they are now: rows that come while this is drawn are the next look's.
        self.simulations = [copy.copy(kept) for kept in slots]
        self.answers = [work.answer(task) for task in asking.tasks_of(settings)]
        self.missing = {job.task["kind"] for job in self.answers if not job.complete}
        self.curves: RowsByEstimator = {}
        if not finding:
            self.curves = self._rows_of("curve")
        self.points = self._rows_of("point")
        self.found = {
            job.task["kind"]: job.result
            for job in self.answers
            if job.task["kind"] not in ("curve", "point")
        }
        self.limits: asking.Found = self.found.get("limits") or {}
        self.simulated = [
            drawing.Simulated(kept.settings, kept.rows, slot)
            for slot, kept in enumerate(self.simulations)
            if kept is not None and kept.rows
        ]

    def _rows_of(self, kind: str) -> RowsByEstimator:
        """Return the rows of each estimator, in the order of the page."""
        rows = {
            job.task["estimators"]: job.result
            for job in self.answers
            if job.task["kind"] == kind and job.result
        }
        return {name: rows[name] for name in self.settings.estimators if name in rows}

    @property
    def status(self) -> tuple[str, list[str]]:
        """Say what is being computed, and what could not be computed to its end, and why."""
        errors = [f"{_words_of(job)}: {job.reason}" for job in self.answers if job.reason]
        return self._status_line(), list(dict.fromkeys(errors))

    def _status_line(self) -> str:
        """Return at work on what, or ready, with where the chosen α lies."""
        pending = [_progress_of(job) for job in self.answers if not job.complete]
        if pending:
            return f"Computing: {', '.join(dict.fromkeys(pending))} …"
        line = "Ready."
        phase = drawing.phase_words(self.settings, self.limits)
        if phase:
            line += f" At α = {self.settings.alpha:.4g}: {phase}."
        separable = self.limits.get("alpha_s")
        if separable is not None:
            line += f" Labels can be separated up to α_s = {separable:.4g}."
        return line

    @property
    def mark(self) -> str:
        """A text that changes when there is something new to see."""
        known = [f"{asking.key_of(job.task)}{job.done}{job.complete}" for job in self.answers]
        shown = [
            f"{slot}{kept.status}{len(kept.rows)}"
            for slot, kept in enumerate(self.simulations)
            if kept is not None
        ]
        return "|".join([to_query(self.settings), *known, *shown])

    @property
    def busy(self) -> bool:
        """Return whether there is more to come."""
        running = [kept for kept in self.simulations if kept is not None and not kept.complete]
        return bool(self.missing or running)

    @property
    def stale(self) -> list[str]:
        """The figures for which there is nothing yet: what stands there is of other settings."""
        if not self.missing:
            return []
        figures = []
        if not self.curves:
            figures += ["learning", "order"]
        if not (self.found.get("landscape") or self.points):
            figures.append("landscape")
        return figures

    @cached_property
    def figures(self) -> Figures:
        """The three figures, by the ids of their graphs."""
        return {
            "learning": drawing.learning_figure(
                self.settings, self.curves, self.limits, self.simulated
            ),
            "order": drawing.order_figure(self.settings, self.curves, self.simulated),
            "landscape": self._landscape_figure(),
        }

    def _landscape_figure(self) -> drawing.Figure:
        """Return the free entropy, or the confusion matrices where classes differ."""
        if not self.settings.equal_classes:
            return drawing.confusion_figure(self.settings, self.points)
        phase = drawing.phase_words(self.settings, self.limits)
        return drawing.landscape_figure(self.settings, self.found.get("landscape"), phase)

    @property
    def rows(self) -> list[Row]:
        """Everything as one table."""
        rows = [row for part in self.curves.values() for row in part]
        return rows + [row for run in self.simulated for row in run.rows]

    @property
    def python(self) -> str:
        """A script that draws it."""
        return python_lines(self.settings, [run.state for run in self.simulated], self.figures)

    @property
    def html(self) -> str:
        """A page of its own with the figures."""
        named = dict(zip(self.settings.titles, self.figures.values(), strict=True))
        return page_html(self.settings, named, self.status[0], self.python)


def _words_of(job: Job) -> str:
    """Return what the page calls a piece of work."""
    name = job.task.get("estimators")
    if name:
        return label_of(name)
    if job.task["kind"] == "limits":
        return "transitions and floor"
    return str(job.task["kind"])


def _progress_of(job: Job) -> str:
    """Return what the page calls a piece of work, with how far it is."""
    words = _words_of(job)
    if job.done:
        words += f" {job.done} of {job.task.get('points', 1)}"
    return words


def wanted_content(
    sessions: Sessions, session: Session, settings: form.PageSettings, wait: bool
) -> PageContent:
    """Ask for what the settings need, and give it a moment if `wait`.

    Where the range of α follows what is found, the curves are asked for when that is known.
    """
    work = sessions.work
    finding = False
    if settings.range_rule == form.FOLLOW:
        limits = asking.limits_task(settings)
        known: asking.Found = {}
        if limits is not None:
            finding = not _is_known(work, session, settings, limits, wait)
            known = work.answer(limits).result or {}
        low, high = asking.followed_range(settings, known)
        settings = settings.changed(range_rule="set", low=low, high=high)
    if not finding:
        tasks = asking.tasks_of(settings)
        work.request(session.name, tasks)
        if wait:
            work.wait([task for task in tasks if not asking.is_slow(task)], QUICK_WAIT)
            work.wait(tasks, SLOW_WAIT)
    return PageContent(work, settings, session.slots, finding)


def _is_known(
    work: WorkQueue,
    session: Session,
    settings: form.PageSettings,
    limits: asking.Task,
    wait: bool,
) -> bool:
    """Return whether it is known what the range of α follows; ask for it, and wait a moment."""
    if work.wait([limits], 0.0):  # asking again would interrupt the curves
        return True
    work.request(session.name, asking.tasks_of(settings)[:2])
    timeout = 0.0
    if wait:
        timeout = QUICK_WAIT
    return work.wait([limits], timeout)
