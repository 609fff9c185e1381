"""r(x) = φ(x)/Φ(x), the inverse Mills ratio, and its relatives, accurate in both tails."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Array = NDArray[np.float64]
_SQRT2 = math.sqrt(2)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_UNDERFLOW = -35.0  # Φ is a normal number above


def mills_ratio(x: Array) -> Array:
    """r(x) = φ(x)/Φ(x), to full relative precision for every x."""
    with np.errstate(over="ignore"):
        result: Array = _SQRT_2_OVER_PI / erfcx(-x / _SQRT2)
    return result


def mills_slope(x: Array, r: Array) -> Array:
    """−r′(x) = r(x + r), in (0, 1); the far left tail uses its series, where x + r cancels."""
    direct = r * (x + r)
    far = x < -100
    if not far.any():
        return direct
    y = 1 / np.where(far, x, -100.0) ** 2
    return np.where(far, 1 - y * (1 - y * (6 - 50 * y)), direct)


def log_cdf_and_mills(x: Array) -> tuple[Array, Array]:
    """(ln Φ(x), r(x)); where no x is far in the tail, by the cheaper pair Φ and exp."""
    if x.min(initial=0.0) > _UNDERFLOW:
        cdf = ndtr(x)
        r = np.square(x)
        r *= -0.5
        np.exp(r, out=r)
        r /= cdf
        r *= 1 / math.sqrt(2 * math.pi)
        return np.log(cdf, out=cdf), r
    with np.errstate(over="ignore", invalid="ignore"):
        e = erfcx(-x / _SQRT2)
        log_cdf = np.where(x < 9, np.log(0.5 * e) - 0.5 * x * x, 0.0)
        r = _SQRT_2_OVER_PI / e
    return log_cdf, r
