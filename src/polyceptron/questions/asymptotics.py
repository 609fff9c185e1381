"""How the error falls when data are plentiful: ε ≈ ε₀ + C α^(−p), ε₀ the floor of noisy labels.

ε is the generalisation error (eq. generalization_ERM, generalization_Bayes) at n = αd samples; the
paper shows its large-α behaviour in fig. ref_gauss2. Two routes lead to p and C. Where both give a
number, the bar of the measured one reaches to the exact one; where they differ by several bars, the
status says so.

Measured: solve the equations at six α, each four times the one before, and extrapolate the local
exponents −Δln(ε − ε₀)/Δln α and (ε − ε₀)α^p to α → ∞ (`numerics/extrapolation.py`). Both are power
series in x. With the angle θ = arccos(m/√q) of student and teacher,

    x = α^(−1)      p = 1:   θ, or its square, is ∝ 1/α
    x = α^(−1/2)    p = 1/2: θ ∝ α^(−1/2), and three classes meet on a fraction θ of a boundary
    x = α^(−1/3)    p = 2/3: the loss varies over 1/√q of the student's fields, which is ∝ x

Exact: C in closed form where there is one; else, for p = 1 and without noise, C_k = (k−1) C₂. For
only samples next to a boundary teach there, where two classes meet. With B_k the density of class
boundaries (B₂ = 1), k classes behave as two at α₂ = αB_k/(k−1), and their error is B_k times that
of two. At p = 1/2 all samples count and this does not hold.

Exponents without noise: Bayes 1, max-margin 1, square loss and class means 1/2. Cross-entropy at a
fixed ridge λ has 2/3: about 1/√q of the samples teach, so that θ² ∝ 1/(α√q), and the norm √q grows
as (α/λ)^(1/3), where the population's loss ∝ 1/√q and the ridge λq/α balance. The paper
reads 1/2 from its figure; at larger α it is 2/3 (tests/unit/theory/test_asymptotics.py). At the
best ridge, which falls as α⁻², √q grows as α and p is 1; the paper leaves this open.

With noise θ falls as α^(−1/2) for every smooth loss. Where the chance of a label is a smooth
function of the fields, the excess ε − ε₀ is quadratic in θ: p = 1, as for Bayes. Flips leave a
sharp boundary: the excess is linear in θ and p = 1/2, but 1 for Bayes, which finds the boundary.

Unequal classes with smooth labels (mixtures, noisy teachers): ε₀ is the error of the risk's own
minimiser, which may be above that of the best rule, and ε may rise to it: C has either sign. p = 1,
and ε₀ follows from one more point at Fα, ε₀ = ε(Fα) − [ε(α) − ε(Fα)]/(F − 1).
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
# The power r of x = α^(−r), in which corrections go, by the exponent p; and where p is not known.
CORRECTION_POWER = {1.0: 1.0, 1 / 2: 1 / 2, 2 / 3: 1 / 3}
ANY_CORRECTION_POWER = (1.0, 1 / 2, 1 / 3)
# Two numbers that should be one disagree beyond so many of their bars: none was off by more in
# tests/unit/theory/test_tails.py::test_long_sequences_agree.
DISAGREEMENT_IN_BARS = 2.0
# Of the floor, which is the error at an angle of 1e-14, and of a difference of two errors near 1.
FLOOR_ROUNDING = 1e-13
# Of an error at its best ridge, relative: the search for it stops where the error is flat. Up to
# 1e-9 is seen in tests/unit/theory/test_tails.py::test_the_search_for_a_ridge_is_counted.
RIDGE_SEARCH_NOISE = 3e-9

# Tolerance of ε relative to its excess over the floor: for k ≤ 3 panels of nodes converge fast.
TOLERANCE_OF_EXCESS = 1e-7
TOLERANCE_OF_EXCESS_OF_MANY_CLASSES = 2e-4
# Tolerance of ε where classes are not alike, and the size of the excess is not known.
TOLERANCE_OF_UNEQUAL_CLASSES = 1e-9
TOLERANCE_OF_MANY_UNEQUAL_CLASSES = 1e-4

# Beyond these the law of large α has not set in, see `_sets_in_later`. Of 150 random problems with
# little noise all 13 tails that were wrong and said ok had a growth of 0.32 or more, or an angle of
# 1 width; others had at most 0.2: tests/unit/theory/test_tails.py::test_little_noise_is_noticed.
LARGEST_ANGLE_IN_WIDTHS = 0.7
LARGEST_GROWTH_OF_NORM = 0.25  # d ln q/d ln α


@dataclass(frozen=True, repr=False)
class Asymptotics(ShortDisplay):
    """ε ≈ floor + C α^(−p), measured up to `alpha[-1]`, with exact values where they are known.

    Arrays have an entry for each of the six α; every `uncertainty` is an error bar.
    """

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
    local_exponent: Array  # between neighbours, (5,); NaN before a curve crosses its floor
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
        """Return by how much they differ, 0 without an exact number."""
        if self.exact is None:
            return 0.0
        return abs(self.measured.value - self.exact.value)

    @property
    def disagrees(self) -> bool:
        """Return whether they differ by more than a few bars: then one of them is wrong."""
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
    """|ε − ε₀| and its relative uncertainty (n,) at each α (n,), and the sign of ε − ε₀ there.

    Fewer α than were solved, where the curve crosses its floor on the way.
    """

    alpha: Array
    size: Array
    relative_uncertainty: Array
    sign: float


def asymptotics(
    teacher: Any, estimator: Estimator | str = "bayes", alpha_max: float | None = None
) -> Asymptotics:
    """Exponent and constant of the error at large α, each with its uncertainty.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
        With unequal classes, a mixture or a teacher with smooth noise.
    estimator : Estimator or str
        An estimator or its name.
    alpha_max : float, optional
        By default 1e6 for two and three classes, and 1e4 above or with smooth noise; 400 for three
        and more unequal classes.

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
    alpha = _check_alpha_max(alpha_max, teacher, student) * RATIO ** np.arange(1.0 - N_POINTS, 1.0)
    points, floor = _points_and_floor(teacher, student, alpha, known)
    excess = _excess_over(floor, points, _floor_is_known(teacher, student, known))
    powers = _correction_powers(known)
    local = _local_exponents(excess)
    exponent = _exponent(excess, local, powers)
    if known is None:
        constant = _constant(excess, _Number(exponent.value, exponent.uncertainty), powers)
    else:
        constant = _constant(excess, _Number(known.exponent, 0.0), powers)
    exact = _exact_constant(teacher, student, known)
    early = ""
    if student.spec.sees_equal_classes(teacher) and known is not None:  # else there is no m and q
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
    """Refuse a student that ends at a finite α, and a tail whose law is not known.

    `sees_equal_classes` is True where all classes are alike to the student. Else p = 1 is known for
    smooth labels (`width` 0 means that they jump at the boundary), and for students of a posterior,
    which are those whose equations may have several solutions (`branches`).
    """
    channel = teacher.label_channel  # None: a mixture, whose labels no fields of a teacher decide
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
    """Return p and C as far as they are known by hand; None if not even p is.

    Classes that are not alike have p = 1, see `_check_has_tail`.
    """
    if student.spec.sees_equal_classes(teacher):
        return student.spec.decay(teacher)
    return Decay(1.0)


def _floor_is_known(teacher: AnyTeacher, student: Student, known: Decay | None) -> bool:
    """Return whether ε₀ is the error of the teacher itself, which the student tends to.

    An estimator that is not `consistent` tends to a rule of its own, with an error above this.
    """
    if not student.spec.sees_equal_classes(teacher):
        return False
    return known is None or known.consistent


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
        raise InvalidInput(f"alpha_max must be from {low:g} to {high:g}, got {alpha_max!r}")
    return float(alpha_max)


def _points_and_floor(
    teacher: AnyTeacher, student: Student, alpha: Array, known: Decay | None
) -> tuple[_Points, _Number]:
    """Return the points at α (n,), and ε₀: known, or from one more point far beyond."""
    if _floor_is_known(teacher, student, known):
        floor = _Number(error_floor(teacher.channel, teacher.n_classes), 0.0)
        if floor.value > 0:
            floor = floor._replace(uncertainty=teacher.channel.accuracy + FLOOR_ROUNDING)
        return _solved_points(teacher, student, alpha, known), floor
    further = np.append(alpha, FAR_RATIO * alpha[-1])
    points = _solved_points(teacher, student, further, known)
    return points.without_last(), _extrapolated_floor(points)


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
            tol = excess * (TOLERANCE_OF_EXCESS if few else TOLERANCE_OF_EXCESS_OF_MANY_CLASSES)
        else:
            tol = TOLERANCE_OF_UNEQUAL_CLASSES if few else TOLERANCE_OF_MANY_UNEQUAL_CLASSES
        (row,) = student.rows(teacher, [value], tol=tol)
        if not math.isfinite(row.get("generalisation_error", math.nan)):
            raise ComputationFailed(f"no error at alpha {value:g}: {row['status']}")
        rows.append(row)

    def column(name: str) -> Array:
        """Return a column of the rows, NaN where one has no such number."""
        return np.array([float(row.get(name, math.nan)) for row in rows])

    error = column("generalisation_error")
    uncertainty = column("uncertainty")
    if student.spec.columns.get("ridge") == "optimal":  # each row then has the ridge found for it
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
    # A term D/α² moves the floor through point i by −D/(Aα_i), with A the last α. For neighbours at
    # α and α/4 the two differ by three times the error of the first, which is a bar.
    left_by_square = abs(floor - through(-3))
    noise = points.uncertainty[-1] + points.uncertainty[-2:].sum() / (FAR_RATIO - 1)
    return _Number(floor, float(noise) + left_by_square)


def _excess_over(floor: _Number, points: _Points, floor_is_known: bool) -> _Excess:
    """|ε − ε₀| at each α; an error where the last three cannot be told from 0.

    No student is better than a known floor, ε₀ is then approached from above.
    """
    excess = points.error - floor.value
    sign = 1.0
    if not floor_is_known:
        sign = math.copysign(1.0, excess[-1])
    size = sign * excess
    uncertainty = points.uncertainty + floor.uncertainty
    if not (size > uncertainty)[-3:].all():
        raise ComputationFailed(
            f"the excess over the floor of {floor.value:.6g} is below what the error is known to "
            f"at alpha {points.alpha[-1]:g}: ask for a smaller alpha_max"
        )
    # A curve may cross its limit on the way: only what comes after that is of this sign.
    first = 0
    if (size <= 0).any():
        first = int(np.nonzero(size <= 0)[0][-1]) + 1
    return _Excess(points.alpha[first:], size[first:], (uncertainty / size)[first:], sign)


def _local_exponents(excess: _Excess) -> Array:
    """−Δln(ε − ε₀)/Δln α between neighbours (n − 1,)."""
    return np.asarray(-np.diff(np.log(excess.size)) / math.log(RATIO))


def _exponent(excess: _Excess, local: Array, powers: tuple[float, ...]) -> ExtrapolatedLimit:
    """p, the limit of local exponents (n − 1,).

    The bar of a local exponent is that of a difference of two logarithms.
    """
    noise = (excess.relative_uncertainty[1:] + excess.relative_uncertainty[:-1]) / math.log(RATIO)
    return _limit(excess.alpha[1:], local, noise, powers)


def _constant(excess: _Excess, exponent: _Number, powers: tuple[float, ...]) -> _Number:
    """C, the limit of (ε − ε₀)α^p, with what the uncertainty of p adds."""
    scaled = excess.size * excess.alpha**exponent.value
    limit = _limit(excess.alpha, scaled, excess.relative_uncertainty * scaled, powers)
    # |dC/dp|: C = Σ_i weight_i size_i α_i^p is linear in the scaled sizes.
    slope = abs(float(limit.weights @ (scaled * np.log(excess.alpha))))
    spread = limit.uncertainty + slope * exponent.uncertainty
    return _Number(excess.sign * limit.value, spread)


def _limit(
    alpha: Array, values: Array, noise: Array, powers: tuple[float, ...]
) -> ExtrapolatedLimit:
    """The limit α → ∞ by the power of 1/α with the smallest bar.

    How far the limits by other powers are from it enters its bar, as its error of truncation.
    """
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
    if two.status != Status.OK:
        return None
    return _Number((k - 1) * two.constant, (k - 1) * two.constant_uncertainty)


def _sets_in_later(teacher: AnyTeacher, student: Student, points: _Points, known: Decay) -> str:
    """Why the law is not that of larger α yet, as a sentence; nothing if it may be.

    The points have m and q, the teacher having the norm 1. Little noise is not felt before the
    angle of student and teacher, arccos(m/√q), is below its width in fields.
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
    # `explicit`: weights in closed form (class means, discriminants), whose norm is there at once.
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
