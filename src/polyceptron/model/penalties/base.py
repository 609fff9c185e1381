"""What a penalty is asked for: its minimiser on data, and the weights side of the theory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from polyceptron.model.denoisers import RowEstimate
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.model.registry import Registry


class Penalty(ABC):
    """P(u) of one row u of weights on class differences, unchanged by rotations of them."""

    name: ClassVar[str]

    @abstractmethod
    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """argmin_u Λ‖u‖²/2 − γ·u + P(u) at γ (..., k), and the trace of its derivative in γ."""

    @abstractmethod
    def law(self, hats: Hats, spectrum: Spectrum) -> Law:
        """m, q, V: the weights side of the theory, averaged over the features' spectrum."""


PENALTIES: Registry[Penalty] = Registry("penalty", Penalty)  # type: ignore[type-abstract]
