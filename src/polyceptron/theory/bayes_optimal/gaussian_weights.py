"""The weights side of Gaussian weights, in closed form for any spectrum of the features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher
from polyceptron.numerics.gauss_rule import gauss_rule
from polyceptron.theory.bayes_optimal.channel_table import Index

Array = NDArray[Any]


class GaussianWeights:
    """v = ⟨p/(1 + q̂p)⟩, ψ = −(r/2)⟨ln(1 + q̂p)⟩ with p = sθ over the features' spectrum.

    Whitened, only the products sθ matter; independent features have p = 1.
    """

    n_replicates = 0

    def __init__(self, teacher: AnyTeacher) -> None:
        self.teacher = teacher
        self.power, self.fraction = gauss_rule(teacher.features.power, teacher.features.fraction)

    def __call__(self, q_hat: Array, column: Index) -> tuple[Array, Array]:
        entropy = np.log1p(q_hat[..., None] * self.power) @ self.fraction
        return self.variance(q_hat), -0.5 * self.teacher.reduced_rank * entropy

    def variance(self, q_hat: Array) -> Array:
        """v alone."""
        return np.asarray((self.power / (1 + q_hat[..., None] * self.power)) @ self.fraction)

    def error(self, q_hat: float) -> float:
        """Nothing is lost."""
        return 0.0
