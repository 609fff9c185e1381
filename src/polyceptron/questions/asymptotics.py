"""How the error falls when data are plentiful: ε ≈ ε₀ + C α^(−p), ε₀ the floor of noisy labels.

Two independent routes. The measured one solves the equations at geometrically spaced α, and takes
the limits of the local exponents −Δln(ε − ε₀)/Δln α and of (ε − ε₀)α^p. Both are series in x,

    x = α^(−1)      p = 1:   the angle θ of student and teacher, or its square, is ∝ 1/α
    x = α^(−1/2)    p = 1/2: θ ∝ α^(−1/2), and three classes meet on a fraction θ of a boundary
    x = α^(−1/3)    p = 2/3: so wide is the loss, 1/√q, against the student's fields

(some of them absent at k = 2), so that limits are those of `numerics/extrapolation.py`.

The exact one: a closed form where there is one, or, at p = 1 and without noise, two classes. Only
samples next to a boundary teach there, where two classes meet, so that k classes behave as two at
α₂ = αB_k/(k−1), with B_k the density of class boundaries (B₂ = 1), and the error is B_k times
theirs: C_k = (k−1) C₂. At p = 1/2 all samples count and this does not hold. Where both routes give
a number, the bar of the measured one reaches to the exact one; where they differ by several bars,
the status says so.

Exponents: Bayes 1, max-margin 1, optimally regularised cross-entropy 1 (its best ridge falls as
α⁻²), cross-entropy at fixed λ 2/3 (the norm grows as (α/λ)^(1/3)), square loss and class means 1/2.

With noise θ falls as α^(−1/2) for every smooth loss. Where the labels' law is smooth the excess is
quadratic in θ: p = 1, as for Bayes. Flips leave a sharp boundary: the excess is linear in θ and
p = 1/2, but 1 for Bayes, which finds it.

Unequal classes with smooth labels (mixtures, noisy teachers): ε₀ is the error of the risk's own
minimiser, which may be above that of the best rule, and ε may rise to it: C has either sign. p = 1,
and ε₀ follows from one more point, ε₀ = ε(Fα) − [ε(α) − ε(Fα)]/(F − 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.extrapolation import ExtrapolatedLimit, limit_at_zero
from polyceptron.problem.order import Decay
from polyceptron.problem.populations import AnyTeacher, Teacher, check_population
from polyceptron.problem.specs import Estimator
from polyceptron.progress import steps
from polyceptron.rows import Status
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import Student, student_of

RATIO = 4.0  # between neighbouring α
N_POINTS = 6
FAR_RATIO = 100.0  # F: between the last α and one more, where the floor is not known
LIMITS_OF_ALPHA_MAX = (100.0, 1e7)
# Powers of 1/α in which corrections go, by the exponent p (see above), and where p is not known.
CORRECTION_POWER = {1.0: 1.0, 1 / 2: 1 / 2, 2 / 3: 1 / 3}
ANY_CORRECTION_POWER = (1.0, 1 / 2, 1 / 3)
# Two numbers that should be one disagree beyond so many of their bars: none was off by more in
# tests/unit/theory/test_tails.py::test_long_sequences_agree.
DISAGREEMENT_IN_BARS = 2.0
# Of the floor, which is the error at τ = 1e14, and of a difference of two errors of order 1.
FLOOR_ROUNDING = 1e-13
# Of an error at its best ridge, relative: the search for it stops where the error is flat. Up to
# 1e-9 is seen in tests/unit/theory/test_tails.py::test_the_search_for_a_ridge_is_counted.
RIDGE_SEARCH_NOISE = 3e-9

# Beyond these the law of large α has not set in, see `_sets_in_later`. Of 150 random problems with
# little noise all 13 tails that were wrong and said ok had a growth of 0.32 or more, or an angle of
# 1 width; others had at most 0.2: tests/unit/theory/test_tails.py::test_little_noise_is_noticed.
LARGEST_ANGLE_IN_WIDTHS = 0.7
LARGEST_GROWTH_OF_NORM = 0.25  # d ln q/d ln α


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
    local_exponent: Array  # between neighbours, one fewer; NaN before a curve crosses its floor
    status: Status
    floor: float = 0.0  # ε₀: on noisy labels that of the teacher itself, where classes are alike
    floor_uncertainty: float = 0.0
    reason: str = ""  # of a status other than ok: a sentence


class _Points(NamedTuple):
    """ε, its uncertainty, the ridge, m and q (n,) at each α (n,); whether every point converged.

    Overlaps m and q are NaN where the rows have none.
    """

    alpha: Array
    error: Array
    uncertainty: Array
    ridge: Array
    m: Array
    q: Array
    converged: bool

    def without_last(self) -> _Points:
        """The same without the last point."""
        return _Points(
            self.alpha[:-1],
            self.error[:-1],
            self.uncertainty[:-1],
            self.ridge[:-1],
            self.m[:-1],
            self.q[:-1],
            self.converged,
        )


class _Number(NamedTuple):
    """A value and its uncertainty."""

    value: float
    uncertainty: float


class _Pair(NamedTuple):
    """A measured number and the exact one, where there is one."""

    name: str
    measured: _Number
    exact: _Number | None

    @property
    def apart(self) -> float:
        """By how much they differ, 0 without an exact number."""
        if self.exact is None:
            return 0.0
        return abs(self.measured.value - self.exact.value)

    @property
    def disagrees(self) -> bool:
        """Whether they differ by more than a few bars: one of the two is no number of this tail."""
        bar = self.measured.uncertainty
        if self.exact is not None:
            bar += self.exact.uncertainty
        return self.apart > DISAGREEMENT_IN_BARS * bar

    @property
    def uncertainty(self) -> float:
        """The bar of the measured number: it reaches to an exact number that agrees with it."""
        if self.disagrees:
            return self.measured.uncertainty
        return max(self.measured.uncertainty, self.apart)


class _Excess(NamedTuple):
    """|ε − ε₀| and its relative uncertainty (n,) at each α (n,), and the sign of ε − ε₀ at last."""

    alpha: Array
    size: Array
    relative: Array
    sign: float


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
        By default 1e6 for two and three classes, and 1e4 above or with smooth noise; 400 for three
        and more classes that are not alike.

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
    _check_has_tail(teacher, student)
    known = _known_decay(teacher, student)
    floor_is_known = student.spec.sees_equal_classes(teacher) and (
        known is None or known.consistent
    )
    last = _check_alpha_max(alpha_max, teacher, student)
    alpha = last * RATIO ** np.arange(1.0 - N_POINTS, 1.0)
    if floor_is_known:
        points = _solved_points(teacher, student, alpha, known)
        floor = _Number(error_floor(teacher.channel, teacher.n_classes), 0.0)
        if floor.value > 0:
            floor = floor._replace(uncertainty=teacher.channel.accuracy + FLOOR_ROUNDING)
    else:
        further = _solved_points(teacher, student, np.append(alpha, FAR_RATIO * last), known)
        floor = _extrapolated_floor(further)
        points = further.without_last()
    excess = _excess_over(floor, points, floor_is_known)
    powers = _correction_powers(known)
    local = _local_exponents(excess)
    exponent = _exponent(excess, local, powers)
    if known is None:
        constant = _constant(excess, _Number(exponent.value, exponent.uncertainty), powers)
    else:
        constant = _constant(excess, _Number(known.exponent, 0.0), powers)
    exact = _exact_constant(teacher, student, known)
    early = ""
    if student.spec.sees_equal_classes(teacher) and known is not None:
        early = _sets_in_later(teacher, student, points, known)
    exact_exponent = None if known is None else _Number(known.exponent, 0.0)
    measured_exponent = _Number(exponent.value, exponent.uncertainty)
    pairs = [
        _Pair("exponent", measured_exponent, exact_exponent),
        _Pair("constant", constant, exact),
    ]
    status, reason = _verdict(points, early, pairs)
    return Asymptotics(
        exponent=exponent.value,
        exponent_uncertainty=pairs[0].uncertainty,
        constant=constant.value,
        constant_uncertainty=pairs[1].uncertainty,
        exact_exponent=None if known is None else known.exponent,
        exact_constant=None if exact is None else exact.value,
        alpha=points.alpha,
        generalisation_error=points.error,
        uncertainty=points.uncertainty,
        ridge=points.ridge,
        local_exponent=np.append(np.full(N_POINTS - 1 - len(local), math.nan), local),
        status=status,
        floor=floor.value,
        floor_uncertainty=floor.uncertainty,
        reason=reason,
    )


def _check_has_tail(teacher: AnyTeacher, student: Student) -> None:
    """Refuse a student that ends at a finite α, and a tail whose law is not known."""
    channel = teacher.label_channel
    sharp = channel is not None and channel.width(0.0) == 0
    if sharp and not (student.spec.sees_equal_classes(teacher) or student.spec.branches):
        raise InvalidInput(
            "the tail of unequal classes needs a mixture, a teacher with smooth noise, or the "
            f"Bayes-optimal student; got {teacher!r}"
        )
    end = student.largest_alpha(teacher)
    if math.isfinite(end):
        raise InvalidInput(
            f"{student.spec.name} ends at alpha_s = {end:.6g}, beyond which these data cannot be "
            "separated: there is no tail; take an estimator with a ridge above 0"
        )


def _known_decay(teacher: AnyTeacher, student: Student) -> Decay | None:
    """Return what is known by hand of the tail; unequal classes have smooth labels, so p = 1."""
    if student.spec.sees_equal_classes(teacher):
        return student.spec.decay(teacher)
    return Decay(1.0)


def _correction_powers(known: Decay | None) -> tuple[float, ...]:
    """Powers of 1/α in which the corrections may go."""
    if known is not None and known.exponent in CORRECTION_POWER:
        return (CORRECTION_POWER[known.exponent],)
    return ANY_CORRECTION_POWER


def _check_alpha_max(alpha_max: float | None, teacher: AnyTeacher, student: Student) -> float:
    """The largest α of a tail: as given, or as far as points are solved in seconds."""
    low, high = LIMITS_OF_ALPHA_MAX
    if alpha_max is None:
        if not student.spec.sees_equal_classes(teacher):
            return 1e4 if teacher.n_classes == 2 else 400.0
        sharp = teacher.channel.width(0.0) == 0
        return 1e6 if teacher.n_classes <= 3 and sharp else 1e4
    if not low <= alpha_max <= high:
        raise InvalidInput(f"alpha_max must be between 100 and 1e7, got {alpha_max!r}")
    return float(alpha_max)


def _solved_points(
    teacher: AnyTeacher, student: Student, alpha: Array, known: Decay | None
) -> _Points:
    """The rows at each α (n,), with a tolerance that is relative to the excess over the floor."""
    few = teacher.n_classes <= 3
    exponent = 1.0 if known is None else known.exponent
    rows = []
    for value in steps(alpha.tolist()):
        if student.spec.sees_equal_classes(teacher):
            # The constants of all these laws lie within a factor of ten of k − 1.
            excess = 0.3 * (teacher.n_classes - 1) * value**-exponent
            tol = excess * (1e-7 if few else 2e-4)
        else:
            tol = 1e-9 if few else 1e-4
        (row,) = student.rows(teacher, [value], tol=tol)
        if not math.isfinite(row.get("generalisation_error", math.nan)):
            raise ComputationFailed(f"no error at alpha {value:g}: {row['status']}")
        rows.append(row)

    def column(name: str) -> Array:
        """Return a column of the rows, NaN where one has no such number."""
        return np.array([float(row.get(name, math.nan)) for row in rows])

    error = column("generalisation_error")
    uncertainty = column("uncertainty")
    if student.spec.columns.get("ridge") == "optimal":
        uncertainty = uncertainty + RIDGE_SEARCH_NOISE * error
    converged = all(row["status"] != Status.NOT_CONVERGED for row in rows)
    return _Points(alpha, error, uncertainty, column("ridge"), column("m"), column("q"), converged)


def _extrapolated_floor(points: _Points) -> _Number:
    """ε₀ from the last point, F times as far as the one before it, where ε − ε₀ ∝ 1/α."""
    far = points.error[-1]

    def through(i: int) -> float:
        """Return the floor by which point i and the last one lie on C/α."""
        ratio = points.alpha[-1] / points.alpha[i]
        return float(far - (points.error[i] - far) / (ratio - 1))

    floor = through(-2)
    left_by_square = abs(floor - through(-3))  # three times what 1/α² leaves
    noise = points.uncertainty[-1] + points.uncertainty[-2:].sum() / (FAR_RATIO - 1)
    return _Number(floor, float(noise) + left_by_square)


def _excess_over(floor: _Number, points: _Points, floor_is_known: bool) -> _Excess:
    """|ε − ε₀| at each α; an error where the last three cannot be told from 0."""
    excess = points.error - floor.value
    sign = 1.0
    smallest = 0.0
    if not floor_is_known:
        sign = math.copysign(1.0, excess[-1])
        smallest = floor.uncertainty
    size = sign * excess
    if not (size[-3:] > smallest).all():
        raise ComputationFailed(
            f"the excess over the floor of {floor.value:.6g} is below what the error is known to "
            f"at alpha {points.alpha[-1]:g}: ask for a smaller alpha_max"
        )
    # A curve may cross its limit on the way: only what comes after that is of this sign.
    first = 0
    if (size <= 0).any():
        first = int(np.nonzero(size <= 0)[0][-1]) + 1
    relative = (points.uncertainty + floor.uncertainty)[first:] / size[first:]
    return _Excess(points.alpha[first:], size[first:], relative, sign)


def _local_exponents(excess: _Excess) -> Array:
    """−Δln(ε − ε₀)/Δln α between neighbours (n − 1,)."""
    return np.asarray(-np.diff(np.log(excess.size)) / math.log(RATIO))


def _exponent(excess: _Excess, local: Array, powers: tuple[float, ...]) -> ExtrapolatedLimit:
    """p, the limit of local exponents (n − 1,)."""
    noise = (excess.relative[1:] + excess.relative[:-1]) / math.log(RATIO)
    return _limit(excess.alpha[1:], local, noise, powers)


def _constant(excess: _Excess, exponent: _Number, powers: tuple[float, ...]) -> _Number:
    """C, the limit of (ε − ε₀)α^p, with what the uncertainty of p adds."""
    scaled = excess.size * excess.alpha**exponent.value
    limit = _limit(excess.alpha, scaled, excess.relative * scaled, powers)
    slope = abs(float(limit.weights @ (scaled * np.log(excess.alpha))))  # dC/dp
    spread = limit.uncertainty + slope * exponent.uncertainty
    return _Number(excess.sign * limit.value, spread)


def _limit(
    alpha: Array, values: Array, noise: Array, powers: tuple[float, ...]
) -> ExtrapolatedLimit:
    """The limit α → ∞ in each of these powers of 1/α: the best, and how far others are from it."""
    limits = [limit_at_zero(alpha**-power, values, noise) for power in powers]
    best = min(limits, key=lambda limit: limit.uncertainty)
    apart = max(abs(other.value - best.value) for other in limits)
    return best._replace(truncation=max(best.truncation, apart))


def _exact_constant(teacher: AnyTeacher, student: Student, known: Decay | None) -> _Number | None:
    """C by another route than measuring it: in closed form, or (k − 1)C₂ where p = 1."""
    if (
        known is None
        or not student.spec.sees_equal_classes(teacher)
        or not teacher.features.isotropic
    ):
        return None
    if known.constant is not None:
        return _Number(known.constant, 0.0)
    k = teacher.n_classes
    if known.exponent != 1 or not teacher.channel.noiseless or k == 2:
        return None
    two = asymptotics(Teacher(2, teacher.prior), student.spec)
    return _Number((k - 1) * two.constant, (k - 1) * two.constant_uncertainty)


def _sets_in_later(teacher: AnyTeacher, student: Student, points: _Points, known: Decay) -> str:
    """Why the law is not that of larger α yet, as a sentence; nothing if it may be.

    Little noise is not felt before the angle of student and teacher is below its width in fields.
    Where a loss has its least risk at a finite norm (noise, or p = 1/2), that norm is reached late
    if the noise is little or the ridge large; on the way the error falls by other laws, and
    extrapolations of these may agree with each other.
    """
    last = f"at alpha = {points.alpha[-1]:.4g}"
    cure = "the law sets in later; ask for a larger alpha_max"
    width = teacher.channel.width(0.0)
    if width > 0:
        angle = math.sqrt(max(1 - points.m[-1] ** 2 / points.q[-1], 0.0))
        if angle > LARGEST_ANGLE_IN_WIDTHS * width:
            return (
                f"{last} the angle of student and teacher is {angle:.2g}, not small against the "
                f"width {width:.2g} of the noise: {cure}"
            )
    finite_norm = known.exponent == 1 / 2 or not teacher.channel.noiseless
    if finite_norm and not student.spec.explicit:
        growth = math.log(points.q[-1] / points.q[-2]) / math.log(RATIO)
        if abs(growth) > LARGEST_GROWTH_OF_NORM:
            return f"{last} the squared norm still changes as alpha^{growth:.2f}: {cure}"
    return ""


def _verdict(points: _Points, early: str, pairs: list[_Pair]) -> tuple[Status, str]:
    """The status of a tail, and a sentence where it is not ok."""
    if not points.converged:
        return Status.NOT_CONVERGED, "a point of the curve did not converge"
    if early:
        return Status.NOT_CONVERGED, early
    for pair in pairs:
        if pair.disagrees:
            assert pair.exact is not None  # else there is nothing to disagree with
            return Status.INCONSISTENT, (
                f"the measured {pair.name}, {pair.measured.value:.6g} ± "
                f"{pair.measured.uncertainty:.1e}, is not the exact one, {pair.exact.value:.6g}: "
                f"the law may set in beyond alpha = {points.alpha[-1]:g}"
            )
    return Status.OK, ""
