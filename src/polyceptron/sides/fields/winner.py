"""The labelled class, whose utility wins at a level C, and its independent competitors.

With F the distribution function of a utility around its field, μ_h the mean field of class h and C
the level of the label's own utility,

    Z_1 = ∫ dC F′(C − μ_1) ∏_h F(C − μ_h)                        (theory notes, section 10)

so that at a given C each of the N = k − 1 competitors carries a factor F of its own: given C they
are independent. Over all fields C is the largest of k utilities; its nodes (`winning_levels`) are
equal steps of the normal score of one utility, and know nothing of the student.

Fields are written ω = √q x with x a standard normal in each class, and the utility of a class is
ρx plus noise, ρ the correlation of student and teacher. A label is also guessed with some chance
(noise `flips`): then no field matters, and one level C = ∞ stands for all (`label_sources`).

`competitors` has the nodes of one competitor given C and the conditioning variable L of an
`AdditivePull`; `windows` finds which fields and which L count; `sums` averages over all of them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from polyceptron.numerics import Array
from polyceptron.problem.channels.channel import Channel, UtilityLaw
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FieldsStudent

SQRT_TWO_PI = math.sqrt(2 * math.pi)
LEAST_CORRELATION = 1e-3  # fields at which a utility meets C are computed with ρ at least this


class WinningLevels(NamedTuple):
    """Levels C (c,), weights (c,) for k ∫ dC, and the chance (c,) that a utility is below C."""

    C: Array
    weight: Array
    below: Array


@lru_cache(maxsize=128)
def winning_levels(channel: Channel, n_classes: int, n: int) -> WinningLevels:
    """Return n nodes for the level of the largest of k utilities.

    Its normal score g has the density kφ(g)Φ(g)^{k−1}; nodes are equal steps of g, where the
    trapezoidal rule converges faster than any power.
    """
    k = n_classes
    grid = np.linspace(-8.0, 8.0, 4001)  # no level of a thousand classes is beyond 8
    log_p = -0.5 * grid**2 + (k - 1) * log_ndtr(grid)
    within = grid[log_p > log_p.max() - 14.0]  # levels of e^−14 of the largest density are left out
    g = np.linspace(within[0], within[-1], n)
    law = channel.utility_law(1.0)
    assert law is not None
    if channel.utility_variance is not None:
        C = g * math.sqrt(1 + channel.utility_variance)
    else:
        C = _levels_of_normal_scores(law, g)
    log_cdf, hazard = law.values(C)
    dC_dg = np.exp(-0.5 * g**2 - log_cdf) / (SQRT_TWO_PI * hazard)
    return WinningLevels(C, k * (g[1] - g[0]) * dC_dg, np.exp(log_ndtr(g)))


def _levels_of_normal_scores(law: UtilityLaw, g: Array) -> Array:
    """Solve F(C) = Φ(g) for C (n,): interpolation, then Newton's method on ln F."""
    y = np.linspace(law.low, law.high, 2000)
    C = np.interp(log_ndtr(g), law.values(y)[0], y)
    for _ in range(6):
        log_cdf, hazard = law.values(C)
        C = C + np.clip((log_ndtr(g) - log_cdf) / hazard, -1.0, 1.0)
    return C


class LabelField(NamedTuple):
    """Mean (c,) and standard deviation of the label's x at each level C."""

    mean: Array
    spread: float


class WinnerAtLevel(NamedTuple):
    """A label whose utility is C, and its competitors, at levels C (c,).

    The rows of `edges` (3, c), all of x = ω/√q, are the lowest and highest value of the label that
    count, and the highest of a competitor; NaN until they are searched for (`windows`).
    """

    pull: AdditivePull
    rho: float
    law: UtilityLaw | None  # None: the label is a guess, no field matters
    width: float  # of the utilities' noise
    field_scale: float  # √q
    n_competitors: int
    levels: WinningLevels
    edges: Array

    def part(self, rows: slice) -> WinnerAtLevel:
        """Return the same at some of the levels."""
        levels = WinningLevels(*(column[rows] for column in self.levels))
        return self._replace(levels=levels, edges=self.edges[:, rows])

    def log_cdf_and_hazard(self, x: Array) -> tuple[Array, Array]:
        """Return ln F(C − ρx) and F′/F there, at x (c, …)."""
        if self.law is None:
            return np.zeros_like(x), np.zeros_like(x)
        C = self.levels.C.reshape(-1, *[1] * (x.ndim - 1))
        return self.law.values(C - self.rho * x)

    def log_label_density(self, x: Array) -> Array:
        """Return ln F′(C − ρx) − x²/2 at x (c, …): the label's density up to a constant."""
        log_cdf, hazard = self.log_cdf_and_hazard(x)
        if self.law is None:
            return np.asarray(log_cdf - 0.5 * x * x)
        with np.errstate(divide="ignore"):
            log_hazard = np.log(hazard)
        return np.asarray(log_cdf + log_hazard - 0.5 * x * x)

    def median_field(self) -> Array:
        """Return the x (c,) at which a utility is as likely above C as below; 0 for guesses."""
        finite_level = np.where(np.isfinite(self.levels.C), self.levels.C, 0.0)
        return finite_level / max(self.rho, LEAST_CORRELATION)

    def label_field(self) -> LabelField:
        """Return the mean and spread of the label's x at each level."""
        if self.law is None:
            return LabelField(np.zeros(len(self.levels.C)), 1.0)
        total = math.hypot(self.width, self.rho)
        return LabelField(self.rho * self.levels.C / total**2, self.width / total)


def label_sources(
    student: FieldsStudent, channel: Channel, n_classes: int, order: ScalarOrder, n: int
) -> list[WinnerAtLevel]:
    """Return each way in which the label may arise: the largest utility, at n levels, or a guess.

    The guess, of one level, comes last, and only where the channel guesses. Edges are unknown yet.
    """
    k = n_classes
    pull = student.additive(order.V)
    assert pull is not None
    guess = channel.guess(k)
    levels = winning_levels(channel, k, n)
    by_utility = WinnerAtLevel(
        pull=pull,
        rho=order.rho,
        law=channel.utility_law(order.residual),
        width=channel.width(order.residual),
        field_scale=math.sqrt(order.q),
        n_competitors=k - 1,
        levels=levels._replace(weight=(1 - k * guess) * levels.weight),
        edges=np.full((3, n), math.nan),
    )
    if guess == 0:
        return [by_utility]
    one_level = WinningLevels(np.array([math.inf]), np.array([k * guess]), np.ones(1))
    by_guess = by_utility._replace(law=None, levels=one_level, edges=np.full((3, 1), math.nan))
    return [by_utility, by_guess]
