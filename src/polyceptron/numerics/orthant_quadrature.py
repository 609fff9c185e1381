"""The argmax channel for any k by one Gauss–Hermite integral per sample.

    Z_l(ω, v) = ∫Dt ∏_{h≠l} Φ(x_h),    x_h = (√v_l t + ω_l − ω_h)/√v_h

The integrand is log-concave in t. It is narrow to the left of its mode t₀, where the Φ fall, and
wide to the right: the substitution t = t₀ + w(e^{2au} − 1)/2a with w from the second derivative of
its logarithm and a from the third makes it Gaussian in u to third order, and the rule converges
geometrically, in the bulk and arbitrarily deep in the tail. Everything is done on ln Z; the score
and the Hessian are averages under the same weights:

    ∂_h ln Z = −⟨A_h⟩,  ∂_l ln Z = ⟨Σ_h A_h⟩,   A_h = r(x_h)/√v_h,   r = φ/Φ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import roots_hermite

from polyceptron.numerics import Array
from polyceptron.numerics.special import log_cdf_and_mills, mills_ratio, mills_slope
from polyceptron.numerics.threads import scratch

Labels = NDArray[np.int64]
_MAX_NEWTON = 20
_MAX_SKEW = 0.085  # the substitution begins at t₀ − w/2a: six widths left of the mode, or more


class Quadrature(NamedTuple):
    """ln Z (n,), weights p (n, t), A and −∂A/∂δ (n, t, k−1), ⟨A⟩ (n, 1, k−1), others (n, k−1)."""

    log_z: Array
    p: Array
    A: Array
    slope: Array
    mean: Array
    competitors: Labels


@lru_cache(maxsize=16)
def hermite_rule(order: int) -> tuple[Array, Array]:
    """Nodes and log-weights with Σ exp(logw) f(x) ≈ ∫ f(x) exp(−x²/2) dx/√(2π)."""
    nodes, weights = roots_hermite(order)
    return nodes * math.sqrt(2), np.log(weights) - 0.5 * math.log(math.pi)


def integrate(omega: Array, label: Labels, s: Array | None, order: int) -> Quadrature:
    """The nodes' contributions at ω (n, k) and standard deviations s (n, k), None for 1.

    The (n, t, k−1) arrays of the result are scratch: the next call on this thread takes them back.
    """
    competitors = np.arange(omega.shape[-1] - 1)
    competitors = competitors + (competitors >= label[:, None])
    winner = label[:, None]
    a = np.take_along_axis(omega, winner, -1) - np.take_along_axis(omega, competitors, -1)
    ratio = inverse = None
    if s is not None:
        s_h = np.take_along_axis(s, competitors, -1)
        a /= s_h
        ratio, inverse = np.take_along_axis(s, winner, -1) / s_h, 1 / s_h[:, None, :]
    T, log_weight, scale = _nodes(a, ratio, order)
    shape = (*T.shape, a.shape[-1])
    x = scratch("x", shape)
    if ratio is None:
        np.add(a[:, None, :], T[:, :, None], out=x)
    else:
        np.multiply(T[:, :, None], ratio[:, None, :], out=x)
        x += a[:, None, :]
    log_cdf, r = log_cdf_and_mills(x, (scratch("cdf", shape), scratch("mills", shape)))
    log_f = log_cdf.sum(-1)
    log_f += log_weight - 0.5 * T**2
    peak = log_f.max(-1, keepdims=True)
    p = np.exp(log_f - peak)
    total = p.sum(-1, keepdims=True)
    p /= total
    slope = mills_slope(x, r, scratch("slope", shape))
    if inverse is not None:
        slope *= inverse**2
        r *= inverse
    log_z = np.minimum((peak + np.log(total))[:, 0] + scale, 0.0)
    return Quadrature(log_z, p, r, slope, _average(p, r), competitors)


def _nodes(a: Array, ratio: Array | None, order: int) -> tuple[Array, Array, Array]:
    """Nodes T (n, t), log-weights but for φ(T) (n, t), and a log-factor common to them (n,)."""
    c = np.ones_like(a) if ratio is None else ratio
    c2 = c * c
    # Newton for the mode of −t²/2 + Σ ln Φ(a + ct); near enough is good enough.
    t = np.maximum(0.0, (-a * c / (1 + c2)).max(-1, initial=0.0))
    width = skew = t
    for _ in range(_MAX_NEWTON):
        x = a + c * t[:, None]
        r = mills_ratio(x)
        m = mills_slope(x, r)
        stiffness = 1 + (c2 * m).sum(-1)
        width = 1 / np.sqrt(stiffness)
        step = ((c * r).sum(-1) - t) / stiffness
        t = t + step
        if (np.abs(step) < 0.5 * width).all():
            third = (c2 * c * (m * (x + r) - r * (1 - m))).sum(-1)
            skew = third * width**3 / 6
            break
    skew = np.clip(skew, 1e-6, _MAX_SKEW)[:, None]
    u, log_weight = hermite_rule(order)
    stretch = 2 * skew * (u + 2 * skew)  # the Jacobian moves the mode in u by 2a
    T = t[:, None] + (width[:, None] / (2 * skew)) * np.expm1(stretch)
    return T, stretch + (0.5 * u**2 + log_weight), np.log(width)


def _average(p: Array, values: Array) -> Array:
    """⟨values⟩ under the weights: (n, t), (n, t, h) to (n, 1, h)."""
    return np.matmul(p[:, None, :], values)


def score(parts: Quadrature, label: Labels) -> Array:
    """∇_ω ln Z (n, k)."""
    mean = parts.mean[:, 0]
    out = np.empty((len(label), mean.shape[-1] + 1))
    np.put_along_axis(out, parts.competitors, -mean, -1)
    np.put_along_axis(out, label[:, None], mean.sum(-1, keepdims=True), -1)
    return out


def curvature_terms(parts: Quadrature) -> tuple[Array, Array]:
    """Diagonal of −∂²_ω ln Z: the competitors' (n, k−1) and the winner's (n,).

    Each is a mean slope minus a variance under p; variances are of centred numbers, which keeps
    them accurate when A is large.
    """
    centred = np.subtract(parts.A, parts.mean, out=scratch("x", parts.A.shape))
    slope = _average(parts.p, parts.slope)[:, 0]
    total = centred.sum(-1)
    winner = slope.sum(-1) - (parts.p * total * total).sum(-1)
    np.square(centred, out=centred)
    competitors = slope - _average(parts.p, centred)[:, 0]
    # ln Z is log-concave: what is below zero is rounding.
    return np.maximum(competitors, 0.0, out=competitors), np.maximum(winner, 0.0, out=winner)


def hessian(parts: Quadrature, label: Labels) -> Array:
    """∂²_ω ln Z (n, k, k); rows and columns sum to zero."""
    n, k = len(label), parts.A.shape[-1] + 1
    rows, competitors = np.arange(n), parts.competitors
    centred = parts.A - parts.mean
    inner = np.matmul((centred * parts.p[..., None]).swapaxes(1, 2), centred)
    index = np.arange(k - 1)
    inner[:, index, index] -= _average(parts.p, parts.slope)[:, 0]
    out = np.zeros((n, k, k))
    out[rows[:, None, None], competitors[:, :, None], competitors[:, None, :]] = inner
    border = -inner.sum(-1)
    out[rows[:, None], competitors, label[:, None]] = border
    out[rows[:, None], label[:, None], competitors] = border
    out[rows, label, label] = -border.sum(-1)
    return out
