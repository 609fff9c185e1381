"""What more data would bring: a power law through a measured learning curve, with its band.

    ε(n) = a + b n^(−c),      a ≥ 0,  b ≥ 0,  1/10 ≤ c ≤ 2

by weighted least squares, in closed form at each c of a grid. The band comes from resampling: the
samples on which the errors were measured are drawn anew with replacement, the same ones at every n,
and the law is fitted to each draw. It holds what the fit does not know, not whether the law holds:
that is an assumption, the longer the reach the bolder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_EXPONENTS = np.geomspace(0.1, 2.0, 40)
_DRAWS = 400
_BAND = (0.05, 0.95)


@dataclass(frozen=True)
class PowerLaw:
    """a, b and c of the law, each a number or one for each draw (m,)."""

    floor: Array
    amplitude: Array
    exponent: Array

    def at(self, n: float) -> Array:
        """ε(n)."""
        result: Array = self.floor + self.amplitude * n**-self.exponent
        return result


@dataclass(frozen=True)
class Forecast:
    """An error at `n_samples`, with a band that holds 9 draws of 10."""

    n_samples: int
    value: float
    low: float
    high: float


def fit_power_law(n: Array, errors: Array, weights: Array) -> PowerLaw:
    """The law through errors (m, s) at training sizes n (s,), weighted by (s,).

    >>> n = np.array([10.0, 100.0, 1000.0])
    >>> law = fit_power_law(n, (0.1 + 2 * n**-0.5)[None], np.ones(3))
    >>> bool(abs(law.at(4000.0)[0] - 0.1 - 2 / 4000**0.5) < 0.005)
    True
    """
    best = np.full(len(errors), np.inf)
    law = np.zeros((3, len(errors)))
    w = weights / weights.sum()
    for c in _EXPONENTS:
        x = n**-c
        mean_x, mean_e = w @ x, errors @ w
        spread = w @ (x - mean_x) ** 2
        b = np.maximum(((errors - mean_e[:, None]) * (x - mean_x)) @ w / max(spread, 1e-300), 0.0)
        a = mean_e - b * mean_x
        through = errors @ (w * x) / (w @ x**2)  # without a floor
        b, a = np.where(a < 0, through, b), np.maximum(a, 0.0)
        misfit = (errors - a[:, None] - b[:, None] * x) ** 2 @ w
        better = misfit < best
        best = np.where(better, misfit, best)
        law[:, better] = a[better], b[better], np.full(int(better.sum()), c)
    return PowerLaw(*law)


def forecast(
    n: Array, errors: Array, sizes: list[int], seed: int = 0
) -> tuple[PowerLaw, list[Forecast]]:
    """The law and its values at `sizes`; errors (s, m) of m held-out samples at sizes n (s,)."""
    rng = np.random.default_rng(seed)
    m = errors.shape[1]
    mean = errors.mean(1)
    # A size without errors must not count for everything: its own error is of one sample at least.
    doubt = np.sqrt(np.maximum(errors.var(1), 1 / m) / m)
    drawn = rng.multinomial(m, np.full(m, 1 / m), size=_DRAWS) @ errors.T / m
    law = fit_power_law(n, mean[None], doubt**-2.0)
    draws = fit_power_law(n, drawn, doubt**-2.0)
    found = []
    for size in sizes:
        value = float(law.at(size)[0])
        low, high = np.quantile(draws.at(size), _BAND)
        found.append(Forecast(size, value, min(float(low), value), max(float(high), value)))
    return law, found
