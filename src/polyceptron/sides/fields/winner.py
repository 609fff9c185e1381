"""The labelled class, whose utility U is the largest, and its independent competitors.

A teacher's label is the class of the largest *utility*: its field plus noise. With F the
distribution function of a utility around its field, μ_h the mean of the teacher's field of class h
given the student's, and U the label's own utility,

    Z_1 = ∫ dU F′(U − μ_1) ∏_h F(U − μ_h)

so that at a given U each of the N = k − 1 competitors carries a factor F of its own: given U they
are independent. Over all fields U is the largest of k utilities; its nodes
(`nodes_of_winning_utility`) are equal steps of the normal score of one utility, and know nothing of
the student.

Fields are written ω = √q x with x a standard normal in each class, and the utility of a class is
ρx plus noise, ρ the correlation of student and teacher. A label is also guessed with some chance
(noise `flips`): then no field matters, and one node U = ∞ stands for all (`label_sources`).

`competitors` has the nodes of one competitor given U and the conditioning variable L of an
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
LEAST_CORRELATION = 1e-3  # fields at which a utility meets U are computed with ρ at least this


class WinningUtilities(NamedTuple):
    """Nodes U (c,), weights (c,) for k ∫ dC, and the chance (c,) that a utility is below U."""

    U: Array
    weight: Array
    below: Array


@lru_cache(maxsize=128)
def nodes_of_winning_utility(channel: Channel, n_classes: int, n: int) -> WinningUtilities:
    """Return n nodes for the largest of k utilities.

    Its normal score g has the density kφ(g)Φ(g)^{k−1}; nodes are equal steps of g, where the
    trapezoidal rule converges faster than any power.
    """
    k = n_classes
    grid = np.linspace(-8.0, 8.0, 4001)  # no maximum of a thousand normals is beyond 8
    log_p = -0.5 * grid**2 + (k - 1) * log_ndtr(grid)
    within = grid[log_p > log_p.max() - 14.0]  # e^−14 of the largest density is left out
    g = np.linspace(within[0], within[-1], n)
    law = channel.utility_law(1.0)
    assert law is not None
    if channel.utility_variance is not None:
        U = g * math.sqrt(1 + channel.utility_variance)
    else:
        U = _utilities_of_normal_scores(law, g)
    log_cdf, hazard = law.values(U)
    dU_dg = np.exp(-0.5 * g**2 - log_cdf) / (SQRT_TWO_PI * hazard)
    return WinningUtilities(U, k * (g[1] - g[0]) * dU_dg, np.exp(log_ndtr(g)))


def _utilities_of_normal_scores(law: UtilityLaw, g: Array) -> Array:
    """Solve F(U) = Φ(g) for U (n,): interpolation, then Newton's method on ln F."""
    y = np.linspace(law.low, law.high, 2000)
    U = np.interp(log_ndtr(g), law.values(y)[0], y)
    for _ in range(6):
        log_cdf, hazard = law.values(U)
        U = U + np.clip((log_ndtr(g) - log_cdf) / hazard, -1.0, 1.0)
    return U


class LabelField(NamedTuple):
    """Mean (c,) and standard deviation of the label's x at each U."""

    mean: Array
    spread: float


class WinnerAtUtility(NamedTuple):
    """A label of utility U, and its competitors, at each of the utilities U (c,).

    The rows of `edges` (3, c), all of x = ω/√q, are the lowest and highest value of the label that
    count, and the highest of a competitor; NaN until they are searched for (`windows`).
    """

    pull: AdditivePull
    rho: float
    law: UtilityLaw | None  # None: the label is a guess, no field matters
    width: float  # of the utilities' noise
    field_scale: float  # √q
    n_competitors: int
    utilities: WinningUtilities
    edges: Array

    def part(self, rows: slice) -> WinnerAtUtility:
        """Return the same at some of the utilities."""
        utilities = WinningUtilities(*(column[rows] for column in self.utilities))
        return self._replace(utilities=utilities, edges=self.edges[:, rows])

    def log_cdf_and_hazard(self, x: Array) -> tuple[Array, Array]:
        """Return ln F(U − ρx) and F′/F there, at x (c, …)."""
        if self.law is None:
            return np.zeros_like(x), np.zeros_like(x)
        U = self.utilities.U.reshape(-1, *[1] * (x.ndim - 1))
        return self.law.values(U - self.rho * x)

    def log_label_density(self, x: Array) -> Array:
        """Return ln F′(U − ρx) − x²/2 at x (c, …): the label's density up to a constant."""
        log_cdf, hazard = self.log_cdf_and_hazard(x)
        if self.law is None:
            return np.asarray(log_cdf - 0.5 * x * x)
        with np.errstate(divide="ignore"):
            log_hazard = np.log(hazard)
        return np.asarray(log_cdf + log_hazard - 0.5 * x * x)

    def median_field(self) -> Array:
        """Return the x (c,) at which a utility is as likely above U as below; 0 for guesses."""
        finite_U = np.where(np.isfinite(self.utilities.U), self.utilities.U, 0.0)
        return finite_U / max(self.rho, LEAST_CORRELATION)

    def label_field(self) -> LabelField:
        """Return the mean and spread of the label's x at each utility."""
        if self.law is None:
            return LabelField(np.zeros(len(self.utilities.U)), 1.0)
        total = math.hypot(self.width, self.rho)
        return LabelField(self.rho * self.utilities.U / total**2, self.width / total)


def label_sources(
    student: FieldsStudent, channel: Channel, n_classes: int, order: ScalarOrder, n: int
) -> list[WinnerAtUtility]:
    """Return how the label may arise: by the largest utility, at n nodes, or by a guess.

    The guess, of one node U = ∞, comes last, and only where the channel guesses. Edges are unknown
    yet.
    """
    k = n_classes
    pull = student.additive(order.V)
    assert pull is not None
    guess = channel.guess(k)
    utilities = nodes_of_winning_utility(channel, k, n)
    by_utility = WinnerAtUtility(
        pull=pull,
        rho=order.rho,
        law=channel.utility_law(order.residual),
        width=channel.width(order.residual),
        field_scale=math.sqrt(order.q),
        n_competitors=k - 1,
        utilities=utilities._replace(weight=(1 - k * guess) * utilities.weight),
        edges=np.full((3, n), math.nan),
    )
    if guess == 0:
        return [by_utility]
    no_utility = WinningUtilities(np.array([math.inf]), np.array([k * guess]), np.ones(1))
    by_guess = by_utility._replace(law=None, utilities=no_utility, edges=np.full((3, 1), math.nan))
    return [by_utility, by_guess]
