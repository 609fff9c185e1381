"""What a penalty is asked for: its minimiser on data, and the weights side of the theory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from polyceptron.model.denoisers import RowEstimate
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.model.priors import Row
from polyceptron.model.registry import Registry


class Penalty(ABC):
    """P(u) of one row u of weights on class differences, unchanged by rotations of them."""

    name: ClassVar[str]
    strength: float
    """How strong it is; the theory starts its search from a ridge of this strength."""

    quadratic: ClassVar[bool] = False
    """Whether it is a ridge, for which the equations have forms in which nothing cancels."""

    @abstractmethod
    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """argmin_u Λ‖u‖²/2 − γ·u + P(u) at γ (..., k), and the trace of its derivative in γ."""

    @abstractmethod
    def law(self, hats: Hats, spectrum: Spectrum, row: Row) -> Law:
        """The weights side: m, q, V over the features' spectrum and a row of the teacher."""


PENALTIES: Registry[Penalty] = Registry("penalty", Penalty)  # type: ignore[type-abstract]
