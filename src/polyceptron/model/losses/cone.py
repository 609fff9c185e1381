"""The hard margin without a margin: the cone C_y = {z : z_y ≥ z_h for all h} of a label.

Its proximal map is the projection on the cone, and ‖f‖² the squared distance to it: what decides up
to which number of samples a rule with noise can be separated (`theory/separability.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.model.losses.base import Array, Loss, broadcast
from polyceptron.model.losses.max_margin import active_margins
from polyceptron.numerics.panels import merge_breaks


class LabelCone(Loss):
    """ℓ(z, y) = 0 where z_y ≥ z_h for all h, else ∞. Not an estimator: its minimiser is 0."""

    name = "label-cone"
    scale_free = True
    kinks = (0.0,)
    margin_floor = 0.0

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        lead = np.take_along_axis(z, y[:, None], 1) - z
        return np.where(lead.min(1) >= -1e-12, 0.0, np.inf)

    def gradient(self, z: Any, y: Any) -> Array:
        return np.zeros_like(np.asarray(z, dtype=float))

    def hessian(self, z: Any, y: Any) -> Array:
        z = np.asarray(z, dtype=float)
        return np.zeros((*z.shape, z.shape[1]))

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + active_margins(omega, y, 0.0)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        move, n_active = active_margins(omega, y, 0.0)
        return move / V[:, None], n_active / V

    def value_at_prox(self, z: Any, y: Any) -> Array:
        return np.zeros(len(np.asarray(z)))

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """f is linear below a gap of 0 and 0 above."""
        return merge_breaks([breaks], float(breaks[0]), float(breaks[-1]), keep=self.kinks)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """The worst loser is active for g₂ − g₁ < −g₁/2."""
        kink = np.clip(-row / 2, 0.0, breaks[-1])[:, None]
        columns = np.broadcast_to(breaks, (len(row), len(breaks)))
        return np.sort(np.concatenate([columns, kink], axis=1), axis=1)

    def mistake_gap(self, V: float) -> float | None:
        return -np.inf
