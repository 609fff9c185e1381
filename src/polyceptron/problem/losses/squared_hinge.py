"""The squared hinge: half the sum of the squared missed leads, smooth except for its curvature.

    ℓ(z, y) = Σ_h max(0, s_h)²/2,     a_h = (s_h − R)₊/(1 + V),     R = V Σ a_h

with s_h = 1 + z_h − z_y (`hinge_family.py`).
"""

from __future__ import annotations

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.losses.hinge_family import last_above, ranked_from_largest
from polyceptron.problem.losses.soft_margin import SoftMargin


class SquaredHinge(SoftMargin):
    """ℓ(z, y) = Σ_{h≠y} max(0, 1 + z_h − z_y)²/2.

    >>> SquaredHinge().value([[0.0, 1.0, 0.0]], [1]).tolist()
    [0.0]
    """

    name = "squared-hinge"
    pair = (1 / 6, 1 / 3)

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """Return ℓ (n,) and its derivatives in s, (n, k−1)."""
        above = np.maximum(s, 0.0)
        return (above**2).sum(1) / 2, above, (s > 0).astype(float)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """Return a_h (n, k−1) and −tr_⊥ ∂f = (n/c)(2c + (n−1)V)/(c + nV) (n,), c = 1 + V."""
        ranked = ranked_from_largest(s)
        rank = np.arange(1, s.shape[1] + 1)
        R, n = last_above(ranked, V * np.cumsum(ranked, axis=1) / (1 + V + V * rank))
        width = V[:, 0]
        trace = n * (2 + (n + 1) * width) / ((1 + width) * (1 + (n + 1) * width))
        return np.maximum(s - R[:, None], 0.0) / (1 + V), trace

    def row_kinks(self, V: float) -> list[float]:
        """Return gaps of s = 0, and of s = 1 + 2V and 1 + 3V, from where mistakes are made."""
        return [1.0, -2 * V, -3 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """Return y of two kinks: the second class acts (y < s(1 + V)/(1 + 2V)), a mistake."""
        s = 1 - gap
        mistaken = np.where(s > 1 + 2 * V, (1 + V) * (1 + 3 * V - s) / V, 0.0)
        return [s * (1 + V) / (1 + 2 * V), mistaken]
