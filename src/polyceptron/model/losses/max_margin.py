"""The hard margin: what cross-entropy becomes without a ridge, on data that can be separated."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from polyceptron.model.law import Decay
from polyceptron.model.losses.base import Labels, Loss, broadcast
from polyceptron.model.losses.coordinates import (
    AdditivePull,
    Coordinates,
    LossCoordinates,
    MarginPull,
)
from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks


class _MarginCoordinates(LossCoordinates):
    resolved = True
    loss: HardMargin

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """f is linear below a gap of κ and 0 above."""
        low, high = float(breaks[0]), float(breaks[-1])
        return blend_breaks([breaks], low, high, keep=(self.loss.margin_floor,))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """The further class is active for g₂ − g₁ < (κ − g₁)/2."""
        kink = np.clip((self.loss.margin_floor - row) / 2, 0.0, breaks[-1])[:, None]
        columns = np.broadcast_to(breaks, (len(row), len(breaks)))
        return np.sort(np.concatenate([columns, kink], axis=1), axis=1)

    def mistake_gap(self, V: float) -> float | None:
        """None is mistaken."""
        return -np.inf


class HardMargin(Loss):
    """ℓ(z, y) = 0 where z_y − z_h ≥ κ for all h ≠ y, else ∞.

    The prox is the projection on the allowed set; f and its derivative depend on V by the factor
    1/V only.
    """

    scale_free = True
    margin_floor: ClassVar[float]  # κ

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        gap = np.take_along_axis(z, y[:, None], 1) - z
        np.put_along_axis(gap, y[:, None], np.inf, 1)
        return np.where(gap.min(1) >= self.margin_floor - 1e-12, 0.0, np.inf)

    def gradient(self, z: Any, y: Any) -> Array:
        return np.zeros_like(np.asarray(z, dtype=float))

    def hessian(self, z: Any, y: Any) -> Array:
        z = np.asarray(z, dtype=float)
        return np.zeros((*z.shape, z.shape[1]))

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + active_margins(omega, y, self.margin_floor)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        move, n_active = active_margins(omega, y, self.margin_floor)
        return move / V[:, None], n_active / V

    def value_at_prox(self, z: Any, y: Any) -> Array:
        """0: no training sample is inside the margin."""
        return np.zeros(len(np.asarray(z)))

    @property
    def coordinates(self) -> Coordinates:
        """The gaps, in panels that end where a constraint begins to act."""
        return _MarginCoordinates(self)

    def additive(self, V: float) -> AdditivePull | None:
        """The label's own field on a training sample is held; f ∝ 1/V."""
        return MarginPull(V, self.margin_floor)


class MaxMargin(HardMargin):
    """The margin 1: the hard-margin multi-class SVM, limit of cross-entropy without ridge."""

    name = "max-margin"
    margin_floor = 1.0
    solver = "max-margin"

    def without_ridge(self) -> Loss | None:
        """Itself."""
        return self

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1."""
        return Decay(1.0)


class LabelCone(HardMargin):
    """The margin 0: the cone C_y = {z : z_y ≥ z_h for all h} of a label.

    ‖f‖² is the squared distance to it, which decides up to which number of samples a rule with
    noise can be separated (`theory/separability.py`). Not an estimator: its minimiser is 0.
    """

    name = "label-cone"
    margin_floor = 0.0


def active_margins(omega: Array, y: Labels, margin: float) -> tuple[Array, Array]:
    """prox − ω (n, k) of the hard margin κ and the number of active constraints (n,).

    z_y = t, z_h = min(ω_h, t − κ), t = (ω_y + Σ_active(ω_h + κ))/(1 + #active).
    """
    n, k = omega.shape
    order = np.arange(k - 1)
    others = order + (order >= y[:, None])
    lifted = np.take_along_axis(omega, others, 1) - np.take_along_axis(omega, y[:, None], 1)
    lifted += margin
    ranked = -np.sort(-lifted, axis=1)
    # With the first j others active the label moves up by t_j; class j is active if it exceeds it.
    t = np.cumsum(ranked, axis=1) / (2 + order)
    n_active = (ranked > t).sum(1)
    rise = np.where(
        n_active > 0, np.take_along_axis(t, np.maximum(n_active - 1, 0)[:, None], 1)[:, 0], 0.0
    )
    move = np.empty((n, k))
    np.put_along_axis(
        move, others, np.minimum(rise[:, None] - lifted, 0.0) * (n_active > 0)[:, None], 1
    )
    np.put_along_axis(move, y[:, None], rise[:, None], 1)
    return move, n_active.astype(float)
