"""One class against the others: the chance that it wins, for a whole row of its own leads at once.

In fields measured from the runner-up the winner is at x and the other losers δ_h ≥ 0 below. With F
the law of a utility around its field,

    P(x) = ∫ dC F′(C − x) F(C) ∏_h F(C + δ_h)

is a convolution: one table over C serves every x by a matrix product, and so do its slopes, with
F′/F of one loser as a further factor. A channel whose law is no table is asked at every node.

What labels teach: the channel's information and entropy at overlap q, for any channel and k.

With ω ~ N(0, q) in each class, residual variance v = 1 − q, and Z_l = η' + (1 − kη')P_l the chance
of label l where P_l is that of the largest utility,

    I(q, v)     = (1/r) E Σ_l ‖∇Z_l‖²/Z_l           so that q̂ = α I          (eq. SE_BO)
    Ψ_out(q, v) = E Σ_l Z_l ln Z_l = Ψ₀ + excess                              (eq. free_entropyBO)
    Ψ₀          = t ln t + (k−1) η' ln η',   t = 1 − (k−1)η'                  (utilities known)
    excess      = E Σ_l [Z_l ln Z_l − P_l t ln t − (1 − P_l) η' ln η']

Only near class boundaries, within the channel's width, is there anything to learn: the excess and I
live there. So the integrals use the gap x = (ω_winner − ω_runner-up)/width as a coordinate of its
own: by symmetry the label is class 1 and the runner-up class 2, a factor k(k − 1). Then nothing is
lost as v → 0.

Where the utilities are Gaussian (no noise, Gaussian noise, flips) v + Δ takes the place of v, and
the integrands at unit variance are tabulated once, since q enters only through the Gaussian weight
exp(−τ(x² + xy + y²)/3), τ = (v + Δ)/q. Any other channel goes through `race` at each q, unless it
has a table. k = 2: one integral; k = 3: x and the second gap y ≥ 0; k ≥ 4: `information_sampled`.

What labels teach with four classes and more: sample the losers, integrate the winner exactly.

Randomised quasi-Monte Carlo over the runner-up and the k − 2 others below it. In units of the
channel's width and measured from the runner-up the winner is at x. With Gaussian utilities
P(x) = ∫ φ(C − x) ∏_h Φ(C + δ_h) dC, δ_h ≥ 0 the losers' gaps: a convolution, so one table over C
serves every x by a matrix product. Any other channel goes through `race`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfcx, ndtr, ndtri_exp, xlogy

from polyceptron.model.channels import Channel
from polyceptron.model.channels.base import UtilityLaw
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant import argmax_orthant, hermite_rule
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.special import log_cdf_and_mills

_STEP = 0.3  # of C in widths: a Gumbel law is analytic for |Im C| < π/2, error exp(−π²/0.3)


def race(channel: Channel, v: float, gaps: AnyArray, x: AnyArray) -> tuple[AnyArray, AnyArray]:
    """P and ‖∇P‖²/P, each (n, m), at losers' gaps δ (n, k−2) and leads x (m,).

    The leads are neighbouring multiples of their spacing.
    """
    if gaps.shape[1] == 0:  # two classes: one gap, and no table
        P, slopes = channel.utility_gaps(x[None], v)
        P = np.maximum(P, 1e-300)
        return P[None], 2 * slopes**2 / P
    law = channel.utility_law(v)
    if law is None:
        return _asked(channel, v, gaps, x)
    spacing = float(x[1] - x[0])
    every = max(1, math.floor(_STEP * channel.width(v) / spacing * (1 + 1e-9)))
    # Where C is below `low` the runner-up's F is nothing; above x + high the winner is not there.
    first = math.ceil(law.low / (every * spacing))
    last = math.ceil((float(x.max()) + law.high) / (every * spacing))
    level = np.arange(first, last + 1) * every
    apart = level[:, None] - np.rint(x / spacing).astype(int)
    if every > 4:
        kernel = _density(law, spacing * apart)
    else:  # C − x repeats itself: its values are one row
        lowest = int(apart.min())
        row = np.arange(lowest, int(apart.max()) + 1, dtype=float)
        kernel = _density(law, spacing * row)[apart - lowest]
    kernel *= every * spacing
    C: AnyArray = spacing * level
    runner_log, runner_rate = law.values(C)
    others_log, others_rate = law.values(gaps[:, :, None] + C)
    product = np.exp(runner_log + others_log.sum(1))
    P = np.maximum(product @ kernel, 1e-300)
    runner = (product * runner_rate) @ kernel
    others = (product[:, None, :] * others_rate) @ kernel
    norm = runner**2 + (others**2).sum(1) + (runner + others.sum(1)) ** 2
    return P, norm / P


def _density(law: UtilityLaw, y: AnyArray) -> AnyArray:
    """F′(y), of any shape."""
    log_cdf, hazard = law.values(np.clip(y, law.low, law.high))
    return np.where((y >= law.low) & (y <= law.high), np.exp(log_cdf) * hazard, 0.0)


def _asked(channel: Channel, v: float, gaps: AnyArray, x: AnyArray) -> tuple[AnyArray, AnyArray]:
    n, k = len(gaps), gaps.shape[1] + 2
    omega = np.zeros((n, x.size, k))
    omega[..., 0] = x
    omega[..., 2:] = -gaps[:, None, :]
    label = np.zeros(n * x.size, dtype=np.int64)
    found = channel.utility(omega.reshape(-1, k), label, v, 20)
    P = np.exp(found.log_z)
    return P.reshape(n, -1), ((found.score**2).sum(-1) * P).reshape(n, -1)


_ORDER = 32  # nodes of the orthant integral where 12 digits are wanted
_INFORMATION_STEP = 0.1  # of x in the tables: the integrands are entire


class Moments(NamedTuple):
    """I and the excess of Ψ_out, each (points, replicates); one where the rule is exact."""

    information: AnyArray
    excess: AnyArray


def channel_moments(
    channel: Channel, q: Any, v: Any, n_classes: int, log2_points: int = 8
) -> Moments:
    """I and the excess at overlaps q (p,) and residual variances v (p,), v > 0 or a noisy label."""
    q, v = np.atleast_1d(np.asarray(q, float)), np.atleast_1d(np.asarray(v, float))
    delta = channel.utility_variance
    if delta is not None:
        return gaussian_moments(q, v + delta, n_classes, channel.guess(n_classes), log2_points)
    if n_classes > 3:
        return sampled_moments(q, v, n_classes, log2_points, channel=channel)
    tabled = channel.tabled_moments(q, v, n_classes)
    if tabled is not None:
        return Moments(*(column[:, None] for column in tabled))
    pairs = [
        raced_moments(channel, float(a), float(b), n_classes) for a, b in zip(q, v, strict=True)
    ]
    return Moments(*(np.array(column)[:, None] for column in zip(*pairs, strict=True)))


def gaussian_moments(
    q: AnyArray, v: AnyArray, k: int, guess: float, log2_points: int = 8
) -> Moments:
    """I and the excess of Gaussian utilities, v (p,) their whole variance around the fields."""
    if k > 3:
        return sampled_moments(q, v, k, log2_points, guess=guess)
    boundary = _boundary_2 if k == 2 else _boundary_3
    wide = v <= 10 * q  # the Gaussian weight is wider than the tabulated nodes' spacing
    information, excess = np.empty_like(q), np.empty_like(q)
    for i in range(q.size):
        rule = boundary if wide[i] else _hermite
        information[i], excess[i] = rule(float(q[i]), float(v[i]), k, guess)
    return Moments(information[:, None], excess[:, None])


def known_entropy(channel: Channel, n_classes: int) -> float:
    """Ψ₀: Σ_l Z_l ln Z_l when the utilities are known; 0 unless labels are also guessed."""
    a = channel.guess(n_classes)
    top = 1 - (n_classes - 1) * a
    return float(xlogy(top, top) + (n_classes - 1) * xlogy(a, a))


def integrands(P: AnyArray, norm: AnyArray, k: int, guess: float) -> tuple[AnyArray, AnyArray]:
    """‖∇Z‖²/Z and the excess of one label, from P and norm = ‖∇P‖²/P."""
    if guess == 0:
        return norm, np.asarray(xlogy(P, P), dtype=float)
    scale, top = 1 - k * guess, 1 - (k - 1) * guess
    Z = guess + scale * P
    known = P * (top * math.log(top)) + (1 - P) * (guess * math.log(guess))
    return scale**2 * norm * P / Z, xlogy(Z, Z) - known


def _orthant(omega: AnyArray) -> tuple[AnyArray, AnyArray]:
    """P and ‖∇P‖²/P for class 0 winning at unit variance, ω (..., k)."""
    o = argmax_orthant(omega, np.zeros(omega.shape[:-1], dtype=np.int64), 1.0, order=_ORDER)
    P = np.exp(o.log_z)
    return P, (o.score**2).sum(-1) * P


def _hermite(q: float, v: float, k: int, guess: float) -> tuple[float, float]:
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
    squared, excess = integrands(*_orthant(omega), k, guess)
    return k * float((weight * squared).sum()) / (k - 1) / v, k * float((weight * excess).sum())


@lru_cache(maxsize=1)
def _line() -> tuple[AnyArray, AnyArray, AnyArray]:
    """Gaps x of two classes, P and ‖∇P‖²/P there."""
    x = np.arange(-135, 106) * _INFORMATION_STEP
    return x, *_orthant(np.stack([x, np.zeros_like(x)], -1))


@lru_cache(maxsize=8)
def _line_integrands(k: int, guess: float) -> tuple[AnyArray, AnyArray]:
    return integrands(*_line()[1:], k, guess)


def _boundary_2(q: float, v: float, k: int, guess: float) -> tuple[float, float]:
    x = _line()[0]
    squared, excess = _line_integrands(2, guess)
    weight = _INFORMATION_STEP * np.exp(-v * x**2 / (4 * q)) * math.sqrt(v / (4 * math.pi * q))
    return 2 * float(weight @ squared) / v, 2 * float(weight @ excess)


@lru_cache(maxsize=1)
def _half_plane() -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Second gaps y and their weights, P and ‖∇P‖²/P at every (x, y)."""
    x, y_max = _line()[0], 26.0
    nodes, weights = np.polynomial.legendre.leggauss(128)
    y, weight_y = 0.5 * y_max * (nodes + 1), 0.5 * y_max * weights
    X, Y = np.meshgrid(x, y, indexing="ij")
    return y, weight_y, *_orthant(np.stack([X, np.zeros_like(X), -Y], -1))


@lru_cache(maxsize=4)
def _half_plane_integrands(guess: float) -> tuple[AnyArray, AnyArray]:
    """The integrands less their limit y → ∞, where the third class is out of the race."""
    squared, excess = integrands(*_half_plane()[2:], 3, guess)
    squared_2, excess_2 = _line_integrands(3, guess)
    return squared - squared_2[:, None], excess - excess_2[:, None]


def _boundary_3(q: float, v: float, k: int, guess: float) -> tuple[float, float]:
    x, (y, weight_y) = _line()[0], _half_plane()[:2]
    squared, excess = _half_plane_integrands(guess)
    squared_2, excess_2 = _line_integrands(3, guess)
    t = v / (3 * q)
    kernel = np.exp(-t * (x[:, None] ** 2 + x[:, None] * y + y**2)) * weight_y
    # ∫_0^∞ exp(−t(x² + xy + y²)) dy in closed form, for the part that does not decay in y.
    half = 0.5 * math.sqrt(math.pi / t) * np.exp(-t * x**2) * erfcx(0.5 * math.sqrt(t) * x)
    scale = 6 * _INFORMATION_STEP * v / (2 * math.pi * math.sqrt(3) * q)
    information = float((kernel * squared).sum() + half @ squared_2)
    return scale * information / (2 * v), scale * float((kernel * excess).sum() + half @ excess_2)


def raced_moments(channel: Channel, q: float, v: float, k: int) -> tuple[float, float]:
    """Any channel at k = 2, 3: nodes along the gaps, as wide as the channel says.

    The gap has variance 2q; 40 widths are enough for tails that fall as slowly as exp(−x/width).
    """
    width, reach = channel.width(v), 9 * math.sqrt(2 * q)
    step = min(0.3 * width, 0.25 * math.sqrt(2 * q))
    last = math.ceil(min(reach, 40 * width) / step)
    x = np.arange(-last, last + 1) * step
    if k == 2:
        gaps = np.zeros((1, 0))
        weight = step * np.exp(-(x**2) / (4 * q)) / math.sqrt(4 * math.pi * q)
    else:
        near = min(reach, 40 * width)
        ends = [0.0, 0.15 * near, near, reach] if near < reach else [0.0, reach]
        y, weight_y = panel_rule(np.array(ends), 48)
        gaps = y[:, None]
        form = (x**2 + x * gaps + gaps**2) / (3 * q)
        density = np.exp(-form) / (math.pi * math.sqrt(3) * q)
        weight = step * weight_y[:, None] * density
    squared, excess = integrands(*race(channel, v, gaps, x), k, channel.guess(k))
    return k * float((weight * squared).sum()) / (k - 1), k * float((weight * excess).sum())


_CHUNK = 1_000_000


def sampled_moments(
    q: AnyArray,
    v: AnyArray,
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
) -> tuple[AnyArray, AnyArray]:
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


def _convolved(gaps: AnyArray, x: AnyArray, k: int, guess: float) -> tuple[AnyArray, AnyArray]:
    """The integrands (n, x) at losers' gaps (n, k−2), Gaussian utilities of unit variance.

    ∏Φ − Φ decays on both sides and ∫ φ(C − x)Φ(C) dC = Φ(x/√2).
    """
    C: AnyArray = np.arange(-15, 19) * 0.5
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
