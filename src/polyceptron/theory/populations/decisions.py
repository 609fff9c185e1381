"""The best shift of the intercepts, and the best class weights, for the errors that count.

With costs c_tp of answering p to label t the mean cost of a rule is Σ_tp c_tp P(t, p):

    error           c_tp = 1[p ≠ t]
    balanced error  c_tp = 1[p ≠ t]/(k P(t))

A shift of the intercepts is chosen after the fit: the law of the fields stays, and the cost is a
function of r numbers. Class weights change the fit itself. Searched for is the family

    w_c ∝ P(c)^(−γ),    Σ_c P(c) w_c = 1

which is all that there is for two classes; γ = 0 is no weights, γ = 1 is 'balanced'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtri

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model.checks import as_numbers, check_alpha, difference_basis
from polyceptron.model.estimators import as_erm
from polyceptron.model.populations import Population, check_population
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.theory.populations.floor import least_cost
from polyceptron.theory.populations.population_point import PopulationPoint, population_point
from polyceptron.theory.populations.scores import (
    FieldsLaw,
    PopulationScores,
    drawn_chances,
    population_scores,
)

_SEED = 37
_GAMMA = (-1.0, 3.0)
_CLOSE = 1e-4  # of γ
_POINTS = 11  # log2


@dataclass(frozen=True)
class Decision:
    """What was chosen (k,), its mean cost and uncertainty, the cost without it, and its scores."""

    chosen: Array
    cost: float
    cost_uncertainty: float
    cost_before: float
    scores: PopulationScores
    point: PopulationPoint


def cost_matrix(population: Population, target: str = "balanced", cost: Any = None) -> Array:
    """c (k, k), rows are labels: of a target, or as given."""
    k = population.n_classes
    if cost is not None:
        found = as_numbers(cost, "the costs").astype(float)
        if found.shape != (k, k) or not np.isfinite(found).all():
            raise InvalidInput(f"costs must be {k} × {k} finite numbers, got {cost!r}")
        return found
    if target not in ("error", "balanced"):
        raise InvalidInput(f"unknown target {target!r}: allowed are 'error' and 'balanced'")
    wrong = 1 - np.eye(k)
    return wrong if target == "error" else wrong / (k * population.class_shares[:, None])


def best_shift(
    population: Population,
    estimator: Any,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Any = None,
    tol: float | None = None,
) -> Decision:
    """The shift of a student's intercepts after the fit that costs least on fresh samples.

    Parameters
    ----------
    population : Teacher or Mixture
    estimator : ERM
    alpha : float
    target : 'balanced' or 'error'
    cost : array_like, optional
        c (k, k) in place of a target: of answering p (column) to label t (row).
    tol : float, optional
        Of the fixed point.

    Returns
    -------
    Decision
        `chosen` are the shifts of the k intercepts, of mean 0.

    Examples
    --------
    >>> from polyceptron.model import ERM
    >>> from polyceptron.model.populations import Mixture
    >>> found = best_shift(Mixture((0.9, 0.1), separation=2.0), ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > 0 and found.cost < found.cost_before)
    True
    """
    check_population(population)
    c = cost_matrix(population, target, cost)
    point = _solved(population, as_erm(estimator), alpha, tol)
    law, T = point.law, difference_basis(population.n_classes)
    start = _on_points(law, c)

    def value(shift: Array) -> float:
        found = population_scores(law.shifted(shift), tol=math.inf, near=law)
        return float((c * found.confusion.value).sum())

    shift = start = min(start, np.zeros(len(start)), key=value)
    if law.n_classes <= 3:  # the rule is smooth in the shift
        step = 0.1 * float(np.sqrt(np.trace(law.Q, axis1=1, axis2=2).max()))
        simplex: Any = {
            "initial_simplex": np.vstack([start, start + step * np.eye(len(start))]),
            "xatol": 1e-7,
            "fatol": 1e-13,
        }
        found = minimize(value, start, method="Nelder-Mead", options=simplex)
        shift = np.asarray(found.x)
    scores, before = population_scores(law.shifted(shift)), population_scores(law).confusion.value
    total, spread = _mean_cost(c, scores, point)
    return Decision(T @ shift, total, spread, float((c * before).sum()), scores, point)


def best_class_weight(
    population: Population,
    estimator: Any,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Any = None,
    tol: float | None = None,
) -> Decision:
    """The class weights w_c ∝ P(c)^(−γ) of a fit that cost least on fresh samples.

    Parameters
    ----------
    population, estimator, alpha, target, cost, tol
        Those of `best_shift`. Weights of the estimator itself do not count.

    Returns
    -------
    Decision
        `chosen` are the k weights, with mean 1 over samples.

    Examples
    --------
    >>> from polyceptron.model import ERM
    >>> from polyceptron.model.populations import Mixture
    >>> found = best_class_weight(Mixture((0.9, 0.1), separation=2.0), ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > found.chosen[0])
    True
    """
    check_population(population)
    c, shares = cost_matrix(population, target, cost), population.class_shares
    spec = as_erm(estimator)

    def weights(gamma: float) -> Array:
        w = shares ** (-gamma)
        return np.asarray(w / (shares @ w))

    def at(gamma: float) -> tuple[PopulationPoint, PopulationScores]:
        weighted: Any = tuple(weights(gamma).tolist())
        point = _solved(population, replace(spec, class_weight=weighted), alpha, tol)
        return point, population_scores(point.law)

    def value(gamma: float) -> float:
        return float((c * at(gamma)[1].confusion.value).sum())

    found = minimize_scalar(value, bounds=_GAMMA, method="bounded", options={"xatol": _CLOSE})
    gamma = float(found.x)
    point, scores = at(gamma)
    total, spread = _mean_cost(c, scores, point)
    return Decision(weights(gamma), total, spread, value(0.0), scores, point)


def _solved(population: Population, spec: Any, alpha: float, tol: float | None) -> PopulationPoint:
    point = population_point(population, spec, check_alpha(alpha), tol)
    if not np.isfinite(point.generalisation_error):
        raise ComputationFailed(f"no fixed point at alpha {alpha:g}: give a larger ridge")
    return point


def _mean_cost(c: Array, scores: PopulationScores, point: PopulationPoint) -> tuple[float, float]:
    found = scores.confusion
    spread = found.uncertainty + point.confusion_uncertainty  # of the rule, and of its law
    return float((c * found.value).sum()), float((np.abs(c) * spread).sum())


def _on_points(law: FieldsLaw, c: Array) -> Array:
    """The best shift (r,) on fixed random points of the fields."""
    k, r, T = law.n_classes, law.n_classes - 1, difference_basis(law.n_classes)
    u = uniform_replicates(2 * r, _POINTS, _SEED, 1)[0]
    fields, costs = [], []
    for g, share in enumerate(law.shares):
        omega = law.m[g] + ndtri(u[:, :r]) @ np.linalg.cholesky(law.Q[g]).T
        truth = np.eye(k)[[g]]
        if law.teacher is not None:
            truth = drawn_chances(law, g, omega, u[:, r:])
        fields.append((omega + law.b) @ T.T)
        costs.append(np.broadcast_to(share * truth @ c / len(u), (len(u), k)))
    flat = np.concatenate(fields)
    middle = flat.mean(0)  # where all classes are answered: beyond them nothing slopes
    nothing = np.zeros((len(flat), 0))
    every = np.concatenate(costs)
    _, b = least_cost(flat - middle, nothing, every, np.zeros((0, k)), np.zeros(k))
    return np.asarray(T.T @ (b - middle))
