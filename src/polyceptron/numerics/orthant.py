"""The argmax channel seen through a Gaussian: orthant probabilities, scores and curvatures.

With fields z ~ N(ω, diag v), class l wins with probability Z_l(ω, v), an orthant probability in
k − 1 dimensions: Z*_out of eq. auxiliary_defs of the paper with the argmax channel of eq. model and
a diagonal V; the score ∂_ω ln Z is its f*_out. The gaps are δ_h = ω_l − ω_h, h ≠ l the competitors.
With s_h² = v_l + v_h and ρ = corr(z_l − z_h, z_l − z_j), Z is Φ(δ/s) for k = 2 and a bivariate
orthant for k = 3 (`bivariate.py`). Any other k is one Gauss–Hermite integral per sample,

    Z_l(ω, v) = ∫ dt φ(t) ∏_{h≠l} Φ(x_h),    x_h = a_h + c_h t,   a_h = δ_h/√v_h,   c_h = √(v_l/v_h)

whose integrand is log-concave in t. It is narrow to the left of its mode t₀, where the Φ fall, and
wide to the right. The substitution (κ: `skew`, w: `width`)

    t = t₀ + w(e^{2κu} − 1)/2κ = t₀ + w(u + κu² + …)

with w from the second derivative of its logarithm f and κ = w³∂³f/6 from the third makes it
Gaussian in u to third order, and the rule converges geometrically, in the bulk and arbitrarily deep
in the tail. Everything is done on ln Z, so that scores and curvatures stay finite however
improbable the label; they are averages under the same weights:

    ∂_h ln Z = −⟨A_h⟩,  ∂_l ln Z = ⟨Σ_h A_h⟩,   A_h = r(x_h)/√v_h,   r = φ/Φ.

Averages over Gaussian fields weight a sample by Z, so that the relative accuracy of a small Z does
not matter there: `winning_chance` and `win_probabilities` are quicker, and accurate absolutely.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, roots_hermite

from polyceptron.numerics import Array, for_chunks
from polyceptron.numerics.bivariate import SQRT_2PI, bivariate_orthant
from polyceptron.numerics.panels import legendre_rule
from polyceptron.numerics.special import log_cdf_and_mills, mills_ratio, mills_slope, normalised

Labels = NDArray[np.int64]

CHUNK_NUMBERS = 110_000  # numbers in each large array of a chunk: a megabyte
CHUNK_ROWS_CLOSED_FORM = 16_384  # for k ≤ 3, where a dozen arrays have this length
MAX_NEWTON_STEPS = 20  # to the mode of an integrand: half a width is close enough
# The substitution begins at t₀ − w/2κ: with this κ, six widths left of the mode.
LARGEST_SKEW = 0.085
SMALLEST_SKEW = 1e-6  # in place of 0, by which the substitution divides


class Orthant(NamedTuple):
    """ln Z_y (...), its gradient in ω (..., k), and the diagonal of −∂²_ω ln Z_y (..., k)."""

    log_z: Array
    score: Array
    diagonal: Array

    @property
    def curvature(self) -> Array:
        """The trace −tr ∂²_ω ln Z_y, shape (...)."""
        return np.asarray(self.diagonal.sum(-1))


def argmax_orthant(
    omega: ArrayLike, label: ArrayLike, variance: ArrayLike = 1.0, *, order: int = 20
) -> Orthant:
    """Return ln Z_y, its score and its curvature.

    Parameters
    ----------
    omega : array_like (..., k)
        Means of the fields.
    label : array_like (...)
    variance : array_like
        A number, an array (...), or one for each class (..., k).
    order : int
        Nodes for k ≥ 4: at k = 10 scores are good to 4 digits with 8, 7 with 20 and 11 with 32, in
        the worst place.

    Returns
    -------
    Orthant
    """
    fields = np.asarray(omega, dtype=float)
    shape = fields.shape[:-1]
    k = fields.shape[-1]
    labels = np.broadcast_to(np.asarray(label, dtype=np.int64), shape).ravel()
    v = _flat_variance(np.asarray(variance, dtype=float), fields)
    fields = fields.reshape(-1, k)
    n = len(fields)
    log_z = np.empty(n)
    score = np.empty((n, k))
    diagonal = np.empty((n, k))

    def work(rows: slice) -> None:
        """Fill the results of a block of rows."""
        v_here = v
        if v.ndim > 0:
            v_here = v[rows]
        found = _orthants(fields[rows], labels[rows], v_here, order)
        log_z[rows] = found.log_z
        score[rows] = found.score
        diagonal[rows] = found.diagonal

    chunk = CHUNK_ROWS_CLOSED_FORM
    if k > 3:
        chunk = max(16, CHUNK_NUMBERS // (order * (k - 1)))
    for_chunks(work, n, chunk)
    return Orthant(log_z.reshape(shape), score.reshape(*shape, k), diagonal.reshape(*shape, k))


def _flat_variance(variance: Array, fields: Array) -> Array:
    """Return the variance as a number (), one a sample (n,), or one a class (n, k)."""
    k = fields.shape[-1]
    if variance.ndim == 0:
        return variance
    if variance.ndim == fields.ndim and variance.shape[-1] == k:
        return np.broadcast_to(variance, fields.shape).reshape(-1, k)
    return np.broadcast_to(variance, fields.shape[:-1]).ravel()


def _orthants(fields: Array, label: Labels, variance: Array, order: int) -> Orthant:
    """Orthants of ω (n, k) and labels (n,) at a variance (), (n,) or (n, k)."""
    k = fields.shape[1]
    if k <= 3:
        return closed_argmax(fields, label, variance)
    if variance.ndim == 2:
        return integrate(fields, label, np.sqrt(variance), order).orthant(label)
    unit = np.sqrt(variance)[..., None]
    found = integrate(fields / unit, label, None, order).orthant(label)
    # At v = 1, −∂² ln Z = I − Cov(z | l wins). Who wins does not depend on the mean of z over
    # classes, which keeps its variance: Cov ≥ 11ᵀ/k, and the diagonal is 1 − 1/k at most, but for
    # rounding.
    diagonal = np.minimum(found.diagonal, 1 - 1 / k) / unit**2
    return Orthant(found.log_z, found.score / unit, diagonal)


# The classes other than each label, for two and three classes.
OTHERS = {2: np.array([[1], [0]]), 3: np.array([[1, 2], [0, 2], [0, 1]])}


def closed_argmax(omega: Array, label: Labels, variance: Array) -> Orthant:
    """Return the orthants of ω (n, k) with k = 2 or 3; `variance` is (), (n,) or (n, k)."""
    n, k = omega.shape
    own = np.arange(0, n * k, k) + label  # places in arrays (n, k) laid out flat
    offsets = OTHERS[k] - np.arange(k)[:, None]  # (k, k−1): from a label's place to the others
    others = own + offsets.T.take(label, axis=1)  # (k−1, n)
    rho: float | Array = 0.5
    if variance.ndim == 2:
        v = variance.take(own)
        s = np.sqrt(v + variance.take(others))
        rho = v / (s[0] * s[-1])
    else:
        s = np.sqrt(2 * variance) + np.zeros((k - 1, 1))
    x = (omega.take(own) - omega.take(others)) / s
    cross: float | Array = 0.0
    if k == 2:
        r = mills_ratio(x)
        log_z = log_ndtr(x[0])
        slopes = r / s
        bends = mills_slope(x, r) / s**2
    else:
        z = bivariate_orthant(x[0], x[1], rho)
        aa, bb, ab = z.curvatures(x[0], x[1], rho)
        log_z = z.log_z
        slopes = np.stack([z.slope_a, z.slope_b]) / s
        bends = np.stack([aa, bb]) / s**2
        cross = ab / (s[0] * s[1])
    score = np.empty(n * k)
    score[others] = -slopes
    score[own] = slopes.sum(0)
    diagonal = np.empty(n * k)
    diagonal[others] = bends
    diagonal[own] = bends.sum(0) + 2 * cross
    return Orthant(log_z, score.reshape(n, k), diagonal.reshape(n, k))


class Quadrature(NamedTuple):
    """What the nodes of an integral contribute: n samples, t nodes each.

    Attributes
    ----------
    log_z : array (n,)
    p : array (n, t)
        Weights of the averages ⟨·⟩, of sum 1.
    A : array (n, t, k−1)
        A_h of each competitor.
    slope : array (n, t, k−1)
        −∂A_h/∂δ_h.
    competitors : array of int (n, k−1)
        The classes h, in order.
    """

    log_z: Array
    p: Array
    A: Array
    slope: Array
    competitors: Labels

    def orthant(self, label: Labels) -> Orthant:
        """Return ln Z, its score, and the diagonal of its curvature.

        The latter is the mean of the slopes less the variance of A under p.
        """
        n = len(label)
        k = self.A.shape[-1] + 1
        weights = self.p[:, None, :]
        mean = np.matmul(weights, self.A)
        centred = self.A - mean
        mean = mean[:, 0]
        slope = np.matmul(weights, self.slope)[:, 0]
        total = centred.sum(-1)
        of_label = slope.sum(-1) - (self.p * total * total).sum(-1)
        np.square(centred, out=centred)
        of_others = slope - np.matmul(weights, centred)[:, 0]
        score = np.empty((n, k))
        np.put_along_axis(score, self.competitors, -mean, -1)
        np.put_along_axis(score, label[:, None], mean.sum(-1, keepdims=True), -1)
        diagonal = np.empty((n, k))
        np.put_along_axis(diagonal, self.competitors, of_others, -1)
        np.put_along_axis(diagonal, label[:, None], of_label[:, None], -1)
        # ln Z is log-concave: what is below zero is rounding.
        return Orthant(self.log_z, score, np.maximum(diagonal, 0.0, out=diagonal))


@lru_cache(maxsize=16)
def hermite_rule(order: int) -> tuple[Array, Array]:
    """Return nodes and log-weights with Σ exp(logw) f(x) ≈ ∫ f(x) exp(−x²/2) dx/√(2π)."""
    nodes, weights = roots_hermite(order)
    return nodes * math.sqrt(2), np.log(weights) - 0.5 * math.log(math.pi)


def other_classes(label: Labels, n_classes: int) -> Labels:
    """Return the classes other than each label (n,), in order, shape (n, k − 1)."""
    place = np.arange(n_classes - 1)
    return np.asarray(place + (place >= label[:, None]))


def integrate(omega: Array, label: Labels, sd: Array | None, order: int) -> Quadrature:
    """Return what each node contributes at ω (n, k) and deviations √v (n, k), None for 1."""
    winner = label[:, None]
    competitors = other_classes(label, omega.shape[-1])
    gaps = np.take_along_axis(omega, winner, -1) - np.take_along_axis(omega, competitors, -1)
    if sd is None:
        return _quadrature(gaps, None, competitors, order)
    sd_h = np.take_along_axis(sd, competitors, -1)
    c = np.take_along_axis(sd, winner, -1) / sd_h
    found = _quadrature(gaps / sd_h, c, competitors, order)
    inverse = 1 / sd_h[:, None, :]
    return found._replace(A=found.A * inverse, slope=found.slope * inverse**2)


def _quadrature(a: Array, c: Array | None, competitors: Labels, order: int) -> Quadrature:
    """The quadrature in units of √v_h, at a_h and c_h (n, k−1), None for c = 1."""
    T, log_weight, log_scale = _nodes(a, c, order)
    x = T[:, :, None]
    if c is not None:
        x = x * c[:, None, :]
    x = a[:, None, :] + x
    log_cdf, r = log_cdf_and_mills(x)
    log_f = log_cdf.sum(-1)
    log_f += log_weight - 0.5 * T**2
    p, log_total = normalised(log_f)
    slope = mills_slope(x, r)
    return Quadrature(np.minimum(log_total + log_scale, 0.0), p, r, slope, competitors)


def _nodes(a: Array, c: Array | None, order: int) -> tuple[Array, Array, Array]:
    """Return nodes T (n, t), log-weights without φ(T) (n, t), and a common log-factor (n,).

    The sum of exp(log-weight − T²/2) f(T), times the factor, is ∫ dt φ(t) f(t).
    """
    if c is None:
        c = np.ones_like(a)
    mode, width, skew = _mode(a, c)
    skew = np.clip(skew, SMALLEST_SKEW, LARGEST_SKEW)[:, None]
    u, log_weight = hermite_rule(order)
    stretch = 2 * skew * (u + 2 * skew)  # the Jacobian moves the mode in u by 2κ
    T = mode[:, None] + (width[:, None] / (2 * skew)) * np.expm1(stretch)
    # The rule is for ∫ du φ(u): divided by φ(u), whose √2π cancels that of φ(T).
    log_flat_weight = 0.5 * u**2 + log_weight
    return T, stretch + log_flat_weight, np.log(width)  # ln dT/du = stretch + ln w


def _mode(a: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return mode, width and skew, (n,) each, of f = −t²/2 + Σ_h ln Φ(a_h + c_h t).

    Newton's method goes on until all steps are below half a width. f′ falls and is convex, so that
    from the second step on it comes from the left; the largest number of steps is a guard alone.
    Rows with NaN keep no other row waiting.
    """
    c2 = c * c
    # The mode if one class alone competed, and Φ(x) fell as e^{−x²/2}: the largest, or 0.
    t = (-a * c / (1 + c2)).max(-1, initial=0.0)
    for _ in range(MAX_NEWTON_STEPS):
        x = a + c * t[:, None]
        r = mills_ratio(x)
        m = mills_slope(x, r)  # −r′
        stiffness = 1 + (c2 * m).sum(-1)  # −f″
        width = 1 / np.sqrt(stiffness)
        step = ((c * r).sum(-1) - t) / stiffness
        t = t + step
        if not (np.abs(step) >= 0.5 * width).any():
            break
    m_slope = m * (x + r) - r * (1 - m)  # −m′
    skew = (c2 * c * m_slope).sum(-1) * width**3 / 6  # ∂³f = −Σ c³ m′
    return t, width, skew


class Winning(NamedTuple):
    """Z (n,) and its slopes ∂Z/∂g_h (k−1, n)."""

    z: Array
    slopes: Array


def winning_chance(gaps: Array, s: float, order: int = 14) -> Winning:
    """Return Z and its slopes at gaps ω_l − ω_h (k−1, n), to absolute accuracy.

    Parameters
    ----------
    gaps : array (k−1, n)
        The smallest first where k = 3 (far out the other one is not looked at).
    s : float
        The standard deviation √v of every field.
    order : int
        Nodes for k ≥ 4: 14 leave an error of 1e-7 in an average over fields at k = 100, and less
        for fewer classes.
    """
    if len(gaps) == 1:
        return _winning_of_two(gaps, s)
    if len(gaps) == 2:
        return _winning_of_three(gaps, s)
    return _winning_of_many(gaps, s, order)


def _winning_of_two(gaps: Array, s: float) -> Winning:
    scale = 1 / (math.sqrt(2) * s)
    a = gaps * scale
    return Winning(ndtr(a[0]), np.exp(-0.5 * a * a) * (scale / SQRT_2PI))


SQRT3 = math.sqrt(3)
FAR_EDGE = 6.7  # beyond it Φ differs from 0 or 1 by less than 1.05e-11
# Z(a, b; ½) − Φ(a)Φ(b) is the integral of ∂Z/∂ρ = φ₂ over ρ = sin θ from 0 to ½: eight Gauss nodes
# give it to 4e-16.
ARC_SINE = np.sin(legendre_rule(8)[0] * (math.pi / 6))
ARC_SCALE = 0.5 / (1 - ARC_SINE**2)
ARC_WEIGHT = legendre_rule(8)[1] / 12


def _winning_of_three(gaps: Array, s: float) -> Winning:
    """Z(a, b; ½) and its slopes at a ≤ b; where b ≫ 1 or a ≪ −1, Z = Φ(a) as only a matters."""
    scale = 1 / (math.sqrt(2) * s)
    a, b = gaps * scale
    z = ndtr(a)
    slopes = np.zeros((2, a.size))
    np.exp(-0.5 * a * a, out=slopes[0])
    near = np.flatnonzero((b < FAR_EDGE) & (a > -FAR_EDGE))
    if near.size:
        h = a[near]
        g = b[near]
        slopes[0, near] *= ndtr((2 * g - h) / SQRT3)
        slopes[1, near] = np.exp(-0.5 * g * g) * ndtr((2 * h - g) / SQRT3)
        total = z[near] * ndtr(g)
        squares = h * h + g * g
        twice_product = 2 * h * g
        for sine, arc_scale, weight in zip(ARC_SINE, ARC_SCALE, ARC_WEIGHT, strict=True):
            total += np.exp((twice_product * sine - squares) * arc_scale) * weight
        z[near] = total
    slopes /= SQRT_2PI
    slopes *= scale
    return Winning(z, slopes)


def _winning_of_many(gaps: Array, s: float, order: int) -> Winning:
    a = np.ascontiguousarray(gaps.T) / s
    z = np.empty(len(a))
    slopes = np.empty(gaps.shape)

    def work(rows: slice) -> None:
        """Fill the results of a block of rows."""
        T, log_weight, log_scale = _nodes(a[rows], None, order)
        x = a[rows, None, :] + T[:, :, None]
        cdf = ndtr(x)
        p = np.exp(log_weight + log_scale[:, None] - 0.5 * T**2) * cdf.prod(-1)
        r = np.exp(-0.5 * np.square(x, out=x)) / np.maximum(cdf, 1e-300, out=cdf)
        z[rows] = np.minimum(p.sum(-1), 1.0)
        slopes[:, rows] = np.matmul(p[:, None, :], r)[:, 0].T / (SQRT_2PI * s)

    for_chunks(work, len(a), max(16, CHUNK_NUMBERS // (order * len(gaps))))
    return Winning(z, slopes)


TABLE_NUMBERS = 400_000  # numbers of a table (rows, k, grid) held at once
GRID = np.arange(-5.5, 7.6, 0.5)  # of the trapezoidal rule: 9 digits up to k = 10, 7 at k = 50


def win_probabilities(fields: Array) -> Array:
    """Return P(class l has the largest field + unit noise) of all l at once, (n, k) to (n, k)."""
    shifted = fields - fields.max(1, keepdims=True)
    chances = np.empty(fields.shape)
    size = max(1, TABLE_NUMBERS // (GRID.size * fields.shape[1]))
    for start in range(0, len(fields), size):
        rows = slice(start, start + size)
        x = GRID - shifted[rows, :, None]
        below = ndtr(x)
        chances[rows] = np.einsum("nx,nkx->nk", below.prod(1), np.exp(-0.5 * x * x) / below)
    return np.asarray(chances / chances.sum(1, keepdims=True))
