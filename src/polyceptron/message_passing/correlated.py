"""Message passing with correlated features: the posterior of weights with one full covariance.

Given features F (n, m), the posterior of their weights c is a Gaussian with one covariance C (m, m)
for every class difference, and every sample has a precision D_μ of its own:

    ω = z − V f,   z = F ĉ,        f, g = ∇ and −tr ∂²/(k−1) of ln Z(ω, V)
    D = g/(1 − V g),               C = (Fᵀ D F + diag 1/τ²)⁻¹
    ĉ = C' Fᵀ(D'(ω + V f) + f),    V ← s/(1 − s D),  s_μ = F_μ C F_μᵀ

with τ² the prior variances of c. ω and V are the cavity fields, those that all *other* samples
predict: ln Z(ω, V) is the log-probability of a label that was left out.

A label pulls its class against its nearest competitor. Along that one direction of k − 1 the
curvature is about k/2 times the mean, so the mean moves with D' = kD/2 and its C'; for two classes
they are D and C. (With D itself ten classes overshoot, and need damping that costs four times the
steps.) A fixed point satisfies ĉ/τ² = Fᵀf whatever D' is, and for independent inputs it is that of
Algorithm 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.message_passing.iteration import Iterate, damped_iteration
from polyceptron.message_passing.steps import CHANNEL_NODES
from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel
from polyceptron.rows import Status

# A sample's field variance with its own label known, as a share of that without: where rounding
# makes 1 − V g or 1 − s D zero or negative, this stands for it.
LEAST_VARIANCE_RATIO = 1e-9


@dataclass(frozen=True)
class Posterior:
    """The posterior of the weights, and what it predicts for samples that are left out.

    Attributes
    ----------
    channel : Channel
        The law of the labels that was assumed.
    mean : ndarray of shape (m, k)
        Posterior mean of the weights; rows sum to zero.
    covariance : float or ndarray of shape (m, m)
        Posterior covariance of the weights, for every class direction.
    cavity, variance : ndarray of shape (n, k) and (n,)
        Mean and variance of the field of each sample, given all others.
    log_chance : ndarray of shape (n,)
        Log-probability of each label, given all other samples.
    end : Ending or AMPResult
        How the iteration ended; it has a status.
    """

    channel: Channel
    mean: Array
    covariance: float | Array
    cavity: Array
    variance: Array
    log_chance: Array
    end: Any

    @property
    def converged(self) -> bool:
        """Say whether the iteration has converged."""
        return bool(self.end.status == Status.OK)

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by the mean log-probability of left-out labels."""
        score = float(self.log_chance.mean())
        if not math.isfinite(score):
            score = -math.inf
        return self.converged, score


class _LocalGaussian(NamedTuple):
    """The Gaussian approximation of the posterior around an iterate."""

    omega: Array  # cavity fields (n, k)
    V: Array  # their variances (n,)
    log_z: Array  # log-probabilities of the labels (n,)
    f: Array  # scores (n, k − 1)
    D: Array  # precision that each label adds (n,)
    H: Array  # FᵀDF (m, m)
    C: Array  # covariance of the weights (m, m)


@dataclass(frozen=True)
class _CorrelatedStep:
    """The map of one iteration for features F (n, m) and prior precisions diag 1/τ² (m, m)."""

    F: Array
    y: Labels
    channel: Channel
    basis: Array
    prior_precision: Array

    @property
    def n_classes(self) -> int:
        """The number of classes k."""
        return len(self.basis)

    def __call__(self, here: Iterate) -> Iterate:
        """Return the next iterate; its variance (1, n) is that of the cavity fields."""
        omega, V, _, f, D, H, C = self.expand(here)
        stiffer = self.n_classes / 2  # D'/D
        target = (omega @ self.basis + V[:, None] * f) * (stiffer * D)[:, None] + f
        mean = np.linalg.solve(stiffer * H + self.prior_precision, self.F.T @ target)
        s = np.einsum("ij,ij->i", self.F @ C, self.F)
        cavity_variance = s / np.maximum(1 - s * D, LEAST_VARIANCE_RATIO)
        return Iterate(
            np.ascontiguousarray(mean.T), cavity_variance[None], np.ascontiguousarray(f.T)
        )

    def expand(self, here: Iterate) -> _LocalGaussian:
        """Return the Gaussian approximation of the posterior around an iterate."""
        V = here.variance[0]
        omega = (self.F @ here.weights.T - V[:, None] * here.scores.T) @ self.basis.T
        posterior = self.channel.posterior(omega, self.y, V, CHANNEL_NODES)
        g = np.maximum(posterior.curvature / (self.n_classes - 1), 0.0)
        D = g / np.maximum(1 - V * g, LEAST_VARIANCE_RATIO)
        H = (self.F * D[:, None]).T @ self.F
        C = np.linalg.inv(H + self.prior_precision)
        return _LocalGaussian(omega, V, posterior.log_z, posterior.score @ self.basis, D, H, C)


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
    """Return the posterior of the weights of correlated features.

    Parameters
    ----------
    F : ndarray of shape (n, m)
        Features; the fields are Fc.
    y : ndarray of int of shape (n,)
        Labels in 0..k−1.
    n_classes : int
        k.
    prior : ndarray of shape (m,)
        Prior variances τ² of the weights.
    channel : Channel
        The law of the labels.
    tol, max_iter
        Those of `damped_iteration`.
    start : Iterate, default=None
        Where another run ended; None to begin at the prior.

    Returns
    -------
    Posterior
        Its `end` is the `Ending` of the iteration.
    """
    n, m = F.shape
    basis = difference_basis(n_classes)
    step = _CorrelatedStep(F, y, channel, basis, np.diag(1 / prior))
    if start is None:
        # A sample without any features has variance 0, which the channel does not take.
        variance = np.maximum((F * F) @ prior, 1e-300)
        start = Iterate(np.zeros((n_classes - 1, m)), variance[None], np.zeros((n_classes - 1, n)))
    end = damped_iteration(step, start, tol=tol, max_iter=max_iter)
    final = step.expand(end.last)
    return Posterior(
        channel=channel,
        mean=end.last.weights.T @ basis.T,
        covariance=final.C,
        cavity=final.omega,
        variance=final.V,
        log_chance=final.log_z,
        end=end,
    )
