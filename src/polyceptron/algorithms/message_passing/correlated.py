"""Message passing that knows how the features are correlated: a covariance of all weights.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.message_passing.damped_iteration import Ending, Iterate, iterate
from polyceptron.model.channels import Channel
from polyceptron.model.differences import difference_basis

Array = NDArray[np.float64]
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
