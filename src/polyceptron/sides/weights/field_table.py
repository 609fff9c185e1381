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
SMALLEST_SHARE = 1e-15  # of f: rounding of its sum
TABLE_STEP = 0.005  # of t = asinh y: cubic pieces are then good to 1e-9


def scalar_posterior(prior: Prior, q_hat: float, y: AnyArray) -> tuple[Array, Array, Array]:
    """Return ln f(y), μ̃(y) and var(y) from the prior itself.

    Parameters
    ----------
    prior : Prior
    q_hat : float
    y : ndarray
        Fields, of any shape.

    Returns
    -------
    log_f, mean, variance : ndarray
        Of the shape of `y`.
    """
    s = math.sqrt(q_hat)
    tilted = prior.tilted(s * y, q_hat)
    log_f = tilted.log_g - 0.5 * y**2 - 0.5 * math.log(2 * math.pi)
    return log_f, tilted.mean - s / (1 + q_hat) * y, tilted.variance


def reach(prior: Prior, q_hat: float) -> float:
    """Return the |y| beyond which f is never met."""
    return math.sqrt(q_hat) * prior.extent + LARGEST_NOISE


class FieldTable:
    """ln f, μ̃ and var as cubic pieces in t = asinh y, for many evaluations at one q̂.

    A prior's spike, kink or edge has width 1 in y, everything else √q̂: with y measured from there
    (a shift of all weights changes nothing) equal steps in t serve both.

    Attributes
    ----------
    reach : float
        |y| beyond which f is never met.
    t : ndarray, (n,)
        The nodes, on equal steps.
    values : ndarray, (n, 3)
        ln f, μ̃ and var at the nodes.
    mass : ndarray, (n,)
        The density of t, f(y) dy/dt.
    slope : ndarray, (n,)
        dμ̃/dy.
    even : bool
        Whether f and var are even and μ̃ is odd, as for a symmetric prior.
    """

    def __init__(self, prior: Prior, q_hat: float) -> None:
        origin = math.sqrt(q_hat) * prior.origin
        self.reach = reach(prior, q_hat) + abs(origin)
        n = math.ceil(math.asinh(3 * self.reach) / TABLE_STEP)
        self.t = np.arange(-n, n + 1, dtype=float) * TABLE_STEP
        values = np.stack(scalar_posterior(prior, q_hat, origin + np.sinh(self.t)), -1)
        self.values = values
        self.highest = values[:, 0].max()
        self.mass = np.exp(values[:, 0]) * np.cosh(self.t)
        self.slope = math.sqrt(q_hat) * (values[:, 2] - 1 / (1 + q_hat))
        apart = np.abs(values - values[::-1] * [1, -1, 1])
        self.even = bool((apart <= 1e-12 + 1e-9 * np.abs(values)).all())

    @cached_property
    def pieces(self) -> EvenPieces:
        """The cubics of ln f, μ̃ and var between the nodes."""
        return EvenPieces(self.t, self.values, 3)

    def __call__(self, y: Array, n: int = 3) -> tuple[Array, ...]:
        """Return ln f, μ̃ and var at fields y, or the first n of them.

        The fields have any shape, and are within 3 times the reach.
        """
        values = self.pieces(np.arcsinh(y), n)
        np.minimum(values[0], self.highest, out=values[0])  # cubics overshoot at a second edge
        return tuple(values)

    def quantile(self, uniform: AnyArray, mass: Array | None = None) -> Array:
        """Return y at shares of f, or of another density of t; smooth in q̂ at fixed shares.

        Parameters
        ----------
        uniform : ndarray
            Shares between 0 and 1, of any shape.
        mass : ndarray, (n,), optional
            Another density of t at the nodes.

        Returns
        -------
        ndarray
            Fields, of the shape of `uniform`.
        """
        if mass is None:
            mass = self.mass
        z, t = self._normal_quantiles(mass)
        inside = np.clip(ndtri(uniform), z[0], z[-1])
        fields: Array = np.sinh(PchipInterpolator(z, t)(inside))
        return fields

    def _normal_quantiles(self, mass: Array) -> tuple[Array, Array]:
        """Return normal quantiles z of a density of t, which rise, and their t, (m,) each.

        In normal quantiles both tails are smooth and keep their digits: each is summed from its
        own end.
        """
        powers = np.arange(4, 0, -1)  # of the cubic's terms, once they are integrated
        cells = (TABLE_STEP**powers / powers) @ CubicSpline(self.t, mass).c
        share_below = np.cumsum(cells)
        share_above = np.cumsum(cells[::-1])[::-1]
        total = share_below[-1]
        middle = 1 + int(np.searchsorted(share_below, 0.5 * total))
        low = np.append(0.0, share_below)[:middle] / total
        high = np.append(share_above, 0.0)[middle:] / total
        is_low_seen = low > SMALLEST_SHARE
        is_high_seen = high > SMALLEST_SHARE
        z = np.concatenate([ndtri(low[is_low_seen]), -ndtri(high[is_high_seen])])
        t = np.concatenate([self.t[:middle][is_low_seen], self.t[middle:][is_high_seen]])
        is_rising = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 1e-12])
        return z[is_rising], t[is_rising]


field_table = lru_cache(maxsize=64)(FieldTable)


def single_variance(prior: Prior, q_hat: float) -> float:
    """Return v = E var(w | y) of one weight without a common shift: equal steps of t = asinh y."""
    origin = math.sqrt(q_hat) * prior.origin
    end = math.asinh(reach(prior, q_hat) + abs(origin))
    t = np.linspace(-end, end, 2 * math.ceil(end / 0.02) + 1)
    log_f, _, variance = scalar_posterior(prior, q_hat, origin + np.sinh(t))
    return float((np.exp(log_f) * np.cosh(t) * (t[1] - t[0])) @ variance)
