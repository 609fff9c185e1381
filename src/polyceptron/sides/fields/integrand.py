"""What the fields side computes: averages of a student's pull over teacher and student fields.

Student fields ω ~ N(0, q) and teacher fields z, Gaussian with correlation ρ in each class
direction; label y from the channel, Z_l the probability of label l given ω; f_y(ω) the student's
pull at susceptibility V:

    M = (1/r) E Σ_l ∇Z_l·f_l,   Q = (1/r) E Σ_l Z_l ‖f_l‖²,   C = −(1/r) E Σ_l Z_l tr_⊥ ∂f_l

    D = (1/rq) E Σ_l Z_l ω·f_l                                   (kept as D₊ − D₋, by its sign)

so that m̂ = αM, q̂ = αQ, V̂ = αC (eq. SE). D follows from the others, by Gaussian integration by
parts C = (m/q)M − D, and replaces a difference of nearly equal numbers when data are plentiful.

By symmetry label 1 is drawn, and the other classes are ordered by the student's gaps ω₁ − ω_h, the
smallest first. With slopes of Z in the teacher's mean gaps

    ∇Z·f = Σ_h ∂Z/∂g_h (f₁ − f_h),    ω·f = −Σ_h (ω₁ − ω_h) f_h,    f₁ = −Σ_h f_h.

This integrand is the same for every number of classes, student and channel (`average`). Where its
nodes sit, and what each weighs, is a `Rule`: it follows the spread of the gaps and the width of the
label's transition in them (`field_scales`), and the student's own coordinates. The student is a
loss, or the channel itself (`BayesStudent`), whose mean loss is then that of the entropy Ψ_out.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.problem.losses.coordinates import Coordinates, Pull
from polyceptron.problem.order import ScalarOrder


class Averages(NamedTuple):
    """Each an array (replicates,); deterministic rules have one replicate."""

    M: Array
    Q: Array
    C: Array
    D_plus: Array
    D_minus: Array
    loss: Array  # mean loss of training samples
    error: Array  # and the fraction of them that is mistaken
    mass: Array  # total probability that the rule saw, 1 up to its error

    def mean(self) -> Averages:
        """One replicate: the mean of all."""
        return self if len(self.M) == 1 else Averages(*(x.mean(keepdims=True) for x in self))

    def doubt(self, law: ScalarOrder, by_parts: float = 1.0) -> float:
        """What one replicate misses: of the mass, and of C = (m/q)M − D, relative to C and D."""
        D = self.D_plus - self.D_minus
        parts = np.abs(self.C + D - self.M * (law.m / law.q)) / (self.C + np.abs(D) + 1e-300)
        return float((np.abs(self.mass - 1) + by_parts * parts)[0])

    def missed(self, rank: int) -> float:
        """The mass that one replicate misses, over rQ: it may be that of samples which pull."""
        return float(abs(self.mass[0] - 1) / max(rank * self.Q[0], 1e-300))


@dataclass(frozen=True)
class BayesStudent(Coordinates):
    """The Bayes-optimal student, f = ∇ ln Z: the channel's own score at its v = V.

    On the Nishimori line M = Q = C is the channel's information; C is given as E‖f‖². Its loss is
    −ln Z less its mean where the utilities are known: −excess of Ψ_out (`information`).
    """

    channel: Channel
    n_classes: int

    @property
    def coordinates(self) -> Coordinates:
        return self

    def additive(self, V: float) -> AdditivePull | None:
        return None

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        return None

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        k = self.n_classes
        label = self.channel.label_law(gaps, V, k)
        z, slopes = label
        seen = z > _UNSEEN
        z = np.where(seen, z, 1.0)
        f = np.where(seen, -slopes / z, 0.0)
        loss, a = -np.log(z), self.channel.guess(k)
        if a > 0:
            P, top = (z - a) / (1 - k * a), 1 - (k - 1) * a
            loss += (P * (top * math.log(top)) + (1 - P) * (a * math.log(a))) / z
        return Pull(f, f.sum(0) ** 2 + (f * f).sum(0), loss, gaps[0], label)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Those that follow the channel's width serve its score."""
        return breaks

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        return np.broadcast_to(breaks, (len(row), len(breaks)))


FieldsStudent = Loss | BayesStudent
Averaging = Callable[[ScalarOrder], Averages]


class Rule(ABC):
    """Where the nodes of the fields side sit, at levels of accuracy from 0, the coarsest, on."""

    n_levels: ClassVar[int]
    sampled: ClassVar[bool] = False  # random points in replicates, whose spread tells the error
    follows: ClassVar[bool] = False  # nodes follow the law smoothly, wherever they were placed
    # Relative error that levels 1, 2, … were seen to reach: two levels can agree by luck.
    floors: ClassVar[tuple[float, ...]] = (3e-6, 1e-6, 1e-8, 1e-10, 1e-12)
    loss_floor: ClassVar[float] = 1.0  # times as much for the mean loss
    by_parts: ClassVar[float] = 0.0  # how much of a defect of the integration by parts counts
    left: ClassVar[float] = 0.2  # of a level's change at most: geometric convergence

    @abstractmethod
    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder, level: int
    ) -> Averaging:
        """The averages as a function of the law; nodes placed for `law` serve any near it."""


# For a gap a < 0 the third class matters around g₂ − g₁ = −a, so the corner of three classes
# reaches further than one width.
CORNER_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8, 14.0])
_UNSEEN = 1e-17  # a label as improbable as this leaves no trace in any average


class Scales(NamedTuple):
    """Standard deviation of the student's gap, width of the label's transition, lowest gap."""

    sigma: float
    width: float
    low: float

    @property
    def high(self) -> float:
        """The largest gap that the student's fields reach."""
        return CUTOFF * self.sigma

    def gap_breaks(self) -> Array:
        """Break points of the student's gap: both scales, on both sides of the boundary."""
        sets = [x * np.append(-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS) for x in (self.width, self.sigma)]
        return blend_breaks(sets, self.low, self.high)

    def second_breaks(self, *more: Array) -> Array:
        """Break points of the gap between the two other classes, and of what varies along it."""
        sets = [self.width * CORNER_BREAKS, self.sigma * GAUSS_BREAKS, *more]
        return blend_breaks(sets, 0.0, self.high)


def field_scales(channel: Channel, law: ScalarOrder, n_classes: int) -> Scales:
    """The scales at a law. A label may be drawn far below the boundary: then nodes reach there."""
    sigma = math.sqrt(2 * law.q)
    width = math.sqrt(2) * channel.width(law.residual) / law.slope if law.slope > 0 else sigma
    width = min(width, sigma)
    edge = np.array([[-CUTOFF * width * law.slope]])
    seen = float(channel.label_law(edge, law.residual, n_classes).z[0]) > _UNSEEN
    return Scales(sigma, width, -CUTOFF * (sigma if seen else width))


def average(
    channel: Channel,
    law: ScalarOrder,
    gaps: Array,
    weight: Array,
    pull: Pull,
    *,
    n_classes: int,
    n_replicates: int = 1,
) -> Averages:
    """The averages from gaps (c, n), weights (n,) and the pull there, n = replicates × nodes.

    c is k − 1, or less where the other classes cannot have the largest utility.
    """
    label = pull.label or channel.label_law(gaps * law.slope, law.residual, n_classes)
    others, rank = pull.others, n_classes - 1
    first = -others.sum(0)
    joint = weight * label.z
    tilt = first * label.slopes.sum(0) - _dot(label.slopes, others)
    along = _dot(gaps, others) * (-1 / (rank * law.q))
    table = np.empty((6, len(joint)))
    table[0] = first * first + _dot(others, others)
    table[1] = pull.trace
    np.maximum(along, 0.0, out=table[2])
    table[3] = along
    table[4] = pull.value
    table[5] = pull.margin < 0
    M, mass = (x.reshape(n_replicates, -1).sum(1) for x in (weight * tilt, joint))
    rows, each = table.reshape(6, n_replicates, -1).swapaxes(0, 1), joint.reshape(len(M), -1, 1)
    Q, C, ahead, balance, value, mistaken = (rows @ each)[..., 0].T
    return Averages(M / rank, Q / rank, C / rank, ahead, ahead - balance, value, mistaken, mass)


def _dot(a: Array, b: Array) -> Array:
    """Σ_h a_h b_h (n,) of arrays (c, n)."""
    return a[0] * b[0] if len(a) == 1 else np.einsum("hn,hn->n", a, b)


def ordered_density(gaps: Array, q: float) -> Array:
    """k! times the density of the gaps (k−1, n), whose covariance is q(I + 11ᵀ)."""
    k = len(gaps) + 1
    total = gaps.sum(0)
    exponent = (_dot(gaps, gaps) - total * total / k) * (-0.5 / q)
    norm = math.factorial(k) / (math.sqrt(k) * math.sqrt(2 * math.pi * q) ** (k - 1))
    return np.asarray(norm * np.exp(exponent))


_NEGLIGIBLE = 42.0  # nodes with a Gaussian exponent beyond this (6e-19) are dropped


class PanelsTwo(Rule):
    """Two classes."""

    orders = (6, 9, 12, 16, 22, 30)  # nodes a panel, by level
    n_levels = len(orders)

    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder, level: int
    ) -> Averaging:
        own = student.coordinates
        breaks = field_scales(channel, law, 2).gap_breaks()
        nodes, weights = panel_rule(own.line_breaks(breaks, law.V), self.orders[level])

        def averages(law: ScalarOrder) -> Averages:
            gaps, stretch, pull = own.on_line(nodes, law.V)
            weight = weights * stretch * ordered_density(gaps, law.q)
            return average(channel, law, gaps, weight, pull, n_classes=2)

        return averages


class PanelsThree(Rule):
    """Three classes."""

    orders = (4, 6, 8, 11, 15, 20)  # nodes a panel, by level
    n_levels = len(orders)
    left = 0.1

    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder, level: int
    ) -> Averaging:
        order, V = self.orders[level], law.V
        scales = field_scales(channel, law, 3)
        narrow = student.coordinates
        wide = narrow.wide(scales.width, V)
        plane = narrow if wide is None else wide
        row, weight_row = panel_rule(plane.line_breaks(scales.gap_breaks(), V), order)
        columns = plane.plane_breaks(row, scales.second_breaks(), V)
        along, weights = panel_rule(np.ascontiguousarray(columns), order)
        weights = weights * weight_row[:, None]
        rows = np.broadcast_to(row[:, None], along.shape)
        if wide is None:
            first, apart = narrow.on_line(row, V).gaps[0][:, None], along
        else:
            gaps = wide.on_plane(rows.ravel(), along.ravel(), V).gaps.reshape(2, *along.shape)
            first, apart = gaps[0], gaps[1] - gaps[0]
        exponent = (first * (first + apart) + apart * apart) / (3 * law.q)
        used = (weights > 0) & (exponent < _NEGLIGIBLE)
        row, along, weights = rows[used], along[used], weights[used]

        def averages(law: ScalarOrder) -> Averages:
            gaps, stretch, pull = plane.on_plane(row, along, law.V)
            weight = weights * stretch * ordered_density(gaps, law.q)
            return average(channel, law, gaps, weight, pull, n_classes=3)

        return averages


FEW: dict[int, Rule] = {2: PanelsTwo(), 3: PanelsThree()}
