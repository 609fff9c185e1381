"""Convex losses of the class fields z = Wᵀx/√d, and their proximal maps.

    prox_{Vℓ(·,y)}(ω) = argmin_z  ‖z − ω‖²/(2V) + ℓ(z, y)                       (eq. auxiliary_defs)
    f_y(ω)            = (prox − ω)/V = −∇ℓ(prox),    −∂f = (V + H⁻¹)⁻¹,  H = ∇²ℓ(prox)

The theory and message passing see a loss only through `denoise`, that is f and −tr_⊥ ∂f, the trace
on the space 1⊥ of class differences (the labels show nothing else).

To add a loss, subclass `Loss`: give `name`, `value`, `gradient` and `hessian`; `prox` and `denoise`
then come from a safeguarded Newton method (give your own where a closed form exists). The theory
asks that the loss depend on differences of fields only and treat the classes alike; it checks both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from polyceptron.errors import InvalidInput
from polyceptron.model.prox import active_margins, softmax_prox

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Loss(ABC):
    """ℓ(z, y), convex in z; z is (n, k), y is (n,) with entries 0..k−1, V a number or (n,).

    >>> from polyceptron.model import CrossEntropy
    >>> z = CrossEntropy().prox([[0.0, 0.0]], [1], 2.0)  # pulled towards the label
    >>> bool(z[0, 1] > 0 > z[0, 0])
    True
    """

    name: ClassVar[str]
    newton_steps: ClassVar[int] = 100

    @abstractmethod
    def value(self, z: Any, y: Any) -> Array:
        """ℓ(z, y), shape (n,)."""

    @abstractmethod
    def gradient(self, z: Any, y: Any) -> Array:
        """∇_z ℓ, shape (n, k)."""

    @abstractmethod
    def hessian(self, z: Any, y: Any) -> Array:
        """∇²_z ℓ, shape (n, k, k), positive semi-definite."""

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        """argmin_z ‖z − ω‖²/(2V) + ℓ(z, y), shape (n, k); Newton with halved steps."""
        omega, y, V = broadcast(omega, y, V)
        inverse = 1 / V
        z = omega.copy()
        eye = np.eye(omega.shape[1])
        energy = self.value(z, y)
        for _ in range(self.newton_steps):
            slope = (z - omega) * inverse[:, None] + self.gradient(z, y)
            step = np.linalg.solve(
                self.hessian(z, y) + inverse[:, None, None] * eye, slope[:, :, None]
            )[:, :, 0]
            decrease = np.einsum("ni,ni->n", slope, step)
            scale = np.ones(len(z))
            for _ in range(60):  # Armijo: a step that does not lower the energy is halved
                trial = z - scale[:, None] * step
                lower = self.value(trial, y) + ((trial - omega) ** 2).sum(1) * inverse / 2
                poor = ~(lower <= energy - 1e-4 * scale * decrease + 1e-13 * (1 + np.abs(energy)))
                if not poor.any():
                    break
                scale = np.where(poor, scale / 2, scale)
            z, energy = trial, lower
            if np.max(np.abs(step), initial=0.0) <= 1e-11 * (1 + np.max(np.abs(z), initial=0.0)):
                break
        return np.asarray(z)

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        """f = (prox − ω)/V, shape (n, k), and −tr_⊥ ∂f, shape (n,)."""
        omega, y, V = broadcast(omega, y, V)
        z = self.prox(omega, y, V)
        return -self.gradient(z, y), self.curvature_at(z, y, V)

    def prox_derivative_trace(self, omega: Any, y: Any, V: Any) -> Array:
        """tr_⊥ ∂prox/∂ω = (k − 1) + V tr_⊥ ∂f, shape (n,)."""
        omega, y, V = broadcast(omega, y, V)
        return np.asarray((omega.shape[1] - 1) - V * self.denoise(omega, y, V)[1])

    def curvature_at(self, z: Array, y: Labels, V: Array) -> Array:
        """−tr_⊥ ∂f = tr_⊥ H(I + VH)⁻¹ at the field z = prox, shape (n,)."""
        k = z.shape[1]
        H = self.hessian(z, y)
        inner = np.linalg.solve(np.eye(k) + V[:, None, None] * H, H)
        return np.asarray(np.trace(inner, axis1=1, axis2=2) - inner.sum((1, 2)) / k)


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"

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


class SquareLoss(Loss):
    """ℓ(z, y) = ‖z − e_y‖²/2, with e_y the one-hot label, in all k coordinates."""

    name = "square"

    def value(self, z: Any, y: Any) -> Array:
        return np.asarray((self.gradient(z, y) ** 2).sum(1) / 2)

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.asarray(z - one_hot(y, z.shape[1]))

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return np.broadcast_to(np.eye(z.shape[1]), (*z.shape, z.shape[1]))

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray((omega + V[:, None] * one_hot(y, omega.shape[1])) / (1 + V[:, None]))

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        f = (one_hot(y, omega.shape[1]) - omega) / (1 + V[:, None])
        return f, (omega.shape[1] - 1) / (1 + V)


class MaxMargin(Loss):
    """ℓ(z, y) = 0 where z_y − z_h ≥ 1 for all h ≠ y, else ∞: the hard-margin multi-class SVM.

    It is the limit of cross-entropy without ridge. The prox is the projection on the allowed set;
    f and its derivative depend on V by the factor 1/V only.
    """

    name = "max-margin"

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


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (CrossEntropy(), SquareLoss(), MaxMargin())}


def as_loss(loss: Any) -> Loss:
    """The loss meant by a name ('cross-entropy' or 'cross_entropy', ...) or a `Loss` itself.

    >>> as_loss("max_margin").name
    'max-margin'
    """
    if isinstance(loss, Loss):
        return loss
    known = LOSSES.get(loss.replace("_", "-")) if isinstance(loss, str) else None
    if known is None:
        raise InvalidInput(
            f"unknown loss {loss!r}: allowed are {', '.join(map(repr, LOSSES))}, or a Loss object"
        )
    return known


def one_hot(y: Labels, n_classes: int) -> Array:
    """e_y, shape (n, k)."""
    return np.asarray(np.arange(n_classes) == y[:, None], dtype=float)


def broadcast(omega: Any, y: Any, V: Any) -> tuple[Array, Labels, Array]:
    """ω as (n, k) floats, y as (n,) integers, V as (n,) floats."""
    omega = np.asarray(omega, dtype=float)
    n = len(omega)
    y = np.broadcast_to(np.asarray(y, dtype=np.int64), (n,))
    return omega, y, np.broadcast_to(np.asarray(V, dtype=float), (n,))
