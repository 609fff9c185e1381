"""Steps of message passing: what student and belief make of a point, in three kinds of variance.

One shared number V, one pass over X, nothing of its size (`shared_step`):

    ω = XŴ/√d − V f,      f, −tr ∂f = student(ω, y, V),      Λ = Σ_ν (−tr ∂f_ν)/(d (k−1))
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = belief(γ, Λ)                                        (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of those differences, so that the products have r columns, not k;
a loss that also sees the part common to all classes has r = k.

Algorithm 1 as printed, a covariance for every sample and a precision for every coordinate
(`full_step`; X² is taken by block of rows):

    V_ν = Σ_j x²_jν Ĉ_j/d,       ω_ν = Σ_j x_jν ŵ_j/√d − V_ν f_ν
    Λ_j = −Σ_ν x²_jν ∂f_ν/d,     γ_j = Σ_ν x_jν f_ν/√d + Λ_j ŵ_j,    ŵ_j, Ĉ_j = prior(γ_j, Λ_j)

Matrices are P diag(v) P with P = I − 11ᵀ/k, one number per class, chosen to keep the diagonal of
the exact matrix (`class_numbers`); on the differences of k ≤ 3 classes these are all matrices. For
them the channel is one integral (labels see only differences, on which P does nothing), and so is
the Gaussian prior.

Correlated features F (n, m) (`correlated_amp`): the posterior of their weights c is a Gaussian with
one covariance C (m, m) for every class difference, and every sample has a precision D_μ of its own:

    ω = z − V f,   z = F ĉ,        f, g = −∇, −tr ∂² of −ln Z(ω, V) a direction
    D = g/(1 − V g),               C = (Fᵀ D F + diag 1/τ²)⁻¹
    ĉ = C' Fᵀ(D'(ω + V f) + f),    V ← s/(1 − s D),  s_μ = F_μ C F_μᵀ

A label pulls its class against its nearest competitor. Along that one direction of k − 1 the
curvature is about k/2 times the mean, so the mean moves with D' = kD/2 and its C'; for two classes
they are D and C. (With D itself ten classes overshoot, and need damping that costs four times the
steps.) A fixed point satisfies ĉ/τ² = Fᵀf whatever D' is, as that of Algorithm 1 does, and for
independent inputs V and C are the same for all samples and features: the two agree. ω and V are the
fields that all *other* samples predict: ln Z(ω, V) is the log-probability of a label that was left
out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design, Inner
from polyceptron.algorithms.message_passing.iteration import Iterate, Step, damped_iteration
from polyceptron.model.channels import Channel
from polyceptron.model.checks import difference_basis
from polyceptron.model.law import Belief
from polyceptron.model.priors import Row
from polyceptron.numerics import AnyArray, Array

Student = Callable[[Any, Any, Any], tuple[Array, Array]]
"""f (n, k) and −tr_⊥ ∂f (n,) at fields ω (n, k), labels (n,) and uncertainty V."""

NODES = 8  # of the channel's integral for k ≥ 4: far more precise than the 1/√d of an instance
_FLAT = 1e-9


@dataclass(frozen=True)
class _Scores:
    """z ↦ f = student(z − V f_old, y, V) in the coordinates of `basis`; scores f_old (r, n)."""

    scores: Array
    y: Labels
    V: float
    basis: Array
    student: Student

    def rows(self, rows: slice) -> Inner:
        return replace(self, scores=self.scores[:, rows], y=self.y[rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, float]]:
        """Scores (r, b) in the precision of the fields; in full, with the sum of −tr ∂f."""
        omega = fields - self.V * self.scores
        f, curvature = self.student(omega.T @ self.basis.T, self.y, self.V)
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


def full_step(
    design: Design, y: Labels, basis: Array, channel: Channel, row: Row, floor: float
) -> Step:
    """The same with variances v (k, d) of the weights, and of at least `floor` of the fields."""
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        fields = design.fields(here.weights.astype(precise, copy=False))
        v = np.maximum(design.fields_squared(here.variance).T, floor)
        # P diag(v) P f; the channel ignores what is common
        omega = fields.T @ basis.T - v * (here.scores.T @ basis.T)
        found = channel.posterior(omega, y, v, NODES)
        scores = np.ascontiguousarray((found.score @ basis).T)
        precision = np.maximum(design.back_squared(class_numbers(found.diagonal).T).T, 0.0)
        back = design.back(scores.astype(precise, copy=False))
        gamma = back.T @ basis.T + precision * (here.weights.T @ basis.T)
        mean, diagonal = row.diagonal_posterior(gamma, precision)
        variance = class_numbers(diagonal).T
        return Iterate(np.ascontiguousarray((mean @ basis).T), variance, scores)

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
    return np.asarray((diagonal - total / k**2) / (1 - 2 / k))


def final_variance(variance: Array) -> Array:
    """(d, k, k) covariances P diag(v) P for k ≤ 3, else the numbers v (d, k)."""
    k, v = len(variance), variance.T
    if k > 3:
        return np.ascontiguousarray(v)
    P = np.eye(k) - 1 / k
    return np.einsum("gh,dh,hi->dgi", P, v, P)


@dataclass(frozen=True)
class Posterior:
    """Mean (m, k) and covariance (m, m) of the weights, and the fields of samples left out.

    cavity (n, k), their variance (n,), and log_chance (n,) of the labels; `end` of the iteration.
    """

    mean: Array
    covariance: Any
    cavity: Array
    variance: Array
    log_chance: Array
    end: Any


def correlated_amp(
    F: Array,
    y: Labels,
    n_classes: int,
    prior: Array,
    channel: Channel,
    *,
    tol: float,
    max_iter: int,
    start: Iterate | None = None,
) -> Posterior:
    """Posterior of weights with prior variances τ² `prior` (m,), given features F (n, m).

    `start` is where another run ended.
    """
    n, m = F.shape
    k = n_classes
    basis = difference_basis(k)
    seen: dict[str, Any] = {}

    def step(here: Iterate) -> Iterate:
        V = here.variance[0]
        omega = (F @ here.weights.T - V[:, None] * here.scores.T) @ basis.T
        found = channel.posterior(omega, y, V, NODES)
        g = np.maximum(found.curvature / (k - 1), 0.0)
        rest = np.maximum(1 - V * g, _FLAT)
        D = g / rest
        f = found.score @ basis
        C = _inverse((F * D[:, None]).T @ F, prior)
        steep = k / 2 * D
        target = (omega @ basis + V[:, None] * f) * steep[:, None] + f
        mover = C if k == 2 else _inverse((F * steep[:, None]).T @ F, prior)
        mean = mover @ (F.T @ target)
        s = np.einsum("ij,ij->i", F @ C, F)
        new = s / np.maximum(1 - s * D, _FLAT)
        seen.update(omega=omega, V=V, log_z=found.log_z, C=C)
        return Iterate(np.ascontiguousarray(mean.T), new[None], np.ascontiguousarray(f.T))

    if start is None:
        spread = np.maximum((F * F) @ prior, 1e-300)
        start = Iterate(np.zeros((k - 1, m)), spread[None], np.zeros((k - 1, n)))
    end = damped_iteration(step, start, tol=tol, max_iter=max_iter)
    step(end.last)
    mean = end.last.weights.T @ basis.T
    return Posterior(mean, seen["C"], seen["omega"], seen["V"], seen["log_z"], end)


def _inverse(H: Array, prior: Array) -> Array:
    """(H + diag 1/τ²)⁻¹ = τ(τHτ + 1)⁻¹τ."""
    root = np.sqrt(prior)
    inner = H * root[:, None] * root
    inner[np.diag_indices_from(inner)] += 1
    factor = scipy.linalg.cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    result: Array = scipy.linalg.cho_solve(factor, np.diag(root), check_finite=False)
    return result * root[:, None]
