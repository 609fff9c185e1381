"""The square loss on one-hot labels: everything about it is linear.

ℓ(z, y) = ‖z − e_y‖²/2,     f = (e_y − ω)/(1 + V),     −tr_⊥ ∂f = (k − 1)/(1 + V)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.problem.losses.base import Loss, broadcast, one_hot
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.problem.order import Decay, ScalarOrder


class SquareCoordinates(Coordinates):
    """The gaps themselves; training moves a margin g to (g + V)/(1 + V)."""

    def mistake_gap(self, V: float) -> float | None:
        """Return −V, where (g + V)/(1 + V) = 0."""
        return -V

    def fresh_margin(self, margin: Array, V: float) -> tuple[Array, float] | None:
        """Return g of (g + V)/(1 + V) = margin, in the shape of `margin`, and its slope."""
        return np.asarray(margin * (1 + V) - V), 1 + V


class SquareLoss(Loss):
    """ℓ(z, y) = ‖z − e_y‖²/2, with e_y the one-hot label, in all k coordinates."""

    name = "square"
    solver = "least-squares"

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ‖z − e_y‖²/2, shape (n,)."""
        return np.asarray((self.gradient(z, y) ** 2).sum(1) / 2)

    def gradient(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return z − e_y, shape (n, k)."""
        z, y, _ = broadcast(z, y, 1.0)
        return np.asarray(z - one_hot(y, z.shape[1]))

    def hessian(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return the identity for each sample, shape (n, k, k)."""
        z, y, _ = broadcast(z, y, 1.0)
        return np.broadcast_to(np.eye(z.shape[1]), (*z.shape, z.shape[1]))

    def denoise(self, omega: ArrayLike, y: ArrayLike, V: ArrayLike) -> tuple[Array, Array]:
        """Return f = (e_y − ω)/(1 + V), shape (n, k), and −tr_⊥ ∂f = (k − 1)/(1 + V), (n,)."""
        omega, y, V = broadcast(omega, y, V)
        f = (one_hot(y, omega.shape[1]) - omega) / (1 + V[:, None])
        return f, (omega.shape[1] - 1) / (1 + V)

    def without_ridge(self) -> Loss | None:
        """Return the loss itself: λ → 0⁺ is the interpolation of least norm, or least squares."""
        return self

    @property
    def coordinates(self) -> Coordinates:
        """The gaps, with the gap of a mistake known."""
        return SquareCoordinates(self)

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """Return M, Q, C and D of the fields side.

        With f = (e_y − ω)/(1 + V) on 1⊥, E‖e_y‖² = (k−1)/k and E e_y·ω = (k−1) m c there:

        M = c/(1+V),   Q = (1/k − 2mc + q)/(1+V)²,   C = 1/(1+V),   D = (mc/q − 1)/(1+V)
        """
        shrink = 1 / (1 + law.V)
        pull = signal * law.m
        Q = (1 / n_classes - 2 * pull + law.q) * shrink**2
        return signal * shrink, Q, shrink, (pull / law.q - 1) * shrink

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p = 1/2 and C = B_k σ/(πc), at any ridge.

        τ² → αc²/σ² with σ² = 1/k − c², c = E[max of k normals]/(k − 1).
        """
        c = mean_of_maximum(n_classes) / (n_classes - 1)
        spread = math.sqrt(1 / n_classes - c**2)
        return Decay(0.5, boundary_density(n_classes) * spread / (math.pi * c))
