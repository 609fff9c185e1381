"""Hinges: losses that ask for a lead of κ = 1 over the other classes, and for no more.

With s_h = κ + z_h − z_y how much the lead over class h is missed by,

    hard margin        0 if all s_h ≤ 0, else ∞          `hard_margin.py`
    hinge              max(0, max_h s_h)                 `hinge.py`, Crammer and Singer
    weston-watkins     Σ_h max(0, s_h)                   `weston_watkins.py`
    squared-hinge      Σ_h max(0, s_h)²/2                `squared_hinge.py`

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

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.numerics import Array
from polyceptron.numerics.orthant import other_classes
from polyceptron.problem.losses.base import Loss, broadcast
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.problem.losses.kinked import KinkedCoordinates
from polyceptron.problem.losses.optional import Labels


class HingeFamily(Loss):
    """ℓ as a function of the missed leads s_h = κ + z_h − z_y.

    `lead` is κ. A member gives `parts`, `pulls` and its kinks; the rest is made from these.
    """

    lead: ClassVar[float] = 1.0

    @abstractmethod
    def pulls(self, s: Array, V: Array) -> tuple[Array, Array]:
        """Return a_h (n, k−1) and −tr_⊥ ∂f (n,) at s (n, k−1) and V (n, 1)."""

    @abstractmethod
    def parts(self, s: Array) -> tuple[Array, Array, Array]:
        """Return ℓ (n,), ∂ℓ/∂s_h and ∂²ℓ/∂s_h², both (n, k−1), at s (n, k−1)."""

    @abstractmethod
    def row_kinks(self, V: float) -> list[float]:
        """Return the gaps g₁ at which something of the loss has a kink (see the module)."""

    @abstractmethod
    def column_kinks(self, gap: Array, V: float) -> list[Array]:
        """Return the values (n,) of y = g₂ − g₁ of kinks at gaps g₁ (n,), for three classes."""

    def missed(self, z: ArrayLike, y: ArrayLike) -> tuple[Array, Labels]:
        """Return s_h of the other classes and which classes these are, both (n, k−1)."""
        z, y, _ = broadcast(z, y, 1.0)
        others = other_classes(y, z.shape[1])
        rows = np.arange(len(z))[:, None]
        return self.lead + z[rows, others] - z[rows, y[:, None]], others

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ℓ(z, y), shape (n,)."""
        s, _ = self.missed(z, y)
        return self.parts(s)[0]

    def gradient(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return a subgradient in z, shape (n, k)."""
        s, others = self.missed(z, y)
        return -spread_pull(self.parts(s)[1], others, np.asarray(y, np.int64))

    def hessian(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ∇²_z ℓ away from the kinks, shape (n, k, k)."""
        s, others = self.missed(z, y)
        n = len(s)
        k = s.shape[1] + 1
        bend = self.parts(s)[2]
        rows = np.arange(n)[:, None]
        own = np.broadcast_to(np.asarray(y, np.int64), n)[:, None]
        H = np.zeros((n, k, k))
        H[rows, others, others] = bend
        H[rows, own, others] = -bend
        H[rows, others, own] = -bend
        H[rows, own, own] = bend.sum(1, keepdims=True)
        return H

    def denoise(self, omega: ArrayLike, y: ArrayLike, V: ArrayLike) -> tuple[Array, Array]:
        """Return the pull f (n, k) and −tr_⊥ ∂f (n,)."""
        omega, y, V = broadcast(omega, y, V)
        s, others = self.missed(omega, y)
        a, trace = self.pulls(s, V[:, None])
        return spread_pull(a, others, y), trace

    @property
    def coordinates(self) -> Coordinates:
        """Coordinates in which the kinks are whole numbers."""
        return KinkedCoordinates(self, self.row_kinks, self.column_kinks)


def spread_pull(a: Array, others: Labels, y: Labels) -> Array:
    """Return f (n, k) of labels y (n,), from pulls a (n, k−1) away from the other classes."""
    rows = np.arange(len(a))
    f = np.empty((len(a), a.shape[1] + 1))
    f[rows[:, None], others] = -a
    f[rows, y] = a @ np.ones(a.shape[1])
    return f


def last_above(ranked: Array, level: Array) -> tuple[Array, Array]:
    """Return the level (n,) of the last class that is above its own, and how many are (n,).

    `ranked` (n, j) are sorted from the largest on, `level` (n, j) is the level that class j would
    have to exceed; the level is 0 where no class is above.
    """
    n_above = (ranked > level).sum(1)
    last_level = level[np.arange(len(n_above)), n_above - 1]
    return np.where(n_above > 0, last_level, 0.0), n_above


def ranked_from_largest(s: Array) -> Array:
    """Return each row of s (n, j) sorted from the largest on."""
    return -np.sort(-s, axis=1)
