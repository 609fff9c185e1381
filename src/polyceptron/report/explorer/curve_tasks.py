"""The theory behind the page as pieces of work: curves, transitions, the free-entropy landscape.

A piece of work is a `Task`: plain JSON, so that it can be sent to another process and be the key of
a cache. The theory does the deriving; here is only what to ask it for, and in which order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher, BayesOptimal, takes_ridge
from polyceptron.report.explorer.settings import (
    BAYES,
    SCORES,
    PageSettings,
    is_closed_form,
    is_tabled,
    make_settings,
    quick_first,
)
from polyceptron.rows import json_ready

Row = dict[str, Any]
Task = dict[str, Any]

GRID = ("low", "high", "scale", "points")
FOLLOWED = ("transitions", "limits")  # the work that the range of α follows
CHUNK = 8  # points of a slow curve that are shown at a time
HALVED = 12  # points from which a slow curve is the work of two
FAR = 30.0  # the largest α_s that the range of α is stretched to


def tolerance(n_classes: int) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text says what was met."""
    return 1e-4 if n_classes <= 3 else 5e-3


def fold_tolerance(n_classes: int) -> float:
    """At a fold sampled curves need more care to look round; with many classes that takes long."""
    return 1e-4 if n_classes <= 3 else 2e-3 if n_classes <= 12 else 2e-2


def spaced(settings: PageSettings, count: int) -> list[float]:
    """`count` values of α over the page's range, even on its axis."""
    if count == 1:
        return [settings.alpha]
    space = np.geomspace if settings.scale == "log" else np.linspace
    return [float(a) for a in space(settings.low, settings.high, count)]


def coarse_to_fine(count: int) -> Iterator[list[int]]:
    """The numbers 0 … count − 1 in parts: both ends and every eighth, then those in between.

    >>> list(coarse_to_fine(6))
    [[0, 4, 5], [2], [1, 3]]
    """
    seen: set[int] = set()
    for step in (8, 4, 2, 1):
        new = sorted({*range(0, count, step), count - 1} - seen) if step < count else []
        seen.update(new)
        for start in range(0, len(new), CHUNK):
            yield new[start : start + CHUNK]


def tasks_of(settings: PageSettings) -> list[Task]:
    """Everything the page needs for these settings: quick things first, then the longest."""
    common = {"model": settings.model, "k": settings.teacher.n_classes, "prior": settings.prior}
    if settings.noisy:
        common |= {"noise": settings.noise, "level": settings.level}
    if settings.correlated:
        common |= {"features": settings.features}
    grid: Task = {name: getattr(settings, name) for name in GRID}
    if settings.shown in SCORES:
        grid["shown"] = settings.shown
    curves: list[Task] = []
    for name in quick_first(settings.estimators):
        ridge: Task = {}
        if takes_ridge(name):
            ridge = {"ridge_rule": settings.ridge_rule}
            if settings.ridge_rule == "fixed":
                ridge["ridge"] = settings.ridge
        curves += _halves({"kind": "curve", "estimators": name, **common, **grid, **ridge})
    others: list[Task] = [{"kind": "transitions", **common}] if settings.finite_prior else []
    others.append({"kind": "landscape", "alpha": settings.alpha, **common, "low": 0, "high": 1000})
    if settings.noisy:
        others.append({"kind": "limits", **common})
    short = [task for task in curves if is_tabled(task["estimators"])]
    tasks = [*short, *others, *(task for task in curves if task not in short)]
    if settings.finite_prior and BAYES in settings.estimators:
        tasks.append({"kind": "fold", **common, **grid})
    return tasks


def _halves(task: Task) -> list[Task]:
    """A slow curve as two of half its length, so that two workers share it."""
    if not is_slow(task) or task["estimators"] == BAYES or task["points"] < HALVED:
        return [task]
    alphas = spaced(make_settings({n: task[n] for n in GRID}), task["points"])
    middle = len(alphas) // 2
    return [
        {**task, "low": half[0], "high": half[-1], "points": len(half)}
        for half in (alphas[:middle], alphas[middle:])
    ]


def first_tasks(settings: PageSettings) -> list[Task]:
    """What to compute before the range is known: what it follows, and what need not wait for it."""
    tasks = tasks_of(settings) if settings.range_rule == "follow" else []
    found = [task for task in tasks if task["kind"] in FOLLOWED]
    if not found:
        return []
    rest = [task for task in tasks if task["kind"] == "landscape"]
    if any(is_slow(task) for task in found):
        rest += [task for task in tasks if not is_slow(task)]
    return [*found, *rest]


def followed_range(
    settings: PageSettings, transitions: Mapping[str, Any], limits: Mapping[str, Any]
) -> tuple[float, float]:
    """A range of α with both transitions in sight, up to 1.4 α_algo, and with α_s, in halves.

    For a curve that ends at α_s the range is stretched far to have it in sight, else a little.

    >>> followed_range(PageSettings(), {"alpha_algo": 2.8855}, {})
    (0.1, 4.0)
    >>> followed_range(PageSettings(), {}, {"alpha_s": 4.264})
    (0.1, 5.5)
    """
    algo, separable = transitions.get("alpha_algo"), limits.get("alpha_s") or math.inf
    high = PageSettings.high if algo is None else max(1.0, round(2.8 * algo) / 2)
    ends = any(name != BAYES and not takes_ridge(name) for name in settings.estimators)
    if separable <= (FAR if ends else 2 * high):
        high = max(high, math.ceil(2.5 * separable) / 2)
    return PageSettings.low, high


def key_of(task: Task) -> str:
    """One string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Whether a task may take more than a second, so that it must not hold up the others."""
    if is_closed_form(task.get("estimators", "")):
        return False
    return bool(task["k"] > 3 or task.get("ridge_rule") == "optimal")


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer, in one piece or several: each has the latest `result` and `done` of `total`."""
    settings = make_settings({name: value for name, value in task.items() if name != "kind"})
    teacher = settings.teacher
    if task["kind"] == "curve":
        yield from _curve(settings, settings.estimators[0])
    elif task["kind"] == "fold":
        yield from _fold(settings)
    elif task["kind"] == "transitions":
        from polyceptron.theory.bayes_optimal.transitions import transitions

        tol = 0.01 if teacher.n_classes > 3 else None
        yield {"result": transitions(teacher, tol).as_dict(), "done": 1, "total": 1}
    elif task["kind"] == "limits":
        yield {"result": _limits(teacher), "done": 1, "total": 1}
    elif task["kind"] == "landscape":
        from polyceptron.theory.curve import landscape

        found = landscape(teacher, settings.alpha, tolerance(teacher.n_classes))
        yield {"result": found, "done": 1, "total": 1}
    else:
        raise InvalidInput(f"unknown work {task['kind']!r}")


def _limits(teacher: AnyTeacher) -> Row:
    """The error of the teacher itself, and up to where its labels can be separated."""
    from polyceptron.theory.generalisation import error_floor
    from polyceptron.theory.separability import separability

    floor = error_floor(teacher.channel, teacher.n_classes)
    found = separability(teacher, None if teacher.n_classes <= 3 else 0.02)
    return {"floor": floor, "alpha_s": found.alpha_s}


def _curve(settings: PageSettings, name: str) -> Iterator[dict[str, Any]]:
    from polyceptron.theory.curve import curve_rows
    from polyceptron.theory.erm.risk_rows import erm_parts

    alphas = spaced(settings, settings.points)
    teacher, estimator = settings.teacher, settings.estimator(name)
    tol, scores = tolerance(teacher.n_classes), settings.shown in SCORES
    # The Bayes-optimal points share their tables: one costs about as much as all of them.
    whole = (name == BAYES and not scores) or is_closed_form(name)
    parts = [
        [alphas[i] for i in part]
        for part in ([range(len(alphas))] if whole else coarse_to_fine(len(alphas)))
    ]
    rows: list[Row] = []
    found: Iterator[list[Row]]
    if whole or scores or name == BAYES:
        # Of many classes a score takes seconds: few points have one.
        scored = [scores and (i == 0 or teacher.n_classes <= 3) for i in range(len(parts))]
        found = (
            curve_rows(teacher, estimator, some, branch="all", tol=tol, scores=with_scores)
            for some, with_scores in zip(parts, scored, strict=True)
        )
    else:
        searched = {alphas[0], alphas[-1]}  # a search takes a second with many classes; between
        if teacher.n_classes <= 3:  # the ends of half a curve the error is off by 1e-4 at most
            searched.update(parts[0])
        if settings.ridge_rule == "optimal" and takes_ridge(name):
            rest = [[alpha for alpha in part if alpha not in searched] for part in parts]
            parts = [*([alpha] for alpha in sorted(searched)), *filter(None, rest)]
        found = erm_parts(teacher, estimator, parts, tol, len(searched))
    done = 0
    for some, part in zip(parts, found, strict=True):
        rows, done = rows + part, done + len(some)
        yield _part(rows, done, len(alphas))


def _fold(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """The Bayes-optimal rows at the fold, which stand in for those of the curve."""
    from polyceptron.theory.curve import curve_rows, fold_grid

    teacher = settings.teacher
    near = fold_grid(teacher, spaced(settings, settings.points))
    tol, scores = fold_tolerance(teacher.n_classes), settings.shown in SCORES
    scores &= teacher.n_classes <= 3
    ask = partial(curve_rows, teacher, BayesOptimal(), branch="all", tol=tol, scores=scores)
    yield _part(ask(near) if near else [], 1, 1)


def with_fold(rows: list[Row], fold: list[Row]) -> list[Row]:
    """The rows of the curve with those of the fold in their places."""
    near = {row["alpha"] for row in fold}
    kept = [row for row in rows if row["alpha"] not in near]
    return sorted([*kept, *fold], key=lambda row: float(row["alpha"]))


def _part(rows: list[Row], done: int, total: int) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: float(row["alpha"]))
    return {"result": [json_ready(row) for row in ordered], "done": done, "total": total}
