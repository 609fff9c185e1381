"""Four classes or more, for losses whose pull is a sum over the other classes: no sampling.

Given the conditioning variable L and the level C of the winning utility the N = k − 1 competitors
are independent (`winner`), and what the label needs to know of them is the sum P = Σ p(ω_h − L) of
an `AdditivePull`: its own field is ω_1 = L + d(P). So with φ and F′ the label's densities

    E g = k ∫dC ∫dL E_competitors[ (φF′/a_1)(P) · S g ],      S = a_1 + Σ a,

and S g is a polynomial in sums over the competitors for every g that the fields side averages
(M, Q, C, D of `integrand`, r = k − 1):

    rM   P Σ h + Σ p h   with h = F′/F,     rQ   P² + Σ p²,     rqD   (ω_1 − L)P − Σ(ω − L)p,
    rC·S   2 a_1 Σ a + Σ_{h≠h'} a_h a_h',   and functions of P: the loss, 1

(in rqD L stands for any number, and is near all fields that count: little cancels).

Functions of P are short Fourier series (`mode_series`), and of a mode the mean over the competitors
is the N-th power of one competitor's: the cost does not depend on k.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import gauss
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.competitors import competitor_nodes
from polyceptron.sides.fields.integrand import Averages, Averaging, FieldsRule, FieldsStudent
from polyceptron.sides.fields.mode_series import (
    CompetitorModes,
    Complex,
    LabelFunction,
    ModeSeries,
    competitor_modes,
    label_series,
)
from polyceptron.sides.fields.windows import Windows, search_windows, transferred
from polyceptron.sides.fields.winner import WinnerAtLevel, label_sources


class NodeCounts(NamedTuple):
    """Numbers of levels C, of values of L, and of modes of P without an upper end and with one."""

    levels: int
    conditioning: int
    modes: int
    modes_to_end: int


NODE_COUNTS = (
    NodeCounts(13, 18, 18, 24),  # to start from
    NodeCounts(15, 21, 22, 34),
    NodeCounts(19, 26, 26, 48),
    NodeCounts(24, 34, 32, 66),
    NodeCounts(30, 44, 40, 92),
    NodeCounts(38, 58, 52, 130),
)
_LEVELS_SEARCHED = 5  # levels C at which windows are searched for; others are interpolated
_MORE_ACCURACY_LEVELS_FOR_GUESSES = 2  # of a guess all accuracy is in P and L: it has one level C
_LEVELS_AT_ONCE = 8  # what a cache holds
_EXTREME_ORDER_PARAMETER = 1e20  # τ, 1/q or 1/V of a root finder's step that went astray
_SEARCH_LATTICE_STEP = 0.16  # of ln τ, ln q, ln V: windows are searched for at lattice points
_FARTHEST_FROM_SEARCH = 0.12  # in the same logarithms: beyond, the nearest point is taken again


class Sums(FieldsRule):
    """Four classes or more, students whose pull is a sum over the other classes."""

    n_levels = len(NODE_COUNTS)
    loop_level = 1
    root_tolerances = (1e-3,) * n_levels
    follows = True
    floors = (6e-5, 2e-5, 1e-5, 5e-6, 3e-6)
    loss_floor = 10.0  # the loss lives where P is near its end
    left = 0.5
    by_parts = 0.5
    error_of_cone = 1e-5
    usual_tolerance_of_cone = 1e-3

    @staticmethod
    def serves(student: FieldsStudent, channel: Channel) -> bool:
        """Return whether the pull is a sum over competitors, and utilities have their own law."""
        return Sums().refusal(student, channel, 4) is None

    def refusal(self, student: FieldsStudent, channel: Channel, n_classes: int) -> str | None:
        """Return None, or the reason in words why this rule does not serve."""
        if n_classes < 4:
            return f"sums over competitors are for four classes or more, not {n_classes}"
        if student.additive(1.0) is None:
            return "the student's pull is not a sum over the other classes"
        if channel.utility_law(1.0) is None:
            return f"the noise {channel.name!r} does not define the law of one utility"
        return None

    def placement(self, theta: Array) -> Array:
        """Return θ (3,) itself: nodes follow the order parameters."""
        return theta

    def place(
        self,
        student: FieldsStudent,
        channel: Channel,
        n_classes: int,
        order: ScalarOrder,
        level: int,
    ) -> Averaging:
        """Return the averages as a function of the order parameters.

        Nodes follow them smoothly near a point of a lattice; farther off it is chosen again.
        """
        lattice_point = _nearest_lattice_point(order)

        def averages(order: ScalarOrder) -> Averages:
            """Return the averages at other order parameters, near which windows are searched."""
            nonlocal lattice_point
            if _is_extreme(order):
                return Averages(*(np.full(1, math.nan) for _ in Averages._fields))
            if np.abs(_logarithms(order) - lattice_point).max() > _FARTHEST_FROM_SEARCH:
                lattice_point = _nearest_lattice_point(order)
            searched = ScalarOrder(*np.exp(lattice_point).tolist())
            with np.errstate(all="ignore"):
                return _averages(student, channel, n_classes, level, searched, order)

        return averages


def _is_extreme(order: ScalarOrder) -> bool:
    """Return whether a step of a root finder went so far that nothing can be computed there."""
    tiny = 1 / _EXTREME_ORDER_PARAMETER
    return not (order.q > tiny and tiny < order.V and order.tau < _EXTREME_ORDER_PARAMETER)


def _logarithms(order: ScalarOrder) -> Array:
    """Return ln τ, ln q and ln V, (3,)."""
    return np.log(np.maximum([order.tau, order.q, order.V], 1e-300))


def _nearest_lattice_point(order: ScalarOrder) -> Array:
    """Return the point of the search lattice next to (ln τ, ln q, ln V), (3,)."""
    return np.asarray(np.round(_logarithms(order) / _SEARCH_LATTICE_STEP) * _SEARCH_LATTICE_STEP)


@lru_cache(maxsize=256)  # a solution is asked for its averages again
def _averages(
    student: FieldsStudent,
    channel: Channel,
    n_classes: int,
    level: int,
    searched: ScalarOrder,
    order: ScalarOrder,
) -> Averages:
    """Return the averages at `order`, with windows from the search made at `searched`."""
    n = NODE_COUNTS[level].levels
    here = label_sources(student, channel, n_classes, order, n)
    nearby = label_sources(student, channel, n_classes, searched, n)
    windows = _searched_windows(student, channel, n_classes, searched)
    total = np.zeros(6)
    for winner, winner_nearby, window in zip(here, nearby, windows, strict=True):
        framed, range_of_L = transferred(winner, winner_nearby, window)
        total += _sum_over_levels(framed, range_of_L, _node_counts(winner, level))
    r = n_classes - 1
    scale = here[0].pull.scale
    mass = total[5:]
    # Coarse nodes miss the same share of all: divided by the mass little is left of that.
    M, Q, C, D, loss, _ = total[:, None] / mass
    M = M / (r * scale)
    C = C / (r * scale)
    D = D / order.q / (r * scale)
    Q = Q / (r * scale**2)
    unknown_error = np.full(1, math.nan)
    return Averages(M, Q, C, np.maximum(D, 0.0), np.maximum(-D, 0.0), loss, unknown_error, mass)


def _node_counts(winner: WinnerAtLevel, level: int) -> NodeCounts:
    """Return the numbers of nodes of an accuracy level; more for guesses, which may be far down."""
    if winner.law is not None:
        return NODE_COUNTS[level]
    return NODE_COUNTS[min(level + _MORE_ACCURACY_LEVELS_FOR_GUESSES, len(NODE_COUNTS) - 1)]


@lru_cache(maxsize=64)  # neighbouring problems ask for the same
def _searched_windows(
    student: FieldsStudent, channel: Channel, n_classes: int, order: ScalarOrder
) -> list[Windows]:
    """Return the windows of each way in which the label may arise."""
    sources = label_sources(student, channel, n_classes, order, _LEVELS_SEARCHED)
    return [search_windows(winner) for winner in sources]


def _sum_over_levels(winner: WinnerAtLevel, range_of_L: Array, counts: NodeCounts) -> Array:
    """Sum the six integrands (6,) over all levels C and the range (2, c) of L at each."""
    total = np.zeros(6)
    for start in range(0, len(winner.levels.C), _LEVELS_AT_ONCE):
        part = slice(start, start + _LEVELS_AT_ONCE)
        low, high = range_of_L[:, part]
        L, L_weight = gauss(low, high, counts.conditioning)
        total += _sum_over_L(winner.part(part), L, L_weight, counts)
    return total


def _sum_over_L(winner: WinnerAtLevel, L: Array, L_weight: Array, counts: NodeCounts) -> Array:
    """Sum rM, rQ, rC, rqD, the loss and 1 over nodes L (c, l) of weights (c, l): (6,)."""
    n_modes = counts.modes
    if math.isfinite(winner.pull.largest):
        n_modes = counts.modes_to_end
    competitors = competitor_nodes(winner, L, 5 * n_modes // 4)
    series = label_series(winner, L, competitors, n_modes)
    modes = competitor_modes(winner, L, competitors, series, n_modes)
    weight = np.where(series.counts, winner.levels.weight[:, None] * L_weight, 0.0)
    means = CompetitorMeans(series, modes, weight, winner.n_competitors)
    return means.integrands()


class CompetitorMeans:
    """Sums over nodes of E[g(P) · S · …] over the N competitors, g a function of the label.

    With u the mean of a mode e^{−i…p} over one competitor, and u_f that of the mode times f, the
    mean over all N of the mode times 1, Σ_h f_h or Σ_{h≠h'} f_h f'_h' is u^N, N u^{N−1} u_f or
    N(N−1) u^{N−2} u_f u_f'. These factors, with the weights of the nodes, are `no_sum`, `one_sum`
    and `pair_sum`, all (c, l, modes + 1).
    """

    def __init__(
        self, series: ModeSeries, modes: CompetitorModes, weight: Array, n_competitors: int
    ) -> None:
        N = n_competitors
        self.series = series
        self.modes = modes
        power = weight[..., None] * modes.one ** (N - 2)
        self.pair_sum = N * (N - 1) * power
        self.one_sum = N * power * modes.one
        self.no_sum = power * modes.one * modes.one

    def integrands(self) -> Array:
        """Return rM, rQ, rC, rqD, the loss and 1, (6,)."""
        f = self.modes
        label = LabelFunction
        rM = self._sum_times_S(label.P, f.hazard, f.hazard_a)
        rM += self._sum_times_S(label.ONE, f.hazard_p, f.hazard_p_a)
        rQ = self._times_S(label.P_SQUARED) + self._sum_times_S(
            label.ONE, f.p_squared, f.p_squared_a
        )
        rC = 2 * self._mean_a(label.ONE, self.one_sum * f.a) + self._pairs_of_a()
        rqD = self._times_S(label.FIELD_P) - self._sum_times_S(label.ONE, f.field_p, f.field_p_a)
        return np.array([rM, rQ, rC, rqD, self._times_S(label.LOSS), self._times_S(label.ONE)])

    def _mean(self, g: LabelFunction, of_competitors: Complex) -> float:
        """Return E of g(P) and of the competitors whose modes are given."""
        return float(np.vdot(of_competitors, self.series.coefficients[g]).real)

    def _mean_a(self, g: LabelFunction, of_competitors: Complex) -> float:
        """Return the same with g(P) times a_1."""
        return float(np.vdot(of_competitors, self.series.coefficients_a[g]).real)

    def _times_S(self, g: LabelFunction) -> float:
        """Return E g(P) S, S = a_1 + Σ a."""
        return self._mean_a(g, self.no_sum) + self._mean(g, self.one_sum * self.modes.a)

    def _sum_times_S(self, g: LabelFunction, f: Complex, f_a: Complex) -> float:
        """Return E g(P) S Σ_h f_h, from the modes of f and of f a."""
        same_and_other = self.one_sum * f_a + self.pair_sum * f * self.modes.a
        return self._mean_a(g, self.one_sum * f) + self._mean(g, same_and_other)

    def _pairs_of_a(self) -> float:
        """Return E Σ_{h≠h'} a_h a_h'."""
        return self._mean(LabelFunction.ONE, self.pair_sum * self.modes.a * self.modes.a)
