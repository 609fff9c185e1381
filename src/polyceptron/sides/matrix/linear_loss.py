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

Such a loss also pulls along (1, …, 1), where the target t = −∇ℓ(0, c)·1/√k is the same for every
class. No label shows this component, but it counts in the training loss: the same equations with
r = 1 (`linear_training_loss`).
"""

from __future__ import annotations

import math
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
    return _explicit_averages(problem) is not None and not problem.has_teacher


def _explicit_averages(problem: MatrixProblem) -> tuple[float, ...] | None:
    """Return averages that a loss whose pull is linear in the fields has in closed form."""
    return problem.loss.explicit_averages(ScalarOrder(1.0, 1.0, 1.0), 1.0, 3)


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
    state = _susceptibilities(problem, problem.class_weights)
    fields = _fields_of_targets(state, _targets(problem), problem.intercept)
    identity = np.eye(len(fields.b))
    V = state.v[:, None, None] * identity
    order = MatrixOrder(fields.m, fields.Q, V, fields.b, 0 * identity)
    finite = all(np.isfinite(array).all() for array in order)
    if not finite or np.linalg.eigvalsh(fields.Q).min() <= 0:
        raise np.linalg.LinAlgError("the fields have no covariance")
    return order


class LinearFields(NamedTuple):
    """Fields that are fitted to targets.

    Attributes
    ----------
    m : array, shape (G, r)
    Q : array, shape (G, r, r)
    b : array, shape (r,)
    delta : array, shape (G, r)
        t − b − m, what the mean fields miss.
    """

    m: Array
    Q: Array
    b: Array
    delta: Array


def _fields_of_targets(state: Susceptibilities, targets: Array, intercept: bool) -> LinearFields:
    """Return the law of the fields that are fitted to targets t_c (G, r)."""
    n_groups, n_fields = targets.shape
    eye = np.eye(n_groups)
    pull = state.samples * state.g
    # m̂ = answer (t − b) solves m̂ = v̂(t − b − Km̂).
    answer = np.linalg.solve(eye + pull[:, None] * state.resolvent.K, np.diag(pull))
    b = np.zeros(n_fields)
    if intercept:
        b = np.asarray(answer.sum(0) @ targets / answer.sum(), dtype=float)
    m_hat = answer @ (targets - b)
    delta = m_hat / pull[:, None]
    of_targets = np.tensordot(state.slope, delta[:, :, None] * delta[:, None, :], 1)
    of_means = m_hat.T @ state.resolvent.of_means @ m_hat
    made = (of_targets + of_means).reshape(n_groups, -1)
    Q: Array = np.asarray(np.linalg.solve(eye - state.slope, made))
    return LinearFields(
        state.resolvent.K @ m_hat, Q.reshape(-1, n_fields, n_fields), b, np.asarray(delta)
    )


def has_known_training_loss(problem: MatrixProblem) -> bool:
    """Return whether f is linear in ω, and all samples of a group have one weight.

    Class weights tell a teacher's samples apart by their labels, which follow its fields.
    """
    if _explicit_averages(problem) is None:
        return False
    return not problem.has_teacher or float(np.ptp(problem.class_weights)) == 0.0


def linear_training_loss(problem: MatrixProblem, Q_hat: Array) -> float:
    """Return E‖u − t‖²/2 over training samples, without class weights, in all k coordinates.

    On class differences u − t = −f/w, so that it is Σ_c tr Q̂_c/(2αw_c²).

    Parameters
    ----------
    problem : MatrixProblem
        With `has_known_training_loss`.
    Q_hat : array, shape (G, r, r)
        Q̂_c = αp_c E ffᵀ.
    """
    weights = problem.class_weights[: problem.n_groups]
    on_differences = np.trace(Q_hat, axis1=1, axis2=2) / (2 * problem.alpha * weights**2)
    return float(on_differences.sum()) + _training_loss_along_ones(problem)


def _training_loss_along_ones(problem: MatrixProblem) -> float:
    """Return the part along (1, …, 1), where u − t = (ω − t) g_c/w_c; an intercept leaves none."""
    if problem.intercept:
        return 0.0
    weights = problem.class_weights[: problem.n_groups]
    state = _susceptibilities(problem, weights)
    targets = np.full((problem.n_groups, 1), _target_along_ones(problem))
    fields = _fields_of_targets(state, targets, False)
    mean_square = fields.Q[:, 0, 0] + fields.delta[:, 0] ** 2
    by_group = (state.g / weights) ** 2 * mean_square
    return 0.5 * float(problem.population.group_shares @ by_group)


def _target_along_ones(problem: MatrixProblem) -> float:
    """Return t = −∇ℓ(0, c)·1/√k, which is the same for every class."""
    k = problem.n_classes
    slope = problem.loss.gradient(np.zeros((1, k)), np.zeros(1, dtype=np.int64))
    return -float(slope.sum()) / math.sqrt(k)


def _targets(problem: MatrixProblem) -> Array:
    """Return t_c = −Tᵀ∇ℓ(0, c) of all classes, shape (k, r)."""
    k = problem.n_classes
    return np.asarray(-problem.loss.gradient(np.zeros((k, k)), np.arange(k)) @ problem.basis)


class Susceptibilities(NamedTuple):
    """The root of v → v.

    Attributes
    ----------
    samples : array, shape (G,)
        αp_c.
    v, g : array, shape (G,)
    slope : array, shape (G, G)
        J_cc' αp_c' E g_c'²: of the map v → v, and of Q in Q.
    resolvent : Resolvent
    """

    samples: Array
    v: Array
    g: Array
    slope: Array
    resolvent: Resolvent


def _susceptibilities(problem: MatrixProblem, weights: Array) -> Susceptibilities:
    """Return v by Newton's method from above, for the weights w_c (G,) of a group's samples."""
    population = problem.population
    samples = problem.alpha * population.group_shares
    v = resolvent_of(population, 0 * samples, problem.ridge).v
    copies, chance = np.array(problem.copies).T
    for _ in range(MAX_NEWTON_STEPS):
        by_copies = 1 / (1 / (copies[:, None] * weights) + v)
        g = chance @ by_copies
        resolvent = resolvent_of(population, samples * g, problem.ridge)
        slope = resolvent.J * (samples * (chance @ by_copies**2))
        step = np.linalg.solve(np.eye(len(v)) - slope, resolvent.v - v)
        v = np.maximum(v + step, resolvent.v / 2)  # the map increases, so that the root is above
        if np.abs(step).max() <= STEP_TOLERANCE * v.max():
            return Susceptibilities(samples, v, g, slope, resolvent)
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
