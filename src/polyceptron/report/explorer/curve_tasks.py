"""The theory behind the page as pieces of work: curves, transitions, the free-entropy landscape.

A piece of work is a `Task`: plain JSON, so that it can be sent to another process and be the key of
a cache. The theory does the deriving; here is only what to ask it for, and in which order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.choices import (
    BAYES,
    is_closed_form,
    is_tabled,
    quick_first,
    takes_ridge,
)
from polyceptron.report.explorer.page_settings import PageSettings, make_settings
from polyceptron.rows import json_ready

Row = dict[str, Any]
Task = dict[str, Any]

CHUNK = 8  # points of a slow curve that are shown at a time
FOLD_TOL = 0.02  # of the points that only give the fold its shape


def tolerance(n_classes: int) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text says what was met."""
    return 1e-4 if n_classes <= 3 else 5e-3


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
    """Everything the page needs for these settings, quick things first."""
    common = {"model": settings.model, "k": settings.teacher.n_classes, "prior": settings.prior}
    grid = {name: getattr(settings, name) for name in ("low", "high", "scale", "points")}
    curves: list[Task] = []
    for name in quick_first(settings.estimators):
        ridge: Task = {}
        if takes_ridge(name):
            ridge = {"ridge_rule": settings.ridge_rule}
            if settings.ridge_rule == "fixed":
                ridge["ridge"] = settings.ridge
        curves.append({"kind": "curve", "estimators": name, **common, **grid, **ridge})
    others: list[Task] = [{"kind": "transitions", **common}] if settings.finite_prior else []
    others.append({"kind": "landscape", "alpha": settings.alpha, **common, "low": 0, "high": 1000})
    last = 0 if is_tabled(curves[-1]["estimators"]) else 1
    return [*curves[: len(curves) - last], *others, *curves[len(curves) - last :]]


def first_tasks(settings: PageSettings) -> list[Task]:
    """What to compute before the range is known: the transitions, and what they do not hold up."""
    if settings.range_rule != "follow" or not settings.finite_prior:
        return []
    tasks = tasks_of(settings)
    found = next(task for task in tasks if task["kind"] == "transitions")
    rest = [task for task in tasks if task["kind"] == "landscape"]
    if is_slow(found):
        rest += [task for task in tasks if not is_slow(task)]
    return [found, *rest]


def followed_range(found: Mapping[str, Any]) -> tuple[float, float]:
    """A range of α with both transitions in sight: up to 1.4 α_algo, in halves.

    >>> followed_range({"alpha_algo": 2.8855})
    (0.1, 4.0)
    """
    if found.get("alpha_algo") is None:
        return PageSettings.low, PageSettings.high
    return PageSettings.low, max(1.0, round(2.8 * found["alpha_algo"]) / 2)


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
        name = settings.estimators[0]
        yield from _bayes(settings) if name == BAYES else _risk_minimiser(settings, name)
    elif task["kind"] == "transitions":
        from polyceptron.theory import transitions

        tol = 0.01 if teacher.n_classes > 3 else None
        yield {"result": transitions(teacher, tol).as_dict(), "done": 1, "total": 1}
    elif task["kind"] == "landscape":
        from polyceptron.theory.curve_grid import landscape

        found = landscape(teacher, settings.alpha, tolerance(teacher.n_classes))
        yield {"result": found, "done": 1, "total": 1}
    else:
        raise InvalidInput(f"unknown work {task['kind']!r}")


def _bayes(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """All α at once, as they share their tables; then those that give the fold its shape."""
    from polyceptron.theory import curve_rows
    from polyceptron.theory.curve_grid import fold_grid

    teacher, estimator = settings.teacher, settings.estimator(BAYES)
    alphas = spaced(settings, settings.points)
    tol = tolerance(teacher.n_classes)
    rows = curve_rows(teacher, estimator, alphas, branch="all", tol=tol)
    fold = fold_grid(teacher, alphas)
    total = len(alphas) + len(fold)
    yield _part(rows, len(alphas), total)
    if fold:
        rows += curve_rows(teacher, estimator, fold, branch="all", tol=max(tol, FOLD_TOL))
        yield _part(rows, total, total)


def _risk_minimiser(settings: PageSettings, name: str) -> Iterator[dict[str, Any]]:
    from polyceptron.theory import curve_rows

    alphas = spaced(settings, settings.points)
    tol = tolerance(settings.teacher.n_classes)
    rows: list[Row] = []
    done = 0
    parts = [range(len(alphas))] if is_closed_form(name) else coarse_to_fine(len(alphas))
    for part in parts:
        some = [alphas[i] for i in part]
        rows += curve_rows(settings.teacher, settings.estimator(name), some, tol=tol)
        done += len(some)
        yield _part(rows, done, len(alphas))


def _part(rows: list[Row], done: int, total: int) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: float(row["alpha"]))
    return {"result": [json_ready(row) for row in ordered], "done": done, "total": total}
