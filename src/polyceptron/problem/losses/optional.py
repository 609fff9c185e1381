"""What a loss may offer in addition to value, gradient and Hessian: one small class for each offer.

`Loss` inherits every class of `OPTIONAL_OFFERS` and with it a default that says "not offered"; a
loss overrides the members of the offers that it makes. Callers ask the loss:

    Additive           its pull is a sum over the other classes     theory of k ≥ 4 without sampling
    ClosedForm         averages over one sample in closed form      theory without integrals
    HardConstraints    ℓ is 0 or ∞                                  no ridge, V drops out
    Kinked             where samples pile up, what bounds a pull    margins, bars, dual solvers
    LimitAtZeroRidge   what λ → 0⁺ means on separable data          a ridge of 0
    KnownDecay         ε ≈ C α^(−p) without noise                   tails of curves
    Probabilistic      class probabilities of fields                predict_proba, log-loss
    SoftmaxGradient    ∇ℓ = softmax(z) − target                     one-pass SGD without sampling
    FitHints           the solver of data, and cheaper inner steps  speed

An offer follows from the formula of ℓ. A subclass that gives `value`, `gradient` or `hessian` anew
is another loss: `Loss.__init_subclass__` puts the defaults of this file back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyceptron.numerics import Array
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.problem.order import Decay, ScalarOrder

Labels = NDArray[np.int64]


class Additive:
    """f_h = −p(ω_h − L): given one variable L of the label, the competitors act independently."""

    def additive(self, V: float) -> AdditivePull | None:
        """Return the pull at V as sums over the other classes, None where it is no such sum."""
        return None


class ClosedForm:
    """The averages of the fields side in closed form, in place of integrals over the fields."""

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """Return M, Q, C and D of the fields side, None where they have no closed form.

        Parameters
        ----------
        law : ScalarOrder
            Joint law of the teacher's and the student's fields.
        signal : float
            c = E[e_y·z]/(k − 1) of the channel.
        n_classes : int
        """
        return None


class HardConstraints:
    """ℓ ∈ {0, ∞}: the pull is ∝ 1/V, so that V and any ridge drop out of the equations.

    `scale_free` says that this is so, `margin_floor` the margin below which no training sample is
    left (None: no such margin).
    """

    scale_free: ClassVar[bool] = False
    margin_floor: ClassVar[float | None] = None


class Kinked:
    """Kinks of ℓ at which training samples pile up.

    `margin_atom` is the margin that a positive share of the training samples has exactly (None:
    no such margin), `pooled` whether a sample has one bound on the sum of its pulls.
    """

    margin_atom: ClassVar[float | None] = None
    pooled: ClassVar[bool] = False


class LimitAtZeroRidge:
    """The minimiser of least norm, or its direction, as λ → 0⁺."""

    def without_ridge(self) -> LimitAtZeroRidge | None:
        """Return the loss that λ → 0⁺ means on separable data, None where it is not defined."""
        return None


class KnownDecay:
    """The generalisation error of a noiseless teacher at large α."""

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """Return p and C of ε ≈ C α^(−p) at a ridge (a number or 'optimal'), None if unknown."""
        return None


class Probabilistic:
    """ℓ is minus the logarithm of a probability of the label, or close to one."""

    def probabilities(self, z: ArrayLike) -> Array | None:
        """Return the class probabilities (n, k) that fields z (n, k) stand for, or None."""
        return None


class SoftmaxGradient:
    """∇ℓ(z, y) = softmax(z) − t, with a target t = a e_y + (1 − a)/k that the label gives."""

    @property
    def softmax_label_share(self) -> float | None:
        """The share a of the label in the target, None where the gradient is of another form."""
        return None


class FitHints:
    """How fits and inner iterations may be made faster.

    `solver` names the solver of data (`fit/erm.py` lists them), `rough` the keywords of `denoise`
    with which it is fast and about right, as a start of an iteration.
    """

    solver: ClassVar[str] = "newton"
    rough: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @property
    def relaxed(self) -> Callable[[Array, Labels, Array, Array], Array] | None:
        """The function (∇ℓ, y, v, right) → (I + diag(v)∇²ℓ)⁻¹right, None if not in closed form.

        ∇ℓ, v and right are (n, k) and y is (n,); the Hessian is the one where ∇ℓ was taken.
        """
        return None


OPTIONAL_OFFERS: tuple[type, ...] = (
    Additive,
    ClosedForm,
    HardConstraints,
    Kinked,
    LimitAtZeroRidge,
    KnownDecay,
    Probabilistic,
    SoftmaxGradient,
    FitHints,
)
