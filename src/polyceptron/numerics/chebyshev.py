"""Smooth functions of one variable, computed once and then cheap: adaptive Chebyshev proxies.

Order parameters, errors and entropies are smooth functions of a scalar whose every evaluation is
an integral. A proxy samples the function at Chebyshev points, doubles their number until the last
coefficients are negligible, and keeps an estimate of its own error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class ChebyshevProxy:
    """p(x) = Σ_j c_j T_j(s(x)) on [low, high]; columns of `coefficients` are several functions.

    `error` is an absolute estimate (one per column) of |p − f| from the tail of the coefficients.
    """

    low: float
    high: float
    coefficients: Array  # (degree + 1,) or (degree + 1, columns)
    error: Array

    def __call__(self, x: Array | float) -> Array:
        s = (2 * np.asarray(x, dtype=float) - self.low - self.high) / (self.high - self.low)
        value: Array = C.chebval(s, self.coefficients)
        return value

    def derivative(self) -> ChebyshevProxy:
        """p′ as a proxy on the same interval (its error is not tracked)."""
        scale = 2 / (self.high - self.low)
        return ChebyshevProxy(self.low, self.high, C.chebder(self.coefficients) * scale, self.error)


def chebyshev_proxy(
    function: Callable[[Array], Array],
    low: float,
    high: float,
    *,
    tol: float = 1e-13,
    start: int = 17,
    max_points: int = 257,
) -> ChebyshevProxy:
    """A proxy of `function`, which takes points (p,) and returns (p,) or (p, columns).

    >>> proxy = chebyshev_proxy(np.exp, 0.0, 1.0)
    >>> bool(abs(proxy(0.3) - np.exp(0.3)) < 1e-14)
    True
    """
    n = start
    values = np.asarray(function(points(low, high, n)))
    while True:
        series = coefficients(values)
        scale = np.abs(values).max(0)
        tail = np.abs(series[-max(3, n // 8) :]).max(0)
        if np.all(tail <= tol * np.maximum(scale, 1e-300)) or 2 * n - 1 > max_points:
            return ChebyshevProxy(low, high, series, np.asarray(tail))
        # The points of the finer grid contain those of the coarse one: only new ones are computed.
        n = 2 * n - 1
        finer = np.empty((n, *values.shape[1:]))
        finer[::2] = values
        finer[1::2] = function(points(low, high, n)[1::2])
        values = finer


def points(low: float, high: float, n: int) -> Array:
    """Chebyshev points of the second kind, both ends included, in decreasing order."""
    s = np.cos(np.pi * np.arange(n) / (n - 1))
    return 0.5 * (low + high) + 0.5 * (high - low) * s


def coefficients(values: Array) -> Array:
    """Chebyshev coefficients of the polynomial through the values at `points`."""
    from scipy.fft import dct

    n = len(values) - 1
    series: Array = dct(values, type=1, axis=0) / n
    series[0] /= 2
    series[-1] /= 2
    return series
