"""A loss: a convex function of the class fields z = Wᵀx/√d and the label y, and its proximal map.

    prox_{Vℓ(·,y)}(ω) = argmin_z  ‖z − ω‖²/(2V) + ℓ(z, y)                       (eq. auxiliary_defs)
    f_y(ω)            = (prox − ω)/V = −∇ℓ(prox),    −∂f = (V + H⁻¹)⁻¹,  H = ∇²ℓ(prox)

Message passing sees a loss only through `denoise`, that is the pull f and −tr_⊥ ∂f, the trace on
the space 1⊥ of class differences (the labels show nothing else); the theory integrates over it in
its `coordinates`. A new loss has `name`, `value`, `gradient` and `hessian`, `denoise` where there
is a closed form, and what it cares to offer of `optional.py`. `as_loss` tries it before it is used
(`checks.py`), and the theory tries more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.numerics import Array
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.problem.losses.optional import (
    OPTIONAL_OFFERS,
    Additive,
    ClosedForm,
    FitHints,
    HardConstraints,
    Kinked,
    KnownDecay,
    Labels,
    LimitAtZeroRidge,
    Probabilistic,
    SoftmaxGradient,
)


class Loss(
    Additive,
    ClosedForm,
    HardConstraints,
    Kinked,
    LimitAtZeroRidge,
    KnownDecay,
    Probabilistic,
    SoftmaxGradient,
    FitHints,
    ABC,
):
    """ℓ(z, y), convex in z; z is (n, k), y is (n,) with entries 0..k−1, V a number or (n,).

    >>> from polyceptron.problem import CrossEntropy
    >>> z = CrossEntropy().prox([[0.0, 0.0]], [1], 2.0)  # pulled towards the label
    >>> bool(z[0, 1] > 0 > z[0, 0])
    True
    """

    name: str

    @abstractmethod
    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ℓ(z, y), shape (n,)."""

    @abstractmethod
    def gradient(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ∇_z ℓ, shape (n, k)."""

    @abstractmethod
    def hessian(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ∇²_z ℓ, shape (n, k, k), positive semi-definite."""

    def prox(self, omega: ArrayLike, y: ArrayLike, V: ArrayLike) -> Array:
        """Return argmin_z ‖z − ω‖²/(2V) + ℓ(z, y) = ω + Vf, shape (n, k).

        From `denoise` where the loss gives one of its own, else by Newton's method.
        """
        omega, y, V = broadcast(omega, y, V)
        if type(self).denoise is Loss.denoise:
            return newton_prox(self, omega, y, V)
        return np.asarray(omega + V[:, None] * self.denoise(omega, y, V)[0])

    def denoise(self, omega: ArrayLike, y: ArrayLike, V: ArrayLike) -> tuple[Array, Array]:
        """Return f = (prox − ω)/V, shape (n, k), and −tr_⊥ ∂f, shape (n,).

        From `prox` where the loss gives one of its own, else by Newton's method.
        """
        omega, y, V = broadcast(omega, y, V)
        if type(self).prox is Loss.prox:
            z = newton_prox(self, omega, y, V)
        else:
            z = self.prox(omega, y, V)
        k = z.shape[1]
        H = self.hessian(z, y)
        inner = np.linalg.solve(np.eye(k) + V[:, None, None] * H, H)  # H(I + VH)⁻¹
        trace = np.trace(inner, axis1=1, axis2=2) - inner.sum((1, 2)) / k
        return -self.gradient(z, y), np.asarray(trace)

    @property
    def has_own_prox(self) -> bool:
        """True if the loss gives `prox` or `denoise` itself, so that no Newton method is run."""
        return type(self).prox is not Loss.prox or type(self).denoise is not Loss.denoise

    def value_at_prox(self, z: ArrayLike, y: ArrayLike) -> Array:
        """Return ℓ on training samples, whose fields z (n, k) are proximal points, shape (n,)."""
        return self.value(z, y)

    @property
    def coordinates(self) -> Coordinates:
        """The coordinates in which the theory of two and three classes integrates over it."""
        return Coordinates(self)

    def without_ridge(self) -> Loss | None:
        """Return the loss that λ → 0⁺ means on separable data, None where it is not defined."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __init_subclass__(cls, **keywords: object) -> None:
        """Put back the defaults of all that follows from ℓ where a subclass gives ℓ anew.

        A subclass of, say, `CrossEntropy` with a `gradient` of its own is another loss: the
        parent's proximal map, limits and solver would be wrong for it. It has the defaults of this
        class and of `OPTIONAL_OFFERS`, except for what it gives itself, and a name of its own.
        """
        super().__init_subclass__(**keywords)
        given = vars(cls)
        if given.keys().isdisjoint({"value", "gradient", "hessian"}):
            return
        for name in _FOLLOWS_FROM_VALUE - given.keys():
            setattr(cls, name, getattr(Loss, name))
        if "name" not in given and hasattr(cls, "name"):
            cls.name = cls.__name__.lower()


_FOLLOWS_FROM_VALUE = {"prox", "denoise", "value_at_prox", "coordinates"}
for _offer in OPTIONAL_OFFERS:
    _FOLLOWS_FROM_VALUE |= {name for name in vars(_offer) if not name.startswith("_")}


def one_hot(y: Labels, n_classes: int) -> Array:
    """Return e_y for labels y (n,), shape (n, k)."""
    return np.asarray(np.arange(n_classes) == y[:, None], dtype=float)


def broadcast(omega: ArrayLike, y: ArrayLike, V: ArrayLike) -> tuple[Array, Labels, Array]:
    """Return ω as (n, k) floats, y as (n,) integers, V as (n,) floats."""
    fields = np.asarray(omega, float)
    labels = np.asarray(y, np.int64)
    width = np.asarray(V, float)
    shape = fields.shape[:1]
    if labels.shape != shape:
        labels = np.broadcast_to(labels, shape)
    if width.shape != shape:
        width = np.broadcast_to(width, shape)
    return fields, labels, width


# Newton's method for proximal points: tests/unit/problem/test_losses.py compares its points with
# closed forms to 1e-9, tests/unit/fit/test_custom_losses.py uses it.
_MAX_NEWTON_STEPS = 100
_MAX_HALVINGS = 60
_SUFFICIENT_DECREASE = 1e-4  # Armijo's share of the decrease that the slope promises
_ENERGY_ROUNDING = 1e-13  # relative
_STEP_TOLERANCE = 1e-11  # relative to the largest field


def newton_prox(loss: Loss, omega: Array, y: Labels, V: Array) -> Array:
    """Return the proximal points (n, k) of a smooth loss at ω (n, k), y (n,), V (n,).

    Newton's method on ‖z − ω‖²/(2V) + ℓ(z, y), all samples at once; each halves its step until it
    lowers this energy.
    """
    inverse = 1 / V
    eye = np.eye(omega.shape[1])
    z = omega
    energy = loss.value(omega, y)
    for _ in range(_MAX_NEWTON_STEPS):
        slope = (z - omega) * inverse[:, None] + loss.gradient(z, y)
        bend = loss.hessian(z, y) + inverse[:, None, None] * eye
        step = np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        decrease = np.einsum("ni,ni->n", slope, step)
        scale = np.ones(len(z))
        for _ in range(_MAX_HALVINGS):
            trial = z - scale[:, None] * step
            trial_energy = loss.value(trial, y) + ((trial - omega) ** 2).sum(1) * inverse / 2
            enough = energy - _SUFFICIENT_DECREASE * scale * decrease
            poor = ~(trial_energy <= enough + _ENERGY_ROUNDING * (1 + np.abs(energy)))
            if not poor.any():
                break
            scale = np.where(poor, scale / 2, scale)
        z = trial
        energy = trial_energy
        largest_field = np.max(np.abs(z), initial=0.0)
        if np.max(np.abs(step), initial=0.0) <= _STEP_TOLERANCE * (1 + largest_field):
            break
    return np.asarray(z)
