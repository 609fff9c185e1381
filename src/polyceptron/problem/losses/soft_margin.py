"""What hinges have in common that are finite inside the margin."""

from __future__ import annotations

from typing import ClassVar

from polyceptron.problem.losses.base import Loss
from polyceptron.problem.losses.decay import pair_decay
from polyceptron.problem.losses.hard_margin import MaxMargin
from polyceptron.problem.losses.hinge_family import HingeFamily
from polyceptron.problem.order import Decay


class SoftMargin(HingeFamily):
    """A hinge that is finite everywhere: its limits at λ → 0⁺ and at large α.

    `pair` holds ∫ℓ and ∫f_y² over the margins of two classes from 0 on, which set the tail of the
    error (`pair_decay`).
    """

    pair: ClassVar[tuple[float, float]]

    def without_ridge(self) -> Loss | None:
        """Return max-margin: the least weights of loss 0, wherever the data can be separated."""
        return MaxMargin()

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p = 1 without a ridge or at the best one, 2/3 at a fixed λ, and C."""
        total, squares = self.pair
        return pair_decay(ridge, n_classes, total, squares, pull=1.0)
