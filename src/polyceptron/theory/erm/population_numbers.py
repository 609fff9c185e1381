"""The numbers of a law with matrices: scores on fresh samples, training samples, the law itself."""

from __future__ import annotations

import math

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate
from polyceptron.rows import Status
from polyceptron.sides.matrix.linear_loss import has_known_training_loss, linear_training_loss
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem
from polyceptron.sides.scores import FieldsDistribution, TeacherFields, population_scores
from polyceptron.solve.solution import status_within
from polyceptron.theory.erm.matrix_solver import Solved
from polyceptron.theory.erm.population_point import LawUncertainty, PopulationPoint
from polyceptron.theory.erm.training import acts_along_ones

# Stands for ridge 0 where there is a minimum of least norm: the results of larger and smaller
# values agree to 1e-8 (test_populations.py).
RIDGE_STANDING_FOR_ZERO = 1e-9

Numbers = dict[str, Estimate]
"""Values with uncertainties, under the names of `PopulationPoint`."""


def fields_law(problem: MatrixProblem, order: MatrixOrder) -> FieldsDistribution:
    """Return the law of the fields as users see it: Q the whole covariance, b* as `biases`."""
    population = problem.population
    Q = order.Q
    teacher = None
    if population.label_channel is not None:
        Q = order.A @ problem.R @ order.A.T + Q
        biases = problem.basis.T @ population.offsets
        teacher = TeacherFields(order.A @ problem.R, problem.R, biases, population.label_channel)
    return FieldsDistribution(population.group_shares, order.m, Q, order.b, teacher, order.V)


def numbers_of(
    problem: MatrixProblem, solved: Solved, tol: float, near: FieldsDistribution | None = None
) -> Numbers:
    """Return all numbers of a law, with the uncertainties of their own averages.

    Parameters
    ----------
    problem : MatrixProblem
    solved : Solved
    tol : float
        Of the error, as in `population_scores`.
    near : FieldsDistribution, optional
        A law with which this one is compared: random points are placed as there.
    """
    law = fields_law(problem, solved.order)
    scores = population_scores(law, problem.probabilities, tol, near)
    return {
        "generalisation_error": scores.error,
        "balanced_error": scores.balanced_error,
        "confusion": scores.confusion,
        "test_loss": scores.test_loss or _unknown(()),
        "brier": scores.brier or _unknown(()),
        "training_loss": exactly(_training_loss(problem, solved)),
        "training_error": exactly(solved.averages.error),
        "intercepts": exactly(problem.basis @ law.b),
        "m": exactly(law.m),
        "Q": exactly(law.Q),
        "V": exactly(solved.order.V),
    }


def _training_loss(problem: MatrixProblem, solved: Solved) -> float:
    """Return the mean loss of training samples, NaN where the part along (1, …, 1) is unknown.

    The averages of the fields side have fields without that part.
    """
    if not acts_along_ones(problem.loss, problem.n_classes):
        return solved.averages.loss
    if not has_known_training_loss(problem):
        return math.nan
    try:
        return linear_training_loss(problem, solved.averages.hats.Q)
    except np.linalg.LinAlgError:
        return math.nan


def exactly(value: float | Array) -> Estimate:
    """Return a value of uncertainty 0."""
    return Estimate(np.asarray(value), np.zeros(np.shape(value)))


def _unknown(shape: tuple[int, ...]) -> Estimate:
    return Estimate(np.full(shape, math.nan), np.full(shape, math.nan))


def is_scalar(estimate: Estimate) -> bool:
    """Return whether an estimate is of a number."""
    return np.ndim(estimate.value) == 0


def point_without_numbers(problem: MatrixProblem, solved: Solved) -> PopulationPoint:
    """Return a point without numbers: no fixed point was in reach."""
    lost = {
        name: Estimate(np.full(known.value.shape, math.nan), np.full(known.value.shape, math.inf))
        for name, known in numbers_of(problem, solved, math.inf).items()
    }
    return _point(problem, solved, lost, Status.NOT_CONVERGED)


def solved_point_of(
    problem: MatrixProblem, solved: Solved, numbers: Numbers, tol: float
) -> PopulationPoint:
    """Return a point with these numbers, and whether its error meets the tolerance."""
    status = status_within(float(numbers["generalisation_error"].uncertainty), tol)
    return _point(problem, solved, numbers, status)


def _point(
    problem: MatrixProblem, solved: Solved, numbers: Numbers, status: Status
) -> PopulationPoint:
    ridge = problem.ridge
    if problem.loss.scale_free or ridge == RIDGE_STANDING_FOR_ZERO:
        ridge = 0.0
    value = {name: float(known.value) for name, known in numbers.items() if is_scalar(known)}
    bar = {name: float(known.uncertainty) for name, known in numbers.items() if is_scalar(known)}
    return PopulationPoint(
        generalisation_error=value["generalisation_error"],
        uncertainty=bar["generalisation_error"],
        status=status,
        n_classes=problem.n_classes,
        ridge=ridge,
        alpha=problem.alpha,
        balanced_error=value["balanced_error"],
        balanced_error_uncertainty=bar["balanced_error"],
        test_loss=value["test_loss"],
        test_loss_uncertainty=bar["test_loss"],
        brier=value["brier"],
        brier_uncertainty=bar["brier"],
        training_error=value["training_error"],
        training_error_uncertainty=bar["training_error"],
        training_loss=value["training_loss"],
        training_loss_uncertainty=bar["training_loss"],
        confusion=numbers["confusion"].value,
        confusion_uncertainty=numbers["confusion"].uncertainty,
        law=fields_law(problem, solved.order),
        law_uncertainty=LawUncertainty(
            numbers["m"].uncertainty,
            numbers["Q"].uncertainty,
            numbers["V"].uncertainty,
            numbers["intercepts"].uncertainty,
        ),
        probabilities=problem.probabilities,
        theta=solved.theta,
    )
