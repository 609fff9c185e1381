"""Hinges: losses that ask for a lead of κ = 1 over the other classes, and for no more.

With s_h = κ + z_h − z_y how much the lead over class h is missed by,

    hard margin        0 if all s_h ≤ 0, else ∞
    hinge              max(0, max_h s_h)                 Crammer and Singer
    weston-watkins     Σ_h max(0, s_h)
    squared-hinge      Σ_h max(0, s_h)²/2

All are 0 where every margin is at least 1: on separable data the limit λ → 0⁺ is max-margin, as it
is for cross-entropy. The pull is f_h = −a_h, f_y = Σ a_h, and with s_h now at ω, and R = V Σ a_h
the rise of the label,

    hard margin        a_h = (s_h − R)₊/V
    hinge              a_h = (s_h − c)₊/V,          Σ(s_h − c)₊ = min(c, V)
    weston-watkins     a_h = clip((s_h − R)/V, 0, 1)
    squared-hinge      a_h = (s_h − R)₊/(1 + V)

each a piecewise linear equation for one number, solved by sorting. With n classes on a sloping
piece −tr_⊥ ∂f = (n/c)(2c + (n−1)V)/(c + nV), c = V or 1 + V: n/V for the first three, and for a
hinge whose label has all the pull that it can have (c > V) one less of them.

Three classes have kinks along g₁ = ω_y − ω_1, and along y = g₂ − g₁ for each s = 1 − g₁: where an
a_h reaches an end of its range in these equations, or the margin at the proximal point is 0.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.orthant import other_classes
from polyceptron.problem.losses import coordinates as xy
from polyceptron.problem.losses.loss import Labels, Loss, broadcast, pair_decay
from polyceptron.problem.order import Decay


class HingeFamily(Loss):
    """What the hinges share: a missed lead, its pull, and what is known of the limits."""

    pair: ClassVar[tuple[float, float]]  # ∫ℓ, ∫f_y² over margins of two classes from 0 on
    lead: ClassVar[float] = 1.0  # κ

    def missed(self, z: Any, y: Any) -> tuple[Array, Labels]:
        """s_h of the other classes (n, k−1), and which classes these are (n, k−1)."""
        z, y, _ = broadcast(z, y, 1.0)
        others, rows = other_classes(y, z.shape[1]), np.arange(len(z))[:, None]
        return self.lead + z[rows, others] - z[rows, y[:, None]], others

    @abstractmethod
    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """a_h (n, k−1) and −tr_⊥ ∂f (n,) at s (n, k−1) and V (n, 1)."""

    @abstractmethod
    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """ℓ (n,), ∂ℓ/∂s_h and ∂²ℓ/∂s_h² (n, k−1)."""

    @abstractmethod
    def row_kinks(self, V: float) -> list[float]: ...
    @abstractmethod
    def column_kinks(self, gap: Array, V: float) -> list[Array]: ...

    @property
    def coordinates(self) -> xy.Coordinates:
        return xy.KinkedCoordinates(self, self.row_kinks, self.column_kinks)

    def value(self, z: Any, y: Any) -> Array:
        return self.parts(self.missed(z, y)[0])[0]

    def gradient(self, z: Any, y: Any) -> Array:
        s, others = self.missed(z, y)
        return -spread_pull(self.parts(s)[1], others, y)

    def hessian(self, z: Any, y: Any) -> Array:
        s, others = self.missed(z, y)
        n, k, bend = len(s), s.shape[1] + 1, self.parts(s)[2]
        rows, own, H = np.arange(n)[:, None], np.broadcast_to(y, n)[:, None], np.zeros((n, k, k))
        H[rows, others, others] = bend
        H[rows, own, others] = H[rows, others, own] = -bend
        H[rows, own, own] = bend.sum(1, keepdims=True)
        return H

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        s, others = self.missed(omega, y)
        a, trace = self.pulls(s, V[:, None])
        return spread_pull(a, others, y), trace

    def without_ridge(self) -> Loss | None:
        """Max-margin: the least weights of loss 0, wherever the data can be separated."""
        return MaxMargin()

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1 without a ridge or at the best one, 2/3 at a fixed λ."""
        return pair_decay(ridge, n_classes, *self.pair, pull=1.0)


class HardMargin(HingeFamily):
    """ℓ(z, y) = 0 where z_y − z_h ≥ κ for all h ≠ y, else ∞; f and ∂f are ∝ 1/V."""

    scale_free = True

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        return np.where(s.max(1) <= 1e-12, 0.0, np.inf), np.zeros_like(s), np.zeros_like(s)

    def allowed(self, a: Array, most: Any) -> Array:
        """The pulls (k, n) of weighted samples nearest to `a`: none is below 0."""
        return np.maximum(a, 0.0)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        ranked = -np.sort(-s, axis=1)
        # With the first j others active the label rises by R_j; class j is active if it exceeds it.
        R, n = last_above(ranked, np.cumsum(ranked, axis=1) / np.arange(2, s.shape[1] + 2))
        return np.maximum(s - R[:, None], 0.0) / V, n / V[:, 0]

    def without_ridge(self) -> Loss | None:
        return self

    def value_at_prox(self, z: Any, y: Any) -> Array:
        return np.zeros(len(np.asarray(z)))  # no training sample is inside the margin

    def row_kinks(self, V: float) -> list[float]:
        return [self.lead]  # f is linear below a gap of κ and 0 above

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        return [(self.lead - gap) / 2]  # the further class is active for y < s/2

    def additive(self, V: float) -> xy.AdditivePull | None:
        """The label's own field on a training sample is held; f ∝ 1/V."""
        return xy.MarginPull(V, self.lead)


class MaxMargin(HardMargin):
    """The margin 1: the hard-margin multi-class SVM, limit of cross-entropy without ridge."""

    name = "max-margin"
    margin_floor = 1.0
    solver = "max-margin"

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        return Decay(1.0)


class LabelCone(HardMargin):
    """The margin 0: the cone C_y = {z : z_y ≥ z_h for all h} of a label, from which ‖f‖ is the
    distance (`theory/separability.py`). Not an estimator: its minimiser is 0.
    """

    name = "label-cone"
    lead = margin_floor = 0.0


class Hinge(HingeFamily):
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
        """The pulls (k, n) nearest to `a` that are not below 0, with a sum up to `most` (n,)."""
        found = np.maximum(a, 0.0)
        full = found.sum(0) > most
        given, j = a[:, full].T, np.arange(1, len(a) + 1)
        ranked = -np.sort(-given, axis=1)
        level = last_above(ranked, (np.cumsum(ranked, 1) - most[full][:, None]) / j)[0]
        found[:, full] = np.maximum(given - level[:, None], 0.0).T
        return found

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        worst = np.arange(s.shape[1]) == s.argmax(1)[:, None]
        return np.maximum(s.max(1), 0.0), (worst & (s > 0)).astype(float), np.zeros_like(s)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        ranked = -np.sort(-s, axis=1)
        total, j = np.cumsum(ranked, axis=1), np.arange(1, s.shape[1] + 1)
        c, n = last_above(ranked, total / (j + 1))
        full, n_full = last_above(ranked, (total - V) / j)
        most = c > V[:, 0]
        c, n = np.where(most, full, c), np.where(most, n_full - 1, n)
        return np.maximum(s - c[:, None], 0.0) / V, n / V[:, 0]

    def row_kinks(self, V: float) -> list[float]:
        """s = 0, and 2V (of one class) and 3V/2 (of two alike) where the pull is all there is."""
        return [1.0, 1 - 1.5 * V, 1 - 2 * V, -1.5 * V, -2 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """The second class is active for y < min(s/2, V); the pull is all for y < 2s − 3V."""
        s = 1 - gap
        end = np.where(s < 2 * V, 2 * s - 3 * V, 0.0)
        mistaken = np.where(s < 1 + 2 * V, 2 * (s - 1) - 3 * V, 0.0)
        return [np.minimum(s / 2, V), end, mistaken]


class WestonWatkins(HingeFamily):
    """ℓ(z, y) = Σ_{h≠y} max(0, 1 + z_h − z_y).

    >>> WestonWatkins().value([[0.0, 0.0, 0.0]], [1]).tolist()
    [2.0]
    """

    name = "weston-watkins"
    pair = (0.5, 1.0)
    margin_atom = 1.0
    solver = "dual"

    def allowed(self, a: Array, most: Array) -> Array:
        """The pulls (k, n) nearest to `a` that are between 0 and `most` (n,)."""
        return np.clip(a, 0.0, most)

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        return np.maximum(s, 0.0).sum(1), (s > 0).astype(float), np.zeros_like(s)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        m = s.shape[1]
        ends = np.concatenate([s, s - V], axis=1)
        order = np.argsort(ends, axis=1)
        ends = np.take_along_axis(ends, order, 1)
        sloping = np.cumsum(np.where(order < m, -1, 1), axis=1)  # classes, above each end
        # R − V Σ a at the ends: below the first all pulls are full.
        rest = np.diff(ends, axis=1) * (1 + sloping[:, :-1])
        off = ends[:, :1] - m * V + np.concatenate([0 * V, np.cumsum(rest, axis=1)], axis=1)
        below = (off <= 0).sum(1)
        last = np.arange(len(s)), below - 1
        start, miss, n = ends[last], off[last], np.where(below > 0, sloping[last], 0)
        R = np.where(below > 0, start - miss / (1 + n), m * V[:, 0])
        return np.clip((s - R[:, None]) / V, 0.0, 1.0), n / V[:, 0]

    def row_kinks(self, V: float) -> list[float]:
        """s = 0, and 2V and 3V where the pull of the first class is all there is."""
        return [1.0, 1 - 2 * V, 1 - 3 * V, -2 * V, -3 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """The second class is active for y < s/2, or s − V; one pull is full at y = |s − 3V|."""
        s = 1 - gap
        one = s > 2 * V
        mistaken = np.where((s > 1 + 2 * V) & (s < 1 + 3 * V), 2 + 3 * V - s, 0.0)
        full = np.where(one, np.abs(s - 3 * V), 0.0)
        return [np.where(one, s - V, s / 2), full, mistaken]


class SquaredHinge(HingeFamily):
    """ℓ(z, y) = Σ_{h≠y} max(0, 1 + z_h − z_y)²/2.

    >>> SquaredHinge().value([[0.0, 1.0, 0.0]], [1]).tolist()
    [0.0]
    """

    name = "squared-hinge"
    pair = (1 / 6, 1 / 3)

    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        above = np.maximum(s, 0.0)
        return (above**2).sum(1) / 2, above, (s > 0).astype(float)

    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        ranked, j = -np.sort(-s, axis=1), np.arange(1, s.shape[1] + 1)
        R, n = last_above(ranked, V * np.cumsum(ranked, axis=1) / (1 + V + V * j))
        c, V = 1 + V, V[:, 0]
        trace = n * (2 + (n + 1) * V) / ((1 + V) * (1 + (n + 1) * V))
        return np.maximum(s - R[:, None], 0.0) / c, trace

    def row_kinks(self, V: float) -> list[float]:
        """s = 0, and mistakes from s = 1 + 2V or 1 + 3V on."""
        return [1.0, -2 * V, -3 * V]

    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """The second class is active for y < s(1 + V)/(1 + 2V)."""
        s = 1 - gap
        mistaken = np.where(s > 1 + 2 * V, (1 + V) * (1 + 3 * V - s) / V, 0.0)
        return [s * (1 + V) / (1 + 2 * V), mistaken]


def spread_pull(a: Array, others: Labels, y: Labels) -> Array:
    """f (n, k) of pulls a (n, k−1) away from the other classes."""
    rows, f = np.arange(len(a)), np.empty((len(a), a.shape[1] + 1))
    f[rows[:, None], others] = -a
    f[rows, y] = a @ np.ones(a.shape[1])
    return f


def last_above(ranked: Array, level: Array) -> tuple[Array, Array]:
    """The level (n,) of the last class that is above its own, 0 if none is, and how many are."""
    n = (ranked > level).sum(1)
    return np.where(n > 0, level[np.arange(len(n)), n - 1], 0.0), n
