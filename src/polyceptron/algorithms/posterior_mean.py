"""Two ways to the posterior mean of a classifier's weights, with what predictions need later.

With a Gaussian prior the posterior keeps the covariance of all weights, in the principal directions
of the features (`principal`). With any other prior, or too many features for that, Algorithm 1 runs
on features made fit for it (`compression`), which it takes to be independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.leave_one_out import (
    NoiseSearch,
    best_intercept,
    field_variance,
    run_at,
    search_noise,
)
from polyceptron.algorithms.principal import Compression, Principal, fit_principal
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import CHANNELS, Channel, as_channel
from polyceptron.numerics import Array


class Fitted(NamedTuple):
    """Weights (d, k) and offset (k,) of scaled features, what was used, and how it ended.

    `log_chance` (n,) are the log-probabilities of the labels, each left out.
    """

    weights: Array
    offset: Array
    channel: Channel
    variance: Any
    log_chance: Array
    end: Any


class Asked(NamedTuple):
    """Labels y (n,) below k, the noise or None to choose it, and what message passing is asked."""

    y: Labels
    n_classes: int
    noise: Channel | None
    bias: bool
    prior: Any
    variances: str
    tol: float
    max_iter: int
    verbose: int


@dataclass(frozen=True)
class Correlated:
    """The covariance of all weights, in principal directions and the bias."""

    principal: Principal
    bias: bool
    ones = False

    @classmethod
    def fit(cls, design: Design, asked: Asked) -> tuple[Self, Fitted]:
        """The way, and the posterior."""
        way = cls(Principal.fit(design), asked.bias)
        F = way.principal.features(design, asked.bias)
        channel, posterior = fit_principal(
            F, asked.y, asked.n_classes, way.principal, asked.noise, bias=asked.bias,
            tol=asked.tol, max_iter=asked.max_iter,
        )  # fmt: skip
        mean, m = posterior.mean, way.principal.squares.size
        weights = way.principal.directions @ mean[:m] / math.sqrt(design.dimension)
        offset = mean[m] if asked.bias else np.zeros(asked.n_classes)
        covariance, chance, end = posterior.covariance, posterior.log_chance, posterior.end
        return way, Fitted(weights, offset, channel, covariance, chance, end)

    def field_variance(self, design: Design, variance: Any) -> Array:
        """F C Fᵀ, sample by sample (n,)."""
        F = self.principal.features(design, self.bias)
        result: Array = np.einsum("ij,ij->i", F @ variance, F)
        return result


@dataclass(frozen=True)
class Independent:
    """A variance of each weight, or one of all, of features that are compressed first."""

    compression: Compression
    ones: bool

    @classmethod
    def fit(cls, design: Design, asked: Asked, *, compress: bool) -> tuple[Self, Fitted]:
        """The way, and the posterior; the last column of the design is that of the bias."""
        d = design.dimension
        way = cls(Compression.fit(design) if compress else Compression.none(d), asked.bias)
        problem = NoiseSearch(
            way.compression.design(design), asked.y, asked.n_classes, asked.prior, asked.variances,
            asked.tol, asked.max_iter, asked.verbose,
        )  # fmt: skip
        best = search_noise(problem) if asked.noise is None else run_at(problem, asked.noise)
        weights = way.compression.pull_back(best.result.weights) / math.sqrt(d)
        offset = np.zeros(asked.n_classes)
        if asked.bias:
            offset, weights = weights[-1] + best_intercept(best, asked.y), weights[:-1]
        variance, chance = best.result.variance, best.log_chance
        return way, Fitted(weights, offset, best.channel, variance, chance, best.result)

    def field_variance(self, design: Design, variance: Any) -> Array:
        """Of independent weights (n,)."""
        return field_variance(self.compression.design(design), variance)


def check_noise(noise: Any) -> Channel | None:
    """The channel meant, None for 'auto', or a sentence."""
    if isinstance(noise, str) and noise == "auto":
        return None
    try:
        return as_channel(noise)
    except InvalidInput as error:
        if not isinstance(noise, str):
            raise InvalidInput(
                f"noise must be 'auto', a Channel, or one of {CHANNELS.help}; got {noise!r}"
            ) from None
        raise InvalidInput(f"{error}, and 'auto'") from None
