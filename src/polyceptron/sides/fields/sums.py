"""Averages M, Q, C, D for four classes or more, where the pull is a sum over the other classes.

They are the averages of `integrand` by which eq. SE makes m̂ = αM, q̂ = αQ, V̂ = αC, without random
points. Label 1 stands for all; N = k − 1 classes h compete with it. The student's fields are
ω ~ N(0, q), and its pull f = V⁻¹(prox − ω) on a sample of label 1 has the form of an `AdditivePull`
(in units of its `scale`, by which the averages are divided), with functions p and d of the student,
and a number L of the sample:

    f_h = −p(ω_h − L),    f_1 = P = Σ_h p(ω_h − L),    ω_1 = L + d(P),    a_h = p′(ω_h − L).

For cross-entropy L is the log-normaliser at the proximal point. d(P) is how far from L the label's
field is if its pull is P: that is all it needs to know of its competitors. Differentiating
ω_1 = L + d(P) at fixed ω_h gives the Jacobian

    dω_1/dL = S/a_1,    a_1 = −1/d′(P),    S = a_1 + Σ_h a_h.

The label is the class of the largest utility, U say (`winner`). A utility has the distribution
function F around the mean of the teacher's field, so that class 1 wins with the density F′(U) and a
competitor loses with probability F(U): at given U and L all N competitors are independent. With φ
the density of a field, each average is

    E g = k ∫dU ∫dL E_competitors[ (φF′/a_1)(P) · S g ]

where φF′ is taken at the label's own field ω_1 = L + d(P). With ∇ the gradient of the label's
chance in the teacher's fields, M is the average of f·∇, Q of ‖f‖², C of −tr ∂f/∂ω and D of ω·f/q,
each over N. For every g that is averaged S g is a polynomial in sums over the competitors (H = F′/F
is the slope of ln F(U) in the teacher's field):

    NM     g = P Σ H + Σ p H               NQ     g = P² + Σ p²
    NqD    g = (ω_1 − L)P − Σ (ω − L)p     NC   S g = 2 a_1 Σ a + Σ_{h≠h'} a_h a_h'

besides functions of P: the loss, and 1, whose average is the mass. (NqD is the mean of ω·f. As the
pulls sum to 0, L may be taken off all fields; it is near those that count, so that little cancels.)

Functions of P are short Fourier series (`mode_series`). The mean of a mode e^{−imP} over the
competitors is the N-th power of that over one of them: the cost does not depend on k.

Shapes: c utilities U, l values of L at each, and modes last. Callers make the error bar, from the
change between levels of accuracy (`theory/erm/refinement.py`) and from what `Averages.doubt` sees:
that the mass is 1, and C = (m/q)M − D.
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
from polyceptron.sides.fields.windows import Windows, search_windows, with_windows
from polyceptron.sides.fields.winner import WinnerAtUtility, label_sources


class NodeCounts(NamedTuple):
    """Numbers of nodes on one level of accuracy.

    Attributes
    ----------
    utilities : int
        Nodes of the winning utility U.
    conditioning : int
        Nodes of L at each U.
    modes : int
        Fourier modes in P, if P has no upper bound.
    modes_to_end : int
        The same if P has one, where the functions of P jump.
    """

    utilities: int
    conditioning: int
    modes: int
    modes_to_end: int


# By level of accuracy. The first one is for the start of a search; each further one has about a
# quarter more nodes along each axis.
NODE_COUNTS = (
    NodeCounts(13, 18, 18, 24),
    NodeCounts(15, 21, 22, 34),
    NodeCounts(19, 26, 26, 48),
    NodeCounts(24, 34, 32, 66),
    NodeCounts(30, 44, 40, 92),
    NodeCounts(38, 58, 52, 130),
)
# A guessed label has the single node U = ∞, so that all accuracy is in L and P: its nodes are those
# of a level further on.
_LEVELS_AHEAD_OF_A_GUESS = 2
_UTILITIES_SEARCHED = 5  # nodes of U at which windows are searched for; others are interpolated
_UTILITIES_AT_ONCE = 8  # with all their nodes of L and P so many fit into a cache
# τ, 1/q or 1/V beyond which nothing is computed: a root finder's step went astray.
_EXTREME_ORDER_PARAMETER = 1e20
# Windows of the fields and of L that count are searched for at the points of a lattice in
# (ln τ, ln q, ln V). They are used up to this distance along each axis, and half a step is less.
_SEARCH_LATTICE_STEP = 0.16
_FARTHEST_FROM_SEARCH = 0.12


class Sums(FieldsRule):
    """Four classes or more, students whose pull is a sum over the other classes.

    The class variables are those of `FieldsRule`, for the search of a root and its error bar.
    """

    n_levels = len(NODE_COUNTS)
    loop_level = 1  # of the averages while the loop of eq. SE is iterated: errors of 1e-4 or less
    root_tolerances = (1e-3,) * n_levels  # on θ: one Newton step follows on each level
    follows = True  # nodes move with the order parameters, by `with_windows`
    # Least relative errors claimed of levels 1 to 5, in ln τ.
    floors = (6e-5, 2e-5, 1e-5, 5e-6, 3e-6)
    loss_floor = 10.0  # of the mean loss in these units: it lives where P is near its upper bound
    left = 0.5  # share of the change between two levels that may be left
    by_parts = 0.5  # share of the relative defect of C = (m/q)M − D that counts as error
    # For the edge of separability, where a loss restricts weights to a cone (`FieldsRule`).
    error_of_cone = 1e-5  # relative error of Q there
    usual_tolerance_of_cone = 1e-3  # on α_s = 1/min Q

    @staticmethod
    def serves(student: FieldsStudent, channel: Channel) -> bool:
        """Return whether the pull is a sum over competitors, and one utility has a known law."""
        return Sums().refusal(student, channel, 4) is None

    def refusal(self, student: FieldsStudent, channel: Channel, n_classes: int) -> str | None:
        """Return None, or the reason in words why this rule does not serve."""
        if n_classes < 4:
            return f"sums over competitors are for four classes or more, not {n_classes}"
        any_V = 1.0  # whether there is a sum, or a law, does not depend on variances
        any_residual = 1.0  # variance of the teacher's field that the student's does not tell
        if student.additive(any_V) is None:
            return "the student's pull is not a sum over the other classes"
        if channel.utility_law(any_residual) is None:
            return f"the noise {channel.name!r} does not define the law of one utility"
        return None

    def placement(self, theta: Array) -> Array:
        """Return what nodes are placed for: θ (3,) itself, as they follow the order parameters."""
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

        Nodes follow them smoothly while they are near one point of the search lattice; farther off
        another point is chosen. `level` is the accuracy, an index into `NODE_COUNTS`.
        """
        lattice_point = _nearest_lattice_point(order)

        def averages(order: ScalarOrder) -> Averages:
            """Return the averages at any order parameters; NaN where these are extreme."""
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


@lru_cache(maxsize=256)  # the averages at a solution are asked for again
def _averages(
    student: FieldsStudent,
    channel: Channel,
    n_classes: int,
    level: int,
    searched: ScalarOrder,
    order: ScalarOrder,
) -> Averages:
    """Return the averages at `order`, with windows from the search made at `searched`."""
    n = NODE_COUNTS[level].utilities
    sources = label_sources(student, channel, n_classes, order, n)
    sources_of_search = label_sources(student, channel, n_classes, searched, n)
    windows = _searched_windows(student, channel, n_classes, searched)
    sums = np.zeros(6)
    for winner, winner_of_search, window in zip(sources, sources_of_search, windows, strict=True):
        bounded_winner, range_of_L = with_windows(winner, winner_of_search, window)
        sums += _sum_over_utilities(bounded_winner, range_of_L, _node_counts(winner, level))
    mass = sums[5:]
    # Coarse nodes miss the same share of all integrals: most of it goes with the division by mass.
    NM, NQ, NC, NqD, loss, _ = sums[:, None] / mass
    N = n_classes - 1
    scale = sources[0].pull.scale  # p and P are this many times the pull
    D = NqD / order.q / (N * scale)
    return Averages(
        M=NM / (N * scale),
        Q=NQ / (N * scale**2),
        C=NC / (N * scale),
        # Samples with ω·f above and below 0 are not told apart here. Whoever uses D needs two parts
        # ≥ 0 with this difference.
        D_plus=np.maximum(D, 0.0),
        D_minus=np.maximum(-D, 0.0),
        loss=loss,
        error=np.full(1, math.nan),  # mistakes are no function of P: the law of margins has them
        mass=mass,
    )


def _node_counts(winner: WinnerAtUtility, level: int) -> NodeCounts:
    """Return the numbers of nodes on a level of accuracy, those of a finer level for guesses.

    Guesses have the last level's numbers on the last three levels. Their error there is in no
    change between levels: it is below the floor of these (test_guesses_are_within_their_floor).
    """
    is_guess = winner.law is None  # a label that the channel draws at random, whatever the fields
    if is_guess:
        return NODE_COUNTS[min(level + _LEVELS_AHEAD_OF_A_GUESS, len(NODE_COUNTS) - 1)]
    return NODE_COUNTS[level]


@lru_cache(maxsize=64)  # neighbouring problems ask at the same lattice point
def _searched_windows(
    student: FieldsStudent, channel: Channel, n_classes: int, order: ScalarOrder
) -> list[Windows]:
    """Return the fields and L that count for a label by utility and, if there is one, by guess."""
    sources = label_sources(student, channel, n_classes, order, _UTILITIES_SEARCHED)
    return [search_windows(winner) for winner in sources]


def _sum_over_utilities(winner: WinnerAtUtility, range_of_L: Array, counts: NodeCounts) -> Array:
    """Sum the six integrands (6,) over all utilities U and the range (2, c) of L at each."""
    total = np.zeros(6)
    for start in range(0, len(winner.utilities.U), _UTILITIES_AT_ONCE):
        part = slice(start, start + _UTILITIES_AT_ONCE)
        low, high = range_of_L[:, part]
        L, L_weight = gauss(low, high, counts.conditioning)
        total += _sum_over_L(winner.part(part), L, L_weight, counts)
    return total


def _sum_over_L(winner: WinnerAtUtility, L: Array, L_weight: Array, counts: NodeCounts) -> Array:
    """Sum NM, NQ, NC, NqD, the loss and 1 over nodes L (c, l) of weights (c, l): (6,)."""
    n_modes = counts.modes
    if math.isfinite(winner.pull.largest):
        n_modes = counts.modes_to_end
    # The last mode has n_modes periods on the window of P. A competitor's p spans less than the
    # window, and Gauss nodes 5/4 times as many as modes integrate it.
    competitors = competitor_nodes(winner, L, 5 * n_modes // 4)
    series = label_series(winner, L, competitors, n_modes)
    modes = competitor_modes(winner, L, competitors, series, n_modes)
    weight = np.where(series.counts, winner.utilities.weight[:, None] * L_weight, 0.0)
    means = CompetitorMeans(series, modes, weight, winner.n_competitors)
    return means.integrands()


class CompetitorMeans:
    """Sums over nodes of E[g(P) · S · …] over the N competitors, g a function of the label.

    With e the mean of a mode of one competitor's p (`modes.one`), and e_v that of the mode times a
    function v of the competitor, the mean over all N of the mode of P times

        1,   Σ_h v_h,   Σ_{h≠h'} v_h w_h'    is    e^N,   N e^{N−1} e_v,   N(N−1) e^{N−2} e_v e_w.

    The factors of the e_v, with the weights of the nodes, are `no_sum`, `one_sum` and `pair_sum`,
    all (c, l, modes + 1).

    Parameters
    ----------
    series : ModeSeries
        The label's functions of P.
    modes : CompetitorModes
        Means over one competitor, (c, l, modes + 1) each.
    weight : ndarray, (c, l)
        Of the nodes in U and L; 0 where the label cannot meet the sum of its competitors.
    n_competitors : int
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
        """Return NM, NQ, NC, NqD, the loss and 1, (6,), in the formulas of the module."""
        v = self.modes
        label = LabelFunction
        NM = self._sum_times_S(label.P, v.hazard, v.hazard_a)
        NM += self._sum_times_S(label.ONE, v.hazard_p, v.hazard_p_a)
        NQ = self._times_S(label.P_SQUARED) + self._sum_times_S(
            label.ONE, v.p_squared, v.p_squared_a
        )
        NC = 2 * self._mean_a(label.ONE, self.one_sum * v.a) + self._pairs_of_a()
        NqD = self._times_S(label.FIELD_P) - self._sum_times_S(label.ONE, v.field_p, v.field_p_a)
        return np.array([NM, NQ, NC, NqD, self._times_S(label.LOSS), self._times_S(label.ONE)])

    def _mean(self, g: LabelFunction, of_competitors: Complex) -> float:
        """Return E of φF′/a_1 times g(P) and of the competitors whose mode means are given.

        The label's functions are Re Σ_m c_m e^{−i…}, m ≥ 0, with the factor 2 of m > 0 in c_m.
        `vdot` conjugates the mode means, of which only the real part of the sum counts.
        """
        return float(np.vdot(of_competitors, self.series.coefficients[g]).real)

    def _mean_a(self, g: LabelFunction, of_competitors: Complex) -> float:
        """Return the same with g(P) times a_1."""
        return float(np.vdot(of_competitors, self.series.coefficients_a[g]).real)

    def _times_S(self, g: LabelFunction) -> float:
        """Return E g(P) S, S = a_1 + Σ a."""
        return self._mean_a(g, self.no_sum) + self._mean(g, self.one_sum * self.modes.a)

    def _sum_times_S(self, g: LabelFunction, v: Complex, v_a: Complex) -> float:
        """Return E g(P) S Σ_h v_h, from the mode means of v and of v a."""
        same_and_other = self.one_sum * v_a + self.pair_sum * v * self.modes.a
        return self._mean_a(g, self.one_sum * v) + self._mean(g, same_and_other)

    def _pairs_of_a(self) -> float:
        """Return E Σ_{h≠h'} a_h a_h'."""
        return self._mean(LabelFunction.ONE, self.pair_sum * self.modes.a * self.modes.a)
