"""The hard margin: what cross-entropy becomes without a ridge, on data that can be separated."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.model.losses.base import Array, Labels, Loss, broadcast
from polyceptron.model.registry import Entry
from polyceptron.numerics.panels import merge_breaks


class MaxMargin(Loss):
    """ℓ(z, y) = 0 where z_y − z_h ≥ 1 for all h ≠ y, else ∞: the hard-margin multi-class SVM.

    It is the limit of cross-entropy without ridge. The prox is the projection on the allowed set;
    f and its derivative depend on V by the factor 1/V only.
    """

    name = "max-margin"
    scale_free = True
    kinks = (1.0,)
    margin_floor = 1.0
    solver = "max-margin"

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        gap = np.take_along_axis(z, y[:, None], 1) - z
        np.put_along_axis(gap, y[:, None], np.inf, 1)
        return np.where(gap.min(1) >= 1 - 1e-12, 0.0, np.inf)

    def gradient(self, z: Any, y: Any) -> Array:
        return np.zeros_like(np.asarray(z, dtype=float))

    def hessian(self, z: Any, y: Any) -> Array:
        z = np.asarray(z, dtype=float)
        return np.zeros((*z.shape, z.shape[1]))

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + active_margins(omega, y)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        move, n_active = active_margins(omega, y)
        return move / V[:, None], n_active / V

    def without_ridge(self) -> Loss | None:
        """Itself."""
        return self

    def decay(self, ridge: float | str) -> float | None:
        """1."""
        return 1.0

    def value_at_prox(self, z: Any, y: Any) -> Array:
        """0: no training sample is inside the margin."""
        return np.zeros(len(np.asarray(z)))

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """f is linear below a gap of 1 and 0 above."""
        return merge_breaks([breaks], float(breaks[0]), float(breaks[-1]), keep=self.kinks)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """The worst loser is active for g₂ − g₁ < (1 − g₁)/2."""
        kink = np.clip((1 - row) / 2, 0.0, breaks[-1])[:, None]
        columns = np.broadcast_to(breaks, (len(row), len(breaks)))
        return np.sort(np.concatenate([columns, kink], axis=1), axis=1)

    def mistake_gap(self, V: float) -> float | None:
        """None is."""
        return -np.inf


def active_margins(omega: Array, y: Labels, margin: float = 1.0) -> tuple[Array, Array]:
    """prox − ω (n, k) of the hard margin κ and the number of active constraints (n,).

    z_y = t, z_h = min(ω_h, t − κ), t = (ω_y + Σ_active(ω_h + κ))/(1 + #active).
    """
    n, k = omega.shape
    order = np.arange(k - 1)
    others = order + (order >= y[:, None])
    lifted = np.take_along_axis(omega, others, 1) - np.take_along_axis(omega, y[:, None], 1)
    lifted += margin
    ranked = -np.sort(-lifted, axis=1)
    # With the first j losers active the winner moves up by t_j; loser j is active if it exceeds it.
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


ENTRY: Entry[Loss] = Entry(
    "max-margin", "hard-margin multi-class SVM", MaxMargin, label="max-margin"
)
