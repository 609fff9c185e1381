"""What labels teach: the channel's information and entropy at overlap q, for any k.

With ω ~ N(0, q) in each class and residual variance v (1 − q, plus any label noise),

    I(q, v)     = (1/r) E Σ_l ‖∇Z_l‖²/Z_l           so that q̂ = α I          (eq. SE_BO)
    Ψ_out(q, v) = E Σ_l Z_l ln Z_l                                            (eq. free_entropyBO)

Only near class boundaries, within √v, is there anything to learn. So the integrals use the gap
x = (ω_winner − ω_runner-up)/√v as a coordinate of its own: by symmetry the label is class 1 and the
runner-up class 2, a factor k(k − 1). Then nothing is lost as v → 0.

- k = 2: one integral over x. k = 3: x and the second gap y ≥ 0; the unit-variance integrands are
  tabulated once, since q enters only through the Gaussian weight exp(−τ(x² + xy + y²)/3), τ = v/q.
- k ≥ 4: randomised quasi-Monte Carlo over the runner-up and the k − 2 others below it, with the
  winner's field integrated exactly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr, ndtri_exp, xlogy

from polyceptron.numerics.orthant import argmax_orthant, hermite_rule, log_cdf_and_mills
from polyceptron.numerics.qmc import uniform_replicates

Array = NDArray[Any]
_ORDER = 32  # nodes of the orthant integral where 12 digits are wanted


class ChannelMoments(NamedTuple):
    """I and Ψ_out, each (points, replicates); one replicate where the rule is deterministic."""

    information: Array
    entropy: Array


def channel_moments(q: Array, v: Array, n_classes: int, log2_points: int = 8) -> ChannelMoments:
    """I and Ψ_out at overlaps q (p,) and residual variances v (p,), 0 < v."""
    q, v = np.atleast_1d(np.asarray(q, float)), np.atleast_1d(np.asarray(v, float))
    if n_classes > 3:
        pairs = [_moments_qmc(a, b, n_classes, log2_points) for a, b in zip(q, v, strict=True)]
        return ChannelMoments(*(np.stack(column) for column in zip(*pairs, strict=True)))
    boundary = _boundary_2 if n_classes == 2 else _boundary_3
    wide = v <= 10 * q  # the Gaussian weight is wider than the tabulated nodes' spacing
    information, entropy = np.empty_like(q), np.empty_like(q)
    for i in range(q.size):
        information[i], entropy[i] = (boundary if wide[i] else _hermite)(q[i], v[i], n_classes)
    return ChannelMoments(information[:, None], entropy[:, None])


def _unit_integrands(omega: Array) -> tuple[Array, Array]:
    """‖∇ ln Z‖² Z and Z ln Z for class 0 winning at unit variance, ω (..., k)."""
    o = argmax_orthant(omega, np.zeros(omega.shape[:-1], dtype=np.int64), 1.0, order=_ORDER)
    z = np.exp(o.log_z)
    return (o.score**2).sum(-1) * z, o.log_z * z


def _hermite(q: float, v: float, k: int) -> tuple[float, float]:
    """Small q: a smooth integrand under a Gaussian of variance q/v, in k − 1 coordinates."""
    nodes, log_weights = hermite_rule(40)
    scale = math.sqrt(q / v)
    if k == 2:
        d = nodes * math.sqrt(2) * scale
        omega = np.stack([d, np.zeros_like(d)], -1)
        weight = np.exp(log_weights)
    else:
        a, b = np.meshgrid(nodes * scale, nodes * scale, indexing="ij")
        a, b = a / math.sqrt(6), b / math.sqrt(2)
        omega = np.stack([2 * a, b - a, -b - a], -1)
        weight = np.exp(log_weights[:, None] + log_weights)
    squared, entropy = _unit_integrands(omega)
    return k * float((weight * squared).sum()) / (k - 1) / v, k * float((weight * entropy).sum())


@lru_cache(maxsize=1)
def _line() -> tuple[Array, Array, Array]:
    """The two-class table: gaps x and the unit integrands there (step 0.1: entire functions)."""
    x = np.arange(-135, 106) * 0.1
    omega = np.stack([x, np.zeros_like(x)], -1)
    return x, *_unit_integrands(omega)


def _boundary_2(q: float, v: float, k: int) -> tuple[float, float]:
    x, squared, entropy = _line()
    weight = 0.1 * np.exp(-v * x**2 / (4 * q)) * math.sqrt(v / (4 * math.pi * q))
    return 2 * float(weight @ squared) / v, 2 * float(weight @ entropy)


@lru_cache(maxsize=1)
def _half_plane() -> tuple[Array, Array, Array, Array, Array]:
    """The three-class table less its limit y → ∞ (two classes): x, y, weights of y, integrands."""
    x, squared_2, entropy_2 = _line()
    y_max = 26.0
    nodes, weights = np.polynomial.legendre.leggauss(128)
    y, weight_y = 0.5 * y_max * (nodes + 1), 0.5 * y_max * weights
    X, Y = np.meshgrid(x, y, indexing="ij")
    omega = np.stack([X, np.zeros_like(X), -Y], -1)
    squared, entropy = _unit_integrands(omega)
    return x, y, weight_y, squared - squared_2[:, None], entropy - entropy_2[:, None]


def _boundary_3(q: float, v: float, k: int) -> tuple[float, float]:
    x, y, weight_y, squared, entropy = _half_plane()
    _, squared_2, entropy_2 = _line()
    t = v / (3 * q)
    kernel = np.exp(-t * (x[:, None] ** 2 + x[:, None] * y + y**2)) * weight_y
    # ∫_0^∞ exp(−t(x² + xy + y²)) dy in closed form, for the part that does not decay in y.
    half = 0.5 * math.sqrt(math.pi / t) * np.exp(-t * x**2) * erfcx(0.5 * math.sqrt(t) * x)
    scale = 6 * 0.1 * v / (2 * math.pi * math.sqrt(3) * q)
    information = float((kernel * squared).sum() + half @ squared_2)
    return scale * information / (2 * v), scale * float((kernel * entropy).sum() + half @ entropy_2)


def _moments_qmc(q: float, v: float, k: int, log2_points: int) -> tuple[Array, Array]:
    """Replicates (R,) of I and Ψ_out for k ≥ 4: sample the losers, integrate the winner exactly.

    In units of √v and measured from the runner-up, the winner is at x and Z(x) = ∫ φ(C − x) P(C) dC
    with P(C) = ∏_h Φ(C + δ_h), δ_h ≥ 0 the losers' gaps: a convolution, so one table over C serves
    every x by a matrix product. P − Φ decays on both sides and ∫ φ(C − x)Φ(C) dC = Φ(x/√2).
    """
    points = uniform_replicates(k - 1, log2_points, seed=k)
    tau = v / q
    # Runner-up g, target φ(g)Φ(g)^{k−2} times φ(g) when τ is small: density ∝ φΦ^β has its mode.
    beta = (k - 2) * (1 - 0.5 / (1 + 3 * tau))
    log_cdf = np.log(points[..., 0]) / (beta + 1)
    g = ndtri_exp(log_cdf)
    sample_weight = np.exp((k - 2 - beta) * log_cdf) / (beta + 1)
    # The others below the runner-up, by inverse CDF in log-space.
    below = ndtri_exp(np.log(points[..., 1:]) + log_cdf[..., None])
    gaps = (g[..., None] - below) / math.sqrt(tau)
    C: Array = np.arange(-15, 19) * 0.5
    x_step = min(0.3, 0.5 / math.sqrt(tau))
    low, high = max(-10.0, -18 / math.sqrt(tau)), min(8.5, 10 / math.sqrt(tau))
    x = np.arange(math.floor(low / x_step), math.ceil(high / x_step) + 1) * x_step
    kernel = 0.5 * np.exp(-0.5 * (C[:, None] - x) ** 2) / math.sqrt(2 * math.pi)
    runner_log_cdf, runner_r = log_cdf_and_mills(C)
    squared, entropy = np.empty(g.shape), np.empty(g.shape)
    chunk = max(1, 1_000_000 // (k * x.size))
    flat_gaps, flat_g = gaps.reshape(-1, k - 2), g.ravel()
    for start in range(0, g.size, chunk):
        part = slice(start, start + chunk)
        others_log_cdf, others_r = log_cdf_and_mills(flat_gaps[part, :, None] + C)
        others = others_log_cdf.sum(1)
        P = np.exp(runner_log_cdf + others)
        Z = ndtr(x / math.sqrt(2)) + (np.exp(runner_log_cdf) * np.expm1(others)) @ kernel
        Z = np.maximum(Z, 1e-300)
        runner = (P * runner_r) @ kernel
        B = (P[:, None, :] * others_r) @ kernel  # Z times the score of each other loser
        norm = runner**2 + (B**2).sum(1) + (runner + B.sum(1)) ** 2
        field = flat_g[part, None] + math.sqrt(tau) * x
        weight = np.exp(-0.5 * field**2) * (math.sqrt(tau / (2 * math.pi)) * x_step)
        squared.flat[part] = (weight * norm / Z).sum(-1)
        entropy.flat[part] = (weight * xlogy(Z, Z)).sum(-1)
    pairs = k * (k - 1)
    information = pairs * (sample_weight * squared).mean(-1) / (v * (k - 1))
    return information, pairs * (sample_weight * entropy).mean(-1)
