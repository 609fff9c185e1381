"""The bivariate normal orthant and its derivatives, to full relative accuracy in every tail.

    Z(a, b; ρ) = P(x ≤ a, y ≤ b),   x, y standard normal with correlation ρ,  σ = √(1 − ρ²)
    ∂_a Z = φ(a) Φ(c₁),  ∂_b Z = φ(b) Φ(c₂),  ∂_a∂_b Z = φ₂(a, b; ρ),
    c₁ = (b − ρa)/σ,     c₂ = (a − ρb)/σ,     R² = a² + c₁² = b² + c₂²    (distance to the corner)

Near the centre Owen's T function gives Z. In the tail (take a ≤ b, a < 0) its terms cancel, and Z
is integrated along the ray from the origin instead, where Z(λa, λb) falls to zero:

    Z = ∫₁^∞ [−a φ(λa) Φ(λc₁) − b φ(λb) Φ(λc₂)] dλ.

With s = R²(λ² − 1)/2 each term is e^{−R²/2} times a Gauss–Laguerre integral of a smooth erfcx; the
factor e^{−R²/2} is kept apart, so nothing underflows.

The argmax channel in closed form for k = 2 and 3, fields independent.

Fields z_h ~ N(ω_h, v_h); class l wins with probability P(z_l − z_h > 0 for all h ≠ l). With

    δ_h = ω_l − ω_h,    s_h² = v_l + v_h,    ρ = corr(z_l − z_h, z_l − z_j)

this is Φ(δ/s) for k = 2 and a bivariate orthant for k = 3. Derivatives in ω follow by the chain
rule: those of the competitors are −∂_δ, the winner's is their sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr, owens_t, roots_laguerre

from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope

_SQRT2 = math.sqrt(2)
_SQRT_2PI = math.sqrt(2 * math.pi)
_TAIL_CORNER = 9.0  # R² from which 20 Laguerre nodes give 14 digits
_LAGUERRE = roots_laguerre(20)
_TAIL_EDGE = -1.5  # above it Owen's form loses less than two digits
_FAR = -1e5  # below it the curvatures are those of the limit, to 1e-5
_TINY = 1e-100


class Bivariate(NamedTuple):
    """ln Z, ∂_a ln Z, ∂_b ln Z and φ₂/Z = ∂_a∂_b Z / Z, all of the shape of the input."""

    log_z: Array
    slope_a: Array
    slope_b: Array
    density: Array

    def curvatures(self, a: Array, b: Array, rho: float | Array) -> tuple[Array, Array, Array]:
        """−∂²_a, −∂²_b and −∂_a∂_b of ln Z, with rounding errors of relative size ε·min(a, b)²."""
        aa = (self.slope_a + a) * self.slope_a + rho * self.density
        bb = (self.slope_b + b) * self.slope_b + rho * self.density
        ab = self.slope_a * self.slope_b - self.density
        far = np.minimum(a, b) < _FAR
        if far.any():
            for exact, limit in zip((aa, bb, ab), _pinned(a, b, rho), strict=True):
                np.copyto(exact, limit, where=far)
        # ln Z is log-concave and its curvature is at most that of the Gaussian.
        top = 1 / (1 - np.square(rho))
        return np.clip(aa, 0.0, top), np.clip(bb, 0.0, top), ab


def bivariate_orthant(a: Array, b: Array, rho: float | Array) -> Bivariate:
    """ln Z(a, b; ρ) and its derivatives; a, b (n,), ρ a number or (n,) in (−1, 1).

    >>> z = bivariate_orthant(np.zeros(1), np.zeros(1), 0.5)
    >>> bool(abs(np.exp(z.log_z[0]) - 1 / 3) < 1e-15)
    True
    """
    sigma = np.sqrt(1 - np.square(rho))
    c1, c2 = (b - rho * a) / sigma, (a - rho * b) / sigma
    low = np.minimum(a, b)
    tail = (low < _TAIL_EDGE) & (a * a + c1 * c1 > _TAIL_CORNER)
    if not tail.any():
        return _central(a, b, c1, c2, rho)
    if tail.all():
        return _tail(a, b, c1, c2, rho)
    parts = []
    for where, form in ((~tail, _central), (tail, _tail)):
        correlation = rho if np.ndim(rho) == 0 else np.asarray(rho)[where]
        parts.append(form(a[where], b[where], c1[where], c2[where], correlation))
    out = np.empty((4, *a.shape))
    for row, centre, far in zip(out, parts[0], parts[1], strict=True):
        row[~tail], row[tail] = centre, far
    return Bivariate(*out)


def corner_cdf(a: Array, b: Array, c1: NDArray[Any], c2: NDArray[Any]) -> Array:
    """Z to absolute accuracy 1e-15, from a, b and the corner's coordinates c₁, c₂ (same shapes).

    Owen: Z = ½Φ(a) + ½Φ(b) − T(a, c₁/a) − T(b, c₂/b) − ½[ab < 0]. The caller gives c₁ and c₂, which
    it may know without the cancellation of b − ρa as ρ → 1; a = b = 0 is 0/0.
    """
    h, g = np.where(a == 0, _TINY, a), np.where(b == 0, _TINY, b)
    with np.errstate(over="ignore"):
        t = owens_t(h, c1 / h) + owens_t(g, c2 / g)
    return np.asarray(0.5 * (ndtr(a) + ndtr(b)) - t - 0.5 * ((h < 0) != (g < 0)))


def _central(a: Array, b: Array, c1: Array, c2: Array, rho: float | Array) -> Bivariate:
    """Owen's form, with the angle of the wedge where the corner is at the centre."""
    z = corner_cdf(a, b, c1, c2)
    centre = (a == 0) & (b == 0)
    if centre.any():
        z = np.where(centre, 0.25 + np.arcsin(rho) / (2 * math.pi), z)
    sigma = np.sqrt(1 - np.square(rho))
    pa, pb = np.exp(-0.5 * a * a), np.exp(-0.5 * b * b)
    scale = 1 / (_SQRT_2PI * z)
    corner = np.exp(-0.5 * (a * a + c1 * c1)) / (2 * math.pi * sigma * z)
    return Bivariate(np.log(z), pa * ndtr(c1) * scale, pb * ndtr(c2) * scale, corner)


def _tail(a: Array, b: Array, c1: Array, c2: Array, rho: float | Array) -> Bivariate:
    """The ray integral, with min(a, b) < 0; the smaller of a and b plays the part of a."""
    swap = b < a
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    c1, c2 = np.where(swap, c2, c1), np.where(swap, c1, c2)
    corner = a * a + c1 * c1
    nodes, weights = _LAGUERRE
    ray = np.sqrt(1 + 2 * nodes / corner[:, None])
    w = weights / ray
    e1 = (erfcx(np.abs(c1)[:, None] * ray / _SQRT2) * w).sum(-1) * (0.5 * a / corner)
    e2 = (erfcx(np.abs(c2)[:, None] * ray / _SQRT2) * w).sum(-1) * (0.5 * b / corner)
    # Everything below is multiplied by √2π e^{−S}, S = −a²/2 if the edge is in sight, else −R²/2.
    open1, open2 = c1 > 0, c2 > 0
    fade = np.exp(np.where(open1, -0.5 * c1 * c1, 0.0))
    edge1 = np.where(open1, 0.5 * _SQRT_2PI * erfcx(-a / _SQRT2), 0.0)
    z = edge1 + fade * np.where(open1, e1, -e1) - fade * np.where(open2, -e2, e2)
    slope_a = np.where(open1, ndtr(c1), 0.5 * erfcx(np.abs(c1) / _SQRT2))
    slope_b = fade * 0.5 * erfcx(np.abs(c2) / _SQRT2)
    if open2.any():  # only for ρ < 0: then b > 0, and φ(b)Φ(c₂) is not small against the corner
        gap = np.where(open2, 0.5 * (a - b) * (a + b), 0.0)
        z = z - np.where(open2, 0.5 * _SQRT_2PI * erfcx(np.abs(b) / _SQRT2) * np.exp(gap), 0.0)
        slope_b = np.where(open2, np.exp(gap) * ndtr(c2), slope_b)
    log_z = np.log(z) - 0.5 * np.where(open1, a * a, corner) - math.log(_SQRT_2PI)
    density = fade / (_SQRT_2PI * np.sqrt(1 - np.square(rho)) * z)
    slope_a, slope_b = slope_a / z, slope_b / z
    return Bivariate(
        log_z, np.where(swap, slope_b, slope_a), np.where(swap, slope_a, slope_b), density
    )


def _pinned(a: Array, b: Array, rho: float | Array) -> tuple[Array, Array, Array]:
    """Curvatures when min(a, b) → −∞: one field sits on its edge, the other is a 1-D problem."""
    swap = b < a
    low, high = np.where(swap, b, a), np.where(swap, a, b)
    sigma2 = 1 - np.square(rho)
    x = (high - rho * low) / np.sqrt(sigma2)
    m = mills_slope(x, mills_ratio(x)) / sigma2
    edge, other = 1 + np.square(rho) * m, m
    return np.where(swap, other, edge), np.where(swap, edge, other), -rho * m


_OTHERS = {2: np.array([[1], [0]]), 3: np.array([[1, 2], [0, 2], [0, 1]])}


def closed_argmax(
    omega: Array, label: NDArray[np.int64], variance: Array
) -> tuple[Array, Array, Array]:
    """ln Z (n,), ∇ ln Z (n, k) and the diagonal (n, k) of −∂² ln Z, at ω (n, k) with k = 2 or 3.

    `variance` is (), (n,), or one for each class (n, k).
    """
    n, k = omega.shape
    own = np.arange(0, n * k, k) + label  # places in arrays (n, k) laid out flat
    others = own + (_OTHERS[k] - np.arange(k)[:, None]).T.take(label, axis=1)
    if variance.ndim == 2:
        v = variance.take(own)
        s = np.sqrt(v + variance.take(others))
        rho: float | Array = v / (s[0] * s[-1])
    else:
        s, rho = np.sqrt(2 * variance) + np.zeros((k - 1, 1)), 0.5
    x = (omega.take(own) - omega.take(others)) / s
    if k == 2:
        r = mills_ratio(x)
        log_z, slopes, bends, cross = log_ndtr(x[0]), r / s, mills_slope(x, r) / s**2, 0.0
    else:
        z = bivariate_orthant(x[0], x[1], rho)
        aa, bb, ab = z.curvatures(x[0], x[1], rho)
        log_z, cross = z.log_z, ab / (s[0] * s[1])
        slopes, bends = np.stack([z.slope_a, z.slope_b]) / s, np.stack([aa, bb]) / s**2
    score, diagonal = np.empty(n * k), np.empty(n * k)
    score[others], score[own] = -slopes, slopes.sum(0)
    diagonal[others], diagonal[own] = bends, bends.sum(0) + 2 * cross
    return log_z, score.reshape(n, k), diagonal.reshape(n, k)
