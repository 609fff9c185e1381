"""The distance to the minimiser of cross-entropy with L₁Σ‖w_i‖ alone, which is not strictly convex.

Let S be a slope of the whole objective at W, r the residuals there and A the rows that are not zero
or that satisfy ‖g_i‖ + ρ‖X_i‖ ≥ L₁, with g = ∇f(W). Restricted to A, the curvature at W is at least

    μ = λ_min(Σ_μ h_μ x_A x_Aᵀ),     h_μ = min_h p_μh,

since Var_p(v) ≥ min_h p_h ‖v‖² for v ⊥ 1. By self-concordance half of it is left while no field
moves by ln 2/√2. So the minimiser Ŵ on A is within D = 2‖S‖/μ of W, where that is short enough. Its
residuals are within √(L‖S‖D) of r, since gradients are cocoercive with L the largest curvature of
the loss. If that is not above ρ, then ‖ĝ_i‖ < L₁ outside A, and Ŵ minimises over all rows.

With D ≤ tol‖W‖ asked, ρ = √(L‖S‖ tol‖W‖). What rounding hides of the gradient is part of ‖S‖. μ is
proven by a Cholesky factor of the matrix less μ, whose own rounding is below (n + s)ε times the
trace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky

from polyceptron.data.design import Design
from polyceptron.fit.solvers.intercept import Intercept, growth_by_intercept, size_of
from polyceptron.fit.solvers.newton_step import Mask
from polyceptron.fit.solvers.objectives import Evaluation, lengths, norms
from polyceptron.fit.solvers.rounding import EPS, gradient_rounding, roundings
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective
from polyceptron.fit.solvers.support_newton import ScaledElasticNet, SupportColumns
from polyceptron.numerics import Array

# Self-concordance of the softmax: half the curvature is left while fields move by less than this.
LARGEST_MOVE = math.log(2) / math.sqrt(2)
# Inverse iterations for a guess at μ. A guess that is too large costs further factorisations only.
INVERSE_ITERATIONS = 8
MOST_GUESSES = 5


@dataclass(frozen=True)
class SupportCertificate:
    """The proven distance to the minimiser and the convexity μ behind it: ∞ and 0 without proof."""

    distance: float
    convexity: float


NO_CERTIFICATE = SupportCertificate(math.inf, 0.0)


def support_certificate(
    design: Design,
    objective: SoftmaxObjective,
    intercept: Intercept | None,
    net: ScaledElasticNet,
    U: Array,
    fields: Array,
    here: Evaluation,
    gradient: Array,
    slope: Array,
    step_curvature: float,
    tol: float,
) -> SupportCertificate:
    """Bound the distance of weights U to the minimiser, together with the intercepts.

    Parameters
    ----------
    design, objective, intercept, net
        The problem, in the units of the data.
    U, gradient, slope : array (1, k−1, d)
        The weights, ∇f there, and the slope of the whole objective.
    fields : array (1, k−1, n)
    here : Evaluation
    step_curvature : float
        The factor of the step in the slope, with which its rounding grows.
    tol : float
        The relative distance asked for.
    """
    size = norms(U)
    sizes = (lengths(fields), lengths(here.residual))
    stiffness = objective.stiffness(here)
    assert stiffness is not None
    assert objective.smoothness is not None
    pull = np.array([step_curvature])
    hidden = gradient_rounding(design, size, pull, *sizes, stiffness, None, np.array([np.inf]), 1.0)
    field_error, _ = roundings(design, size, pull, *sizes, 1.0)
    slope_size = float(norms(slope)[0] + hidden[0])
    asked = tol * float(size_of(intercept, U)[0])
    radius = math.sqrt(objective.smoothness * slope_size * asked)
    reach = np.linalg.norm(gradient[0], axis=0) + float(hidden[0])
    reach += radius * np.sqrt(design.column_squares)
    free_rows = ~net.penalised | U[0].any(axis=0) | (reach >= net.l1)
    if not free_rows.any():
        return SupportCertificate(0.0, math.inf)
    if free_rows.sum() > design.n_samples:
        return NO_CERTIFICATE
    least = here.source[0].min(axis=0)
    if objective.weights is not None:
        least = least * objective.weights
    convexity = least_eigenvalue(design, free_rows, least)
    if convexity == 0:
        return NO_CERTIFICATE
    distance = 2 * slope_size / convexity
    moved = distance * float(design.row_norms.max()) + float(field_error.max())
    shift = math.sqrt(objective.smoothness * slope_size * distance)
    if moved >= LARGEST_MOVE or shift > radius:
        return SupportCertificate(math.inf, convexity)
    return SupportCertificate(distance * growth_by_intercept(intercept), convexity)


def least_eigenvalue(design: Design, rows: Mask, factors: Array) -> float:
    """Return a proven lower bound on λ_min(Σ_μ h_μ x xᵀ) of some features, 0 if there is none.

    Parameters
    ----------
    design : Design
    rows : array of bool (d,)
        Which features of X/√d.
    factors : array (n,)
        h_μ.
    """
    columns = SupportColumns(design, rows, np.float64).columns
    columns *= np.sqrt(factors)[:, None]
    gram = columns.T @ columns
    n_features = len(gram)
    rounding = (design.n_samples + n_features) * EPS * float(np.trace(gram))
    diagonal = np.arange(n_features)
    try:
        guess = 0.9 * _smallest_guess(gram)
    except LinAlgError:
        return 0.0
    for _ in range(MOST_GUESSES):
        shifted = gram.copy()
        shifted[diagonal, diagonal] -= guess
        try:
            cholesky(shifted, overwrite_a=True, check_finite=False)
        except LinAlgError:
            guess /= 2
        else:
            return max(guess - rounding, 0.0)
    return 0.0


def _smallest_guess(gram: Array) -> float:
    """Return an estimate from above of the least eigenvalue, by inverse iteration."""
    factor = cho_factor(gram, check_finite=False)
    v = np.random.default_rng(0).standard_normal(len(gram))
    growth = 1.0
    for _ in range(INVERSE_ITERATIONS):
        v = cho_solve(factor, v / np.linalg.norm(v), check_finite=False)
        growth = float(np.linalg.norm(v))
    return 1 / growth
