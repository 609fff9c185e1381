"""Continuous weights: Gaussian, sparse Gaussian (Gauss–Bernoulli), Laplace.

Each half of the Laplace law p(w) = (κ/2) exp(−κ|w|), κ = √2, is when tilted a Gaussian cut at 0:
with x = ±b − κ and a = x/√Λ,

    ∫_0^∞ exp(xw − Λw²/2) dw = √(2π/Λ) e^{a²/2} Φ(a),   mean (a + r)/√Λ,   r = φ(a)/Φ(a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr

from polyceptron.errors import InvalidInput
from polyceptron.model.priors.base import GaussianRow, Prior, Row, Tilted
from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """w ~ N(0, 1).

    >>> float(GaussianPrior().tilted(2.0, 1.0).mean)
    1.0
    """

    name: str = "gaussian"
    extent: float = 7.2

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.standard_normal(size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """ln g = b²/2(1 + Λ) − ln(1 + Λ)/2."""
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        variance = 1 / (1 + precision)
        return Tilted(0.5 * b**2 * variance - 0.5 * np.log1p(precision), b * variance, variance)

    @property
    def gaussian(self) -> bool:
        return True

    def row(self, n_classes: int) -> Row:
        return GaussianRow(self, n_classes)


@dataclass(frozen=True)
class SparseGaussianPrior(Prior):
    """w = 0 with probability 1 − ρ, else w ~ N(0, 1/ρ), so that the variance is 1.

    >>> SparseGaussianPrior(0.2).name
    'sparse-gaussian:0.2'
    """

    density: float
    name: str = field(init=False, default="")
    extent: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if not 1e-6 <= self.density < 1:
            raise InvalidInput(
                f"the density of sparse weights must be from 1e-6 to below 1, got {self.density!r}"
            )
        object.__setattr__(self, "name", f"sparse-gaussian:{float(self.density)!r}")
        object.__setattr__(self, "extent", 7.2 / math.sqrt(self.density))

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        weights = rng.standard_normal(size) / math.sqrt(self.density)
        return np.where(rng.random(size) < self.density, weights, 0.0)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """The slab's posterior N(μ, σ²), taken with probability π, else 0."""
        b, precision = np.asarray(b, float), np.asarray(precision, float)
        wide = 1 / self.density
        sigma2 = wide / (1 + precision * wide)
        mu = b * sigma2
        spike = math.log1p(-self.density)
        # ln of the odds of the slab; one exponential serves π and ln g.
        odds = 0.5 * b * mu + (math.log(self.density) - spike - 0.5 * np.log1p(precision * wide))
        small = np.exp(-np.abs(odds))
        p = np.where(odds > 0, 1.0, small) / (1 + small)
        log_g = np.maximum(odds, 0.0) + np.log1p(small) + spike
        return Tilted(log_g, p * mu, p * (sigma2 + (1 - p) * mu**2))


_RATE = math.sqrt(2)
_LEAST = 1e-13  # stands for Λ = 0, where the half integrals are 1/|x|
_FAR = -1e3


@dataclass(frozen=True)
class LaplacePrior(Prior):
    """p(w) = exp(−√2|w|)/√2.

    >>> round(float(LaplacePrior().tilted(0.0, 0.0).variance), 6)
    1.0
    """

    name: str = "laplace"
    extent: float = 20.0

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.laplace(scale=1 / _RATE, size=size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        root = np.sqrt(np.maximum(precision, _LEAST))
        up, down = _half(b - _RATE, root), _half(-b - _RATE, root)
        log_g = math.log(_RATE / 2) + np.logaddexp(up.log_g, down.log_g)
        p = expit(up.log_g - down.log_g)
        mean = p * up.mean - (1 - p) * down.mean
        between = p * (1 - p) * (up.mean + down.mean) ** 2
        return Tilted(log_g, mean, p * up.variance + (1 - p) * down.variance + between)


def _half(x: Array, root: Array) -> Tilted:
    """ln ∫_0^∞ exp(xw − Λw²/2) dw, and mean and variance of w there; root = √Λ."""
    a = x / root
    r = mills_ratio(a)
    slope = mills_slope(a, r)  # r(a + r)
    far = a < _FAR
    y = 1 / np.where(far, a, _FAR) ** 2
    # Far to the left the half is exponential: both forms below would cancel there.
    rest = np.where(far, y * (1 - 6 * y), 1 - slope)
    log_g = 0.5 * a**2 + log_ndtr(a) + 0.5 * math.log(2 * math.pi)
    log_g = np.where(far, -np.log(np.maximum(-a, 1.0)) - y, log_g)
    right = a > 0  # there r underflows, here a + r cancels
    mean = np.where(right, a + r, slope / np.where(right, 1.0, r))
    return Tilted(log_g - np.log(root), mean / root, rest / root**2)
