"""Up to how many samples a population's classes can be separated, with or without an intercept.

Let the fields on class differences be ω = m_c + √s_c Q^{1/2}h in a mixture of variances s_c, or
Az + Q⊥^{1/2}h with a teacher's fields z, and C_y the cone of fields that answer y. With δ the way
from ω + b to a point of C_y, Gordon's inequality (r columns of weights) leaves one condition,

    samples are separable   ⇔   α E[δδᵀ/s] ⪯ Q⊥      for some A, m, b, Q⊥ and choice of points

where Q⊥ is the part of the weights outside the means (Q = Q⊥ + mG⁻¹mᵀ) or the teacher's directions.
The largest α is a saddle: points are nearest in a metric N that is the multiplier of the condition,

    1/α_s = min_{A, m, b, Q⊥} max_N  E‖δ‖²_N/s / tr(N Q⊥)

At the saddle αE[δδᵀ/s] = Q⊥, αN E[I − ∂v/∂ω] = N with v = ω + b + δ, E[δ/s] = 0 for the intercept,
and E[δzᵀ] = 0, or m = α(p_c E_c δ/s_c)G: the equations of max-margin at an infinite norm. Where
some classes are harder to tell apart than the rest, N shrinks to their differences. Two classes
leave a convex function of two or three numbers (Candès and Sur), with closed forms given z.

Below α_s every class can be separated from every other. Above it one class may still be separable
from the union of the others, with a threshold of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from polyceptron.display import steps
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.checks import difference_basis
from polyceptron.model.populations import Population
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, from_replicates, uniform_replicates
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, blend_breaks, panel_rule

_SEED = 29
_ROUNDS, _SWEEPS = 150, 8
_CLOSE, _CALM = 1e-6, 8  # α has settled when it varied by less over so many rounds
_LOG2_POINTS = 10  # of three classes; half as many for each further one
_SIGNS = np.sign(difference_basis(2)[:, 0])


def separable_limit(population: Population, intercept: bool) -> Estimate:
    """α_s with its uncertainty; infinite where labels are a function of the features."""
    channel, k = population.label_channel, population.n_classes
    if channel is not None:
        T = difference_basis(k)
        if channel.noiseless and (intercept or not (T.T @ population.offsets).any()):
            return Estimate(np.array(math.inf), np.zeros(()))
        if k == 2:
            return _two_labels(population, channel, intercept)
        return _many_classes(population, intercept)
    G, s = _one_level(population)
    limits = [] if k == 2 else [_many_classes(population, intercept)]
    # Every two classes must be separable by themselves: where N shrinks to two, that is α_s.
    for pair in combinations(range(k), 2):
        two = list(pair)
        p = population.group_shares[two]
        found = _two_groups(p / p.sum(), G[np.ix_(two, two)], s[two], intercept)
        limits.append(Estimate(found.value / p.sum(), found.uncertainty / p.sum()))
    return min(limits, key=lambda one: float(one.value))


def _one_level(population: Population) -> tuple[Array, Array]:
    """G (k, k) and s (k,) of a mixture, in coordinates in which the features have one variance."""
    levels = population.levels_of_features
    if levels is None or (len(levels.fraction) > 1 and np.ptp(levels.variance, axis=1).any()):
        raise InvalidInput(
            "separability is known for classes of one covariance, or of isotropic ones: those of "
            "this mixture have spectra of their own"
        )
    if len(levels.fraction) > 1:
        whitened = levels.gram / levels.variance[:, :1, None]
        return np.asarray(whitened.sum(0)), np.ones(population.n_classes)
    return levels.gram[0], levels.variance[0]


def _teacher_law(population: Population) -> tuple[Array, Array]:
    """R (r, r) and b* (k,)."""
    T = difference_basis(population.n_classes)
    return T.T @ population.field_covariance @ T, population.offsets


def _short(mean: Array, variance: Any) -> Array:
    """E(−u)₊² of u ~ N(μ, v): (μ² + v)Φ(−μ/√v) − μ√v φ(μ/√v)."""
    x = mean / np.sqrt(variance)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return np.asarray(variance * ((x * x + 1) * ndtr(-x) - x * density))


def _two_groups(p: Array, G: Array, s: Array, intercept: bool) -> Estimate:
    """Two classes of a mixture: weights along the means aμ, m = Ga, and 1 outside them."""

    def value(at: Array, order: int) -> float:
        m, spread = G @ at[:2], 1 + at[:2] @ G @ at[:2]
        return float(p @ (_short(_SIGNS * (m + at[2]), s * spread) / s))

    return _least(value, 3, intercept)


def _two_labels(population: Population, channel: Channel, intercept: bool) -> Estimate:
    """Two classes of a teacher: closed forms given its field."""
    R, offsets = _teacher_law(population)
    sd, T = math.sqrt(R[0, 0]), difference_basis(2)[:, 0]
    both = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
    near = -float(offsets @ T) / sd + max(channel.width(0.0) * math.sqrt(2) / sd, 1e-9) * both
    breaks = blend_breaks([both, near], -CUTOFF, CUTOFF)

    def value(at: Array, order: int) -> float:
        x, weight = panel_rule(breaks, order)
        chances = channel.chances(sd * x[:, None] * T + offsets)
        weight = weight * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        mean = _SIGNS * (at[0] * x + at[1])[:, None]
        return float(weight @ (chances * _short(mean, 1.0)).sum(1))

    return _least(value, 2, intercept)


def _least(value: Callable[[Array, int], float], size: int, intercept: bool) -> Estimate:
    """1/min of a convex function, of which the last argument is the intercept."""

    def at(x: Array) -> Array:
        return x if intercept else np.append(x, 0.0)

    def coarse_value(x: Array) -> float:
        return value(at(x), 12)

    found = minimize(coarse_value, np.zeros(size if intercept else size - 1), tol=1e-12)
    fine, coarse = (value(at(found.x), order) for order in (18, 12))
    # The minimum is flat: what the minimiser leaves is of second order in its gradient.
    slack = float(np.abs(found.jac).max()) ** 2 + abs(fine - coarse) + 1e-13
    return Estimate(np.array(1 / fine), np.array(slack / fine**2))


def _many_classes(population: Population, intercept: bool) -> Estimate:
    """The saddle by damped rounds of its own equations, on fixed random points."""
    channel, k = population.label_channel, population.n_classes
    r, T = k - 1, difference_basis(k)
    edges = np.stack([np.linalg.inv(T[y] - np.delete(T, y, 0)) for y in range(k)])  # of C_y
    log2 = max(_LOG2_POINTS + 3 - k, 6)
    x = ndtri(uniform_replicates(r if channel is None else 2 * r, log2, _SEED))
    x = np.concatenate([x, -x], axis=1)  # with the moments of the Gaussian up to the third:
    x = np.stack([np.linalg.solve(np.linalg.cholesky(e.T @ e / len(e)), e.T).T for e in x])
    replicates, x = len(x), x.reshape(-1, x.shape[2])
    h, n = x[:, :r], len(x)
    G, s, R, z = np.zeros((k, k)), np.ones(k), np.eye(r), np.zeros((n, r))
    if channel is None:
        G, s = _one_level(population)
        shares = np.repeat(population.group_shares[:, None], n, 1)
    else:
        R, offsets = _teacher_law(population)
        z = x[:, r:] @ np.linalg.cholesky(R).T
        shares = channel.chances(z @ T.T + offsets).T
    state = [np.zeros((k, r)), np.zeros((r, r)), np.zeros(r), np.eye(r), np.eye(r)]
    gaps, delta = np.zeros((k, n, r)), np.zeros((k, n, r))
    damp, before, alphas = 0.5, math.inf, [math.nan]
    for _ in steps(range(_ROUNDS)):
        m, A, b, Q, N = state
        B = np.linalg.cholesky(Q)
        E, D, U, stiff, cross = np.zeros((k, r)), *np.zeros((4, r, r))
        for y in range(k):
            omega = m[y] + b + math.sqrt(s[y]) * (h @ B.T) + z @ A.T
            delta[y] = _way_to_cone(omega, edges[y], N, gaps[y])
            weighted = shares[y][:, None] * delta[y] / n
            E[y] = weighted.sum(0) / s[y]
            D += weighted.T @ delta[y] / s[y]
            moved = -np.linalg.solve(B.T, h.T @ weighted).T / math.sqrt(s[y])  # E(I − ∂v), by parts
            U += moved
            stiff += moved / s[y]
            cross += weighted.T @ z
        alpha = float(np.trace(N) / np.trace(N @ U))
        tilt, metric = alpha * E.T, N @ U + U.T @ N
        inside = tilt @ G @ tilt.T
        Q = alpha * D + inside
        size = math.sqrt(r / float(np.trace(Q)))
        b = b + np.linalg.solve(stiff, E.sum(0)) if intercept else b
        A = A + alpha * np.linalg.solve(R, cross.T).T if channel is not None else A
        N = metric * (r / np.trace(metric))
        new = [size * (tilt @ G).T, size * A, size * b, size**2 * Q, N]
        step = max(float(np.abs(one - old).max()) for one, old in zip(new, state, strict=True))
        damp, before = max(damp * (0.8 if step > before else 1.0), 0.05), step
        state = [old + damp * (one - old) for one, old in zip(new, state, strict=True)]
        alphas = [*alphas[-_CALM:], alpha]
        if len(alphas) > _CALM and np.ptp(alphas) < _CLOSE * alpha:
            break
    weight = (shares / s[:, None])[:, :, None]
    each = (weight * delta * (delta @ N)).sum((0, 2)).reshape(replicates, -1).mean(1)
    spread = from_replicates(float(np.trace(N @ D)) * alpha / each).uncertainty
    return Estimate(np.array(alpha), spread + np.ptp(alphas))


def _way_to_cone(omega: Array, edges: Array, N: Array, gaps: Array) -> Array:
    """v − ω (n, r) for the point v = edges·g, g ≥ 0, nearest to ω (n, r) in the metric N.

    Gauss–Seidel sweeps from the gaps (n, r) of the round before, which are updated.
    """
    K, c = edges.T @ N @ edges, omega @ (N @ edges)
    for _ in range(_SWEEPS):
        for j in range(len(K)):
            gaps[:, j] = np.maximum(gaps[:, j] + (c[:, j] - gaps @ K[j]) / K[j, j], 0.0)
    return np.asarray(gaps @ edges.T - omega)
