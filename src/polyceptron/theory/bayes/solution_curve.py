"""The Bayes-optimal solution set as one curve, parametrised by q̂.

Classes are alike, so that q and q̂ of eq. SE_BO are numbers for each of the r = `reduced_rank` class
directions (1 for a perceptron, k − 1 for k classes), in which the teacher has variance 1. Its two
lines are then q = F(q̂) for the prior and q̂ = αI(1 − q) for the channel, with I the information that
a sample gives on its fields. Nothing need be iterated: choose q̂, then

    v = 1 − F(q̂),   α(q̂) = q̂ / I(v),   Φ = (r/2) q̂ v + ψ(q̂) + αΨ_out(v)

is a fixed point at that α, with ψ = Ψ_w* − (r/2)q̂ in the free entropy of eq. free_entropy. It is
stable where α rises with q̂ and unstable where it falls: folds cut the curve into branches.
`PriorSide` has v and ψ, `channel_table` I and Ψ_out, each with its relative error.

How many folds there are
------------------------
A row holds the weights of one feature. Two rows a distance Δ apart are told apart once q̂Δ² is
large. Rows of a finite prior that are close therefore count as one until late, and α(q̂) may have a
hump for every scale of the distances. With δ the smallest of them, v falls at least as fast as
exp(−q̂δ²/8) once q̂δ²/8 is large, and without noise α ~ q̂√v then falls for good. The curve is
followed at least that far, whatever α does before.

How large: what rows of probabilities P and P′ leave of v is √(PP′) exp(−t − L²/(16t))/√t up to
constants, with t = q̂Δ²/8 and L = ln P/P′, so that −d ln v/d ln q̂ ≥ t − L²/(16t). That is c or more
from t = c + |L|/4 on.

Two properties are checked on every curve, and `problem` states in words which one fails:

* The branches rise and fall in turn. The first one rises. The last one falls if the curve ends at
  perfect learning (v = 0 and α → 0), and rises else.
* If the curve ends at perfect learning, what the last q̂ leaves unknown of the entropy H of a row,
  H + ψ(q̂) = (r/2) ∫ v from q̂ to ∞, is about (r/2) v(q̂)/(δ²/8) at most. A scale that was
  overlooked leaves many times more.

Where rows are sampled and some are very close, following the curve until they are told apart would
take too long. `overlooked_below` then bounds the α at which there may be further states.
Where the integrals are sampled (k ≥ 4) the curve is that of the mean over replicates, which tell
how far it can be trusted: `alpha_uncertainty`, `error_uncertainty` and `entropy_uncertainty`.
"""

from __future__ import annotations

from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize.elementwise import find_minimum

from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.progress import steps
from polyceptron.sides.generalisation import angle, error_from_angle, error_on_labels
from polyceptron.sides.weights.panel_rows import Index
from polyceptron.sides.weights.row_rule import effort
from polyceptron.sides.weights.side import PriorSide
from polyceptron.solve.false_position import FalsePosition
from polyceptron.theory.bayes.branches import Branch, CurvePoints, cell_of, certain_cuts, turns
from polyceptron.theory.bayes.channel_table import channel_table

if TYPE_CHECKING:
    import pandas as pd

# Relative error of I by its quadrature, besides that of the interpolant (`channel_table`): where
# nothing is sampled, and where v is. All of v but its sampling is in `PriorSide.error`.
RULE_ERROR = 1e-12  # of the sum Φ as well
SAMPLED_RULE_ERROR = 1e-7
FOLD_DISTANCE = 0.1  # in ln α: folds that are closer to an α are kept on a finer curve
END_MARGIN = 1.15  # factor of q̂ by which a finer curve goes farther than it must
# Bars that α turns by at a fold: one holds in 99 of 100 cases, and a curve has hundreds of nodes.
BARS_OF_A_FOLD = 3.0
CLEAR_OF_THE_END = 0.5  # of α at the end of a grid, from where it rises: met well inside
SLOPE_STEP = 1e-4  # relative, of q̂: the differences for slopes along the curve
TINY = 1e-300  # stands for v = 0, where the signal-to-noise ratio is infinite, and for α = 0
# −d ln v/d ln q̂ from which on α ~ q̂√v falls for good. It would at 2 if I were 1/√v exactly.
STEEPNESS_WITHOUT_FOLDS = 4.0
FALLEN_SHARE = 0.25  # of the highest α: how far the last falling branch is followed at first
LARGEST_MINUS_LOG_V = 640.0  # where the last falling branch ends: v = 1e-278, near the last double
N_POINTS_BEYOND = 300  # where v falls exponentially and α changes slowly
ENTROPY_ROUNDING = 1e-6  # relative to H: rounding of ψ, which is summed over intervals of q̂

SMALLEST_SHOWN_Q_HAT = 1e-4  # the ends of the table of `solution_curve`
LARGEST_SHOWN_ALPHA = 1e6


class SolutionCurve:
    """The curve of one teacher at one sampling effort, with all its folds; build with `curve_of`.

    It is computed on grids of q̂ with numbers `far`: grid 0 serves all α but very small or very
    large ones, and every other has the nodes of the one before, and more q̂ behind them. A grid is
    made of *stages*, arrays of rising q̂ (`PriorSide.stages`). Unless the prior is Gaussian, v is
    interpolated on *panels*, intervals of q̂.

        perfect learning    grid 0 has all folds and most of the last fall, grid 1 all of it
        else                grid 0 ends where every row has told nearly all, others panels later

    Attributes
    ----------
    log2_points : int
        Where integrals are sampled, the points of a replicate are 2 to this power.
    until : float
        The q̂ at which the curve is cut, infinite for a whole one.
    n_replicates : int
        R, or 0 where nothing is sampled.
    perfect : bool
        Whether the curve ends at perfect learning: a finite prior and a channel without width.
    """

    def __init__(self, teacher: AnyTeacher, log2_points: int, until: float) -> None:
        self.teacher = teacher
        self.log2_points = log2_points
        self.until = until
        self.weights = PriorSide(teacher, log2_points)
        self.n_replicates = self.weights.n_replicates
        self.channel = channel_table(teacher.channel, teacher.n_classes)
        labels_jump = teacher.channel.width(0.0) == 0  # at a boundary, if all fields are known
        self.perfect = teacher.prior.support is not None and labels_jump
        self.grid = cache(self._grid)
        self.branches = cache(self._branches)

    def points(self, q_hat: AnyArray, column: Index | None = None) -> CurvePoints:
        """Return the curve at q̂ (n,) (eq. SE_BO).

        `column` (n,) is the number of a replicate, from 1 to R, or 0 for their mean; by default it
        is 0 everywhere.
        """
        if column is None:
            column = np.zeros(q_hat.shape, dtype=np.int64)
        v, psi = self.weights.moments(q_hat, column)
        information, entropy = self.channel(v)
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = q_hat / information
            weights_part = 0.5 * self.teacher.reduced_rank * q_hat * v + psi
            free_entropy = weights_part + alpha * entropy
        return CurvePoints(q_hat, v, alpha, entropy, free_entropy)

    def errors(self, v: AnyArray) -> AnyArray:
        """Return the generalisation error on labels as drawn (n,), at residual variance v (n,)."""
        noise = self.teacher.channel
        if noise.noiseless:
            return self.clean_errors(v)
        v = np.maximum(v, TINY)
        signal_to_noise = np.sqrt(np.maximum(1 - v, 0.0) / v)
        return error_on_labels(noise, signal_to_noise, self.teacher.n_classes)

    def clean_errors(self, v: AnyArray) -> AnyArray:
        """Return the error against the noiseless rule (n,), at residual variance v (n,)."""
        return error_from_angle(angle(v), self.teacher.n_classes)

    def perfect_entropy(self, alpha: float | AnyArray) -> float | AnyArray:
        """Return Φ = −H + αΨ_out(0) at v = 0, of the shape of α, with H the entropy of a row."""
        return -self.weights.known_entropy + alpha * self.channel.known_entropy

    def rule_errors(self, q_hat: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the relative errors (n,) of v and of I from quadrature and interpolation.

        Those of sampling come on top. `accuracy` is the absolute error of the chances of labels
        that a channel gives (0 but for a table): it counts as one of ln I, and of ε.
        """
        v_error = self.weights.error(q_hat)
        i_error = self.channel.error + self.teacher.channel.accuracy
        if self.n_replicates:
            i_error += SAMPLED_RULE_ERROR
        else:
            i_error += RULE_ERROR
        return v_error, np.full(q_hat.shape, i_error)

    def alpha_uncertainty(self, points: CurvePoints) -> AnyArray:
        """Return the relative uncertainty (n,) of α at fixed q̂."""
        v_error, i_error = self.rule_errors(points.q_hat)
        replicates = self._replicates(points)
        log_ratio = np.log(replicates.alpha / points.alpha[:, None])
        sampling = estimate_from_replicates(log_ratio).uncertainty
        # I falls as 1/√v at worst: half of the error of ln v is passed on to α.
        return np.asarray(sampling + (i_error + 0.5 * v_error))

    def error_uncertainty(self, points: CurvePoints, gap: AnyArray) -> AnyArray:
        """Return the uncertainty (n,) of the generalisation error at fixed α.

        A relative error u of α moves ε by its slope along the curve, and that of v directly:
        `total` is what a straight line says. `gap` (n,) is how far ln α is from the closest fold,
        at which ε bends as √gap: √gap − √(gap − u) is at most 1 + u/gap times its linear part. A
        further u is for other bends. Nearer than u there may be no crossing: infinite.
        """
        by_alpha, by_v = self._error_slopes(points)
        v_error, i_error = self.rule_errors(points.q_hat)
        u = i_error + 0.5 * v_error
        by_rules = np.abs(by_alpha) * u + np.abs(by_v) * points.v * v_error
        total = by_rules + self.teacher.channel.accuracy
        replicates = self._replicates(points)
        log_alpha = np.log(replicates.alpha / points.alpha[:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            v_change = replicates.v - points.v[:, None]
            error_change = by_v[:, None] * v_change - by_alpha[:, None] * log_alpha
            total = total + estimate_from_replicates(error_change).uncertainty
            u = u + estimate_from_replicates(log_alpha).uncertainty
            return np.where(u < gap, total * (1 + u / gap + u), np.inf)

    def _error_slopes(self, points: CurvePoints) -> tuple[AnyArray, AnyArray]:
        """Return dε/d ln α along the curve and dε/dv, (n,) each, by differences in q̂."""
        up = self.points(points.q_hat * (1 + SLOPE_STEP))
        down = self.points(points.q_hat * (1 - SLOPE_STEP))
        d_log_alpha = np.log(up.alpha / down.alpha)
        d_error = self.errors(up.v) - self.errors(down.v)
        d_v = up.v - down.v
        with np.errstate(divide="ignore", invalid="ignore"):
            by_alpha = np.where(d_error == 0, 0.0, d_error / d_log_alpha)
            by_v = np.where(d_v == 0, 0.0, d_error / d_v)
        return by_alpha, by_v

    def entropy_uncertainty(self, points: CurvePoints) -> AnyArray:
        """Return the uncertainty (n,) of Φ at fixed α.

        Φ is stationary there, so that only the errors of ψ and Ψ_out count.
        """
        v_error, i_error = self.rule_errors(points.q_hat)
        energy = np.abs(points.alpha * points.channel_entropy)
        size = 1 + np.abs(points.free_entropy) + energy
        total = i_error * energy + (RULE_ERROR + v_error) * size
        psi = self._psi(self._replicates(points))
        return total + estimate_from_replicates(psi).uncertainty

    def _psi(self, points: CurvePoints) -> AnyArray:
        """Return ψ = Φ − αΨ_out − (r/2) q̂v, of the shape of the points."""
        psi = points.free_entropy - points.alpha * points.channel_entropy
        psi -= 0.5 * self.teacher.reduced_rank * points.q_hat * points.v
        return psi

    def _replicates(self, points: CurvePoints) -> CurvePoints:
        """Return every replicate's point at the same q̂: (n, R), or (n, 1) of the mean."""
        n = points.q_hat.size
        R = self.n_replicates
        if not R:
            return CurvePoints(*(part[:, None] for part in points))
        numbers = np.tile(np.arange(1, R + 1), n)
        of_replicates = self.points(np.repeat(points.q_hat, R), numbers)
        return CurvePoints(*(part.reshape(n, R) for part in of_replicates))

    def _grid(self, far: int) -> CurvePoints:
        """Compute the curve on a grid of q̂ that spans it and contains every fold."""
        if far == 0:
            return self._with_folds(self._near_places())
        if self.perfect:
            added = self.points(self._places_of_the_last_fall())
        else:
            added = self._with_folds(np.concatenate(list(self.weights.stages(far))))
        joined = zip(self.grid(far - 1), added, strict=True)
        return CurvePoints(*(np.concatenate(parts) for parts in joined))

    def _near_places(self) -> AnyArray:
        """Return the q̂ of grid 0, stage after stage until no fold can follow."""
        parts: list[AnyArray] = []
        highest = 0.0
        # Features of several variances (not `flat`) tell rows apart one after the other.
        may_end_early = self.perfect and self.weights.flat
        stages = list(self.weights.stages(0))
        for q_hat in steps(stages) if may_end_early else stages:
            parts.append(q_hat[q_hat <= self.until])
            if q_hat[-1] >= self.until:
                break
            if may_end_early:
                alpha = self.points(q_hat).alpha
                highest = max(highest, float(alpha.max()))
                has_fallen = alpha[-1] < FALLEN_SHARE * highest
                if has_fallen and q_hat[-1] > self._all_told_apart():
                    break
        return np.concatenate(parts)

    def _all_told_apart(self) -> float:
        """Return the q̂ from which on α of a finite prior falls for good, if there is no noise.

        It is t/(δ²/8) with t = c + |L|/4 of the module's text; `slowest_fall` is δ²/8.
        """
        assert self.teacher.prior.support is not None
        p = self.teacher.prior.support[1]
        log_ratio = float(np.log(p.max() / p.min()))
        if self.teacher.common_shift:
            log_ratio *= self.teacher.n_classes  # a row of a Teacher has k weights, else one
        return (STEEPNESS_WITHOUT_FOLDS + log_ratio / 4) / self.weights.slowest_fall

    def _places_of_the_last_fall(self) -> AnyArray:
        """Return the q̂ beyond grid 0 of a curve with perfect learning, until v is no number."""
        last = float(self.grid(0).q_hat[-1])
        stages = np.concatenate(list(self.weights.stages(0)))
        end = max(last, float(stages[-1]))
        nothing_left = end + LARGEST_MINUS_LOG_V / self.weights.slowest_fall
        beyond = np.linspace(end, nothing_left, N_POINTS_BEYOND)[1:]
        return np.concatenate([stages[stages > last], beyond])

    def how_far(self, alpha: float) -> int:
        """Return the number `far` of the first grid that has all fixed points at α."""
        if self.until < np.inf:
            return 0
        if self.perfect:
            return 0 if alpha > self.grid(0).alpha[-1] else 1
        last = len(self.weights.rows.ends)  # of the grids; `ends` are those of the last panels
        for far in range(last):
            if alpha < CLEAR_OF_THE_END * self.grid(far).alpha[-1]:
                return far
        return last

    def enough(self, alpha: float, q_hat: float) -> float:
        """Return the q̂ at which a finer curve may end, to be `until` of that.

        The curve then has the states up to `q_hat`, and every fold whose α is close to the given
        one and may be on its other side on a finer curve.
        """
        needed = [q_hat]
        for branch in self.branches()[:-1]:
            if abs(np.log(alpha / branch.alpha_at_high)) < FOLD_DISTANCE:
                needed.append(float(np.exp(branch.high)))
        return self.weights.panel_end(END_MARGIN * max(needed))

    def meet(self, branches: list[Branch], alpha: AnyArray) -> CurvePoints:
        """Return the point (n,) at which each of n branches has its α (n,).

        Where a branch does not reach α it is the end next to it. Every pair is solved as if it were
        alone.
        """

        def log_ratio(log_q_hat: AnyArray, which: AnyArray) -> AnyArray:
            """Return ln α(q̂)/α at ln q̂ (m,) for the pairs `which` (m,)."""
            found = self.points(np.exp(log_q_hat)).alpha
            return np.asarray(np.log(np.clip(found, TINY, 1 / TINY) / alpha[which]))

        return self.points(np.exp(self._brackets(branches, alpha).solve(log_ratio)))

    def _brackets(self, branches: list[Branch], alpha: AnyArray) -> FalsePosition:
        """Return the cells of the grid, in ln q̂, between which each branch has its α (n,)."""
        grid = self.grid(max(branch.far for branch in branches))
        log_q_hat = np.log(grid.q_hat)
        right_node = np.empty(alpha.size, dtype=np.int64)
        for branch in set(branches):
            mine = np.array([other == branch for other in branches])
            right_node[mine] = cell_of(branch, log_q_hat, grid.alpha, alpha[mine])
        left_node = right_node - 1
        return FalsePosition(
            a=log_q_hat[left_node],
            height_a=np.log(np.maximum(grid.alpha[left_node], TINY) / alpha),
            b=log_q_hat[right_node],
            height_b=np.log(np.maximum(grid.alpha[right_node], TINY) / alpha),
        )

    def _with_folds(self, q_hat: AnyArray) -> CurvePoints:
        """Compute the curve at q̂ (n,) and at every fold, each found around a turn of α.

        The search is in √q̂, in which v of a finite prior is interpolated. Where it finds no
        minimum, the node of the turn stands for the fold.
        """
        grid = self.points(q_hat)
        alpha = grid.alpha
        at_turns = turns(alpha)
        if at_turns.size == 0:
            return grid
        sign = np.where(alpha[at_turns] > alpha[at_turns - 1], -1.0, 1.0)  # −1 at a maximum of α
        bracket = tuple(np.sqrt(q_hat[at_turns + i]) for i in (-1, 0, 1))

        def signed_alpha(root_q_hat: AnyArray, sign: AnyArray) -> AnyArray:
            """Return ±α at √q̂ (m,), which has a minimum at the fold."""
            return np.asarray(sign * self.points(root_q_hat**2).alpha)

        minimum = find_minimum(signed_alpha, bracket, args=(sign,))
        folds = minimum.x[minimum.success] ** 2
        return self.points(np.unique(np.concatenate([q_hat, folds])))

    def _branches(self, far: int = 0) -> list[Branch]:
        """Return the stretches between folds, in the order of q̂."""
        grid = self.grid(far)
        cuts = [0, *turns(grid.alpha).tolist(), grid.alpha.size - 1]
        if len(cuts) > 2:
            uncertainty = BARS_OF_A_FOLD * self.alpha_uncertainty(grid)
            cuts = certain_cuts(cuts, np.log(grid.alpha), uncertainty)
        log_q_hat = np.log(grid.q_hat)
        alpha = grid.alpha
        return [
            Branch(
                rising=bool(alpha[j] > alpha[i]),
                low=float(log_q_hat[i]),
                high=float(log_q_hat[j]),
                alpha_at_low=float(alpha[i]),
                alpha_at_high=float(alpha[j]),
                far=far,
            )
            for i, j in pairwise(cuts)
        ]

    @cached_property
    def problem(self) -> str:
        """The property of every solution curve that this one lacks, in words; empty if none."""
        if self.until < np.inf:
            return ""
        rising = [branch.rising for branch in self.branches()]
        expected = [True, False] * (len(rising) // 2 + 1)
        if rising != expected[: len(rising)]:
            return "the branches do not rise and fall in turn"
        if not self.weights.rows.resolved:
            return ""
        if rising[-1] == self.perfect:
            return "the last branch does not end where it must"
        if self.perfect and self._entropy_is_missing():
            return "the end of the curve leaves more of a row unknown than v there explains"
        return ""

    @cached_property
    def overlooked_below(self) -> float:
        """The α below which there may be states beyond the end of the curve; 0 if there are none.

        Rows that are too close for the sampled rule (`resolved` is False) are told apart beyond the
        end. There α(q̂) is at most q̂/I at an upper bound of v. As q̂ and I rise, this is less between
        two nodes than q̂ of the second over I of the first.
        """
        if self.weights.rows.resolved:
            return 0.0
        if not self.perfect:
            return np.inf
        end = float(self.grid(0).q_hat[-1])
        nothing_left = max(2 * end, LARGEST_MINUS_LOG_V / self.weights.slowest_fall)
        q_hat = np.geomspace(end, nothing_left, N_POINTS_BEYOND)
        information, _ = self.channel(self.weights.bound(q_hat))
        return float((q_hat[1:] / information[:-1]).max())

    def _entropy_is_missing(self) -> bool:
        """Say whether H + ψ at the end of grid 0 is more than the fall of v from there explains."""
        grid = self.grid(0)
        end = CurvePoints(*(part[-1:] for part in grid))
        H = self.weights.known_entropy
        unknown = H + self._psi(end)
        explained = 0.5 * self.teacher.reduced_rank * end.v / self.weights.slowest_fall
        allowed = ENTROPY_ROUNDING * H + self.entropy_uncertainty(end)
        # There v falls at 1 − (L/4t)² of its limiting rate: half or more for |L| < 38.
        return bool((unknown > 2 * explained + allowed)[0])


@lru_cache(maxsize=32)
def curve_of(
    teacher: AnyTeacher, log2_points: int | None = None, until: float = np.inf
) -> SolutionCurve:
    """Return the solution curve of `teacher`, kept for the next call.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    log2_points : int, optional
        log2 of the points of a replicate, for k ≥ 4 only; by default the effort's first level.
    until : float, optional
        The largest q̂.

    Returns
    -------
    SolutionCurve
    """
    level = effort(teacher).first
    if level > 0 and log2_points:  # integrals are sampled
        level = log2_points
    return SolutionCurve(teacher, level, until)


def solution_curve(teacher: AnyTeacher, n_points: int = 400) -> pd.DataFrame:
    """Tabulate every fixed point (α, q): q_hat, q, V, alpha, free_entropy, error, stable.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    n_points : int
        Number of rows.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> from polyceptron.problem import Perceptron
    >>> table = solution_curve(Perceptron("rademacher"))
    >>> round(float(table.alpha.max()), 2), bool(table.stable.all())
    (1.49, False)
    """
    import pandas as pd

    if isinstance(n_points, bool) or not isinstance(n_points, int) or not 2 <= n_points <= 100_000:
        raise InvalidInput(f"n_points must be a whole number from 2 to 100000, got {n_points!r}")
    check_teacher(teacher)
    curve = curve_of(teacher, effort(teacher).first + 2)  # four times the points of the first level
    grid = curve.grid(0)
    shown = grid.q_hat[(grid.q_hat > SMALLEST_SHOWN_Q_HAT) & (grid.alpha < LARGEST_SHOWN_ALPHA)]
    points = curve.points(np.geomspace(shown[0], shown[-1], n_points))
    branches = curve.branches()
    rising = np.array([branch.rising for branch in branches])
    on_branch = np.searchsorted([branch.high for branch in branches[:-1]], np.log(points.q_hat))
    columns = {
        "q_hat": points.q_hat,
        "q": points.q,
        "V": points.v,
        "alpha": points.alpha,
        "free_entropy": points.free_entropy,
        "generalisation_error": curve.errors(points.v),
        "stable": rising[on_branch],
    }
    return pd.DataFrame(columns)
