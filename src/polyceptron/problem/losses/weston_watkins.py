"""The hinge of Weston and Watkins: every missed lead counts.

    ℓ(z, y) = Σ_h max(0, s_h),     a_h = clip((s_h − R)/V, 0, 1),     R = V Σ a_h

with s_h = 1 + z_h − z_y (`hinge_family.py`). Each pull is at most 1.
"""

from __future__ import annotations

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.losses.soft_margin import SoftMargin


class WestonWatkins(SoftMargin):
    """ℓ(z, y) = Σ_{h≠y} max(0, 1 + z_h − z_y).

    >>> WestonWatkins().value([[0.0, 0.0, 0.0]], [1]).tolist()
    [2.0]
    """

    name = "weston-watkins"
    pair = (0.5, 1.0)
    margin_atom = 1.0
    solver = "dual"

    def allowed(self, a: Array, most: Array) -> Array:
        """Return the dual variables (k, n) nearest to `a` that are between 0 and `most` (n,)."""
        return np.clip(a, 0.0, most)

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """Return ℓ (n,) and its derivatives in s, (n, k−1): 1 for each s_h above 0."""
        return np.maximum(s, 0.0).sum(1), (s > 0).astype(float), np.zeros_like(s)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """Return a_h (n, k−1) and −tr_⊥ ∂f = n/V (n,), n classes being neither at 0 nor at 1.

        R − V Σ a(R) is piecewise linear in R with ends at s_h (where a_h reaches 0) and s_h − V
        (where a_h leaves 1), and has one root.
        """
        m = s.shape[1]
        ends = np.concatenate([s, s - V], axis=1)
        order = np.argsort(ends, axis=1)
        ends = np.take_along_axis(ends, order, 1)
        sloping = np.cumsum(np.where(order < m, -1, 1), axis=1)  # classes above each end
        # R − V Σ a at the ends: below the first all pulls are 1.
        increments = np.diff(ends, axis=1) * (1 + sloping[:, :-1])
        heights = np.concatenate([0 * V, np.cumsum(increments, axis=1)], axis=1)
        off = ends[:, :1] - m * V + heights
        n_below = (off <= 0).sum(1)  # ends below the root
        rows = np.arange(len(s))
        start = ends[rows, n_below - 1]
        miss = off[rows, n_below - 1]
        n = np.where(n_below > 0, sloping[rows, n_below - 1], 0)
        R = np.where(n_below > 0, start - miss / (1 + n), m * V[:, 0])
        return np.clip((s - R[:, None]) / V, 0.0, 1.0), n / V[:, 0]

    def row_kinks(self, V: float) -> list[float]:
        """Return gaps of s = 0, and of s = 2V and 3V, from where the first class's pull is 1.

        Mistakes of training samples have the same two kinks at a margin of 0.
        """
        return [1.0, 1 - 2 * V, 1 - 3 * V, -2 * V, -3 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """Return y of three kinks: the second class acts, one pull is full, a mistake is made.

        The second class is active for y < s/2, or s − V; one pull is full at y = |s − 3V|.
        """
        s = 1 - gap
        first_full = s > 2 * V
        active = np.where(first_full, s - V, s / 2)
        full = np.where(first_full, np.abs(s - 3 * V), 0.0)
        mistaken = np.where((s > 1 + 2 * V) & (s < 1 + 3 * V), 2 + 3 * V - s, 0.0)
        return [active, full, mistaken]
