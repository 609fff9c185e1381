"""Special functions: the inverse Mills ratio r = φ/Φ, maxima of normals, Wright's omega."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr, wrightomega

from polyceptron.numerics import Array

_SQRT2 = math.sqrt(2)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_FAR = -100.0
_UNDERFLOW = -35.0  # Φ is a normal number above


def mills_ratio(x: Array) -> Array:
    """r(x) = φ(x)/Φ(x), to full relative precision for every x."""
    with np.errstate(over="ignore"):
        result: Array = _SQRT_2_OVER_PI / erfcx(-x / _SQRT2)
    return result


def mills_slope(x: Array, r: Array, out: Array | None = None) -> Array:
    """−r′(x) = r(x + r), in (0, 1); the far left tail uses its series, where x + r cancels."""
    direct: Array = np.asarray(np.add(x, r, out=out))
    direct *= r
    if x.min(initial=0.0) >= _FAR:
        return direct
    far = x < _FAR
    y = 1 / np.where(far, x, _FAR) ** 2
    np.copyto(direct, 1 - y * (1 - y * (6 - 50 * y)), where=far)
    return direct


def log_cdf_and_mills(
    x: Array, out: tuple[Array | None, Array | None] = (None, None)
) -> tuple[Array, Array]:
    """(ln Φ(x), r(x)); where no x is far in the tail, by the cheaper pair Φ and exp."""
    cdf, r = out
    if x.min(initial=0.0) > _UNDERFLOW:
        cdf = ndtr(x, out=cdf)
        r = np.square(x, out=r)
        r *= -0.5
        np.exp(r, out=r)
        r /= cdf
        r *= 1 / math.sqrt(2 * math.pi)
        return np.log(cdf, out=cdf), r
    with np.errstate(over="ignore", invalid="ignore"):
        e = erfcx(-x / _SQRT2)
        log_cdf = np.where(x < 9, np.log(0.5 * e) - 0.5 * x * x, 0.0)
        return log_cdf, _SQRT_2_OVER_PI / e


def normalised(log_weight: Array) -> tuple[Array, Array]:
    """Shares (..., n) that sum to 1 along the last axis, and ln of what was divided out (...)."""
    peak = log_weight.max(-1, keepdims=True)
    p = np.exp(log_weight - peak)
    total = p.sum(-1, keepdims=True)
    p /= total
    return p, (peak + np.log(total))[..., 0]


@lru_cache(maxsize=256)
def mean_of_maximum(k: int) -> float:
    """E max = ∫ x k φ(x) Φ(x)^{k−1} dx; the trapezoidal rule converges geometrically."""
    x = np.linspace(-12.0, 12.0, 2401)
    density = np.exp(-0.5 * x**2 + (k - 1) * log_ndtr(x)) * k / math.sqrt(2 * math.pi)
    return float((x * density).sum() * (x[1] - x[0]))


@lru_cache(maxsize=256)
def boundary_density(k: int) -> float:
    """B_k = (k(k−1)/2) ∫ φ(s) Φ(s/√2)^{k−2} ds: class boundaries per unit gap, B₂ = 1."""
    s = np.linspace(-12.0, 12.0, 1201)
    log_p = -0.5 * s**2 + (k - 2) * log_ndtr(s / math.sqrt(2))
    total = float(np.exp(log_p).sum() * (s[1] - s[0])) / math.sqrt(2 * math.pi)
    return k * (k - 1) / 2 * total


class EvenPieces:
    """Polynomials on even cells of [low, high]: a spline whose cell is found without a search.

    `powers` (functions, degree + 1, cells) are of the place in a cell, from 0 to 1, falling.
    """

    def __init__(self, low: float, high: float, powers: Array) -> None:
        self.low, self.high, self.powers = low, high, np.ascontiguousarray(powers)
        self.step = (high - low) / powers.shape[-1]

    @classmethod
    def spline(cls, x: Array, values: Array, degree: int) -> EvenPieces:
        """Through values (n, functions) at even points x (n,)."""
        from scipy.interpolate import make_interp_spline  # loads slowly, and is rarely needed

        spline, step = make_interp_spline(x, values, k=degree), (x[-1] - x[0]) / (len(x) - 1)
        powers = [
            spline(x[:-1], nu=m) * (step**m / math.factorial(m)) for m in range(degree, -1, -1)
        ]
        return cls(float(x[0]), float(x[-1]), np.moveaxis(np.stack(powers), 2, 0))

    def __call__(self, x: Array) -> list[Array]:
        """Each function at x, of any shape; beyond the ends its value there."""
        place = (np.clip(x, self.low, self.high) - self.low) * (1 / self.step)
        cell = np.minimum(place.astype(np.intp), self.powers.shape[-1] - 1)
        place -= cell
        found = []
        for powers in self.powers:
            value = powers[0].take(cell)
            for power in powers[1:]:
                value *= place
                value += power.take(cell)
            found.append(value)
        return found


_LOW, _HIGH, _STEP = -60.0, 30.0, 1 / 64


def wright_omega(t: Array) -> Array:
    """W(eᵗ) by cubic pieces, relative error 2e-10: a tenth of the time of scipy's."""
    (y,) = _omega()(t)
    if t.size and float(t.max()) > _HIGH:
        far = t > _HIGH
        y[far] = np.real(wrightomega(t[far]))
    return np.asarray(y)


@lru_cache(maxsize=1)
def _omega() -> EvenPieces:
    """Cubic pieces from values and slopes, W/(1 + W)."""
    t = np.arange(_LOW, _HIGH + 0.5 * _STEP, _STEP)
    y = np.real(wrightomega(t))
    slope = y / (1 + y) * _STEP
    rise, a, b = np.diff(y), slope[:-1], slope[1:]
    powers = np.stack([a + b - 2 * rise, 3 * rise - 2 * a - b, a, y[:-1]])
    return EvenPieces(_LOW, _HIGH, powers[None])
