"""What there is to see on the page, and to take away: a table, a script, a page of its own."""

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from pprint import pformat
from typing import Any

from jinja2 import Environment, FileSystemLoader, select_autoescape

import polyceptron
from polyceptron.pictures.matplotlib_figure import MARKERS
from polyceptron.pictures.parts import label_of
from polyceptron.problem import Estimator
from polyceptron.report.explorer import page_figures as drawing
from polyceptron.report.explorer import page_tasks as asking
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.work_queue import Session, Sessions, WorkQueue
from polyceptron.rows import Row, frame
from polyceptron.version import VERSION

Figures = Mapping[str, drawing.Figure]


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def caption(settings: form.PageSettings) -> str:
    """The problem in a line, for a picture that leaves the page."""
    what = settings.words("model").split(" (")[0] if settings.model != "argmax" else ""
    parts = [what] if settings.model == "perceptron" else [f"k = {settings.k}", what]
    parts += ["shares " + ", ".join(f"{s:.3g}" for s in settings.shares)] if settings.shares else []
    parts += [f"separation {settings.separation:g}"] if settings.model == "mixture" else []
    for kind in form.NUMBERS if settings.model != "mixture" else ():
        if kind == "prior" or getattr(settings, kind) not in ("none", "isotropic"):
            parts.append(settings.words(kind))
            parts += [settings.number_words(kind)] if settings.member(kind).parameter else []
    if any(settings.estimator(name).takes_ridge for name in settings.estimators):
        optimal = settings.ridge_rule == form.OPTIMAL
        words = "optimal ridge λ" if optimal else f"ridge λ = {settings.ridge:.4g}"
        parts.append(words if settings.penalty == form.RIDGE else settings.penalty_name)
        parts += ["intercepts"] if settings.intercept != "none" else []
        parts += ["balanced class weights"] if settings.class_weight != "none" else []
    return ", ".join(filter(None, parts))


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def python_lines(
    settings: form.PageSettings,
    simulations: Sequence[form.PageSettings] = (),
    figures: Figures | None = None,
) -> str:
    """A script that draws the page's three `figures`, with the same runs of the simulations shown.

    It leaves `curves`, a table, and `simulations`, rows by name. The range must be set.
    """

    def ends(name: str, axis: str) -> list[float] | None:
        """From where to where an axis of the page's figure goes, if that is set."""
        look = figures[name]["layout"][axis] if figures else {}
        found = look.get("range")
        return found and [float(f"{10**x if look['type'] == 'log' else x:.6g}") for x in found]

    students = [settings.estimator(name) for name in settings.estimators]
    every = (*students, *(run.student for run in simulations))
    looks = drawing.extrema_looks(settings).items()
    marked = {n: (one["label"], MARKERS[one["marker"]], one["colour"]) for n, one in looks}
    return TEMPLATES.get_template("script.jinja").render(
        page=settings,
        runs=simulations,
        students=students,
        column=form.SHOWN[settings.shown][1],
        by_name=not all(hasattr(polyceptron, type(one).__name__) for one in every),
        many=settings.teacher.n_classes > 3,
        tol=asking.tolerance(settings),
        scored=asking.tested(settings),
        tolerance=asking.tolerance,
        tested=asking.tested,
        ends=ends,
        teacher=_teacher,
        written=_estimator,
        caption=caption,
        band=drawing.BAND,
        looks=pformat(marked, width=96, sort_dicts=False),
    )


def _teacher(settings: form.PageSettings) -> str:
    if settings.model != "mixture":
        return f"pc.{settings.teacher!r}".replace("'", '"')
    shares = settings.shares or (1 / settings.k,) * settings.k
    return f"pc.Mixture({shares!r}, separation={settings.separation!r})"


def _estimator(one: Estimator, ridge: str = "") -> str:
    """How it is written: its class, if that is public, with its loss, ridge or penalty if any."""
    kind = type(one).__name__
    if not hasattr(polyceptron, kind):
        return f'make_estimator("{one.name}")'
    given = {name: repr(value) for name, value in one.columns.items() if name != "estimator"}
    given |= {"ridge": ridge} if ridge else {}
    words = [f"{n}={value}" for n, value in given.items() if one.takes_ridge or n != "ridge"]
    words = [repr(one.name), *words] if kind == "ERM" else words
    return f"pc.{kind}({', '.join(words)})".replace("'", '"')


def page_html(settings: form.PageSettings, figures: Figures, words: str, code: str) -> str:
    """One file with live figures (by their titles), which needs nothing from elsewhere."""
    from plotly.offline import get_plotlyjs

    return TEMPLATES.get_template("lecture.html").render(
        title=caption(settings),
        figures=figures,
        words=words,
        code=code,
        version=VERSION,
        plotly=get_plotlyjs(),
    )


QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is


class PageContent:
    """What there is to see for some settings now, and what is still missing.

    `curves` and `points` are rows by estimator (none while the range of α is `finding`), `found` is
    what else was found, by the kind of task.
    """

    def __init__(
        self, work: WorkQueue, settings: form.PageSettings, slots: Any = (), finding: bool = False
    ) -> None:
        self.settings = settings
        # As they are now: rows that come while this is drawn are the next look's.
        self.simulations = [copy.copy(one) for one in slots]
        self.answers = [work.answer(task) for task in asking.tasks_of(settings)]
        self.missing = {one.task["kind"] for one in self.answers if not one.complete}
        self.found: dict[str, Any] = {}
        rows: dict[str, dict[str, list[Row]]] = {"curve": {}, "point": {}}
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
        pending, errors = list[str](), list[str]()
        for one in self.answers:
            name, kind = one.task.get("estimators"), one.task["kind"]
            kind = "transitions and floor" if kind == "limits" else kind
            words, points = label_of(name) if name else kind, one.task.get("points", 1)
            pending += [] if one.complete else [words + f" {one.done} of {points}" * bool(one.done)]
            errors += [f"{words}: {one.reason}"] if one.reason else []
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
    def figures(self) -> Figures:
        """The three figures, by the ids of their graphs."""
        settings, curves, simulated = self.settings, self.curves, self.simulated
        phase = drawing.phase_words(settings, self.limits)
        if settings.equal_classes:
            last = drawing.landscape_figure(settings, self.found.get("landscape"), phase)
        else:
            last = drawing.confusion_figure(settings, self.points)
        learning = drawing.learning_figure(settings, curves, self.limits, simulated)
        order = drawing.order_figure(settings, curves, simulated)
        return {"learning": learning, "order": order, "landscape": last}

    @property
    def rows(self) -> list[Row]:
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
    if not work.wait(slow, 0.0):  # else the curves are wanted without a break
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
