"""Newton's method on the rows of weights that an elastic net has not set to zero.

On the support S = {i : w_i ≠ 0} the objective f(W) + Σ_i (L₁‖w_i‖ + (L₂/2)‖w_i‖²) is smooth, and
its Newton step D solves

    X_Sᵀ H (X_S D) + Σ_i P''(w_i) d_i = −(∇f + ∇P)_S,     P''(w) = L₁(1 − wwᵀ/‖w‖²)/‖w‖ + L₂

with H the curvature of the loss at the fields. Conjugate gradients solve it roughly, in single
precision and with a copy of the columns X_S alone. A row that the step would turn by more than a
right angle has crossed zero, and is set to zero. Proximal steps find the support, and certify.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from polyceptron.data.checks import Labels
from polyceptron.data.design import Design
from polyceptron.fit.solvers.newton_step import Mask
from polyceptron.fit.solvers.objectives import Curvature
from polyceptron.numerics import AnyArray, Array

# Steps of conjugate gradients. A Newton step that needs more is cut short, and is still downhill.
MOST_INNER_STEPS = 100
SINGLE_EPS = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class ScaledElasticNet:
    """L₁‖u‖ + (L₂/2)‖u‖² of every column u of weights (k−1, d), in the units of the data.

    Attributes
    ----------
    l1, l2 : float
    penalised : array of bool (d,)
        False for the column of an intercept.
    """

    l1: float
    l2: float
    penalised: Mask

    def value(self, U: Array) -> float:
        """Return the penalty of weights (k−1, d)."""
        W = U[:, self.penalised]
        norms = np.linalg.norm(W, axis=0)
        return self.l1 * float(norms.sum()) + 0.5 * self.l2 * float((norms * norms).sum())

    def restricted(self, support: Mask) -> ScaledElasticNet:
        """Return the penalty of the columns in a support (d,)."""
        return ScaledElasticNet(self.l1, self.l2, self.penalised[support])

    def gradient(self, U: Array) -> Array:
        """Return the gradient at weights (k−1, s) of which no penalised column is zero."""
        pull = self.l1 * _directions(U) + self.l2 * U
        return np.where(self.penalised, pull, 0.0)

    def curvature(self, U: Array, D: AnyArray) -> AnyArray:
        """Return P''(u) d of every column, (k−1, s), in the precision of D."""
        across = D * 0
        if len(U) > 1:
            along = _directions(U).astype(D.dtype)
            stiff = (self.l1 / _column_norms(U)).astype(D.dtype)
            across = stiff * (D - along * (along * D).sum(0))
        bent: AnyArray = across + D.dtype.type(self.l2) * D
        return np.where(self.penalised, bent, D.dtype.type(0))


def _column_norms(U: Array) -> Array:
    """Return the norms (s,) of columns (k−1, s), and 1 for those of norm zero."""
    norms = np.linalg.norm(U, axis=0)
    return np.where(norms > 0, norms, 1.0)


def _directions(U: Array) -> Array:
    """Return the columns (k−1, s) at unit length."""
    return np.asarray(U / _column_norms(U))


class SupportColumns:
    """A copy X_S/√d (n, s) of the columns in a support (d,), in a precision of its own."""

    def __init__(self, design: Design, support: Mask, dtype: DTypeLike = np.float32) -> None:
        self.support = support
        indices = np.flatnonzero(support)
        self.columns = np.empty((design.n_samples, indices.size), dtype)
        for rows, part in design.each_block(_scaled_columns, (indices, design.scale)):
            self.columns[rows] = part
        design.count(design.dtype)

    def fields(self, D: AnyArray) -> AnyArray:
        """Return the fields (k−1, n) of directions (k−1, s)."""
        return D @ self.columns.T

    def back(self, F: AnyArray) -> AnyArray:
        """Return the directions (k−1, s) of residuals (k−1, n)."""
        return F @ self.columns


def _scaled_columns(block: AnyArray, indices: Labels, scale: float) -> AnyArray:
    """Return some columns of a block (b, d) times a factor, (b, s), in double precision."""
    return np.multiply(block[:, indices], scale, dtype=np.float64)


def support_direction(
    columns: SupportColumns,
    curvature: Curvature,
    penalty: ScaledElasticNet,
    U: Array,
    gradient: Array,
    accuracy: float,
) -> Array:
    """Return the Newton step on a support by conjugate gradients, (k−1, s).

    Parameters
    ----------
    columns : SupportColumns
    curvature : Curvature
        That of the losses, in single precision.
    penalty : ScaledElasticNet
        That of the columns in the support.
    U, gradient : array (k−1, s)
        The weights in the support, and the gradient of the whole objective there.
    accuracy : float
        The share of the gradient's norm that may be left.
    """
    size = float(np.linalg.norm(gradient))
    residual = (-gradient / size).astype(np.float32)  # of norm 1, so that no square underflows
    D = np.zeros_like(residual)
    direction = residual.copy()
    square = float((residual * residual).sum())
    stiffest = 0.0
    for _ in range(MOST_INNER_STEPS):
        bent_fields, _ = curvature(columns.fields(direction)[None])
        bent = columns.back(bent_fields[0]) + penalty.curvature(U, direction)
        direction_square = float((direction * direction).sum())
        stiffness = float((direction * bent).sum()) / direction_square
        stiffest = max(stiffest, stiffness)
        if not stiffness > SINGLE_EPS * stiffest:  # no more than rounding is left
            break
        length = np.float32(square / (stiffness * direction_square))
        D += length * direction
        residual -= length * bent
        previous = square
        square = float((residual * residual).sum())
        if square <= accuracy**2:
            break
        direction = residual + np.float32(square / previous) * direction
    return D.astype(float) * size


def without_crossings(U: Array, D: Array, penalised: Mask) -> Array:
    """Return U + D (k−1, s) with penalised columns set to zero that turned by a right angle."""
    moved = U + D
    crossed = penalised & ((U * moved).sum(0) <= 0)
    return np.where(crossed, 0.0, moved)
