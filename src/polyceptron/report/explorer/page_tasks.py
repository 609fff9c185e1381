"""The work behind the page as tasks: curves, transitions, the free-entropy landscape, simulations.

A `Task` is plain JSON, so that it can be sent to another process and be the key of a cache. Theory
and experiments do the deriving; here is only what to ask them for, and in which order. `tasks_of`
lists what some settings need, `perform` does one task, piece by piece.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.experiments.results import Average
from polyceptron.model import BayesOptimal, make_estimator, takes_ridge
from polyceptron.report.explorer.settings import (
    AMP,
    BAYES,
    SCORES,
    PageSettings,
    make_settings,
)
from polyceptron.rows import json_ready

Row = dict[str, Any]
Task = dict[str, Any]

GRID = ("low", "high", "scale", "points")
FOLLOWED = ("transitions", "limits")  # the work that the range of α follows
CHUNK = 8  # points of a slow curve that are shown at a time
HALVED = 12  # points from which a slow curve is the work of two
FAR = 30.0  # the largest α_s that the range of α is stretched to
TEST_SAMPLES = 10_000  # of a simulation whose scores are shown
_BY_COST = (BAYES, "square", "max-margin")  # tables and closed forms; any other loss is slower


def tolerance(n_classes: int) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text has what was met."""
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
    cost = {name: i for i, name in enumerate(_BY_COST)}
    for name in sorted(settings.estimators, key=lambda name: cost.get(name, len(cost))):
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
    short = [task for task in curves if task["estimators"] in cost]
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


def is_closed_form(name: str) -> bool:
    """Whether the curve of an estimator is quick for any number of classes."""
    return name == "square"


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer to a task, in one piece or several.

    Each piece has the latest `result` with the number of points `done`, or one more `row`.
    """
    kind = task.get("kind")
    settings = make_settings({name: value for name, value in task.items() if name != "kind"})
    if kind == "curve":
        yield from _curve(settings, settings.estimators[0])
    elif kind == "simulation":
        yield from simulate(settings)
    elif kind in _SINGLE:
        yield {"result": _SINGLE[kind](settings), "done": 1}
    else:
        raise InvalidInput(f"unknown work {kind!r}")


def _transitions(settings: PageSettings) -> Row:
    from polyceptron.theory.bayes_optimal.transitions import transitions

    teacher = settings.teacher
    return transitions(teacher, 0.01 if teacher.n_classes > 3 else None).as_dict()


def _limits(settings: PageSettings) -> Row:
    """The error of the teacher itself, and up to where its labels can be separated."""
    from polyceptron.theory.generalisation import error_floor
    from polyceptron.theory.separability import separability

    teacher = settings.teacher
    floor = error_floor(teacher.channel, teacher.n_classes)
    found = separability(teacher, None if teacher.n_classes <= 3 else 0.02)
    return {"floor": floor, "alpha_s": found.alpha_s}


def _landscape(settings: PageSettings) -> Row:
    from polyceptron.theory.curve import landscape

    teacher = settings.teacher
    return landscape(teacher, settings.alpha, tolerance(teacher.n_classes))


def _fold(settings: PageSettings) -> list[Row]:
    """The Bayes-optimal rows at the fold, which stand in for those of the curve."""
    from polyceptron.theory.curve import curve_rows, fold_grid

    teacher = settings.teacher
    near = fold_grid(teacher, spaced(settings, settings.points))
    scores = settings.shown in SCORES and teacher.n_classes <= 3
    ask = partial(curve_rows, branch="all", tol=fold_tolerance(teacher.n_classes), scores=scores)
    return _ordered(ask(teacher, BayesOptimal(), near) if near else [])


_SINGLE = {
    "transitions": _transitions, "limits": _limits, "landscape": _landscape, "fold": _fold,
}  # fmt: skip


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
    rows: list[Row] = []
    done = 0
    for some, part in zip(parts, found, strict=True):
        rows, done = rows + part, done + len(some)
        yield {"result": _ordered(rows), "done": done}


def with_fold(rows: list[Row], fold: list[Row]) -> list[Row]:
    """The rows of the curve with those of the fold in their places."""
    near = {row["alpha"] for row in fold}
    kept = [row for row in rows if row["alpha"] not in near]
    return sorted([*kept, *fold], key=lambda row: float(row["alpha"]))


def _ordered(rows: list[Row]) -> list[Row]:
    return [json_ready(row) for row in sorted(rows, key=lambda row: float(row["alpha"]))]


def simulate(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    teacher, method = settings.teacher, settings.simulation
    tests = tested(settings)
    for i, alpha in enumerate(spaced(settings, settings.places)):
        ridge = simulated_ridge(settings, alpha)
        for j in range(settings.runs):
            seed = settings.seed + i * settings.runs + j
            student = make_estimator(BAYES if method == AMP else method, ridge)
            (row,) = student.simulate(teacher, alpha, settings.dimension, seed, test_samples=tests)
            yield {"row": json_ready(row)}


def tested(settings: PageSettings) -> int | None:
    """How many new samples a run is tried on: some if scores of probabilities are to be shown.

    Otherwise its error is exact, from the weights.
    """
    return TEST_SAMPLES if settings.shown in SCORES else None


def simulated_ridge(settings: PageSettings, alpha: float) -> float:
    """The ridge of a fit: the page's, or the theory's best one at this α."""
    if not takes_ridge(settings.simulation):
        return 0.0
    if settings.ridge_rule == "fixed":
        return settings.ridge
    from polyceptron.theory.erm.fixed_point import optimal_ridge

    teacher = settings.teacher
    return optimal_ridge(teacher, settings.simulation, alpha, tolerance(teacher.n_classes))


def averages(rows: Iterable[Row], column: str) -> list[dict[str, Any]]:
    """Mean and standard error over the runs at each α: alpha, mean, error (null for one), count."""
    groups: dict[float, Average] = {}
    for row in rows:
        if row.get(column) is not None:
            groups.setdefault(row["alpha"], Average()).add(float(row[column]))
    return [
        {"alpha": alpha, "mean": one.mean, "error": one.standard_error, "count": one.count}
        for alpha, one in sorted(groups.items())
    ]
