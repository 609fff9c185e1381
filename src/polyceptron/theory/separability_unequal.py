"""Up to how many samples classes that are not alike can be separated.

Fields on class differences are ω = m_c + √s_c Q^{1/2}h in a mixture of variances s_c, or
Az + Q⊥^{1/2}h with a teacher's fields z. With δ the way from ω + b to a point of the cone C_y of
fields with label y, Gordon's inequality (r columns of weights) leaves one condition,

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

`separable_limit` chooses: `_two_groups` and `_two_labels` are the closed forms of two classes,
`saddle_limit` samples the saddle of more.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, uniform_replicates
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.populations import Population
from polyceptron.progress import steps

SQRT_TWO_PI = math.sqrt(2 * math.pi)
SIGNS_OF_TWO_CLASSES = np.sign(difference_basis(2)[:, 0])

# Points of a replicate for three classes; half as many for each further one. The limit is then
# known to about a hundredth (test_matrices_agree_with_scalars_and_with_closed_forms).
LOG2_POINTS_OF_THREE_CLASSES = 10


def separable_limit(population: Population, intercept: bool) -> Estimate:
    """Return α_s with its uncertainty; infinite where labels are a function of the features."""
    channel = population.label_channel
    if channel is None:
        return _limit_of_mixture(population, intercept)
    k = population.n_classes
    has_offsets = (difference_basis(k).T @ population.offsets).any()
    if channel.noiseless and (intercept or not has_offsets):
        return Estimate(np.array(math.inf), np.zeros(()))
    if k == 2:
        return _two_labels(population, channel, intercept)
    return saddle_limit(population, intercept)


def _limit_of_mixture(population: Population, intercept: bool) -> Estimate:
    """Return the least α_s of all classes and of every two of them.

    Where the metric N shrinks to the difference of two classes, theirs is that of all.
    """
    G, s = _one_level(population)
    k = population.n_classes
    limits = []
    if k > 2:
        limits.append(saddle_limit(population, intercept))
    for pair in combinations(range(k), 2):
        two = list(pair)
        shares = population.group_shares[two]
        share = shares.sum()
        limit = _two_groups(shares / share, G[np.ix_(two, two)], s[two], intercept)
        limits.append(Estimate(limit.value / share, limit.uncertainty / share))
    return min(limits, key=lambda limit: float(limit.value))


def _one_level(population: Population) -> tuple[Array, Array]:
    """Return G (k, k) and s (k,) of a mixture, where the features have one variance."""
    levels = population.levels_of_features
    if levels is None or (len(levels.fraction) > 1 and np.ptp(levels.variance, axis=1).any()):
        raise InvalidInput(
            "separability of a mixture needs one covariance for all classes, or isotropic ones; "
            "the covariances of this mixture differ in other ways"
        )
    if len(levels.fraction) > 1:
        whitened = levels.gram / levels.variance[:, :1, None]
        return np.asarray(whitened.sum(0)), np.ones(population.n_classes)
    return levels.gram[0], levels.variance[0]


def _mean_square_below_zero(mean: Array, variance: Array | float) -> Array:
    """Return E(−u)₊² of u ~ N(μ, v): (μ² + v)Φ(−μ/√v) − μ√v φ(μ/√v), in the shape of μ."""
    x = mean / np.sqrt(variance)
    density = np.exp(-0.5 * x * x) / SQRT_TWO_PI
    return np.asarray(variance * ((x * x + 1) * ndtr(-x) - x * density))


def _two_groups(p: Array, G: Array, s: Array, intercept: bool) -> Estimate:
    """Return α_s of two classes of a mixture: weights aμ along the means, and 1 outside them.

    Their fields have the means m = Ga and the variances s(1 + aᵀGa).
    """

    def mean_distance(parameters: Array, order: int) -> float:
        """Return the mean squared distance of margins to the allowed ones."""
        a = parameters[:2]
        b = parameters[2]
        spread = 1 + a @ G @ a
        signed_mean = SIGNS_OF_TWO_CLASSES * (G @ a + b)
        return float(p @ (_mean_square_below_zero(signed_mean, s * spread) / s))

    return _inverse_of_least(mean_distance, 3, intercept)


def _two_labels(population: Population, channel: Channel, intercept: bool) -> Estimate:
    """Return α_s of two classes of a teacher: closed forms given its field."""
    offsets = population.offsets
    T = difference_basis(2)[:, 0]
    field_scale = math.sqrt(T @ population.field_covariance @ T)
    both_sides = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
    boundary = -float(offsets @ T) / field_scale
    width = max(channel.width(0.0) * math.sqrt(2) / field_scale, 1e-9)
    breaks = blend_breaks([both_sides, boundary + width * both_sides], -CUTOFF, CUTOFF)

    def mean_distance(parameters: Array, order: int) -> float:
        """Return the mean squared distance of margins to the allowed ones."""
        slope, b = parameters
        x, weight = panel_rule(breaks, order)
        chances = channel.chances(field_scale * x[:, None] * T + offsets)
        weight = weight * np.exp(-0.5 * x * x) / SQRT_TWO_PI
        signed_mean = SIGNS_OF_TWO_CLASSES * (slope * x + b)[:, None]
        return float(weight @ (chances * _mean_square_below_zero(signed_mean, 1.0)).sum(1))

    return _inverse_of_least(mean_distance, 2, intercept)


def _inverse_of_least(
    function: Callable[[Array, int], float], n_parameters: int, intercept: bool
) -> Estimate:
    """Return 1/min of a convex function of parameters, of which the last is the intercept.

    The function's second argument is the order of its panels: the minimum on few nodes is compared
    with the value on more.
    """
    fixed = np.zeros(0 if intercept else 1)

    def on_few_nodes(x: Array) -> float:
        """Return the function with the fixed parameters, on 12 nodes."""
        return function(np.concatenate([x, fixed]), 12)

    least = minimize(on_few_nodes, np.zeros(n_parameters - len(fixed)), tol=1e-12)
    value = function(np.concatenate([least.x, fixed]), 18)
    # The minimum is flat: what the minimiser leaves is of second order in its gradient.
    left_by_minimiser = float(np.abs(least.jac).max()) ** 2
    rounding = 1e-13
    error = left_by_minimiser + abs(value - least.fun) + rounding
    return Estimate(np.array(1 / value), np.array(error / value**2))


def saddle_limit(population: Population, intercept: bool) -> Estimate:
    """Return α_s of any number of classes: the saddle by damped rounds, on fixed random points."""
    iteration = _SaddleIteration(_FixedPoints.of(population), intercept)
    max_rounds = 150
    for _ in steps(range(max_rounds)):
        iteration.advance()
        if iteration.settled:
            break
    return iteration.limit()


@dataclass(frozen=True)
class _FixedPoints:
    """A population on fixed points; n = replicates × points.

    Attributes
    ----------
    h, z : array, (r, n)
        Standard normals, and the teacher's fields; z is 0 in a mixture.
    shares : array, (k, n)
        The chance of each label at each point.
    gram, s, field_covariance : array, (k, k), (k,), (r, r)
        G and s of a mixture, and E zzᵀ of a teacher.
    edges : array, (k, r, r)
        The edges of the cone C_y of each label, as columns.
    has_teacher : bool
    n_replicates : int
    """

    h: Array
    z: Array
    shares: Array
    gram: Array
    s: Array
    field_covariance: Array
    edges: Array
    has_teacher: bool
    n_replicates: int

    @classmethod
    def of(cls, population: Population) -> _FixedPoints:
        """Draw the points."""
        channel = population.label_channel
        k = population.n_classes
        r = k - 1
        T = difference_basis(k)
        dimension = r if channel is None else 2 * r
        replicates = _symmetric_normals(dimension, k)
        x = np.ascontiguousarray(replicates.reshape(-1, dimension).T)
        n = x.shape[1]
        edges = np.stack([np.linalg.inv(class_gaps(k, y)) for y in range(k)])
        if channel is None:
            G, s = _one_level(population)
            shares = np.repeat(population.group_shares[:, None], n, 1)
            z = np.zeros((r, n))
            R = np.eye(r)
        else:
            G = np.zeros((k, k))
            s = np.ones(k)
            R = T.T @ population.field_covariance @ T
            z = np.linalg.cholesky(R) @ x[r:]
            shares = np.ascontiguousarray(channel.chances((T @ z).T + population.offsets).T)
        return cls(x[:r], z, shares, G, s, R, edges, channel is not None, len(replicates))


def _symmetric_normals(dimension: int, n_classes: int) -> Array:
    """Return normals (replicates, points, dimension) with the Gaussian's moments up to the third.

    Each replicate has the opposite of every point, and a sample covariance of 1.
    """
    fewest = 6
    log2_points = max(LOG2_POINTS_OF_THREE_CLASSES + 3 - n_classes, fewest)
    half = ndtri(uniform_replicates(dimension, log2_points, seed=29))
    x = np.concatenate([half, -half], axis=1)
    return np.stack([_with_unit_covariance(points) for points in x])


def _with_unit_covariance(x: Array) -> Array:
    """Return points x (n, d) of mean 0, mapped so that their sample covariance is 1."""
    factor = np.linalg.cholesky(x.T @ x / len(x))
    return np.asarray(np.linalg.solve(factor, x.T).T)


class _Saddle(NamedTuple):
    """m (k, r), A (r, r), b (r,), Q = Q⊥ (r, r) and the metric N (r, r)."""

    m: Array
    A: Array
    b: Array
    Q: Array
    N: Array

    def towards(self, other: _Saddle, share: float) -> _Saddle:
        """Return the point on the way to another, at a share of the distance."""
        pairs = zip(self, other, strict=True)
        return _Saddle(*(here + share * (there - here) for here, there in pairs))

    def distance(self, other: _Saddle) -> float:
        """Return the largest difference of an entry."""
        pairs = zip(self, other, strict=True)
        return max(float(np.abs(there - here).max()) for here, there in pairs)


@dataclass
class _Expectations:
    """Sums over the points: p_c E_c δ/s_c (k, r), and four matrices (r, r)."""

    pull: Array
    square: Array  # E δδᵀ/s
    response: Array  # E(I − ∂v/∂ω)
    stiffness: Array  # the same over s
    cross: Array  # E δzᵀ


class _SaddleIteration:
    """Damped rounds of the equations of the saddle."""

    def __init__(self, points: _FixedPoints, intercept: bool) -> None:
        k = len(points.s)
        r = len(points.h)
        self.points = points
        self.intercept = intercept
        self.saddle = _Saddle(np.zeros((k, r)), np.zeros((r, r)), np.zeros(r), np.eye(r), np.eye(r))
        self.delta = np.zeros((k, *points.h.shape))  # δ of each label
        self.edge_shares = np.zeros_like(self.delta)  # v in units of the edges, kept between rounds
        self.averages: _Expectations | None = None
        self.damping = 0.5
        self.last_move = math.inf
        self.last_alphas: deque[float] = deque(maxlen=9)

    @property
    def settled(self) -> bool:
        """Whether α varied by less than 1e-6 of itself over the last rounds."""
        if len(self.last_alphas) < 9:
            return False
        return float(np.ptp(self.last_alphas)) < 1e-6 * self.last_alphas[-1]

    def advance(self) -> None:
        """Make a round; shorten steps where they grow."""
        averages = self._averages()
        N = self.saddle.N
        alpha = float(np.trace(N) / np.trace(N @ averages.response))
        after = self._after_round(averages, alpha)
        move = self.saddle.distance(after)
        if move > self.last_move:
            self.damping *= 0.8
        self.damping = max(self.damping, 0.05)
        self.last_move = move
        self.saddle = self.saddle.towards(after, self.damping)
        self.last_alphas.append(alpha)
        self.averages = averages

    def _averages(self) -> _Expectations:
        """Project the fields of every label to its cone, and average."""
        points = self.points
        m, A, b, Q, N = self.saddle
        k, r = m.shape
        n = points.h.shape[1]
        factor = np.linalg.cholesky(Q)
        signal = A @ points.z
        averages = _Expectations(np.zeros((k, r)), *np.zeros((4, r, r)))
        for y in range(k):
            s = points.s[y]
            omega = (m[y] + b)[:, None] + math.sqrt(s) * factor @ points.h + signal
            self.delta[y] = _way_to_cone(omega, points.edges[y], N, self.edge_shares[y])
            weighted = points.shares[y] / n * self.delta[y]
            averages.pull[y] = weighted.sum(1) / s
            # E(I − ∂v) by parts, over the Gaussian h.
            response = -np.linalg.solve(factor.T, points.h @ weighted.T).T / math.sqrt(s)
            averages.square += weighted @ self.delta[y].T / s
            averages.response += response
            averages.stiffness += response / s
            averages.cross += weighted @ points.z.T
        return averages

    def _after_round(self, averages: _Expectations, alpha: float) -> _Saddle:
        """Return the saddle after an undamped round, scaled so that tr Q = tr N = r."""
        points = self.points
        _, A, b, _, N = self.saddle
        r = len(b)
        pull = averages.pull.T
        if self.intercept:
            b = b + np.linalg.solve(averages.stiffness, pull.sum(1))
        if points.has_teacher:
            A = A + alpha * np.linalg.solve(points.field_covariance, averages.cross.T).T
        tilt = alpha * pull
        Q = alpha * averages.square + tilt @ points.gram @ tilt.T
        metric = N @ averages.response + averages.response.T @ N
        scale = math.sqrt(r / float(np.trace(Q)))
        return _Saddle(
            scale * (tilt @ points.gram).T,
            scale * A,
            scale * b,
            scale**2 * Q,
            metric * (r / np.trace(metric)),
        )

    def limit(self) -> Estimate:
        """Return the last α; its uncertainty is that of the points and of unsettled rounds."""
        assert self.averages is not None
        points = self.points
        N = self.saddle.N
        alpha = self.last_alphas[-1]
        weight = (points.shares / points.s[:, None])[:, None]
        lengths = (weight * self.delta * (N @ self.delta)).sum((0, 1))
        by_replicate = lengths.reshape(points.n_replicates, -1).mean(1)
        alphas = float(np.trace(N @ self.averages.square)) * alpha / by_replicate
        spread = estimate_from_replicates(alphas).uncertainty
        return Estimate(np.array(alpha), spread + np.ptp(self.last_alphas))


def _way_to_cone(omega: Array, edges: Array, N: Array, edge_shares: Array) -> Array:
    """Return v − ω (r, n) for the v = edges·g, g ≥ 0, nearest to ω in the metric N.

    Coordinate descent from the g (r, n) of the round before, which are updated.
    """
    sweeps = 4
    K = edges.T @ N @ edges
    own = np.diag(K)[:, None]
    target = (edges.T @ N / own) @ omega
    of_others = np.eye(len(K)) - K / own
    for _ in range(sweeps):
        for j in range(len(K)):
            np.maximum(target[j] + of_others[j] @ edge_shares, 0.0, out=edge_shares[j])
    return np.asarray(edges @ edge_shares - omega)
