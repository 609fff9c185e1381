"""What a decision costs: the cost of answers, and the result of a search for the cheapest ones.

With costs c_tp of answering p to label t the mean cost of a rule is Σ_tp c_tp P(t, p):

    error           c_tp = 1[p ≠ t]
    balanced error  c_tp = 1[p ≠ t]/(k P(t))

`best_shift.py` and `best_class_weight.py` minimise this cost, the one after the fit and the other
by the fit itself. Both return a `Decision`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyceptron.checks import as_numbers, check_alpha
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import ERM
from polyceptron.sides.scores import PopulationScores
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.unequal_classes import population_point

Costs = Array | Sequence[Sequence[float]]


@dataclass(frozen=True)
class Decision:
    """What was chosen, its mean cost, and the student that has it.

    Attributes
    ----------
    chosen : array, shape (k,)
        Shifts of the intercepts, or class weights.
    cost, cost_uncertainty : float
        The mean cost on fresh samples.
    cost_before : float
        The mean cost without a shift, or with equal weights.
    scores : PopulationScores
        Error, recalls, confusion and more with the choice.
    point : PopulationPoint
        The fixed point of the fit.
    """

    chosen: Array
    cost: float
    cost_uncertainty: float
    cost_before: float
    scores: PopulationScores
    point: PopulationPoint


def cost_matrix(
    population: Population, target: str = "balanced", cost: Costs | None = None
) -> Array:
    """Return the costs c (k, k) of a target, or those that are given; rows are labels.

    Parameters
    ----------
    population : Population
    target : 'balanced' or 'error'
        Only looked at without `cost`.
    cost : array_like, shape (k, k), optional
    """
    k = population.n_classes
    if cost is not None:
        given = as_numbers(cost, "the costs").astype(float)
        if given.shape != (k, k) or not np.isfinite(given).all():
            raise InvalidInput(f"costs must be {k} × {k} finite numbers, got {cost!r}")
        return given
    mistakes = 1 - np.eye(k)
    if target == "error":
        return mistakes
    if target == "balanced":
        return np.asarray(mistakes / (k * population.class_shares[:, None]))
    raise InvalidInput(f"unknown target {target!r}: allowed are 'error' and 'balanced'")


def mean_cost(costs: Array, scores: PopulationScores) -> float:
    """Return Σ_tp c_tp P(t, p) for costs (k, k)."""
    return float((costs * scores.confusion.value).sum())


def mean_cost_uncertainty(costs: Array, scores: PopulationScores, point: PopulationPoint) -> float:
    """Return the uncertainty of the mean cost: that of the averages and that of the fixed point."""
    confusion_uncertainty = scores.confusion.uncertainty + point.confusion_uncertainty
    return float((np.abs(costs) * confusion_uncertainty).sum())


def fixed_point_or_failure(
    population: Population, spec: ERM, alpha: float, tol: float | None
) -> PopulationPoint:
    """Return the fixed point of a fit, or raise `ComputationFailed` where none was found."""
    point = population_point(population, spec, check_alpha(alpha), tol)
    if not np.isfinite(point.generalisation_error):
        raise ComputationFailed(f"no fixed point at alpha {alpha:g}: give a larger ridge")
    return point
