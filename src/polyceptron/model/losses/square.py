"""The square loss on one-hot labels: least squares and ridge regression."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyceptron.model.law import Decay, Law
from polyceptron.model.losses.coordinates import Coordinates, LossCoordinates
from polyceptron.model.losses.loss import Loss, broadcast, one_hot
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density, mean_of_maximum


class _SquareCoordinates(LossCoordinates):
    def mistake_gap(self, V: float) -> float | None:
        """−V: training moves a margin g to (g + V)/(1 + V)."""
        return -V

    def fresh_margin(self, margin: Array, V: float) -> tuple[Array, float] | None:
        return np.asarray(margin * (1 + V) - V), 1 + V


class SquareLoss(Loss):
    """ℓ(z, y) = ‖z − e_y‖²/2, with e_y the one-hot label, in all k coordinates."""

    name = "square"
    solver = "least-squares"

    def value(self, z: Any, y: Any) -> Array:
        return np.asarray((self.gradient(z, y) ** 2).sum(1) / 2)

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.asarray(z - one_hot(y, z.shape[1]))

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.broadcast_to(np.eye(z.shape[1]), (*z.shape, z.shape[1]))

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        f = (one_hot(y, omega.shape[1]) - omega) / (1 + V[:, None])
        return f, (omega.shape[1] - 1) / (1 + V)

    def without_ridge(self) -> Loss | None:
        """The interpolation of least norm, or least squares: the loss itself."""
        return self

    @property
    def coordinates(self) -> Coordinates:
        """The gaps."""
        return _SquareCoordinates(self)

    def explicit_averages(
        self, law: Law, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """With f = (e_y − ω)/(1 + V) on 1⊥, E‖e_y‖² = (k−1)/k and E e_y·ω = (k−1) m c there:

        M = c/(1+V),   Q = (1/k − 2mc + q)/(1+V)²,   C = 1/(1+V),   D = (mc/q − 1)/(1+V)
        """
        shrink = 1 / (1 + law.V)
        pull = signal * law.m
        Q = (1 / n_classes - 2 * pull + law.q) * shrink**2
        return signal * shrink, Q, shrink, (pull / law.q - 1) * shrink

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1/2 and C = B_k σ/(πc) at any ridge.

        τ² → αc²/σ² with σ² = 1/k − c², c = E[max of k normals]/(k − 1).
        """
        c = mean_of_maximum(n_classes) / (n_classes - 1)
        spread = math.sqrt(1 / n_classes - c**2)
        return Decay(0.5, boundary_density(n_classes) * spread / (math.pi * c))
