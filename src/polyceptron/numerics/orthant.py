"""The argmax channel seen through a Gaussian: orthant probabilities, scores and curvatures.

With fields z ~ N(ω, diag v), class l wins with probability Z_l(ω, v), an orthant probability in
k − 1 dimensions. k = 2 and 3 have closed forms (relative errors of 1e-13); any
other k is one Gauss–Hermite integral per sample,

    Z_l(ω, v) = ∫Dt ∏_{h≠l} Φ(x_h),    x_h = (√v_l t + ω_l − ω_h)/√v_h

whose integrand is log-concave in t. It is narrow to the left of its mode t₀, where the Φ fall, and
wide to the right: the substitution t = t₀ + w(e^{2au} − 1)/2a with w from the second derivative of
its logarithm and a from the third makes it Gaussian in u to third order, and the rule converges
geometrically, in the bulk and arbitrarily deep in the tail. Everything is done on ln Z, so scores
and curvatures stay finite however improbable the label; they are averages under the same weights:

    ∂_h ln Z = −⟨A_h⟩,  ∂_l ln Z = ⟨Σ_h A_h⟩,   A_h = r(x_h)/√v_h,   r = φ/Φ.

Averages over Gaussian fields never magnify a small Z: `winning_chance` is quicker, and accurate
absolutely.

The closed forms. With δ_h = ω_l − ω_h, s_h² = v_l + v_h and ρ = corr(z_l − z_h, z_l − z_j) they are
Φ(δ/s) for k = 2 and for k = 3 the bivariate orthant

    Z(a, b; ρ) = P(x ≤ a, y ≤ b),   x, y standard normal with correlation ρ,  σ = √(1 − ρ²)
    ∂_a Z = φ(a) Φ(c₁),  ∂_b Z = φ(b) Φ(c₂),  ∂_a∂_b Z = φ₂(a, b; ρ),
    c₁ = (b − ρa)/σ,     c₂ = (a − ρb)/σ,     R² = a² + c₁² = b² + c₂²    (distance to the corner)

Near the centre Owen's T function gives Z. In the tail (take a ≤ b, a < 0) its terms cancel, and Z
is integrated along the ray from the origin instead, where Z(λa, λb) falls to zero:

    Z = ∫₁^∞ [−a φ(λa) Φ(λc₁) − b φ(λb) Φ(λc₂)] dλ.

With s = R²(λ² − 1)/2 each term is e^{−R²/2} times a Gauss–Laguerre integral of a smooth erfcx; the
factor e^{−R²/2} is kept apart, so nothing underflows.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr, owens_t, roots_hermite, roots_laguerre

from polyceptron.numerics import Array, for_chunks
from polyceptron.numerics.panels import legendre_rule
from polyceptron.numerics.special import log_cdf_and_mills, mills_ratio, mills_slope, normalised

_SQRT2, _SQRT3, _SQRT_2PI = math.sqrt(2), math.sqrt(3), math.sqrt(2 * math.pi)
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
        if (far := np.minimum(a, b) < _FAR).any():
            for exact, limit in zip((aa, bb, ab), _pinned(a, b, rho), strict=True):
                np.copyto(exact, limit, where=far)
        # ln Z is log-concave and its curvature is at most that of the Gaussian.
        top = 1 / (1 - np.square(rho))
        return np.clip(aa, 0.0, top), np.clip(bb, 0.0, top), ab


def bivariate_orthant(a: Array, b: Array, rho: float | Array) -> Bivariate:
    """ln Z(a, b; ρ) and its derivatives; a, b (n,), ρ a number or (n,) in (−1, 1)."""
    sigma = np.sqrt(1 - np.square(rho))
    c1, c2 = (b - rho * a) / sigma, (a - rho * b) / sigma
    tail = (np.minimum(a, b) < _TAIL_EDGE) & (a * a + c1 * c1 > _TAIL_CORNER)
    if not tail.any():
        return _central(a, b, c1, c2, rho)
    if tail.all():
        return _tail(a, b, c1, c2, rho)
    out = np.empty((4, *a.shape))
    for where, form in ((~tail, _central), (tail, _tail)):
        correlation = rho if np.ndim(rho) == 0 else np.asarray(rho)[where]
        out[:, where] = form(a[where], b[where], c1[where], c2[where], correlation)
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
    z = np.maximum(corner_cdf(a, b, c1, c2), 1e-300)  # opposite edges leave nothing but rounding
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


Labels = NDArray[np.int64]
_CHUNK_NUMBERS = 110_000  # numbers in each large array of a chunk: a megabyte
_CHUNK_ROWS = 16_384  # for the closed forms, which keep a dozen arrays of this length
_MAX_NEWTON = 20
_MAX_SKEW = 0.085  # the substitution begins at t₀ − w/2a: six widths left of the mode, or more
_SINE = np.sin(legendre_rule(8)[0] * (math.pi / 6))
_ARC = _SINE, 0.5 / (1 - _SINE**2), legendre_rule(8)[1] / 12  # from ρ = 0 to ½, to 4e-16
_SEEN = 6.7  # beyond it Φ differs from 0 or 1 by less than 1e-11


class Orthant(NamedTuple):
    """ln Z_y (...), its gradient in ω (..., k), and the diagonal of −∂²_ω ln Z_y (..., k)."""

    log_z: Array
    score: Array
    diagonal: Array

    @property
    def curvature(self) -> Array:
        """−tr ∂²_ω ln Z_y (...)."""
        return np.asarray(self.diagonal.sum(-1))


def argmax_orthant(omega: Any, label: Any, variance: Any = 1.0, *, order: int = 20) -> Orthant:
    """ln Z_y, its score and curvature at means ω (..., k), labels (...) and variance v.

    `variance` is a scalar, an array (...) or one per class (..., k). `order` nodes for k ≥ 4: at
    k = 10 scores are good to 4 digits with 8, 7 with 20 and 11 with 32, in the worst place.
    """
    fields = np.asarray(omega, dtype=float)
    shape, k = fields.shape[:-1], fields.shape[-1]
    labels = np.broadcast_to(np.asarray(label, dtype=np.int64), shape).ravel()
    v = np.asarray(variance, dtype=float)
    if v.ndim and v.ndim == fields.ndim and v.shape[-1] == k:
        v = np.broadcast_to(v, fields.shape).reshape(-1, k)
    elif v.ndim:
        v = np.broadcast_to(v, shape).ravel()
    fields = fields.reshape(-1, k)
    n = len(fields)
    log_z, score, diagonal = np.empty(n), np.empty((n, k)), np.empty((n, k))

    def work(rows: slice) -> None:
        here, y, own = fields[rows], labels[rows], v if v.ndim == 0 else v[rows]
        if k <= 3:
            log_z[rows], score[rows], diagonal[rows] = closed_argmax(here, y, own)
        elif v.ndim == 2:
            found = integrate(here, y, np.sqrt(own), order).orthant(y)
            log_z[rows], score[rows], diagonal[rows] = found
        else:  # in units of √v
            unit = np.sqrt(own)[..., None]
            log_z[rows], slope, bend = integrate(here / unit, y, None, order).orthant(y)
            score[rows] = slope / unit
            # No more than the Gaussian's own curvature, where rounding would have it so.
            diagonal[rows] = np.minimum(bend, 1 - 1 / k) / unit**2

    for_chunks(work, n, _CHUNK_ROWS if k <= 3 else max(16, _CHUNK_NUMBERS // (order * (k - 1))))
    return Orthant(log_z.reshape(shape), score.reshape(*shape, k), diagonal.reshape(*shape, k))


class Quadrature(NamedTuple):
    """ln Z (n,), weights p (n, t), A and −∂A/∂δ (n, t, k−1), other classes (n, k−1)."""

    log_z: Array
    p: Array
    A: Array
    slope: Array
    competitors: Labels

    def orthant(self, label: Labels) -> Orthant:
        """ln Z, its score, the diagonal of its curvature: mean slopes minus variances under p."""
        n, k, mean = len(label), self.A.shape[-1] + 1, np.matmul(self.p[:, None, :], self.A)
        centred, mean = self.A - mean, mean[:, 0]
        slope = np.matmul(self.p[:, None, :], self.slope)[:, 0]
        total = centred.sum(-1)
        winner = slope.sum(-1) - (self.p * total * total).sum(-1)
        np.square(centred, out=centred)
        others = slope - np.matmul(self.p[:, None, :], centred)[:, 0]
        score, diagonal = np.empty((n, k)), np.empty((n, k))
        np.put_along_axis(score, self.competitors, -mean, -1)
        np.put_along_axis(score, label[:, None], mean.sum(-1, keepdims=True), -1)
        np.put_along_axis(diagonal, self.competitors, others, -1)
        np.put_along_axis(diagonal, label[:, None], winner[:, None], -1)
        # ln Z is log-concave: what is below zero is rounding.
        return Orthant(self.log_z, score, np.maximum(diagonal, 0.0, out=diagonal))


@lru_cache(maxsize=16)
def hermite_rule(order: int) -> tuple[Array, Array]:
    """Nodes and log-weights with Σ exp(logw) f(x) ≈ ∫ f(x) exp(−x²/2) dx/√(2π)."""
    nodes, weights = roots_hermite(order)
    return nodes * math.sqrt(2), np.log(weights) - 0.5 * math.log(math.pi)


def other_classes(label: Labels, n_classes: int) -> Labels:
    """The classes but the label, in order, (n, k − 1)."""
    order = np.arange(n_classes - 1)
    return np.asarray(order + (order >= label[:, None]))


def integrate(omega: Array, label: Labels, s: Array | None, order: int) -> Quadrature:
    """The nodes' contributions at ω (n, k) and standard deviations s (n, k), None for 1."""
    winner, competitors = label[:, None], other_classes(label, omega.shape[-1])
    a = np.take_along_axis(omega, winner, -1) - np.take_along_axis(omega, competitors, -1)
    ratio = inverse = None
    if s is not None:
        s_h = np.take_along_axis(s, competitors, -1)
        a /= s_h
        ratio, inverse = np.take_along_axis(s, winner, -1) / s_h, 1 / s_h[:, None, :]
    T, log_weight, scale = _nodes(a, ratio, order)
    x = a[:, None, :] + T[:, :, None] * (1.0 if ratio is None else ratio[:, None, :])
    log_cdf, r = log_cdf_and_mills(x)
    log_f = log_cdf.sum(-1)
    log_f += log_weight - 0.5 * T**2
    p, log_total = normalised(log_f)
    slope = mills_slope(x, r)
    if inverse is not None:
        slope *= inverse**2
        r *= inverse
    return Quadrature(np.minimum(log_total + scale, 0.0), p, r, slope, competitors)


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
            skew = (c2 * c * (m * (x + r) - r * (1 - m))).sum(-1) * width**3 / 6
            break
    skew = np.clip(skew, 1e-6, _MAX_SKEW)[:, None]
    u, log_weight = hermite_rule(order)
    stretch = 2 * skew * (u + 2 * skew)  # the Jacobian moves the mode in u by 2a
    T = t[:, None] + (width[:, None] / (2 * skew)) * np.expm1(stretch)
    return T, stretch + (0.5 * u**2 + log_weight), np.log(width)


class Winning(NamedTuple):
    """Z (n,) and its slopes ∂Z/∂g_h (k−1, n)."""

    z: Array
    slopes: Array


def winning_chance(gaps: Array, s: float, order: int = 14) -> Winning:
    """Z and its slopes at gaps (k−1, n), the smallest first where k = 3, to absolute accuracy.

    From k = 4 on `order` nodes leave 1e-7 of an average over fields at k = 100, and less below.
    """
    scale = 1 / (math.sqrt(2) * s)
    if len(gaps) == 1:
        a = gaps * scale
        return Winning(ndtr(a[0]), np.exp(-0.5 * a * a) * (scale / math.sqrt(2 * math.pi)))
    if len(gaps) == 2:
        a, b = gaps * scale
        z, slopes = ndtr(a), np.zeros((2, a.size))
        np.exp(-0.5 * a * a, out=slopes[0])
        # Far from the corner (b large) only a matters, and nothing there needs Owen's function.
        near = np.flatnonzero((b < _SEEN) & (a > -_SEEN))
        if near.size:
            h, g = a[near], b[near]
            slopes[0, near] *= ndtr((2 * g - h) / _SQRT3)
            slopes[1, near] = np.exp(-0.5 * g * g) * ndtr((2 * h - g) / _SQRT3)
            # At correlation ½: ∂Z/∂ρ, integrated over ρ = sin θ.
            total, square, twice = z[near] * ndtr(g), h * h + g * g, 2 * h * g
            for sine, scaled, weight in zip(*_ARC, strict=True):
                total += np.exp((twice * sine - square) * scaled) * weight
            z[near] = total
        slopes /= math.sqrt(2 * math.pi)
        slopes *= scale
        return Winning(z, slopes)
    a = np.ascontiguousarray(gaps.T) / s
    z, slopes = np.empty(len(a)), np.empty(gaps.shape)

    def work(rows: slice) -> None:
        T, log_weight, log_scale = _nodes(a[rows], None, order)
        x = a[rows, None, :] + T[:, :, None]
        cdf = ndtr(x)
        p = np.exp(log_weight + log_scale[:, None] - 0.5 * T**2) * cdf.prod(-1)
        r = np.exp(-0.5 * np.square(x, out=x)) / np.maximum(cdf, 1e-300, out=cdf)
        z[rows] = np.minimum(p.sum(-1), 1.0)
        slopes[:, rows] = np.matmul(p[:, None, :], r)[:, 0].T / (math.sqrt(2 * math.pi) * s)

    for_chunks(work, len(a), max(16, _CHUNK_NUMBERS // (order * len(gaps))))
    return Winning(z, slopes)


def orthant_chance(mean: Array, covariance: Array) -> float:
    """P(g > 0) for g ~ N(mean (r,), covariance (r, r)), r = 1 or 2: to 1e-13 of it, or 1e-15."""
    s = np.sqrt(np.diag(covariance))
    a = mean / s
    if len(a) == 1:
        return float(ndtr(a[0]))
    rho = float(np.clip(covariance[0, 1] / (s[0] * s[1]), -1 + 1e-15, 1 - 1e-15))
    return float(np.exp(bivariate_orthant(a[:1], a[1:], rho).log_z[0]))


_AT_ONCE = 400_000  # numbers of a table
GRID = np.arange(-5.5, 7.6, 0.5)  # of the trapezoidal rule: 9 digits up to k = 10, 7 at k = 50


def win_probabilities(fields: Array) -> Array:
    """P(class l has the largest field + unit noise), all l at once: (n, k) to (n, k)."""
    shifted, chances = fields - fields.max(1, keepdims=True), np.empty(fields.shape)
    size = max(1, _AT_ONCE // (GRID.size * fields.shape[1]))
    for part in (slice(i, i + size) for i in range(0, len(fields), size)):
        x = GRID - shifted[part, :, None]
        below = ndtr(x)
        chances[part] = np.einsum("nx,nkx->nk", below.prod(1), np.exp(-0.5 * x * x) / below)
    return np.asarray(chances / chances.sum(1, keepdims=True))
