"""r(x) = φ(x)/Φ(x), the inverse Mills ratio, and its relatives, accurate in both tails.

The largest of k independent standard normals.

Wright's omega, W(eᵗ) with Lambert's W, fast on arrays.
"""

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


@lru_cache(maxsize=256)
def mean_of_maximum(k: int) -> float:
    """E max = ∫ x k φ(x) Φ(x)^{k−1} dx; the trapezoidal rule converges geometrically.

    >>> bool(abs(mean_of_maximum(2) - 1 / math.sqrt(math.pi)) < 1e-13)
    True
    """
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


_LOW, _HIGH, _STEP = -60.0, 30.0, 1 / 64


def wright_omega(t: Array) -> Array:
    """W(eᵗ) by cubic pieces, relative error 2e-10: a tenth of the time of scipy's.

    >>> bool(abs(wright_omega(np.array([0.3]))[0] / np.real(wrightomega(0.3)) - 1) < 1e-9)
    True
    """
    place = (np.clip(t, _LOW, _HIGH) - _LOW) * (1 / _STEP)
    cell = place.astype(np.intp)
    place -= cell
    c0, c1, c2, c3 = (np.take(c, cell) for c in _pieces())
    y = ((c3 * place + c2) * place + c1) * place + c0
    if t.size and float(t.max()) > _HIGH:
        far = t > _HIGH
        y[far] = np.real(wrightomega(t[far]))
    return np.asarray(y)


@lru_cache(maxsize=1)
def _pieces() -> Array:
    """Coefficients (4, cells) from values and slopes, W/(1 + W)."""
    t = np.arange(_LOW, _HIGH + 2 * _STEP, _STEP)
    y = np.real(wrightomega(t))
    slope = y / (1 + y) * _STEP
    rise, a, b = np.diff(y), slope[:-1], slope[1:]
    return np.stack([y[:-1], a, 3 * rise - 2 * a - b, a + b - 2 * rise])
