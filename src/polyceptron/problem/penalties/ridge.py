"""The ridge P(u) = (λ/2)‖u‖², whose weights side is a sum over the spectrum.

    V = ⟨s/(λ + V̂s)⟩,   m = m̂⟨s²θ/(λ + V̂s)⟩,   q = ⟨s(m̂²s²θ + q̂s)/(λ + V̂s)²⟩

with s the variance of a feature, θ that of the teacher's weight along it and ⟨·⟩ the mean over
features (eq. SE for s = θ = 1). The teacher's prior enters by its variance only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import check_ridge
from polyceptron.numerics import Array
from polyceptron.problem.order import Conjugates, RowEstimate, ScalarOrder
from polyceptron.problem.penalties.base import Penalty
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.spectrum import Spectrum


@dataclass(frozen=True)
class Ridge(Penalty):
    """(λ/2)‖u‖².

    >>> Ridge(1.0).denoise(np.array([[2.0, -2.0]]), 1.0).mean.tolist()
    [[1.0, -1.0]]
    """

    strength: float
    name: str = field(init=False, repr=False, compare=False)
    convexity: float = field(init=False, repr=False, compare=False)
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        strength = float(check_ridge(self.strength))
        object.__setattr__(self, "strength", strength)
        object.__setattr__(self, "name", f"ridge:{strength!r}")
        object.__setattr__(self, "convexity", strength)

    def denoise(self, gamma: ArrayLike, precision: ArrayLike) -> RowEstimate:
        """Return γ/(λ + Λ), shape (..., k), and (k − 1)/(λ + Λ), shape (...)."""
        gamma = np.asarray(gamma, dtype=float)
        V = 1 / (self.strength + np.asarray(precision, dtype=float))
        variance = np.broadcast_to((gamma.shape[-1] - 1) * V, gamma.shape[:-1])
        return RowEstimate(gamma * V[..., None], variance)

    def law(self, hats: Conjugates, spectrum: Spectrum, row: WeightsRow) -> ScalarOrder:
        """Return m, q, V as above.

        q − m² is the noise's part plus the spread of s/(λ + V̂s) under sθ, so that nothing cancels
        where ρ → 1.
        """
        sums = spectrum_sums(self.strength, spectrum, np.array([hats.V]))
        m = hats.m * float(sums.mean[0])
        residual = hats.q * float(sums.norm[0]) + hats.m**2 * float(sums.spread[0])
        tau = 0.0
        if residual > 0:
            tau = m / math.sqrt(residual)
        return ScalarOrder(tau, m * m + residual, float(sums.response[0]))


class SpectrumSums(NamedTuple):
    """Sums over the spectrum of x = s/(λ + V̂s), each (n,) for n values of V̂."""

    response: Array  # ⟨x⟩
    mean: Array  # ⟨sθ x⟩
    norm: Array  # ⟨x²⟩
    spread: Array  # ⟨sθ x²⟩ − ⟨sθ x⟩²
    shrinkage: Array  # ⟨sθ λ/(λ + V̂s)⟩ = 1 − V̂⟨sθ x⟩, of the signal


def spectrum_sums(ridge: float, spectrum: Spectrum, V_hat: Array) -> SpectrumSums:
    """Return the sums over a spectrum at V̂ (n,); nothing cancels in the spread or the shrinkage."""
    if spectrum.isotropic:
        x = 1 / (ridge + V_hat)
        return SpectrumSums(x, x, x * x, 0 * x, ridge * x)
    V = V_hat[:, None]
    s, fraction = spectrum.feature_quadrature
    every = s / (ridge + V * s)
    s, signal = spectrum.field_quadrature
    h = 1 / (ridge + V * s)
    mean = (s * h) @ signal
    # The spread from x − x₀ = λ(s − s₀)/((λ + V̂s)(λ + V̂s₀)) with s₀ the mean of s under sθ.
    middle = float(signal @ s)
    apart = (s - middle) * h * (ridge / (ridge + V_hat * middle))[:, None]
    apart = apart - (apart @ signal)[:, None]
    spread = apart**2 @ signal
    return SpectrumSums(every @ fraction, mean, every**2 @ fraction, spread, ridge * (h @ signal))
