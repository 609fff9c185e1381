"""How much data for a given error: the smallest α with ε(α) ≤ target, per estimator.

A search in ln α goes upwards from where the Bayes-optimal error, which nobody surpasses, arrives,
and brackets the answer. Errors that are not monotone (the square loss without ridge) are met from
the left, so the answer is the smallest α. Where the Bayes-optimal error jumps, a target inside the
jump is reached just above it: at α_IT if every means is allowed, at α_algo by message passing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, overload

from scipy.optimize import brentq

from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_size
from polyceptron.model.estimators import Estimator, as_estimator, plain_estimators
from polyceptron.model.estimators.estimator import Jump
from polyceptron.model.populations import AnyTeacher, check_population
from polyceptron.rows import make_row
from polyceptron.theory.generalisation import error_floor
from polyceptron.theory.populations.best_rules import population_floor

SMALLEST_ALPHA, LARGEST_ALPHA = 1e-3, 1e6
PRECISION = 1e-4  # of ln α
OUT_OF_REACH = "out of reach"  # the status of an estimator that never errs so little
_MARGINLESS = 1e-3  # of α_s: so close to it max-margin is not asked
_SHORTEST = 0.01  # step of ln α towards where a curve ends


@dataclass(frozen=True, repr=False)
class Plan(ShortDisplay):
    """The sample ratio that reaches an error, its uncertainty, and the row at that α.

    `at_jump`: the target lies inside a jump of the error, and α is just above it. For the
    Bayes-optimal estimator α is what is possible, `algorithm` what message passing can follow. One
    that never reaches the error has α = ∞.
    """

    alpha: float
    alpha_uncertainty: float
    n_samples: int | None
    row: dict[str, Any]
    at_jump: bool = False
    algorithm: Plan | None = None

    def _facts(self) -> dict[str, Any]:
        return {"estimator": self.row["estimator"], **super()._facts()}


@overload
def plan(
    teacher: AnyTeacher, error: float, estimator: Estimator | str, dimension: int | None = None
) -> Plan: ...
@overload
def plan(
    teacher: AnyTeacher,
    error: float,
    estimator: list[Any] | tuple[Any, ...] | None = None,
    dimension: int | None = None,
) -> list[Plan]: ...
def plan(
    teacher: AnyTeacher, error: float, estimator: Any = None, dimension: int | None = None
) -> Plan | list[Plan]:
    """The smallest α (and n = αd, rounded up) at which `estimator` errs at most `error`.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    error : float
    estimator : Estimator, its name, or a list of them
        By default each that is registered.
    dimension : int, optional
        With it the answer has `n_samples` too.

    Returns
    -------
    Plan, or a list of them for a list

    Examples
    --------
    >>> from polyceptron.model import ERM, Teacher
    >>> round(plan(Teacher(3), 0.30546, ERM("square", 1.0)).alpha, 2)
    2.0
    """
    if estimator is None or isinstance(estimator, list | tuple):
        return list(plans(teacher, error, estimator, dimension))
    check_population(teacher)
    error = check_target(error, teacher.n_classes)
    if teacher.symmetric:
        floor = error_floor(teacher.channel, teacher.n_classes)
    else:
        floor = float(population_floor(teacher).value)
    if error <= floor:
        raise InvalidInput(
            f"an error of {error:g} is out of reach: no rule errs less than {floor:.6g} on "
            f"{teacher!r}, not even one that knows it"
        )
    d = None if dimension is None else check_size(dimension, "dimension")
    student = as_estimator(estimator)
    jumps = student.jumps(teacher)
    if not jumps:
        top = min(LARGEST_ALPHA, (1 - _MARGINLESS) * student.largest_alpha(teacher))
        bottom = SMALLEST_ALPHA
        alike = teacher.symmetric and teacher.prior.gaussian
        if alike and not (student.branches or student.explicit):
            bottom = min(plan(teacher, error, "bayes").alpha * (1 - _MARGINLESS), top)
        found = _answer(teacher, student, error, None, d, (bottom, top))
        return replace(found, algorithm=found) if student.branches else found
    best, reached = (_answer(teacher, student, error, jump, d) for jump in jumps)
    return replace(best, algorithm=reached)


def plans(
    teacher: AnyTeacher, error: float, estimators: Any = None, dimension: int | None = None
) -> Iterator[Plan]:
    """The plan of each estimator as soon as it is known; if none reaches the error it is raised."""
    students = plain_estimators() if estimators is None else [*map(as_estimator, estimators)]
    missed = 0
    for student in students:
        try:
            yield plan(teacher, error, student, dimension)
        except InvalidInput:
            missed += 1
            if missed == len(students):
                raise
            row = {**teacher.columns, **student.columns, "status": OUT_OF_REACH}
            yield Plan(math.inf, math.nan, None, row)


def check_target(error: Any, n_classes: int) -> float:
    """An error that can be asked for, or an error message."""
    guess = 1 - 1 / n_classes
    try:
        value = float(error)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or not 0 < value < guess:
        raise InvalidInput(
            f"the target error must lie between 0 and {guess:.4g}, the error of a guess among "
            f"{n_classes} classes; got {error!r}"
        )
    return value


def _answer(
    teacher: AnyTeacher,
    student: Estimator,
    error: float,
    jump: Jump | None,
    dimension: int | None,
    ends: tuple[float, float] = (SMALLEST_ALPHA, LARGEST_ALPHA),
) -> Plan:
    """The plan on one curve between `ends`, which may jump."""
    branch = "optimal" if jump is None else jump.branch

    @cache
    def row_at(log_alpha: float) -> dict[str, Any]:
        (row,) = student.rows(teacher, [math.exp(log_alpha)], branch=branch)
        return row

    def curve(log_alpha: float) -> float:
        return float(row_at(log_alpha)["generalisation_error"])

    bounds, at_jump, spread = (math.log(ends[0]), math.log(ends[1])), False, 0.0
    if jump is not None:
        spread = max(3 * jump.uncertainty, 1e-7 * jump.alpha)
        below, above = math.log(jump.alpha - spread), math.log(jump.alpha + spread)
        if curve(below) <= error:
            bounds = (bounds[0], below)
        elif curve(above) <= error:
            at_jump = True
        else:
            bounds = (above, bounds[1])
    log_alpha = above if at_jump else _smallest_root(curve, error, bounds, student.name)
    alpha, row = math.exp(log_alpha), row_at(log_alpha)
    if not at_jump:
        right = min(log_alpha + 0.02, bounds[1])
        slope = (curve(right) - curve(log_alpha - 0.02)) / (right - log_alpha + 0.02)
        spread = alpha * PRECISION
        if slope < 0:
            spread += alpha * float(row["uncertainty"]) / -slope
    n = None if dimension is None else math.ceil(alpha * dimension - 1e-9)
    row = make_row(**{**row, "dimension": dimension, "n_samples": n})
    return Plan(alpha, spread, n, row, at_jump)


def _smallest_root(
    curve: Callable[[float], float], error: float, bounds: tuple[float, float], name: str
) -> float:
    """The first crossing of `error` from above, scanning upwards to where there is no error."""

    def excess(log_alpha: float) -> float:
        return math.log(max(curve(log_alpha), 1e-300) / error)

    (left, top), step = bounds, 0.2
    if excess(left) <= 0:
        return left
    while left < top:
        right = min(left + step, top)
        if excess(right) <= 0:
            return float(brentq(excess, left, right, xtol=PRECISION, rtol=1e-12))
        if math.isnan(curve(right)):
            if step < _SHORTEST:
                break
            step /= 2
        else:
            left, step = right, min(1.5 * step, 0.7)
    instead = "take a larger error, or an estimator with a ridge above 0"
    why = "the largest that is tried"
    if left < top or math.isnan(curve(left)):
        why = f"beyond which that of {name} was not found: {instead}"
    elif top < math.log(LARGEST_ALPHA):
        why = f"next to alpha_s, where {name} ends: {instead}"
    still = "not known" if math.isnan(curve(left)) else f"still {curve(left):.3g}"
    raise InvalidInput(
        f"an error of {error:g} is out of reach: it is {still} at alpha = {math.exp(left):g}, {why}"
    )
