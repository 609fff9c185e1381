"""One step of message passing with one shared variance: one pass over X, nothing of its size.

    ω = XŴ/√d − V f,      f, −tr ∂f = student(ω, y, V),      Λ = Σ_ν (−tr ∂f_ν)/(d (k−1))
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = belief(γ, Λ)                                        (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of those differences, so that the products have r columns, not k;
a loss that also sees the part common to all classes has r = k.

Algorithm 1 as printed: a covariance for every sample and a precision for every coordinate.

    V_ν = Σ_j x²_jν Ĉ_j/d,       ω_ν = Σ_j x_jν ŵ_j/√d − V_ν f_ν
    Λ_j = −Σ_ν x²_jν ∂f_ν/d,     γ_j = Σ_ν x_jν f_ν/√d + Λ_j ŵ_j,    ŵ_j, Ĉ_j = prior(γ_j, Λ_j)

k = 2, 3: exact, with (k−1)×(k−1) matrices in the basis of class differences. A channel takes one
variance a class; on differences k ≤ 3 of them can stand for any matrix (`class_numbers`).

k > 3: matrices P diag(v) P with P = I − 11ᵀ/k, one number per class, chosen to keep the diagonal of
the exact matrix: for those the channel is still one integral (labels see only differences, on which
P does nothing), and so is the Gaussian prior. X² is taken by block of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polyceptron.algorithms.block_products import Inner
from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.message_passing.iteration import Iterate, Step
from polyceptron.model.channels import Channel
from polyceptron.model.law import Belief, Student
from polyceptron.model.priors import Row
from polyceptron.numerics import AnyArray, Array


@dataclass(frozen=True)
class _Scores:
    """z ↦ f = student(z − V f_old, y, V) in the coordinates of `basis`; scores f_old (r, n)."""

    scores: Array
    y: Labels
    V: float
    basis: Array
    student: Student

    def rows(self, rows: slice) -> Inner:
        """For these samples alone."""
        return _Scores(self.scores[:, rows], self.y[rows], self.V, self.basis, self.student)

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, float]]:
        """Scores (r, b) in the precision of the fields; in full, with the sum of −tr ∂f."""
        omega = fields - self.V * self.scores
        f, curvature = self.student.denoise(omega.T @ self.basis.T, self.y, self.V)
        scores = np.ascontiguousarray((f @ self.basis).T)
        return scores.astype(fields.dtype, copy=False), (scores, float(curvature.sum()))


def shared_step(
    design: Design, y: Labels, basis: Array, student: Student, belief: Belief, floor: float
) -> Step:
    """The map (Ŵ, V, f) → (Ŵ, V, f) of one iteration, in the coordinates of `basis` (k, r).

    V is `floor` at least. Both products are made while a block of X is at hand, if reading is dear.
    """
    d, directions = design.dimension, basis.shape[0] - 1
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        inner = _Scores(here.scores, y, max(float(here.variance), floor), basis, student)
        back, found = design.through(here.weights.astype(precise, copy=False), inner)
        scores = np.hstack([part for part, _ in found]) if len(found) > 1 else found[0][0]
        precision = max(sum(curvature for _, curvature in found) / (d * directions), 0.0)
        gamma = back + precision * here.weights
        mean, variance = belief.denoise(gamma.T @ basis.T, precision)
        weights = np.ascontiguousarray((mean @ basis).T)
        return Iterate(weights, float(np.mean(variance)) / directions, scores)

    return step


_FLAT = 1e-12  # of the trace: the least variance in any direction of differences


@dataclass(frozen=True)
class _MatrixScores:
    """Fields z and packed variances to scores f and packed −∂f, sample by sample; f_old (r, n)."""

    scores: Array
    y: Labels
    basis: Array
    channel: Channel
    floor: float

    def rows(self, rows: slice) -> _MatrixScores:
        """For these samples alone."""
        return replace(self, scores=self.scores[:, rows], y=self.y[rows])

    def __call__(self, fields: AnyArray, spread: Array) -> tuple[Array, Array, Array]:
        """f (r, b), packed −∂f (c, b), and f again, to be kept."""
        basis, floor = self.basis, self.floor
        r = basis.shape[1]
        V, eye = _unpack(spread, r), np.eye(r)
        size = np.trace(V, axis1=1, axis2=2)[:, None, None]
        V = np.where(size < floor * r, floor * eye, V)
        omega = (fields.T - np.einsum("nij,jn->ni", V, self.scores)) @ basis.T
        wide = V + _FLAT * np.maximum(size, floor) * eye
        v = class_numbers(np.einsum("hi,nij,hj->nh", basis, wide, basis))
        f, hessian = self.channel.score_and_hessian(omega, self.y, v)
        scores = np.ascontiguousarray((f @ basis).T)
        return scores, _pack(-(basis.T @ hessian @ basis)), scores


@dataclass(frozen=True)
class _DiagonalScores:
    """The same with one variance for each class."""

    scores: Array
    y: Labels
    basis: Array
    channel: Channel
    floor: float
    order: int

    def rows(self, rows: slice) -> _DiagonalScores:
        """For these samples alone."""
        return replace(self, scores=self.scores[:, rows], y=self.y[rows])

    def __call__(self, fields: AnyArray, spread: Array) -> tuple[Array, Array, Array]:
        """f (r, b), the numbers (k, b) of −∂f, and f again, to be kept."""
        v, basis = np.maximum(spread.T, self.floor), self.basis
        # P diag(v) P f; the channel ignores what is common
        reaction = v * (self.scores.T @ basis.T)
        omega = fields.T @ basis.T - reaction
        f, diagonal = self.channel.score_and_diagonal(omega, self.y, v, self.order)
        scores = np.ascontiguousarray((f @ basis).T)
        return scores, class_numbers(diagonal).T, scores


def matrix_step(
    design: Design, y: Labels, basis: Array, channel: Channel, row: Row, floor: float
) -> Step:
    """k ≤ 3. Matrices are packed as rows (c, ·): the diagonal, then for r = 2 the other entry."""
    r = basis.shape[1]
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        inner = _MatrixScores(here.scores, y, basis, channel, floor)
        weights = here.weights.astype(precise, copy=False)
        back, packed, scores = design.through_squared(weights, here.variance, inner)
        precision = _unpack(packed, r)
        gamma = back.T + np.einsum("dij,jd->di", precision, here.weights)
        mean, C = row.matrix_posterior(gamma, precision, basis)
        return Iterate(np.ascontiguousarray(mean.T), _pack(C), np.hstack(scores))

    return step


def diagonal_step(
    design: Design,
    y: Labels,
    basis: Array,
    channel: Channel,
    row: Row,
    floor: float,
    order: int,
) -> Step:
    """k > 3. Variances are (k, ·): one number per class, of the matrix P diag(v) P."""
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        inner = _DiagonalScores(here.scores, y, basis, channel, floor, order)
        weights = here.weights.astype(precise, copy=False)
        back, found, scores = design.through_squared(weights, here.variance, inner)
        precision = np.maximum(found.T, 0.0)
        gamma = back.T @ basis.T + precision * (here.weights.T @ basis.T)
        mean, diagonal = row.diagonal_posterior(gamma, precision)
        new = np.ascontiguousarray((mean @ basis).T)
        return Iterate(new, class_numbers(diagonal).T, np.hstack(scores))

    return step


def class_numbers(diagonal: Array) -> Array:
    """v (..., k) with diag(P diag(v) P) = diagonal (..., k): v_h(1 − 2/k) + Σv/k².

    For k ≤ 3 that is all of a matrix on differences: P diag(v) P = C. One v may be negative; the
    sum of two, the variance of a difference, is not, nor is a sum over many samples.
    """
    k = diagonal.shape[-1]
    if k == 2:
        return 2 * diagonal
    total = diagonal.sum(-1, keepdims=True) * (k / (k - 1))
    result: Array = (diagonal - total / k**2) / (1 - 2 / k)
    return result


def _pack(matrices: Array) -> Array:
    """Symmetric (m, r, r), r ≤ 2, to rows (c, m)."""
    if matrices.shape[-1] == 1:
        return np.ascontiguousarray(matrices[:, 0, 0])[None]
    return np.stack([matrices[:, 0, 0], matrices[:, 1, 1], matrices[:, 0, 1]])


def _unpack(rows: Array, r: int) -> Array:
    """The inverse of `_pack`."""
    if r == 1:
        return rows.reshape(-1, 1, 1)
    a, b, c = rows
    return np.stack([np.stack([a, c], -1), np.stack([c, b], -1)], -2)


def start_variance(V: float, basis: Array, d: int) -> Array:
    """The packed variances of an isotropic start."""
    k, r = basis.shape
    if k > 3:
        return np.full((k, d), V)
    return _pack(np.broadcast_to(V * np.eye(r), (d, r, r)))


def final_variance(variance: Array, basis: Array) -> Array:
    """(d, k, k) covariances for k ≤ 3; (d, k) numbers v of P diag(v) P for k > 3."""
    k, r = basis.shape
    if k > 3:
        return np.ascontiguousarray(variance.T)
    result: Array = basis @ _unpack(variance, r) @ basis.T
    return result
