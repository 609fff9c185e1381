"""The work behind the page as tasks: curves, points, limits, the free-entropy landscape, runs.

A `Task` is plain JSON, so that it can be sent to another process and be the key of a cache. Theory
and experiments do the deriving; here is only what to ask them for, and in which order.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.questions.drawn_curve import N_FIRST_POINTS, drawn_parts
from polyceptron.questions.landscape import landscape
from polyceptron.questions.student_scores import with_scores
from polyceptron.report.explorer import settings as form
from polyceptron.rows import Row, json_ready
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import student_of
from polyceptron.theory.bayes.population_rule import population_floor
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.separability import separability

Task = dict[str, Any]

PROBLEM = ("model", "k", *form.SHARES, "separation", *form.NUMBERS, *form.NUMBERS.values())
STUDENT = ("epsilon", "penalty", "l1", "ridge", "ridge_rule", "intercept", "class_weight")
GRID = ("low", "high", "scale", "points")
CHUNK = 8  # points of a slow curve that are shown at a time
TEST_SAMPLES = 10_000  # of a simulation whose scores are shown


def tolerance(settings: form.PageSettings) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text has what was met."""
    return 1e-4 if settings.teacher.n_classes <= 3 else 5e-3


def spaced(settings: form.PageSettings, count: int) -> list[float]:
    """`count` values of α over the page's range, even on its axis."""
    if count == 1:
        return [settings.alpha]
    space = np.geomspace if settings.scale == "log" else np.linspace
    return [float(a) for a in space(settings.low, settings.high, count)]


def _task(kind: str, settings: form.PageSettings, *names: str) -> Task:
    idle = settings.idle
    return {"kind": kind, **{n: settings.as_dict()[n] for n in names if n not in idle}}


def limits_task(settings: form.PageSettings) -> Task | None:
    """What the range of α follows: transitions and α_s; with the floor, if there is any of it."""
    needed = settings.finite_prior or settings.noisy or not settings.equal_classes
    return _task("limits", settings, *PROBLEM) if needed else None


def tasks_of(settings: form.PageSettings) -> list[Task]:
    """Everything the page needs for these settings, tables and closed forms first.

    Where classes differ a point of each estimator, for its confusion matrix, takes the place of the
    free entropy.
    """

    def rank(name: str) -> tuple[bool, ...]:
        one = settings.estimator(name)
        return not one.branches, not one.explicit, not one.hard_margin

    limits, curves, points = limits_task(settings), list[Task](), list[Task]()
    scored = ["shown"] if settings.shown in form.SCORES else []
    for name in sorted(settings.estimators, key=rank):
        alone = settings.changed(estimators=[name], simulation="amp")
        own = {"estimators": name}
        curves.append(own | _task("curve", alone, *PROBLEM, *STUDENT, *GRID, *scored))
        points.append(own | _task("point", alone, *PROBLEM, *STUDENT, "alpha") | {"points": 1})
    others = [_task("landscape", settings, *PROBLEM, "alpha")] if settings.equal_classes else points
    return [*([limits] if limits else []), *others, *curves]


def followed_range(settings: form.PageSettings, limits: Mapping[str, Any]) -> tuple[float, float]:
    """A range of α with both transitions in sight, up to 1.4 α_algo, and with α_s, in halves.

    For a curve that ends at α_s the range is stretched far to have it in sight, else a little.
    """
    algo, separable = limits.get("alpha_algo"), limits.get("alpha_s") or math.inf
    high = form.PageSettings.high if algo is None else max(1.0, round(2.8 * algo) / 2)
    ends = any(settings.estimator(name).hard_margin for name in settings.estimators)
    if separable <= (30.0 if ends else 2 * high):
        high = max(high, math.ceil(2.5 * separable) / 2)
    return form.PageSettings.low, high


def key_of(task: Task) -> str:
    """One string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Whether a task may take more than a second, so that it must not hold up the others."""
    settings = settings_of_task(task)
    k, name, sparse = settings.teacher.n_classes, task.get("estimators"), "l1" in task
    if not settings.equal_classes:
        return k > 2
    quick = name and not sparse and settings.estimator(name).explicit
    return not quick and (k > 3 or sparse or task.get("ridge_rule") == form.OPTIMAL)


def settings_of_task(task: Task) -> form.PageSettings:
    """The settings from which a task was made, or an error message."""
    return form.make_settings({name: value for name, value in task.items() if name != "kind"})


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer in pieces: each the latest `result` with the points `done`, or one more `row`."""
    kind, settings = task.get("kind"), settings_of_task(task)
    teacher: Any = settings.teacher
    within = tolerance(settings)
    if kind == "curve" and settings.points > 1:
        yield from _curve(settings)
    elif kind in ("curve", "point"):
        student = student_of(settings.estimator(settings.estimators[0]))
        rows = student.rows(teacher, [settings.alpha], branch="all", tol=within)
        yield {"result": [json_ready(row) for row in rows], "done": 1}
    elif kind == "simulation":
        yield from simulation_messages(settings)
    elif kind == "limits":
        yield {"result": _limits(settings), "done": 1}
    elif kind == "landscape":
        yield {"result": landscape(teacher, settings.alpha, within), "done": 1}
    else:
        raise InvalidInput(f"unknown work {kind!r}")


def _limits(settings: form.PageSettings) -> dict[str, Any]:
    """The transitions; the least error of any rule, and up to where labels can be separated."""
    found: dict[str, Any] = {}
    teacher: Any = settings.teacher
    many = teacher.n_classes > 3
    if settings.finite_prior:
        found |= transitions(teacher, 0.01 if many else None).as_dict()
    if settings.noisy and settings.equal_classes:
        found["floor"] = error_floor(teacher.channel, teacher.n_classes)
        found["alpha_s"] = separability(teacher, 0.02 if many else None).alpha_s
    if not settings.equal_classes:
        found["floor"] = float(population_floor(teacher).value)
    return found


def _curve(settings: form.PageSettings) -> Iterator[dict[str, Any]]:
    """The points of the page, then where the line still bends, twice as many in all."""
    teacher: Any = settings.teacher
    estimator = settings.estimator(settings.estimators[0])
    few, scores = teacher.n_classes <= 3, settings.shown in form.SCORES and settings.equal_classes
    # Of few classes the points with branches share their tables: one costs as much as all of them.
    whole = settings.equal_classes and (
        estimator.explicit or (estimator.branches and few and not scores)
    )
    # A search takes a second with many classes; between two the error is off by 1e-4 at most.
    parts = drawn_parts(
        teacher,
        estimator,
        settings.low,
        settings.high,
        log=settings.scale == "log",
        first=settings.points if whole else min(settings.points, N_FIRST_POINTS),
        most=2 * settings.points + 20 * estimator.branches,
        at_a_time=None if whole else CHUNK,
        searched=math.inf if scores else 1,
        branch="all",
        tol=tolerance(settings),
    )
    rows: list[Row] = []
    for number, part in enumerate(parts):
        if scores and (few or number == 0):  # of many classes a score takes seconds
            part = with_scores(teacher, student_of(estimator), part)
        rows = sorted([*rows, *part], key=lambda row: float(row["alpha"]))
        done = min(len({row["alpha"] for row in rows}), settings.points)
        yield {"result": [json_ready(row) for row in rows], "done": done}


def simulation_messages(settings: form.PageSettings) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    teacher: Any = settings.teacher
    for i, alpha in enumerate(spaced(settings, settings.places)):
        student = student_of(settings.student)
        if student.spec.columns.get("ridge") == form.OPTIMAL:  # that of the theory
            (best,) = student.rows(teacher, [alpha], tol=tolerance(settings))
            student = student_of(student.spec.with_ridge(best["ridge"]))
        for j in range(settings.runs):
            seed = settings.seed + i * settings.runs + j
            (row,) = student.simulate(
                teacher, alpha, settings.dimension, seed, test_samples=tested(settings)
            )
            yield {"row": json_ready(row)}


def tested(settings: form.PageSettings) -> int | None:
    """How many new samples a run is tried on for its scores; else its error is exact."""
    return TEST_SAMPLES if settings.shown in form.SCORES and settings.equal_classes else None
