"""Probabilities of the student's margin, for any k, in two dimensions.

With U the teacher's and V the student's field of the labelled class (unit variance, correlation ρ)
and the other classes independent copies, the label's margin V − max_h V_h in units of √q has

    P(margin > x) = k ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−1} du dv
    density(x)    = k(k−1) ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−2} φ(v − x) Φ((u − ρ(v − x))/σ) du dv

with σ = √(1−ρ²). In (u, y), v = ρu + σy, the integrands are entire and decay like Gaussians, so the
trapezoidal rule converges faster than exponentially.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, owens_t

from polyceptron.numerics.erm_nodes import Array

_STEP = 0.16


def _plane(tau: float) -> tuple[Array, Array, Array, float, float]:
    """u, v and the weight of the trapezoidal rule, and ρ, σ."""
    sigma = 1 / math.hypot(1.0, tau)
    rho = tau * sigma
    grid = (np.arange(-54, 54) + 0.37) * _STEP  # never 0, where Owen's form is 0/0
    u, y = np.meshgrid(grid, grid, indexing="ij")
    weight = np.exp(-0.5 * (u * u + y * y)) * (_STEP**2 / (2 * math.pi))
    keep = weight > 1e-17
    u, y = u[keep], y[keep]
    return u, rho * u + sigma * y, weight[keep], rho, sigma


def _bivariate(u: Array, v: Array, tau: float) -> Array:
    """Φ₂(u, v; ρ) to absolute accuracy, with ρ/σ = τ and 1/σ = √(1+τ²)."""
    inverse = math.hypot(1.0, tau)
    v = np.where(np.abs(v) < 1e-12, 1e-12, v)
    t = owens_t(u, inverse * v / u - tau) + owens_t(v, inverse * u / v - tau)
    return np.clip(0.5 * (ndtr(u) + ndtr(v)) - t - 0.5 * (u * v < 0), 0.0, 1.0)


def margin_exceeds(x: float, tau: float, n_classes: int) -> float:
    """P(margin > x), x in units of √q."""
    u, v, weight, _, _ = _plane(tau)
    return float(n_classes * (weight @ _bivariate(u, v - x, tau) ** (n_classes - 1)))


def margin_density(x: Array, tau: float, n_classes: int) -> Array:
    """The margin's density at each x (n,), in units of √q."""
    u, v, weight, rho, sigma = _plane(tau)
    k = n_classes
    out = np.empty(len(x))
    for i, shift in enumerate(x):
        low = v - shift
        last = np.exp(-0.5 * low * low) / math.sqrt(2 * math.pi) * ndtr((u - rho * low) / sigma)
        rest = _bivariate(u, low, tau) ** (k - 2) if k > 2 else 1.0
        out[i] = k * (k - 1) * float(weight @ (last * rest))
    return out
