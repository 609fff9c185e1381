"""Numbers that several tests compare with, each with its source."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr

Array = NDArray[np.float64]


class Transitions(NamedTuple):
    """α_IT, where perfect learning becomes possible, and α_algo, where it becomes easy."""

    alpha_it: float
    alpha_algo: float


# Weights ±1. Those of two classes are what `binary_transitions` below computes from scratch; the
# paper quotes 1.249 and 1.493 from the literature for the perceptron.
PERCEPTRON = Transitions(1.244684, 1.492632)
ARGMAX_OF_TWO = Transitions(2.072997, 2.486583)
# The paper has 2.45 and 2.89 by Monte Carlo (caption of its figure of Rademacher weights). The
# digits are those of this package: that both free entropies are equal at α_IT and that two branches
# end at α_algo is asked in tests/identities/test_bayes_identities.py.
ARGMAX_OF_THREE = Transitions(2.394895, 2.885561)

# Two clusters with the logistic loss, as GaussMixtureProject (K2mix) prints them.
TWO_CLUSTERS = {"error": 0.1310234, "m": 4.199649, "q": 14.020895, "V": 13.33539}


def binary_transitions(values: list[float], chances: list[float]) -> Transitions:
    """The transitions of a noiseless perceptron whose weights have a few values, from scratch.

    With unit variance of the weights v and standard normal t, z, the free entropy is

        Φ(q̂) = Ψ_w(q̂) − q q̂/2 + α Ψ_out(q),     Ψ_out(q) = 2 E_t H ln H,  H = Φ(√(q/(1−q)) t),
        Ψ_w(q̂) = E_{v,z} ln Σ_u p_u exp(−q̂ u²/2 + (q̂ v + √q̂ z) u),   q = 2 Ψ_w'(q̂),

    and its stationary points have α = q̂ / (2 Ψ_out'(q)). Perfect learning has Φ = −(entropy of v).
    α_algo is the first maximum of α(q̂); at α_IT the two values of Φ agree.

    Means over t and z are sums over equal steps, which converge exponentially for such functions.
    """
    u, p = np.array(values), np.array(chances)
    t = np.linspace(-12, 12, 2401)  # also the values of z
    weights = np.exp(-(t**2) / 2)
    weights /= weights.sum()
    entropy = -float(p @ np.log(p))

    def overlap(q_hat: float) -> float:
        exponent = _exponents(u, p, q_hat, t)
        tilted = np.exp(exponent - exponent.max(-1, keepdims=True))
        mean = tilted @ u / tilted.sum(-1)
        return float(p @ (mean**2 @ weights))

    def weights_entropy(q_hat: float) -> float:
        exponent = _exponents(u, p, q_hat, t)
        top = exponent.max(-1)
        total = top + np.log(np.exp(exponent - top[..., None]).sum(-1))
        return float(p @ (total @ weights))

    def labels_entropy(q: float) -> float:
        field = math.sqrt(q / (1 - q)) * t
        return 2 * float((ndtr(field) * log_ndtr(field)) @ weights)

    def labels_slope(q: float) -> float:
        """Ψ_out'(q) = E_t φ(x)²/H(x) / (1−q) at x = √(q/(1−q)) t: twice is the information."""
        field = math.sqrt(q / (1 - q)) * t
        log_ratio = -(field**2) - math.log(2 * math.pi) - log_ndtr(field)
        return float(np.exp(log_ratio) @ weights) / (1 - q)

    def alpha(q_hat: float) -> float:
        return q_hat / (2 * labels_slope(overlap(q_hat)))

    def advantage(q_hat: float) -> float:
        """Φ of this point less that of perfect learning, at the α of this point."""
        q = overlap(q_hat)
        phi = weights_entropy(q_hat) - q * q_hat / 2 + alpha(q_hat) * labels_entropy(q)
        return phi + entropy

    grid = np.linspace(0.2, 8.0, 79)
    curve = [alpha(x) for x in grid]
    first = next(i for i in range(1, len(grid) - 1) if curve[i] > curve[i + 1])
    fold = minimize_scalar(
        lambda x: -alpha(x),
        bounds=(grid[first - 1], grid[first + 1]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    crossing = brentq(advantage, grid[0], fold.x, xtol=1e-12)
    return Transitions(alpha(crossing), -float(fold.fun))


def _exponents(u: Array, p: Array, q_hat: float, z: Array) -> Array:
    """ln p_u − q̂ u²/2 + (q̂ v + √q̂ z) u for each v, z and u."""
    signal = q_hat * u[:, None] + math.sqrt(q_hat) * z
    return np.log(p) - q_hat * u**2 / 2 + signal[..., None] * u
