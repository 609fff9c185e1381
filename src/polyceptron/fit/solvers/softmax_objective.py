"""The softmax loss: Σ_μ ln Σ_h exp(z_h − z_y), to full relative precision, in O(k) a sample."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import eye_array

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.data.design import Inner
from polyceptron.fit.solvers.objectives import (
    Choice,
    Curvature,
    Evaluation,
    Objective,
    lengths,
    own_places,
)
from polyceptron.numerics import AnyArray, Array

LARGEST_CURVATURE = 0.5  # of diag p − ppᵀ
# Below it e^{z_y} has underflowed beside the largest one: logarithms are taken apart.
SMALLEST_DOUBLE = 1e-300
SMALLEST_SINGLE = 1e-37


@dataclass(frozen=True)
class RankOneCurvature:
    """diag w − wwᵀ of the softmax w, times the sample's share.

    Attributes
    ----------
    weights : array (L, k, n)
        w.
    basis : array (k, r) or None
        None of the classes themselves; then Q is overwritten.
    own : array (n,)
        Places of the labels in a flat (k, n).
    share : array (n,), (L, n) or None
    """

    weights: AnyArray
    basis: AnyArray | None
    own: Labels
    share: AnyArray | None = None

    def take(self, chosen: Choice) -> RankOneCurvature:
        """Return the problems picked by a mask or an index array."""
        share = self.share
        if share is not None and share.ndim > 1:
            share = share[chosen]
        return replace(self, weights=self.weights[chosen], share=share)

    def rows(self, rows: slice) -> Inner:
        """Return the curvature of some samples only."""
        share = self.share
        if share is not None:
            share = share[..., rows]
        labels = self.own[rows] // self.own.size
        return replace(self, weights=self.weights[..., rows], own=own_places(labels), share=share)

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """Return ∂²ℓ·Q, in the precision of Q."""
        v = Q
        if self.basis is not None:
            v = self.basis @ Q
        # The map does not see the label's own part, and w ≈ e_y no longer cancels.
        v -= v.reshape(len(v), -1).take(self.own, 1)[:, None]
        v -= np.einsum("lhn,lhn->ln", self.weights, v)[:, None]
        v *= self.weights
        if self.share is not None:
            v *= self.share[..., None, :]
        if self.basis is None:
            return v, None
        return self.basis.T @ v, None

    def mean(self) -> Array:
        """Return the trace of diag w − wwᵀ, a direction and sample."""
        w = self.weights
        trace = w.sum(1) - np.einsum("lhn,lhn->ln", w, w)
        if self.share is not None:
            trace = trace * self.share
        return np.asarray(trace.mean(1, dtype=np.float64) / (w.shape[1] - 1))

    def total(self) -> Array:
        """Return Σ_μ ∂²ℓ_μ (L, k−1, k−1) on class differences."""
        p = self.weights
        n_classes = p.shape[1]
        basis = difference_basis(n_classes)
        weighted = p
        if self.share is not None:
            weighted = p * self.share[..., None, :]
        diagonal = weighted.sum(2)[:, :, None] * np.eye(n_classes)
        return np.asarray(basis.T @ (diagonal - weighted @ p.swapaxes(1, 2)) @ basis)


class SoftmaxObjective(Objective):
    """Σ_μ ln Σ_h exp(z_h − z_y): the curvature's source is the softmax (L, k, n).

    With `whole`, fields are the classes' own, r = k, without products with a basis; they are
    overwritten.
    """

    def __init__(
        self, y: Labels, k: int, weights: Array | None = None, whole: bool = False
    ) -> None:
        super().__init__(y, eye_array(k) if whole else difference_basis(k), weights)
        self._own = own_places(y)
        self.whole = whole
        self.smoothness = LARGEST_CURVATURE
        if weights is not None:
            self.smoothness = LARGEST_CURVATURE * float(weights.max())

    def evaluate(self, Z: Array) -> Evaluation:
        """Return ℓ, softmax(z) − y and the softmax, all to full relative precision of Z."""
        z = self._class_fields(Z)
        z -= z.max(1, keepdims=True)
        flat = z.reshape(len(z), -1)
        own_field = flat.take(self._own, 1)
        p = np.exp(z, out=z)
        own = flat.take(self._own, 1)
        flat[:, self._own] = 0
        others = p.sum(1)
        total = others + own
        losses = _losses(own_field, own, others)
        p /= total[:, None]
        residual = p.copy()
        residual.reshape(flat.shape)[:, self._own] = -others / total
        flat[:, self._own] = own / total
        if self.weights is not None:
            weights = self.weights.astype(Z.dtype, copy=False)
            losses *= weights
            residual *= weights[..., None, :]
        if not self.whole:
            residual = self.basis.astype(Z.dtype, copy=False).T @ residual
        return Evaluation(losses.sum(1, dtype=np.float64), residual, p)

    def _class_fields(self, Z: Array) -> Array:
        """Return the classes' own fields z = BZ, (L, k, n)."""
        if self.whole:
            return Z
        fields: Array = self.basis.astype(Z.dtype, copy=False) @ Z
        return fields

    def curvature(self, evaluation: Evaluation, dtype: DTypeLike) -> Curvature:
        """Return diag p − ppᵀ between the coordinates of the class differences."""
        p = evaluation.source.astype(dtype, copy=False)
        share = self.weights
        if share is not None:
            share = share.astype(dtype, copy=False)
        basis = None if self.whole else self.basis.astype(dtype)
        return RankOneCurvature(p, basis, self._own, share)

    def rows(self, rows: slice) -> SoftmaxObjective:
        """Return the sum over some samples only."""
        part = copy.copy(self)
        part.y = self.y[rows]
        part._own = own_places(self.y[rows])
        if self.weights is not None:
            part.weights = self.weights[..., rows]
        return part

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """Return a bound on ‖diag p − ppᵀ‖.

        It is at most 1/2, and at most 2‖p − e_y‖, since its trace is at most 2(1 − p_y).
        """
        most: Array | float = LARGEST_CURVATURE
        if self.weights is not None:
            most = LARGEST_CURVATURE * self.weights
        return np.minimum(most, 2 * lengths(evaluation.residual))


def _losses(own_field: Array, own: Array, others: Array) -> Array:
    """Return ln Σ e^z − z_y = ln(1 + others/own) (L, n), with the largest z at 0.

    The sum may be far below the rounding of its first term.

    Parameters
    ----------
    own_field, own, others : array (L, n)
        z_y, e^{z_y}, and Σ_{h≠y} e^{z_h}.
    """
    tiny = SMALLEST_DOUBLE if own.dtype == np.float64 else SMALLEST_SINGLE
    losses = np.log1p(others / np.maximum(own, tiny))
    is_lost = own < tiny
    if is_lost.any():
        losses[is_lost] = np.log(others[is_lost]) - own_field[is_lost]
    return np.asarray(losses)
