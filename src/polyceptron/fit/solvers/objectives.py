"""Sums over samples, Σ_μ s_μ ℓ(z_μ, y_μ), with the derivatives that a Newton step needs.

    softmax             ℓ = ln Σ_h e^{z_h} − z_y, in O(k) a sample
    hinges              ℓ = max_a Σ_{h≠y} a_h (1 − (z_y − z_h)) − ‖a − α‖²/2c, over pulls a
    any convex loss     from its own value, gradient and Hessian, in O(k²)

Fields come in coordinates Z (L, r, n) with z = BZ: those of the class differences, r = k − 1, where
the loss sees nothing else (`class_coordinates`), else r = k. The first axis counts problems that
are solved side by side. Samples may have weights s, (n,) or those of each problem (L, n).

What rounding can do to a computed gradient, so that a certificate holds for the true one: a sum of
m products x·y in floating point is off by about ε√m Σ|x||y|, since the partial sums are rounded m
times, each time either way. Linear algebra adds in blocks: for long sums √m becomes
√256 + √(m/256). With
a_μ = ‖x_μ‖/√d, and Σ_j |x_j||u_j|/√d ≤ a_μ‖u‖, fields and gradient are off by

    δz_μ = ε(√d a_μ‖U‖ + c‖z_μ‖ + c)             δG = ε√n Σ_μ a_μ‖g_μ‖ + cελ‖U‖

where c stands for a handful of operations, among them those of g itself: the softmax of a field off
by ε is off by the factor 1 + ε. The fields' rounding counts by the least of three:

    Σ_μ a_μ s_μ δz_μ,    ‖X/√d‖ (Σ_μ s_μ²δz_μ²)^½,    ½(λL Σ_μ δz_μ²)^½.

The first two send it through Xᵀ/√d, with s_μ the loss's curvature at z_μ. The third holds for a
loss of curvature L at most, whose gradient is cocoercive: with D the distance to the minimiser, Δg
the difference of the residuals there and here, and G the gradient with the fields' error in it,
‖G‖D ≥ λD² + Σ(‖Δg‖²/L − ‖Δg‖δz) ≥ λD² − LΣδz²/4, so that D ≤ ‖G‖/λ + ½(LΣδz²/λ)^½.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import eye_array

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.data.design import Design, Inner, weights_or_ones
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.losses.checks import class_coordinates


class Evaluation(NamedTuple):
    """Values (L,), gradients in Z (L, r, n), and what the curvature is built from (L, k, n)."""

    value: Array
    residual: Array
    source: Array

    def take(self, chosen: Any) -> Evaluation:
        """The problems picked by a mask or an index array."""
        return Evaluation(*(part[chosen] for part in self))

    def replace(self, index: Any, other: Evaluation) -> Evaluation:
        """A copy with the problems at `index` taken from `other`."""
        copied = Evaluation(*(part.copy() for part in self))
        for part, new in zip(copied, other, strict=True):
            part[index] = new
        return copied


class Objective(ABC):
    """Σ_μ s_μ ℓ(z_μ, y_μ) of problems side by side; `weights` s (n,), (L, n) or None."""

    smoothness: float | None = None  # a bound on the curvature of ℓ, if there is one
    kinked = False  # beyond a kink another Hessian holds: exact Newton steps may go to and fro

    def __init__(self, y: Labels, basis: Any, weights: Array | None = None) -> None:
        self.y, self.basis, self.weights = y, basis, weights
        self.numbers = y.size * basis.shape[0]  # that a problem holds

    def take(self, chosen: Any) -> Self:
        """The problems picked by a mask or an index array."""
        if self.weights is None or self.weights.ndim == 1:
            return self
        part = copy.copy(self)
        part.weights = self.weights[chosen]
        return part

    @abstractmethod
    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ, its gradient, and what the curvature is built from."""

    @abstractmethod
    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """The second derivative there, in the given precision."""

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """A bound on ‖∂²ℓ_μ‖ here (L, n), for the rounding of gradients; None: leave that out."""
        return None


@dataclass(frozen=True)
class RankOneCurvature:
    """Softmax: diag w − wwᵀ, times the sample's share."""

    weights: AnyArray
    basis: AnyArray | None  # None: of the classes themselves, and Q is overwritten
    own: Labels  # places of the labels
    share: AnyArray | None = None  # (n,) or (L, n)

    def take(self, chosen: Any) -> RankOneCurvature:
        common = self.share is None or self.share.ndim == 1
        share = self.share if common else self.share[chosen]  # type: ignore[index]
        return replace(self, weights=self.weights[chosen], share=share)

    def rows(self, rows: slice) -> Inner:
        share = None if self.share is None else self.share[..., rows]
        own = own_places(self.own[rows] // self.own.size)
        return replace(self, weights=self.weights[..., rows], own=own, share=share)

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """∂²ℓ·Q, in the precision of Q."""
        v = Q if self.basis is None else self.basis @ Q
        # The map does not see the label's own part, and w ≈ e_y no longer cancels.
        v -= v.reshape(len(v), -1).take(self.own, 1)[:, None]
        v -= np.einsum("lhn,lhn->ln", self.weights, v)[:, None]
        v *= self.weights
        if self.share is not None:
            v *= self.share[..., None, :]
        return v if self.basis is None else self.basis.T @ v, None

    def mean(self) -> Array:
        """The trace of diag w − wwᵀ, a direction and sample."""
        w = self.weights
        trace = w.sum(1) - np.einsum("lhn,lhn->ln", w, w)
        if self.share is not None:
            trace = trace * self.share
        return np.asarray(trace.mean(1, dtype=np.float64) / (w.shape[1] - 1))

    def total(self) -> Array:
        """Σ_μ ∂²ℓ_μ (L, k−1, k−1) of the softmax, on class differences."""
        p, basis = self.weights, difference_basis(self.weights.shape[1])
        weighted = p if self.share is None else p * self.share[..., None, :]
        inner = weighted.sum(2)[:, :, None] * np.eye(p.shape[1]) - weighted @ p.swapaxes(1, 2)
        return np.asarray(basis.T @ inner @ basis)


def own_places(y: Labels) -> Labels:
    """Where the entries of the labels are in an array (k, n), flat (n,)."""
    return y * y.size + np.arange(y.size)


class SoftmaxObjective(Objective):
    """Σ_μ ln Σ_h exp(z_h − z_y): the curvature's source is the softmax (L, k, n).

    `whole`: of the classes' own fields, r = k, which are overwritten; no products with a basis.
    """

    def __init__(self, y: Labels, k: int, weights: Array | None = None, whole: bool = False):
        super().__init__(y, eye_array(k) if whole else difference_basis(k), weights)
        self._own, self.whole = own_places(y), whole
        self.smoothness = 0.5 if weights is None else 0.5 * float(weights.max())

    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ, softmax(z) − y and the softmax, all to full relative precision of Z."""
        own, basis = self._own, self.basis if self.whole else self.basis.astype(Z.dtype, copy=False)
        tiny = 1e-300 if Z.dtype == np.float64 else 1e-37
        z = Z if self.whole else basis @ Z
        z -= z.max(1, keepdims=True)
        flat = z.reshape(len(z), -1)
        true_field = flat.take(own, 1)
        p = np.exp(z, out=z)
        mine = flat.take(own, 1)
        flat[:, own] = 0
        others = p.sum(1)
        total = others + mine
        # ln Σ e^z − z_y = ln(1 + others/own): the sum may be far below rounding of its first term.
        losses = np.log1p(others / np.maximum(mine, tiny))
        if (lost := mine < tiny).any():
            losses[lost] = np.log(others[lost]) - true_field[lost]
        p /= total[:, None]
        residual = p.copy()
        residual.reshape(flat.shape)[:, own] = -others / total
        flat[:, own] = mine / total
        if self.weights is not None:
            weights = self.weights.astype(Z.dtype, copy=False)
            losses *= weights
            residual *= weights[..., None, :]
        residual = residual if self.whole else basis.T @ residual
        return Evaluation(losses.sum(1, dtype=np.float64), residual, p)

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """diag p − ppᵀ between the coordinates of the class differences."""
        p = evaluation.source.astype(dtype, copy=False)
        share = None if self.weights is None else self.weights.astype(dtype, copy=False)
        basis = None if self.whole else self.basis.astype(dtype)
        return RankOneCurvature(p, basis, self._own, share)

    def rows(self, rows: slice) -> SoftmaxObjective:
        """Of some samples only."""
        part = copy.copy(self)
        part.y, part._own = self.y[rows], own_places(self.y[rows])
        part.weights = None if self.weights is None else self.weights[..., rows]
        return part

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """‖diag p − ppᵀ‖ ≤ min(1/2, 2‖p − e_y‖): its trace is at most 2(1 − p_y) ≤ 2‖p − e_y‖."""
        most = 0.5 if self.weights is None else 0.5 * self.weights
        return np.minimum(most, 2 * lengths(evaluation.residual))


@dataclass(frozen=True)
class HingeCurvature:
    """c t_h on the classes A whose pull is free, t = dz_h − dz_y; less the mean over A where Σa is
    all that it may be."""

    active: AnyArray  # (1, k, n), c or 0
    share: AnyArray | None  # 1/|A| or 0, (1, n)
    basis: AnyArray
    y: Labels

    def take(self, chosen: Any) -> HingeCurvature:
        return self

    def rows(self, rows: slice) -> Inner:
        share = None if self.share is None else self.share[..., rows]
        return replace(self, active=self.active[..., rows], y=self.y[rows], share=share)

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        t, own = self.basis @ Q, own_places(self.y)
        flat = t.reshape(len(t), -1)
        t -= flat.take(own, 1)[:, None]
        if self.share is not None:
            t -= ((self.active > 0) * t).sum(1, keepdims=True) * self.share[:, None]
        t *= self.active
        flat[:, own] = -t.sum(1)
        return self.basis.T @ t, None

    def mean(self) -> Array:
        return np.asarray(2 * self.active.sum(1, dtype=np.float64).mean(1) / (len(self.basis) - 1))


class HingeObjective(Objective):
    """Σ_μ max_a a·(1 − margin) − ‖a − α‖²/2c, a the pulls that a loss allows; the source is a.

    An augmented Lagrangian with multipliers α (k, n), 0 for the labels, and penalty c. One problem
    at a time; it has no `stiffness`: what it is for has certificates of its own.
    """

    kinked = True

    def __init__(
        self, loss: Any, y: Labels, multipliers: Array, penalty: float, weights: Array | None = None
    ) -> None:
        super().__init__(y, difference_basis(len(multipliers)), weights)
        self.loss, self.multipliers, self.penalty = loss, multipliers, penalty
        self._share = 0.0 if loss.scale_free else weights_or_ones(weights, y.size)
        self._most = np.inf if loss.scale_free else self._share
        self._samples = np.arange(y.size)

    def margins(self, Z: Array) -> Array:
        """z_y − z_h (k, n) of fields (k−1, n); the true class's own row is 0."""
        z = self.basis @ Z
        return z[self.y, self._samples] - z

    def push(self, margins: Array) -> tuple[Array, Array]:
        """a (k, n), the next multipliers, and a⁰ = α + c(1 − margin) to which they are nearest."""
        wanted = self.multipliers + self.penalty * (1 - margins)
        wanted[self.y, self._samples] = 0.0
        return self.loss.allowed(wanted, self._most), wanted

    def pull(self, multipliers: Array) -> Array:
        """Σ_h a_h (e_h − e_y) in the coordinates of the class differences, (k−1, n)."""
        residual = multipliers.copy()
        residual[self.y, self._samples] = -multipliers.sum(0)
        return np.asarray(self.basis.T @ residual)

    def evaluate(self, Z: Array) -> Evaluation:
        """Up to the constant ‖α‖²/2c."""
        a, wanted = self.push(self.margins(Z[0]))
        value = float((a * (wanted - a / 2)).sum()) / self.penalty
        return Evaluation(np.array([value]), self.pull(a)[None], a[None])

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        a, share = evaluation.source, None
        little = 1e-10 * self._share  # left by rounding
        free = (a > little) & (a < self._most - little)
        if self.loss.pooled:
            full = a.sum(1) > self._most - little
            share = (full / np.maximum(free.sum(1), 1)).astype(dtype)
        active = np.where(free, self.penalty, 0.0).astype(dtype)
        return HingeCurvature(active, share, self.basis.astype(dtype), self.y)


@dataclass(frozen=True)
class MatrixCurvature:
    """One matrix a sample, (L, n, r, r)."""

    matrices: AnyArray

    def take(self, chosen: Any) -> MatrixCurvature:
        return MatrixCurvature(self.matrices[chosen])

    def rows(self, rows: slice) -> Inner:
        return MatrixCurvature(self.matrices[:, rows])

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        return np.einsum("lnij,ljn->lin", self.matrices, Q), None

    def mean(self) -> Array:
        return np.asarray(np.einsum("lnii->ln", self.matrices).mean(1) / self.matrices.shape[-1])

    def total(self) -> Array:
        return np.asarray(self.matrices.sum(1))


Curvature = RankOneCurvature | HingeCurvature | MatrixCurvature
"""Q (L, r, n) ↦ ∂²ℓ·Q, sample by sample; some problems, some rows, mean (L,); most have a sum."""


class LossObjective(Objective):
    """Σ_μ ℓ(z_μ, y_μ) of a `Loss`: the curvature's source is the fields z (L, k, n)."""

    def __init__(
        self, loss: Loss, y: Labels, k: int, weights: Array | None = None, basis: Any = None
    ) -> None:
        super().__init__(y, class_coordinates(loss, k) if basis is None else basis, weights)
        self.loss = loss
        self.numbers *= len(self.basis)

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
        """The trace of BᵀHB."""
        return np.einsum("lnii->ln", self._hessians(evaluation))

    def _hessians(self, evaluation: Evaluation) -> Array:
        H = np.stack([self.loss.hessian(fields.T, self.y) for fields in evaluation.source])
        result: Array = self.basis.T @ H @ self.basis
        if self.weights is not None:
            result *= self.weights[..., None, None]
        return result


def norms(A: Array) -> Array:
    """Frobenius norm of each problem, (L,)."""
    return np.sqrt(np.einsum("lij,lij->l", A, A))


def lengths(part: AnyArray) -> AnyArray:
    """The norm of each sample's column (L, n), of fields or residuals (L, r, n)."""
    return np.sqrt(np.einsum("lrn,lrn->ln", part, part))


EPS = float(np.finfo(float).eps)
_FEW = 8.0  # c


def sum_rounding(length: int) -> float:
    """ε times the growth of rounding in a sum of so many products.

    >>> sum_rounding(100) == 10 * EPS
    True
    """
    return EPS * (math.sqrt(length) if length <= 256 else 16 + math.sqrt(length / 256))


def gradient_rounding(
    design: Design,
    norm: Array,
    ridges: Array,
    fields: Array,
    residuals: Array,
    stiffness: Array | float,
    smoothness: float | None,
    enough: Array,
    unit: float,
) -> Array:
    """A bound (L,) on what rounding hides of the gradients of L problems, for distances ‖G‖/λ.

    norm (L,) of U; ‖z_μ‖, ‖g_μ‖ and s_μ, each (L, n); smoothness: L, if it is known. Where bounds
    that cost nothing are above `enough` (L,), ‖X/√d‖ is found out. `unit`: of rounding, in ε.
    """
    off, rest = roundings(design, norm, ridges, fields, residuals, unit)
    bent = stiffness * off
    through = bent @ design.row_norms
    if smoothness is not None:
        squares = ridges * smoothness * np.einsum("ln,ln->l", off, off)
        through = np.minimum(through, 0.5 * np.sqrt(squares))
    if (through + rest > enough).any():
        through = np.minimum(through, design.stretch * np.sqrt(np.einsum("ln,ln->l", bent, bent)))
    return np.asarray(through + rest)


def roundings(
    design: Design, norm: Array, ridges: Array, fields: Array, residuals: Array, unit: float
) -> tuple[Array, Array]:
    """δz_μ (L, n) and δG (L,), with what `gradient_rounding` is given."""
    a, few = design.row_norms, _FEW * EPS
    off = sum_rounding(design.dimension) * a * norm[:, None] + few * (fields + 1)
    rest = sum_rounding(design.n_samples) * (residuals @ a) + few * ridges * norm
    return unit * off, unit * rest


OBJECTIVES = {"softmax": SoftmaxObjective}
"""Sums of a loss's own, by the solver that it names; any other loss has `LossObjective`."""
