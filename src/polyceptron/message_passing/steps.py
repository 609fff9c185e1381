"""One iteration of message passing, Algorithm 1 (`alg:amp`), with three kinds of variance.

Every step maps an iterate (Ŵ, V, f) to the next: a channel update, in which a student (the label's
channel, or the proximal map of a loss) makes scores f of the fields ω, and a prior update, in which
a belief (a prior, or a penalty) makes weights of γ and the precision Λ.

**One shared number V** (`SharedVarianceStep`). For i.i.d. inputs of unit variance the covariances
of Algorithm 1 self-average, and by symmetry between the classes they are multiples of the identity
on class differences. One pass over X, nothing of its size:

    ω = XŴ/√d − V f                                   fields, less the Onsager term V f
    f, −tr ∂f = student(ω, y, V)                      scores and their curvature
    Λ = Σ_ν (−tr ∂f_ν)/(d (k−1)),    γ = Xᵀf/√d + ΛŴ
    Ŵ, V = belief(γ, Λ)

Weights are kept in r = k − 1 orthonormal coordinates of the class differences, the columns of a
`basis` (k, r); a loss that also sees the part common to all classes has r = k.

**Algorithm 1 as printed** (`FullVarianceStep`), with a covariance for every sample and a precision
for every coordinate; X² is taken block by block of rows:

    V_ν = Σ_j x²_jν Ĉ_j/d,       ω_ν = Σ_j x_jν ŵ_j/√d − V_ν f_ν     (the printed line drops x)
    Λ_j = −Σ_ν x²_jν ∂f_ν/d,     γ_j = Σ_ν x_jν f_ν/√d + Λ_j ŵ_j,    ŵ_j, Ĉ_j = prior(γ_j, Λ_j)

Matrices are P diag(v) P with P = I − 11ᵀ/k, one number for each class, chosen to keep the diagonal
of the exact matrix (`class_variances`); on the differences of k ≤ 3 classes these are all matrices.
For them channel and Gaussian prior are one integral each (labels see only differences).

**A matrix V (r, r)** (`MatrixVarianceStep`), for a ridge λ and classes that are not exchangeable: c
are weights of the classes, and b intercepts without a ridge, moved to where the scores sum to 0:

    ω = XŴ/√d − fV,    f, D = −∂f  of the proximal map of cℓ at ω + b in the metric of V
    Λ = Σ_ν D_ν/d,     Ŵ = (Xᵀf/√d + ŴΛ)V,   V = (λ + Λ)⁻¹,   b ← b + (Σ_ν D_ν)⁻¹ Σ_ν f_ν
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.data.design import Design, Inner
from polyceptron.message_passing.iteration import Iterate
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Belief
from polyceptron.sides.matrix.proximal import matrix_pull, matrix_stiffness

Student = Callable[[Any, Any, Any], tuple[Array, Array]]
"""Fields ω (n, k), labels (n,) and variance V to f (n, k) and −tr_⊥ ∂f (n,)."""

# Nodes of the channel's one-dimensional integral for k ≥ 4 classes. Their error is far below the
# fluctuations 1/√d of a data set: tests/agreement/test_amp_state_evolution.py.
CHANNEL_NODES = 8


@dataclass(frozen=True)
class _ChannelUpdate:
    """The map z ↦ f = student(z − V f_old, y, V), in the coordinates of `basis` (k, r).

    `scores` f_old are (r, n). A `Design` applies it to one block of samples at a time, so that both
    products with X are made while the block is at hand.
    """

    scores: Array
    y: Labels
    V: float
    basis: Array
    student: Student

    def rows(self, rows: slice) -> Inner:
        """Return the same map for a slice of the samples."""
        return replace(self, scores=self.scores[:, rows], y=self.y[rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, float]]:
        """Return scores (r, b) for fields z (r, b) of b samples, and what the prior update needs.

        The first are in the precision of the fields, for the product with X; the second are the
        scores in double precision and the sum of −tr ∂f over the samples.
        """
        omega = fields - self.V * self.scores
        f, curvature = self.student(omega.T @ self.basis.T, self.y, self.V)
        scores = np.ascontiguousarray((f @ self.basis).T)
        return scores.astype(fields.dtype, copy=False), (scores, float(curvature.sum()))


@dataclass(frozen=True)
class SharedVarianceStep:
    """The map (Ŵ, V, f) → (Ŵ, V, f) with one number V for all samples and coordinates.

    Attributes
    ----------
    design, y
        Inputs (n, d) of unit variance and labels (n,).
    basis : ndarray of shape (k, r)
        Orthonormal coordinates of the classes.
    student, belief
        What makes scores of fields, and weights of γ and Λ.
    least_variance : float
        V is never below this.
    """

    design: Design
    y: Labels
    basis: Array
    student: Student
    belief: Belief
    least_variance: float

    def __call__(self, here: Iterate) -> Iterate:
        """Return the next iterate; its variance is a float."""
        V = max(float(here.variance), self.least_variance)
        channel_update = _ChannelUpdate(here.scores, self.y, V, self.basis, self.student)
        weights = here.weights.astype(self.design.dtype, copy=False)
        back, by_block = self.design.through(weights, channel_update)
        scores = by_block[0][0]
        if len(by_block) > 1:
            scores = np.hstack([part for part, _ in by_block])
        total_curvature = sum(curvature for _, curvature in by_block)
        return self._prior_update(here.weights, back, scores, total_curvature)

    def _prior_update(
        self, weights: Array, back: AnyArray, scores: Array, total_curvature: float
    ) -> Iterate:
        """Return the next iterate from Xᵀf/√d (r, d), f (r, n) and Σ_ν −tr ∂f_ν."""
        directions = self.basis.shape[0] - 1
        precision = max(total_curvature / (self.design.dimension * directions), 0.0)
        gamma = back + precision * weights
        mean, variance = self.belief.denoise(gamma.T @ self.basis.T, precision)
        new_weights = np.ascontiguousarray((mean @ self.basis).T)
        return Iterate(new_weights, float(np.mean(variance)) / directions, scores)


class DiagonalBelief(Protocol):
    """A prior that can be combined with precisions P diag(λ_j) P of its own for each row."""

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        """Return mean (d, k) and the diagonal of its covariance (d, k) at γ and λ, both (d, k)."""
        ...


@dataclass(frozen=True)
class FullVarianceStep:
    """The map of Algorithm 1 as printed, with variances v (k, d) of the weights.

    Attributes
    ----------
    design, y, basis
        Those of `SharedVarianceStep`.
    channel : Channel
        The law of the labels.
    prior : DiagonalBelief
        The law of a row of weights.
    least_variance : float
        Variances of the fields are never below this.
    biases : float or ndarray of shape (k,)
        Added to the fields that labels see.
    """

    design: Design
    y: Labels
    basis: Array
    channel: Channel
    prior: DiagonalBelief
    least_variance: float
    biases: float | Array

    def __call__(self, here: Iterate) -> Iterate:
        """Return the next iterate; its variance is an array (k, d)."""
        # Channel update.
        fields = self.design.fields(here.weights.astype(self.design.dtype, copy=False))
        V = np.maximum(self.design.fields_squared(here.variance).T, self.least_variance)
        # The Onsager term P diag(V) P f, up to a part common to all classes that labels do not see.
        omega = fields.T @ self.basis.T - V * (here.scores.T @ self.basis.T)
        posterior = self.channel.posterior(omega + self.biases, self.y, V, CHANNEL_NODES)
        scores = np.ascontiguousarray((posterior.score @ self.basis).T)
        # Prior update.
        curvatures = class_variances(posterior.diagonal).T
        precision = np.maximum(self.design.back_squared(curvatures).T, 0.0)
        back = self.design.back(scores.astype(self.design.dtype, copy=False))
        gamma = back.T @ self.basis.T + precision * (here.weights.T @ self.basis.T)
        mean, diagonal = self.prior.diagonal_posterior(gamma, precision)
        weights = np.ascontiguousarray((mean @ self.basis).T)
        return Iterate(weights, class_variances(diagonal).T, scores)


def class_variances(diagonal: Array) -> Array:
    """Return v (..., k) with diag(P diag(v) P) = diagonal (..., k), i.e. v_h(1 − 2/k) + Σv/k².

    For k ≤ 3 that determines a symmetric matrix C = P diag(v) P on differences. One v may be
    negative; the sum of two, the variance of a difference, is not, nor is a sum over many samples.
    """
    k = diagonal.shape[-1]
    if k == 2:
        return 2 * diagonal
    total = diagonal.sum(-1, keepdims=True) * (k / (k - 1))
    return np.asarray((diagonal - total / k**2) / (1 - 2 / k))


@dataclass(frozen=True)
class MatrixVarianceStep:
    """The map with a matrix V (r, r), for a ridge and classes that are not exchangeable.

    Features are divided by their standard deviations, so that their weights pay λ/s.

    Attributes
    ----------
    design, y
        Those of `SharedVarianceStep`.
    loss : Loss
        A loss of class differences.
    ridge : float
        λ.
    sample_weights : ndarray of shape (n,)
        c of each sample's class.
    feature_variances : ndarray of shape (d,) or (1,)
        s of each feature, or of all of them.
    intercept : bool
        Whether b is fitted. It is the last column of the iterate's weights (r, d + 1).
    """

    design: Design
    y: Labels
    loss: Loss
    ridge: float
    sample_weights: Array
    feature_variances: Array
    intercept: bool

    def __call__(self, here: Iterate) -> Iterate:
        """Return the next iterate; its variance is a matrix (r, r)."""
        d = self.design.dimension
        W = here.weights[:, :d]
        b = here.weights[:, d]
        V = here.variance
        # Channel update.
        fields = self.design.fields(W.astype(self.design.dtype, copy=False)).T.astype(float) + b
        omega = fields - here.scores.T @ V
        pull = matrix_pull(self.loss, omega, self.y, V, self.sample_weights, fields)
        curvatures = matrix_stiffness(self.loss, omega, self.y, V, self.sample_weights, pull)
        total = curvatures.sum(0)
        scores = np.ascontiguousarray(pull.f.T)
        # Prior update.
        back = self.design.back(scores.astype(self.design.dtype, copy=False))
        gamma = back + (total / d) @ W
        variances = self._weight_variances(total / d)
        weights = np.einsum("dij,jd->id", np.broadcast_to(variances, (d, *V.shape)), gamma)
        if self.intercept:
            b = b + np.linalg.solve(total, pull.f.sum(0))
        return Iterate(np.hstack([weights, b[:, None]]), variances.mean(0), scores)

    def _weight_variances(self, precision: Array) -> Array:
        """Return s(λ + sΛ)⁻¹ of each feature, (d, r, r) or (1, r, r), at Λ (r, r)."""
        s = self.feature_variances[:, None, None]
        inverse = np.linalg.inv(np.eye(len(precision)) * self.ridge + s * precision)
        inverse *= s
        return np.asarray(inverse)
