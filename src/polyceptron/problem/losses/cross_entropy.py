"""Cross-entropy of the softmax: what multinomial logistic regression minimises.

    ℓ(z, y) = ln Σ_h exp(z_h) − z_y,     p = softmax(z),     ∇ℓ = p − e_y,     ∇²ℓ = diag(p) − ppᵀ

Its proximal point is found in `softmax_prox.py`; the theory integrates over it in
`proximal_coordinates.py`, and for four and more classes as a sum over the competitors
(`additive.py`). All methods allow for smoothed labels (`smoothed.py`), which add a linear term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from polyceptron.numerics import Array
from polyceptron.numerics.orthant import other_classes
from polyceptron.problem.losses.additive import AdditivePull, SoftmaxPull
from polyceptron.problem.losses.base import Loss, broadcast, one_hot
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.problem.losses.decay import pair_decay
from polyceptron.problem.losses.hard_margin import MaxMargin
from polyceptron.problem.losses.optional import Labels
from polyceptron.problem.losses.proximal_coordinates import ProximalCoordinates
from polyceptron.problem.losses.softmax_prox import softmax_curvature, solve_softmax
from polyceptron.problem.order import Decay


def _odds(z: Array) -> tuple[Array, Array, Array]:
    """Return z less its largest (n, k), the exponential of that (n, k), and its sum (n, 1).

    Maxima and sums are taken class by class, since numpy reduces short rows slowly.
    """
    z = z - reduce(np.maximum, z.T)[:, None]
    odds = np.exp(z)
    return z, odds, (odds @ np.ones(z.shape[1]))[:, None]


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"
    solver = "softmax"
    rough = MappingProxyType({"rounds": 2})
    epsilon: float = 0.0  # share of each label that `Smoothed` spreads over all classes

    def _smoothing_slope(self, y: Labels, k: int) -> Array:
        """Return ε(e_y − 1/k), the slope that smoothing adds: (n, k), or one row of zeros."""
        if self.epsilon == 0:
            return np.zeros((1, k))
        return self.epsilon * (one_hot(y, k) - 1 / k)

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ln Σ_h exp(z_h) − z_y, and the term of smoothing, shape (n,)."""
        z, y, _ = broadcast(z, y, 1.0)
        shifted, _, total = _odds(z)
        plain = np.log(total[:, 0]) - shifted[np.arange(len(z)), y]
        if self.epsilon == 0:
            return np.asarray(plain)
        return np.asarray(plain + (z * self._smoothing_slope(y, z.shape[1])).sum(1))

    def gradient(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return p − e_y, and the slope of smoothing, shape (n, k)."""
        z, y, _ = broadcast(z, y, 1.0)
        _, slope, total = _odds(z)
        slope /= total
        own = np.arange(len(z)), y
        slope[own] = 0.0
        slope[own] = -(slope @ np.ones(z.shape[1]))  # p_y − 1
        if self.epsilon == 0:
            return slope
        return slope + self._smoothing_slope(y, z.shape[1])

    def hessian(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return diag(p) − ppᵀ, shape (n, k, k)."""
        z, y, _ = broadcast(z, y, 1.0)
        _, odds, total = _odds(z)
        p = odds / total
        H = -p[:, :, None] * p[:, None, :]
        np.einsum("nhh->nh", H)[...] += p
        return H

    def denoise(
        self, omega: ArrayLike, y: ArrayLike, V: ArrayLike, rounds: int = 100
    ) -> tuple[Array, Array]:
        """Return the pull f (n, k) and −tr_⊥ ∂f (n,), by at most so many rounds of Newton's method.

        The term of smoothing is linear: it shifts ω.
        """
        omega, y, V = broadcast(omega, y, V)
        k = omega.shape[1]
        smoothing = self._smoothing_slope(y, k)
        others = other_classes(y, k)
        rows = np.arange(len(omega))
        omega = omega - V[:, None] * smoothing
        gap = omega[rows[:, None], others] - omega[rows, y][:, None]
        log_p, u = solve_softmax(gap, V, rounds)
        p = np.exp(log_p)
        f = np.empty(omega.shape)
        f[rows[:, None], others] = -p
        f[rows, y] = expit(u)  # 1 − p_y
        return f - smoothing, softmax_curvature(p, expit(-u), V)

    @property
    def relaxed(self) -> Callable[[Array, Labels, Array, Array], Array] | None:
        """The function (∇ℓ, y, v, right) → (I + diag(v)∇²ℓ)⁻¹right."""
        return self._sherman_morrison

    def _sherman_morrison(self, gradient: Array, y: Labels, v: Array, right: Array) -> Array:
        """Return (I + diag(v)∇²ℓ)⁻¹right (n, k), with ∇²ℓ = diag(p) − ppᵀ of rank one more."""
        p = gradient - self._smoothing_slope(y, gradient.shape[1])
        p[np.arange(len(p)), y] += 1.0
        a = p / (1 + v * p)
        one = np.ones(p.shape[1])
        part = (a * right) @ one / (a @ one)
        return np.asarray(right - v * a * (right - part[:, None]))

    def without_ridge(self) -> Loss | None:
        """Return max-margin: the limit of the direction, wherever the data can be separated."""
        return MaxMargin()

    def probabilities(self, z: ArrayLike) -> Array | None:
        """Return softmax(z), shape (n, k)."""
        _, odds, total = _odds(np.asarray(z, dtype=float))
        return np.asarray(odds / total)

    @property
    def softmax_label_share(self) -> float | None:
        """The share 1 − ε of the label in the target of the gradient."""
        return 1 - self.epsilon

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p = 1, or 2/3 at a fixed ridge, and C: ∫ln(1 + e^{−m}) = π²/12 over m > 0."""
        return pair_decay(ridge, n_classes, math.pi**2 / 12, math.log(2) - 0.5, pull=0.5)

    @property
    def coordinates(self) -> Coordinates:
        """The proximal point, in which the loss varies on scale 1 for every V."""
        return ProximalCoordinates(self.epsilon)

    def additive(self, V: float) -> AdditivePull | None:
        """Return the pull given the log-normaliser at the proximal point."""
        return SoftmaxPull(V)
