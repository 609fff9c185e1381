"""What a penalty is asked for, its minimiser on data and the weights side of the theory; the ridge.

The ridge P(u) = (λ/2)‖u‖² has

    V = ⟨s/(λ + V̂s)⟩,   m = m̂⟨s²θ/(λ + V̂s)⟩,   q = ⟨s(m̂²s²θ + q̂s)/(λ + V̂s)²⟩

with s the variance of a feature, θ that of the teacher's weight along it and ⟨·⟩ the mean over
features (eq. SE for s = θ = 1). The teacher's prior enters by its variance only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from polyceptron.model.checks import check_ridge
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law, RowEstimate
from polyceptron.model.priors import Row
from polyceptron.model.registry import Registry
from polyceptron.numerics import Array


class Penalty(ABC):
    """P(u) of one row u of weights on class differences, unchanged by rotations of them."""

    name: str
    """With its numbers, as the registry reads it."""

    strength: float
    """How strong it is; the theory starts its search from a ridge of this strength."""

    quadratic: ClassVar[bool] = False
    """Whether it is a ridge, for which the equations have forms in which nothing cancels."""

    convexity: float = 0.0
    """μ of its strong convexity, P(u) − μ‖u‖²/2 convex: what certifies a fit."""

    def path(self) -> Iterable[Penalty]:
        """Penalties that lead from a ridge to this one, for where the direct way is lost."""
        return (self,)

    @abstractmethod
    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """argmin_u Λ‖u‖²/2 − γ·u + P(u) at γ (..., k), and the trace of its derivative in γ."""

    def isotropic_law(self, hats: Hats, row: Row) -> Law:
        """The weights side of independent features: m, q, V of a row of the teacher."""
        raise NotImplementedError(f"the penalty {self.name!r} has neither isotropic_law nor law")

    def law(self, hats: Hats, spectrum: Spectrum, row: Row) -> Law:
        """The weights side over the features' spectrum.

        A coordinate of variance s and signal θ is one of independent features with m̂s√θ, q̂s and
        V̂s; its m, q and V count s√θ, s and s times.
        """
        if spectrum.isotropic:
            return self.isotropic_law(hats, row)
        m = q = V = 0.0
        for s, theta, share in zip(
            *(part.tolist() for part in (spectrum.eigenvalues, spectrum.signal, spectrum.fraction)),
            strict=True,
        ):
            root = math.sqrt(theta)
            here = self.isotropic_law(Hats(hats.m * s * root, hats.q * s, hats.V * s), row)
            m, q, V = m + share * s * root * here.m, q + share * s * here.q, V + share * s * here.V
        return Law.of_overlaps(m, q, V)


def as_penalty(penalty: Any) -> Penalty:
    """A penalty, or what its name means.

    >>> as_penalty("ridge:0.1").strength
    0.1
    """
    return PENALTIES.read(penalty)


PENALTIES: Registry[Penalty] = Registry("penalty", Penalty)  # type: ignore[type-abstract]


@dataclass(frozen=True)
class Ridge(Penalty):
    """(λ/2)‖u‖².

    >>> Ridge(1.0).denoise(np.array([[2.0, -2.0]]), 1.0).mean.tolist()
    [[1.0, -1.0]]
    """

    strength: float
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", float(check_ridge(self.strength)))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"ridge:{self.strength!r}"

    @property
    def convexity(self) -> float:  # type: ignore[override]
        return self.strength

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """γ/(λ + Λ), and (k − 1)/(λ + Λ)."""
        gamma = np.asarray(gamma, dtype=float)
        V = 1 / (self.strength + np.asarray(precision, dtype=float))
        variance = np.broadcast_to((gamma.shape[-1] - 1) * V, gamma.shape[:-1])
        return RowEstimate(gamma * V[..., None], variance)

    def law(self, hats: Hats, spectrum: Spectrum, row: Row) -> Law:
        """m, q, V as above; q − m² is the noise's part plus the spread of s/(λ + V̂s) under sθ."""
        sums = spectrum_sums(self.strength, spectrum, np.array([hats.V]))
        m = hats.m * float(sums.mean[0])
        rest = hats.q * float(sums.norm[0]) + hats.m**2 * float(sums.spread[0])
        V = float(sums.response[0])
        return Law(m / math.sqrt(rest) if rest > 0 else 0.0, m * m + rest, V)


class SpectrumSums(NamedTuple):
    """Sums over the spectrum of x = s/(λ + V̂s), each (n,) for n values of V̂."""

    response: Array  # ⟨x⟩
    mean: Array  # ⟨sθ x⟩
    norm: Array  # ⟨x²⟩
    spread: Array  # ⟨sθ x²⟩ − ⟨sθ x⟩²
    shrinkage: Array  # ⟨sθ λ/(λ + V̂s)⟩ = 1 − V̂⟨sθ x⟩, of the signal


def spectrum_sums(ridge: float, spectrum: Spectrum, V_hat: Array) -> SpectrumSums:
    """The sums at V̂ (n,); nothing cancels in the spread or in the shrinkage."""
    if spectrum.isotropic:
        x = 1 / (ridge + V_hat)
        return SpectrumSums(x, x, x * x, 0 * x, ridge * x)
    (s, fraction), V = spectrum.by_feature, V_hat[:, None]
    every = s / (ridge + V * s)
    s, signal = spectrum.by_field
    h = 1 / (ridge + V * s)
    middle = float(signal @ s)  # x − x₀ = λ(s − s₀)/((λ + V̂s)(λ + V̂s₀))
    apart = (s - middle) * h * (ridge / (ridge + V_hat * middle))[:, None]
    apart = apart - (apart @ signal)[:, None]
    mean, spread = (s * h) @ signal, apart**2 @ signal
    return SpectrumSums(every @ fraction, mean, every**2 @ fraction, spread, ridge * (h @ signal))
