"""Rows of one-pass SGD: the error at each α, its bar, and the rate that is best there.

    ε(α) from τ = m/√(q − m²)

The bar adds what the averages of a step leave open (a coarser level, or the spread of replicates)
and the error of the integration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np

from polyceptron.checks import check_alphas, check_tolerance
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses.checks import check_symmetric
from polyceptron.problem.populations import AnyTeacher, Population
from polyceptron.problem.specs import SGD
from polyceptron.progress import steps
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.generalisation import error_at_tau, error_on_labels, error_slope
from polyceptron.solve.minimise import Minimum, Trial, minimise
from polyceptron.solve.solution import status_within
from polyceptron.theory.one_pass.path import OnePassState, largest_stable_rate, one_pass_path

# Of ln τ: ten times what a tolerance of 1e-11 changes
# (tests/unit/theory/test_one_pass.py::test_integration_error).
INTEGRATION_ERROR = 5e-7
SAMPLED_INTEGRATION_ERROR = 1e-4
ROUNDING = 1e-12
TOLERANCE_OF_FEW_CLASSES = 1e-6  # k ≤ 3
TOLERANCE_OF_MANY_CLASSES = 1e-4
SEARCH_TOLERANCE = 1e-6  # of the error at the best rate


@dataclass(frozen=True)
class OnePassPoint:
    """The law of the fields at one α and rate, with the error and its bar."""

    state: OnePassState
    rate: float
    generalisation_error: float
    uncertainty: float


@with_one_blas_thread
def one_pass_rows(
    population: Population, estimator: SGD, alpha: object, tol: float | None = None
) -> list[Row]:
    """Return one row of theory for each α, in the order given.

    Parameters
    ----------
    population : Teacher or Perceptron
        Its classes must be alike.
    estimator : SGD
    alpha : float or array_like
        n/d.
    tol : float, optional
        The wanted uncertainty of the error: by default 1e-6 up to three classes, 1e-4 above.
    """
    teacher = _teacher_of(population)
    check_symmetric(estimator.loss, teacher.n_classes)
    default = TOLERANCE_OF_FEW_CLASSES
    if teacher.n_classes > 3:
        default = TOLERANCE_OF_MANY_CLASSES
    tolerance = check_tolerance(tol, default)
    return [_row(teacher, estimator, value, tolerance) for value in steps(check_alphas(alpha))]


def _teacher_of(population: Population) -> AnyTeacher:
    """Return a teacher whose classes are alike, or raise `InvalidInput`."""
    if population.label_channel is None or not population.symmetric:
        raise InvalidInput(
            "the theory of one-pass SGD takes a teacher whose classes are alike (no mixture, "
            f"biases, shares or gram), got {population!r}"
        )
    return cast(AnyTeacher, population)  # a mixture has no such channel


def _row(teacher: AnyTeacher, estimator: SGD, alpha: float, tolerance: float) -> Row:
    """Return the row at one α; without numbers where the weights overflow."""
    columns = {**teacher.columns, **estimator.columns, "alpha": alpha}
    try:
        point, left_open = _point_or_best(teacher, estimator, alpha)
    except ComputationFailed:
        return make_row(
            source="theory", **columns, rate=estimator.rate, status=Status.RATE_TOO_LARGE
        )
    uncertainty = point.uncertainty + left_open
    status = status_within(uncertainty, tolerance)
    if _rate_at(estimator, point.rate, alpha) > largest_stable_rate(teacher, estimator.loss):
        status = Status.RATE_TOO_LARGE
    order = point.state.order
    if not teacher.channel.noiseless:
        columns["clean_error"] = float(error_at_tau(order.tau, teacher.n_classes))
    return make_row(
        source="theory",
        **columns,
        rate=point.rate,
        m=order.m,
        q=order.q,
        V=0.0,
        generalisation_error=point.generalisation_error,
        uncertainty=uncertainty,
        status=status,
    )


def _rate_at(estimator: SGD, rate: float, alpha: float) -> float:
    """Return the rate of a single sample at α: η(α)/B."""
    return estimator.with_rate(rate).rate_at(alpha) / estimator.batch


def _point_or_best(teacher: AnyTeacher, estimator: SGD, alpha: float) -> tuple[OnePassPoint, float]:
    """Return the point at the rate, or at the best one with what its search left open."""
    if not isinstance(estimator.rate, str):
        return one_pass_point(teacher, estimator, alpha), 0.0
    if alpha == 0:  # no rate has an effect
        return one_pass_point(teacher, estimator.with_rate(1.0), alpha), 0.0
    minimum = best_rate(teacher, estimator, alpha)
    return minimum.trial.answer, minimum.left_open


@with_one_blas_thread
def one_pass_point(teacher: AnyTeacher, estimator: SGD, alpha: float) -> OnePassPoint:
    """Return the law of the fields at α for a rate that is a number, with error and bar."""
    rate = estimator.rate_at(0.0)
    path = one_pass_path(teacher, estimator.loss, rate / estimator.batch, estimator.decay_scale)
    state = path.at(alpha)
    channel = teacher.channel
    k = teacher.n_classes
    errors = np.asarray(error_on_labels(channel, state.tau, k))
    tau = float(state.tau[0])
    integration_error = INTEGRATION_ERROR
    left_by_averages = 0.0
    if path.step.sampled:
        integration_error = SAMPLED_INTEGRATION_ERROR
        left_by_averages = float(estimate_from_replicates(errors[1:]).uncertainty)
    elif len(errors) > 1:
        left_by_averages = abs(float(errors[1] - errors[0]))
    left_by_integration = 0.0
    if tau > 0:
        left_by_integration = integration_error * error_slope(channel, tau, k)
    uncertainty = left_by_averages + left_by_integration + channel.accuracy + ROUNDING
    return OnePassPoint(state, rate, float(errors[0]), uncertainty)


def best_rate(teacher: AnyTeacher, estimator: SGD, alpha: float) -> Minimum:
    """Return the rate η₀ of least generalisation error at α > 0, its schedule held.

    Returns
    -------
    Minimum
        `parameter` is the rate, `trial.answer` the `OnePassPoint` there.
    """

    def trial(rate: float) -> Trial:
        """Return the error at a learning rate, inf where there is no answer."""
        try:
            point = one_pass_point(teacher, estimator.with_rate(rate), alpha)
        except ComputationFailed:
            return Trial(math.inf)
        return Trial(point.generalisation_error, answer=point)

    start = float(estimator.batch)
    found = minimise(trial, start, SEARCH_TOLERANCE, range_=(1e-6, 1e6))
    if found is None:
        raise ComputationFailed(f"no rate of one-pass SGD has a finite error at alpha = {alpha:g}")
    return found
