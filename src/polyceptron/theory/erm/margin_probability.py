"""Probabilities of the student's margin on a fresh sample, for any k, in two dimensions.

With U the teacher's and V the student's field of the labelled class (unit variance, correlation ρ)
and the other classes independent copies, the label's margin V − max_h V_h in units of √q has

    P(margin > x) = k ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−1} du dv
    density(x)    = k(k−1) ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−2} φ(v − x) Φ((u − ρ(v − x))/σ) du dv

with σ = √(1−ρ²). In (u, y), v = ρu + σy, the integrands are entire and decay like Gaussians, so the
trapezoidal rule converges faster than exponentially. A channel enters by the correlation of the
student with its utilities, where these are Gaussian, and by its share of guessed labels, ρ = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

from polyceptron.model.channels import Channel
from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.theory.fields.averages import Array

_STEP = 0.16  # of the trapezoidal rule: its error is e^{−2π²/step²} for a Gaussian of unit width
_N_CLEAR = 1e-17  # weights below leave no trace


def margin_exceeds(channel: Channel, n_classes: int, tau: float, x: float) -> float | None:
    """P(margin > x), x in units of √q; None where the channel has no form of its own."""
    if channel.utility_tau(tau) is None:
        return channel.utility_lead(tau, n_classes, x)
    return _mixed(channel, n_classes, tau, lambda t: _exceeds(x, t, n_classes))


def margin_density(channel: Channel, n_classes: int, tau: float, x: Array) -> Array | None:
    """The margin's density at each x (n,), in units of √q; None without Gaussian utilities."""
    return _mixed(channel, n_classes, tau, lambda t: _density(x, t, n_classes))


def _mixed(channel: Channel, n_classes: int, tau: float, of_tau: Callable[[float], Any]) -> Any:
    seen = channel.utility_tau(tau)
    if seen is None:
        return None
    guessed = n_classes * channel.guess(n_classes)
    if guessed == 0:
        return of_tau(seen)
    return (1 - guessed) * of_tau(seen) + guessed * of_tau(0.0)


def _plane(tau: float) -> tuple[Array, Array, Array, float, float]:
    """u, v and the weight of the trapezoidal rule, and ρ, σ."""
    sigma = 1 / math.hypot(1.0, tau)
    rho = tau * sigma
    grid = (np.arange(-54, 54) + 0.37) * _STEP  # never 0, where Owen's form is 0/0
    u, y = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(-0.5 * (u * u + y * y)) * (_STEP**2 / (2 * math.pi))
    keep = weight > _N_CLEAR
    u, y = u[keep], y[keep]
    return u, rho * u + sigma * y, weight[keep], rho, sigma


def _both_below(u: Array, v: Array, tau: float) -> Array:
    """Φ₂(u, v; ρ), with ρ/σ = τ and 1/σ = √(1+τ²)."""
    inverse = math.hypot(1.0, tau)
    return np.clip(corner_cdf(u, v, inverse * v - tau * u, inverse * u - tau * v), 0.0, 1.0)


def _exceeds(x: float, tau: float, n_classes: int) -> float:
    u, v, weight, _, _ = _plane(tau)
    return float(n_classes * (weight @ _both_below(u, v - x, tau) ** (n_classes - 1)))


def _density(x: Array, tau: float, n_classes: int) -> Array:
    u, v, weight, rho, sigma = _plane(tau)
    k = n_classes
    out = np.empty(len(x))
    for i, shift in enumerate(x):
        low = v - shift
        last = np.exp(-0.5 * low * low) / math.sqrt(2 * math.pi) * ndtr((u - rho * low) / sigma)
        rest = _both_below(u, low, tau) ** (k - 2) if k > 2 else 1.0
        out[i] = k * (k - 1) * float(weight @ (last * rest))
    return out
