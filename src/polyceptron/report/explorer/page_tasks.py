"""The work behind the page as tasks: curves, points, limits, the free-entropy landscape, runs.

A `Task` is plain JSON, so that it can be sent to another process and be the key of a cache. Theory
and experiments do the deriving; here is only what to ask them for, and in which order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.problem import AnyTeacher, Estimator
from polyceptron.questions.drawn_curve import N_FIRST_POINTS, drawn_parts
from polyceptron.questions.landscape import landscape
from polyceptron.questions.student_scores import with_scores
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.members import NUMBERS
from polyceptron.rows import Row, json_ready
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import student_of
from polyceptron.theory.bayes.population_rule import population_floor
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.separability import separability

Task = dict[str, Any]
"""A kind of work, and the settings that it depends on, by name."""

Piece = dict[str, Any]
"""A part of an answer: the latest `result` with the points `done`, or one more `row`."""

Found = Mapping[str, Any]
"""What a task has found, by name: transitions, a floor, a landscape."""

PROBLEM = ("model", "k", *form.SHARES, "separation", *NUMBERS, *NUMBERS.values())
STUDENT = (
    "epsilon",
    "rate",
    "penalty",
    "l1",
    "ridge",
    "ridge_rule",
    "intercept",
    "class_weight",
)
GRID = ("low", "high", "scale", "points")
CHUNK = 8  # points of a slow curve that are shown at a time
TEST_SAMPLES = 10_000  # of a simulation whose scores are shown
FEW_CLASSES = 3  # for which every integral is a sum over a table, quick to milliseconds


def has_few_classes(settings: form.PageSettings) -> bool:
    """Return whether points are computed from tables, rather than sampled."""
    return settings.teacher.n_classes <= FEW_CLASSES


def tolerance(settings: form.PageSettings) -> float:
    """Return the accuracy asked for: finer than a pixel. The hover text has what was met."""
    if has_few_classes(settings):
        return 1e-4
    return 5e-3


def spaced(settings: form.PageSettings, count: int) -> list[float]:
    """Return `count` values of α over the page's range, even on its axis."""
    if count == 1:
        return [settings.alpha]
    if settings.scale == "log":
        alphas = np.geomspace(settings.low, settings.high, count)
    else:
        alphas = np.linspace(settings.low, settings.high, count)
    return [float(alpha) for alpha in alphas]


def _task(
    kind: str, settings: form.PageSettings, names: Sequence[str], students: Sequence[str] = ()
) -> Task:
    """Return the task of this kind, with the named settings that have an effect on the students."""
    idle = settings.idle_beside(students)
    values = settings.as_dict()
    return {"kind": kind, **{name: values[name] for name in names if name not in idle}}


def limits_task(settings: form.PageSettings) -> Task | None:
    """Return the task of what the range of α follows, transitions and α_s, and of the floor.

    None where there is nothing of these.
    """
    if settings.finite_prior or settings.noisy or not settings.equal_classes:
        return _task("limits", settings, PROBLEM)
    return None


def tasks_of(settings: form.PageSettings) -> list[Task]:
    """Return everything the page needs for these settings, tables and closed forms first.

    Where classes differ a point of each estimator, for its confusion matrix, takes the place of the
    free entropy.
    """
    tasks = []
    limits = limits_task(settings)
    if limits is not None:
        tasks.append(limits)
    names = _quick_first(settings)
    if settings.equal_classes:
        tasks.append(_task("landscape", settings, [*PROBLEM, "alpha"]))
    else:
        tasks += [_point_task(settings, name) for name in names]
    return tasks + [_curve_task(settings, name) for name in names]


def _quick_first(settings: form.PageSettings) -> list[str]:
    """Return the estimators in the order in which they are computed."""

    def rank(name: str) -> tuple[bool, bool, bool]:
        """Return what sorts an estimator: False comes before True."""
        spec = settings.estimator(name)
        return not spec.branches, not spec.explicit, not spec.hard_margin

    return sorted(settings.estimators, key=rank)


def _curve_task(settings: form.PageSettings, name: str) -> Task:
    """Return the task of one estimator's curve."""
    names = [*PROBLEM, *STUDENT, *GRID]
    if settings.shown in form.SCORES:
        names.append("shown")
    return {"estimators": name} | _task("curve", settings, names, [name])


def _point_task(settings: form.PageSettings, name: str) -> Task:
    """Return the task of one estimator at the chosen α."""
    task = _task("point", settings, [*PROBLEM, *STUDENT, "alpha"], [name])
    return {"estimators": name} | task | {"points": 1}


# α_s is drawn where the axis need not be stretched further than to this for it: for a curve that
# ends there, and as a multiple of the axis for others.
FARTHEST_SEPARABLE = 30.0
STRETCH_FOR_SEPARABLE = 2.0


def followed_range(settings: form.PageSettings, limits: Found) -> tuple[float, float]:
    """Return a range of α with both transitions in sight, up to 1.4 α_algo, and α_s, in halves.

    For a curve that ends at α_s the range is stretched far to have it in sight, else a little.
    """
    high = form.PageSettings.high
    algo = limits.get("alpha_algo")
    if algo is not None:
        high = max(1.0, _up_to_halves(1.4 * algo, round))
    separable = limits.get("alpha_s") or math.inf
    farthest = STRETCH_FOR_SEPARABLE * high
    if any(settings.estimator(name).hard_margin for name in settings.estimators):
        farthest = FARTHEST_SEPARABLE
    if separable <= farthest:
        high = max(high, _up_to_halves(1.25 * separable, math.ceil))
    return form.PageSettings.low, high


def _up_to_halves(value: float, rounding: Callable[[float], int]) -> float:
    """Return the value rounded to a multiple of one half."""
    return rounding(2 * value) / 2


def key_of(task: Task) -> str:
    """Return one string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Return whether a task may take more than a second, so that it must not hold up the others."""
    settings = settings_of_task(task)
    k = settings.teacher.n_classes
    if not settings.equal_classes:
        return k > 2
    sparse = "l1" in task
    name = task.get("estimators")
    if name and not sparse and settings.estimator(name).explicit:
        return False
    return k > FEW_CLASSES or sparse or task.get("ridge_rule") == form.OPTIMAL


def settings_of_task(task: Task) -> form.PageSettings:
    """Return the settings from which a task was made, or raise InvalidInput."""
    return form.make_settings({name: value for name, value in task.items() if name != "kind"})


def perform(task: Task) -> Iterator[Piece]:
    """Yield the answer to a task in pieces."""
    kind = str(task.get("kind"))
    if kind not in _PERFORMERS:
        raise InvalidInput(f"unknown work {kind!r}")
    yield from _PERFORMERS[kind](settings_of_task(task))


def _point(settings: form.PageSettings) -> Iterator[Piece]:
    """Yield the rows of one estimator at the chosen α."""
    student = student_of(settings.estimator(settings.estimators[0]))
    within = tolerance(settings)
    rows = student.rows(settings.teacher, [settings.alpha], branch="all", tol=within)
    yield {"result": [json_ready(row) for row in rows], "done": 1}


def _landscape(settings: form.PageSettings) -> Iterator[Piece]:
    """Yield the free entropy at the chosen α."""
    teacher: Any = settings.teacher
    yield {"result": landscape(teacher, settings.alpha, tolerance(settings)), "done": 1}


def _limits(settings: form.PageSettings) -> Iterator[Piece]:
    """Yield transitions, the least error of any rule, and up to where labels can be separated."""
    found: dict[str, Any] = {}
    teacher: Any = settings.teacher
    within = None
    within_of_separability = None
    if not has_few_classes(settings):
        within = 0.01
        within_of_separability = 0.02
    if settings.finite_prior:
        found |= transitions(teacher, within).as_dict()
    if settings.noisy and settings.equal_classes:
        found["floor"] = error_floor(teacher.channel, teacher.n_classes)
        found["alpha_s"] = separability(teacher, within_of_separability).alpha_s
    if not settings.equal_classes:
        found["floor"] = float(population_floor(teacher).value)
    yield {"result": found, "done": 1}


def _curve(settings: form.PageSettings) -> Iterator[Piece]:
    """Yield the points of the page, then where the line still bends, twice as many in all."""
    if settings.points == 1:
        yield from _point(settings)
        return
    estimator = settings.estimator(settings.estimators[0])
    rows: list[Row] = []
    for number, part in enumerate(_parts_of_curve(settings, estimator)):
        scored = _with_scores(settings, estimator, part, number)
        rows = sorted([*rows, *scored], key=lambda row: float(row["alpha"]))
        done = min(len({row["alpha"] for row in rows}), settings.points)
        yield {"result": [json_ready(row) for row in rows], "done": done}


def _parts_of_curve(settings: form.PageSettings, estimator: Estimator) -> Iterator[list[Row]]:
    """Yield the rows of a curve in parts, the first of them over the whole range."""
    scores = _shows_scores(settings)
    first = min(settings.points, N_FIRST_POINTS)
    at_a_time: int | None = CHUNK
    if _is_computed_at_once(settings, estimator):
        first = settings.points
        at_a_time = None
    most = 2 * settings.points
    if estimator.branches:
        most += 20  # where they begin and end
    # A search takes a second with many classes; between two the error is off by 1e-4 at most.
    searched = 1.0
    if scores:
        searched = math.inf
    return drawn_parts(
        settings.teacher,
        estimator,
        settings.low,
        settings.high,
        log=settings.scale == "log",
        first=first,
        most=most,
        at_a_time=at_a_time,
        searched=searched,
        branch="all",
        tol=tolerance(settings),
    )


def _is_computed_at_once(settings: form.PageSettings, estimator: Estimator) -> bool:
    """Return whether all points cost as much as one: closed forms, branches with shared tables."""
    if not settings.equal_classes:
        return False
    if estimator.explicit:
        return True
    return estimator.branches and has_few_classes(settings) and not _shows_scores(settings)


def _shows_scores(settings: form.PageSettings) -> bool:
    """Return whether the page shows what takes longer than errors."""
    return settings.shown in form.SCORES and settings.equal_classes


def _with_scores(
    settings: form.PageSettings, estimator: Estimator, rows: list[Row], number: int
) -> Sequence[Row]:
    """Return the rows of part `number` of a curve, with scores if these are shown.

    With many classes a score takes seconds: the first part alone has them.
    """
    if not _shows_scores(settings) or not (has_few_classes(settings) or number == 0):
        return rows
    return with_scores(settings.teacher, student_of(estimator), rows)


def simulation_messages(settings: form.PageSettings) -> Iterator[Piece]:
    """Yield rows of message passing or empirical risk minimisation, one instance at a time."""
    teacher: AnyTeacher = settings.teacher
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
    """Return on how many new samples a run is tried for its scores; None for an exact error."""
    if _shows_scores(settings):
        return TEST_SAMPLES
    return None


_PERFORMERS: dict[str, Callable[[form.PageSettings], Iterator[Piece]]] = {
    "curve": _curve,
    "point": _point,
    "limits": _limits,
    "landscape": _landscape,
    "simulation": simulation_messages,
}
