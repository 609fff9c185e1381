"""The Bayes-optimal solution set as one curve, parametrised by q̂.

The order parameter is a scalar, so nothing need be iterated: choose q̂, then

    v = 1 − F(q̂),   α(q̂) = q̂ / I(v),   Φ = (r/2) q̂ v + ψ(q̂) + αΨ_out(v)

is a fixed point of state evolution at that α (eq. SE_BO), stable where α rises with q̂ and unstable
where it falls: folds cut the curve into branches.

How many folds there are
------------------------
Two rows a distance Δ apart are told apart once q̂Δ² is large. Rows of a finite prior that are close
therefore count as one until late, and α(q̂) may have a hump for every scale of the distances. With
δ the smallest of them, v falls at least as fast as exp(−q̂δ²/8) once q̂δ²/8 is large, and without
noise α ~ q̂√v then falls for good. The curve is followed at least that far, whatever α does before.

How large: what rows of probabilities P and P′ leave of v is √(PP′) exp(−t − L²/(16t))/√t up to
constants, with t = q̂Δ²/8 and L = ln P/P′, so that −d ln v/d ln q̂ ≥ t − L²/(16t). That is c or more
from t = c + |L|/4 on.

Two properties are checked on every curve, and `problem` states in words which one fails:

* The branches rise and fall in turn. The first one rises. The last one falls if the curve ends at
  perfect learning (v = 0 and α → 0), and rises else.
* If the curve ends at perfect learning, what the last q̂ leaves unknown of the entropy of a row,
  H + ψ(q̂) = (r/2) ∫ v from q̂ to ∞, is about (r/2) v(q̂)/(δ²/8) at most. A scale that was
  overlooked leaves many times more.

Where rows are sampled and some are very close, following the curve until they are told apart would
take too long. `overlooked_below` then bounds the α at which there may be further states.

Where the integrals are sampled (k ≥ 4) the curve is that of the mean over replicates: a crossing, a
fold and the choice of a branch are decided on the mean, and the replicates tell how far it can be
trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

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
from polyceptron.theory.bayes.channel_table import channel_table

if TYPE_CHECKING:
    import pandas as pd

RULE_ERROR = 1e-12  # relative error claimed for the deterministic rules, besides the proxies' own
SAMPLED_RULE_ERROR = 1e-7  # and for the sampled ones: the step of their table of winners
NEAR_A_FOLD = 0.1  # in ln α: folds so close to an α are kept on a finer curve
END_MARGIN = 1.15  # a finer curve goes so much farther in q̂ than it must
MOST_FALSE_POSITIONS = 40
SAME_PLACE = 1e-13  # in ln q̂: two iterates of false position that are so close are one
TINY = 1e-300  # stands for v = 0, where τ is infinite, and for α = 0
STEEP_ENOUGH = 4.0  # −d ln v/d ln q̂ from which on α ~ q̂√v falls; it would at 2, were I ~ 1/√v
FALLEN = 0.25  # of the highest α: how far the last falling branch is followed at first
LOST_IN_ROUNDING = 640.0  # −ln v at which the last falling branch ends: v = 1e-278
UNEXPLAINED_ENTROPY = 1e-6  # of H: rounding of ψ, which the panels of v add up


class CurvePoints(NamedTuple):
    """Points of the solution curve, arrays of one shape."""

    q_hat: AnyArray
    v: AnyArray  # 1 − q
    alpha: AnyArray
    channel_entropy: AnyArray  # Ψ_out = dΦ/dα
    free_entropy: AnyArray

    @property
    def q(self) -> AnyArray:
        """The overlap."""
        return 1 - self.v


class Branch(NamedTuple):
    """A stretch of the curve from one fold (or end) to the next: ln q̂ and α at both ends."""

    rising: bool
    low: float  # ln q̂
    high: float
    alpha_low: float  # α at the ends, in the order of q̂
    alpha_high: float
    far: int = 0  # the grid on which it was found

    def meets(self, alpha: float) -> bool:
        """Whether α is between those of the two ends."""
        lowest = min(self.alpha_low, self.alpha_high)
        highest = max(self.alpha_low, self.alpha_high)
        return lowest < alpha <= highest


class SolutionCurve:
    """The curve of one teacher at one sampling effort, with all its folds; build with `curve_of`.

    Attributes
    ----------
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
        self.perfect = teacher.prior.support is not None and teacher.channel.width(0.0) == 0
        self.grid = cache(self._grid)
        self.branches = cache(self._branches)

    def points(self, q_hat: AnyArray, column: Index | None = None) -> CurvePoints:
        """The curve at q̂ (n,): of the mean (column 0), or of replicates 1 to R (n,)."""
        column = np.zeros(q_hat.shape, dtype=np.int64) if column is None else column
        v, psi = self.weights.moments(q_hat, column)
        information, entropy = self.channel(v)
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = q_hat / information
            rest = 0.5 * self.teacher.reduced_rank * q_hat * v + psi
            return CurvePoints(q_hat, v, alpha, entropy, rest + alpha * entropy)

    def errors(self, v: AnyArray) -> AnyArray:
        """Generalisation error on labels as drawn, at residual variance v."""
        noise, k = self.teacher.channel, self.teacher.n_classes
        if noise.noiseless:
            return self.clean_errors(v)
        v = np.maximum(v, TINY)
        return error_on_labels(noise, np.sqrt(np.maximum(1 - v, 0.0) / v), k)

    def clean_errors(self, v: AnyArray) -> AnyArray:
        """Error against the noiseless rule at residual variance v."""
        return error_from_angle(angle(v), self.teacher.n_classes)

    def perfect_entropy(self, alpha: Any) -> Any:
        """Φ = −H + αΨ₀ at perfect learning, v = 0 (finite priors under a channel without width)."""
        return -self.weights.known_entropy + alpha * self.channel.known_entropy

    def rule_errors(self, q_hat: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Relative errors of v and of I at q̂ (n,) from rules and proxies, sampling apart."""
        v_error = self.weights.error(q_hat)
        i_error = self.channel.error + self.teacher.channel.accuracy
        if self.n_replicates:
            i_error += SAMPLED_RULE_ERROR
        else:
            i_error += RULE_ERROR
        return v_error, np.full(q_hat.shape, i_error)

    def alpha_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Relative uncertainty (n,) of α at fixed q̂."""
        v_error, i_error = self.rule_errors(at.q_hat)
        # I falls as 1/√v at worst, so half of the error of ln v is passed on to α.
        moved = np.log(self._replicates(at).alpha / at.alpha[:, None])
        return np.asarray(estimate_from_replicates(moved).uncertainty + (i_error + 0.5 * v_error))

    def error_uncertainty(self, at: CurvePoints, gap: AnyArray) -> AnyArray:
        """Uncertainty (n,) of the generalisation error at fixed α.

        A relative error u of α moves ε by its slope along the curve; that of v directly. `gap` is
        that of ln α to the closest fold: nearer than u there may be no crossing (infinite), and
        else the square root at the fold at most doubles what a straight line says.
        """
        up, down = (self.points(at.q_hat * (1 + change)) for change in (1e-4, -1e-4))
        d_alpha = np.log(up.alpha / down.alpha)
        d_error, d_v = self.errors(up.v) - self.errors(down.v), up.v - down.v
        with np.errstate(divide="ignore", invalid="ignore"):
            by_alpha = np.where(d_error == 0, 0.0, d_error / d_alpha)
            by_v = np.where(d_v == 0, 0.0, d_error / d_v)
        v_error, i_error = self.rule_errors(at.q_hat)
        u = i_error + 0.5 * v_error
        total = np.abs(by_alpha) * u + np.abs(by_v) * at.v * v_error + self.teacher.channel.accuracy
        found = self._replicates(at)
        log_alpha = np.log(found.alpha / at.alpha[:, None])
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = by_v[:, None] * (found.v - at.v[:, None]) - by_alpha[:, None] * log_alpha
            total = total + estimate_from_replicates(moved).uncertainty
            u = u + estimate_from_replicates(log_alpha).uncertainty
            return np.where(u < gap, total * (1 + u / gap + u), np.inf)

    def entropy_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Uncertainty (n,) of Φ at fixed α, where Φ is stationary: only ψ and Ψ_out count."""
        v_error, i_error = self.rule_errors(at.q_hat)
        energy = np.abs(at.alpha * at.channel_entropy)
        total = i_error * energy + (RULE_ERROR + v_error) * (1 + np.abs(at.free_entropy) + energy)
        found = self._replicates(at)  # Φ = (r/2) q̂v + ψ + αΨ_out
        psi = found.free_entropy - found.alpha * found.channel_entropy
        psi -= 0.5 * self.teacher.reduced_rank * found.q_hat * found.v
        return total + estimate_from_replicates(psi).uncertainty

    def _replicates(self, at: CurvePoints) -> CurvePoints:
        """Every replicate's point at the same q̂: (n, R), or (n, 1) of the mean."""
        n, R = at.q_hat.size, self.n_replicates
        if not R:
            return CurvePoints(*(part[:, None] for part in at))
        found = self.points(np.repeat(at.q_hat, R), np.tile(np.arange(1, R + 1), n))
        return CurvePoints(*(part.reshape(n, R) for part in found))

    def _grid(self, far: int) -> CurvePoints:
        """The curve on a grid of q̂ that spans it and contains every fold.

        Grid 0 contains all folds of a curve with perfect learning, and goes on to where α has
        fallen far. For any other curve it goes to where every row has told nearly all. Grids 1, 2,
        … add the ends of the curve, which are needed for very small or very large α only.
        """
        if far == 0:
            return self._with_folds(self._near_places())
        if self.perfect:
            added = self.points(self._places_of_the_last_fall())
        else:
            added = self._with_folds(np.concatenate(list(self.weights.stages(far))))
        joined = zip(self.grid(far - 1), added, strict=True)
        return CurvePoints(*(np.concatenate(parts) for parts in joined))

    def _near_places(self) -> AnyArray:
        """The q̂ of grid 0, stage after stage until no fold can follow."""
        parts: list[AnyArray] = []
        highest = 0.0
        # Rows of several strengths (a spectrum) are told apart one after the other.
        may_end_early = self.perfect and self.weights.flat
        stages = list(self.weights.stages(0))
        for q_hat in steps(stages) if may_end_early else stages:
            parts.append(q_hat[q_hat <= self.until])
            if q_hat[-1] >= self.until:
                break
            if may_end_early:
                alpha = self.points(q_hat).alpha
                highest = max(highest, float(alpha.max()))
                if q_hat[-1] > self._all_told_apart() and alpha[-1] < FALLEN * highest:
                    break
        return np.concatenate(parts)

    def _all_told_apart(self) -> float:
        """The q̂ from which on α of a finite prior falls for good, if there is no noise."""
        assert self.teacher.prior.support is not None
        p = self.teacher.prior.support[1]
        log_ratio = float(np.log(p.max() / p.min()))
        if self.teacher.common_shift:
            log_ratio *= self.teacher.n_classes  # at most, of the probabilities of two rows
        return (STEEP_ENOUGH + log_ratio / 4) / self.weights.slowest_fall

    def _places_of_the_last_fall(self) -> AnyArray:
        """The q̂ beyond grid 0 of a curve with perfect learning, down to where v is no number."""
        last = float(self.grid(0).q_hat[-1])
        stages = np.concatenate(list(self.weights.stages(0)))
        end = max(last, float(stages[-1]))
        nothing_left = end + LOST_IN_ROUNDING / self.weights.slowest_fall
        beyond = np.linspace(end, nothing_left, 300)[1:]
        return np.concatenate([stages[stages > last], beyond])

    def how_far(self, alpha: float) -> int:
        """The number of the first grid on which the whole of the curve at α is."""
        if self.until < np.inf:
            return 0
        if self.perfect:
            return 0 if alpha > self.grid(0).alpha[-1] else 1
        last = len(self.weights.rows.ends)
        return next((n for n in range(last) if alpha < 0.5 * self.grid(n).alpha[-1]), last)

    def enough(self, alpha: float, q_hat: float) -> float:
        """Where a finer curve may end that is to have the states up to q̂ and any fold near α."""
        needed = [q_hat]
        for branch in self.branches()[:-1]:
            if abs(np.log(alpha / branch.alpha_high)) < NEAR_A_FOLD:
                needed.append(float(np.exp(branch.high)))
        return self.weights.panel_end(END_MARGIN * max(needed))

    def meet(self, branches: list[Branch], alpha: AnyArray) -> CurvePoints:
        """Where each branch has its α (n,), or the end next to it: each as if it were alone."""
        grid = self.grid(max(branch.far for branch in branches))
        places = np.log(grid.q_hat)
        left = np.empty((2, alpha.size))  # ln q̂ and ln α(q̂)/α of the two ends of each bracket
        right = np.empty((2, alpha.size))
        for branch in set(branches):
            mine = np.array([each == branch for each in branches])
            cell = _cell_of(branch, places, grid.alpha, alpha[mine])
            for side, node in ((left, cell - 1), (right, cell)):
                side[0, mine] = places[node]
                side[1, mine] = np.log(np.maximum(grid.alpha[node], TINY) / alpha[mine])

        def height(log_q_hat: AnyArray, which: AnyArray) -> AnyArray:
            found = self.points(np.exp(log_q_hat)).alpha
            return np.asarray(np.log(np.clip(found, TINY, 1 / TINY) / alpha[which]))

        return self.points(np.exp(FalsePosition(*left, *right).solve(height)))

    def _with_folds(self, q_hat: AnyArray) -> CurvePoints:
        """The curve on the grid and at every fold, each found around a turn of the grid's α."""
        grid = self.points(q_hat)
        alpha = grid.alpha
        turns = _turns(alpha)
        if turns.size == 0:
            return grid
        sign = np.where(alpha[turns] > alpha[turns - 1], -1.0, 1.0)  # of a maximum, or a minimum
        bracket = tuple(np.sqrt(q_hat[turns + i]) for i in (-1, 0, 1))

        def height(x: AnyArray, sign: AnyArray) -> AnyArray:
            return np.asarray(sign * self.points(x**2).alpha)

        found = find_minimum(height, bracket, args=(sign,))
        folds = found.x[found.success] ** 2
        return self.points(np.unique(np.concatenate([q_hat, folds])))

    def _branches(self, far: int = 0) -> list[Branch]:
        """The stretches between folds, in the order of q̂."""
        grid = self.grid(far)
        cuts = [0, *_turns(grid.alpha).tolist(), grid.alpha.size - 1]
        if len(cuts) > 2:
            cuts = _certain_cuts(cuts, np.log(grid.alpha), 3 * self.alpha_uncertainty(grid))
        place = np.log(grid.q_hat)
        alpha = grid.alpha
        return [
            Branch(
                rising=bool(alpha[j] > alpha[i]),
                low=float(place[i]),
                high=float(place[j]),
                alpha_low=float(alpha[i]),
                alpha_high=float(alpha[j]),
                far=far,
            )
            for i, j in pairwise(cuts)
        ]

    @cached_property
    def problem(self) -> str:
        """Which property of every solution curve this one lacks, in words; empty if none."""
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

        Rows that are too close for the sampled rule are told apart beyond the end. There α(q̂) is at
        most q̂/I at an upper bound of v.
        """
        if self.weights.rows.resolved:
            return 0.0
        if not self.perfect:
            return np.inf
        end = float(self.grid(0).q_hat[-1])
        q_hat = np.geomspace(end, max(2 * end, LOST_IN_ROUNDING / self.weights.slowest_fall), 300)
        return float((q_hat / self.channel(self.weights.bound(q_hat))[0]).max())

    def _entropy_is_missing(self) -> bool:
        """Whether H + ψ at the end of grid 0 is more than the fall of v from there on explains."""
        grid = self.grid(0)
        end = CurvePoints(*(part[-1:] for part in grid))
        half = 0.5 * self.teacher.reduced_rank
        psi = end.free_entropy - end.alpha * end.channel_entropy - half * end.q_hat * end.v
        unknown = self.weights.known_entropy + psi
        explained = half * end.v / self.weights.slowest_fall
        allowed = UNEXPLAINED_ENTROPY * self.weights.known_entropy + self.entropy_uncertainty(end)
        # v falls at half the rate of its limit or more, by the choice of the last q̂.
        return bool((unknown > 2 * explained + allowed)[0])


def _turns(alpha: AnyArray) -> AnyArray:
    """The indices at which α (n,) stops rising or stops falling."""
    rising = np.diff(alpha) > 0
    return np.flatnonzero(rising[1:] != rising[:-1]) + 1


def _certain_cuts(cuts: list[int], log_alpha: AnyArray, uncertainty: AnyArray) -> list[int]:
    """The turns of ln α (n,) that are folds, with both ends of the curve.

    A turn and the next one are no folds if α, all the way between, differs from theirs by no more
    than its uncertainty. The pair that is least certain goes first.
    """

    def certain_height(i: int, j: int) -> float:
        between = slice(i, j + 1)
        turns = np.array([[i], [j]])
        apart = np.abs(log_alpha[between] - log_alpha[turns])
        unsure = np.maximum(uncertainty[between], uncertainty[turns])
        return float((apart - unsure).max())

    kept = list(cuts)
    while len(kept) > 2:
        heights = [certain_height(i, j) for i, j in pairwise(kept)]
        smallest = int(np.argmin(heights))
        if heights[smallest] > 0:
            break
        # Between two turns both go. The ends of the curve stay, and the turn beside one goes.
        first = max(smallest, 1)
        last = min(smallest + 1, len(kept) - 2)
        del kept[first : last + 1]
    return kept


def _cell_of(branch: Branch, places: AnyArray, alpha: AnyArray, wanted: AnyArray) -> AnyArray:
    """The right end of the cell of the grid in which the branch has each wanted α (n,)."""
    first, last = np.searchsorted(places, (branch.low, branch.high))
    direction = 1 if branch.rising else -1
    climb = np.maximum.accumulate(direction * alpha[first : last + 1])
    return np.searchsorted(climb, direction * wanted).clip(1, climb.size - 1) + first


@dataclass
class FalsePosition:
    """Roots of n functions at once by false position, after Anderson and Björck.

    All arrays are of shape (n,). Where the ends of a bracket have heights of the same sign the
    answer is the end of smaller height.
    """

    a: AnyArray
    height_a: AnyArray
    b: AnyArray  # the latest iterate
    height_b: AnyArray

    def solve(self, height: Callable[[AnyArray, AnyArray], AnyArray]) -> AnyArray:
        """The roots; `height` takes places and the indices of the functions to evaluate there."""
        root = np.where(np.abs(self.height_a) < np.abs(self.height_b), self.a, self.b)
        going = np.flatnonzero(self.height_a * self.height_b < 0)
        for _ in range(MOST_FALSE_POSITIONS):
            if not going.size:
                break
            new = self._secant(going)
            moved = np.abs(new - self.b[going])
            new_height = height(new, going)
            root[going] = new
            self._replace(going, new, new_height)
            going = going[(new_height != 0) & (moved > SAME_PLACE)]
        return root

    def _secant(self, going: AnyArray) -> AnyArray:
        """Where the line through both ends of the bracket is zero."""
        a, b = self.a[going], self.b[going]
        height_a, height_b = self.height_a[going], self.height_b[going]
        return np.asarray(b - height_b * (b - a) / (height_b - height_a))

    def _replace(self, going: AnyArray, new: AnyArray, new_height: AnyArray) -> None:
        """Take the new iterate as b; a stays, of less height, if it is on the other side still."""
        a, b = self.a[going], self.b[going]
        height_a, height_b = self.height_a[going], self.height_b[going]
        same_side = (new_height > 0) == (height_b > 0)
        kept = 1 - new_height / height_b
        lowered = height_a * np.where(kept > 0, kept, 0.5)
        self.a[going] = np.where(same_side, a, b)
        self.height_a[going] = np.where(same_side, lowered, height_b)
        self.b[going] = new
        self.height_b[going] = new_height


@lru_cache(maxsize=32)
def curve_of(
    teacher: AnyTeacher, log2_points: int | None = None, until: float = np.inf
) -> SolutionCurve:
    """The solution curve of `teacher`, up to some q̂; `log2_points` matters for k ≥ 4 only."""
    first = effort(teacher).first
    return SolutionCurve(teacher, log2_points if first and log2_points else first, until)


def solution_curve(teacher: AnyTeacher, n_points: int = 400) -> pd.DataFrame:
    """Every fixed point (α, q) as a table: q_hat, q, V, alpha, free_entropy, error, stable.

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
    curve = curve_of(teacher, effort(teacher).first + 2)
    grid = curve.grid(0)
    sensible = grid.q_hat[(grid.q_hat > 1e-4) & (grid.alpha < 1e6)]
    points = curve.points(np.geomspace(sensible[0], sensible[-1], n_points))
    columns = {"q_hat": points.q_hat, "q": points.q, "V": points.v, "alpha": points.alpha}
    columns |= {"free_entropy": points.free_entropy, "generalisation_error": curve.errors(points.v)}
    rising = np.gradient(points.alpha, np.log(points.q_hat)) > 0
    return pd.DataFrame(columns | {"stable": rising})
