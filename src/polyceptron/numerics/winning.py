"""The chance that one class wins, and its slopes, from the gaps to the others: absolute accuracy.

Class 1 leads the others by `gaps` g_h in the mean and every class has independent Gaussian noise of
standard deviation s. With a_h = g_h/(√2 s),

    Z = P(x_h ≤ a_h for all h),   x standard normal with correlations 1/2
    k = 2: Φ(a)      k = 3: a bivariate orthant      any k: one integral a sample

For averages over Gaussian fields, whose weights never magnify a small Z; tails that must keep their
relative accuracy are in `numerics.orthant`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.numerics.orthant import argmax_orthant

Array = NDArray[np.float64]
_SQRT3 = math.sqrt(3)
_SEEN = 6.7  # beyond it Φ differs from 0 or 1 by less than 1e-11


class Winning(NamedTuple):
    """Z (n,) and its slopes ∂Z/∂g_h (k−1, n)."""

    z: Array
    slopes: Array


def winning_chance(gaps: Array, s: float, order: int = 14) -> Winning:
    """Z and its slopes at gaps (k−1, n), the smallest first where k = 3.

    From k = 4 on `order` nodes leave 1e-7 of an average over fields at k = 20, and less below.

    >>> bool(abs(winning_chance(np.zeros((2, 1)), 1.0).z[0] - 1 / 3) < 1e-12)
    True
    """
    scale = 1 / (math.sqrt(2) * s)
    if len(gaps) == 1:
        a = gaps * scale
        return Winning(ndtr(a[0]), np.exp(-0.5 * a * a) * (scale / math.sqrt(2 * math.pi)))
    if len(gaps) == 2:
        z, slopes = half_correlated(gaps[0] * scale, gaps[1] * scale)
        slopes *= scale
        return Winning(z, slopes)
    omega = np.concatenate([np.zeros((1, gaps.shape[1])), -gaps]).T
    orthant = argmax_orthant(omega, np.zeros(len(omega), dtype=np.int64), s * s, order=order)
    z = np.exp(orthant.log_z)
    return Winning(z, -(orthant.score[:, 1:].T) * z)


def half_correlated(a: Array, b: Array) -> tuple[Array, Array]:
    """P(x ≤ a, y ≤ b) (n,) of standard normals with correlation 1/2, a ≤ b, and its slopes (2, n).

    Absolute accuracy 1e-11. Far from the corner (b large) only a matters, and nothing there needs
    Owen's function.
    """
    z, slopes = ndtr(a), np.zeros((2, a.size))
    np.exp(-0.5 * a * a, out=slopes[0])
    near = np.flatnonzero((b < _SEEN) & (a > -_SEEN))
    if near.size:
        h, g = (np.where(x == 0, 1e-200, x) for x in (a[near], b[near]))  # keeps 0/0 out
        first, second = (2 * g - h) / _SQRT3, (2 * h - g) / _SQRT3
        slopes[0, near] *= ndtr(first)
        slopes[1, near] = np.exp(-0.5 * g * g) * ndtr(second)
        z[near] = corner_cdf(h, g, first, second)
    slopes /= math.sqrt(2 * math.pi)
    return z, slopes
