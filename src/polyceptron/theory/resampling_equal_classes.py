"""Two students on one data set, with equal classes: every order parameter is a number.

A weight w of a sample is V → wV in the proximal map, with f = w f^(wV): one student solves

    m̂ = αE[w M(wV)],   q̂ = αE[w² Q(wV)],   V̂ = αE[w C(wV)]

where M, Q, C are the averages of one sample (`ResampledSide`). Two students share teacher, inputs
and labels. With u ~ N(0, q₁₂) what their fields have in common, η the rest of one of them and
f̄ = E[w f^(wV)],

    q̂₁₂ = αc (1/r) E Σ_l Z_l(u) ‖E_η f̄_l(u + √(q − q₁₂) η)‖²,     c = E[w₁w₂]/E[w]²,

Z at the law (m, q₁₂); `pair_average` is the average. The weights side turns (m̂, q̂₁₂, V̂) into q₁₂ as
it turns (m̂, q̂, V̂) into q, so that q₁₂ is a root of one equation (`_overlap`); q̂₁₂ = 0 are students
of data sets of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.optimize import brentq

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import ERM
from polyceptron.sides.fields.integrand import Averages, Averaging
from polyceptron.sides.generalisation import error_on_labels, error_slope, generalisation_error
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem
from polyceptron.sides.scalar import FieldsSide, Problem, erm_sides
from polyceptron.theory.erm.fixed_point import erm_fixed_point, solve
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.pair_averages import pair_hats

Counts = tuple[tuple[float, float], ...]
"""Weights w > 0 of a sample, each with its probability."""

ALL_SAMPLES_ONCE: Counts = ((1.0, 1.0),)
# In units of the way from q₁₂ of fresh data to q: how near to both ends q₁₂ is searched for, and
# the accuracy of the search for two classes and for more, which a Newton step improves.
DISTANCE_FROM_ENDS = 1e-4
SEARCH_ACCURACY_OF_TWO_CLASSES = 1e-7
SEARCH_ACCURACY = 1e-5
ROUNDING_OF_OVERLAP = 1e-9  # relative
# Relative uncertainty of q and V, in units of that of τ which the error bar of a point implies.
PARAMETERS_PER_TAU = 4.0
# The error moves by this much of its change at the largest q₁₂ that the uncertainty allows.
MARGIN_OF_MOVED_ERROR = 1.5


@dataclass(frozen=True)
class ResampledSide(FieldsSide):
    """The fields side of a student that gives each of n = αd samples a random weight."""

    counts: Counts = ALL_SAMPLES_ONCE

    def averages(self, level: int, reference: ScalarOrder) -> Averaging:
        """Place nodes for `reference` and return the averages as a function of the law."""
        if self.explicit(reference) is not None:
            return cast(Averaging, self.explicit)
        weights = [w for w, _ in self.counts]
        placed = [
            self.rule.place(
                self.student, self.channel, self.n_classes, _weighted(reference, w), level
            )
            for w in weights
        ]

        def mixed(law: ScalarOrder) -> Averages:
            """Return the averages over the numbers of copies of a sample."""
            return self._mixed(
                [average(_weighted(law, w)) for average, w in zip(placed, weights, strict=True)]
            )

        return mixed

    def explicit(self, law: ScalarOrder) -> Averages | None:
        """Return the averages in closed form, None where there is none."""
        found = [FieldsSide.explicit(self, _weighted(law, w)) for w, _ in self.counts]
        known = [averages for averages in found if averages is not None]
        if len(known) < len(found):
            return None
        return self._mixed(known)

    def _mixed(self, by_weight: list[Averages]) -> Averages:
        """Return the mean over weights w of averages, each times its power of w."""
        power = {"Q": 2, "error": 0, "mass": 0}
        w, p = np.array(self.counts).T
        mixed = {
            name: (p * w ** power.get(name, 1)) @ np.array(by_name)
            for name, by_name in zip(Averages._fields, zip(*by_weight, strict=True), strict=True)
        }
        return Averages(**{**mixed, "mass": mixed["mass"] + 1 - p.sum()})


def _weighted(law: ScalarOrder, weight: float) -> ScalarOrder:
    """Return the law with wV in place of V."""
    return replace(law, V=weight * law.V)


@dataclass(frozen=True)
class TwoStudents:
    """Two students on one data set; each method returns a value and its uncertainty.

    Attributes
    ----------
    teacher : Teacher or Perceptron
    one : ErmFixedPoint
        A student whose samples have random weights.
    full : ErmFixedPoint
        The student of all data.
    fresh_overlap : float
        q₁₂ of two students of data sets of their own, each with all its data.
    q12, q12_uncertainty : float
    variance_uncertainty : float
        Of q − q₁₂.
    """

    teacher: AnyTeacher
    one: ErmFixedPoint
    full: ErmFixedPoint
    fresh_overlap: float
    q12: float
    q12_uncertainty: float
    variance_uncertainty: float

    def error_of_average(self, n_fits: float) -> tuple[float, float]:
        """Return the error of the average of B fits' fields."""
        value = self._error_at(n_fits, self.q12)
        if n_fits == 1:
            return value, self.one.uncertainty
        largest = min(self.q12 + self.variance_uncertainty, self.one.q)
        moved = abs(self._error_at(n_fits, largest) - value)
        return value, self.one.uncertainty + MARGIN_OF_MOVED_ERROR * moved

    def _error_at(self, n_fits: float, q12: float) -> float:
        """Return the error of the average of B fits with overlap q₁₂."""
        own = self.one.law.residual * self.one.q  # q − m²
        residual = own / n_fits + (1 - 1 / n_fits) * (q12 - self.one.m**2)
        tau = self.one.m / math.sqrt(max(residual, 1e-300))
        return float(error_on_labels(self.teacher.channel, tau, self.teacher.n_classes))

    def bias(self) -> tuple[float, float]:
        """Return the error of one fit less that of the fit of all data."""
        value = self.one.generalisation_error - self.full.generalisation_error
        return value, self.one.uncertainty + self.full.uncertainty

    def agreement(self) -> tuple[float, float]:
        """Return the probability that two fits give the same answer."""
        value = self._agreement_at(self.q12)
        least = self._agreement_at(self.q12 - self.variance_uncertainty)
        return value, value - least

    def _agreement_at(self, q12: float) -> float:
        """Return 1 − ε at the correlation q₁₂/q."""
        correlation = min(max(q12 / self.one.q, -1.0), 1.0)
        return float(1 - generalisation_error(correlation, self.teacher.n_classes))

    def variance_over_resamples(self) -> tuple[float, float]:
        """Return q − q₁₂."""
        return self.one.q - self.q12, self.variance_uncertainty

    def variance_over_fresh_data(self) -> tuple[float, float]:
        """Return q − q₁₂ of two students of data sets of their own."""
        value = self.full.q - self.fresh_overlap
        return value, _parameter_uncertainty(self.teacher, self.full) * value

    def ratio_of_variances(self) -> tuple[float, float]:
        """Return the variance over resamples over that over fresh data."""
        within, within_uncertainty = self.variance_over_resamples()
        fresh, fresh_uncertainty = self.variance_over_fresh_data()
        ratio = within / fresh
        return ratio, within_uncertainty / fresh + ratio * fresh_uncertainty / fresh


def _parameter_uncertainty(teacher: AnyTeacher, point: ErmFixedPoint) -> float:
    """Return the relative uncertainty of q, V and τ that the error bar of a point implies."""
    slope = error_slope(teacher.channel, point.tau, teacher.n_classes)
    return PARAMETERS_PER_TAU * point.uncertainty / max(slope, 1e-300)


def two_students(
    teacher: AnyTeacher, spec: ERM, alpha: float, counts: Counts, coupling: float, tol: float
) -> TwoStudents:
    """Solve for one student with random weights, for the student of all data, and for q₁₂."""
    k = teacher.n_classes
    whole = erm_sides(teacher, spec.loss, float(spec.ridge), alpha)
    side = ResampledSide(teacher.channel, spec.loss, k, alpha, counts=counts)
    problem = replace(whole, fields=side)
    point_tol = tol / 100 if k <= 3 else min(tol / 10, 1e-4)
    one = solve(problem, point_tol)
    full = erm_fixed_point(teacher, spec, alpha, point_tol)
    if not (math.isfinite(one.tau) and math.isfinite(full.tau)):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    overlap = _overlap(teacher, problem, one, coupling)
    q12 = float(overlap.value)
    search_uncertainty = float(overlap.uncertainty)
    relative = _parameter_uncertainty(teacher, one)
    return TwoStudents(
        teacher,
        one,
        full,
        fresh_overlap=whole.weights(Conjugates(full.m_hat, 0.0, full.V_hat)).q,
        q12=q12,
        q12_uncertainty=search_uncertainty + relative * q12,
        variance_uncertainty=search_uncertainty + relative * (one.q - q12),
    )


def _overlap(
    teacher: AnyTeacher, problem: Problem, one: ErmFixedPoint, coupling: float
) -> Estimate:
    """Return q₁₂: a root between that of fresh data and q, corrected by a finer rule."""
    side = cast(ResampledSide, problem.fields)

    def after_round(q12_hats: Array) -> Array:
        """Return q₁₂ after a round, for the q̂₁₂ of each replicate."""
        return np.array(
            [problem.weights(Conjugates(one.m_hat, float(x), one.V_hat)).q for x in q12_hats]
        )

    low = float(after_round(np.zeros(1))[0])
    high = one.q
    span = high - low
    rounding = ROUNDING_OF_OVERLAP * high
    if coupling == 0:
        return Estimate(np.array(low), np.array(rounding))
    if side.counts == ALL_SAMPLES_ONCE:  # Both students are the same.
        return Estimate(np.array(high), np.zeros(()))
    averages = [pair_average(teacher, side, one.law, level) for level in (0, 1)]

    def change(q12: float, level: int) -> Array:
        """Return q₁₂ after a round less q₁₂, one value for each replicate."""
        return after_round(problem.alpha * coupling * averages[level](q12)) - q12

    def mean_change(q12: float) -> float:
        """Return by how much a round changes q₁₂, over all replicates."""
        return float(change(q12, 0).mean())

    first = low + DISTANCE_FROM_ENDS * span
    last = low + (1 - DISTANCE_FROM_ENDS) * span
    if mean_change(first) <= 0:
        return Estimate(np.array(low), np.array(DISTANCE_FROM_ENDS * span))
    if mean_change(last) >= 0:
        return Estimate(np.array(high), np.array(DISTANCE_FROM_ENDS * span))
    sampled = side.n_classes > 3
    accuracy = SEARCH_ACCURACY_OF_TWO_CLASSES if side.n_classes == 2 else SEARCH_ACCURACY
    q12 = float(brentq(mean_change, first, last, xtol=accuracy * span))
    step = 1e-3 * min(q12 - low, high - q12)
    slope = float((change(q12 + step, 0) - change(q12, 0)).mean()) / step
    n_corrections = 2 if sampled else 1
    for _ in range(n_corrections):
        left = estimate_from_replicates(change(q12, 1))
        move = float(left.value) / slope
        q12 = min(max(q12 - move, first), last)
    uncertainty = abs(move) + abs(float(left.uncertainty) / slope) + rounding
    return Estimate(np.array(q12), np.array(uncertainty))


def pair_average(
    teacher: AnyTeacher, side: ResampledSide, law: ScalarOrder, level: int
) -> Callable[[float], Array]:
    """Return q₁₂ → (1/r) E Σ_l Z_l ‖E_η f̄_l‖², one value for each replicate."""
    if FieldsSide.explicit(side, law) is None:
        return _pair_average_on_nodes(teacher, side, law, level)

    def linear(q12: float) -> Array:
        """Return (Σ p w √Q)²: f is linear in ω and of one direction for all weights."""
        pair = ScalarOrder.of_overlaps(law.m, q12, law.V)
        total: Array | float = 0.0
        for w, p in side.counts:
            averages = FieldsSide.explicit(side, _weighted(pair, w))
            if averages is not None:
                total = total + p * w * np.sqrt(averages.Q)
        return np.asarray(total**2)

    return linear


def _pair_average_on_nodes(
    teacher: AnyTeacher, side: ResampledSide, law: ScalarOrder, level: int
) -> Callable[[float], Array]:
    """Return the average of `resampling_pairs`, with multiples of the identity as matrices.

    By symmetry label 1 alone is enough, k times.
    """
    k = side.n_classes
    r = k - 1
    eye = np.eye(r)
    problem = MatrixProblem(
        teacher, cast(Loss, side.student), np.ones(k), 1.0, 1.0, False, side.counts
    )
    order = MatrixOrder(
        np.zeros((1, r)),
        law.q * law.residual * eye[None],
        law.V * eye[None],
        np.zeros(r),
        law.m * eye,
    )
    average = pair_hats(problem, order, level, labels=1)

    def psi(q12: float) -> Array:
        """Return the average pull product of both students, at q₁₂."""
        hats = average((q12 - law.m**2) * eye[None])
        return np.asarray(k / r * np.trace(hats[:, 0], axis1=1, axis2=2))

    return psi
