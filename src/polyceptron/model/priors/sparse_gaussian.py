"""Sparse Gaussian weights: zero with probability 1 − ρ, else N(0, 1/ρ) (Gauss–Bernoulli)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.priors.base import Prior, Tilted
from polyceptron.numerics import Array


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
