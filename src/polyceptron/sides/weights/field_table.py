"""One class seen through noise: its density, posterior mean and variance, and tables of them.

One class is y = √q̂ w + ξ, and the prior's tilted law gives its density and the posterior of w,

    ln f(y) = ln g(√q̂ y, q̂) − y²/2 − ln √2π,     μ(y), var(y)  at b = √q̂ y, Λ = q̂,

    μ̃(y) = μ(y) − √q̂ y/(1 + q̂):   a part of μ linear in y cancels in differences of classes.
"""

import math
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import ndtri

from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.special import EvenPieces
from polyceptron.problem.priors import Prior

LARGEST_NOISE = 8.5  # |ξ| is larger with probability 1e-17
TABLE_STEP = 0.005  # of t = asinh y: cubic pieces are then good to 1e-9


def scalar_posterior(prior: Prior, q_hat: float, y: AnyArray) -> tuple[Array, Array, Array]:
    """ln f(y), μ̃(y) and var(y) from the prior itself."""
    s = math.sqrt(q_hat)
    tilted = prior.tilted(s * y, q_hat)
    log_f = tilted.log_g - 0.5 * y**2 - 0.5 * math.log(2 * math.pi)
    return log_f, tilted.mean - s / (1 + q_hat) * y, tilted.variance


def reach(prior: Prior, q_hat: float) -> float:
    """|y| beyond which f is never met."""
    return math.sqrt(q_hat) * prior.extent + LARGEST_NOISE


class FieldTable:
    """ln f, μ̃ and var as cubic pieces in t = asinh y, for many evaluations at one q̂.

    A prior's spike, kink or edge has width 1 in y, everything else √q̂: with y measured from there
    (a shift of all weights changes nothing) equal steps in t serve both.
    """

    def __init__(self, prior: Prior, q_hat: float) -> None:
        origin = math.sqrt(q_hat) * prior.origin
        self.reach = reach(prior, q_hat) + abs(origin)
        n = math.ceil(math.asinh(3 * self.reach) / TABLE_STEP)
        self.t = np.arange(-n, n + 1, dtype=float) * TABLE_STEP
        values = np.stack(scalar_posterior(prior, q_hat, origin + np.sinh(self.t)), -1)
        self.values, self.highest = values, values[:, 0].max()
        self.mass = np.exp(values[:, 0]) * np.cosh(self.t)  # density of t
        self.slope = math.sqrt(q_hat) * (values[:, 2] - 1 / (1 + q_hat))  # dμ̃/dy
        apart = np.abs(values - values[::-1] * [1, -1, 1])
        self.even = bool((apart <= 1e-12 + 1e-9 * np.abs(values)).all())

    @cached_property
    def pieces(self) -> EvenPieces:
        """The cubics."""
        return EvenPieces(self.t, self.values, 3)

    def __call__(self, y: Array, n: int = 3) -> tuple[Array, ...]:
        """ln f, μ̃ and var, or the first n of them, at y of any shape within 3 times the reach."""
        found = self.pieces(np.arcsinh(y), n)
        np.minimum(found[0], self.highest, out=found[0])  # cubics overshoot at a second edge
        return tuple(found)

    def quantile(self, uniform: AnyArray, mass: Array | None = None) -> Array:
        """y at the given shares of f, or of another density of t: fixed while q̂ moves."""
        mass = self.mass if mass is None else mass
        cells = (TABLE_STEP ** np.arange(4, 0, -1) / np.arange(4, 0, -1)) @ CubicSpline(
            self.t, mass
        ).c
        below, above = np.cumsum(cells), np.cumsum(cells[::-1])[::-1]
        total = below[-1]
        middle = 1 + int(np.searchsorted(below, 0.5 * total))
        low = np.append(0.0, below)[:middle] / total
        above = np.append(above, 0.0)[middle:] / total
        seen_low, seen_high = low > 1e-15, above > 1e-15
        # In normal quantiles both tails are smooth and keep their digits.
        z = np.concatenate([ndtri(low[seen_low]), -ndtri(above[seen_high])])
        t = np.concatenate([self.t[:middle][seen_low], self.t[middle:][seen_high]])
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 1e-12])
        z, t = z[rising], t[rising]
        found: Array = np.sinh(PchipInterpolator(z, t)(np.clip(ndtri(uniform), z[0], z[-1])))
        return found


field_table = lru_cache(maxsize=64)(FieldTable)


def single_variance(prior: Prior, q_hat: float) -> float:
    """v = E var(w | y) of one weight without a common shift: equal steps of t = asinh y."""
    origin = math.sqrt(q_hat) * prior.origin
    end = math.asinh(reach(prior, q_hat) + abs(origin))
    t = np.linspace(-end, end, 2 * math.ceil(end / 0.02) + 1)
    log_f, _, variance = scalar_posterior(prior, q_hat, origin + np.sinh(t))
    return float((np.exp(log_f) * np.cosh(t) * (t[1] - t[0])) @ variance)
