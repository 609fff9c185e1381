"""r(x) = φ(x)/Φ(x), the inverse Mills ratio, and its relatives, accurate in both tails."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Array = NDArray[np.float64]
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
