"""Flipped labels: with probability η another class, uniformly."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from polyceptron.errors import InvalidInput
from polyceptron.model.channels.base import Channel
from polyceptron.model.channels.gaussian_noise import GaussianNoise


@dataclass(frozen=True)
class Flips(GaussianNoise):
    """Z_l → (1 − η)Z_l + η(1 − Z_l)/(k − 1), that is a guess η' = η/(k − 1) in every class.

    >>> round(Flips(0.1).guess(3), 3)
    0.05
    """

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
