"""The Python script of the page: it draws the same figures with the same simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat

from jinja2 import Environment, FileSystemLoader, select_autoescape

import polyceptron
from polyceptron.pictures.matplotlib_figure import MARKERS
from polyceptron.problem import Estimator
from polyceptron.report.explorer import page_figures as drawing
from polyceptron.report.explorer import page_tasks as asking
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.members import NUMBERS

Figures = Mapping[str, drawing.Figure]

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def caption(settings: form.PageSettings) -> str:
    """Return the problem in a line, for a picture that leaves the page."""
    parts = [*_population_words(settings), *_student_words(settings)]
    return ", ".join(part for part in parts if part)


def _population_words(settings: form.PageSettings) -> list[str]:
    """Return the words for model, classes, weights, noise and features."""
    model = settings.words("model").split(" (")[0]
    if settings.model == "perceptron":
        words = [model]
    elif settings.model == "argmax":
        words = [f"k = {settings.k}"]
    else:
        words = [f"k = {settings.k}", model]
    if settings.shares is not None:
        words.append("shares " + ", ".join(f"{share:.3g}" for share in settings.shares))
    if settings.model == "mixture":
        return [*words, f"separation {settings.separation:g}"]
    for kind in NUMBERS:
        if kind == "prior" or getattr(settings, kind) not in ("none", "isotropic"):
            words.append(settings.words(kind))
            if settings.member(kind).parameter:
                words.append(settings.number_words(kind))
    return words


def _student_words(settings: form.PageSettings) -> list[str]:
    """Return the words for penalty, intercepts and class weights, if a student has any."""
    if not any(settings.estimator(name).takes_ridge for name in settings.estimators):
        return []
    if settings.penalty != form.RIDGE:
        words = [settings.penalty_name]
    elif settings.ridge_rule == form.OPTIMAL:
        words = ["optimal ridge λ"]
    else:
        words = [f"ridge λ = {settings.ridge:.4g}"]
    if settings.intercept != "none":
        words.append("intercepts")
    if settings.class_weight != "none":
        words.append("balanced class weights")
    return words


def python_lines(
    settings: form.PageSettings,
    simulations: Sequence[form.PageSettings] = (),
    figures: Figures | None = None,
) -> str:
    """Return a script that draws the page's three `figures`, with the same runs shown.

    It leaves `curves`, a table, and `simulations`, rows by name. The range must be set.
    """

    def ends(name: str, axis: str) -> list[float] | None:
        """Return both ends of a figure's axis, None where no figure is shown."""
        if figures is None:
            return None
        return _axis_ends(figures[name], axis)

    students = [settings.estimator(name) for name in settings.estimators]
    every = (*students, *(run.student for run in simulations))
    marked = {
        branch: (look["label"], MARKERS[look["marker"]], look["colour"])
        for branch, look in drawing.extrema_looks(settings).items()
    }
    return TEMPLATES.get_template("script.jinja").render(
        page=settings,
        runs=simulations,
        students=students,
        column=form.SHOWN[settings.shown].column,
        by_name=not all(hasattr(polyceptron, type(spec).__name__) for spec in every),
        many=not asking.has_few_classes(settings),
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


def _axis_ends(figure: drawing.Figure, axis: str) -> list[float] | None:
    """Return from where to where an axis of a figure goes, if that is set."""
    look = figure["layout"][axis]
    limits = look.get("range")
    if limits is None:
        return None
    if look["type"] == "log":  # plotly has the exponents
        limits = [10**limit for limit in limits]
    return [float(f"{limit:.6g}") for limit in limits]


def _teacher(settings: form.PageSettings) -> str:
    """Return how the population is written in Python."""
    if settings.model != "mixture":
        return f"pc.{settings.teacher!r}".replace("'", '"')
    shares = settings.shares or (1 / settings.k,) * settings.k
    return f"pc.Mixture({shares!r}, separation={settings.separation!r})"


def _estimator(spec: Estimator, ridge: str = "") -> str:
    """Return how it is written: its class, if that is public, with its loss, ridge or penalty."""
    kind = type(spec).__name__
    if not hasattr(polyceptron, kind):
        return f'make_estimator("{spec.name}")'
    given = {name: repr(value) for name, value in spec.columns.items() if name != "estimator"}
    if ridge:
        given["ridge"] = ridge
    if not spec.takes_ridge:
        given.pop("ridge", None)
    words = [f"{name}={value}" for name, value in given.items()]
    if kind == "ERM":
        words.insert(0, repr(spec.name))
    return f"pc.{kind}({', '.join(words)})".replace("'", '"')
