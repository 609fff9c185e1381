"""What labels teach: the channel's information and entropy at overlap q, for any channel and k.

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
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, xlogy

from polyceptron.model.channels import Channel
from polyceptron.numerics.orthant import argmax_orthant, hermite_rule
from polyceptron.numerics.panels import panel_rule
from polyceptron.theory.fields.race import race

Array = NDArray[Any]
_ORDER = 32  # nodes of the orthant integral where 12 digits are wanted
_STEP = 0.1  # of x in the tables: the integrands are entire


class Moments(NamedTuple):
    """I and the excess of Ψ_out, each (points, replicates); one where the rule is exact."""

    information: Array
    excess: Array


def channel_moments(
    channel: Channel, q: Any, v: Any, n_classes: int, log2_points: int = 8
) -> Moments:
    """I and the excess at overlaps q (p,) and residual variances v (p,), v > 0 or a noisy label."""
    q, v = np.atleast_1d(np.asarray(q, float)), np.atleast_1d(np.asarray(v, float))
    delta = channel.utility_variance
    if delta is not None:
        return gaussian_moments(q, v + delta, n_classes, channel.guess(n_classes), log2_points)
    if n_classes > 3:
        from polyceptron.theory.fields.information_sampled import sampled_moments

        return sampled_moments(q, v, n_classes, log2_points, channel=channel)
    tabled = channel.tabled_moments(q, v, n_classes)
    if tabled is not None:
        return Moments(*(column[:, None] for column in tabled))
    pairs = [
        raced_moments(channel, float(a), float(b), n_classes) for a, b in zip(q, v, strict=True)
    ]
    return Moments(*(np.array(column)[:, None] for column in zip(*pairs, strict=True)))


def gaussian_moments(q: Array, v: Array, k: int, guess: float, log2_points: int = 8) -> Moments:
    """I and the excess of Gaussian utilities, v (p,) their whole variance around the fields."""
    if k > 3:
        from polyceptron.theory.fields.information_sampled import sampled_moments

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


def integrands(P: Array, norm: Array, k: int, guess: float) -> tuple[Array, Array]:
    """‖∇Z‖²/Z and the excess of one label, from P and norm = ‖∇P‖²/P."""
    if guess == 0:
        return norm, np.asarray(xlogy(P, P), dtype=float)
    scale, top = 1 - k * guess, 1 - (k - 1) * guess
    Z = guess + scale * P
    known = P * (top * math.log(top)) + (1 - P) * (guess * math.log(guess))
    return scale**2 * norm * P / Z, xlogy(Z, Z) - known


def _orthant(omega: Array) -> tuple[Array, Array]:
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
def _line() -> tuple[Array, Array, Array]:
    """Gaps x of two classes, P and ‖∇P‖²/P there."""
    x = np.arange(-135, 106) * _STEP
    return x, *_orthant(np.stack([x, np.zeros_like(x)], -1))


@lru_cache(maxsize=8)
def _line_integrands(k: int, guess: float) -> tuple[Array, Array]:
    return integrands(*_line()[1:], k, guess)


def _boundary_2(q: float, v: float, k: int, guess: float) -> tuple[float, float]:
    x = _line()[0]
    squared, excess = _line_integrands(2, guess)
    weight = _STEP * np.exp(-v * x**2 / (4 * q)) * math.sqrt(v / (4 * math.pi * q))
    return 2 * float(weight @ squared) / v, 2 * float(weight @ excess)


@lru_cache(maxsize=1)
def _half_plane() -> tuple[Array, Array, Array, Array]:
    """Second gaps y and their weights, P and ‖∇P‖²/P at every (x, y)."""
    x, y_max = _line()[0], 26.0
    nodes, weights = np.polynomial.legendre.leggauss(128)
    y, weight_y = 0.5 * y_max * (nodes + 1), 0.5 * y_max * weights
    X, Y = np.meshgrid(x, y, indexing="ij")
    return y, weight_y, *_orthant(np.stack([X, np.zeros_like(X), -Y], -1))


@lru_cache(maxsize=4)
def _half_plane_integrands(guess: float) -> tuple[Array, Array]:
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
    scale = 6 * _STEP * v / (2 * math.pi * math.sqrt(3) * q)
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
