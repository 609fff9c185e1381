"""The multi-class hinge of Crammer and Singer: the largest missed lead counts.

    ℓ(z, y) = max(0, max_h s_h),     a_h = (s_h − c)₊/V,     Σ(s_h − c)₊ = min(c, V)

with s_h = 1 + z_h − z_y (`hinge_family.py`). The pulls of a sample sum to 1 at most.
"""

from __future__ import annotations

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.losses.hinge_family import last_above, ranked_from_largest
from polyceptron.problem.losses.soft_margin import SoftMargin


class Hinge(SoftMargin):
    """ℓ(z, y) = max_h(1[h≠y] + z_h) − z_y.

    >>> Hinge().value([[0.5, 0.0, -3.0]], [0]).tolist()
    [0.5]
    >>> Hinge().prox([[0.0, 0.0]], [0], 9.0).tolist()
    [[0.5, -0.5]]
    """

    name = "hinge"
    pair = (0.5, 1.0)
    margin_atom = 1.0
    solver = "dual"
    pooled = True

    def allowed(self, a: Array, most: Array) -> Array:
        """Return the dual variables (k, n) nearest to `a` of 0 or more with a sum up to `most`.

        `most` is (n,), one bound for each sample.
        """
        positive = np.maximum(a, 0.0)
        too_many = positive.sum(0) > most
        given = a[:, too_many].T
        ranked = ranked_from_largest(given)
        rank = np.arange(1, len(a) + 1)
        level, _ = last_above(ranked, (np.cumsum(ranked, 1) - most[too_many][:, None]) / rank)
        positive[:, too_many] = np.maximum(given - level[:, None], 0.0).T
        return positive

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """Return ℓ (n,) and its derivatives in s, (n, k−1): 1 for the largest s_h above 0."""
        largest = np.arange(s.shape[1]) == s.argmax(1)[:, None]
        slope = (largest & (s > 0)).astype(float)
        return np.maximum(s.max(1), 0.0), slope, np.zeros_like(s)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """Return a_h (n, k−1) and −tr_⊥ ∂f (n,)."""
        ranked = ranked_from_largest(s)
        total = np.cumsum(ranked, axis=1)
        rank = np.arange(1, s.shape[1] + 1)
        c, n = last_above(ranked, total / (rank + 1))  # Σ(s_h − c)₊ = c
        c_full, n_full = last_above(ranked, (total - V) / rank)  # Σ(s_h − c)₊ = V
        most = c > V[:, 0]  # samples whose label has all the pull that it can have
        c = np.where(most, c_full, c)
        n = np.where(most, n_full - 1, n)
        return np.maximum(s - c[:, None], 0.0) / V, n / V[:, 0]

    def row_kinks(self, V: float) -> list[float]:
        """Return gaps of s = 0, and of s = 2V (one class) and 3V/2 (two alike), the fullest pull.

        Mistakes of training samples have the same two kinks at a margin of 0.
        """
        return [1.0, 1 - 1.5 * V, 1 - 2 * V, -1.5 * V, -2 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """Return y of three kinks: the second class acts, the pull is full, a mistake is made.

        The second class is active for y < min(s/2, V); the pull is full for y < 2s − 3V.
        """
        s = 1 - gap
        full = np.where(s < 2 * V, 2 * s - 3 * V, 0.0)
        mistaken = np.where(s < 1 + 2 * V, 2 * (s - 1) - 3 * V, 0.0)
        return [np.minimum(s / 2, V), full, mistaken]
