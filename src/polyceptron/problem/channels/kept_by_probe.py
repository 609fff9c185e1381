"""Two classes, and samples chosen by the margin under a probe that is not the teacher.

Per class direction the teacher's field is g, the probe's h = κ g + √(1 − κ²) g', with κ the probe's
correlation with the teacher. A sample has the label of the sign of g, and is kept where |h| is
large ("easy") or small ("hard").

The student's weights have a mean in the plane of teacher and probe, along some direction e at an
angle ψ from the teacher towards the probe. Its fields know of the field x along e alone; that
across, x', is as good as noise. With h at the angle δ = arccos κ,

    g = cos ψ x − sin ψ x',        h = cos(δ − ψ) x + sin(δ − ψ) x'

so that the labels are a channel of x ~ N(μ, v), and x' ~ N(0, 1),

    easy   Z_l = [P(g > 0, h > c) + P(g > 0, h < −c)]/keep
    hard   Z_l = [P(g > 0) − P(g > 0, |h| > c)]/keep

with two orthants of two normal variables. Which ψ it is follows from the slope of Z in the mean of
x', the pull across e, which is 0 on average (`theory/erm/probed.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtr

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.bivariate import SQRT_2PI, corner_cdf
from polyceptron.numerics.orthant import Orthant, Winning
from polyceptron.problem.channels.channel import SHARP, Channel
from polyceptron.problem.channels.kept import Kept, KeptLabels

SQRT2 = math.sqrt(2)


class _Corner(NamedTuple):
    """A probability (n,) that two normal variables are positive, and its slopes in their means."""

    z: Array
    by_g: Array
    by_h: Array


@dataclass(frozen=True)
class KeptByProbe(Channel):
    """The channel of the samples of two classes that a probe keeps, seen along a direction.

    Parameters
    ----------
    keep : float
        The share of all samples that is kept, between 0 and 1.
    which : 'hard' or 'easy'
    probe : float
        κ, from 0 to below 1.
    angle : float
        ψ, of the direction e from the teacher.
    across : bool
        Whether slopes are those in the mean of the field across e, instead of along it.
    """

    keep: float
    which: Kept
    probe: float
    angle: float
    across: bool = False
    name: str = field(init=False, default="")

    noiseless: ClassVar[bool] = True  # type: ignore[misc]
    selects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        name = f"kept-{self.which}:{self.keep!r}:{self.probe!r}:{self.angle!r}"
        object.__setattr__(self, "name", name)

    @property
    def margin(self) -> float:
        """The difference of the probe's fields that parts kept from dropped samples."""
        return KeptLabels(2, self.keep, self.which).margin

    @property
    def transitions(self) -> tuple[float, ...]:
        """The differences of the fields along e at which label and selection change."""
        in_sight = math.cos(self._angle_of_probe)
        if in_sight <= 0:
            return (0.0,)
        return (-self.margin / in_sight, 0.0, self.margin / in_sight)

    def width(self, variance: float) -> float:
        """Return the narrower of the widths over which label and selection change."""
        tangents = (math.tan(self.angle), math.tan(self._angle_of_probe))
        return math.sqrt(variance + min(tangent**2 for tangent in tangents))

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        """Return the fields (n, 2) themselves: a teacher without noise has no other utility."""
        return fields

    def utility(self, omega: Array, label: object, variance: object, order: int) -> Orthant:
        """Refuse: there is no posterior for samples that were chosen by their margin."""
        raise InvalidInput("samples that were chosen by their margin have no posterior here")

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        """Return the chance of the label (n,), and its slope, at gaps (1, n)."""
        v = max(variance, SHARP)
        mean = gaps[0] / SQRT2
        above = self._corner(mean, v, 1.0)
        below = self._corner(mean, v, -1.0)
        z = above.z + below.z
        by_g = above.by_g + below.by_g
        by_h = above.by_h - below.by_h
        if self.which == "hard":
            leading, by_lead = self._leading(mean, v)
            z = np.maximum(leading - z, 0.0)
            by_g = by_lead - by_g
            by_h = -by_h
        g_moves, h_moves = self._moves
        slope = g_moves * by_g + h_moves * by_h
        return Winning(z / self.keep, slope[None] / (self.keep * SQRT2))

    def utility_signal(self, n_classes: int) -> float:
        """Return E[z_y] of the samples that are kept: twice the slope of Z at no field."""
        return 2 * float(self.utility_gaps(np.zeros((1, 1)), 1.0).slopes[0, 0])

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return the error on all samples: the teacher has the angle ψ with e."""
        cosine = math.cos(self.angle)
        sine = math.sin(self.angle)
        return clean(tau * cosine / np.sqrt(1 + (tau * sine) ** 2))

    @property
    def _angle_of_probe(self) -> float:
        """The angle δ − ψ of the probe from e."""
        return math.acos(self.probe) - self.angle

    @property
    def _moves(self) -> tuple[float, float]:
        """Return how far the means of g and h move with that of the field along e, or across it."""
        if self.across:
            return -math.sin(self.angle), math.sin(self._angle_of_probe)
        return math.cos(self.angle), math.cos(self._angle_of_probe)

    def _spread_of_g(self, v: float) -> float:
        """Return the standard deviation of g at fields of variance v."""
        return math.hypot(math.sqrt(v) * math.cos(self.angle), math.sin(self.angle))

    def _leading(self, mean: Array, v: float) -> tuple[Array, Array]:
        """Return P(g > 0) and its slope in the mean of g, both (n,), at means (n,) of x."""
        spread = self._spread_of_g(v)
        a = math.cos(self.angle) * mean / spread
        return ndtr(a), np.exp(-0.5 * a * a) / (SQRT_2PI * spread)

    def _corner(self, mean: Array, v: float, sign: float) -> _Corner:
        """Return P(g > 0, ±h > c) at means (n,) of x, with slopes in the means of g and ±h."""
        c = self.margin / SQRT2
        angle_of_probe = self._angle_of_probe
        g = math.cos(self.angle)
        h = sign * math.cos(angle_of_probe)
        spread_of_g = self._spread_of_g(v)
        spread_of_h = math.hypot(math.sqrt(v) * h, math.sin(angle_of_probe))
        of_both = spread_of_g * spread_of_h
        crossed = sign * math.sin(self.angle) * math.sin(angle_of_probe)
        rho = (v * g * h - crossed) / of_both
        # √(1 − ρ²) without its cancellation: the determinant is v sin²δ.
        sigma = math.sqrt(v) * math.sin(math.acos(self.probe)) / of_both
        a = g * mean / spread_of_g
        b = (h * mean - c) / spread_of_h
        c1 = (b - rho * a) / sigma
        c2 = (a - rho * b) / sigma
        by_g = np.exp(-0.5 * a * a) * ndtr(c1) / (SQRT_2PI * spread_of_g)
        by_h = np.exp(-0.5 * b * b) * ndtr(c2) / (SQRT_2PI * spread_of_h)
        return _Corner(np.maximum(corner_cdf(a, b, c1, c2), 0.0), by_g, by_h)
