"""The law of a pull that is linear in the fields (square loss), on a mixture, in closed form.

With H = I on class differences, targets t_c = −Tᵀ∇ℓ(0, c) and class weights w_c, the proximal map
is solved by f = g_c(t_c − b − ω), and V_c, V̂_c are multiples v_c, v̂_c of the identity:

    g_c = 1/(1/w_c + v_c),   v̂_c = αp_c g_c,   S = (λI + Σ_c v̂_cΣ_c)⁻¹,   v_c = tr(Σ_cS)/d

Where samples have random weights, g_c and g_c² are means over them. The map v → v is increasing
and concave: Newton's method descends to its root from above, v_c = tr Σ_c/(λd). The other equations
are linear: with K_cc' = μ_c·Sμ_c'/d and J_cc' = tr(Σ_cSΣ_c'S)/d

    m̂ = v̂(t − b − m),   m = Km̂,   Σ_c m̂_c = 0 (the intercept)
    Q̂_c = αp_cg_c²(Q_c + δ_cδ_cᵀ),   δ_c = m̂_c/v̂_c,   Q_c = Σ_c' J_cc'Q̂_c' + (Sm̂μ)ᵀΣ_c(Sm̂μ)/d

S is d × d where covariances share no eigenvectors, a number for each level of eigenvalues else.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from polyceptron.numerics import Array
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.population import FeatureLevels
from polyceptron.problem.populations import Population
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem

MAX_NEWTON_STEPS = 200
STEP_TOLERANCE = 1e-13  # of v, relative


def is_linear(problem: MatrixProblem) -> bool:
    """Return whether f is linear in ω with a slope that is a number: square loss on a mixture."""
    averages = problem.loss.explicit_averages(ScalarOrder(1.0, 1.0, 1.0), 1.0, 3)
    return averages is not None and not problem.has_teacher


class Resolvent(NamedTuple):
    """What the equations need of S = (λI + Σ_c v̂_cΣ_c)⁻¹.

    Attributes
    ----------
    v : array, shape (k,)
        tr(Σ_cS)/d.
    J : array, shape (k, k)
        tr(Σ_cSΣ_c'S)/d.
    K : array, shape (k, k)
        μ_c·Sμ_c'/d.
    of_means : array, shape (k, k, k)
        μ_a·SΣ_cSμ_b/d for each c, a, b: with m̂ on both sides it is what the means add to Q_c.
    """

    v: Array
    J: Array
    K: Array
    of_means: Array


def linear_law(problem: MatrixProblem) -> MatrixOrder:
    """Return the fixed point; raise LinAlgError where rounding leaves none."""
    samples = problem.alpha * problem.population.group_shares  # αp_c
    state = _susceptibilities(problem, samples)
    targets = _targets(problem)
    eye = np.eye(problem.n_classes)
    pull = samples * state.g
    # m̂ = answer (t − b) solves m̂ = v̂(t − b − Km̂).
    answer = np.linalg.solve(eye + pull[:, None] * state.resolvent.K, np.diag(pull))
    b = np.zeros(problem.n_classes - 1)
    if problem.intercept:
        b = np.asarray(answer.sum(0) @ targets / answer.sum(), dtype=float)
    m_hat = answer @ (targets - b)
    delta = m_hat / pull[:, None]
    of_targets = np.tensordot(state.slope, delta[:, :, None] * delta[:, None, :], 1)
    of_means = m_hat.T @ state.resolvent.of_means @ m_hat
    made = (of_targets + of_means).reshape(len(eye), -1)
    Q: Array = np.asarray(np.linalg.solve(eye - state.slope, made)).reshape(-1, len(b), len(b))
    identity = np.eye(len(b))
    order = MatrixOrder(
        state.resolvent.K @ m_hat, Q, state.v[:, None, None] * identity, b, 0 * identity
    )
    if not all(np.isfinite(array).all() for array in order) or np.linalg.eigvalsh(Q).min() <= 0:
        raise np.linalg.LinAlgError("the fields have no covariance")
    return order


def _targets(problem: MatrixProblem) -> Array:
    """Return t_c = −Tᵀ∇ℓ(0, c) of all classes, shape (k, r)."""
    k = problem.n_classes
    return np.asarray(-problem.loss.gradient(np.zeros((k, k)), np.arange(k)) @ problem.basis)


class Susceptibilities(NamedTuple):
    """The root of v → v.

    Attributes
    ----------
    v, g : array, shape (k,)
    slope : array, shape (k, k)
        J_cc' αp_c' E g_c'²: of the map v → v, and of Q in Q.
    resolvent : Resolvent
    """

    v: Array
    g: Array
    slope: Array
    resolvent: Resolvent


def _susceptibilities(problem: MatrixProblem, samples: Array) -> Susceptibilities:
    """Return v by Newton's method from above, for αp_c = `samples` (k,)."""
    population = problem.population
    v = resolvent_of(population, 0 * samples, problem.ridge).v
    copies, chance = np.array(problem.copies).T
    for _ in range(MAX_NEWTON_STEPS):
        by_copies = 1 / (1 / (copies[:, None] * problem.class_weights) + v)
        g = chance @ by_copies
        resolvent = resolvent_of(population, samples * g, problem.ridge)
        slope = resolvent.J * (samples * (chance @ by_copies**2))
        step = np.linalg.solve(np.eye(len(v)) - slope, resolvent.v - v)
        v = np.maximum(v + step, resolvent.v / 2)  # the map increases, so that the root is above
        if np.abs(step).max() <= STEP_TOLERANCE * v.max():
            return Susceptibilities(v, g, slope, resolvent)
    raise np.linalg.LinAlgError("the susceptibilities do not settle")


def resolvent_of(population: Population, v_hat: Array, ridge: float) -> Resolvent:
    """Return the traces of S at v̂ (k,)."""
    levels = population.levels_of_features
    if levels is not None:
        return _resolvent_by_levels(levels, v_hat, ridge)
    return _resolvent_in_full(population, v_hat, ridge)


def _resolvent_by_levels(levels: FeatureLevels, v_hat: Array, ridge: float) -> Resolvent:
    """Return the traces where S is a number for each level of eigenvalues."""
    s = levels.variance
    S = 1 / (ridge + s @ v_hat)
    S_s_S = S[:, None] ** 2 * s
    return Resolvent(
        v=(levels.fraction * S) @ s,
        J=(levels.fraction[:, None] * S_s_S).T @ s,
        K=np.tensordot(S, levels.gram, 1),
        of_means=np.einsum("lc,lab->cab", S_s_S, levels.gram),
    )


def _resolvent_in_full(population: Population, v_hat: Array, ridge: float) -> Resolvent:
    """Return the traces where S is d × d."""
    assert population.full_features is not None
    mu, sigma = population.full_features
    k, d = mu.shape
    factor = cho_factor(ridge * np.eye(d) + np.tensordot(v_hat, sigma, 1), lower=True)
    S_sigma = cho_solve(factor, sigma.swapaxes(0, 1).reshape(d, k * d)).reshape(d, k, d)
    S_mu = cho_solve(factor, mu.T)  # (d, k)
    rows = S_sigma.transpose(1, 0, 2).reshape(k, -1)
    transposed = S_sigma.transpose(1, 2, 0).reshape(k, -1)
    return Resolvent(
        v=np.einsum("aca->c", S_sigma) / d,
        J=rows @ transposed.T / d,
        K=mu @ S_mu / d,
        of_means=S_mu.T @ sigma @ S_mu / d,
    )
