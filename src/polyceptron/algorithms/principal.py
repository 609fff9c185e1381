"""Bayes-optimal classification of correlated features, in their principal directions.

    features    F = A V/√d, the projections on the eigenvectors of AᵀA/d = V diag(s²) Vᵀ, and 1
    prior       weights along direction i have the variance τ_i² = (s_i²/s̄²)^(−γ); the bias 10
    posterior   message passing with the covariance of all weights (`message_passing.variances`)

The noise Δ of the labels and the exponent γ of the prior are chosen by the leave-one-out score,
which comes with every fixed point. Only Δ relative to the prior matters, so that a search over Δ is
one over the scale of the prior too. γ = 0, the same scale in all directions, is the start.

Making correlated features fit for message passing: no direction louder than noise could be.

Message passing is derived for independent inputs. The singular values of such an n × d matrix of
unit variance stay below √n + √d; correlated features have larger ones, and the iteration then
oscillates or diverges. The remedy is a linear map that shrinks the directions above that edge to
it and leaves all others alone:

    x ↦ x + Σ_i (edge/s_i − 1)(x·v_i) v_i,     over singular values s_i > edge.

On independent inputs it is the identity. (Whitening all directions instead was tried: it cost two
points of accuracy on scikit-learn's breast-cancer data, because it amplifies the quiet ones.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design, PerSample
from polyceptron.algorithms.leave_one_out import best_of, walk
from polyceptron.algorithms.message_passing.iteration import Iterate
from polyceptron.algorithms.message_passing.variances import CorrelatedPosterior, correlated_amp
from polyceptron.algorithms.stored_designs import BlockwiseDesign, as_design
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.model.channels import Channel, GaussianNoise
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status

MOST_DIRECTIONS, MOST_ENTRIES = 1000, 30_000_000  # of F: beyond them, independent features
_VARIANCES = tuple(10.0 ** (p / 2) for p in range(-8, 5))
_FIRST = 7  # 10^(−1/2)
_EXPONENTS = (-1.0, -0.5, 0.0, 0.5, 1.0)
_BIAS_VARIANCE = 10.0
_ROUNDING = 1e-10  # of the largest eigenvalue: nothing is known along smaller ones
_QUICK = 1e-2  # tolerance of a search
_CLEAR = 2.0  # standard errors by which γ must be better than 0


@dataclass(frozen=True)
class Principal:
    """Eigenvalues (m,) from large to small and directions (d, m) of a design."""

    squares: Array
    directions: Array

    @classmethod
    def fit(cls, design: Design) -> Principal:
        """Every direction in which the features vary."""
        squares, vectors = np.linalg.eigh(design.gram())
        kept = squares > _ROUNDING * max(float(squares[-1]), 1e-300)
        squares, vectors = squares[kept][::-1], vectors[:, kept][:, ::-1]
        if design.n_samples < design.dimension:
            vectors = design.back(np.ascontiguousarray(vectors.T)).T / np.sqrt(squares)
        return cls(squares, np.ascontiguousarray(vectors))

    def features(self, design: Design, bias: bool) -> Array:
        """F (n, m), with a column of ones behind it if there is a bias."""
        F = design.fields(np.ascontiguousarray(self.directions.T)).T
        return np.hstack([F, np.ones((len(F), 1))]) if bias else np.ascontiguousarray(F)

    def prior(self, exponent: float, bias: bool) -> Array:
        """τ² (m,)."""
        tau = (self.squares / self.squares.mean()) ** -exponent
        return np.append(tau, _BIAS_VARIANCE) if bias else tau


@dataclass(frozen=True)
class _Fit:
    """The posterior at one noise and one exponent of the prior."""

    posterior: CorrelatedPosterior
    channel: Channel
    exponent: float

    @property
    def score(self) -> float:
        """Mean log-probability of the labels, each left out."""
        return float(self.posterior.log_chance.mean())

    @property
    def converged(self) -> bool:
        """Whether message passing did."""
        return self.posterior.end.status == Status.OK

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by score."""
        return self.converged, self.score if math.isfinite(self.score) else -math.inf


def fit_principal(
    F: Array,
    y: Labels,
    n_classes: int,
    principal: Principal,
    noise: Channel | None,
    *,
    bias: bool,
    tol: float,
    max_iter: int,
) -> tuple[Channel, CorrelatedPosterior]:
    """At the given noise, or at the noise and exponent with the best leave-one-out score.

    Of those tried, if the search is interrupted.
    """
    done: list[_Fit] = []

    def run(channel: Channel, exponent: float, tol: float, start: Iterate | None) -> _Fit:
        prior = principal.prior(exponent, bias)
        found = correlated_amp(
            F, y, n_classes, prior, channel, tol=tol, max_iter=max_iter, start=start
        )
        done.append(_Fit(found, channel, exponent))
        if noise is None:
            uninterrupted(found.end)
        return done[-1]

    if noise is not None:
        return noise, run(noise, 0.0, tol, None).posterior
    try:
        kept = _search(run, tol)
    except KeyboardInterrupt:
        if not done:
            raise
        kept = best_of(done)
        end = replace(kept.posterior.end, status=Status.INTERRUPTED)
        kept = replace(kept, posterior=replace(kept.posterior, end=end))
    return kept.channel, kept.posterior


def _search(run: Callable[[Channel, float, float, Iterate | None], _Fit], tol: float) -> _Fit:
    """Over the noise, then over the exponent."""
    quick = max(tol, _QUICK)
    begin = run(GaussianNoise(_VARIANCES[_FIRST]), 0.0, quick, None)
    tried = walk(
        begin, _VARIANCES, _FIRST, lambda v, b: run(GaussianNoise(v), 0.0, quick, _after(b))
    )
    best = best_of(tried)
    tilted = best_of(walk(best, _EXPONENTS, 2, lambda e, b: run(best.channel, e, quick, _after(b))))
    gain = tilted.posterior.log_chance - best.posterior.log_chance
    if gain.mean() > _CLEAR * gain.std() / math.sqrt(gain.size):
        best = tilted
    last = run(best.channel, best.exponent, tol, _after(best))
    return last if last.converged or not best.converged else best


def _after(found: _Fit) -> Iterate | None:
    """Where the next run may start."""
    return found.posterior.end.last if found.converged else None


_SLACK = 1.05  # independent inputs exceed the edge by their fluctuations
_LARGE = 500


@dataclass(frozen=True)
class Compression:
    """Directions (d, c) to shrink and the factors (c,) by which."""

    directions: Array
    factors: Array

    @classmethod
    def none(cls, d: int) -> Compression:
        """The identity."""
        return cls(np.zeros((d, 0)), np.zeros(0))

    @classmethod
    def fit(cls, A: Any) -> Compression:
        """The map for the matrix or design A (n, d) of unit-variance features."""
        design = as_design(A)
        n, d = design.shape
        edge = _SLACK * (math.sqrt(n) + math.sqrt(d))
        if min(n, d) > _LARGE and _loudest(design) < edge:  # some passes instead of a Gram matrix
            return cls.none(d)
        low = edge**2 / d
        squares, vectors = scipy.linalg.eigh(design.gram(), subset_by_value=(low, np.inf))
        loud = np.sqrt(squares)
        directions = vectors
        if n < d:
            directions = design.back(np.ascontiguousarray(vectors.T)).T / loud
        return cls(directions, edge / (loud * math.sqrt(d)))

    def apply(self, A: Array) -> Array:
        """Compressed features, (n, d)."""
        result: Array = A + ((A @ self.directions) * (self.factors - 1)) @ self.directions.T
        return result

    def design(self, base: Design) -> Design:
        """The design of the compressed features, none of which is written down."""
        return base if self.factors.size == 0 else _Compressed(base, self)

    def pull_back(self, weights: Array) -> Array:
        """Weights (d, k) of the compressed features as weights of the features themselves."""
        return self.apply(weights.T).T


class _Compressed(BlockwiseDesign):
    """The rows of `base` under the map, which is its own transpose."""

    def __init__(self, base: Design, compression: Compression) -> None:
        super().__init__(base, compression.apply, base.dimension)
        self.reading_is_dear = base.reading_is_dear

    def times_columns(self, small: AnyArray) -> AnyArray:
        return self._base.times_columns(self._map(small).astype(small.dtype, copy=False))

    def through(self, U: AnyArray, inner: PerSample) -> tuple[AnyArray, list[Any]]:
        self.count(U.dtype)
        back, rest = self._base.through(self._map(U).astype(U.dtype, copy=False), inner)
        return self._map(back).astype(U.dtype, copy=False), rest

    def times_rows(self, small: AnyArray) -> AnyArray:
        return self._map(self._base.times_rows(small)).astype(small.dtype, copy=False)


def _loudest(design: Design) -> float:
    """The largest singular value, to a percent."""
    from scipy.sparse.linalg import LinearOperator, svds

    root = math.sqrt(design.dimension)
    matrix = LinearOperator(
        design.shape,
        matvec=lambda v: root * design.fields(v.reshape(1, -1))[0],
        rmatvec=lambda v: root * design.back(v.reshape(1, -1))[0],
        dtype=np.float64,
    )
    first = np.random.default_rng(0).standard_normal(min(design.shape))
    return float(svds(matrix, k=1, tol=1e-2, v0=first, return_singular_vectors=False)[0])
