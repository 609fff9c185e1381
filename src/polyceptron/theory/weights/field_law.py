"""One class seen through noise, for any prior: y = √q̂ w + ξ.

The prior's tilted law gives the density, and mean and variance of w given y,

    ln f(y) = ln g(√q̂ y, q̂) − y²/2 − ln √2π,     μ(y), var(y)  at b = √q̂ y, Λ = q̂,

which is all that the sums over an unknown common shift need (`lattice`, `shift`). The mean is kept
less that of a Gaussian weight, μ̃ = μ − √q̂ y/(1 + q̂): a part linear in y cancels in differences of
classes, and would hide the rest when q̂ is large.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from polyceptron.model.priors import Prior

Array = NDArray[np.float64]
_NOISE = 8.5  # |ξ| is larger with probability 1e-17
_STEP = 0.005  # of the tables in t: cubic pieces are then good to 1e-9
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


class ScalarPosterior(NamedTuple):
    """ln f, μ̃ and var, all of the shape of y."""

    log_f: Array
    mean: Array
    variance: Array


def scalar_posterior(prior: Prior, q_hat: float, y: NDArray[Any]) -> ScalarPosterior:
    """ln f(y), μ̃(y) and var(y) from the prior itself."""
    s = math.sqrt(q_hat)
    tilted = prior.tilted(s * y, q_hat)
    log_f = tilted.log_g - 0.5 * y**2 - _LOG_ROOT
    return ScalarPosterior(log_f, tilted.mean - s / (1 + q_hat) * y, tilted.variance)


def reach(prior: Prior, q_hat: float) -> float:
    """|y| beyond which f is never met."""
    return math.sqrt(q_hat) * prior.extent + _NOISE


class FieldTable:
    """ln f, μ̃ and var as cubic pieces in t = asinh y, for many evaluations at one q̂.

    Structure of a prior at w = 0 (a spike, a kink) has width 1 in y, everything else varies over
    √q̂: equal steps in t serve both, however large q̂.
    """

    def __init__(self, prior: Prior, q_hat: float) -> None:
        self.reach = reach(prior, q_hat)
        end = math.asinh(3 * self.reach)
        n = math.ceil(end / _STEP)
        self.t = np.arange(-n, n + 1) * _STEP
        self.y = np.sinh(self.t)
        values = np.stack(scalar_posterior(prior, q_hat, self.y), -1)
        self.values = values
        from scipy.interpolate import CubicSpline

        # (4, pieces, 3) → rows of the coefficients of one piece.
        c = CubicSpline(self.t, values).c
        self.pieces = np.ascontiguousarray(np.moveaxis(c, 0, 1))

    def __call__(self, y: Array) -> tuple[Array, Array, Array]:
        """ln f, μ̃ and var at y of any shape within three times the reach."""
        x = (np.arcsinh(y) - self.t[0]) / _STEP
        index = np.clip(x.astype(np.int64), 0, len(self.pieces) - 1)
        x -= index
        x *= _STEP
        c = self.pieces[index]
        x = x[..., None]
        value = ((c[..., 0, :] * x + c[..., 1, :]) * x + c[..., 2, :]) * x + c[..., 3, :]
        return value[..., 0], value[..., 1], value[..., 2]

    def quantile(self, uniform: Any) -> Array:
        """y at the given shares of its own law: random numbers stay fixed while q̂ moves."""
        from scipy.interpolate import CubicSpline, PchipInterpolator

        mass = np.exp(self.values[:, 0]) * np.cosh(self.t)  # density of t
        below = CubicSpline(self.t, mass).antiderivative()(self.t)
        total = below[-1]
        middle = int(np.searchsorted(below, 0.5 * total))
        low = below[:middle] / total
        above = CubicSpline(self.t, mass[::-1]).antiderivative()(self.t)[::-1][middle:] / total
        seen_low, seen_high = low > 1e-15, above > 1e-15
        # In normal quantiles both tails are smooth and keep their digits.
        z = np.concatenate([ndtri(low[seen_low]), -ndtri(above[seen_high])])
        t = np.concatenate([self.t[:middle][seen_low], self.t[middle:][seen_high]])
        found: Array = np.sinh(PchipInterpolator(z, t)(np.clip(ndtri(uniform), z[0], z[-1])))
        return found
