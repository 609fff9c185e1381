"""Sums over samples, Σ_μ s_μ ℓ(z_μ, y_μ), with the derivatives that a Newton step needs.

    softmax             ℓ = ln Σ_h e^{z_h} − z_y, in O(k) a sample           (`softmax_objective`)
    hinges              max_a Σ_{h≠y} a_h (1 − (z_y − z_h)) − ‖a − α‖²/2c    (`hinge_objective`)
    any convex loss     from its own value, gradient and Hessian, in O(k²)   (here)

Fields come in coordinates Z (L, r, n) with z = BZ: those of the class differences, r = k − 1, where
the loss sees nothing else (`class_coordinates`), else r = k. The first axis counts problems that
are solved side by side. Samples may have weights s, (n,) or those of each problem (L, n).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike

from polyceptron.data.checks import Labels
from polyceptron.data.design import Inner
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.losses.checks import class_coordinates

Basis = Any
"""B, an array (k, r) or, where r = k, a sparse identity."""
Choice = Any
"""A mask or an index array that picks problems."""


class Evaluation(NamedTuple):
    """Values (L,), gradients in Z (L, r, n), and what the curvature is built from (L, k, n)."""

    value: Array
    residual: Array
    source: Array

    def take(self, chosen: Choice) -> Evaluation:
        """Return the problems picked by a mask or an index array."""
        return Evaluation(*(part[chosen] for part in self))

    def replace(self, index: Choice, other: Evaluation) -> Evaluation:
        """Return a copy with the problems at `index` taken from `other`."""
        copied = Evaluation(*(part.copy() for part in self))
        for part, new in zip(copied, other, strict=True):
            part[index] = new
        return copied


class Curvature(Protocol):
    """The second derivative of a sum, sample by sample: Q (L, r, n) ↦ ∂²ℓ·Q."""

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """Return ∂²ℓ·Q (L, r, n), in the precision of Q."""

    def take(self, chosen: Choice) -> Curvature:
        """Return the problems picked by a mask or an index array."""

    def rows(self, rows: slice) -> Inner:
        """Return the curvature of some samples only."""

    def mean(self) -> Array:
        """Return the mean of ∂²ℓ over directions and samples, (L,)."""

    def total(self) -> Array:
        """Return Σ_μ ∂²ℓ_μ, (L, r, r)."""


class Objective(ABC):
    """Σ_μ s_μ ℓ(z_μ, y_μ) of problems side by side.

    Attributes
    ----------
    y : array (n,)
    basis : array (k, r)
    weights : array (n,), (L, n) or None
    numbers : int
        How many numbers a problem's fields hold.
    smoothness : float or None
        A bound on the curvature of ℓ, if there is one.
    kinked : bool
        Beyond a kink another Hessian holds: exact Newton steps may go to and fro.
    """

    smoothness: float | None = None
    kinked = False

    def __init__(self, y: Labels, basis: Basis, weights: Array | None = None) -> None:
        self.y = y
        self.basis = basis
        self.weights = weights
        self.numbers = y.size * basis.shape[0]

    def take(self, chosen: Choice) -> Self:
        """Return the problems picked by a mask or an index array."""
        if self.weights is None or self.weights.ndim == 1:
            return self
        part = copy.copy(self)
        part.weights = self.weights[chosen]
        return part

    @abstractmethod
    def evaluate(self, Z: AnyArray) -> Evaluation:
        """Return ℓ, its gradient, and what the curvature is built from, at fields Z (L, r, n)."""

    @abstractmethod
    def curvature(self, evaluation: Evaluation, dtype: DTypeLike) -> Curvature:
        """Return the second derivative there, in the given precision."""

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """Return a bound on ‖∂²ℓ_μ‖ here (L, n), for the rounding of gradients.

        None leaves that rounding out.
        """
        return None


@dataclass(frozen=True)
class MatrixCurvature:
    """One matrix a sample, (L, n, r, r)."""

    matrices: AnyArray

    def take(self, chosen: Choice) -> MatrixCurvature:
        """Return the problems picked by a mask or an index array."""
        return MatrixCurvature(self.matrices[chosen])

    def rows(self, rows: slice) -> Inner:
        """Return the curvature of some samples only."""
        return MatrixCurvature(self.matrices[:, rows])

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        return np.einsum("lnij,ljn->lin", self.matrices, Q), None

    def mean(self) -> Array:
        """Return the trace of the matrices, a direction and sample."""
        return np.asarray(np.einsum("lnii->ln", self.matrices).mean(1) / self.matrices.shape[-1])

    def total(self) -> Array:
        """Return the sum of the matrices."""
        return np.asarray(self.matrices.sum(1))


class LossObjective(Objective):
    """Σ_μ ℓ(z_μ, y_μ) of a `Loss`: the curvature's source is the fields z (L, k, n)."""

    def __init__(
        self,
        loss: Loss,
        y: Labels,
        k: int,
        weights: Array | None = None,
        basis: Basis | None = None,
    ) -> None:
        if basis is None:
            basis = class_coordinates(loss, k)
        super().__init__(y, basis, weights)
        self.loss = loss
        self.numbers *= len(self.basis)

    def evaluate(self, Z: Array) -> Evaluation:
        """Return ℓ and its gradient; a value that overflows is infinite: the step is halved."""
        z = self.basis @ Z
        losses = np.empty((len(Z), Z.shape[-1]))
        residual = np.empty_like(Z)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for i, fields in enumerate(z):
                losses[i] = self.loss.value(fields.T, self.y)
                residual[i] = (self.loss.gradient(fields.T, self.y) @ self.basis).T
            if self.weights is not None:
                losses *= self.weights
                residual *= self.weights[..., None, :]
            values = losses.sum(1)
        return Evaluation(np.where(np.isnan(values), np.inf, values), residual, z)

    def curvature(self, evaluation: Evaluation, dtype: DTypeLike) -> Curvature:
        """Return BᵀHB, sample by sample."""
        return MatrixCurvature(self._hessians(evaluation).astype(dtype))

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """Return the trace of BᵀHB."""
        return np.einsum("lnii->ln", self._hessians(evaluation))

    def _hessians(self, evaluation: Evaluation) -> Array:
        """Return BᵀHB of every sample, (L, n, r, r)."""
        H = np.stack([self.loss.hessian(fields.T, self.y) for fields in evaluation.source])
        hessians: Array = self.basis.T @ H @ self.basis
        if self.weights is not None:
            hessians *= self.weights[..., None, None]
        return hessians


def own_places(y: Labels) -> Labels:
    """Return where the entries of the labels are in an array (k, n), flat (n,)."""
    return y * y.size + np.arange(y.size)


def norms(A: Array) -> Array:
    """Return the Frobenius norm of each problem, (L,)."""
    return np.sqrt(np.einsum("lij,lij->l", A, A))


def lengths(part: AnyArray) -> AnyArray:
    """Return the norm of each sample's column (L, n), of fields or residuals (L, r, n)."""
    return np.sqrt(np.einsum("lrn,lrn->ln", part, part))
