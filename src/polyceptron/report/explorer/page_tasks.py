"""The work behind the page as tasks: curves, transitions, the free-entropy landscape, simulations.

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
from polyceptron.model import make_estimator
from polyceptron.report.explorer.settings import RIDGE, SCORES, PageSettings, make_settings
from polyceptron.rows import json_ready

Row = dict[str, Any]
Task = dict[str, Any]

GRID = ("low", "high", "scale", "points")
FOLLOWED = ("transitions", "limits")  # the work that the range of α follows
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
        common |= {"noise": settings.noise, "strength": settings.strength}
    if settings.correlated:
        common |= {"features": settings.features}
    grid: Task = {name: getattr(settings, name) for name in GRID}
    if settings.shown in SCORES:
        grid["shown"] = settings.shown

    def rank(name: str) -> tuple[bool, ...]:  # tables and closed forms before the others
        one = settings.estimator(name)
        return not one.branches, not one.explicit, not one.hard_margin

    short: list[Task] = []
    long: list[Task] = []
    for name in sorted(settings.estimators, key=rank):
        ridge: Task = {}
        if settings.estimator(name).takes_ridge:
            ridge = {"ridge_rule": settings.ridge_rule}
            if settings.ridge_rule == "fixed":
                ridge["ridge"] = settings.ridge
            if settings.penalty != RIDGE:
                ridge |= {"penalty": settings.penalty, "l1": settings.l1}
        curve = {"kind": "curve", "estimators": name, **common, **grid, **ridge}
        halves = [curve]
        if is_slow(curve) and settings.points >= 12 and rank(name)[0]:
            # Two workers share it; the points of one with branches share their tables instead.
            alphas, middle = spaced(settings, settings.points), settings.points // 2
            halves = [
                {**curve, "low": half[0], "high": half[-1], "points": len(half)}
                for half in (alphas[:middle], alphas[middle:])
            ]
        (long if all(rank(name)) else short).extend(halves)
    others: list[Task] = [{"kind": "transitions", **common}] if settings.finite_prior else []
    others.append({"kind": "landscape", "alpha": settings.alpha, **common, "low": 0, "high": 1000})
    if settings.noisy:
        others.append({"kind": "limits", **common})
    return [*short, *others, *long]


def first_tasks(settings: PageSettings) -> list[Task]:
    """What to compute before the range is known: what it follows, and what need not wait for it."""
    tasks = tasks_of(settings) if settings.range_rule == "follow" else []
    found = [task for task in tasks if task["kind"] in FOLLOWED]
    rest = [task for task in tasks if task["kind"] == "landscape"]
    if any(is_slow(task) for task in found):
        rest += [task for task in tasks if not is_slow(task)]
    return [*found, *rest] if found else []


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
    ends = any(settings.estimator(name).hard_margin for name in settings.estimators)
    if separable <= (30.0 if ends else 2 * high):
        high = max(high, math.ceil(2.5 * separable) / 2)
    return PageSettings.low, high


def key_of(task: Task) -> str:
    """One string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Whether a task may take more than a second, so that it must not hold up the others."""
    name = task.get("estimators")
    if name is not None and "penalty" not in task and make_estimator(name).explicit:
        return False
    return bool(task["k"] > 3 or "penalty" in task or task.get("ridge_rule") == "optimal")


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer to a task, in one piece or several.

    Each piece has the latest `result` with the number of points `done`, or one more `row`.
    """
    kind = task.get("kind")
    settings = make_settings({name: value for name, value in task.items() if name != "kind"})
    teacher, k = settings.teacher, settings.teacher.n_classes
    if kind == "curve":
        yield from _curve(settings)
    elif kind == "simulation":
        yield from simulate(settings)
    elif kind == "transitions":
        from polyceptron.theory.bayes_optimal.transitions import transitions

        yield {"result": transitions(teacher, 0.01 if k > 3 else None).as_dict(), "done": 1}
    elif kind == "limits":  # the error of the teacher itself, and where its labels can be separated
        from polyceptron.theory.generalisation import error_floor
        from polyceptron.theory.separability import separability

        found = {"floor": error_floor(teacher.channel, k)}
        found["alpha_s"] = separability(teacher, 0.02 if k > 3 else None).alpha_s
        yield {"result": found, "done": 1}
    elif kind == "landscape":
        from polyceptron.theory.curve import landscape

        yield {"result": landscape(teacher, settings.alpha, tolerance(k)), "done": 1}
    else:
        raise InvalidInput(f"unknown work {kind!r}")


def _curve(settings: PageSettings) -> Iterator[dict[str, Any]]:
    from polyceptron.theory.curve import curve_rows, fold_grid

    alphas = spaced(settings, settings.points)
    teacher, estimator = settings.teacher, settings.estimator(settings.estimators[0])
    few, scores = teacher.n_classes <= 3, settings.shown in SCORES
    # Of few classes the points with branches share their tables: one costs as much as all of them.
    whole = estimator.explicit or (estimator.branches and few and not scores)
    steps = [range(len(alphas))] if whole else coarse_to_fine(len(alphas))
    parts = [[alphas[i] for i in part] for part in steps]
    searched = {alphas[0], alphas[-1]}  # a search takes a second with many classes; between
    if few or whole:  # the ends of half a curve the error is off by 1e-4 at most
        searched.update(parts[0])
    if settings.ridge_rule == "optimal" and estimator.takes_ridge and not (whole or scores):
        rest = [[alpha for alpha in part if alpha not in searched] for part in parts]
        parts = [*([alpha] for alpha in sorted(searched)), *filter(None, rest)]
    if estimator.branches:
        parts[-1] += fold_grid(teacher, alphas)
    ask: dict[str, Any] = {"branch": "all", "tol": tolerance(teacher.n_classes)}
    if scores:  # of many classes a score takes seconds: few points have one
        found: Iterator[list[Row]] = (
            curve_rows(teacher, estimator, part, scores=few or part is parts[0], **ask)
            for part in parts
        )
    else:
        found = estimator.parts(teacher, parts, searched=len(searched), **ask)
    rows: list[Row] = []
    done = 0
    for some, part in zip(parts, found, strict=True):
        rows, done = rows + part, min(done + len(some), len(alphas))
        ordered = sorted(rows, key=lambda row: float(row["alpha"]))
        yield {"result": [json_ready(row) for row in ordered], "done": done}


def simulate(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    teacher = settings.teacher
    for i, alpha in enumerate(spaced(settings, settings.places)):
        student = settings.student
        if student.takes_ridge and settings.ridge_rule == "optimal":
            from polyceptron.theory.erm.fixed_point import optimal_ridge

            within = tolerance(teacher.n_classes)
            student = student.with_ridge(optimal_ridge(teacher, student.name, alpha, within))
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
    return TEST_SAMPLES if settings.shown in SCORES else None
