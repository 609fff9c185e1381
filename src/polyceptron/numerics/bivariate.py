"""The probability of a quadrant under two correlated normals, its slopes and its curvatures.

    Z(a, b; ρ) = P(x ≤ a, y ≤ b),   x, y standard normal with correlation ρ,  σ = √(1 − ρ²)
    ∂_a Z = φ(a) Φ(c₁),  ∂_b Z = φ(b) Φ(c₂),  ∂_a∂_b Z = φ₂(a, b; ρ),
    c₁ = (b − ρa)/σ,     c₂ = (a − ρb)/σ,     R² = a² + c₁² = b² + c₂²    (distance to the corner)

Near the centre Owen's T function gives Z. In the tail (take a ≤ b, a < 0) its terms cancel, and Z
is integrated along the ray from the origin instead, where Z(λa, λb) falls to zero:

    Z = ∫₁^∞ [−a φ(λa) Φ(λc₁) − b φ(λb) Φ(λc₂)] dλ.

With s = R²(λ² − 1)/2 each term is e^{−R²/2} times a Gauss–Laguerre integral of a smooth erfcx. The
factor e^{−R²/2} is kept apart, so that nothing underflows. Relative errors are about 1e-13.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr, owens_t, roots_laguerre

from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope

SQRT2 = math.sqrt(2)
SQRT_2PI = math.sqrt(2 * math.pi)
LAGUERRE_NODES, LAGUERRE_WEIGHTS = roots_laguerre(20)

# The tail formula is used where the smaller edge is below the first number and R² is above the
# second: there 20 Laguerre nodes give 14 digits, and elsewhere Owen's formula loses less than two
# (tests/unit/numerics/test_orthant_tails.py).
TAIL_EDGE = -1.5
TAIL_CORNER = 9.0
# Below this edge the curvatures are those of the limit, to 1e-5 of them.
EDGE_OF_LIMITING_CURVATURE = -1e5
TINY = 1e-100  # stands for an edge at 0, where Owen's formula divides by it


class Bivariate(NamedTuple):
    """ln Z, ∂_a ln Z, ∂_b ln Z and φ₂/Z = ∂_a∂_b Z / Z, all of the shape of the input."""

    log_z: Array
    slope_a: Array
    slope_b: Array
    density: Array

    def curvatures(self, a: Array, b: Array, rho: float | Array) -> tuple[Array, Array, Array]:
        """Return −∂²_a, −∂²_b and −∂_a∂_b of ln Z, each of the shape of a.

        Their rounding errors have a relative size of ε·min(a, b)².
        """
        aa = (self.slope_a + a) * self.slope_a + rho * self.density
        bb = (self.slope_b + b) * self.slope_b + rho * self.density
        ab = self.slope_a * self.slope_b - self.density
        far = np.minimum(a, b) < EDGE_OF_LIMITING_CURVATURE
        if far.any():
            limits = _limiting_curvatures(a, b, rho)
            for curvature, limit in zip((aa, bb, ab), limits, strict=True):
                np.copyto(curvature, limit, where=far)
        # ln Z is log-concave, and its curvature is at most that of the Gaussian.
        largest = 1 / (1 - np.square(rho))
        return np.clip(aa, 0.0, largest), np.clip(bb, 0.0, largest), ab


def bivariate_orthant(a: Array, b: Array, rho: float | Array) -> Bivariate:
    """Return ln Z(a, b; ρ) and its derivatives at a, b (n,); ρ in (−1, 1) is a number or (n,)."""
    sigma = np.sqrt(1 - np.square(rho))
    c1 = (b - rho * a) / sigma
    c2 = (a - rho * b) / sigma
    in_tail = (np.minimum(a, b) < TAIL_EDGE) & (a * a + c1 * c1 > TAIL_CORNER)
    if not in_tail.any():
        return _by_owen(a, b, c1, c2, rho)
    if in_tail.all():
        return _by_ray(a, b, c1, c2, rho)
    out = np.empty((4, *a.shape))
    for where, formula in ((~in_tail, _by_owen), (in_tail, _by_ray)):
        rho_there = rho
        if np.ndim(rho) > 0:
            rho_there = np.asarray(rho)[where]
        out[:, where] = formula(a[where], b[where], c1[where], c2[where], rho_there)
    return Bivariate(*out)


def corner_cdf(a: Array, b: Array, c1: NDArray[Any], c2: NDArray[Any]) -> Array:
    """Return Z to an absolute accuracy of 1e-15, from a, b, c₁ and c₂ of one shape.

    Owen: Z = ½Φ(a) + ½Φ(b) − T(a, c₁/a) − T(b, c₂/b) − ½[ab < 0]. The caller gives c₁ and c₂, which
    it may know without the cancellation of b − ρa as ρ → 1. At a = b = 0 the formula is 0/0.
    """
    nonzero_a = np.where(a == 0, TINY, a)
    nonzero_b = np.where(b == 0, TINY, b)
    with np.errstate(over="ignore"):
        t = owens_t(nonzero_a, c1 / nonzero_a) + owens_t(nonzero_b, c2 / nonzero_b)
    opposite = (nonzero_a < 0) != (nonzero_b < 0)
    return np.asarray(0.5 * (ndtr(a) + ndtr(b)) - t - 0.5 * opposite)


def _by_owen(a: Array, b: Array, c1: Array, c2: Array, rho: float | Array) -> Bivariate:
    """Owen's formula; at a = b = 0, Z is the angle of the wedge over 2π."""
    # Opposite edges with ρ → −1 leave nothing of Z but rounding.
    z = np.maximum(corner_cdf(a, b, c1, c2), 1e-300)
    at_centre = (a == 0) & (b == 0)
    if at_centre.any():
        z = np.where(at_centre, 0.25 + np.arcsin(rho) / (2 * math.pi), z)
    sigma = np.sqrt(1 - np.square(rho))
    scale = 1 / (SQRT_2PI * z)
    slope_a = np.exp(-0.5 * a * a) * ndtr(c1) * scale
    slope_b = np.exp(-0.5 * b * b) * ndtr(c2) * scale
    density = np.exp(-0.5 * (a * a + c1 * c1)) / (2 * math.pi * sigma * z)
    return Bivariate(np.log(z), slope_a, slope_b, density)


def _by_ray(a: Array, b: Array, c1: Array, c2: Array, rho: float | Array) -> Bivariate:
    """The integral along the ray, where min(a, b) < 0: the smaller of a and b comes first."""
    swap = b < a
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    c1, c2 = np.where(swap, c2, c1), np.where(swap, c1, c2)
    corner = a * a + c1 * c1
    term_a = _laguerre_term(a, c1, corner)
    term_b = _laguerre_term(b, c2, corner)
    # All that follows is multiplied by √2π e^{−S}, with S = −a²/2 if the edge x = a is in sight of
    # the origin (c₁ > 0), else −R²/2.
    sees_a = c1 > 0
    sees_b = c2 > 0
    fade = np.exp(np.where(sees_a, -0.5 * c1 * c1, 0.0))
    half_plane = np.where(sees_a, 0.5 * SQRT_2PI * erfcx(-a / SQRT2), 0.0)
    z = half_plane + fade * np.where(sees_a, term_a, -term_a)
    z = z - fade * np.where(sees_b, -term_b, term_b)
    slope_a = np.where(sees_a, ndtr(c1), 0.5 * erfcx(np.abs(c1) / SQRT2))
    slope_b = fade * 0.5 * erfcx(np.abs(c2) / SQRT2)
    if sees_b.any():  # only for ρ < 0: then b > 0, and φ(b)Φ(c₂) is not small against the corner
        gap = np.where(sees_b, 0.5 * (a - b) * (a + b), 0.0)
        beyond_b = 0.5 * SQRT_2PI * erfcx(np.abs(b) / SQRT2) * np.exp(gap)
        z = z - np.where(sees_b, beyond_b, 0.0)
        slope_b = np.where(sees_b, np.exp(gap) * ndtr(c2), slope_b)
    log_z = np.log(z) - 0.5 * np.where(sees_a, a * a, corner) - math.log(SQRT_2PI)
    density = fade / (SQRT_2PI * np.sqrt(1 - np.square(rho)) * z)
    slope_a = slope_a / z
    slope_b = slope_b / z
    return Bivariate(
        log_z, np.where(swap, slope_b, slope_a), np.where(swap, slope_a, slope_b), density
    )


def _laguerre_term(edge: Array, c: Array, corner: Array) -> Array:
    """Return one term of the ray integral without e^{−R²/2}, shape (n,)."""
    ray = np.sqrt(1 + 2 * LAGUERRE_NODES / corner[:, None])
    integrand = erfcx(np.abs(c)[:, None] * ray / SQRT2) * (LAGUERRE_WEIGHTS / ray)
    return np.asarray(integrand.sum(-1) * (0.5 * edge / corner))


def _limiting_curvatures(a: Array, b: Array, rho: float | Array) -> tuple[Array, Array, Array]:
    """Curvatures as min(a, b) → −∞: one variable sits on its edge, the other is a 1-D problem."""
    swap = b < a
    low = np.where(swap, b, a)
    high = np.where(swap, a, b)
    sigma2 = 1 - np.square(rho)
    x = (high - rho * low) / np.sqrt(sigma2)
    of_high = mills_slope(x, mills_ratio(x)) / sigma2
    of_low = 1 + np.square(rho) * of_high
    return np.where(swap, of_high, of_low), np.where(swap, of_low, of_high), -rho * of_high


def orthant_chance(mean: Array, covariance: Array) -> float:
    """Return P(g > 0) of g ~ N(mean (r,), covariance (r, r)), r = 1 or 2.

    The error is the larger of 1e-13 of it and 1e-15.
    """
    deviation = np.sqrt(np.diag(covariance))
    edge = mean / deviation
    if len(edge) == 1:
        return float(ndtr(edge[0]))
    correlation = covariance[0, 1] / (deviation[0] * deviation[1])
    rho = float(np.clip(correlation, -1 + 1e-15, 1 - 1e-15))
    return float(np.exp(bivariate_orthant(edge[:1], edge[1:], rho).log_z[0]))
