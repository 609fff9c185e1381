"""Hinges, as an augmented Lagrangian in the pulls of the classes.

    Σ_μ max_a Σ_{h≠y} a_h (1 − (z_y − z_h)) − ‖a − α‖²/2c

over the pulls a that a loss allows, with multipliers α and a penalty c. Its maximum is at the
allowed a nearest to a⁰ = α + c(1 − margin).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.data.design import Inner, weights_or_ones
from polyceptron.fit.solvers.objectives import (
    Basis,
    Choice,
    Curvature,
    Evaluation,
    Objective,
    own_places,
)
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss

LEFT_BY_ROUNDING = 1e-10  # share of the largest pull, below which a pull counts as 0


@runtime_checkable
class BoundedPulls(Protocol):
    """A loss that says which pulls of the wrong classes it allows.

    `scale_free` pulls have no upper bound; `pooled` ones are bounded in their sum over classes.
    """

    scale_free: ClassVar[bool]
    pooled: ClassVar[bool]

    def allowed(self, a: Array, most: Array | float) -> Array:
        """Return the pulls (k, n) nearest to `a` that the loss allows, at most `most`."""


@dataclass(frozen=True)
class HingeCurvature:
    """c t_h on the classes whose pull is free, t = dz_h − dz_y.

    Where the sum of a sample's pulls is all that it may be, their mean over the free classes is
    taken off.

    Attributes
    ----------
    active : array (1, k, n)
        c where a pull is free, else 0.
    share : array (1, n) or None
        1 over the number of free classes where the sum is bound, else 0.
    basis : array (k, r)
    y : array (n,)
    """

    active: AnyArray
    share: AnyArray | None
    basis: Basis
    y: Labels

    def take(self, chosen: Choice) -> HingeCurvature:
        """Return itself: there is one problem."""
        return self

    def rows(self, rows: slice) -> Inner:
        """Return the curvature of some samples only."""
        share = self.share
        if share is not None:
            share = share[..., rows]
        return replace(self, active=self.active[..., rows], y=self.y[rows], share=share)

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """Return ∂²ℓ·Q, in the precision of Q."""
        t = self.basis @ Q
        own = own_places(self.y)
        flat = t.reshape(len(t), -1)
        t -= flat.take(own, 1)[:, None]
        if self.share is not None:
            t -= ((self.active > 0) * t).sum(1, keepdims=True) * self.share[:, None]
        t *= self.active
        flat[:, own] = -t.sum(1)
        return self.basis.T @ t, None

    def mean(self) -> Array:
        """Return about the mean of ∂²ℓ over directions and samples, (1,)."""
        r = len(self.basis) - 1
        return np.asarray(2 * self.active.sum(1, dtype=np.float64).mean(1) / r)

    def total(self) -> Array:
        """Return Σ_μ ∂²ℓ_μ (1, r, r), a column for each direction."""
        r = self.basis.shape[1]
        n = self.y.size
        units = np.broadcast_to(np.eye(r)[:, None, :, None], (r, 1, r, n))
        columns = [self(unit.copy())[0].sum(-1) for unit in units]
        return np.stack(columns, axis=-1)


class HingeObjective(Objective):
    """The augmented Lagrangian of a loss whose pulls a are bounded; the curvature's source is a.

    One problem at a time. It has no `stiffness`: what it is for has certificates of its own.
    """

    kinked = True

    def __init__(
        self,
        loss: Loss,
        y: Labels,
        multipliers: Array,
        penalty: float,
        weights: Array | None = None,
    ) -> None:
        super().__init__(y, difference_basis(len(multipliers)), weights)
        if not isinstance(loss, BoundedPulls):
            raise TypeError(
                "a hinge objective needs a loss that says which pulls it allows: "
                f"{loss.name!r} has no `allowed`"
            )
        self.loss: BoundedPulls = loss
        self.multipliers = multipliers
        self.penalty = penalty
        self._share: Array | float = 0.0
        self._most: Array | float = np.inf  # largest sum of a sample's pulls
        if not loss.scale_free:
            self._share = weights_or_ones(weights, y.size)
            self._most = self._share
        self._samples = np.arange(y.size)

    def margins(self, Z: Array) -> Array:
        """Return z_y − z_h (k, n) of fields (k−1, n); the true class's own row is 0."""
        z = self.basis @ Z
        return np.asarray(z[self.y, self._samples] - z)

    def push(self, margins: Array) -> tuple[Array, Array]:
        """Return a (k, n), the next multipliers, and a⁰ = α + c(1 − margin), their goal."""
        wanted = self.multipliers + self.penalty * (1 - margins)
        wanted[self.y, self._samples] = 0.0
        return self.loss.allowed(wanted, self._most), wanted

    def pull(self, multipliers: Array) -> Array:
        """Return Σ_h a_h (e_h − e_y) in the coordinates of the class differences, (k−1, n)."""
        residual = multipliers.copy()
        residual[self.y, self._samples] = -multipliers.sum(0)
        return np.asarray(self.basis.T @ residual)

    def evaluate(self, Z: Array) -> Evaluation:
        """Return the value up to the constant ‖α‖²/2c, the gradient and the pulls."""
        a, wanted = self.push(self.margins(Z[0]))
        value = float((a * (wanted - a / 2)).sum()) / self.penalty
        return Evaluation(np.array([value]), self.pull(a)[None], a[None])

    def curvature(self, evaluation: Evaluation, dtype: DTypeLike) -> Curvature:
        """Return c on the free pulls."""
        a = evaluation.source
        little = LEFT_BY_ROUNDING * self._share
        is_free = (a > little) & (a < self._most - little)
        share = None
        if self.loss.pooled:
            is_full = a.sum(1) > self._most - little
            share = (is_full / np.maximum(is_free.sum(1), 1)).astype(dtype)
        active = np.where(is_free, self.penalty, 0.0).astype(dtype)
        return HingeCurvature(active, share, self.basis.astype(dtype), self.y)
