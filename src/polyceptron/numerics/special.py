"""Special functions, r = φ/Φ and others, and functions and sums that are made cheap once.

A proxy samples a smooth function of a scalar at Chebyshev points, doubles their number until the
last coefficients are negligible, and keeps an estimate of its own error.

Sums over a spectrum are of functions of u = ln s that are smooth over a short stretch, (1 + ts)⁻¹
as well as exp(−ts): Gauss's rule of four points for the measure of each (Lanczos's method) does
for thousands of eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev as C
from scipy.special import erfcx, log_ndtr, ndtr, wrightomega

from polyceptron.numerics import AnyArray, Array

_SQRT2 = math.sqrt(2)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_FAR = -100.0
_UNDERFLOW = -35.0  # Φ is a normal number above


def mills_ratio(x: Array) -> Array:
    """r(x) = φ(x)/Φ(x), to full relative precision for every x."""
    with np.errstate(over="ignore"):
        result: Array = _SQRT_2_OVER_PI / erfcx(-x / _SQRT2)
    return result


def mills_slope(x: Array, r: Array) -> Array:
    """−r′(x) = r(x + r), in (0, 1); the far left tail uses its series, where x + r cancels."""
    direct = np.asarray((x + r) * r)
    if x.min(initial=0.0) >= _FAR:
        return direct
    far = x < _FAR
    y = 1 / np.where(far, x, _FAR) ** 2
    np.copyto(direct, 1 - y * (1 - y * (6 - 50 * y)), where=far)
    return direct


def log_cdf_and_mills(x: Array) -> tuple[Array, Array]:
    """(ln Φ(x), r(x)); where no x is far in the tail, by the cheaper pair Φ and exp."""
    if x.min(initial=0.0) > _UNDERFLOW:
        cdf = ndtr(x)
        r = np.exp(-0.5 * np.square(x))
        r /= cdf
        r *= 1 / math.sqrt(2 * math.pi)
        return np.log(cdf, out=cdf), r
    with np.errstate(over="ignore", invalid="ignore"):
        e = erfcx(-x / _SQRT2)
        log_cdf = np.where(x < 9, np.log(0.5 * e) - 0.5 * x * x, 0.0)
        return log_cdf, _SQRT_2_OVER_PI / e


def normalised(log_weight: Array, axis: int = -1) -> tuple[Array, Array]:
    """Shares that sum to 1 along an axis, and ln of what was divided out, without it."""
    peak = log_weight.max(axis, keepdims=True)
    p = np.exp(log_weight - peak)
    total = p.sum(axis, keepdims=True)
    p /= total
    return p, (peak + np.log(total)).squeeze(axis)


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
    density = np.exp(-0.5 * s**2 + (k - 2) * log_ndtr(s / _SQRT2)) / math.sqrt(2 * math.pi)
    return k * (k - 1) / 2 * float(density.sum() * (s[1] - s[0]))


class EvenPieces:
    """A spline through values (n, functions) at even points x (n,); a cell needs no search.

    `powers` (functions, degree + 1, cells) are of the place in a cell, from 0 to 1, falling.
    """

    def __init__(self, x: Array, values: Array, degree: int) -> None:
        from scipy.interpolate import make_interp_spline  # loads slowly, and is rarely needed

        self.low, self.high, self.step = float(x[0]), float(x[-1]), (x[-1] - x[0]) / (len(x) - 1)
        spline = make_interp_spline(x, values, k=degree)
        scale = [self.step**m / math.factorial(m) for m in range(degree + 1)]
        powers = [spline(x[:-1], nu=m) * scale[m] for m in range(degree, -1, -1)]
        self.powers = np.ascontiguousarray(np.moveaxis(np.stack(powers), 2, 0))

    def __call__(self, x: Array, n: int | None = None) -> list[Array]:
        """Each function at x, of any shape, or the first n; beyond the ends its value there."""
        place = (np.clip(x, self.low, self.high) - self.low) * (1 / self.step)
        cell = np.minimum(place.astype(np.intp), self.powers.shape[-1] - 1)
        place -= cell
        found = []
        for powers in self.powers[:n]:
            value = powers[0].take(cell)
            for power in powers[1:]:
                value *= place
                value += power.take(cell)
            found.append(value)
        return found


@lru_cache(maxsize=1)
def _omega() -> EvenPieces:
    t = np.linspace(-60.0, 30.0, 90 * 64 + 1)
    return EvenPieces(t, np.real(wrightomega(t))[:, None], 5)


def wright_omega(t: Array) -> Array:
    """W(eᵗ) by quintic pieces, relative error 1e-14: a tenth of the time of scipy's."""
    pieces = _omega()
    (y,) = pieces(t)
    far = t > pieces.high
    y[far] = np.real(wrightomega(t[far]))
    return np.asarray(y)


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
            return replace(self, coefficients=self.coefficients[:, first])(x)
        s = (2 * x - self.low - self.high) / (self.high - self.low)
        value: AnyArray = C.chebval(s, self.coefficients[:, column], tensor=False)
        return value

    def __add__(self, other: ChebyshevProxy) -> ChebyshevProxy:
        """The sum of two on the same interval; one column serves all of the other's."""
        short, long = sorted((self.coefficients, other.coefficients), key=len)
        total = np.pad(short, ((0, len(long) - len(short)), (0, 0))) + long
        return replace(self, coefficients=total, error=self.error + other.error)

    def derivative(self) -> ChebyshevProxy:
        """p′ as a proxy on the same interval (its error is not tracked)."""
        scale = 2 / (self.high - self.low)
        return replace(self, coefficients=C.chebder(self.coefficients) * scale)


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


_STRETCH, _FEW = 0.05, 400  # of ln s; values that are kept as they are


def local_gauss(values: AnyArray, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Nodes (n,) and weights (n,) for sums over `values` (l,): at most four in 5 % of a value."""
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
    nodes, vectors = np.linalg.eigh(np.diag(along[: i + 1]) + np.diag(beside[:i], -1))
    return nodes, total * vectors[0] ** 2
