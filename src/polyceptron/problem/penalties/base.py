"""A penalty P(u) of one row u of weights on class differences, and the weights side that it makes.

    u(γ, Λ) = argmin_u Λ‖u‖²/2 − γ·u + P(u)        on data: γ, Λ from message passing
    γ = m̂u* + √q̂ξ,  Λ = V̂                          in the theory: the averages m, q, V over u*, ξ

`ridge.py` and `elastic_net.py` are the members.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.problem.order import Conjugates, RowEstimate, ScalarOrder
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.registry import Registry
from polyceptron.problem.spectrum import Spectrum


class Penalty(ABC):
    """P(u) of one row u of weights on class differences, unchanged by rotations of them.

    Attributes
    ----------
    name : str
        With its numbers, as the registry reads it.
    strength : float
        Strength of the ridge from which the theory starts its search.
    quadratic : bool
        True for a ridge, for which equations have forms in which nothing cancels.
    convexity : float
        The largest μ for which P(u) − μ‖u‖²/2 is convex; it certifies a fit.
    """

    name: str
    strength: float
    quadratic: ClassVar[bool] = False
    convexity: float = 0.0

    def path(self) -> Iterable[Self]:
        """Yield penalties that lead from a ridge to this one, for where the direct way is lost."""
        return (self,)

    @abstractmethod
    def denoise(self, gamma: ArrayLike, precision: ArrayLike) -> RowEstimate:
        """Return argmin_u Λ‖u‖²/2 − γ·u + P(u) at γ (..., k), and the trace of its slope (...)."""

    def isotropic_law(self, hats: Conjugates, row: WeightsRow) -> ScalarOrder:
        """Return m, q, V of the weights side of independent features, given the teacher's row."""
        raise NotImplementedError(f"the penalty {self.name!r} has neither isotropic_law nor law")

    def law(self, hats: Conjugates, spectrum: Spectrum, row: WeightsRow) -> ScalarOrder:
        """Return m, q, V of the weights side over the features' spectrum.

        A coordinate of variance s and signal θ is one of independent features with m̂s√θ, q̂s and
        V̂s; its m, q and V count s√θ, s and s times.
        """
        if spectrum.isotropic:
            return self.isotropic_law(hats, row)
        m = 0.0
        q = 0.0
        V = 0.0
        levels = (spectrum.eigenvalues, spectrum.signal, spectrum.fraction)
        for s, theta, share in np.stack(levels, 1).tolist():
            signal_scale = math.sqrt(theta)
            level_hats = Conjugates(hats.m * s * signal_scale, hats.q * s, hats.V * s)
            level_law = self.isotropic_law(level_hats, row)
            m += share * s * signal_scale * level_law.m
            q += share * s * level_law.q
            V += share * s * level_law.V
        return ScalarOrder.of_overlaps(m, q, V)


PENALTIES: Registry[Penalty] = Registry("penalty", Penalty)
