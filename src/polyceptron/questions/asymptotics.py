"""How the error falls when data are plentiful: ε ≈ ε₀ + C α^(−p), ε₀ the floor of noisy labels.

Two independent routes. The measured one solves the equations at geometrically spaced α, takes the
local exponents −Δln ε/Δln α and extrapolates them. The exact one uses that only pairs of classes
meet in this limit: k classes behave as two at α₂ = αB_k/(k−1), with B_k the density of class
boundaries (B₂ = 1), and the error is B_k times theirs, so

    C_k = B_k (B_k/(k−1))^(−p) C₂,        p = 1:  C_k = (k−1) C₂.

Exponents: Bayes 1, max-margin 1, optimally regularised cross-entropy 1 (its best ridge falls as
α⁻²), cross-entropy at fixed λ 2/3 (the norm grows as (α/λ)^(1/3)), square loss 1/2.

With noise the angle θ between student and teacher falls as α^(−1/2) for every smooth loss. Where
the labels' law is smooth the excess over the floor is quadratic in θ: p = 1, as for Bayes. Flips
leave a sharp boundary: the excess is linear in θ and p = 1/2, but 1 for Bayes, which finds it.

Unequal classes with smooth labels (mixtures, noisy teachers): ε₀ is the error of the risk's own
minimiser, which may be above that of the best rule, and ε may rise to it: C has either sign. p = 1,
and ε₀ follows from one more point, ε₀ = ε(Fα) − [ε(α) − ε(Fα)]/(F − 1).

A plan is the smallest α with ε(α) ≤ target: a search in ln α goes upwards from where the
Bayes-optimal error, which nobody surpasses, arrives, and brackets the answer. Errors that are not
monotone (the square loss without ridge) are met from the left. Where the Bayes-optimal error jumps,
a target inside the jump is reached just above it: at α_IT if every means is allowed, at α_algo by
message passing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, overload

import numpy as np
from scipy.optimize import brentq

from polyceptron.checks import check_size
from polyceptron.display import ShortDisplay, steps
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.problem.law import Decay
from polyceptron.problem.populations import AnyTeacher, Teacher, check_population
from polyceptron.problem.specs import Estimator, plain_estimators
from polyceptron.rows import Status, make_row
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import Student, student_of
from polyceptron.students.base import Jump
from polyceptron.theory.best_rules import population_floor

RATIO = 4.0  # between neighbouring α
N_POINTS = 6
SMALLEST_ALPHA, LARGEST_ALPHA = 1e-3, 1e6
_FAR = 100.0  # F
_FEW = 0.05  # α from which unequal classes, of which a row takes longer, are searched
PRECISION = 1e-4  # of ln α
_LOOSE, _POLISHED = 1e-3, 4  # tolerance on the way to it, and steps after that
_ROWS = 15  # about as many as it takes to find an α
# The status of an estimator that never errs so little, and of one that is refused.
OUT_OF_REACH, NO_THEORY = "out of reach", "no theory"
_MARGINLESS = {2: 1e-3, 3: 0.02}  # of α_s: so close to it max-margin is not asked; by matrices
_SHORTEST = 0.01  # step of ln α towards where a curve ends


@dataclass(frozen=True, repr=False)
class Asymptotics(ShortDisplay):
    """ε ≈ floor + C α^(−p), measured up to `alpha[-1]`, with exact values where they are known."""

    exponent: float
    exponent_uncertainty: float
    constant: float  # at the exact exponent if there is one, else at the measured one
    constant_uncertainty: float
    exact_exponent: float | None
    exact_constant: float | None
    alpha: Array
    generalisation_error: Array
    uncertainty: Array
    ridge: Array
    local_exponent: Array  # between neighbours, one fewer
    status: Status
    floor: float = 0.0  # ε₀: on noisy labels that of the teacher itself, where classes are alike
    floor_uncertainty: float = 0.0


def asymptotics(
    teacher: Any, estimator: Estimator | str = "bayes", alpha_max: float | None = None
) -> Asymptotics:
    """Exponent and constant of the error at large α, each with its uncertainty.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
        Where classes are not alike, a mixture or one with smooth noise.
    estimator : Estimator or str
        An estimator or its name.
    alpha_max : float, optional
        By default 1e6 for two and three classes, and 1e4 above or with noise; 400 for three and
        more classes that are not alike.

    Returns
    -------
    Asymptotics

    Examples
    --------
    >>> from polyceptron.problem import BayesOptimal, Teacher
    >>> tail = asymptotics(Teacher(2), BayesOptimal())
    >>> round(tail.exponent, 3), round(tail.constant, 3)
    (1.0, 0.442)
    """
    check_population(teacher)
    student = student_of(estimator)
    alike, channel = student.spec.alike(teacher), teacher.label_channel
    if channel is not None and channel.width(0.0) == 0 and not (alike or student.spec.branches):
        raise InvalidInput(
            "the tail of unequal classes needs a mixture, a teacher with smooth noise, or the "
            f"Bayes-optimal student; got {teacher!r}"
        )
    known = student.spec.decay(teacher) if alike else Decay(1.0)
    exact, few = None if known is None else known.exponent, teacher.n_classes <= 3
    if alpha_max is None:
        alpha_max = 1e6 if few and alike and teacher.channel.noiseless else 1e4
        alpha_max = alpha_max if alike or teacher.n_classes == 2 else 400.0  # far it takes long
    if not 100 <= alpha_max <= 1e7:
        raise InvalidInput(f"alpha_max must be between 100 and 1e7, got {alpha_max!r}")
    alpha = np.array([alpha_max * RATIO**i for i in range(1 - N_POINTS, 1)])
    far = alpha if alike else np.append(alpha, _FAR * alpha_max)
    error, uncertainty, ridge, states = _curve(teacher, student, far, exact or 1.0)
    floor, floor_spread = 0.0, 0.0
    if alike:
        floor = error_floor(teacher.channel, teacher.n_classes)
    else:
        floor, coarser = error[-1] - (error[-2:-4:-1] - error[-1]) / (far[-1] / far[-2:-4:-1] - 1)
        floor_spread = float(uncertainty[-1] + sum(uncertainty[-2:]) / (_FAR - 1))
        floor_spread += float(abs(floor - coarser))  # three times what 1/α² leaves
        error, uncertainty, ridge = error[:-1], uncertainty[:-1], ridge[:-1]
    excess = error - floor
    sign = 1.0 if alike else math.copysign(1.0, excess[-1])
    excess *= sign
    if not (excess[-3:] > (0 if alike else floor_spread)).all():
        raise ComputationFailed(
            f"the excess over the floor of {floor:.6g} is below what the error is known to at "
            f"alpha {alpha_max:g}: ask for a smaller alpha_max"
        )
    with np.errstate(invalid="ignore", divide="ignore"):  # where a curve crosses its limit
        local = -np.diff(np.log(excess)) / math.log(RATIO)
    noise = (uncertainty + floor_spread) / excess
    exponent, spread = _limit(local)
    spread += math.hypot(noise[-1], noise[-2]) / math.log(RATIO)
    scaled = excess * alpha ** (exponent if exact is None else exact)
    constant, constant_spread = _limit(scaled)
    # An extrapolation magnifies the noise of what it starts from.
    nudged = [_limit(scaled + np.eye(N_POINTS)[-i] * noise * scaled)[0] for i in (1, 2, 3)]
    constant_spread += float(np.linalg.norm(np.array(nudged) - constant))
    if exact is None:
        constant_spread += constant * spread * math.log(alpha_max)
    return Asymptotics(
        exponent=exponent,
        exponent_uncertainty=spread,
        constant=sign * constant,
        constant_uncertainty=constant_spread,
        exact_exponent=exact,
        exact_constant=_exact_constant(teacher, student, known, constant) if alike else None,
        alpha=alpha,
        generalisation_error=error,
        uncertainty=uncertainty,
        ridge=ridge,
        local_exponent=local,
        status=Status.NOT_CONVERGED if Status.NOT_CONVERGED in states else Status.OK,
        floor=floor,
        floor_uncertainty=floor_spread,
    )


def _curve(
    teacher: AnyTeacher, estimator: Student, alpha: Array, exponent: float
) -> tuple[Array, Array, Array, set[str]]:
    """ε, its uncertainty and the ridge at each α; the tolerance is relative to ε."""
    relative = 1e-7 if teacher.n_classes <= 3 else 2e-4
    rows = []
    for value in steps(alpha.tolist()):
        # The constants of all these laws lie within a factor of ten of k − 1.
        tol = relative * 0.3 * (teacher.n_classes - 1) * value**-exponent
        if not estimator.spec.alike(teacher):
            tol = 1e-9 if teacher.n_classes <= 3 else 1e-4
        (row,) = estimator.rows(teacher, [value], tol=tol)
        if not math.isfinite(row["generalisation_error"]):
            raise ComputationFailed(f"no error at alpha {value:g}: {row['status']}")
        rows.append(row)
    error, uncertainty, ridge = (
        np.array([float(row.get(name, math.nan)) for row in rows])
        for name in ("generalisation_error", "uncertainty", "ridge")
    )
    return error, uncertainty, ridge, {str(row["status"]) for row in rows}


def _limit(sequence: Array) -> tuple[float, float]:
    """The limit of a sequence with geometric corrections (Aitken), and how far it was carried."""
    a, b, c = (float(x) for x in sequence[-3:])
    first, second = b - a, c - b
    if first == 0 or not 0 < second / first < 0.9:
        return c, max(abs(second), 1e-12 * abs(c))
    limit = c + second**2 / (first - second)
    return limit, abs(limit - c)


def _exact_constant(
    teacher: AnyTeacher, estimator: Student, known: Decay | None, measured: float
) -> float | None:
    """C_k: in closed form, else from two classes (where it is the measurement)."""
    if known is None or not (teacher.channel.noiseless and teacher.features.isotropic):
        return None
    k, p = teacher.n_classes, known.exponent
    if known.constant is not None or k == 2:
        return measured if known.constant is None else known.constant
    two = asymptotics(Teacher(2, teacher.prior), estimator.spec).constant
    return boundary_density(k) ** (1 - p) * (k - 1) ** p * two


@dataclass(frozen=True, repr=False)
class Plan(ShortDisplay):
    """The sample ratio that reaches an error, its uncertainty, and the row at that α.

    `at_jump`: the target lies inside a jump of the error, and α is just above it. For the
    Bayes-optimal estimator α is what is possible, `algorithm` what message passing can follow. One
    that never reaches the error, or has no theory here, has α = ∞ and says so in its status.
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
    teacher: Any, error: float, estimator: Estimator | str, dimension: int | None = None
) -> Plan: ...
@overload
def plan(
    teacher: Any,
    error: float,
    estimator: list[Any] | tuple[Any, ...] | None = None,
    dimension: int | None = None,
) -> list[Plan]: ...
def plan(
    teacher: Any, error: float, estimator: Any = None, dimension: int | None = None
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
    >>> from polyceptron.problem import ERM, Teacher
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
        raise OutOfReach(
            f"an error of {error:g} is out of reach: no rule errs less than {floor:.6g} "
            "here, not even one that knows how the labels are made"
        )
    d = None if dimension is None else check_size(dimension, "dimension")
    student = student_of(estimator)
    jumps = student.jumps(teacher)
    if not jumps:
        short = _MARGINLESS.get(2 if teacher.symmetric else teacher.n_classes, 0.1)
        top = min(LARGEST_ALPHA, (1 - short) * student.largest_alpha(teacher))
        bottom = SMALLEST_ALPHA if teacher.symmetric or top <= _FEW else _FEW
        alike = teacher.symmetric and teacher.prior.gaussian
        if alike and not (student.spec.branches or student.spec.explicit):
            bottom = min(plan(teacher, error, "bayes").alpha * (1 - _MARGINLESS[2]), top)
        found = _answer(teacher, student, error, (), d, (bottom, top))
        return replace(found, algorithm=found) if student.spec.branches else found
    best = _answer(teacher, student, error, [j for j in jumps if j.branch == "optimal"], d)
    reached = _answer(teacher, student, error, [j for j in jumps if j.branch == "amp"], d)
    return replace(best, algorithm=reached)


def plans(
    teacher: AnyTeacher, error: float, estimators: Any = None, dimension: int | None = None
) -> Iterator[Plan]:
    """The plan of each estimator as soon as it is known; if none reaches the error it is raised."""
    check_population(teacher)
    given = plain_estimators() if estimators is None else estimators
    students = [student_of(one) for one in given]
    missed = 0
    for student in students:
        try:
            yield plan(teacher, error, student.spec, dimension)
        except InvalidInput as refused:
            missed += 1
            if missed == len(students):
                raise
            status = OUT_OF_REACH if isinstance(refused, OutOfReach) else NO_THEORY
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


def _answer(
    teacher: AnyTeacher,
    student: Student,
    error: float,
    jumps: Sequence[Jump],
    dimension: int | None,
    ends: tuple[float, float] = (SMALLEST_ALPHA, LARGEST_ALPHA),
) -> Plan:
    """The plan on one curve between `ends`, which may jump, each time to a smaller error."""
    branch, told = jumps[0].branch if jumps else "optimal", steps(range(_ROWS))
    loose, asked = None if teacher.symmetric else _LOOSE, list[float]()
    one = iter(lambda: [asked.pop()], None)  # each near those before it
    rows = {tol: student.parts(teacher, one, branch=branch, tol=tol) for tol in (None, loose)}

    @cache
    def row_at(log_alpha: float, tol: float | None) -> dict[str, Any]:
        next(told, None)
        asked.append(math.exp(log_alpha))
        return next(rows[tol])[0]

    def curve(log_alpha: float, tol: float | None = loose) -> float:
        return float(row_at(log_alpha, tol)["generalisation_error"])

    bounds, at_jump, spread = (math.log(ends[0]), math.log(ends[1])), False, 0.0
    for jump in jumps:
        spread = max(3 * jump.uncertainty, 1e-7 * jump.alpha)
        below, above = math.log(jump.alpha - spread), math.log(jump.alpha + spread)
        if curve(below) <= error:
            bounds = (bounds[0], below)
            break
        if curve(above) <= error:
            at_jump = True
            break
        bounds = (above, bounds[1])
    if not jumps and ends[0] == _FEW and curve(bounds[0]) <= error:
        bounds = (math.log(SMALLEST_ALPHA), bounds[0])
    log_alpha = above if at_jump else _smallest_root(curve, error, bounds, student.spec.name)
    if not at_jump:
        right = min(log_alpha + 0.02, bounds[1])
        slope = (curve(right) - curve(log_alpha - 0.02)) / (right - log_alpha + 0.02)
        for _ in range(_POLISHED if loose and slope < 0 else 0):
            step = (error - curve(log_alpha, None)) / slope
            log_alpha += step if abs(step) > PRECISION else 0.0
    alpha, row = math.exp(log_alpha), row_at(log_alpha, None)
    if not at_jump:
        spread = alpha * (PRECISION + (float(row["uncertainty"]) / -slope if slope < 0 else 0.0))
    told.close()
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
    raise OutOfReach(
        f"an error of {error:g} is out of reach: it is {still} at alpha = {math.exp(left):g}, {why}"
    )
