"""Laplace weights, p(w) = (κ/2) exp(−κ|w|) with κ = √2: heavier tails than Gaussian.

Each half of the tilted law is a Gaussian cut at 0: with x = ±b − κ and a = x/√Λ,

    ∫_0^∞ exp(xw − Λw²/2) dw = √(2π/Λ) e^{a²/2} Φ(a),   mean (a + r)/√Λ,   r = φ(a)/Φ(a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr

from polyceptron.model.priors.base import Prior, Tilted
from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope

_RATE = math.sqrt(2)
_LEAST = 1e-13  # stands for Λ = 0, where the half integrals are 1/|x|
_FAR = -1e3


@dataclass(frozen=True)
class LaplacePrior(Prior):
    """p(w) = exp(−√2|w|)/√2.

    >>> round(float(LaplacePrior().tilted(0.0, 0.0).variance), 6)
    1.0
    """

    name: str = "laplace"
    extent: float = 20.0

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.laplace(scale=1 / _RATE, size=size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        root = np.sqrt(np.maximum(precision, _LEAST))
        up, down = _half(b - _RATE, root), _half(-b - _RATE, root)
        log_g = math.log(_RATE / 2) + np.logaddexp(up.log_g, down.log_g)
        p = expit(up.log_g - down.log_g)
        mean = p * up.mean - (1 - p) * down.mean
        between = p * (1 - p) * (up.mean + down.mean) ** 2
        return Tilted(log_g, mean, p * up.variance + (1 - p) * down.variance + between)


def _half(x: Array, root: Array) -> Tilted:
    """ln ∫_0^∞ exp(xw − Λw²/2) dw, and mean and variance of w there; root = √Λ."""
    a = x / root
    r = mills_ratio(a)
    slope = mills_slope(a, r)  # r(a + r)
    far = a < _FAR
    y = 1 / np.where(far, a, _FAR) ** 2
    # Far to the left the half is exponential: both forms below would cancel there.
    rest = np.where(far, y * (1 - 6 * y), 1 - slope)
    log_g = 0.5 * a**2 + log_ndtr(a) + 0.5 * math.log(2 * math.pi)
    log_g = np.where(far, -np.log(np.maximum(-a, 1.0)) - y, log_g)
    right = a > 0  # there r underflows, here a + r cancels
    mean = np.where(right, a + r, slope / np.where(right, 1.0, r))
    return Tilted(log_g - np.log(root), mean / root, rest / root**2)
