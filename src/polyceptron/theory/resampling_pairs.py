"""Two students on one data set (`resampling`): the covariance of their fields, with matrices.

The pull of both on one sample, in `pair_averages.py`, makes Q̂₁₂ of Q₁₂, and the weights side makes
Q₁₂ of Q̂₁₂ as it makes Q of Q̂. Two students agree as a student and a teacher do whose fields are the
other's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, student_quantile
from polyceptron.problem.channels import as_channel
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import unpack
from polyceptron.sides.matrix.order import MatrixConjugates, MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.sides.matrix.weights import weights_side
from polyceptron.sides.scores import FieldsDistribution, TeacherFields, population_scores
from polyceptron.solve.anderson import Anderson
from polyceptron.theory.erm.population_numbers import fields_law
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.unequal_classes import solved_point
from polyceptron.theory.pair_averages import N_REPLICATES, pair_hats

ALL_SAMPLES_ONCE = ((1.0, 1.0),)
# Share of the tolerance of a row for the fixed points, and where averages are sampled.
POINT_SHARE_OF_TOLERANCE = 0.01
SAMPLED_POINT_SHARE_OF_TOLERANCE = 0.05
# Conjugates of one student, at its fixed point: log2 of points, and replicates.
LOG2_POINTS_OF_HATS = 10
N_REPLICATES_OF_HATS = 8
MAX_ROUNDS = 60
SINGULAR_VALUE_CUTOFF = 1e-3
# Last step of Q₁₂, relative to the largest Q, of two classes and of more.
STEP_TOLERANCE_OF_TWO_CLASSES = 1e-9
STEP_TOLERANCE = 1e-6
# Share of the tolerance for rare copies that were left out, and for the last step.
LEFT_SHARE_OF_TOLERANCE = 0.01

Quantity = tuple[str, float]
"""What a row is of, and its number of averaged fits (NaN where there is none)."""


class StudentOnSamples(NamedTuple):
    """One student, whose samples have the copies of a problem.

    Attributes
    ----------
    problem : MatrixProblem
    point : PopulationPoint
    order : MatrixOrder
    hats : MatrixConjugates
    """

    problem: MatrixProblem
    point: PopulationPoint
    order: MatrixOrder
    hats: MatrixConjugates

    @property
    def law(self) -> FieldsDistribution:
        """The law of the fields, with a teacher's part in Q."""
        return fields_law(self.problem, self.order)

    def covariance_after(self, Q_hat: Array) -> Array:
        """Return Q (G, r, r) (of a teacher E) of students that have Q̂ (G, r, r) in common."""
        problem = self.problem
        hats = self.hats._replace(Q=Q_hat)
        return weights_side(problem.population, problem.R, hats, problem.ridge, self.order.b).Q

    @property
    def covariance_of_fresh_data(self) -> Array:
        """Q₁₂ (of a teacher E₁₂) of students of data sets of their own, (G, r, r)."""
        return self.covariance_after(np.zeros_like(self.order.Q))

    @property
    def relative_uncertainty(self) -> float:
        """That of Q, in units of its largest entry."""
        point = self.point
        return float((point.Q_uncertainty / np.abs(point.Q).max()).max())


def solved_student(problem: MatrixProblem, tol: float) -> StudentOnSamples:
    """Solve for one student, whose samples have the problem's copies."""
    point = solved_point(problem, tol)
    if not math.isfinite(point.generalisation_error):
        raise ComputationFailed(f"the fixed point at alpha {problem.alpha:g} was not found")
    order = unpack(problem, point.theta)
    if problem.sampled:
        points = PointFields.drawn(problem, LOG2_POINTS_OF_HATS, N_REPLICATES_OF_HATS)
        return StudentOnSamples(problem, point, order, points(order).hats)
    boxes = GraphFields(problem, order, 5 - problem.n_classes)
    return StudentOnSamples(problem, point, order, boxes(order).hats)


def overlaps_of(student: StudentOnSamples, coupling: float, level: int) -> Array:
    """Return Q₁₂ (of a teacher E₁₂) at all points, then at those of replicates.

    Parameters
    ----------
    student : StudentOnSamples
    coupling : float
        c = E[w₁w₂]/E[w]².
    level : int
        Of the rule.

    Returns
    -------
    array, shape (1 + N_REPLICATES, G, r, r)
    """
    problem = student.problem
    fresh = student.covariance_of_fresh_data
    if coupling == 0:
        return np.repeat(fresh[None], 1 + N_REPLICATES, 0)
    if problem.copies == ALL_SAMPLES_ONCE:  # both students are the same
        return np.repeat(student.order.Q[None], 1 + N_REPLICATES, 0)
    tolerance = STEP_TOLERANCE
    if problem.n_classes == 2:
        tolerance = STEP_TOLERANCE_OF_TWO_CLASSES
    tolerance = tolerance * float(np.abs(student.order.Q).max())
    average = pair_hats(problem, student.order, level, problem.n_classes)
    memory = Anderson(MAX_ROUNDS, SINGULAR_VALUE_CUTOFF)
    E12 = fresh
    for _ in range(MAX_ROUNDS):
        hats = coupling * average(E12)
        residuals = [(student.covariance_after(own) - E12).ravel() for own in (hats.mean(0), *hats)]
        memory.record(E12.ravel(), residuals[0])
        # The replicates' maps have nearly the same slopes: each has a step of its own.
        moved = [E12 + memory.step(residual).reshape(E12.shape) for residual in residuals]
        if np.abs(residuals[0]).max() < tolerance:
            return np.array(moved)
        E12 = moved[0]
    raise ComputationFailed(f"the overlap of students at alpha {problem.alpha:g} was not found")


@dataclass(frozen=True)
class PairOfStudents:
    """Two students with an overlap, and the student of all data.

    Attributes
    ----------
    one, full : StudentOnSamples
        A student whose samples have copies, and that of all data.
    E12 : array, shape (G, r, r)
        The covariance of two students' fields, of a teacher without its part.
    tol : float
        Of the error of averaged fits; infinite for a quick comparison with another E₁₂.
    """

    one: StudentOnSamples
    full: StudentOnSamples
    E12: Array
    tol: float

    @cached_property
    def Q12(self) -> Array:
        """Covariance of two students' fields in each group, (G, r, r)."""
        return self.one.law.Q - (self.one.order.Q - self.E12)

    def error_of_average(self, n_fits: float) -> Estimate:
        """Return the error of the average of B fits' fields."""
        law = self.one.law
        mean = replace(law, Q=law.Q / n_fits + (1 - 1 / n_fits) * self.Q12)
        return population_scores(mean, None, self.tol, law).error

    def bias(self) -> Estimate:
        """Return the error of one fit less that of the fit of all data."""
        one = self.one.point
        full = self.full.point
        return Estimate(
            np.array(one.generalisation_error - full.generalisation_error),
            np.array(one.uncertainty + full.uncertainty),
        )

    def agreement(self) -> Estimate:
        """Return the probability that two fits give the same answer.

        It is the chance that a student is right whose teacher is the other one.
        """
        if self.one.problem.copies == ALL_SAMPLES_ONCE:
            return Estimate(np.ones(()), np.zeros(()))
        law = self.one.law
        disagreement = np.zeros(2)  # value and uncertainty
        for m, Q, Q12, share in zip(law.m, law.Q, self.Q12, law.shares, strict=True):
            other = TeacherFields(Q12, Q, m + law.b, as_channel("none"))
            group = FieldsDistribution(np.ones(1), m[None], Q[None], law.b, other)
            disagreement += share * np.array(population_scores(group, None, self.tol).error)
        return Estimate(np.array(1 - disagreement[0]), np.array(disagreement[1]))

    def variance_over_resamples(self) -> float:
        """Return the mean variance of a field's difference over resamples."""
        return self._mean_variance(self.one.order.Q - self.E12)

    def variance_over_fresh_data(self) -> float:
        """Return the mean variance of a field's difference over data sets."""
        return self._mean_variance(self.full.order.Q - self.full.covariance_of_fresh_data)

    def _mean_variance(self, covariance: Array) -> float:
        """Return the mean over class differences, and groups by their shares, of (G, r, r)."""
        r = covariance.shape[-1]
        return float(self.one.law.shares @ np.trace(covariance, 0, 1, 2) / r)

    def quantities(self, fits: Sequence[float]) -> dict[Quantity, Estimate]:
        """Return all values of the rows, with what their own averages leave open."""
        values: dict[Quantity, Estimate] = {}
        for n_fits in fits:
            values["error", n_fits] = self.error_of_average(n_fits)
        values["bias", 1.0] = self.bias()
        values["agreement", 2.0] = self.agreement()
        within = self.variance_over_resamples()
        fresh = self.variance_over_fresh_data()
        values["variance over resamples", math.nan] = _without_bar(within)
        values["variance over fresh data", math.nan] = _without_bar(fresh)
        values["ratio of variances", math.nan] = _without_bar(within / fresh)
        return values


def _without_bar(value: float) -> Estimate:
    return Estimate(np.array(value), np.zeros(()))


def population_pair(
    problem: MatrixProblem, coupling: float, fits: Sequence[float], tol: float
) -> tuple[PopulationPoint, Estimate, dict[Quantity, tuple[float, float]]]:
    """Solve for two students of one data set.

    Parameters
    ----------
    problem : MatrixProblem
        With the copies of one student's samples.
    coupling : float
        c = E[w₁w₂]/E[w]² of two students.
    fits : sequence of float
        Numbers of averaged fits.
    tol : float

    Returns
    -------
    point : PopulationPoint
        Of one student.
    overlap : Estimate, shape (G, r, r)
        Q₁₂.
    values : dict
        Values with uncertainties by (quantity, fits).
    """
    share = POINT_SHARE_OF_TOLERANCE
    if problem.sampled:
        share = SAMPLED_POINT_SHARE_OF_TOLERANCE
    one = solved_student(problem, share * tol)
    full = solved_student(replace(problem, copies=ALL_SAMPLES_ONCE), share * tol)
    levels = _overlaps_on_levels(one, coupling)
    pair = PairOfStudents(one, full, levels.best, tol / 3)
    values = pair.quantities(fits)
    others = [PairOfStudents(one, full, E12, tol / 3).quantities(fits) for E12 in levels.coarse]
    replicates = [
        PairOfStudents(one, full, E12, math.inf).quantities(fits) for E12 in levels.replicates
    ]
    rows = {}
    for quantity, (value, own_bar) in values.items():
        spread = spread_of(
            value,
            [known[quantity].value for known in others],
            [known[quantity].value for known in replicates],
        )
        bar = own_bar + spread + _left_by_points(quantity[0], float(value), one, full)
        rows[quantity] = float(value), float(bar + LEFT_SHARE_OF_TOLERANCE * tol)
    Q12_bar = spread_of(levels.best, levels.coarse, levels.replicates)
    Q12_bar = Q12_bar + one.relative_uncertainty * np.abs(pair.Q12)
    return one.point, Estimate(pair.Q12, Q12_bar), rows


class PairOverlaps(NamedTuple):
    """Q₁₂ (of a teacher E₁₂), (G, r, r) each: the best, those of coarser rules, of replicates."""

    best: Array
    coarse: list[Array]
    replicates: list[Array]


def _overlaps_on_levels(one: StudentOnSamples, coupling: float) -> PairOverlaps:
    """Return the overlaps by two levels of a rule, or at points and their replicates."""
    if one.problem.n_classes > 3:
        best, *replicates = overlaps_of(one, coupling, 0)
        return PairOverlaps(best, [], replicates)
    coarse = overlaps_of(one, coupling, 0)[0]
    return PairOverlaps(overlaps_of(one, coupling, 1)[0], [coarse], [])


def spread_of(value: Array, coarse: Sequence[Array], replicates: Sequence[Array]) -> Array:
    """Return how far a value is from coarser ones, or the half width that replicates show."""
    spread = np.zeros(np.shape(value))
    for other in coarse:
        spread = spread + np.abs(value - other)
    if replicates:
        t = student_quantile(len(replicates)) / math.sqrt(len(replicates))
        spread = spread + t * np.std(replicates, axis=0, ddof=1)
    return spread


def _left_by_points(
    name: str, value: float, one: StudentOnSamples, full: StudentOnSamples
) -> float:
    """Return what the fixed points leave open: of the error by itself, of matrices relative."""
    relative: Mapping[str, float] = {
        "agreement": one.relative_uncertainty * (1 - value),
        "variance over resamples": one.relative_uncertainty * value,
        "variance over fresh data": full.relative_uncertainty * value,
        "ratio of variances": (one.relative_uncertainty + full.relative_uncertainty) * value,
        "error": one.point.uncertainty,
        "bias": 0.0,
    }
    return relative[name]
