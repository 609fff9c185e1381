"""Functions and sums that are computed once and then cheap: Chebyshev proxies, Gauss's rules.

Order parameters, errors and entropies are smooth functions of a scalar whose every evaluation is
an integral. A proxy samples the function at Chebyshev points, doubles their number until the last
coefficients are negligible, and keeps an estimate of its own error.

Sums over a spectrum are of functions of u = ln s that are smooth over a short stretch, (1 + ts)⁻¹
as well as exp(−ts): Gauss's rule of four points for the measure of each (Lanczos's method) does
for thousands of eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev as C

from polyceptron.numerics import AnyArray


@dataclass(frozen=True)
class ChebyshevProxy:
    """p(x) = Σ_j c_j T_j(s(x)) on [low, high]; columns of `coefficients` are several functions.

    `error` is an absolute estimate (one per column) of |p − f| from the tail of the coefficients.
    """

    low: float
    high: float
    coefficients: AnyArray  # (degree + 1,) or (degree + 1, columns)
    error: AnyArray

    def __call__(self, x: AnyArray | float) -> AnyArray:
        s = (2 * np.asarray(x, dtype=float) - self.low - self.high) / (self.high - self.low)
        value: AnyArray = C.chebval(s, self.coefficients)
        return value

    def column(self, x: AnyArray, column: AnyArray) -> AnyArray:
        """p_column(x), elementwise over x (n,) and column (n,)."""
        first = int(column[0]) if column.size else 0
        if (column == first).all():
            own = ChebyshevProxy(self.low, self.high, self.coefficients[:, first], self.error)
            return own(x)
        s = (2 * x - self.low - self.high) / (self.high - self.low)
        value: AnyArray = C.chebval(s, self.coefficients[:, column], tensor=False)
        return value

    def derivative(self) -> ChebyshevProxy:
        """p′ as a proxy on the same interval (its error is not tracked)."""
        scale = 2 / (self.high - self.low)
        return ChebyshevProxy(self.low, self.high, C.chebder(self.coefficients) * scale, self.error)


def chebyshev_proxy(
    function: Callable[[AnyArray], AnyArray],
    low: float,
    high: float,
    *,
    tol: float = 1e-13,
    start: int = 17,
    max_points: int = 257,
) -> ChebyshevProxy:
    """A proxy of `function`, which takes points (p,) and returns (p,) or (p, columns)."""
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


def points(low: float, high: float, n: int) -> AnyArray:
    """Chebyshev points of the second kind, both ends included, in decreasing order."""
    s = np.cos(np.pi * np.arange(n) / (n - 1))
    return 0.5 * (low + high) + 0.5 * (high - low) * s


def coefficients(values: AnyArray) -> AnyArray:
    """Chebyshev coefficients of the polynomial through the values at `points`."""
    from scipy.fft import dct

    n = len(values) - 1
    series: AnyArray = dct(values, type=1, axis=0) / n
    series[0] /= 2
    series[-1] /= 2
    return series


_STRETCH = 0.05  # of ln s
_FEW = 400


def local_gauss(values: AnyArray, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Nodes (n,) and weights (n,) for sums over `values` (l,): at most four in 5 % of a value.

    Those above 0 as they are where they are few.
    """
    used = (weights > 0) & (values > 0)
    values, weights = values[used], weights[used]
    if values.size <= _FEW:
        return values, weights
    u = np.log(values)
    place = np.floor((u - u.min()) / _STRETCH)
    parts = [_lanczos(u[place == i], weights[place == i], 4) for i in np.unique(place)]
    return np.exp(np.concatenate([x for x, _ in parts])), np.concatenate([w for _, w in parts])


def _lanczos(x: AnyArray, weights: AnyArray, n: int) -> tuple[AnyArray, AnyArray]:
    """Nodes and weights of Gauss's rule of n points of the measure Σ w δ_x, x in [−1, 1]."""
    total = float(weights.sum())
    basis = np.zeros((n, x.size))
    basis[0] = np.sqrt(weights / total)
    along, beside = np.zeros(n), np.zeros(n)
    for i in range(n):
        ahead = x * basis[i]
        along[i] = basis[i] @ ahead
        for _ in range(2):  # twice is enough
            ahead = ahead - basis[: i + 1].T @ (basis[: i + 1] @ ahead)
        beside[i] = np.linalg.norm(ahead)
        if i + 1 == n or beside[i] < 1e-13:
            break
        basis[i + 1] = ahead / beside[i]
    m = i + 1
    nodes, vectors = np.linalg.eigh(np.diag(along[:m]) + np.diag(beside[: m - 1], -1))
    return nodes, total * vectors[0] ** 2
