"""Special functions, and functions and sums that are tabulated once and then cheap.

- The normal distribution: r = φ/Φ (the inverse Mills ratio), its slope, ln Φ.
- `EvenPieces`: a spline on even points. `ChebyshevProxy`: a smooth function of a scalar sampled at
  Chebyshev points, whose number is doubled until the last coefficients are negligible; they are its
  own error estimate.
- `local_gauss`: sums over a spectrum of functions of u = ln s that are smooth over a short stretch,
  (1 + ts)⁻¹ as well as exp(−ts). Gauss's rule of four points for the measure of each stretch
  (Lanczos's method) replaces thousands of eigenvalues.
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
FAR_LEFT_TAIL = -100.0  # below it r′ is taken from its series, good to 1e-13 there
SMALLEST_X_WITHOUT_UNDERFLOW = -35.0  # above it Φ(x) is a normal floating-point number


def mills_ratio(x: Array) -> Array:
    """Return r(x) = φ(x)/Φ(x), to full relative precision for every x."""
    with np.errstate(over="ignore"):
        result: Array = _SQRT_2_OVER_PI / erfcx(-x / _SQRT2)
    return result


def mills_slope(x: Array, r: Array) -> Array:
    """Return −r′(x) = r(x + r), in (0, 1); where x + r cancels, far to the left, its series."""
    slope = np.asarray((x + r) * r)
    if x.min(initial=0.0) >= FAR_LEFT_TAIL:
        return slope
    far = x < FAR_LEFT_TAIL
    y = 1 / np.where(far, x, FAR_LEFT_TAIL) ** 2
    np.copyto(slope, 1 - y * (1 - y * (6 - 50 * y)), where=far)
    return slope


def log_cdf_and_mills(x: Array) -> tuple[Array, Array]:
    """Return ln Φ(x) and r(x); where no x is far in the tail, by the cheaper pair Φ and exp."""
    if x.min(initial=0.0) > SMALLEST_X_WITHOUT_UNDERFLOW:
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
    """Return shares exp(w)/Σ exp(w) along an axis, and ln Σ exp(w), which lacks that axis."""
    peak = log_weight.max(axis, keepdims=True)
    p = np.exp(log_weight - peak)
    total = p.sum(axis, keepdims=True)
    p /= total
    return p, (peak + np.log(total)).squeeze(axis)


@lru_cache(maxsize=256)
def mean_of_maximum(k: int) -> float:
    """Return E max of k standard normals, ∫ x k φ(x) Φ(x)^{k−1} dx, by the trapezoidal rule."""
    x = np.linspace(-12.0, 12.0, 2401)
    density = np.exp(-0.5 * x**2 + (k - 1) * log_ndtr(x)) * k / math.sqrt(2 * math.pi)
    return float((x * density).sum() * (x[1] - x[0]))


@lru_cache(maxsize=256)
def boundary_density(k: int) -> float:
    """Return B_k = (k(k−1)/2) ∫ φ(s) Φ(s/√2)^{k−2} ds: class boundaries per unit gap, B₂ = 1."""
    s = np.linspace(-12.0, 12.0, 1201)
    density = np.exp(-0.5 * s**2 + (k - 2) * log_ndtr(s / _SQRT2)) / math.sqrt(2 * math.pi)
    return k * (k - 1) / 2 * float(density.sum() * (s[1] - s[0]))


class EvenPieces:
    """A spline through values (n, functions) at even points x (n,); a cell needs no search.

    `powers` (functions, degree + 1, cells) are of the place in a cell, from 0 to 1, falling.
    """

    def __init__(self, x: Array, values: Array, degree: int) -> None:
        from scipy.interpolate import make_interp_spline  # loads slowly, and is rarely needed

        self.low = float(x[0])
        self.high = float(x[-1])
        self.step = (x[-1] - x[0]) / (len(x) - 1)
        spline = make_interp_spline(x, values, k=degree)
        scale = [self.step**m / math.factorial(m) for m in range(degree + 1)]
        powers = [spline(x[:-1], nu=m) * scale[m] for m in range(degree, -1, -1)]
        self.powers = np.ascontiguousarray(np.moveaxis(np.stack(powers), 2, 0))

    def __call__(self, x: Array, n: int | None = None) -> list[Array]:
        """Return each function, or the first n, at x of any shape; constant beyond the ends."""
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
def _wright_omega_pieces() -> EvenPieces:
    """Return W(eᵗ) between t = −60 and 30 as quintic pieces, 64 to a unit."""
    t = np.linspace(-60.0, 30.0, 90 * 64 + 1)
    return EvenPieces(t, np.real(wrightomega(t))[:, None], 5)


def wright_omega(t: Array) -> Array:
    """Return W(eᵗ) to a relative error of 1e-14, in a tenth of the time of scipy's function."""
    pieces = _wright_omega_pieces()
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
        """Return p_column(x), elementwise over x (n,) and column (n,)."""
        if column.size == 0:
            return np.empty(0)
        first = int(column[0])
        if (column == first).all():
            return replace(self, coefficients=self.coefficients[:, first])(x)
        s = (2 * x - self.low - self.high) / (self.high - self.low)
        value: AnyArray = C.chebval(s, self.coefficients[:, column], tensor=False)
        return value

    def __add__(self, other: ChebyshevProxy) -> ChebyshevProxy:
        """Return the sum of two on the same interval; one column serves all of the other's."""
        short, long = sorted((self.coefficients, other.coefficients), key=len)
        total = np.pad(short, ((0, len(long) - len(short)), (0, 0))) + long
        return replace(self, coefficients=total, error=self.error + other.error)

    def derivative(self) -> ChebyshevProxy:
        """Return p′ as a proxy on the same interval; its error is not tracked."""
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
    """Return a proxy of a function on [low, high].

    Parameters
    ----------
    function : callable
        Takes points (p,) and returns values (p,) or (p, columns).
    tol : float
        The last coefficients are below this share of the largest value, unless `max_points` is
        reached first.
    start, max_points : int
        The first number of points, doubled less one until it is enough, and the largest.
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


def points(low: float, high: float, n: int) -> AnyArray:
    """Return n Chebyshev points of the second kind, both ends included, in decreasing order."""
    s = np.cos(np.pi * np.arange(n) / (n - 1))
    return 0.5 * (low + high) + 0.5 * (high - low) * s


def coefficients(values: AnyArray) -> AnyArray:
    """Return the Chebyshev coefficients of the polynomial through the values at `points`."""
    from scipy.fft import dct

    n = len(values) - 1
    series: AnyArray = dct(values, type=1, axis=0) / n
    series[0] /= 2
    series[-1] /= 2
    return series


STRETCH = (
    0.05  # in ln s: one Gauss rule of four points each (tests/unit/numerics/test_gauss_rule.py)
)
NODES_OF_A_STRETCH = 4
MAX_VALUES_KEPT = 400  # as many values are summed as they are


def local_gauss(values: AnyArray, weights: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return nodes (n,) and weights (n,) for weighted sums over many `values` (l,)."""
    used = (weights > 0) & (values > 0)
    values = values[used]
    weights = weights[used]
    if values.size <= MAX_VALUES_KEPT:
        return values, weights
    u = np.log(values)
    stretch = np.floor((u - u.min()) / STRETCH)
    rules = [
        _gauss_rule_of_measure(u[stretch == i], weights[stretch == i], NODES_OF_A_STRETCH)
        for i in np.unique(stretch)
    ]
    nodes = np.exp(np.concatenate([x for x, _ in rules]))
    return nodes, np.concatenate([w for _, w in rules])


def _gauss_rule_of_measure(x: AnyArray, weights: AnyArray, n: int) -> tuple[AnyArray, AnyArray]:
    """Return nodes and weights of Gauss's rule of n points for the measure Σ w δ_x.

    Lanczos's method makes a tridiagonal matrix with orthogonal polynomials of the measure; its
    eigenvalues are the nodes.
    """
    total = float(weights.sum())
    basis = np.zeros((n, x.size))
    basis[0] = np.sqrt(weights / total)
    diagonal = np.zeros(n)
    off_diagonal = np.zeros(n)
    for i in range(n):
        following = x * basis[i]
        diagonal[i] = basis[i] @ following
        for _ in range(2):  # orthogonalised twice, against rounding
            following = following - basis[: i + 1].T @ (basis[: i + 1] @ following)
        off_diagonal[i] = np.linalg.norm(following)
        if i + 1 == n or off_diagonal[i] < 1e-13:
            break
        basis[i + 1] = following / off_diagonal[i]
    matrix = np.diag(diagonal[: i + 1]) + np.diag(off_diagonal[:i], -1)  # eigh reads the lower half
    nodes, vectors = np.linalg.eigh(matrix)
    return nodes, total * vectors[0] ** 2
