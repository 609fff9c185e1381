"""Empirical risk minimisation where classes are unequal, at a given ridge or at the best one.

Order parameters are matrices (`sides/matrix`). Two and three classes are refined on boxes
(`refined_boxes.py`), more classes on random points (`refined_points.py`); either begins at a root
that is easy to find (`first_root.py`). Scores of a law are those of `sides/scores.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from polyceptron.checks import check_alpha, check_tolerance
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses import LOSSES, Loss, check_symmetric
from polyceptron.problem.mixture import LARGEST_FULL
from polyceptron.problem.population import numbers_text
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import ERM
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import Fields, matrix_rounds, start, unpack
from polyceptron.sides.matrix.order import MatrixAverages, MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.sides.scores import FieldsDistribution, population_scores
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.erm.matrix_solver import Solved
from polyceptron.theory.erm.population_numbers import (
    RIDGE_STANDING_FOR_ZERO,
    fields_law,
    point_without_numbers,
)
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.refined_boxes import refined_on_boxes
from polyceptron.theory.erm.refined_points import least_log2_points, refined_on_points
from polyceptron.theory.separability import loss_at_ridge

FIRST_RIDGE = 0.3  # with which the search for the best one begins
SMALLEST_RIDGE = 1e-9
LARGEST_RIDGE_PER_SAMPLE = 1e8  # in units of α, or of 1 if this is more
# Share of the tolerance for each fixed point: the search for a ridge has the remaining share.
FIXED_POINT_SHARE_OF_TOLERANCE = 0.8
# A fixed point whose ln λ is nearer than this is a good start for another one.
NEAR_LOG_RIDGE = 2.5
# Plain rounds: levels of the rule and of a coarser one, or log2 of the points and replicates.
LEVEL_OF_ROUNDS = 2
COARSE_LEVEL_OF_ROUNDS = 1
LOG2_POINTS_OF_ROUNDS = 10
N_REPLICATES_OF_ROUNDS = 8
ERROR_OF_BOTH_RULES = 1e-7  # of errors after plain rounds: what the two levels have in common


@with_one_blas_thread
def population_point(
    population: Population,
    spec: ERM,
    alpha: float,
    tol: float | None = None,
    target: str = "error",
) -> PopulationPoint:
    """Solve for the fixed point at n = αd, with the error to a tolerance.

    Parameters
    ----------
    population : Population
    spec : ERM
    alpha : float
        n/d.
    tol : float, optional
        1e-6 for two and three classes, else 1e-3.
    target : 'error' or 'balanced-error'
        What a best ridge makes least.
    """
    if spec.ridge == "optimal":
        return _at_best_ridge(population, spec, alpha, tol, target)
    problem = matrix_problem(population, spec, alpha)
    return solved_point(problem, population_tolerance(problem, tol))


def population_tolerance(problem: MatrixProblem, tol: float | None) -> float:
    """Return the tolerance on the error, by default 1e-6, or 1e-3 where averages are sampled."""
    if problem.sampled:
        return check_tolerance(tol, 1e-3)
    return check_tolerance(tol, 1e-6)


def solved_point(problem: MatrixProblem, tol: float, theta: Array | None = None) -> PopulationPoint:
    """Return the fixed point of both sides, from θ (unknowns,) nearby if it is given.

    It is not converged where Q or V became singular on the way.
    """
    if theta is None:
        theta = start(problem)
    try:
        if problem.sampled:
            return refined_on_points(problem, theta, tol)
        return refined_on_boxes(problem, theta, tol)
    except np.linalg.LinAlgError:
        return _unsolved_at_start(problem)


def _unsolved_at_start(problem: MatrixProblem) -> PopulationPoint:
    """Return a point without numbers, at the law from which the search started."""
    theta = start(problem)
    order = unpack(problem, theta)
    fields: Fields
    if problem.sampled:
        fields = PointFields.drawn(problem, least_log2_points(problem), 1)
    else:
        fields = GraphFields(problem, order, 0)
    return point_without_numbers(problem, Solved(order, theta, fields(order), False, fields))


def matrix_problem(population: Population, spec: ERM, alpha: float) -> MatrixProblem:
    """Return what both sides are made of, after a check of the request."""
    alpha = check_alpha(alpha)
    _check_request(population, spec, alpha)
    loss, ridge = _loss_and_ridge(population, spec, alpha)
    weights = spec.loss_weights(population.class_shares)
    return MatrixProblem(population, loss, weights, ridge, alpha, spec.intercept)


def _check_request(population: Population, spec: ERM, alpha: float) -> None:
    """Raise `InvalidInput` where the theory does not apply."""
    if spec.penalty is not None:
        raise InvalidInput(
            f"classes that are not alike take a ridge, not the penalty {spec.penalty.name!r}"
        )
    if not any(type(spec.loss) is entry.make for entry in LOSSES.entries):
        check_symmetric(spec.loss, population.n_classes)
    full = population.full_features
    if full is not None and full[0].size > LARGEST_FULL:
        raise InvalidInput(
            f"the theory of covariances in full is feasible for k·d up to {LARGEST_FULL}, got "
            f"{full[0].size}: fit samples drawn from the mixture, or use levels"
        )
    if alpha == 0:
        raise InvalidInput("classes that are not alike need an alpha above 0")


def _loss_and_ridge(population: Population, spec: ERM, alpha: float) -> tuple[Loss, float]:
    """Return what ridge 0 stands for, or loss and ridge as they are.

    Without a scale of their own hard margins are the same at every ridge, as if it were 1.
    """
    ridge = float(spec.ridge)
    if ridge > 0:
        return spec.loss, ridge
    loss = loss_at_ridge(spec.loss, 0, population, alpha, spec.intercept)
    if loss.scale_free:
        return loss, 1.0
    return loss, RIDGE_STANDING_FOR_ZERO


def _at_best_ridge(
    population: Population, spec: ERM, alpha: float, tol: float | None, target: str
) -> PopulationPoint:
    """Return the fixed point at the ridge of least error, or of least balanced error."""
    if target not in ("error", "balanced-error"):
        raise InvalidInput(
            f"unknown target {target!r} of a ridge on classes that are not alike: allowed are "
            f"'error', 'balanced-error'"
        )
    objective = ErrorOfRidge(population, spec, check_alpha(alpha), tol, target == "balanced-error")
    largest = LARGEST_RIDGE_PER_SAMPLE * max(1.0, objective.alpha)
    found = minimise(
        objective,
        FIRST_RIDGE,
        objective.tolerance,
        range_=(SMALLEST_RIDGE, largest),
        limit_at_zero=True,
    )
    if found is None:
        raise ComputationFailed(
            f"no fixed point at alpha {alpha:g} on the way to the optimal ridge; give a ridge"
        )
    point: PopulationPoint = found.trial.answer
    bar = objective.uncertainty_of(point) + found.left_open
    status = point.status
    if status == Status.OK and (bar > objective.tolerance or found.place == Place.EDGE):
        status = Status.TOLERANCE_NOT_MET
    if objective.balanced:
        return replace(point, balanced_error_uncertainty=bar, status=status)
    return replace(point, uncertainty=bar, status=status)


@dataclass
class ErrorOfRidge:
    """The error, or the balanced error, as a function of the ridge.

    Attributes
    ----------
    population : Population
    spec : ERM
    alpha : float
    tol : float, optional
    balanced : bool
        Whether the balanced error is meant.
    known : dict of float to array
        θ by ln λ: the next search starts at the nearest one.
    """

    population: Population
    spec: ERM
    alpha: float
    tol: float | None
    balanced: bool
    known: dict[float, Array] = field(default_factory=dict)

    def value_of(self, point: PopulationPoint) -> float:
        """Return the error that is meant."""
        if self.balanced:
            return point.balanced_error
        return point.generalisation_error

    def uncertainty_of(self, point: PopulationPoint) -> float:
        """Return the uncertainty of the error that is meant."""
        if self.balanced:
            return point.balanced_error_uncertainty
        return point.uncertainty

    @property
    def tolerance(self) -> float:
        """The tolerance on the error at the best ridge."""
        problem = matrix_problem(self.population, replace(self.spec, ridge=1.0), self.alpha)
        return population_tolerance(problem, self.tol)

    def __call__(self, ridge: float) -> Trial:
        """Return the error at a ridge, infinite where there is no fixed point."""
        try:
            problem = matrix_problem(self.population, replace(self.spec, ridge=ridge), self.alpha)
        except InvalidInput:  # the loss has no limit of vanishing ridge
            return Trial(math.inf)
        point = self._solved(problem, ridge)
        if point.status == Status.NOT_CONVERGED:
            return Trial(math.inf)
        if ridge > 0:
            self.known[math.log(ridge)] = point.theta
        return Trial(self.value_of(point), answer=point)

    def _solved(self, problem: MatrixProblem, ridge: float) -> PopulationPoint:
        """Return the fixed point at a ridge, from that of a ridge nearby if there is one."""
        tol = FIXED_POINT_SHARE_OF_TOLERANCE * population_tolerance(problem, self.tol)
        nearby = self._theta_near(math.log(max(ridge, RIDGE_STANDING_FOR_ZERO)))
        if nearby is not None and not problem.loss.scale_free:
            point = solved_point(problem, tol, nearby)
            if point.status != Status.NOT_CONVERGED:
                return point
        return solved_point(problem, tol)

    def _theta_near(self, log_ridge: float) -> Array | None:
        """Return the θ of the nearest ridge, None where all are far."""
        nearest = min(self.known, key=lambda other: abs(other - log_ridge), default=math.inf)
        if abs(nearest - log_ridge) < NEAR_LOG_RIDGE:
            return self.known[nearest]
        return None


@with_one_blas_thread
def population_rounds(
    population: Population, spec: ERM, alpha: float, n_steps: int
) -> list[tuple[FieldsDistribution, float, float]]:
    """Return the law, its error and that one's uncertainty after t = 0, 1, … rounds from nothing.

    Each of several rules has rounds of its own. Their spread is the uncertainty.
    """
    problem = matrix_problem(population, spec, alpha)
    rounds = [matrix_rounds(problem, fields) for fields in _rules_of_rounds(problem)]
    found = []
    for orders in islice(zip(*rounds, strict=True), n_steps + 1):
        law, *others = (fields_law(problem, order) for order in orders)
        error, bar = population_scores(law, tol=1e-3).error
        errors = [population_scores(x, tol=math.inf, near=law).error.value for x in others]
        if problem.sampled:
            spread = float(estimate_from_replicates(np.array(errors)).uncertainty)
        else:
            spread = abs(float(errors[0] - error)) + ERROR_OF_BOTH_RULES
        found.append((law, float(error), float(bar) + spread))
    return found


def _rules_of_rounds(problem: MatrixProblem) -> list[Fields]:
    """Return the fields sides of plain rounds: the best one, then those to compare with."""
    if problem.sampled:
        points = PointFields.drawn(problem, LOG2_POINTS_OF_ROUNDS, N_REPLICATES_OF_ROUNDS)
        return [points, *(points.replicate(i) for i in range(N_REPLICATES_OF_ROUNDS))]
    return [_boxes_placed_anew(problem, n) for n in (LEVEL_OF_ROUNDS, COARSE_LEVEL_OF_ROUNDS)]


def _boxes_placed_anew(
    problem: MatrixProblem, level: int
) -> Callable[[MatrixOrder], MatrixAverages]:
    """Return the fields side on boxes that are placed for each law."""

    def fields(order: MatrixOrder) -> MatrixAverages:
        """Return the averages on boxes placed at these order parameters."""
        return GraphFields(problem, order, level)(order)

    return fields


def population_row(population: Population, spec: ERM, point: PopulationPoint) -> Row:
    """Return the row of a fixed point; matrices as text."""
    intercepts = None
    if spec.intercept:
        intercepts = numbers_text(point.intercepts)
    return make_row(
        source="theory",
        **population.columns,
        **{**spec.columns, "ridge": point.ridge},
        alpha=point.alpha,
        recall=numbers_text(point.recall),
        confusion=numbers_text(point.confusion),
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        balanced_error=point.balanced_error,
        balanced_error_uncertainty=point.balanced_error_uncertainty,
        training_error=point.training_error,
        training_error_uncertainty=point.training_error_uncertainty,
        training_loss=point.training_loss,
        training_loss_uncertainty=point.training_loss_uncertainty,
        test_loss=point.test_loss,
        test_loss_uncertainty=point.test_loss_uncertainty,
        brier=point.brier,
        brier_uncertainty=point.brier_uncertainty,
        calibration_error=float(point.calibration.value),
        calibration_error_uncertainty=float(point.calibration.uncertainty),
        intercepts=intercepts,
        status=point.status,
    )
