"""Hard margins: every training sample must lead by κ, and the weights are the least that do.

    ℓ(z, y) = 0 where s_h = κ + z_h − z_y ≤ 0 for all h ≠ y, else ∞
    a_h = (s_h − R)₊/V,     R = V Σ a_h,     −tr_⊥ ∂f = n/V with n active constraints

`hinge_family.py` has the notation. f and ∂f are ∝ 1/V: V drops out of the equations, and any ridge.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.numerics import Array
from polyceptron.problem.losses.additive import AdditivePull, MarginPull
from polyceptron.problem.losses.base import Loss
from polyceptron.problem.losses.hinge_family import (
    HingeFamily,
    last_above,
    ranked_from_largest,
)
from polyceptron.problem.order import Decay

_MARGIN_ROUNDING = 1e-12  # by which a solver's fields may miss the margin


class HardMargin(HingeFamily):
    """ℓ(z, y) = 0 where z_y − z_h ≥ κ for all h ≠ y, else ∞; f and ∂f are ∝ 1/V."""

    scale_free = True

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """Return ℓ (n,), which is 0 or ∞, and derivatives (n, k−1) of 0."""
        value = np.where(s.max(1) <= _MARGIN_ROUNDING, 0.0, np.inf)
        return value, np.zeros_like(s), np.zeros_like(s)

    def allowed(self, a: Array, most: Array | float) -> Array:
        """Return the dual variables (k, n) nearest to `a` that are not below 0."""
        return np.maximum(a, 0.0)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """Return a_h (n, k−1) and n/V (n,) with n the number of active constraints."""
        ranked = ranked_from_largest(s)
        # With the first j others active the label rises by R_j; class j is active if it exceeds it.
        R, n = last_above(ranked, np.cumsum(ranked, axis=1) / np.arange(2, s.shape[1] + 2))
        return np.maximum(s - R[:, None], 0.0) / V, n / V[:, 0]

    def without_ridge(self) -> Loss | None:
        """Return the loss itself, which no ridge changes."""
        return self

    def value_at_prox(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return 0 for every sample (n,): no training sample is inside the margin."""
        return np.zeros(len(np.asarray(z)))

    def row_kinks(self, V: float) -> list[float]:
        """Return κ: f is linear below a gap of κ and 0 above."""
        return [self.lead]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """Return s/2: the further class is active for y < s/2."""
        return [(self.lead - gap) / 2]

    def additive(self, V: float) -> AdditivePull | None:
        """Return the pull given the label's own field on a training sample."""
        return MarginPull(V, self.lead)


class MaxMargin(HardMargin):
    """The margin 1: the hard-margin multi-class SVM, limit of cross-entropy without ridge."""

    name = "max-margin"
    margin_floor = 1.0
    solver = "max-margin"

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p = 1."""
        return Decay(1.0)


class LabelCone(HardMargin):
    """The margin 0: the cone C_y = {z : z_y ≥ z_h for all h} of a label, with ‖f‖ the distance.

    `theory/separability.py` needs it. It is no estimator: its minimiser is W = 0.
    """

    name = "label-cone"
    lead = 0.0
    margin_floor = 0.0
