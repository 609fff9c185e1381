"""A plain power law through a measured learning curve, with a band by resampling.

    ε(n) ≈ a n^(−b) + c,      a > 0, 0 < b ≤ 3, c ≥ 0

by least squares of the relative residuals. Folds are drawn again with replacement, each time the
law is fitted anew, and the band holds 90 of 100 of what these fits say.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_EXPONENTS = np.geomspace(0.05, 3.0, 120)
_RESAMPLES = 200
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class PowerLaw:
    """a, b and c, and those of the resampled fits (r, 3)."""

    a: float
    b: float
    c: float
    resampled: Array = field(repr=False)

    def __call__(self, n: Any) -> Array:
        """ε at numbers of samples n."""
        return _law(np.array([self.a, self.b, self.c]), np.asarray(n, dtype=float))

    def band(self, n: Any) -> tuple[Array, Array]:
        """Between these lie 90 of 100 resampled fits at n (m,)."""
        values = np.stack([_law(each, np.asarray(n, dtype=float)) for each in self.resampled])
        low, high = np.quantile(values, BAND, axis=0)
        return np.asarray(low), np.asarray(high)


def fit_power_law(sizes: Any, folds: Array, least: float, seed: int = 0) -> PowerLaw:
    """The law of errors (s, folds) at sizes n (s,); `least` is half a count of held-out samples."""
    n = np.asarray(sizes, dtype=float)
    draws = np.random.default_rng(seed).integers(0, folds.shape[1], (_RESAMPLES, folds.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw may hold failed folds only
        means = np.stack([np.nanmean(folds, 1), *(np.nanmean(folds[:, draw], 1) for draw in draws)])
    found = _fit(n, means, least)
    a, b, c = (float(part) for part in found[0])
    return PowerLaw(a, b, c, found[1:])


def _law(parts: Array, n: Array) -> Array:
    a, b, c = parts
    return np.asarray(a * n**-b + c)


def _fit(n: Array, errors: Array, least: float) -> Array:
    """a, b, c (r, 3) of errors (r, s): for each b the rest is linear, b is searched."""
    seen = np.isfinite(errors)
    errors = np.where(seen, errors, 0.0)
    weight = np.where(seen, 1 / (errors + least), 0.0) ** 2
    u = (n / n[0]) ** -_EXPONENTS[:, None]  # (b, s)
    one, both, square = weight.sum(1)[:, None], weight @ u.T, weight @ (u**2).T
    along, level = (weight * errors) @ u.T, (weight * errors).sum(1)[:, None]
    determinant = one * square - both**2
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (one * along - both * level) / determinant
        c = (square * level - both * along) / determinant
    # Two points leave c open, and c is not negative: then the law has a alone; a < 0 has c alone.
    alone = ~(c >= 0) if len(n) > 2 else np.full(c.shape, len(n) == 2)
    c, a = np.where(alone, 0.0, c), np.where(alone, along / square, a)
    rising = ~(a > 0)
    c, a = np.where(rising, level / one, c), np.where(rising, 0.0, a)
    rest = a**2 * square + 2 * a * c * both + c**2 * one - 2 * a * along - 2 * c * level
    best = rest.argmin(1)
    rows = np.arange(len(errors))
    b = _EXPONENTS[best]
    return np.stack([a[rows, best] * n[0] ** b, b, c[rows, best]], axis=1)
