"""The level of the winning utility, on which the classes become independent.

With F the law of a utility around its field and C the level of the label's own,

    Z_1 = ∫ dC F′(C − μ_1) ∏_h F(C − μ_h)

so that at a given C each competitor carries a factor F of its own. Over all fields the level is the
largest of k utilities; its nodes are equal steps of the normal score of one utility, and know
nothing of the student.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from polyceptron.model.channels import Channel
from polyceptron.model.channels.channel import UtilityLaw
from polyceptron.model.law import Law
from polyceptron.numerics import Array

_NEGLIGIBLE = 14.0  # e^−14 of the largest is left out
_FARTHEST = 8.0  # no level of a thousand classes is beyond
_ROOT = math.sqrt(2 * math.pi)
_GUESSED = math.inf  # the level of a label that is no utility's


class Levels(NamedTuple):
    """C (n,), weights (n,) for k ∫ dC, and the chance (n,) that a utility is below C."""

    C: Array
    weight: Array
    below: Array


@dataclass(frozen=True)
class Utilities:
    """Utilities at student fields x (unit variance): their field is ρx, their law F around it."""

    rho: float
    law: UtilityLaw | None  # None: the label is a guess, no field matters
    spread: float | None = None  # of a normal law, which is quicker without tables of it

    def losing(self, C: Array, x: Array) -> tuple[Array, Array]:
        """F(C − ρx) and F′/F there."""
        if self.law is None:
            return np.ones_like(x), np.zeros_like(x)
        y = C - self.rho * x
        if self.spread is not None:
            y *= 1 / self.spread
            F = ndtr(y)
            return F, np.exp(-0.5 * y * y) / (self.spread * _ROOT * np.maximum(F, 1e-300))
        log_cdf, hazard = self.law.values(y)
        return np.exp(log_cdf), hazard

    def winning(self, C: Array, x: Array) -> Array:
        """ln F′(C − ρx)."""
        if self.law is None:
            return np.zeros_like(x)
        y = C - self.rho * x
        if self.spread is not None:
            return np.asarray(-0.5 * (y / self.spread) ** 2 - math.log(self.spread * _ROOT))
        log_cdf, hazard = self.law.values(y)
        with np.errstate(divide="ignore"):
            return np.asarray(log_cdf + np.log(hazard))


@lru_cache(maxsize=128)
def winning_levels(channel: Channel, n_classes: int, n: int) -> Levels:
    """Nodes for the level of the largest of k utilities, φ(g)Φ(g)^{k−1} in its normal score g."""
    k = n_classes
    grid = np.linspace(-_FARTHEST, _FARTHEST, 4001)
    log_p = -0.5 * grid**2 + (k - 1) * log_ndtr(grid)
    seen = grid[log_p > log_p.max() - _NEGLIGIBLE]
    g = np.linspace(seen[0], seen[-1], n)
    log_phi = -0.5 * g**2 - 0.5 * math.log(2 * math.pi)
    law = channel.utility_law(1.0)
    assert law is not None
    if channel.utility_variance is not None:
        C = g * math.sqrt(1 + channel.utility_variance)
    else:
        y = np.linspace(law.low, law.high, 2000)
        C = np.interp(log_ndtr(g), law.values(y)[0], y)
        for _ in range(6):
            log_cdf, hazard = law.values(C)
            C = C + np.clip((log_ndtr(g) - log_cdf) / hazard, -1.0, 1.0)
    log_cdf, hazard = law.values(C)
    stretch = np.exp(log_phi - log_cdf) / hazard  # dC/dg
    return Levels(C, k * (g[1] - g[0]) * stretch, np.exp(log_ndtr(g)))


def ways_to_win(
    channel: Channel, n_classes: int, law: Law, n: int
) -> list[tuple[Utilities, Levels]]:
    """Each way in which the label may arise: utilities with n levels, and guesses."""
    guess = channel.guess(n_classes)
    C, weight, below = winning_levels(channel, n_classes, n)
    blur = channel.utility_variance
    spread = None if blur is None else math.sqrt(law.residual + blur)
    utilities = Utilities(law.rho, channel.utility_law(law.residual), spread)
    found = [(utilities, Levels(C, (1 - n_classes * guess) * weight, below))]
    if guess > 0:
        free = Levels(np.array([_GUESSED]), np.array([n_classes * guess]), np.ones(1))
        found.append((Utilities(law.rho, None), free))
    return found
