"""The shift of a student's intercepts after the fit that costs least.

A shift leaves the law of the fields as it is, so that the mean cost (`decisions.py`) is a function
of the r = k − 1 components of the shift on class differences. The search has two steps:

1. On fixed random points of the fields the argmax is replaced by a softmax of falling temperature,
   whose mean cost has a gradient (`_best_shift_on_points`).
2. The cost itself is minimised from there. With two and three classes it is exact, and the simplex
   method is used. With more it is sampled at points that move smoothly with the shift
   (`points_of_leaders`), and a quasi-Newton method is used; above MOST_CLASSES_POLISHED the first
   step stands.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri, softmax

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.problem.populations import Population, check_population
from polyceptron.problem.specs import Estimator, as_erm
from polyceptron.sides.leading_nodes import drawn_chances
from polyceptron.sides.scores import FieldsDistribution, population_scores
from polyceptron.theory.decisions import (
    Costs,
    Decision,
    cost_matrix,
    fixed_point_or_failure,
    mean_cost,
    mean_cost_uncertainty,
)

POINTS_SEED = 37
LOG2_POINTS_OF_A_CLASS = 11
# Temperatures of the softmax in units of the spread of the fields' differences: from a smooth cost
# with few minima to one that is close to that of the argmax.
TEMPERATURES = (0.3, 0.1, 0.03)
# First step of the simplex, in standard deviations of the fields.
FIRST_SIMPLEX_STEP = 0.1
# A sampled cost of 20 classes takes 0.1 s, and its gradient twenty of them.
MOST_CLASSES_POLISHED = 10


@with_one_blas_thread
def best_shift(
    population: Population,
    estimator: Estimator | str,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Costs | None = None,
    tol: float | None = None,
) -> Decision:
    """Find the shift of a student's intercepts after the fit that costs least on fresh samples.

    Parameters
    ----------
    population : Teacher or Mixture
    estimator : ERM
    alpha : float
        n/d.
    target : 'balanced' or 'error'
    cost : array_like, shape (k, k), optional
        Costs instead of a target: c_tp is the cost of answering p (column) to label t (row).
    tol : float, optional
        The tolerance of the fixed point.

    Returns
    -------
    Decision
        `chosen` are the shifts of the k intercepts, of mean 0.

    Examples
    --------
    >>> from polyceptron.problem import ERM
    >>> from polyceptron.problem.populations import Mixture
    >>> found = best_shift(Mixture((0.9, 0.1), separation=2.0), ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > 0 and found.cost < found.cost_before)
    True
    """
    check_population(population)
    costs = cost_matrix(population, target, cost)
    point = fixed_point_or_failure(population, as_erm(estimator), alpha, tol)
    law = point.law

    def quick_cost(shift: Array) -> float:
        """Return the mean cost of a shift (r,) without refining its accuracy."""
        scores = population_scores(law.shifted(shift), tol=math.inf, near=law)
        return mean_cost(costs, scores)

    no_shift = np.zeros(law.n_classes - 1)
    shift = min(_best_shift_on_points(law, costs), no_shift, key=quick_cost)
    if law.n_classes <= 3:
        shift = _by_simplex(quick_cost, shift, _first_simplex(law, shift))
    elif law.n_classes <= MOST_CLASSES_POLISHED:
        shift = np.asarray(minimize(quick_cost, shift, method="L-BFGS-B").x)
    scores = population_scores(law.shifted(shift))
    return Decision(
        chosen=difference_basis(law.n_classes) @ shift,
        cost=mean_cost(costs, scores),
        cost_uncertainty=mean_cost_uncertainty(costs, scores, point),
        cost_before=mean_cost(costs, population_scores(law)),
        scores=scores,
        point=point,
    )


def _by_simplex(cost: Callable[[Array], float], start: Array, simplex: Array) -> Array:
    """Return the shift (r,) of least exact cost, from a simplex (r + 1, r) around `start`."""
    result = minimize(
        cost,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-7, "fatol": 1e-13},
    )
    return np.asarray(result.x)


def _first_simplex(law: FieldsDistribution, start: Array) -> Array:
    """Return a simplex (r + 1, r) around `start` (r,), in units of the fields' spread."""
    spread = float(np.sqrt(np.trace(law.Q, axis1=1, axis2=2).max()))
    corners = start + FIRST_SIMPLEX_STEP * spread * np.eye(len(start))
    return np.vstack([start, corners])


def _best_shift_on_points(law: FieldsDistribution, costs: Array) -> Array:
    """Return the best shift (r,) on fixed random points of the fields, for costs (k, k)."""
    k = law.n_classes
    r = k - 1
    T = difference_basis(k)
    log2 = LOG2_POINTS_OF_A_CLASS
    if law.teacher is not None:  # one group has the samples of all classes
        log2 += math.ceil(math.log2(k))
    uniform = uniform_replicates(2 * r, log2, POINTS_SEED, 1)[0]
    n = len(uniform)
    fields = []
    point_costs = []
    for group, share in enumerate(law.shares):
        omega = law.m[group] + ndtri(uniform[:, :r]) @ np.linalg.cholesky(law.Q[group]).T
        label_chances = np.eye(k)[[group]]  # in a mixture the label is the group
        if law.teacher is not None:
            label_chances = drawn_chances(law, group, omega, uniform[:, r:])
        fields.append((omega + law.b) @ T.T)
        point_costs.append(np.broadcast_to(share * label_chances @ costs / n, (n, k)))
    all_fields = np.concatenate(fields)
    # Start where every class is answered at some point: a class that is answered nowhere has no
    # slope.
    centre = all_fields.mean(axis=0)
    intercepts = _cheapest_intercepts(all_fields - centre, np.concatenate(point_costs))
    return np.asarray(T.T @ (intercepts - centre))


def _cheapest_intercepts(fields: Array, point_costs: Array) -> Array:
    """Return b (k,) of least mean cost of the answer argmax(fields + b).

    Parameters
    ----------
    fields : array, shape (n, k)
    point_costs : array, shape (n, k)
        The cost of each answer at a point, times the weight of the point.
    """
    b = np.zeros(fields.shape[1])
    for temperature in TEMPERATURES:
        shifted = fields + b
        spread = float(np.std(shifted[:, 1:] - shifted[:, :1]))
        width = temperature * spread + 1e-12  # above 0 where all fields are equal
        result = minimize(
            _softmax_cost, b, args=(fields, point_costs, width), jac=True, method="L-BFGS-B"
        )
        b = np.asarray(result.x)
    return b


def _softmax_cost(b: Array, fields: Array, point_costs: Array, width: float) -> tuple[float, Array]:
    """Return the mean cost of the answers softmax((fields + b)/width), and its gradient (k,)."""
    answers = softmax((fields + b) / width, axis=1)
    cost_of_point = (answers * point_costs).sum(axis=1, keepdims=True)
    slopes = answers * (point_costs - cost_of_point) / width
    return float(cost_of_point.sum()), slopes.sum(axis=0)
