"""What a penalty is asked for: its minimiser on data, and the weights side of the theory."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law, RowEstimate
from polyceptron.model.priors import Row
from polyceptron.model.registry import Registry


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

    sparse: ClassVar[bool] = False
    """Whether it sets whole rows to zero."""

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
