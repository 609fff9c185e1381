"""Probabilities of the student's margin on a fresh sample, for any k, in two dimensions.

With U the teacher's and V the student's field of the labelled class (unit variance, correlation ρ)
and the other classes independent copies, the label's margin V − max_h V_h in units of √q has

    P(margin > x) = k ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−1} du dv
    density(x)    = k(k−1) ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−2} φ(v − x) Φ((u − ρ(v − x))/σ) du dv

with σ = √(1−ρ²). In (u, y), v = ρu + σy, the integrands are entire and decay like Gaussians, so the
trapezoidal rule converges faster than exponentially. A channel enters by the correlation of the
student with its utilities, where these are Gaussian, and by its share of guessed labels, ρ = 0.

What training samples see: their error and their mean loss, where these have a form of their own.

On a training sample the fields are prox_{Vℓ(·,y)}(ω) (theorem 1). Where a loss says at which fresh
gap a training sample is just mistaken, the training error is a probability of the fresh margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from polyceptron.model.channels import Channel
from polyceptron.model.law import Hats, Law
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import from_replicates
from polyceptron.numerics.orthant_closed import corner_cdf
from polyceptron.theory.sides import Problem

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


_SAMPLED_LEVEL = 1
_ROUNDING = 1e-11  # of a probability that is 1 minus a double integral


def training_error(problem: Problem, law: Law) -> float | None:
    """P(a training sample is mistaken), where the fresh margin decides it alone; else None."""
    if math.isinf(law.V):
        return 0.0
    gap = problem.loss.coordinates.mistake_gap(law.V)
    if gap is None:
        return None
    if math.isinf(gap):
        return 0.0
    kept = margin_exceeds(problem.channel, problem.n_classes, law.tau, gap / math.sqrt(law.q))
    return None if kept is None else max(1 - kept, 0.0) if 1 - kept > _ROUNDING else 0.0


def sampled_training_error(problem: Problem, law: Law) -> tuple[float, float]:
    """P(a training sample is mistaken) and its uncertainty, from quasi-random points."""
    averages = problem.at(by_points=True).fields.averages(_SAMPLED_LEVEL, law)
    value, uncertainty = from_replicates(averages(law).error)
    return float(value), float(uncertainty)


def square_training_loss(problem: Problem, law: Law) -> float:
    """E ‖z − e_y‖²/2 over training samples, all k coordinates, at the proximal point.

    On 1⊥ it is r Q/2. Along (1, …, 1) the target is the constant 1/√k: inputs of mean 0 carry
    nothing of it, so that the equations are the same with c = 0, m₁ = 0 and q₁ = x(1/k + q₁), where
    x is the norm that unit noise leaves, times α/(1+V)².
    """
    if math.isinf(law.V):
        return 0.0
    averages = problem.fields.explicit(law)
    if averages is None:
        return math.nan
    k, shrink = problem.n_classes, 1 / (1 + law.V) ** 2
    noise = problem.weights(Hats(0.0, 1.0, float(averages.C[0]) * problem.alpha)).q
    along = shrink / (k * (1 - problem.alpha * shrink * noise))
    return ((k - 1) * float(averages.Q[0]) + along) / 2


@lru_cache(maxsize=64)
def moves_along_ones(loss: Loss, n_classes: int) -> bool:
    """Whether the loss acts along (1, …, 1), which no label shows: its mean is not known then."""
    slope = loss.gradient(np.zeros((1, n_classes)), np.zeros(1, dtype=np.int64))
    return bool(abs(float(slope.sum())) > 1e-8 * (1 + float(np.abs(slope).max())))
