"""Correlated features for message passing: whitened coordinates, each with a scale of its own.

Features of variance s are g = x/√s of variance 1 with weights W̃ = √s W. What is believed of a row
of W, or paid for it, becomes that of a row u scaled by c (√s for a penalty, √(sθ) for a prior of
unit variance):

    W̃ = c·u,     u = belief(cγ, c²Λ),     Var W̃ = c² Var u.

X is neither copied nor scaled: the products with it are.

Message passing that knows how the features are correlated: a covariance of all weights.

Algorithm 1 keeps a variance for each weight, which is right for independent inputs. Here the
posterior of the weights c of features F (n, m) is a Gaussian with one covariance C (m, m) for every
class difference, and every sample has a precision D_μ of its own:

    ω = z − V f,   z = F ĉ,        f, g = −∇, −tr ∂² of −ln Z(ω, V) a direction
    D = g/(1 − V g),               C = (Fᵀ D F + diag 1/τ²)⁻¹
    ĉ = C' Fᵀ(D'(ω + V f) + f),    V ← s/(1 − s D),  s_μ = F_μ C F_μᵀ

A label pulls its class against the nearest rival. Along that one direction of k − 1 the curvature
is about k/2 times the mean, so the mean moves with D' = kD/2 and its C'; for two classes they are D
and C. (With D itself ten classes overshoot, and need damping that costs four times the steps.) A
fixed point satisfies ĉ/τ² = Fᵀf whatever D' is, as that of Algorithm 1 does, and for independent
inputs V and C are the same for all samples and features: the two agree. ω and V are the fields that
all *other* samples predict: ln Z(ω, V) is the log-probability of a label that was left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design, PerSample
from polyceptron.algorithms.message_passing.amp_result import AMPResult
from polyceptron.algorithms.message_passing.iteration import Ending, Iterate, iterate
from polyceptron.algorithms.stored_designs import BlockwiseDesign
from polyceptron.algorithms.watching import Watch
from polyceptron.model.channels import Channel
from polyceptron.model.checks import difference_basis
from polyceptron.model.features import Spectrum
from polyceptron.model.law import RowEstimate
from polyceptron.numerics import AnyArray, Array


class Whitened(BlockwiseDesign):
    """A design whose columns are divided by √s (d,); those without variance are 0."""

    def __init__(self, inner: Design, deviations: Array) -> None:
        with np.errstate(divide="ignore"):
            self.factor = np.where(deviations > 0, 1 / deviations, 0.0)
        divide = partial(np.multiply, self.factor.astype(inner.dtype))
        super().__init__(inner, divide, inner.dimension)
        self.inner, self.dtype, self.reading_is_dear = inner, inner.dtype, inner.reading_is_dear

    def fields(self, U: AnyArray) -> AnyArray:
        return self.inner.fields(U * self.factor.astype(U.dtype))

    def back(self, F: AnyArray) -> AnyArray:
        return self.inner.back(F) * self.factor.astype(F.dtype)

    def through(self, U: AnyArray, inner: PerSample) -> tuple[AnyArray, list[Any]]:
        back, rest = self.inner.through(U * self.factor.astype(U.dtype), inner)
        return back * self.factor.astype(U.dtype), rest

    def through_squared(
        self, U: AnyArray, C: Array, inner: PerSample
    ) -> tuple[AnyArray, Array, list[Any]]:
        factor = self.factor.astype(U.dtype)
        back, squared, rest = self.inner.through_squared(U * factor, C * self.factor**2, inner)
        return back * factor, squared * self.factor**2, rest

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[Watch]:
        with self.inner.watched(watch):  # whose passes they are
            yield watch

    def fields_squared(self, C: Array) -> Array:
        return self.inner.fields_squared(C * self.factor**2)

    def back_squared(self, H: Array) -> Array:
        return self.inner.back_squared(H) * self.factor**2


class Scaled(NamedTuple):
    """What is believed of rows c·u (d,) where u is one that `inner` knows."""

    inner: Any
    scale: Array

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        found = self.inner.denoise(gamma * self.scale[:, None], precision * self.scale**2)
        return RowEstimate(found.mean * self.scale[:, None], found.variance * self.scale**2)

    def matrix_posterior(self, gamma: Array, precision: Array, basis: Array) -> tuple[Array, Array]:
        c = self.scale[:, None]
        mean, C = self.inner.matrix_posterior(gamma * c, precision * c[..., None] ** 2, basis)
        return mean * c, C * c[..., None] ** 2

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        c = self.scale[:, None]
        mean, diagonal = self.inner.diagonal_posterior(gamma * c, precision * c**2)
        return mean * c, diagonal * c**2


def unwhitened(result: AMPResult, features: Spectrum) -> AMPResult:
    """The result with weights (d, k) of the features themselves."""
    root = features.deviations(len(result.weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        return replace(result, weights=np.where(root > 0, result.weights / root, 0.0))


_ORDER = 8  # nodes of the channel's integral for k ≥ 4
_FLAT = 1e-9


@dataclass(frozen=True)
class CorrelatedPosterior:
    """Mean (m, k) and covariance (m, m) of the weights; fields of samples left out.

    cavity (n, k), their variance (n,), and log_chance (n,) of the labels; the end of the iteration.
    """

    mean: Array
    covariance: Array
    cavity: Array
    variance: Array
    log_chance: Array
    end: Ending


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
) -> CorrelatedPosterior:
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
        found = channel.posterior(omega, y, V, _ORDER)
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
    end = iterate(step, start, tol=tol, max_iter=max_iter, observe=_unobserved)
    step(end.last)
    mean = end.last.weights.T @ basis.T
    return CorrelatedPosterior(mean, seen["C"], seen["omega"], seen["V"], seen["log_z"], end)


def _inverse(H: Array, prior: Array) -> Array:
    """(H + diag 1/τ²)⁻¹ = τ(τHτ + 1)⁻¹τ."""
    root = np.sqrt(prior)
    inner = H * root[:, None] * root
    inner[np.diag_indices_from(inner)] += 1
    factor = scipy.linalg.cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
    result: Array = scipy.linalg.cho_solve(factor, np.diag(root), check_finite=False)
    return result * root[:, None]


def _unobserved(t: int, point: Iterate, residual: float, damping: float) -> None:
    """Nobody looks at the trace of these runs."""
