"""The prior seen through a Gaussian: the posterior of one reduced teacher row.

A row w in R^k has i.i.d. entries from the prior; labels show only u = Pw, its part orthogonal to
(1, …, 1). Observed as γ with precision Λ (a scalar), its law is

    Z_w(γ, Λ) = E_w exp(γ·u − Λ‖u‖²/2),    mean = ∇_γ ln Z_w,   covariance = ∇²_γ ln Z_w.

Gaussian: closed form. Finite: all support^k configurations where they are few; otherwise
‖u‖² = ‖w‖² − (Σw)²/k and a Hubbard–Stratonovich field t decouple the classes,

    Z_w = ∫Dt ∏_h g(γ_h + t√(Λ/k)),   g(b) = Σ_i p_i exp(b v_i − Λ v_i²/2),

which the trapezoidal rule integrates to rounding (the integrand is a mixture of unit Gaussians).
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from polyceptron.model.priors import FinitePrior, GaussianPrior, Prior

Array = NDArray[np.float64]
MAX_CONFIGURATIONS = 256


class Denoised(NamedTuple):
    """ln Z_w (...), posterior mean of u (..., k), and the trace of its covariance (...)."""

    log_z: Array
    mean: Array
    variance: Array


def project(w: Any) -> Array:
    """Pw: the part of the last axis orthogonal to (1, …, 1)."""
    w = np.asarray(w, dtype=float)
    result: Array = w - w.mean(-1, keepdims=True)
    return result


def denoise(prior: Prior, gamma: Any, precision: Any) -> Denoised:
    """Posterior of u = Pw at γ (..., k), whose common part is ignored, and scalar precision Λ."""
    gamma = project(gamma)
    precision = np.asarray(precision, dtype=float)
    k = gamma.shape[-1]
    if isinstance(prior, GaussianPrior):
        scale = 1 / (1 + precision)
        squared = (gamma**2).sum(-1)
        log_z = 0.5 * scale * squared + 0.5 * (k - 1) * np.log(scale)
        return Denoised(
            log_z, gamma * scale[..., None], np.broadcast_to((k - 1) * scale, log_z.shape)
        )
    if len(prior.values) ** k <= MAX_CONFIGURATIONS:
        points, log_p = reduced_support(prior, k)
        return denoise_points(points, log_p, gamma, precision)
    return _denoise_decoupled(prior, gamma, precision)


@lru_cache(maxsize=64)
def reduced_support(prior: FinitePrior, k: int) -> tuple[Array, Array]:
    """The distinct points u = Pw (c, k) and their log-probabilities (c,)."""
    rows = np.array(list(itertools.product(prior.values, repeat=k)))
    log_p = np.array(list(itertools.product(np.log(prior.probabilities), repeat=k))).sum(-1)
    points, inverse = np.unique(np.round(project(rows), 12), axis=0, return_inverse=True)
    merged = np.array([logsumexp(log_p[inverse.ravel() == i]) for i in range(len(points))])
    return points, merged


def denoise_points(points: Array, log_p: Array, gamma: Array, precision: Array) -> Denoised:
    """Posterior over an explicit list of points (c, dim) with log-probabilities (c,)."""
    norms = (points**2).sum(-1)
    log_w = gamma @ points.T + log_p - 0.5 * np.asarray(precision)[..., None] * norms
    peak = log_w.max(-1, keepdims=True)
    w = np.exp(log_w - peak)
    total = w.sum(-1, keepdims=True)
    p = w / total
    mean = p @ points
    # Σ p‖u − mean‖² term by term: exact even when one point carries almost all the mass.
    spread = norms - 2 * (mean @ points.T) + (mean**2).sum(-1, keepdims=True)
    variance = (p * np.maximum(spread, 0.0)).sum(-1)
    return Denoised((peak + np.log(total))[..., 0], mean, variance)


def posterior_points(log_weight: Array) -> Array:
    """Probabilities (..., c) from unnormalised log-weights (..., c)."""
    p = np.exp(log_weight - log_weight.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p


def _denoise_decoupled(prior: FinitePrior, gamma: Array, precision: Array) -> Denoised:
    k = gamma.shape[-1]
    values, log_p = np.array(prior.values), np.log(prior.probabilities)
    flat_gamma = gamma.reshape(-1, k)
    flat_precision = np.broadcast_to(precision, gamma.shape[:-1]).ravel()
    n = flat_gamma.shape[0]
    log_z, mean, variance = np.empty(n), np.empty((n, k)), np.empty(n)
    reach = math.sqrt(float(flat_precision.max(initial=0.0)) * k) * float(np.abs(values).max()) + 9
    t = np.linspace(-reach, reach, 2 * math.ceil(reach / 0.75) + 1)
    step = t[1] - t[0]
    chunk = max(1, 500_000 // (t.size * k))
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        lam = flat_precision[part, None, None]
        b = flat_gamma[part, None, :] + t[:, None] * np.sqrt(lam / k)
        log_w = [b * x - 0.5 * lam * x**2 + c for x, c in zip(values, log_p, strict=True)]
        log_g = np.logaddexp.reduce(log_w)
        weights = [np.exp(w - log_g) for w in log_w]
        m = sum(w * x for w, x in zip(weights, values, strict=True))
        v = sum(w * (x - m) ** 2 for w, x in zip(weights, values, strict=True))
        log_f = log_g.sum(-1) - 0.5 * t**2 + math.log(step / math.sqrt(2 * math.pi))
        log_z[part] = logsumexp(log_f, axis=-1)
        p = np.exp(log_f - log_z[part, None])
        mean_m = np.einsum("nt,nth->nh", p, m)
        centred = m - mean_m[:, None, :]
        mean[part] = project(mean_m)
        # tr P Cov P, with Cov = E_t[diag v] + Cov_t(m); P v P has trace (1 − 1/k) Σ v.
        common = centred.sum(-1) ** 2 / k
        variance[part] = np.einsum(
            "nt,nt->n", p, (1 - 1 / k) * v.sum(-1) + (centred**2).sum(-1) - common
        )
    shape = gamma.shape[:-1]
    return Denoised(log_z.reshape(shape), mean.reshape(gamma.shape), variance.reshape(shape))
