"""The argmax channel for any k by one Gauss–Hermite integral per sample.

    Z_l(ω, v) = ∫Dt ∏_{h≠l} Φ(x_h),    x_h = (√v_l t + ω_l − ω_h)/√v_h

The integrand is log-concave in t, so nodes centred at its mode and scaled by its curvature converge
geometrically, in the bulk and arbitrarily deep in the tail; everything is done on ln Z, and the
score and Hessian are averages under the same weights:

    ∂_h ln Z = −⟨A_h⟩,  ∂_l ln Z = ⟨Σ_h A_h⟩,   A_h = r(x_h)/√v_h,   r = φ/Φ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_hermite

from polyceptron.numerics.mills import log_cdf_and_mills, mills_ratio, mills_slope

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
_MAX_NEWTON = 20


class Quadrature(NamedTuple):
    """ln Z (n,), weights p (n, t), A and −∂A/∂δ (n, t, k−1), and the losing classes (n, k−1)."""

    log_z: Array
    p: Array
    A: Array
    slope: Array
    losers: Labels


@lru_cache(maxsize=16)
def hermite_rule(order: int) -> tuple[Array, Array]:
    """Nodes and log-weights with Σ exp(logw) f(x) ≈ ∫ f(x) exp(−x²/2) dx/√(2π)."""
    nodes, weights = roots_hermite(order)
    return nodes * math.sqrt(2), np.log(weights) - 0.5 * math.log(math.pi)


def integrate(omega: Array, label: Labels, s: Array, order: int) -> Quadrature:
    """The nodes' contributions at ω (n, k) and standard deviations s (n, k)."""
    k = omega.shape[-1]
    losers = np.arange(k - 1)
    losers = losers + (losers >= label[:, None])
    winner = label[:, None]
    s_h = np.take_along_axis(s, losers, -1)
    a = (np.take_along_axis(omega, winner, -1) - np.take_along_axis(omega, losers, -1)) / s_h
    ratio = np.take_along_axis(s, winner, -1) / s_h
    t, width = _mode(a, ratio)
    nodes, log_weights = hermite_rule(order)
    T = t[:, None] + width[:, None] * nodes
    x = a[:, None, :] + ratio[:, None, :] * T[..., None]
    log_cdf, r = log_cdf_and_mills(x)
    log_f = log_cdf.sum(-1) - 0.5 * T**2 + (0.5 * nodes**2 + log_weights)
    peak = log_f.max(-1, keepdims=True)
    f = np.exp(log_f - peak)
    total = f.sum(-1, keepdims=True)
    log_z = (peak + np.log(total))[:, 0] + np.log(width)
    inverse = 1 / s_h[:, None, :]
    slope = mills_slope(x, r)
    slope *= inverse**2
    r *= inverse
    return Quadrature(log_z, f / total, r, slope, losers)


def _mode(a: Array, ratio: Array) -> tuple[Array, Array]:
    """The mode in t of −t²/2 + Σ ln Φ(a + ratio·t) and its width; near enough is good enough."""
    t = np.maximum(0.0, (-a * ratio / (1 + ratio**2)).max(-1, initial=0.0))
    width = np.ones_like(t)
    for _ in range(_MAX_NEWTON):
        x = a + ratio * t[:, None]
        r = mills_ratio(x)
        stiffness = 1 + (ratio**2 * mills_slope(x, r)).sum(-1)
        width = 1 / np.sqrt(stiffness)
        step = ((ratio * r).sum(-1) - t) / stiffness
        t = t + step
        if (np.abs(step) < 0.25 * width).all():
            break
    return t, width


def score(parts: Quadrature, label: Labels) -> Array:
    """∇_ω ln Z (n, k)."""
    mean = np.matmul(parts.p[:, None, :], parts.A)[:, 0]
    out = np.empty((len(label), mean.shape[-1] + 1))
    np.put_along_axis(out, parts.losers, -mean, -1)
    np.put_along_axis(out, label[:, None], mean.sum(-1, keepdims=True), -1)
    return out


def curvature_terms(parts: Quadrature) -> tuple[Array, Array]:
    """Diagonal of −∂²_ω ln Z: the losers' (n, k−1) and the winner's (n,).

    Each is a mean slope minus a variance under p; variances are of centred numbers, which keeps
    them accurate when A is large.
    """
    mean = np.matmul(parts.p[:, None, :], parts.A)
    centred = parts.A - mean
    slope = np.matmul(parts.p[:, None, :], parts.slope)[:, 0]
    total = centred.sum(-1)
    winner = slope.sum(-1) - (parts.p * total * total).sum(-1)
    np.square(centred, out=centred)
    losers = slope - np.matmul(parts.p[:, None, :], centred)[:, 0]
    # ln Z is log-concave: what is below zero is rounding.
    return np.maximum(losers, 0.0, out=losers), np.maximum(winner, 0.0, out=winner)


def hessian(parts: Quadrature, label: Labels) -> Array:
    """∂²_ω ln Z (n, k, k); rows and columns sum to zero."""
    n, k = len(label), parts.A.shape[-1] + 1
    rows, losers = np.arange(n), parts.losers
    centred = parts.A - np.matmul(parts.p[:, None, :], parts.A)
    inner = np.matmul((centred * parts.p[..., None]).swapaxes(1, 2), centred)
    index = np.arange(k - 1)
    inner[:, index, index] -= np.matmul(parts.p[:, None, :], parts.slope)[:, 0]
    out = np.zeros((n, k, k))
    out[rows[:, None, None], losers[:, :, None], losers[:, None, :]] = inner
    border = -inner.sum(-1)
    out[rows[:, None], losers, label[:, None]] = border
    out[rows[:, None], label[:, None], losers] = border
    out[rows, label, label] = -border.sum(-1)
    return out
