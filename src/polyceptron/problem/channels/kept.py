"""Labels of samples that were chosen by their margin: what is left of an argmax channel.

The margin of a sample is its largest teacher field less the second, and a share of all samples is
kept: those with margins above c ("easy") or below c ("hard"). With z ~ N(μ, v) and O_l(g) the
chance that the fields lead by the gaps, l the class in the lead,

    easy   Z_l = O_l(g − c)/keep,          hard   Z_l = [O_l(g) − O_l(g − c)]/keep

with g the k − 1 gaps μ_l − μ_h. Dropped samples have no label and no loss, so that these chances
sum to 1 on average over the samples, and not at every μ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.orthant import Orthant, Winning, winning_chance
from polyceptron.problem.channels.channel import SHARP, Channel

Kept = Literal["hard", "easy"]
FIELD_STEP = 0.02  # of sums over a class's field, which are exact for a normal density
FIELDS = np.arange(-12.0, 12.0, FIELD_STEP)
LARGEST_MARGIN = 20.0  # no margin is larger, at any k


def _sum_over_winner(n_classes: int, margin: float, of_field: Array) -> float:
    """Return k ∫ φ(x) Φ(x − c)^{k−1} g(x) dx, the mean of g over samples of margin above c."""
    log_density = -0.5 * FIELDS**2 + (n_classes - 1) * log_ndtr(FIELDS - margin)
    total = float(np.exp(log_density) @ of_field)
    return n_classes * FIELD_STEP / math.sqrt(2 * math.pi) * total


def share_above(margin: float, n_classes: int) -> float:
    """Return P(margin > c) = k ∫ φ(x) Φ(x − c)^{k−1} dx.

    >>> round(share_above(0.0, 5), 12)
    1.0
    """
    return _sum_over_winner(n_classes, margin, np.ones_like(FIELDS))


@lru_cache(maxsize=256)
def margin_of_share(share: float, n_classes: int) -> float:
    """Return c with P(margin > c) = share."""
    return float(
        brentq(lambda c: share_above(c, n_classes) - share, 0.0, LARGEST_MARGIN, xtol=1e-15)
    )


@dataclass(frozen=True)
class KeptLabels(Channel):
    """The channel of the samples that are kept, y = argmax z.

    Parameters
    ----------
    n_classes : int
    keep : float
        The share of all samples that is kept, between 0 and 1.
    which : 'hard' or 'easy'
        Whether small or large margins are kept.
    """

    n_classes: int
    keep: float
    which: Kept
    name: str = field(init=False, default="")

    noiseless = True
    selects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"kept-{self.which}:{self.keep!r}")

    @property
    def margin(self) -> float:
        """The margin c between the samples that are kept and those that are dropped."""
        share_of_larger = self.keep
        if self.which == "hard":
            share_of_larger = 1 - self.keep
        return margin_of_share(share_of_larger, self.n_classes)

    @property
    def transitions(self) -> tuple[float, ...]:
        """The gaps of the teacher's fields at which Z jumps where these are known."""
        if self.which == "easy":
            return (self.margin,)
        return (0.0, self.margin)

    def width(self, variance: float) -> float:
        """Return the width over which the label's probability varies at `variance`."""
        return math.sqrt(variance)

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        """Return the fields (n, k) themselves: a teacher without noise has no other utility."""
        return fields

    def utility(self, omega: Array, label: object, variance: object, order: int) -> Orthant:
        """Refuse: there is no posterior for samples that were chosen by their margin."""
        raise InvalidInput("samples that were chosen by their margin have no posterior here")

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        """Return the probability that a kept sample has the label, and its slopes, at `gaps`."""
        width = self.width(max(variance, SHARP))
        beyond = winning_chance(gaps - self.margin, width)
        if self.which == "easy":
            return Winning(beyond.z / self.keep, beyond.slopes / self.keep)
        leading = winning_chance(gaps, width)
        return Winning(
            np.maximum(leading.z - beyond.z, 0.0) / self.keep,
            (leading.slopes - beyond.slopes) / self.keep,
        )

    def utility_signal(self, n_classes: int) -> float:
        """Return E[z_y]/(k − 1) of the samples that are kept."""
        above = _sum_over_winner(n_classes, self.margin, FIELDS)
        if self.which == "hard":
            above = _sum_over_winner(n_classes, 0.0, FIELDS) - above
        return above / (self.keep * (n_classes - 1))

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return the error on all samples, kept or not."""
        return clean(tau)
