"""Algorithm 1 as printed: a covariance for every sample and a precision for every coordinate.

    V_ν = Σ_j x²_jν Ĉ_j/d,       ω_ν = Σ_j x_jν ŵ_j/√d − V_ν f_ν
    Λ_j = −Σ_ν x²_jν ∂f_ν/d,     γ_j = Σ_ν x_jν f_ν/√d + Λ_j ŵ_j,    ŵ_j, Ĉ_j = prior(γ_j, Λ_j)

k = 2, 3: exact, with (k−1)×(k−1) matrices in the basis of class differences. k > 3: matrices
P diag(v) P with P = I − 11ᵀ/k, one number per class, chosen to keep the diagonal of the exact
matrix: for those the channel is still one integral (labels see only differences, on which P does
nothing), and so is the Gaussian prior. A finite prior of more than `MAX_POINTS` configurations
gets one precision per coordinate. X² is taken by block of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.amp_products import (
    Data,
    back,
    back_squared,
    fields,
    fields_squared,
)
from polyceptron.algorithms.amp_state import State
from polyceptron.model.priors import FinitePrior, Prior
from polyceptron.numerics import orthant_closed
from polyceptron.numerics.denoise import denoise, posterior_points, reduced_support
from polyceptron.numerics.orthant import argmax_diagonal

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Points = tuple[Array, Array]
Step = Callable[[State], State]
MAX_POINTS = 4096


def matrix_step(
    X: Data, y: Labels, basis: Array, points: Points | None, floor: float, noise: float
) -> Step:
    """k ≤ 3. `points`: the prior's points (c, k) and log-probabilities, None for a Gaussian.

    Matrices are packed as rows (c, ·): the diagonal, then for r = 2 the off-diagonal entry.
    """
    r = basis.shape[1]
    eye = np.eye(r)

    def step(state: State) -> State:
        V = _unpack(fields_squared(X, state.variance), r)
        V = np.where((np.trace(V, axis1=1, axis2=2) < floor * r)[:, None, None], floor * eye, V)
        omega = fields(X, state.weights).T - np.einsum("nij,jn->ni", V, state.scores)
        covariance = basis @ (V + noise * eye) @ basis.T
        parts = orthant_closed.with_covariance(omega @ basis.T, y, covariance)
        scores = np.ascontiguousarray((orthant_closed.score(parts, y) @ basis).T)
        stiffness = -(basis.T @ orthant_closed.hessian(parts, y) @ basis)
        precision = _unpack(back_squared(X, _pack(stiffness)), r)
        gamma = back(X, scores).T + np.einsum("dij,jd->di", precision, state.weights)
        if points is None:
            C = np.linalg.inv(eye + precision).astype(float, copy=False)
            mean = np.einsum("dij,dj->di", C, gamma)
        else:
            mean, C = _points_posterior(points[0] @ basis, points[1], gamma, precision)
        return State(np.ascontiguousarray(mean.T), _pack(C), scores)

    return step


def diagonal_step(
    X: Data, y: Labels, basis: Array, prior: Prior, floor: float, noise: float, order: int
) -> Step:
    """k > 3. Variances are (k, ·): one number per class, of the matrix P diag(v) P."""
    k = basis.shape[0]
    points = None
    if isinstance(prior, FinitePrior) and len(prior.values) ** k <= MAX_POINTS:
        points = reduced_support(prior, k)

    def step(state: State) -> State:
        v = np.maximum(fields_squared(X, state.variance).T, floor)
        f_old = state.scores.T @ basis.T
        reaction = v * f_old  # P diag(v) P f, and the channel ignores the common part
        omega = fields(X, state.weights).T @ basis.T - reaction
        f, diagonal = argmax_diagonal(omega, y, v + noise, order=order)
        scores = np.ascontiguousarray((f @ basis).T)
        precision = np.maximum(back_squared(X, class_numbers(diagonal).T).T, 0.0)
        weights = state.weights.T @ basis.T
        gamma = back(X, scores).T @ basis.T + precision * weights
        mean, diagonal = _diagonal_prior(prior, points, gamma, precision)
        return State(np.ascontiguousarray((mean @ basis).T), class_numbers(diagonal).T, scores)

    return step


def class_numbers(diagonal: Array) -> Array:
    """v (..., k) with diag(P diag(v) P) = diagonal (..., k): v_h(1 − 2/k) + Σv/k².

    One v may be negative; sums over many samples or coordinates are not, and are what is used.
    """
    k = diagonal.shape[-1]
    total = diagonal.sum(-1, keepdims=True) * (k / (k - 1))
    result: Array = (diagonal - total / k**2) / (1 - 2 / k)
    return result


def _diagonal_prior(
    prior: Prior, points: Points | None, gamma: Array, precision: Array
) -> tuple[Array, Array]:
    """Posterior mean (d, k) and diagonal of its covariance, at precisions P diag(λ) P."""
    k = gamma.shape[-1]
    if not isinstance(prior, FinitePrior):
        # The inverse of D = 1 + λ on differences: D⁻¹ − D⁻¹11ᵀD⁻¹/(1ᵀD⁻¹1).
        inverse = 1 / (1 + precision)
        total = inverse.sum(-1, keepdims=True)
        centred = gamma - (inverse * gamma).sum(-1, keepdims=True) / total
        return inverse * centred, inverse - inverse**2 / total
    if points is not None:
        u, log_p = points
        energy = 0.5 * precision @ (u**2).T
        p = posterior_points(gamma @ u.T + log_p - energy)
        mean = p @ u
        return mean, np.maximum(p @ u**2 - mean**2, 0.0)
    posterior = denoise(prior, gamma, precision.mean(-1))
    flat = posterior.variance[:, None] / k  # the trace, shared alike by the k classes
    return posterior.mean, np.broadcast_to(flat, gamma.shape)


def _points_posterior(
    u: Array, log_p: Array, gamma: Array, precision: Array
) -> tuple[Array, Array]:
    """Mean (d, r) and covariance (d, r, r) over points (c, r), at precision matrices (d, r, r)."""
    energy = 0.5 * np.einsum("ci,dij,cj->dc", u, precision, u, optimize=True)
    p = posterior_points(gamma @ u.T + log_p - energy)
    mean = p @ u
    C = np.empty((*mean.shape, mean.shape[1]))
    for i, j in np.ndindex(
        C.shape[1:]
    ):  # centred first: a certain weight has variance 0, not −1e-17
        spread = (u[:, i] - mean[:, i, None]) * (u[:, j] - mean[:, j, None])
        C[:, i, j] = (p * spread).sum(-1)
    return mean, C


def _pack(matrices: Array) -> Array:
    """Symmetric (m, r, r), r ≤ 2, to rows (c, m)."""
    if matrices.shape[-1] == 1:
        return np.ascontiguousarray(matrices[:, 0, 0])[None]
    return np.stack([matrices[:, 0, 0], matrices[:, 1, 1], matrices[:, 0, 1]])


def _unpack(rows: Array, r: int) -> Array:
    """The inverse of `_pack`."""
    if r == 1:
        return rows.reshape(-1, 1, 1)
    a, b, c = rows
    return np.stack([np.stack([a, c], -1), np.stack([c, b], -1)], -2)


def start_variance(V: float, basis: Array, d: int) -> Array:
    """The packed variances of an isotropic start."""
    k, r = basis.shape
    if k > 3:
        return np.full((k, d), V)
    return _pack(np.broadcast_to(V * np.eye(r), (d, r, r)))


def final_variance(variance: Array, basis: Array) -> Array:
    """(d, k, k) covariances for k ≤ 3; (d, k) numbers v of P diag(v) P for k > 3."""
    k, r = basis.shape
    if k > 3:
        return np.ascontiguousarray(variance.T)
    result: Array = basis @ _unpack(variance, r) @ basis.T
    return result
