"""The square loss on one-hot labels: least squares and ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.model.losses.base import Array, Loss, broadcast, one_hot
from polyceptron.model.registry import Entry


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

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray((omega + V[:, None] * one_hot(y, omega.shape[1])) / (1 + V[:, None]))

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        f = (one_hot(y, omega.shape[1]) - omega) / (1 + V[:, None])
        return f, (omega.shape[1] - 1) / (1 + V)

    def without_ridge(self) -> Loss | None:
        """The interpolation of least norm, or least squares: the loss itself."""
        return self

    def decay(self, ridge: float | str) -> float | None:
        """1/2 at any ridge."""
        return 0.5


ENTRY: Entry[Loss] = Entry(
    "square", "squared distance to the one-hot label", SquareLoss, label="square loss"
)
