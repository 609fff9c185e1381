"""What a prior is asked for: a few scalar functions of one weight w of mean 0 and variance 1.

    g(b, Λ) = E_w exp(bw − Λw²/2),    mean = ∂_b ln g,    variance = ∂²_b ln g

the log-partition of w seen through Gaussian noise, from which the rest is made for any k.

A row w in R^k has i.i.d. entries from the prior; labels show only u = Pw, its part orthogonal to
(1, …, 1). Observed as γ with precision Λ (a scalar), its law is

    Z_w(γ, Λ) = E_w exp(γ·u − Λ‖u‖²/2),    mean = ∇_γ ln Z_w,   covariance = ∇²_γ ln Z_w.

‖u‖² = ‖w‖² − (Σw)²/k and a Hubbard–Stratonovich field t decouple the classes,

    Z_w = ∫Dt ∏_h g(γ_h + t√(Λ/k), Λ),

with g the prior's own log-partition, which the trapezoidal rule integrates to rounding. A Gaussian
row is in closed form; a finite one with few configurations is a sum over them.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from polyceptron.checks import project
from polyceptron.numerics import Array
from polyceptron.numerics.special import normalised
from polyceptron.problem.order import RowEstimate
from polyceptron.problem.registry import Registry


class Tilted(NamedTuple):
    """ln g, and mean and variance of w under the tilted law, all of the shape of b.

    For a row of weights: ln Z_w (...), the mean of u (..., k), and the trace of its covariance
    (...).
    """

    log_g: Array
    mean: Array
    variance: Array


class Prior(ABC):
    """The law of one teacher weight, with mean 0 and variance 1.

    `extent` is a distance from 0 beyond which w is never found (probability below 1e-12),
    `origin` where its density has a spike, a kink or an edge, `accuracy` the error of its tilted
    moments, rounding apart.

    >>> from polyceptron.problem import as_prior
    >>> as_prior("laplace").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    extent: float
    origin: float = 0.0
    accuracy: float = 0.0
    gaussian: ClassVar[bool] = False  # whether the posterior is a Gaussian's, in closed form

    @property
    def entropy(self) -> float:
        """Return −Σ p ln p of one weight, infinite where it has a density."""
        return math.inf

    @property
    def support(self) -> tuple[Array, Array] | None:
        """Return the values (c,) and probabilities (c,) of a weight, None if not finitely many."""
        return None

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent weights of the given shape."""

    @abstractmethod
    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return ln E exp(bw − Λw²/2), mean and variance, elementwise over b and Λ ≥ 0."""

    def row(self, n_classes: int) -> WeightsRow:
        """Return the law of a row of k independent weights on class differences."""
        return WeightsRow(self, n_classes)


PRIORS: Registry[Prior] = Registry("prior", Prior)


_MAX_NORMS = 20_000  # values of ‖u‖² that are counted one by one
_TABLE_NUMBERS = 500_000  # numbers of a table in memory at once
_SHARED_REACH_RATIO = 1.2  # ratio of the ranges of t within which rows share nodes
_T_STEP = 0.75  # the integrand is a mixture of Gaussians of unit width at least


class WeightsRow:
    """k independent weights from any prior, seen on class differences; a `Belief`."""

    def __init__(self, prior: Prior, n_classes: int) -> None:
        self.prior = prior
        self.n_classes = n_classes
        self.gaussian = prior.gaussian

    def norms(self) -> tuple[Array, Array] | None:
        """Return the values of ‖u‖² (c,) and their probabilities (c,), None if there are too many.

        ‖Pw‖² = Σw² − (Σw)²/k: class by class, the law of both sums.
        """
        support = self.prior.support
        if support is None:
            return None
        law = {(0.0, 0.0): 1.0}
        for _ in range(self.n_classes):
            grown: dict[tuple[float, float], float] = defaultdict(float)
            for (total, squares), share in law.items():
                for w, p in zip(*(part.tolist() for part in support), strict=True):
                    grown[round(total + w, 9), round(squares + w * w, 9)] += share * p
            law = grown
            if len(law) > _MAX_NORMS:
                return None
        norms = np.array([squares - total**2 / self.n_classes for total, squares in law])
        values, place = np.unique(np.round(np.maximum(norms, 0.0), 8), return_inverse=True)
        return values, np.bincount(place, np.array(list(law.values()))).astype(float)

    def denoise(self, gamma: ArrayLike, precision: ArrayLike) -> RowEstimate:
        """Return the posterior mean and variance of u at γ (..., k) and precision Λ (...)."""
        return RowEstimate(*self.posterior(gamma, precision)[1:])

    def posterior(self, gamma: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the posterior of u = Pw at γ (..., k), less its common part, and Λ (...)."""
        gamma = project(gamma)
        k = gamma.shape[-1]
        flat = gamma.reshape(-1, k)
        lam = np.broadcast_to(np.asarray(precision, dtype=float), gamma.shape[:-1]).ravel()
        n = len(flat)
        log_z = np.empty(n)
        mean = np.empty((n, k))
        variance = np.empty(n)
        # t reaches as far as √Λ lets it: rows of alike precision share their nodes.
        reach = np.sqrt(lam * k) * self.prior.extent + 9
        order = np.argsort(reach, kind="stable")
        start = 0
        while start < n:
            first = float(reach[order[start]])
            alike = int(np.searchsorted(reach[order], _SHARED_REACH_RATIO * first, side="right"))
            size = max(1, int(_TABLE_NUMBERS * _T_STEP / (2 * first * k)))
            part = order[start : min(alike, start + size)]
            start += len(part)
            last = float(reach[part[-1]])
            t = np.linspace(-last, last, 2 * math.ceil(last / _T_STEP) + 1)
            log_weight = -0.5 * t**2 + math.log((t[1] - t[0]) / math.sqrt(2 * math.pi))
            scale = lam[part, None, None]
            tilted = self.prior.tilted(flat[part, None, :] + t[:, None] * np.sqrt(scale / k), scale)
            log_f = tilted.log_g.sum(-1) + log_weight
            p, log_z[part] = normalised(log_f)
            mean_m = np.einsum("nt,nth->nh", p, tilted.mean)
            centred = tilted.mean - mean_m[:, None, :]
            mean[part] = project(mean_m)
            # tr P Cov P, with Cov = E_t[diag v] + Cov_t(m); P v P has trace (1 − 1/k) Σ v.
            common = centred.sum(-1) ** 2 / k
            spread = (1 - 1 / k) * tilted.variance.sum(-1) + (centred**2).sum(-1) - common
            variance[part] = np.maximum(np.einsum("nt,nt->n", p, spread), 0.0)  # by rounding
        shape = gamma.shape[:-1]
        return Tilted(log_z.reshape(shape), mean.reshape(gamma.shape), variance.reshape(shape))

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        """Return mean (d, k) and diagonal of the covariance (d, k) at precisions P diag(λ) P.

        γ and λ are (d, k).
        """
        k = gamma.shape[-1]
        found = self.posterior(gamma, precision.mean(-1))
        flat = found.variance[:, None] / k  # the trace, shared alike by the k classes
        return found.mean, np.broadcast_to(flat, gamma.shape)


class GaussianRow(WeightsRow):
    """w ~ N(0, I): u is Gaussian on class differences."""

    def posterior(self, gamma: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the posterior of a Gaussian row, in closed form."""
        gamma = project(gamma)
        precision = np.asarray(precision, dtype=float)
        k = gamma.shape[-1]
        scale = 1 / (1 + precision)
        log_z = 0.5 * scale * (gamma**2).sum(-1) + 0.5 * (k - 1) * np.log(scale)
        variance = np.broadcast_to((k - 1) * scale, log_z.shape)
        return Tilted(log_z, gamma * scale[..., None], variance)

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        """Return mean and diagonal of the inverse of D = 1 + λ on differences, both (d, k).

        The inverse is D⁻¹ − D⁻¹11ᵀD⁻¹/(1ᵀD⁻¹1).
        """
        inverse = 1 / (1 + precision)
        total = inverse.sum(-1, keepdims=True)
        centred = gamma - (inverse * gamma).sum(-1, keepdims=True) / total
        return inverse * centred, inverse - inverse**2 / total


class PointRow(WeightsRow):
    """A finite prior with few configurations: a sum over the points u = Pw."""

    def posterior(self, gamma: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the posterior of u as a sum over its points."""
        u, log_p = reduced_support(self.prior, self.n_classes)
        norms = (u**2).sum(-1)
        scale = 0.5 * np.asarray(precision, dtype=float)[..., None]
        p, log_z = normalised(project(gamma) @ u.T + log_p - scale * norms)
        mean = p @ u
        # Σ p‖u − mean‖² term by term: exact even when one point carries almost all the mass.
        spread = norms - 2 * (mean @ u.T) + (mean**2).sum(-1, keepdims=True)
        return Tilted(log_z, mean, (p * np.maximum(spread, 0.0)).sum(-1))

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        """Return mean and variance of each entry, both (d, k), as sums over the points."""
        u, log_p = reduced_support(self.prior, self.n_classes)
        p, _ = normalised(gamma @ u.T + log_p - 0.5 * precision @ (u**2).T)
        mean = p @ u
        return mean, np.maximum(p @ u**2 - mean**2, 0.0)


class SingleRow(WeightsRow):
    """The classical perceptron's one weight w: the row (−w, w)/√2, with no common shift."""

    def norms(self) -> tuple[Array, Array] | None:
        """Return the values w² and their probabilities, None if there are infinitely many."""
        support = self.prior.support
        if support is None:
            return None
        return support[0] ** 2, support[1]

    def posterior(self, gamma: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the posterior of (−w, w)/√2 from that of w."""
        direction = np.array([-1.0, 1.0]) / math.sqrt(2)
        tilted = self.prior.tilted(project(gamma) @ direction, precision)
        return Tilted(tilted.log_g, tilted.mean[..., None] * direction, tilted.variance)


@lru_cache(maxsize=64)
def reduced_support(prior: Prior, k: int) -> tuple[Array, Array]:
    """Return the distinct points u = Pw (c, k) of a finite prior, and log-probabilities (c,)."""
    assert prior.support is not None, prior.name
    values, p = prior.support
    rows = np.array(list(itertools.product(values, repeat=k)))
    log_p = np.array(list(itertools.product(np.log(p), repeat=k))).sum(-1)
    points, inverse = np.unique(np.round(project(rows), 12), axis=0, return_inverse=True)
    merged = np.array([logsumexp(log_p[inverse.ravel() == i]) for i in range(len(points))])
    return points, merged
