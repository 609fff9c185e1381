"""Any convex loss as an objective of Newton's method, from its value, gradient and Hessian.

Fields Z (L, r, n) are in the coordinates B (k, r) of `class_coordinates`: differences of classes
where the loss sees nothing else, all k fields otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.block_products import AnyArray, Array, Inner
from polyceptron.algorithms.erm.objectives import Curvature, Evaluation, Labels, weights_of
from polyceptron.algorithms.weight_coordinates import class_coordinates
from polyceptron.model.losses import Loss


@dataclass(frozen=True)
class MatrixCurvature:
    """One matrix a sample, (L, n, r, r)."""

    matrices: AnyArray

    def take(self, chosen: Any) -> MatrixCurvature:
        """The problems picked by a mask."""
        return MatrixCurvature(self.matrices[chosen])

    def rows(self, rows: slice) -> Inner:
        """Q (L, r, b) ↦ ∂²ℓ·Q of these samples alone."""
        return MatrixCurvature(self.matrices[:, rows])

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """∂²ℓ·Q (L, r, n), in the precision of Q."""
        return np.einsum("lnij,ljn->lin", self.matrices, Q), None

    def mean(self) -> Array:
        """The mean over samples and directions of each problem, (L,)."""
        result: Array = np.einsum("lnii->ln", self.matrices).mean(1) / self.matrices.shape[-1]
        return result


class LossObjective:
    """Σ_μ ℓ(z_μ, y_μ) of a `Loss`: the curvature's source is the fields z (L, k, n)."""

    smoothness: float | None = None

    def __init__(self, loss: Loss, y: Labels, n_classes: int, weights: Array | None = None) -> None:
        self.loss, self.y, self.weights = loss, y, weights
        self.basis = class_coordinates(loss, n_classes)

    def take(self, chosen: Any) -> LossObjective:
        """The problems picked by a mask or an index array."""
        chosen_weights = weights_of(self.weights, chosen)
        if chosen_weights is self.weights:
            return self
        return LossObjective(self.loss, self.y, len(self.basis), chosen_weights)

    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ and its gradient; a value that overflows is infinite, and is stepped back from."""
        z = self.basis @ Z
        losses, residual = np.empty((len(Z), Z.shape[-1])), np.empty_like(Z)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for i, fields in enumerate(z):
                losses[i] = self.loss.value(fields.T, self.y)
                residual[i] = (self.loss.gradient(fields.T, self.y) @ self.basis).T
            if self.weights is not None:
                losses *= self.weights
                residual *= self.weights[..., None, :]
            values = losses.sum(1)
        return Evaluation(np.where(np.isnan(values), np.inf, values), residual, z)

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """BᵀHB, sample by sample."""
        return MatrixCurvature(self._hessians(evaluation).astype(dtype))

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """The trace of BᵀHB, which its norm is not above."""
        return np.einsum("lnii->ln", self._hessians(evaluation))

    def _hessians(self, evaluation: Evaluation) -> Array:
        H = np.stack([self.loss.hessian(fields.T, self.y) for fields in evaluation.source])
        result: Array = self.basis.T @ H @ self.basis
        if self.weights is not None:
            result *= self.weights[..., None, None]
        return result
