"""The class weights of a fit that cost least on fresh samples.

Class weights change the fit itself, so that every trial is a fixed point. Searched is the family

    w_c ∝ P(c)^(−γ) C_c^δ,    Σ_c P(c) w_c = 1,    C_c = Σ_p (c_cp − c_cc)

with C_c what mistakes of class c cost together. γ = δ = 0 is no weights, γ = 1 and δ = 0 is
'balanced'. With two classes it is the ratio w_2/w_1, which is all that there is. Where neither
shares nor costs differ, each weight is searched for in turn.

In ln w each of γ and δ (or each weight) is a direction. `minimise` searches one line after the
other, and the sweep over all lines is repeated until it gains nothing (`WeightSearch`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from polyceptron.checks import check_alpha
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.problem.populations import Population, check_population
from polyceptron.problem.specs import ERM, Estimator, as_erm
from polyceptron.rows import Status
from polyceptron.sides.scores import PopulationScores, population_scores
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.decisions import (
    Costs,
    Decision,
    cost_matrix,
    fixed_point_or_failure,
    mean_cost,
    mean_cost_uncertainty,
)
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.unequal_classes import matrix_problem, population_tolerance

# Ratios of the largest to the smallest weight within which a line is searched.
WEIGHT_RATIOS = (1e-8, 1e8)
# Logarithms of shares, costs or weights that differ by less than this differ by rounding only.
EQUAL_LOGS = 1e-9
# Sweeps over all lines; what the last one gained is counted in the uncertainty.
MAX_SWEEPS = 3


def best_class_weight(
    population: Population,
    estimator: Estimator | str,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Costs | None = None,
    tol: float | None = None,
) -> Decision:
    """Find the class weights of a fit that cost least on fresh samples.

    With two classes it searches for the best ratio of the weights. With more it searches the family
    w_c ∝ P(c)^(−γ) C_c^δ, where C_c is the total cost of mistakes on class c; if neither shares nor
    costs differ, it searches one weight after the other.

    Parameters
    ----------
    population, estimator, alpha, target, cost, tol
        As in `best_shift`. Weights of the estimator itself do not count.

    Returns
    -------
    Decision
        `chosen` are the k weights, with mean 1 over samples. Its uncertainty counts what a further
        search in the family could gain.

    Examples
    --------
    >>> from polyceptron.problem import ERM
    >>> from polyceptron.problem.populations import Mixture
    >>> rare = Mixture((0.9, 0.1), separation=2.0)
    >>> found = best_class_weight(rare, ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > found.chosen[0])
    True
    """
    check_population(population)
    costs = cost_matrix(population, target, cost)
    objective = CostOfWeights(population, as_erm(estimator), check_alpha(alpha), tol, costs)
    equal_weights = objective(np.zeros(population.n_classes))
    if not math.isfinite(equal_weights.value):
        raise ComputationFailed(f"no fixed point at alpha {alpha:g}: give a larger ridge")
    search = WeightSearch(objective, np.zeros(population.n_classes), equal_weights)
    search.run()
    solved: SolvedFit = search.best.answer
    point = solved.point
    if search.ended_at_edge and point.status == Status.OK:
        point = replace(point, status=Status.TOLERANCE_NOT_MET)
    return Decision(
        chosen=objective.weights(search.log_weights),
        cost=search.best.value,
        cost_uncertainty=mean_cost_uncertainty(costs, solved.scores, point) + search.left_open,
        cost_before=equal_weights.value,
        scores=solved.scores,
        point=point,
    )


@dataclass(frozen=True)
class SolvedFit:
    """The fixed point of a fit and the scores of its answers."""

    point: PopulationPoint
    scores: PopulationScores


@dataclass(frozen=True)
class CostOfWeights:
    """The mean cost of a fit with class weights, as a function of their logarithms (k,)."""

    population: Population
    spec: ERM
    alpha: float
    tol: float | None
    costs: Array  # (k, k)

    @property
    def tolerance(self) -> float:
        """The tolerance of the mean cost that follows from that of each fixed point."""
        any_ridge = replace(self.spec, ridge=1.0)
        problem = matrix_problem(self.population, any_ridge, self.alpha)
        return population_tolerance(problem, self.tol) * float(np.abs(self.costs).max())

    def weights(self, log_weights: Array) -> Array:
        """Return the weights (k,), with mean 1 over samples."""
        w = np.exp(log_weights - log_weights.max())
        return np.asarray(w / (self.population.class_shares @ w))

    def __call__(self, log_weights: Array) -> Trial:
        """Return the mean cost at these weights, infinite where the fit has no fixed point."""
        weighted = replace(self.spec, class_weight=tuple(self.weights(log_weights).tolist()))
        try:
            point = fixed_point_or_failure(self.population, weighted, self.alpha, self.tol)
        except (ComputationFailed, ArithmeticError, np.linalg.LinAlgError):
            return Trial(math.inf)
        scores = population_scores(point.law)
        return Trial(mean_cost(self.costs, scores), answer=SolvedFit(point, scores))

    def along(self, log_weights: Array, direction: Array, ratio: float) -> Trial:
        """Return the cost where the weights are multiplied by ratio^direction."""
        return self(log_weights + math.log(ratio) * direction)

    def directions(self) -> list[Array]:
        """Return the lines to search, directions of ln w (k,) each of range 1."""
        k = self.population.n_classes
        if k == 2:
            return [np.array([0.0, 1.0])]
        candidates = [-np.log(self.population.class_shares)]
        cost_of_mistakes = (self.costs - np.diag(self.costs)[:, None]).sum(axis=1)
        if (cost_of_mistakes > 0).all():
            candidates.append(np.log(cost_of_mistakes))
        lines = [line / np.ptp(line) for line in candidates if np.ptp(line) > EQUAL_LOGS]
        if len(lines) == 2 and np.ptp(lines[0] - lines[1]) < EQUAL_LOGS:
            lines.pop()  # Balanced costs are inverse to the shares: both lines are one.
        if not lines:
            lines = list(np.eye(k)[1:])
        return lines

    def ratios_to_try(self, direction: Array) -> tuple[float, ...]:
        """Return the ratio of balanced weights, if they are on the line through equal ones."""
        balanced = -np.log(self.population.class_shares)
        if self.population.n_classes == 2:
            return (math.exp(balanced[1] - balanced[0]),)
        if np.ptp(balanced - np.ptp(balanced) * direction) < EQUAL_LOGS:
            return (math.exp(np.ptp(balanced)),)
        return ()


@dataclass
class WeightSearch:
    """The state of the search over lines in ln w.

    Attributes
    ----------
    objective : CostOfWeights
    log_weights : array, shape (k,)
        The best logarithms of weights so far.
    best : Trial
        The cost there.
    left_open : float
        What a further search could gain: in each line of the last sweep, and by another sweep.
    ended_at_edge : bool
        Whether a line of the last sweep ended at the largest or smallest ratio of weights.
    """

    objective: CostOfWeights
    log_weights: Array
    best: Trial
    left_open: float = 0.0
    ended_at_edge: bool = False
    tolerance: float = field(init=False)

    def __post_init__(self) -> None:
        self.tolerance = self.objective.tolerance

    def run(self) -> None:
        """Sweep over all lines until a sweep gains less than the tolerance."""
        directions = self.objective.directions()
        for _ in range(MAX_SWEEPS):
            cost_before_sweep = self.best.value
            self.left_open = 0.0
            self.ended_at_edge = False
            for direction in directions:
                self.search_line(direction)
            if len(directions) == 1:
                return
            gained = cost_before_sweep - self.best.value
            self.left_open += gained
            if gained < self.tolerance:
                return

    def search_line(self, direction: Array) -> None:
        """Minimise the cost along a direction (k,) of ln w, and go there if it is lower."""
        found = minimise(
            partial(self.objective.along, self.log_weights, direction),
            1.0,
            self.tolerance,
            range_=WEIGHT_RATIOS,
            scan=self.objective.ratios_to_try(direction),
        )
        assert found is not None  # The cost is finite at the start, where the ratio is 1.
        self.left_open += found.left_open
        self.ended_at_edge = self.ended_at_edge or found.place == Place.EDGE
        if found.trial.value <= self.best.value:
            self.best = found.trial
            self.log_weights = self.log_weights + math.log(found.parameter) * direction
