"""Gaussian noise on the fields, y = argmax(z + √Δ ξ), and flipped labels.

Δ = 0 is the noiseless rule of the paper. A Gaussian on a Gaussian: every formula of the noiseless
channel holds with v replaced by v + Δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from polyceptron.errors import InvalidInput
from polyceptron.model.channels.channel import SHARP, Channel, UtilityLaw
from polyceptron.numerics import Array
from polyceptron.numerics.orthant import (
    Orthant,
    Winning,
    argmax_orthant,
    win_probabilities,
    winning_chance,
)
from polyceptron.numerics.special import mean_of_maximum, mills_ratio

_REACH = 9.5  # standard deviations beyond which a normal variable is never found


@dataclass(frozen=True)
class GaussianNoise(Channel):
    """y = argmax(z + √Δ ξ), Δ the variance of the noise in each class."""

    variance: float = 0.0
    name: str = field(init=False, default="none")

    def __post_init__(self) -> None:
        if not (math.isfinite(self.variance) and 0 <= self.variance <= 1e12):
            raise InvalidInput(
                f"the variance of gaussian noise must be from 0 to 1e12, got {self.variance!r}"
            )
        name = f"gaussian:{self.variance!r}" if self.variance > 0 else "none"
        object.__setattr__(self, "name", name.removesuffix(".0"))

    @property
    def noiseless(self) -> bool:
        return self.variance == 0

    @property
    def utility_variance(self) -> float | None:
        return self.variance

    def behind(self, hidden: float) -> Channel:
        return GaussianNoise((self.variance + hidden) / (1 - hidden)) if hidden > 0 else self

    def width(self, variance: float) -> float:
        return math.sqrt(variance + self.variance)

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        if self.variance == 0:
            return fields
        return fields + math.sqrt(self.variance) * rng.standard_normal(fields.shape)

    def utility(self, omega: Array, label: Any, variance: Any, order: int) -> Orthant:
        return argmax_orthant(omega, label, variance + self.variance, order=order)

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        return winning_chance(gaps, self.width(variance))

    def utility_chances(self, fields: Array, variance: float) -> Array:
        if fields.shape[-1] <= 3:
            return super().utility_chances(fields, variance)
        return win_probabilities(fields / self.width(max(variance, SHARP)))

    def utility_law(self, variance: float) -> UtilityLaw:
        width = self.width(variance)

        def values(y: Array) -> tuple[Array, Array]:
            z = y / width
            return np.asarray(log_ndtr(z)), mills_ratio(z) / width

        return UtilityLaw(-_REACH * width, _REACH * width, values)

    def utility_signal(self, n_classes: int) -> float:
        """E[max of k normals]/(k−1), less the noise's share of the maximum."""
        return mean_of_maximum(n_classes) / ((n_classes - 1) * math.sqrt(1 + self.variance))

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """The clean error at the correlation of student and utilities."""
        return clean(self._seen(tau))

    def utility_tau(self, tau: float) -> float | None:
        return float(self._seen(np.asarray(tau)))

    def _seen(self, tau: Array) -> Array:
        """τ' = ρ/√(1 + Δ − ρ²) at the correlation ρ/√(1 + Δ), with ρ² = τ²/(1 + τ²)."""
        return np.asarray(tau / np.sqrt(1 + self.variance * (1 + tau**2)))


@dataclass(frozen=True)
class Flips(GaussianNoise):
    """Z_l → (1 − η)Z_l + η(1 − Z_l)/(k − 1), that is a guess η' = η/(k − 1) in every class."""

    variance: float = field(init=False, default=0.0)
    rate: float = 0.0
    name: str = field(init=False, default="")

    def __init__(self, rate: float, variance: float = 0.0) -> None:
        if not (math.isfinite(rate) and 0 < rate < 1):
            raise InvalidInput(f"the rate of flips must be between 0 and 1 − 1/k, got {rate!r}")
        object.__setattr__(self, "variance", float(variance))  # of the fields, before any flip
        object.__setattr__(self, "rate", float(rate))
        object.__setattr__(self, "name", f"flips:{float(rate)!r}")

    @property
    def noiseless(self) -> bool:
        return False

    def behind(self, hidden: float) -> Channel:
        return Flips(self.rate, hidden / (1 - hidden)) if hidden > 0 else self

    def guess(self, n_classes: int) -> float:
        a = self.rate / (n_classes - 1)
        if n_classes * a >= 1:
            raise InvalidInput(
                f"a rate of flips of {self.rate:g} leaves no rule among {n_classes} classes: "
                f"it must be below {1 - 1 / n_classes:g}"
            )
        return a
