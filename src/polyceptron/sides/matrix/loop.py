"""One round of the loop between the two sides with matrices, and its unknowns as a vector θ.

    law → hats (fields side) → law (weights side),    b → b + (−E∂f)⁻¹ E f     (a Newton step)

θ has the logarithms of the positive matrices (Q, or E of a teacher, and V), m and A in units of the
fields' size σ = √(geometric mean of Q's eigenvalues), and b in units of 1 + σ: every mixture of
iterates is a law.

Hard margins pull ∝ 1/V, so that V̂ = V^{−1/2}BV^{−1/2} with a B of no scale, the share of directions
that margins bind. A round takes m, Q and A at S = V, and V = (I − B)/λ, to which S = V amounts:
with S instead, V falls for ever from a start where more samples push than weights can obey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.sides.matrix.order import (
    Labels,
    MatrixAverages,
    MatrixConjugates,
    MatrixOrder,
    MatrixProblem,
    conjugates_of_means,
)
from polyceptron.sides.matrix.proximal import matrix_pull
from polyceptron.sides.matrix.weights import weights_side

Fields = Callable[[MatrixOrder], MatrixAverages]
"""The fields side: (order) → averages."""

# Step of a field in a difference of pulls: test_population_rounds.py compares rounds with message
# passing on samples.
FIELD_DIFFERENCE = 1e-4
# Hard margins leave at least this share of the directions of weights free in a round.
LEAST_FREE_SHARE = 0.01
SMALLEST_EIGENVALUE = 1e-300
# The largest step of an intercept where averages are sampled, so that a point with hardly any
# curvature cannot throw it far.
LARGEST_SAMPLED_STEP_OF_INTERCEPT = 1.0

_upper_indices = lru_cache(np.triu_indices)


def function_of_symmetric(function: Callable[[Array], Array], S: Array) -> Array:
    """Return a function of symmetric matrices (…, r, r), by their eigenvalues."""
    if S.shape[-1] == 1:
        return function(S)
    values, vectors = np.linalg.eigh(S)
    return np.asarray((vectors * function(values)[..., None, :]) @ vectors.swapaxes(-1, -2))


def groups_share_matrices(problem: MatrixProblem) -> bool:
    """Return whether Q and V of all groups are multiples of those of the first one.

    It is so where the groups differ by a variance only.
    """
    levels = problem.population.levels_of_features
    return levels is not None and len(levels.fraction) == 1


def _n_own_matrices(problem: MatrixProblem) -> int:
    """Return how many matrices Q, and V, are unknowns."""
    if groups_share_matrices(problem):
        return 1
    return problem.n_groups


def _group_variances(problem: MatrixProblem) -> Array:
    """Return s_c (G,) of the only level of eigenvalues."""
    levels = problem.population.levels_of_features
    assert levels is not None
    return levels.variance[0]


def pack(problem: MatrixProblem, order: MatrixOrder) -> Array:
    """Return θ of a law."""
    r = len(order.b)
    n = _n_own_matrices(problem)
    row, column = _upper_indices(r)
    positive = np.concatenate([order.Q[:n], order.V[:n]])
    logs = function_of_symmetric(_log_of_positive, positive)
    scale = np.exp(0.5 * np.trace(logs[0]) / r)
    parts = [logs[:, row, column]]
    if problem.has_teacher:
        parts.append(order.A / scale)
    else:
        parts.append(order.m / scale)
    if problem.intercept:
        parts.append(order.b / (1 + scale))
    return np.concatenate([part.ravel() for part in parts])


def _log_of_positive(values: Array) -> Array:
    return np.asarray(np.log(np.maximum(values, SMALLEST_EIGENVALUE)))


def unpack(problem: MatrixProblem, theta: Array) -> MatrixOrder:
    """Return the law at θ."""
    r = problem.n_classes - 1
    G = problem.n_groups
    n = _n_own_matrices(problem)
    row, column = _upper_indices(r)
    logarithms = logarithms_in(problem, theta)
    n_logs = len(logarithms)
    logs = np.zeros((2 * n, r, r))
    logs[:, row, column] = logarithms.reshape(2 * n, -1)
    logs = logs + np.triu(logs, 1).swapaxes(1, 2)
    Q, V = np.split(function_of_symmetric(np.exp, logs), 2)
    if n < G:
        s = _group_variances(problem)
        ratio = (s / s[0])[:, None, None]
        Q = ratio * Q
        V = ratio * V
    scale = np.exp(0.5 * np.trace(logs[0]) / r)
    m = np.zeros((G, r))
    A = np.zeros((r, r))
    if problem.has_teacher:
        A = scale * theta[n_logs : n_logs + r * r].reshape(r, r)
    else:
        m = scale * theta[n_logs : n_logs + G * r].reshape(G, r)
    b = np.zeros(r)
    if problem.intercept:
        b = theta[len(theta) - r :] * (1 + scale)
    return MatrixOrder(m, Q, V, b, A)


def logarithms_in(problem: MatrixProblem, theta: Array) -> Array:
    """Return the entries of θ that belong to logarithms of Q and V."""
    r = problem.n_classes - 1
    return theta[: _n_own_matrices(problem) * r * (r + 1)]


def start(problem: MatrixProblem) -> Array:
    """Return θ to begin with: small fields, V as in the first round of a weak pull."""
    T = problem.basis
    r = problem.n_classes - 1
    Q = np.eye(r) * _mean_variances(problem)[:, None, None]
    V = max(1 / (problem.ridge + 0.25 * problem.alpha), 1e-6)
    b = np.zeros(r)
    if problem.intercept:
        b = np.log(problem.class_weights * problem.population.class_shares) @ T
    return pack(problem, MatrixOrder(0.3 * T, Q, V * Q, b, 0.3 * np.eye(r)))


def _mean_variances(problem: MatrixProblem) -> Array:
    """Return tr Σ_c/d of all groups (G,)."""
    levels = problem.population.levels_of_features
    if levels is not None:
        return np.asarray(levels.fraction @ levels.variance)
    assert problem.population.full_features is not None
    sigma = problem.population.full_features[1]
    return np.asarray(np.trace(sigma, axis1=1, axis2=2) / sigma.shape[1])


def matrix_rounds(problem: MatrixProblem, fields: Fields) -> Iterator[MatrixOrder]:
    """Yield the law of a student that knows nothing, then after each plain round, without end."""
    r = problem.n_classes - 1
    matrices = np.zeros((problem.n_groups, r, r))
    no_samples = MatrixConjugates(matrices[:, 0], matrices, matrices, np.zeros((r, r)))
    population = problem.population
    order = weights_side(population, problem.R, no_samples, problem.ridge, np.zeros(r))
    while True:
        yield order
        hats = fields(order).hats if order.Q.any() else _hats_without_spread(problem, order)
        b = order.b
        if problem.intercept:
            b = b + newton_step_of_intercept(hats)
        order = weights_side(population, problem.R, hats, problem.ridge, b)


def newton_step_of_intercept(hats: MatrixConjugates) -> Array:
    """Return (Σ_c V̂_c)⁻¹ Σ_c m̂_c (r,): Σ_c p_c E f is 0 at the best intercept."""
    return np.asarray(np.linalg.solve(hats.V.sum(0), hats.m.sum(0)))


def _hats_without_spread(problem: MatrixProblem, order: MatrixOrder) -> MatrixConjugates:
    """Return the conjugates of fields that do not vary, with −∂f by differences around them."""
    r = len(order.b)
    ff = np.zeros_like(order.Q)
    f_mean = np.zeros_like(order.m)
    stiffness = np.zeros_like(order.V)
    cross = np.zeros_like(order.A)
    around = FIELD_DIFFERENCE * np.concatenate([np.zeros((1, r)), np.eye(r), -np.eye(r)])
    for c in range(problem.n_groups):
        labels, chances, slopes = _labels_at_mean(problem, c)
        y = np.repeat(labels, len(around))
        omega = np.tile(order.m[c] + order.b + around, (len(labels), 1))
        pull = matrix_pull(problem.loss, omega, y, order.V[c], problem.class_weights[y])
        f = pull.f.reshape(len(labels), len(around), r)
        at_mean = f[:, 0]
        below = f[:, r + 1 :]
        above = f[:, 1 : r + 1]
        f_mean[c] = chances @ at_mean
        ff[c] = (chances * at_mean.T) @ at_mean
        derivative = np.tensordot(chances, below - above, 1) / (2 * FIELD_DIFFERENCE)
        stiffness[c] = (derivative + derivative.T) / 2
        if problem.has_teacher:
            cross = at_mean.T @ slopes
    return conjugates_of_means(problem, f_mean, ff, stiffness, cross)


def _labels_at_mean(problem: MatrixProblem, c: int) -> tuple[Labels, Array, Array]:
    """Return the labels of group c, and chances (labels,) and slopes (labels, r) at mean fields."""
    channel = problem.population.label_channel
    r = problem.n_classes - 1
    if channel is None:
        return np.array([c]), np.ones(1), np.zeros((1, r))
    mean = (problem.population.offsets @ problem.basis)[None]
    known = label_chances(channel, mean, problem.R)
    return np.arange(r + 1), known.Z[0], known.slopes[0]


def round_residual(
    problem: MatrixProblem, order: MatrixOrder, averages: MatrixAverages, theta: Array
) -> Array | None:
    """Return by how much one round moves θ; None where it leads to no law."""
    try:
        after = _after_round(problem, order, averages.hats)
        residual = pack(problem, after) - theta
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(residual).all():
        return None
    return residual


def _after_round(problem: MatrixProblem, order: MatrixOrder, hats: MatrixConjugates) -> MatrixOrder:
    """Return the law after the weights side and a Newton step of the intercept."""
    b = order.b
    if problem.intercept:
        move = newton_step_of_intercept(hats)
        if problem.sampled:
            longest = LARGEST_SAMPLED_STEP_OF_INTERCEPT
            move = np.clip(move, -longest, longest)
        b = b + move
    if problem.loss.scale_free and groups_share_matrices(problem):
        return _after_scale_free_round(problem, order, hats, b)
    return weights_side(problem.population, problem.R, hats, problem.ridge, b)


def _after_scale_free_round(
    problem: MatrixProblem, order: MatrixOrder, hats: MatrixConjugates, b: Array
) -> MatrixOrder:
    """Return the law after a round of hard margins: all but V is taken at S = V as it is."""
    eye = np.eye(len(b))
    s = _group_variances(problem)
    half = function_of_symmetric(np.sqrt, order.V[0] / s[0])  # V^{1/2} of variance 1
    V_hat_with_S_equal_V = (np.linalg.inv(half @ half) - problem.ridge * eye) / s.sum()
    same_S = hats._replace(V=0 * hats.V + V_hat_with_S_equal_V)
    after = weights_side(problem.population, problem.R, same_S, problem.ridge, b)
    bound = half @ np.einsum("c,cij->ij", s, hats.V) @ half  # B
    free = function_of_symmetric(_at_least_free, eye - bound) / problem.ridge
    return after._replace(V=s[:, None, None] * free)


def _at_least_free(share: Array) -> Array:
    return np.maximum(share, LEAST_FREE_SHARE)
