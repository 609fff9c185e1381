"""Averages over one sample, by which the fields side of eq. SE makes m̂ = αM, q̂ = αQ, V̂ = αC.

Order parameters come as a `ScalarOrder` (τ, q, V). In each of the r = k − 1 class directions the
student's fields ω and the teacher's fields z are Gaussian with

    Var z = 1,   Var ω = q,   Cov(z, ω) = m,    ρ = m/√q,    τ = ρ/√(1 − ρ²)

so that given ω the teacher's fields have the mean (m/q) ω (`order.slope` is m/q) and the variance
1 − ρ² (`order.residual`). The channel draws the label; Z_l(ω) is the probability of label l given
ω (Z*_out in eq. auxiliary_defs), ∇Z_l its gradient in the mean of the teacher's fields. The
student's pull is f_l(ω) = V⁻¹(prox − ω), as in eq. f_out. Then

    M = (1/r) E Σ_l ∇Z_l·f_l,   Q = (1/r) E Σ_l Z_l ‖f_l‖²,   C = −(1/r) E Σ_l Z_l tr_⊥ ∂f_l

    D = (1/rq) E Σ_l Z_l ω·f_l = D₊ − D₋

with the trace tr_⊥ over class differences, and D split into the samples with ω·f above and below 0.
By Gaussian integration by parts C = (m/q)M − D. At large α the equations use D in place of the
difference (m/q)M − C, which loses digits there.

By symmetry only label 1 is integrated; from here on f_h is the component of its f for class h. The
other classes are ordered by the student's gaps ω₁ − ω_h, the smallest first. With the derivatives
of Z in the teacher's mean gaps g_h

    ∇Z·f = Σ_h ∂Z/∂g_h (f₁ − f_h),    ω·f = −Σ_h (ω₁ − ω_h) f_h,    f₁ = −Σ_h f_h.

This integrand is the same for every number of classes, student and channel (`average`). A
`FieldsRule` chooses nodes and weights. The student is a loss, or the channel itself
(`PosteriorScore`). Its `coordinates` give the `Pull` at gaps (`at_gaps`), and at nodes of its own
coordinates x, y the gaps, the volume per unit of x and y, and the pull (`on_line`, `on_plane`).
Error bars are made in `theory/erm/refinement.py`, from `Averages.doubt`, `Averages.missed` and the
class variables of the rule.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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
    """The averages of the module's formulas, each (replicates,); one replicate if deterministic."""

    M: Array
    Q: Array
    C: Array
    D_plus: Array
    D_minus: Array
    loss: Array  # mean loss of training samples
    error: Array  # training error
    mass: Array  # total probability of the nodes, 1 up to the rule's error

    def mean(self) -> Averages:
        """Return the mean over replicates, as one replicate."""
        if len(self.M) == 1:
            return self
        return Averages(*(x.mean(keepdims=True) for x in self))

    def doubt(self, order: ScalarOrder, by_parts: float = 1.0) -> float:
        """Return the relative error of a deterministic rule, by two identities that hold exactly.

        The mass is 1, and C = (m/q)M − D. The defect of the latter, relative to C + |D|, is
        multiplied by `by_parts`; rules whose levels show their error better give 0.
        """
        D = self.D_plus - self.D_minus
        defect = np.abs(self.C + D - self.M * (order.m / order.q)) / (self.C + np.abs(D) + 1e-300)
        return float((np.abs(self.mass - 1) + by_parts * defect)[0])

    def missed(self, rank: int) -> float:
        """Return the mass that a deterministic rule misses, over rQ = E‖f‖², with `rank` r.

        In the worst case all of it lies where samples pull, with ‖f‖² of about 1: then this is the
        relative error of Q. It exceeds 1 where few samples pull.
        """
        return float(abs(self.mass[0] - 1) / max(rank * self.Q[0], 1e-300))


@dataclass(frozen=True)
class PosteriorScore(Coordinates):
    """The Bayes-optimal student, f = ∇ ln Z: the channel's own score at its variance v = V.

    It serves on the Nishimori line only (eq. nishimori: m = q = 1 − V), where M = Q = C is the
    channel's information (eq. SE_BO); C is given as E‖f‖². Its loss is −ln Z less the entropy of
    the label given the teacher's fields, so that its mean is minus what Ψ_out exceeds its value at
    known fields by (`information`).
    """

    channel: Channel
    n_classes: int

    @property
    def coordinates(self) -> Coordinates:
        """Return itself: the score is smooth in the gaps."""
        return self

    def additive(self, V: float) -> AdditivePull | None:
        """Return None: the score is no sum over the other classes."""
        return None

    def explicit_averages(
        self, law: ScalarOrder, signal: float, n_classes: int
    ) -> tuple[float, float, float, float] | None:
        """Return None: no average has a closed form (`ClosedForm` says what the arguments are)."""
        return None

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """Return the score of label 1 at gaps ω₁ − ω_h (k−1, n), the smallest first."""
        k = self.n_classes
        label = self.channel.label_law(gaps, V, k)
        z, slopes = label
        seen = z > IMPROBABLE_LABEL
        z = np.where(seen, z, 1.0)
        f = np.where(seen, -slopes / z, 0.0)
        loss = -np.log(z)
        guess = self.channel.guess(k)
        # Given utilities, a label has the probability `guess` (< 1/k), or `top` if its class wins.
        # Class 1 wins with probability P, so that z = P top + (1 − P) guess. Gaussian noise has no
        # guesses: its utilities decide the label, which then has no entropy.
        if guess > 0:
            P = (z - guess) / (1 - k * guess)
            top = 1 - (k - 1) * guess
            negative_entropy = P * (top * math.log(top)) + (1 - P) * (guess * math.log(guess))
            loss += negative_entropy / z  # `average` multiplies by z
        squared_pull = f.sum(0) ** 2 + (f * f).sum(0)
        return Pull(others=f, trace=squared_pull, value=loss, margin=gaps[0], label=label)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return the break points as they are: those of the channel's width serve its score."""
        return breaks

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return the same break points (b,) for each row, (rows, b)."""
        return np.broadcast_to(breaks, (len(row), len(breaks)))


FieldsStudent = Loss | PosteriorScore
Averaging = Callable[[ScalarOrder], Averages]


class FieldsRule(ABC):
    """Where the nodes of the fields side sit, on levels of accuracy from 0, the coarsest, on.

    `refusal` says whether a rule serves a problem, and `place` puts its nodes. The class variables
    tell the search for a root and its refinement how accurate the levels are.

    Attributes
    ----------
    n_levels : int
        How many levels there are.
    loop_level : int
        The level that the plain loop uses, with relative errors of 1e-4 or less.
    sampled : bool
        Whether nodes are random points, whose replicates show the error.
    follows : bool
        Whether nodes follow the order parameters smoothly, instead of staying where they are.
    root_tolerances : tuple of float
        For each level, the tolerance on θ = (ln τ, ln q, ln V) to which a root is solved.
    closest_roots : tuple of float
        Without a ridge, weights diverge at α_s. Level i has a root only where |α/α_s − 1| is above
        the i-th number: closer to α_s the error of the level is larger than this distance. Levels
        beyond the last number always have one.
    floors : tuple of float
        The least relative error that is claimed for levels 1, 2, …, since two levels can agree by
        chance.
    loss_floor : float
        The floor of the mean loss is this many times as large.
    by_parts : float
        The weight of the relative defect of C = (m/q)M − D in the error. It is 0 where the change
        between levels and the mass show more.
    left : float
        The error of a level is this share of its change from the level before: levels converge
        geometrically.
    error_of_cone, usual_tolerance_of_cone : float
        For the limit of separability α_s = 1/min Q, where Q is that of the loss which is 0 on the
        right side of all boundaries and ∞ elsewhere (`LabelCone`, in `theory/separability.py`):
        the relative error of Q on any level, and the tolerance on 1/Q where the caller names none.
    """

    n_levels: ClassVar[int]
    loop_level: ClassVar[int]
    sampled: ClassVar[bool] = False
    follows: ClassVar[bool] = False
    root_tolerances: ClassVar[tuple[float, ...]]
    closest_roots: ClassVar[tuple[float, ...]] = ()
    floors: ClassVar[tuple[float, ...]] = (3e-6, 1e-6, 1e-8, 1e-10, 1e-12)
    loss_floor: ClassVar[float] = 1.0
    by_parts: ClassVar[float] = 0.0
    left: ClassVar[float] = 0.2
    error_of_cone: ClassVar[float] = 1e-12
    usual_tolerance_of_cone: ClassVar[float] = 1e-6

    def refusal(self, student: FieldsStudent, channel: Channel, n_classes: int) -> str | None:
        """Return None, or the reason in words why this rule does not serve."""
        return None

    def error_shown(self, averages: Averages, order: ScalarOrder) -> float:
        """Return the relative error that the averages' own identities show."""
        return averages.doubt(order, self.by_parts)

    def placement(self, theta: Array) -> Array:
        """Return the θ₀ (3,) for which nodes are placed, to find a root near θ.

        It is the nearest point of a lattice, so that the answer does not depend on the points by
        which the search came. Nodes placed for θ₀ are accurate up to half a spacing from it.
        """
        spacing = 0.5
        return np.asarray(np.round(theta / spacing) * spacing)

    @abstractmethod
    def place(
        self,
        student: FieldsStudent,
        channel: Channel,
        n_classes: int,
        order: ScalarOrder,
        level: int,
    ) -> Averaging:
        """Return the averages as a function of the order parameters.

        Nodes placed for `order` serve any order parameters near it. `level` is the accuracy, from
        0 to `n_levels` − 1.
        """


# Break points of the difference of the two gaps of three classes, in widths of the label's
# transition. Where the first gap g₁ is below 0, the third class matters where the difference is
# −g₁, which is further out than one width.
CORNER_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8, 14.0])
IMPROBABLE_LABEL = 1e-17  # a share of all samples below the rounding of any average


class Scales(NamedTuple):
    """Lengths of the student's gaps, all in units of its fields.

    Attributes
    ----------
    sigma : float
        Standard deviation √(2q) of a gap.
    width : float
        Width over which the label's probability changes around a transition.
    low : float
        The lowest gap at which label 1 has a probability to speak of.
    """

    sigma: float
    width: float
    low: float

    @property
    def high(self) -> float:
        """The largest gap that the student's fields reach."""
        return CUTOFF * self.sigma

    def gap_breaks(self, transitions: Sequence[float] = (0.0,)) -> Array:
        """Return break points of the student's gap: both scales, on both sides of the boundary.

        `transitions` are the gaps at which the label's probability changes, 0 for the boundary.
        """
        both_sides = np.append(-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS)
        sets = [gap + self.width * both_sides for gap in transitions]
        sets.append(self.sigma * both_sides)
        return blend_breaks(sets, self.low, self.high)

    def second_breaks(self, *more: Array) -> Array:
        """Break points of the gap between the two other classes, and of what varies along it."""
        sets = [self.width * CORNER_BREAKS, self.sigma * GAUSS_BREAKS, *more]
        return blend_breaks(sets, 0.0, self.high)


def field_scales(channel: Channel, order: ScalarOrder, n_classes: int) -> Scales:
    """Return the scales of the gaps.

    The width is that of the channel at the variance of the teacher's fields given the student's,
    times √2 since a gap is the difference of two fields, in units of the student's gap by 1/slope.
    If labels can be wrong far from the boundary, as flipped ones, the lowest gap is CUTOFF standard
    deviations below it, else CUTOFF widths.

    Examples
    --------
    >>> from polyceptron.problem import as_channel
    >>> scales = field_scales(as_channel("none"), ScalarOrder(1.0, 2.0, 1.0), 2)
    >>> scales.sigma
    2.0
    """
    sigma = math.sqrt(2 * order.q)
    width = sigma
    if order.slope > 0:
        width = min(math.sqrt(2) * channel.width(order.residual) / order.slope, sigma)
    edge = np.array([[-CUTOFF * width * order.slope]])
    chance_at_edge = float(channel.label_law(edge, order.residual, n_classes).z[0])
    if chance_at_edge > IMPROBABLE_LABEL:
        return Scales(sigma, width, -CUTOFF * sigma)
    return Scales(sigma, width, -CUTOFF * width)


def transition_gaps(channel: Channel, order: ScalarOrder) -> list[float]:
    """Return the student's gaps at which the mean of the teacher's reaches a transition.

    It is 0 alone where the student's fields tell nothing about the teacher's.
    """
    if order.slope <= 0:
        return [0.0]
    return [gap / order.slope for gap in channel.transitions]


def average(
    channel: Channel,
    order: ScalarOrder,
    gaps: Array,
    weight: Array,
    pull: Pull,
    *,
    n_classes: int,
    n_replicates: int = 1,
) -> Averages:
    """Return the averages of the module's formulas from nodes, whatever placed them.

    Parameters
    ----------
    channel : Channel
    order : ScalarOrder
    gaps : ndarray, (c, n)
        ω₁ − ω_h, the smallest first, n = replicates × nodes. c is k − 1, or less where the other
        classes cannot have the largest utility.
    weight : ndarray, (n,)
        Of the nodes, with the density of the gaps.
    pull : Pull
        The student's at these gaps.
    n_classes, n_replicates : int
    """
    label = pull.label
    if label is None:
        label = channel.label_law(gaps * order.slope, order.residual, n_classes)
    elif not _is_on_nishimori_line(order):
        raise ValueError("the channel's own score is a student of m = q = 1 − V only")
    others = pull.others
    rank = n_classes - 1
    f_label = -others.sum(0)
    joint = weight * label.z  # nodes with label 1; `ordered_density` counts all labels by its k!
    gradient_dot_f = f_label * label.slopes.sum(0) - _dot(label.slopes, others)  # ∇Z·f
    omega_dot_f = _dot(gaps, others) * (-1 / (rank * order.q))  # ω·f/(rq)
    table = np.empty((6, len(joint)))
    table[0] = f_label * f_label + _dot(others, others)
    table[1] = pull.trace
    np.maximum(omega_dot_f, 0.0, out=table[2])
    table[3] = omega_dot_f
    table[4] = pull.value
    table[5] = pull.margin < 0
    M = (weight * gradient_dot_f).reshape(n_replicates, -1).sum(1)
    mass = joint.reshape(n_replicates, -1).sum(1)
    by_replicate = table.reshape(6, n_replicates, -1).swapaxes(0, 1)
    means = by_replicate @ joint.reshape(n_replicates, -1, 1)
    Q, C, D_plus, D, loss, mistaken = means[..., 0].T
    return Averages(M / rank, Q / rank, C / rank, D_plus, D_plus - D, loss, mistaken, mass)


def _is_on_nishimori_line(order: ScalarOrder) -> bool:
    """Return whether m = q and 1 − m²/q = V, to rounding (eq. nishimori)."""
    rounding = 1e-12
    m_is_q = abs(order.slope - 1) < rounding
    return m_is_q and abs(order.residual - order.V) < rounding * order.V


def _dot(a: Array, b: Array) -> Array:
    """Return Σ_h a_h b_h (n,) of arrays (c, n)."""
    if len(a) == 1:
        return a[0] * b[0]
    return np.einsum("hn,hn->n", a, b)


def ordered_density(gaps: Array, q: float) -> Array:
    """Return k! times the density (n,) of the gaps (k−1, n), whose covariance is q(I + 11ᵀ).

    The factor stands for k labels and (k − 1)! orders of the other classes: by symmetry only label
    1 with its smallest gap first is integrated. The covariance (eq. cov) has the determinant q^r k
    and the inverse (I − 11ᵀ/k)/q.
    """
    k = len(gaps) + 1
    total = gaps.sum(0)
    exponent = (_dot(gaps, gaps) - total * total / k) * (-0.5 / q)
    norm = math.factorial(k) / (math.sqrt(k) * math.sqrt(2 * math.pi * q) ** (k - 1))
    return np.asarray(norm * np.exp(exponent))


# By level, from 0 to 5. See `FieldsRule` for both.
ROOT_TOLERANCES_OF_PANELS = (1e-7, 1e-9, 1e-11, 1e-12, 1e-13, 1e-13)
CLOSEST_ROOTS_OF_PANELS = (5e-3, 1.5e-4, 1.5e-6, 5e-9)
# Nodes of three classes with a smaller exponent of their Gaussian density are dropped: e^−42 is
# 6e-19. At order parameters half a spacing of the lattice away, ln q larger by a quarter, it is
# 6e-15, still below the last floor of 1e-12.
NEGLIGIBLE_EXPONENT = 42.0


class PanelsTwo(FieldsRule):
    """Gauss panels along the gap of two classes."""

    loop_level = 2
    root_tolerances = ROOT_TOLERANCES_OF_PANELS
    closest_roots = CLOSEST_ROOTS_OF_PANELS
    nodes_of_a_panel = (6, 9, 12, 16, 22, 30)  # by level
    n_levels = len(nodes_of_a_panel)

    def place(
        self,
        student: FieldsStudent,
        channel: Channel,
        n_classes: int,
        order: ScalarOrder,
        level: int,
    ) -> Averaging:
        """Place panels on the student's own coordinate of the gap."""
        coordinates = student.coordinates
        gap_breaks = field_scales(channel, order, 2).gap_breaks(transition_gaps(channel, order))
        breaks = coordinates.line_breaks(gap_breaks, order.V)
        nodes, weights = panel_rule(breaks, self.nodes_of_a_panel[level])

        def averages(order: ScalarOrder) -> Averages:
            """Return the averages at other order parameters, on the same nodes."""
            gaps, stretch, pull = coordinates.on_line(nodes, order.V)
            weight = weights * stretch * ordered_density(gaps, order.q)
            return average(channel, order, gaps, weight, pull, n_classes=2)

        return averages


class PanelsThree(FieldsRule):
    """Gauss panels in the plane of the two gaps of three classes, row by row."""

    loop_level = 2
    root_tolerances = ROOT_TOLERANCES_OF_PANELS
    closest_roots = CLOSEST_ROOTS_OF_PANELS
    nodes_of_a_panel = (4, 6, 8, 11, 15, 20)  # by level, along each axis
    n_levels = len(nodes_of_a_panel)
    # 0.055 at most was left of changes above 1e-8 (test_levels_of_three_classes_converge_fast).
    left = 0.1

    def place(
        self,
        student: FieldsStudent,
        channel: Channel,
        n_classes: int,
        order: ScalarOrder,
        level: int,
    ) -> Averaging:
        """Place panels on the student's own coordinates; drop nodes of negligible weight."""
        V = order.V
        n_nodes = self.nodes_of_a_panel[level]
        scales = field_scales(channel, order, 3)
        gap_breaks = scales.gap_breaks(transition_gaps(channel, order))
        # x is the student's coordinate of the first gap, and y the difference of both gaps, unless
        # it has another y (`wide`): where labels vary over a wide range of gaps, or for kinks.
        coordinates = student.coordinates
        wide = coordinates.wide(scales.width, V)
        plane = coordinates if wide is None else wide
        x_of_rows, weight_of_rows = panel_rule(plane.line_breaks(gap_breaks, V), n_nodes)
        y_breaks = plane.plane_breaks(x_of_rows, scales.second_breaks(), V)
        y, weights = panel_rule(np.ascontiguousarray(y_breaks), n_nodes)
        weights = weights * weight_of_rows[:, None]
        x = np.broadcast_to(x_of_rows[:, None], y.shape)
        if wide is None:
            first_gap = coordinates.on_line(x_of_rows, V).gaps[0][:, None]
            gap_between = y
        else:
            gaps = wide.on_plane(x.ravel(), y.ravel(), V).gaps.reshape(2, *y.shape)
            first_gap = gaps[0]
            gap_between = gaps[1] - gaps[0]
        # That of `ordered_density`, at the second gap first_gap + gap_between.
        squares = first_gap * (first_gap + gap_between) + gap_between * gap_between
        exponent = squares / (3 * order.q)
        used = (weights > 0) & (exponent < NEGLIGIBLE_EXPONENT)
        x = x[used]
        y = y[used]
        weights = weights[used]

        def averages(order: ScalarOrder) -> Averages:
            """Return the averages at other order parameters, on the same nodes."""
            gaps, stretch, pull = plane.on_plane(x, y, order.V)
            weight = weights * stretch * ordered_density(gaps, order.q)
            return average(channel, order, gaps, weight, pull, n_classes=3)

        return averages


FEW: dict[int, FieldsRule] = {2: PanelsTwo(), 3: PanelsThree()}  # rules by number of classes
