"""Cross-entropy of the softmax: what multinomial logistic regression minimises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from polyceptron.model.losses import softmax_coordinates as proximal
from polyceptron.model.losses.additive import AdditivePull, SoftmaxPull
from polyceptron.model.losses.base import Array, Loss, broadcast
from polyceptron.model.losses.coordinates import Placed, Plane, Pull
from polyceptron.model.losses.max_margin import MaxMargin
from polyceptron.model.registry import Entry
from polyceptron.numerics.normal_max import boundary_density
from polyceptron.numerics.softmax_prox import softmax_prox

_LARGE = 20.0  # V from which rows of one gap need more nodes than they have
_WIDE = 0.3  # of the labels in A, from which rows of one A serve them


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"
    solver = "softmax"

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return -np.asarray(np.take_along_axis(log_softmax(z, axis=1), y[:, None], 1)[:, 0])

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(log_softmax(z, axis=1))
        rest = np.where(np.arange(z.shape[1]) == y[:, None], 0.0, p)
        np.put_along_axis(rest, y[:, None], -rest.sum(1, keepdims=True), 1)  # p_y − 1, exactly
        return rest

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(log_softmax(z, axis=1))
        return np.asarray(p[:, :, None] * np.eye(z.shape[1]) - p[:, :, None] * p[:, None, :])

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + V[:, None] * softmax_prox(omega, y, V)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        return softmax_prox(*broadcast(omega, y, V))

    def without_ridge(self) -> Loss | None:
        """Max-margin in direction, wherever the data can be separated."""
        return MaxMargin()

    def probabilities(self, z: Any) -> Array | None:
        """The softmax."""
        return np.asarray(softmax(np.asarray(z, dtype=float), axis=1))

    def decay(self, ridge: float | str) -> float | None:
        """2/3 at a fixed ridge (the norm grows as (α/λ)^(1/3)), 1 without or at the best one."""
        return 1.0 if ridge in (0, "optimal") else 2 / 3

    def decay_constant(self, n_classes: int, ridge: float | str) -> float | None:
        """At fixed λ, from pairs of classes: C_k = B_k^(1/3) (k − 1)^(2/3) C₂."""
        if ridge in (0, "optimal"):
            return None
        pairs = boundary_density(n_classes) * (n_classes - 1) ** 2
        return pairs ** (1 / 3) * two_class_constant(float(ridge))

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        return proximal.pull_at_gaps(gaps, V)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        return proximal.line_breaks(breaks, V)

    def on_line(self, x: Array, V: float) -> Placed:
        return proximal.on_line(x, V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        return proximal.plane_breaks(row, breaks, V)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        return proximal.on_plane(row, y, V)

    def wide_plane(self, width: float, V: float) -> Plane | None:
        """For labels of scale 1 in A, ∂a/∂A ≈ 1 + A₀ at the boundary."""
        if V < _LARGE or width < _WIDE * (1 + proximal.boundary(V)):
            return None
        return proximal.WidePlane()

    def additive(self, V: float) -> AdditivePull | None:
        """The log-normaliser at the proximal point is held."""
        return SoftmaxPull(V)

    def mistake_gap(self, V: float) -> float | None:
        """−V: at z₁ = z₂ the gap is −V(1 − p₁ + p₂) = −V wherever the others are."""
        return -V


def two_class_constant(ridge: float) -> float:
    """C₂ at fixed λ: (λ^(1/6)/π) √((2 ln 2 − 1)√π/κ), κ = (π^(3/2)/12)^(1/3).

    A student aligned with the teacher has mean loss π^(3/2)/(12√q); with the ridge λq/2 that puts
    the norm at √q = κ(α/λ)^(1/3). There V → 0, M → 1/√π and Q → (2 ln 2 − 1)/√(πq) in τ² = αM²/Q.
    """
    kappa = (math.pi**1.5 / 12) ** (1 / 3)
    spread = (2 * math.log(2) - 1) * math.sqrt(math.pi) / kappa
    return ridge ** (1 / 6) / math.pi * math.sqrt(spread)


ENTRY: Entry[Loss] = Entry(
    "cross-entropy", "softmax cross-entropy", CrossEntropy, label="cross-entropy"
)
