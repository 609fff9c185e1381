"""How much data reaches a given error: the smallest α with ε(α) ≤ target.

A learning curve need not fall all the way. Without a ridge the square loss errs most at α = 1,
where n = d (double descent), other losses may near α_s, and a curve that rises to a maximum has a
dip before it: the answer may lie on the way down into a dip. With x = ln α and the excess
e(x) = ln(ε/target), the search goes upwards from an α below which no rule reaches the target
(where the Bayes-optimal error arrives, if that is known) and keeps all points in order.

1. Coarse steps, with points at the places where maxima are known to be.
2. An interval between neighbours is halved while e may vanish inside it: where it changes sign, and
   where both ends are closer to 0 than the curve could fall and rise again. How steep a curve can
   be is judged by the steepest of this interval and its neighbours.
3. At a point below both neighbours the minimum is found, as far as it takes to see its sign.
4. The first interval in which e changes sign has the answer, by Brent's method.

A curve with a best ridge, and that of the Bayes-optimal student, only fall: steps 2 and 3 are left
out. Where the Bayes-optimal error jumps, a target inside the jump is reached just above it: at α_IT
if every means is allowed, at α_algo by message passing.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, overload

from scipy.optimize import brentq, minimize_scalar

from polyceptron.checks import check_size
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.problem.specs import ERM, Estimator, plain_estimators
from polyceptron.progress import steps
from polyceptron.rows import make_row
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import Student, student_of
from polyceptron.students.base import Jump
from polyceptron.theory.bayes.population_rule import population_floor
from polyceptron.theory.separability import separable_up_to

BEST_RIDGE = "optimal"  # as estimators call it
SMALLEST_ALPHA = 1e-3
LARGEST_ALPHA = 1e6
# A row of unequal classes takes longer: their search begins here if their error falls from here on.
SMALLEST_ALPHA_UNEQUAL = 0.05
PRECISION = 1e-4  # of ln α
# Tolerance of the errors of unequal classes while α is searched for.
TOLERANCE_OF_SEARCH = 1e-3
# Max-margin is not asked closer to α_s than this share of it, by k (2 also for alike classes).
MARGIN_BELOW_ALPHA_S = {2: 1e-3, 3: 0.02}
MARGIN_BELOW_ALPHA_S_ELSE = 0.1

# Steps of x = ln α.
FIRST_STEP = 0.2
LARGEST_STEP = 0.7  # of a curve that only falls; half of it where there may be dips
FINEST_INTERVAL = 0.05  # halved no further: dips this narrow next to no maximum are not looked for
# A curve falls and rises in an interval at most this many times as steeply as its neighbours do.
# With 1 a dip of test_planner.py is overlooked, with 2.5 none.
STEEPER_INSIDE = 2.5
SLOPE_DISTANCES = (0.02, 0.002)  # of the points from which slopes are taken

# The status of an estimator that never errs so little, and of one that is refused.
OUT_OF_REACH = "out of reach"
NO_THEORY = "no theory"


@dataclass(frozen=True, repr=False)
class Plan(ShortDisplay):
    """The sample ratio that reaches an error, its uncertainty, and the row at that α.

    For the Bayes-optimal estimator α is where the error becomes possible, and `algorithm` is the
    plan of message passing. If the error jumps past the target, `at_jump` is True and α is just
    above the jump. An estimator that never reaches the error, or has no theory here, has α = ∞; the
    status of its row says which.
    """

    alpha: float
    alpha_uncertainty: float
    n_samples: int | None
    row: dict[str, Any]
    at_jump: bool = False
    algorithm: Plan | None = None

    def _facts(self) -> dict[str, Any]:
        return {"estimator": self.row["estimator"], **super()._facts()}


class OutOfReach(InvalidInput):
    """An error below that of the estimator at every α."""


@overload
def plan(
    teacher: Population,
    error: float,
    estimator: Estimator | str,
    dimension: int | None = None,
    *,
    ridge: float | str = BEST_RIDGE,
) -> Plan: ...
@overload
def plan(
    teacher: Population,
    error: float,
    estimator: list[Any] | tuple[Any, ...] | None = None,
    dimension: int | None = None,
    *,
    ridge: float | str = BEST_RIDGE,
) -> list[Plan]: ...
def plan(
    teacher: Any,
    error: float,
    estimator: Estimator | str | Sequence[Estimator | str] | None = None,
    dimension: int | None = None,
    *,
    ridge: float | str = BEST_RIDGE,
) -> Plan | list[Plan]:
    """Return the smallest α (and n = αd, rounded up) at which `estimator` errs at most `error`.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    error : float
    estimator : Estimator, its name, or a list of them
        By default those of the paper. An estimator that is an object keeps its own ridge.
    dimension : int, optional
        With it the answer has `n_samples` too.
    ridge : float or 'optimal'
        The ridge of estimators that are given by name, or compared by default. By default it is
        'optimal', the best one at each α, so that no estimator loses by an unlucky ridge.

    Returns
    -------
    Plan, or a list of them for a list
        Where the curve dips below `error` and rises again, α is on the way into the first dip.

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> round(plan(Teacher(3), 0.30546, ERM("square", 1.0)).alpha, 2)
    2.0
    """
    if estimator is None or isinstance(estimator, list | tuple):
        return list(plans(teacher, error, estimator, dimension, ridge=ridge))
    check_population(teacher)
    error = check_target(error, teacher.n_classes)
    _check_above_floor(teacher, error)
    d = None
    if dimension is not None:
        d = check_size(dimension, "dimension")
    student = _compared_student(estimator, ridge)
    jumps = student.jumps(teacher)
    if jumps:
        of_the_best = [jump for jump in jumps if jump.branch == "optimal"]
        of_message_passing = [jump for jump in jumps if jump.branch == "amp"]
        possible = _plan_with_jumps(teacher, student, error, of_the_best, d)
        reached = _plan_with_jumps(teacher, student, error, of_message_passing, d)
        return replace(possible, algorithm=reached)
    found = _plan_without_jump(teacher, student, error, d)
    if student.spec.branches:
        return replace(found, algorithm=found)
    return found


def _compared_student(estimator: Any, ridge: float | str) -> Student:
    """Return the student that is meant: one that is only named has the ridge of the comparison."""
    student = student_of(estimator)
    if isinstance(estimator, str) and student.spec.takes_ridge:
        return student_of(student.spec.with_ridge(ridge))
    return student


def plans(
    teacher: AnyTeacher,
    error: float,
    estimators: Sequence[Estimator | str] | None = None,
    dimension: int | None = None,
    *,
    ridge: float | str = BEST_RIDGE,
) -> Iterator[Plan]:
    """Yield the plan of each estimator as soon as it is known; if none reaches the error, raise.

    The parameters are those of `plan`.
    """
    check_population(teacher)
    if estimators is None:
        estimators = [estimator.name for estimator in plain_estimators()]
    students = [_compared_student(estimator, ridge) for estimator in estimators]
    missed = 0
    for student in students:
        try:
            yield plan(teacher, error, student.spec, dimension)
        except InvalidInput as refused:
            missed += 1
            if missed == len(students):
                raise
            status = NO_THEORY
            if isinstance(refused, OutOfReach):
                status = OUT_OF_REACH
            row = {**teacher.columns, **student.spec.columns, "status": status}
            yield Plan(math.inf, math.nan, None, row)


def check_target(error: Any, n_classes: int) -> float:
    """An error that can be asked for, or an error message."""
    guess = 1 - 1 / n_classes
    try:
        value = float(error)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < guess:
        raise InvalidInput(
            f"the target error must lie between 0 and {guess:.4g}, the error of a guess among "
            f"{n_classes} classes; got {error!r}"
        )
    return value


def _check_above_floor(teacher: AnyTeacher, error: float) -> None:
    """Raise `OutOfReach` for an error that no rule has."""
    if teacher.symmetric:
        floor = error_floor(teacher.channel, teacher.n_classes)
    else:
        floor = float(population_floor(teacher).value)
    if error <= floor:
        raise OutOfReach(
            f"an error of {error:g} is out of reach: no rule errs less than {floor:.6g} "
            "here, not even one that knows how the labels are made"
        )


def _plan_with_jumps(
    teacher: AnyTeacher,
    student: Student,
    error: float,
    jumps: Sequence[Jump],
    dimension: int | None,
) -> Plan:
    """Return the plan on one branch of a curve that jumps, each time to a smaller error."""
    curve = ErrorCurve(teacher, student, jumps[0].branch)
    low = math.log(SMALLEST_ALPHA)
    high = math.log(LARGEST_ALPHA)
    for jump in jumps:
        beside = max(3 * jump.uncertainty, 1e-7 * jump.alpha)
        below = math.log(jump.alpha - beside)
        above = math.log(jump.alpha + beside)
        if curve(below) <= error:
            high = below
            break
        if curve(above) <= error:
            curve.close()
            return _made_plan(curve, above, beside, dimension, at_jump=True)
        low = above
    return _plan_on_smooth_curve(curve, error, (low, high), dimension)


def _plan_without_jump(
    teacher: AnyTeacher, student: Student, error: float, dimension: int | None
) -> Plan:
    """Return the plan on a continuous curve, between the α at which an answer can lie."""
    curve = ErrorCurve(teacher, student, "optimal")
    top = _largest_alpha(teacher, student)
    bottom = SMALLEST_ALPHA
    if not teacher.symmetric and top > SMALLEST_ALPHA_UNEQUAL:
        if not _is_reached_or_rising(curve, error, math.log(SMALLEST_ALPHA_UNEQUAL)):
            bottom = SMALLEST_ALPHA_UNEQUAL
    elif _bayes_is_quicker(teacher, student):
        needed_by_all = plan(teacher, error, "bayes").alpha * (1 - MARGIN_BELOW_ALPHA_S[2])
        bottom = min(needed_by_all, top)
    return _plan_on_smooth_curve(curve, error, (math.log(bottom), math.log(top)), dimension)


def _is_reached_or_rising(curve: Callable[[float], float], error: float, log_alpha: float) -> bool:
    """Tell whether the answer may lie below an α: the error is small enough there, or it rises."""
    there = curve(log_alpha)
    if there <= error:
        return True
    return curve(log_alpha - FIRST_STEP) < there


def _largest_alpha(teacher: AnyTeacher, student: Student) -> float:
    """Return the largest α at which the student is asked: for max-margin it is below α_s."""
    short_of = MARGIN_BELOW_ALPHA_S[2]
    if not teacher.symmetric:
        short_of = MARGIN_BELOW_ALPHA_S.get(teacher.n_classes, MARGIN_BELOW_ALPHA_S_ELSE)
    return min(LARGEST_ALPHA, (1 - short_of) * student.largest_alpha(teacher))


def _bayes_is_quicker(teacher: AnyTeacher, student: Student) -> bool:
    """Tell whether the Bayes-optimal plan, a bound for all others, costs less than a few rows."""
    if student.spec.branches or student.spec.explicit:
        return False
    return bool(teacher.symmetric and teacher.prior.gaussian)


def _plan_on_smooth_curve(
    curve: ErrorCurve, error: float, bounds: tuple[float, float], dimension: int | None
) -> Plan:
    """Return the plan between two values of ln α."""
    log_alpha = _first_alpha(curve, error, bounds)
    slope = _slope(curve, log_alpha, bounds)
    if curve.is_rough:
        corrected = _corrected(curve, error, log_alpha, slope)
        if corrected is None:  # a dip is reached at one tolerance and not at the other
            curve.is_rough = False
            log_alpha = _first_alpha(curve, error, bounds)
            slope = _slope(curve, log_alpha, bounds)
        else:
            log_alpha = corrected
    curve.close()
    relative = PRECISION
    if slope < 0:
        relative += float(curve.row(log_alpha)["uncertainty"]) / -slope
    else:  # the curve is level here
        relative += SLOPE_DISTANCES[0]
    return _made_plan(curve, log_alpha, math.exp(log_alpha) * relative, dimension, at_jump=False)


def _first_alpha(curve: ErrorCurve, error: float, bounds: tuple[float, float]) -> float:
    """Return the first ln α that reaches the error, looking for dips where there may be any."""
    name = curve.student.spec.name
    if not may_dip(curve.student.spec):
        return first_crossing(curve, error, bounds, name, dips=False, marks=())
    marks = maxima_to_expect(curve.teacher, curve.student.spec)
    return first_crossing(curve, error, bounds, name, marks=marks)


def _made_plan(
    curve: ErrorCurve, log_alpha: float, spread: float, dimension: int | None, *, at_jump: bool
) -> Plan:
    """Return the plan at a known α with its uncertainty."""
    alpha = math.exp(log_alpha)
    n = None
    if dimension is not None:
        n = math.ceil(alpha * dimension - 1e-9)
    row = make_row(**{**curve.row(log_alpha), "dimension": dimension, "n_samples": n})
    return Plan(alpha, spread, n, row, at_jump)


def _slope(curve: Callable[[float], float], log_alpha: float, bounds: tuple[float, float]) -> float:
    """Return dε/d ln α at an answer, from closer points if the curve turns beside it."""
    slope = 0.0
    for distance in SLOPE_DISTANCES:
        right = min(log_alpha + distance, bounds[1])
        left = log_alpha - distance
        slope = (curve(right) - curve(left)) / (right - left)
        if slope < 0:
            break
    return slope


def _corrected(curve: ErrorCurve, error: float, log_alpha: float, slope: float) -> float | None:
    """Return ln α corrected for the rough tolerance, or None if no small step leads to it."""
    if not slope < 0:
        return log_alpha
    for _ in range(4):
        step = (error - float(curve.row(log_alpha)["generalisation_error"])) / slope
        if abs(step) <= PRECISION:
            return log_alpha
        if abs(step) > FINEST_INTERVAL:
            return None
        log_alpha += step
    return log_alpha


@dataclass
class ErrorCurve:
    """The error of a student against ln α, each row remembered; called, it is a number.

    `is_rough` says that calls have the tolerance of a search; `row` has the usual one.
    """

    teacher: AnyTeacher
    student: Student
    branch: str
    is_rough: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_rough = not self.teacher.symmetric
        self._known: dict[tuple[float, float | None], dict[str, Any]] = {}
        self._asked: list[float] = []
        self._rows = {tol: self._made_rows(tol) for tol in (None, TOLERANCE_OF_SEARCH)}
        self._progress = steps(range(20))  # as many rows as are usual

    def __call__(self, log_alpha: float) -> float:
        """Return ε, NaN where there is none."""
        tol = TOLERANCE_OF_SEARCH if self.is_rough else None
        return float(self._row(log_alpha, tol)["generalisation_error"])

    def row(self, log_alpha: float) -> dict[str, Any]:
        """Return the row of theory, to the usual tolerance."""
        return self._row(log_alpha, None)

    def close(self) -> None:
        """End the progress that is shown."""
        self._progress.close()

    def _row(self, log_alpha: float, tol: float | None) -> dict[str, Any]:
        if (log_alpha, tol) not in self._known:
            next(self._progress, None)
            self._asked.append(math.exp(log_alpha))
            (self._known[log_alpha, tol],) = next(self._rows[tol])
        return self._known[log_alpha, tol]

    def _made_rows(self, tol: float | None) -> Iterator[list[dict[str, Any]]]:
        """Return one curve, so that each row may start from those before it."""
        asked = iter(lambda: [self._asked.pop()], None)
        return self.student.parts(self.teacher, asked, branch=self.branch, tol=tol)


def may_dip(student: Estimator) -> bool:
    """Tell whether the student's error may rise with more data.

    That of the Bayes-optimal student and of a best ridge does not: less data could be used.
    """
    return not (student.branches or getattr(student, "ridge", None) == "optimal")


def maxima_to_expect(teacher: AnyTeacher, student: Estimator) -> tuple[float, ...]:
    """Return values of ln α near which an error may be largest.

    α = 1, where n = d, for the square loss; without a ridge α_s for the others.
    """
    marks = [0.0]
    if isinstance(student, ERM) and not student.explicit and student.ridge == 0:
        alpha_s = (1 - MARGIN_BELOW_ALPHA_S[2]) * separable_up_to(teacher, student.intercept)
        if 0 < alpha_s < LARGEST_ALPHA:
            marks.append(math.log(alpha_s))
    return tuple(marks)


def first_crossing(
    curve: Callable[[float], float],
    error: float,
    bounds: tuple[float, float],
    name: str,
    *,
    dips: bool = True,
    marks: tuple[float, ...] = (0.0,),
) -> float:
    """Return the least ln α between bounds where the curve is at most `error`.

    Parameters
    ----------
    curve : callable
        ln α → ε, NaN above where the student is defined.
    error : float
    bounds : (float, float)
        Of ln α.
    name : str
        Of the student, for the message if the error is not reached.
    dips : bool
        Whether the curve may rise.
    marks : tuple of float
        Values of ln α at which a maximum may be, and which no step passes over.

    Raises
    ------
    OutOfReach
        With the error at the largest α.
    """
    search = Crossing(curve, error)
    left, top = bounds
    search.add(left)
    if search.excess(left) <= 0:
        return left
    largest_step = LARGEST_STEP
    if dips:
        largest_step = LARGEST_STEP / 2
    step = FIRST_STEP
    while left < top:
        right = min(left + step, top)
        right = min([right, *(mark for mark in marks if left < mark)])
        if math.isnan(curve(right)):
            if step < 0.01:  # next to an α above which there is no error
                break
            step /= 2
            continue
        search.add(right)
        if dips:
            search.look_for_dips()
        bracket = search.first_bracket()
        if bracket is not None:
            return float(brentq(search.excess, *bracket, xtol=PRECISION, rtol=1e-12))
        left = right
        step = min(1.5 * step, largest_step)
    raise OutOfReach(_why_out_of_reach(curve, error, left, top, name))


@dataclass
class Crossing:
    """Points of a curve in order of ln α, and what they say of the target between them."""

    curve: Callable[[float], float]
    error: float
    points: list[float] = field(default_factory=list)
    bottoms: set[float] = field(default_factory=set)  # points of dips whose minimum is known

    def excess(self, log_alpha: float) -> float:
        """Return ln(ε/target)."""
        return math.log(max(self.curve(log_alpha), 1e-300) / self.error)

    def add(self, log_alpha: float) -> None:
        """Keep one more point."""
        insort(self.points, log_alpha)

    def first_bracket(self) -> tuple[float, float] | None:
        """Return the first neighbours between which the target is reached."""
        for left, right in zip(self.points, self.points[1:], strict=False):
            if self.excess(right) <= 0 < self.excess(left):
                return left, right
        return None

    def look_for_dips(self) -> None:
        """Add points until no dip below the target can be left before the first bracket."""
        while (index := self._first_open_interval()) is not None:
            self.add((self.points[index] + self.points[index + 1]) / 2)
        while (index := self._first_unknown_dip()) is not None:
            bottom = self._bottom(self.points[index - 1], self.points[index + 1])
            self.bottoms.update((self.points[index], bottom))
            self.add(bottom)

    def _first_unknown_dip(self) -> int | None:
        """Return the first point below its neighbours around which the target may be reached."""
        for index in range(1, len(self.points) - 1):
            before, here, after = (self.excess(x) for x in self.points[index - 1 : index + 2])
            if here <= 0:
                return None
            if self.points[index] in self.bottoms or not before > here <= after:
                continue
            if self._may_cross(index - 1) or self._may_cross(index):
                return index
        return None

    def _bottom(self, left: float, right: float) -> float:
        """Return where the curve is lowest between two points."""
        found = minimize_scalar(
            self.excess, bounds=(left, right), method="bounded", options={"xatol": PRECISION}
        )
        return float(found.x)

    def _first_open_interval(self) -> int | None:
        """Return the first interval that has to be halved, up to the first bracket."""
        for index, (left, right) in enumerate(zip(self.points, self.points[1:], strict=False)):
            if right - left > FINEST_INTERVAL and self._may_cross(index):
                return index
            if self.excess(right) <= 0:
                return None
        return None

    def _may_cross(self, index: int) -> bool:
        """Tell whether the target may be reached between two neighbours.

        With slopes up to L in size a curve with excess e₁, e₂ at the ends of an interval of length
        h is nowhere below (e₁ + e₂ − Lh)/2.
        """
        left = self.points[index]
        right = self.points[index + 1]
        steepest = STEEPER_INSIDE * self._steepness_around(index)
        lowest = (self.excess(left) + self.excess(right) - steepest * (right - left)) / 2
        return lowest <= 0

    def _steepness_around(self, index: int) -> float:
        """Return the largest |slope| of an interval and its neighbours."""
        slopes = []
        for first in range(max(index - 1, 0), min(index + 2, len(self.points) - 1)):
            left = self.points[first]
            right = self.points[first + 1]
            slopes.append(abs(self.excess(right) - self.excess(left)) / (right - left))
        return max(slopes)


def _why_out_of_reach(
    curve: Callable[[float], float], error: float, log_alpha: float, top: float, name: str
) -> str:
    """Return the message of a search that ended at `log_alpha`."""
    instead = "take a larger error, or an estimator with a ridge above 0"
    ended = math.isnan(curve(log_alpha))
    why = "the largest that is tried"
    if log_alpha < top or ended:
        why = f"beyond which that of {name} was not found: {instead}"
    elif top < math.log(LARGEST_ALPHA):
        why = f"next to alpha_s, where {name} ends: {instead}"
    still = f"still {curve(log_alpha):.3g}"
    if ended:
        still = "not known"
    return (
        f"an error of {error:g} is out of reach: it is {still} at "
        f"alpha = {math.exp(log_alpha):g}, {why}"
    )
