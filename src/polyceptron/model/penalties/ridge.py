"""The ridge: P(u) = (λ/2)‖u‖².

    V = ⟨s/(λ + V̂s)⟩,   m = m̂⟨s²θ/(λ + V̂s)⟩,   q = ⟨s(m̂²s²θ + q̂s)/(λ + V̂s)²⟩

with s the variance of a feature, θ that of the teacher's weight along it and ⟨·⟩ the mean over
features (eq. SE for s = θ = 1). The teacher's prior enters by its variance only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polyceptron.model.checks import check_ridge
from polyceptron.model.denoisers import RowEstimate
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.model.penalties.base import Penalty
from polyceptron.model.priors import Row
from polyceptron.model.registry import Entry


@dataclass(frozen=True)
class Ridge(Penalty):
    """(λ/2)‖u‖².

    >>> Ridge(1.0).denoise(np.array([[2.0, -2.0]]), 1.0).mean.tolist()
    [[1.0, -1.0]]
    """

    strength: float
    name: ClassVar[str] = "ridge"
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", float(check_ridge(self.strength)))

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """γ/(λ + Λ), and (k − 1)/(λ + Λ)."""
        gamma = np.asarray(gamma, dtype=float)
        V = 1 / (self.strength + np.asarray(precision, dtype=float))
        variance = np.broadcast_to((gamma.shape[-1] - 1) * V, gamma.shape[:-1])
        return RowEstimate(gamma * V[..., None], variance)

    def law(self, hats: Hats, spectrum: Spectrum, row: Row) -> Law:
        """m, q, V as above; q − m² is the noise's part plus the spread of s/(λ + V̂s) under sθ."""
        s, fraction = spectrum.eigenvalues, spectrum.fraction
        signal = fraction * s * spectrum.signal  # shares of the teacher's field, which sum to 1
        response = s / (self.strength + hats.V * s)
        mean = float(signal @ response)
        m = hats.m * mean
        rest = hats.q * float(fraction @ response**2)
        rest += hats.m**2 * float(signal @ (response - mean) ** 2)
        V = float(fraction @ response)
        return Law(m / math.sqrt(rest) if rest > 0 else 0.0, m * m + rest, V)


ENTRY: Entry[Penalty] = Entry("ridge", "(λ/2) times the squared norm", Ridge, ("strength",), (0.1,))
