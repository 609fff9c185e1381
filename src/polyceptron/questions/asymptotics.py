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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.display import ShortDisplay, steps
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.problem.law import Decay
from polyceptron.problem.populations import AnyTeacher, Teacher, check_population
from polyceptron.problem.specs import Estimator
from polyceptron.rows import Status
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import Student, student_of

RATIO = 4.0  # between neighbouring α
N_POINTS = 6
_FAR = 100.0  # F


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
