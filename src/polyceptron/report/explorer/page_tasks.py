"""The work behind the page as tasks: curves, points, limits, the free-entropy landscape, runs.

A `Task` is plain JSON, so that it can be sent to another process and be the key of a cache. Theory
and experiments do the deriving; here is only what to ask them for, and in which order. `tasks_of`
lists what some settings need, `perform` does one task, piece by piece.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.settings import (
    NUMBERS,
    OPTIMAL,
    SCORES,
    SHARES,
    PageSettings,
    make_settings,
)  # fmt: skip
from polyceptron.rows import json_ready

Row = dict[str, Any]
Task = dict[str, Any]

PROBLEM = ("model", "k", *SHARES, "separation", *NUMBERS, *NUMBERS.values())
STUDENT = ("epsilon", "penalty", "l1", "ridge", "ridge_rule", "intercept", "class_weight")
GRID = ("low", "high", "scale", "points")
CHUNK = 8  # points of a slow curve that are shown at a time
TEST_SAMPLES = 10_000  # of a simulation whose scores are shown


def tolerance(n_classes: int) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text has what was met."""
    return 1e-4 if n_classes <= 3 else 5e-3


def spaced(settings: PageSettings, count: int) -> list[float]:
    """`count` values of α over the page's range, even on its axis."""
    if count == 1:
        return [settings.alpha]
    space = np.geomspace if settings.scale == "log" else np.linspace
    return [float(a) for a in space(settings.low, settings.high, count)]


def _task(kind: str, settings: PageSettings, *names: str) -> Task:
    idle = settings.idle
    return {"kind": kind, **{n: settings.as_dict()[n] for n in names if n not in idle}}


def limits_task(settings: PageSettings) -> Task | None:
    """What the range of α follows: transitions and α_s; with the floor, if there is any of it."""
    needed = settings.finite_prior or settings.noisy or not settings.alike
    return _task("limits", settings, *PROBLEM) if needed else None


def tasks_of(settings: PageSettings) -> list[Task]:
    """Everything the page needs for these settings: what is quick first, then the longest.

    Where classes differ a point of each estimator, for its confusion matrix, takes the place of the
    free entropy.
    """

    def rank(name: str) -> tuple[bool, ...]:  # tables and closed forms before the others
        one = settings.estimator(name)
        return not one.branches, not one.explicit, not one.hard_margin

    limits = limits_task(settings)
    curves: list[Task] = []
    points: list[Task] = []
    scored = ["shown"] if settings.shown in SCORES else []
    for name in sorted(settings.estimators, key=rank):
        alone = settings.changed(estimators=[name], simulation="amp")
        own = {"estimators": name}
        curves.append(own | _task("curve", alone, *PROBLEM, *STUDENT, *GRID, *scored))
        points.append(own | _task("point", alone, *PROBLEM, *STUDENT, "alpha") | {"points": 1})
    others = [_task("landscape", settings, *PROBLEM, "alpha")] if settings.alike else points
    return [*([limits] if limits else []), *others, *curves]


def followed_range(settings: PageSettings, limits: Mapping[str, Any]) -> tuple[float, float]:
    """A range of α with both transitions in sight, up to 1.4 α_algo, and with α_s, in halves.

    For a curve that ends at α_s the range is stretched far to have it in sight, else a little.

    >>> followed_range(PageSettings(), {"alpha_algo": 2.8855})
    (0.1, 4.0)
    >>> followed_range(PageSettings(), {"alpha_s": 4.264})
    (0.1, 5.5)
    """
    algo, separable = limits.get("alpha_algo"), limits.get("alpha_s") or math.inf
    high = PageSettings.high if algo is None else max(1.0, round(2.8 * algo) / 2)
    ends = any(settings.estimator(name).hard_margin for name in settings.estimators)
    if separable <= (30.0 if ends else 2 * high):
        high = max(high, math.ceil(2.5 * separable) / 2)
    return PageSettings.low, high


def key_of(task: Task) -> str:
    """One string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Whether a task may take more than a second, so that it must not hold up the others."""
    settings = settings_of_task(task)
    k, name = settings.teacher.n_classes, task.get("estimators")
    if not settings.alike:
        return k > 2
    if name and "l1" not in task and settings.estimator(name).explicit:
        return False
    return bool(k > 3 or "l1" in task or task.get("ridge_rule") == OPTIMAL)


def settings_of_task(task: Task) -> PageSettings:
    """The settings from which a task was made, or an error message."""
    return make_settings({name: value for name, value in task.items() if name != "kind"})


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer to a task, in one piece or several.

    Each piece has the latest `result` with the number of points `done`, or one more `row`.
    """
    kind, settings = task.get("kind"), settings_of_task(task)
    teacher: Any = settings.teacher
    within = tolerance(teacher.n_classes)
    if kind == "curve" and settings.points > 1:
        yield from _curve(settings)
    elif kind in ("curve", "point"):
        one = settings.estimator(settings.estimators[0])
        rows = one.rows(teacher, [settings.alpha], branch="all", tol=within)
        yield {"result": [json_ready(row) for row in rows], "done": 1}
    elif kind == "simulation":
        yield from simulate(settings)
    elif kind == "limits":
        yield {"result": _limits(settings), "done": 1}
    elif kind == "landscape":
        from polyceptron.theory.curve import landscape

        yield {"result": landscape(teacher, settings.alpha, within), "done": 1}
    else:
        raise InvalidInput(f"unknown work {kind!r}")


def _limits(settings: PageSettings) -> dict[str, Any]:
    """The transitions; the least error of any rule, and up to where labels can be separated."""
    from polyceptron.theory.bayes_optimal.transitions import transitions
    from polyceptron.theory.generalisation import error_floor
    from polyceptron.theory.populations.floor import population_floor
    from polyceptron.theory.separability import separability

    found: dict[str, Any] = {}
    teacher: Any = settings.teacher
    many = teacher.n_classes > 3
    if settings.finite_prior:
        found |= transitions(teacher, 0.01 if many else None).as_dict()
    if settings.noisy and settings.alike:
        found["floor"] = error_floor(teacher.channel, teacher.n_classes)
        found["alpha_s"] = separability(teacher, 0.02 if many else None).alpha_s
    if not settings.alike:
        found["floor"] = float(population_floor(teacher).value)
    return found


def _curve(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """The points of the page, then where the line still bends, twice as many in all."""
    from polyceptron.theory.curve import FIRST, drawn_parts, with_scores

    teacher: Any = settings.teacher
    estimator = settings.estimator(settings.estimators[0])
    few, scores = teacher.n_classes <= 3, settings.shown in SCORES and settings.alike
    # Of few classes the points with branches share their tables: one costs as much as all of them.
    whole = settings.alike and (estimator.explicit or (estimator.branches and few and not scores))
    # A search takes a second with many classes; between two the error is off by 1e-4 at most.
    parts = drawn_parts(
        teacher, estimator, settings.low, settings.high, log=settings.scale == "log",
        first=settings.points if whole else min(settings.points, FIRST),
        most=2 * settings.points + 20 * estimator.branches, at_a_time=None if whole else CHUNK,
        searched=math.inf if scores else 1, branch="all", tol=tolerance(teacher.n_classes),
    )  # fmt: skip
    rows: list[Row] = []
    for number, part in enumerate(parts):
        if scores and (few or number == 0):  # of many classes a score takes seconds
            part = with_scores(teacher, estimator, part)
        rows = sorted([*rows, *part], key=lambda row: float(row["alpha"]))
        done = min(len({row["alpha"] for row in rows}), settings.points)
        yield {"result": [json_ready(row) for row in rows], "done": done}


def simulate(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    teacher: Any = settings.teacher
    for i, alpha in enumerate(spaced(settings, settings.places)):
        student = settings.student
        if student.columns.get("ridge") == OPTIMAL:  # that of the theory
            (best,) = student.rows(teacher, [alpha], tol=tolerance(teacher.n_classes))
            student = student.with_ridge(best["ridge"])
        for j in range(settings.runs):
            seed = settings.seed + i * settings.runs + j
            (row,) = student.simulate(
                teacher, alpha, settings.dimension, seed, test_samples=tested(settings)
            )
            yield {"row": json_ready(row)}


def tested(settings: PageSettings) -> int | None:
    """How many new samples a run is tried on: some if scores of probabilities are to be shown.

    Otherwise its error is exact, from the weights.
    """
    return TEST_SAMPLES if settings.shown in SCORES and settings.alike else None
