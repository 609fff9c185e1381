"""w ~ N(0, 1): every posterior is in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.model.priors.base import GaussianRow, Prior, Row, Tilted
from polyceptron.numerics import Array


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
