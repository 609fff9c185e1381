"""Sums over samples, Σ_μ ℓ(z_μ, y_μ), with the derivatives that a Newton step needs.

    cross-entropy       ℓ = ln Σ_h e^{z_h} − z_y
    shifted hinge       ℓ = (c/2) Σ_{h≠y} (1 + a_h/c − (z_y − z_h))₊²    (augmented Lagrangian of
                        the constraints z_y − z_h ≥ 1 with multipliers a and penalty c)

Fields come in the k−1 coordinates of the class differences, Z (k−1, n), with z = BZ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.erm.products import AnyArray, Array, difference_basis

Labels = NDArray[np.int64]
Curvature = Callable[[AnyArray], AnyArray]


@dataclass(frozen=True)
class Evaluation:
    """Value of the sum, its gradient in Z (k−1, n), and what the curvature is built from."""

    value: float
    residual: Array
    state: Array


class Objective(Protocol):
    """A convex sum over samples that Newton's method can minimise."""

    def evaluate(self, Z: Array) -> Evaluation:
        """Value and gradient at the fields Z (k−1, n)."""
        ...

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """The map Q (k−1, n) ↦ ∂²ℓ·Q, sample by sample, in the given precision."""
        ...


class CrossEntropy:
    """Σ_μ ln Σ_h exp(z_h − z_y): the state is the softmax (k, n)."""

    def __init__(self, y: Labels, n_classes: int) -> None:
        self.y = y
        self.basis = difference_basis(n_classes)
        self._samples = np.arange(y.size)

    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ, softmax(z) − y and the softmax, all to full relative precision."""
        y, samples = self.y, self._samples
        z = self.basis @ Z
        z -= z.max(0)
        true_field = z[y, samples]
        p = np.exp(z, out=z)
        own = p[y, samples]
        p[y, samples] = 0
        others = p.sum(0)
        total = others + own
        # ln Σ e^z − z_y = ln(1 + others/own): the sum may be far below rounding of its first term.
        losses = np.log1p(others / np.maximum(own, 1e-300))
        lost = own < 1e-300
        if lost.any():
            losses[lost] = np.log(others[lost]) - true_field[lost]
        p /= total
        residual = p.copy()
        residual[y, samples] = -others / total
        p[y, samples] = own / total
        return Evaluation(float(losses.sum()), self.basis.T @ residual, p)

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """diag p − ppᵀ between the coordinates of the class differences."""
        p = evaluation.state.astype(dtype, copy=False)
        basis = self.basis.astype(dtype)
        y, samples = self.y, self._samples

        def apply(Q: AnyArray) -> AnyArray:
            v = basis @ Q
            v -= v[y, samples]  # the map does not see it, and p ≈ e_y no longer cancels
            v -= np.einsum("hn,hn->n", p, v)
            v *= p
            result: AnyArray = basis.T @ v
            return result

        return apply


class ShiftedHinge:
    """(c/2) Σ (1 + a/c − margin)₊²: the state is c where a constraint is pushed, else 0."""

    def __init__(self, y: Labels, n_classes: int, multipliers: Array, penalty: float) -> None:
        self.y = y
        self.basis = difference_basis(n_classes)
        self.multipliers = multipliers
        self.penalty = penalty
        self._samples = np.arange(y.size)

    def margins(self, Z: Array) -> Array:
        """z_y − z_h, shape (k, n); the true class's own row is 0."""
        z = self.basis @ Z
        return z[self.y, self._samples] - z

    def push(self, margins: Array) -> Array:
        """(a + c(1 − margin))₊ (k, n): the next multipliers; 0 in the true class's own row."""
        pushed = np.maximum(self.multipliers + self.penalty * (1 - margins), 0.0)
        pushed[self.y, self._samples] = 0
        return pushed

    def pull(self, multipliers: Array) -> Array:
        """Σ_h a_h (e_h − e_y) in the coordinates of the class differences, (k−1, n)."""
        residual = multipliers.copy()
        residual[self.y, self._samples] = -multipliers.sum(0)
        result: Array = self.basis.T @ residual
        return result

    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ, its gradient and the pushed constraints."""
        pushed = self.push(self.margins(Z))
        value = float((pushed**2).sum()) / (2 * self.penalty)
        return Evaluation(value, self.pull(pushed), np.where(pushed > 0, self.penalty, 0.0))

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """Σ over pushed h of c (e_y − e_h)(e_y − e_h)ᵀ."""
        active = evaluation.state.astype(dtype, copy=False)
        basis = self.basis.astype(dtype)
        y, samples = self.y, self._samples

        def apply(Q: AnyArray) -> AnyArray:
            v = basis @ Q
            v -= v[y, samples]
            v *= active
            v[y, samples] = -v.sum(0)
            result: AnyArray = basis.T @ v
            return result

        return apply
