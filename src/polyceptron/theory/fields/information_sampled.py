"""What labels teach with four classes and more: sample the losers, integrate the winner exactly.

Randomised quasi-Monte Carlo over the runner-up and the k − 2 others below it. In units of the
channel's width and measured from the runner-up the winner is at x. With Gaussian utilities
P(x) = ∫ φ(C − x) ∏_h Φ(C + δ_h) dC, δ_h ≥ 0 the losers' gaps: a convolution, so one table over C
serves every x by a matrix product. Any other channel goes through `race`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri_exp

from polyceptron.model.channels import Channel
from polyceptron.numerics.mills import log_cdf_and_mills
from polyceptron.numerics.qmc import uniform_replicates
from polyceptron.theory.fields.information import Moments, integrands
from polyceptron.theory.fields.race import race

Array = NDArray[Any]
_CHUNK = 1_000_000


def sampled_moments(
    q: Array,
    v: Array,
    k: int,
    log2_points: int,
    *,
    guess: float = 0.0,
    channel: Channel | None = None,
) -> Moments:
    """I and the excess (p, R) at each (q, v); v includes noise unless a channel is asked."""
    pairs = [
        sampled_replicates(float(a), float(b), k, log2_points, guess, channel)
        for a, b in zip(q, v, strict=True)
    ]
    return Moments(*(np.stack(column) for column in zip(*pairs, strict=True)))


def sampled_replicates(
    q: float, v: float, k: int, log2_points: int, guess: float = 0.0, channel: Channel | None = None
) -> tuple[Array, Array]:
    """Replicates (R,) of I and of the excess."""
    points = uniform_replicates(k - 1, log2_points, seed=k)
    unit = v if channel is None else channel.width(v) ** 2
    tau = unit / q
    # Runner-up g, target φ(g)Φ(g)^{k−2} times φ(g) when τ is small: density ∝ φΦ^β has its mode.
    beta = (k - 2) * (1 - 0.5 / (1 + 3 * tau))
    log_cdf = np.log(points[..., 0]) / (beta + 1)
    g = ndtri_exp(log_cdf)
    sample_weight = np.exp((k - 2 - beta) * log_cdf) / (beta + 1)
    # The others below the runner-up, by inverse CDF in log-space.
    below = ndtri_exp(np.log(points[..., 1:]) + log_cdf[..., None])
    gaps = (g[..., None] - below) / math.sqrt(tau)
    left, right = (-10.0, 8.5) if channel is None else (-25.0, 20.0)  # or tails exp(−x)
    x_step = min(0.3, 0.5 / math.sqrt(tau))
    low, high = max(left, -18 / math.sqrt(tau)), min(right, 10 / math.sqrt(tau))
    x = np.arange(math.floor(low / x_step), math.ceil(high / x_step) + 1) * x_step
    squared, excess = np.empty(g.shape), np.empty(g.shape)
    chunk = max(1, _CHUNK // (k * x.size))
    flat_gaps, flat_g = gaps.reshape(-1, k - 2), g.ravel()
    for start in range(0, g.size, chunk):
        part = slice(start, start + chunk)
        field = flat_g[part, None] + math.sqrt(tau) * x
        weight = np.exp(-0.5 * field**2) * (math.sqrt(tau / (2 * math.pi)) * x_step)
        if channel is None:
            information, entropy = _convolved(flat_gaps[part], x, k, guess)
        else:
            width = math.sqrt(unit)
            P, norm = race(channel, v, width * flat_gaps[part], width * x)
            information, entropy = integrands(P, norm * unit, k, channel.guess(k))
        squared.flat[part] = (weight * information).sum(-1)
        excess.flat[part] = (weight * entropy).sum(-1)
    pairs = k * (k - 1)
    found = pairs * (sample_weight * squared).mean(-1) / (unit * (k - 1))
    return found, pairs * (sample_weight * excess).mean(-1)


def _convolved(gaps: Array, x: Array, k: int, guess: float) -> tuple[Array, Array]:
    """The integrands (n, x) at losers' gaps (n, k−2), Gaussian utilities of unit variance.

    ∏Φ − Φ decays on both sides and ∫ φ(C − x)Φ(C) dC = Φ(x/√2).
    """
    C: Array = np.arange(-15, 19) * 0.5
    kernel = 0.5 * np.exp(-0.5 * (C[:, None] - x) ** 2) / math.sqrt(2 * math.pi)
    runner_log_cdf, runner_r = log_cdf_and_mills(C)
    others_log_cdf, others_r = log_cdf_and_mills(gaps[:, :, None] + C)
    others = others_log_cdf.sum(1)
    product = np.exp(runner_log_cdf + others)
    P = ndtr(x / math.sqrt(2)) + (np.exp(runner_log_cdf) * np.expm1(others)) @ kernel
    P = np.maximum(P, 1e-300)
    runner = (product * runner_r) @ kernel
    B = (product[:, None, :] * others_r) @ kernel  # P times the score of each other loser
    norm = runner**2 + (B**2).sum(1) + (runner + B.sum(1)) ** 2
    return integrands(P, norm / P, k, guess)
