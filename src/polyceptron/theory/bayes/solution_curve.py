"""The Bayes-optimal solution set as one curve, parametrised by q̂.

The order parameter is a scalar, so nothing need be iterated: choose q̂, then

    v = 1 − F(q̂),   α(q̂) = q̂ / I(v),   Φ = (r/2) q̂ v + ψ(q̂) + αΨ_out(v)

is a fixed point of state evolution at that α (eq. SE_BO), stable where α rises with q̂ and unstable
where it falls: folds cut the curve into branches. Where the integrals are sampled (k ≥ 4) the curve
is that of the mean over replicates: everything, a crossing, a fold, which branch wins, is decided
on the mean, and the replicates tell how far it can be trusted.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize.elementwise import find_minimum

from polyceptron.display import steps
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import from_replicates
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.sides.generalisation import angle, error_from_angle, error_on_labels
from polyceptron.sides.weights.side import Index, PriorSide, effort
from polyceptron.theory.bayes.channel_table import channel_table

if TYPE_CHECKING:
    import pandas as pd

_FLOOR = 1e-12  # relative error claimed for the deterministic rules, on top of the proxies' own
_SAMPLED_FLOOR = 1e-7  # and for the sampled ones: the step of their winner's table
_BESIDE, _MARGIN = 0.1, 1.15  # of a fold, in ln α; of a finer curve, in q̂
_FALSE_POSITIONS, _CLOSE = 40, 1e-13  # at most so many, until two are so close in ln q̂
_NO_LESS = 1e-300  # stands for v = 0, where τ is infinite, and for α = 0


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
    """A stretch of the curve from one fold (or end) to the next: q̂ and α at both ends."""

    rising: bool
    low: float  # ln q̂
    high: float
    alpha_low: float  # α at the ends, in the order of q̂
    alpha_high: float


class SolutionCurve:
    """The curve of one teacher at one sampling effort, with its folds; build with `curve_of`."""

    def __init__(self, teacher: AnyTeacher, log2_points: int, until: float) -> None:
        self.teacher, self.log2_points, self.until = teacher, log2_points, until
        self.weights = PriorSide(teacher, log2_points)
        self.n_replicates = self.weights.n_replicates
        self.channel = channel_table(teacher.channel, teacher.n_classes)
        self.perfect = teacher.prior.support is not None and teacher.channel.width(0.0) == 0
        self.grid, self.branches = cache(self._grid), cache(self._branches)

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
        v = np.maximum(v, _NO_LESS)
        return error_on_labels(noise, np.sqrt(np.maximum(1 - v, 0.0) / v), k)

    def clean_errors(self, v: AnyArray) -> AnyArray:
        """Error against the noiseless rule at residual variance v."""
        return error_from_angle(angle(v), self.teacher.n_classes)

    def perfect_entropy(self, alpha: Any) -> Any:
        """Φ = −H + αΨ₀ at perfect learning, v = 0 (finite priors under a channel without width)."""
        return -self.weights.known_entropy + alpha * self.channel.known_entropy

    def rule_errors(self, q_hat: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Relative errors of v and of I at q̂ (n,) from rules and proxies, sampling apart."""
        floor = _SAMPLED_FLOOR if self.n_replicates else _FLOOR
        v = self.weights.error(q_hat)
        return v, np.full(q_hat.shape, floor + self.channel.error + self.teacher.channel.accuracy)

    def alpha_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Relative uncertainty (n,) of α at fixed q̂."""
        v_error, i_error = self.rule_errors(at.q_hat)
        # I falls as 1/√v at worst, so half of the error of ln v is passed on to α.
        moved = np.log(self._replicates(at).alpha / at.alpha[:, None])
        return np.asarray(from_replicates(moved).uncertainty + (i_error + 0.5 * v_error))

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
            total = total + from_replicates(moved).uncertainty
            u = u + from_replicates(log_alpha).uncertainty
            return np.where(u < gap, total * (1 + u / gap + u), np.inf)

    def entropy_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Uncertainty (n,) of Φ at fixed α, where Φ is stationary: only ψ and Ψ_out count."""
        v_error, i_error = self.rule_errors(at.q_hat)
        energy = np.abs(at.alpha * at.channel_entropy)
        total = i_error * energy + (_FLOOR + v_error) * (1 + np.abs(at.free_entropy) + energy)
        found = self._replicates(at)  # Φ = (r/2) q̂v + ψ + αΨ_out
        psi = found.free_entropy - found.alpha * found.channel_entropy
        psi -= 0.5 * self.teacher.reduced_rank * found.q_hat * found.v
        return total + from_replicates(psi).uncertainty

    def _replicates(self, at: CurvePoints) -> CurvePoints:
        """Every replicate's point at the same q̂: (n, R), or (n, 1) of the mean."""
        n, R = at.q_hat.size, self.n_replicates
        if not R:
            return CurvePoints(*(part[:, None] for part in at))
        found = self.points(np.repeat(at.q_hat, R), np.tile(np.arange(1, R + 1), n))
        return CurvePoints(*(part.reshape(n, R) for part in found))

    def _grid(self, far: int) -> CurvePoints:
        """The curve on a grid of q̂ that spans it and contains every fold.

        It is built up to where every row has told nearly all, and α rises for good or has fallen
        far below its maximum, and beyond only where `far`.
        """
        if far and not self.perfect:
            more = [self.points(q_hat) for q_hat in self.weights.stages(far)]
            joined = zip(self.grid(far - 1), *more, strict=True)
            return CurvePoints(*(np.concatenate(parts) for parts in joined))
        parts: list[AnyArray] = []
        highest = 0.0
        # How much of the unstable branch to follow; rows of several strengths may turn it again.
        past = 0.25 if self.perfect and self.weights.flat else 0.0
        stages = list(self.weights.stages(0))
        for q_hat in steps(stages) if past > 0 else stages:
            parts.append(q_hat[q_hat <= self.until])
            if q_hat[-1] >= self.until:
                break
            if past > 0:
                alpha = self.points(q_hat).alpha
                highest = max(highest, float(alpha.max()))
                if alpha[-1] < past * highest:
                    break
        return self._with_folds(np.concatenate(parts))

    def how_far(self, alpha: float) -> int:
        """How many panels past the near grid α is met."""
        if self.perfect or self.until < np.inf:
            return 0
        last = len(self.weights.rows.ends)
        return next((n for n in range(last) if alpha < 0.5 * self.grid(n).alpha[-1]), last)

    def enough(self, alpha: float, q_hat: float) -> float:
        """Where a finer curve may end that is to have the states up to q̂ and any fold near α."""
        folds = [b for b in self.branches()[:-1] if abs(np.log(alpha / b.alpha_high)) < _BESIDE]
        return self.weights.panel_end(_MARGIN * max([q_hat, *(np.exp(b.high) for b in folds)]))

    def meet(self, branches: list[Branch], alpha: AnyArray) -> CurvePoints:
        """Where each branch has its α (n,), or the end next to it: each as if it were alone."""
        grid = self.grid(self.how_far(float(alpha.max())))
        places, state = np.log(grid.q_hat), np.empty((4, alpha.size))  # ln q̂ and ln α of two points
        for branch in set(branches):
            mine = np.array([each == branch for each in branches])
            first, last = np.searchsorted(places, (branch.low, branch.high))
            up = 1 if branch.rising else -1
            climb = np.maximum.accumulate(up * grid.alpha[first : last + 1])
            cell = np.searchsorted(climb, up * alpha[mine]).clip(1, climb.size - 1) + first
            both = np.stack([cell - 1, cell])
            state[:2, mine] = places[both]
            state[2:, mine] = np.log(np.maximum(grid.alpha[both], _NO_LESS) / alpha[mine])
        a, b, f_a, f_b = state
        x, left = np.where(np.abs(f_a) < np.abs(f_b), a, b), np.flatnonzero(f_a * f_b < 0)
        for _ in range(_FALSE_POSITIONS):  # after Anderson and Björck
            if not left.size:
                break
            a, b, f_a, f_b = state[:, left]
            x[left] = new = b - f_b * (b - a) / (f_b - f_a)
            there = np.clip(self.points(np.exp(new)).alpha, _NO_LESS, 1 / _NO_LESS)
            f = np.log(there / alpha[left])
            same, kept = (f > 0) == (f_b > 0), 1 - f / f_b
            f_a = np.where(same, f_a * np.where(kept > 0, kept, 0.5), f_b)
            state[:, left] = np.where(same, a, b), new, f_a, f
            left = left[(f != 0) & (np.abs(new - b) > _CLOSE)]
        return self.points(np.exp(x))

    def _with_folds(self, q_hat: AnyArray) -> CurvePoints:
        """The curve on the grid and at every fold, found around the grid's."""
        rising = np.diff(self.points(q_hat).alpha) > 0
        turns = np.flatnonzero(rising[1:] != rising[:-1]) + 1
        if turns.size == 0:
            return self.points(q_hat)
        sign = np.where(rising[turns - 1], -1.0, 1.0)
        low, middle, high = (np.sqrt(q_hat[turns + i]) for i in (-1, 0, 1))

        def height(x: AnyArray, sign: AnyArray) -> AnyArray:
            return np.asarray(sign * self.points(x**2).alpha)

        found = find_minimum(height, (low, middle, high), args=(sign,))
        return self.points(np.unique(np.concatenate([q_hat, found.x[found.success] ** 2])))

    def _branches(self, far: int = 0) -> list[Branch]:
        """The stretches between folds, in the order of q̂.

        A turn and the next are no folds if α, all the way between, is as uncertain as it differs.
        """
        grid = self.grid(far)
        rising = np.diff(grid.alpha) > 0
        cuts = [0, *(np.flatnonzero(rising[1:] != rising[:-1]) + 1).tolist(), rising.size]
        if len(cuts) > 2:
            u, log_alpha = 3 * self.alpha_uncertainty(grid), np.log(grid.alpha)

            def height(i: int, j: int) -> float:  # of α over that of a turn, beyond what is unsure
                way, turns = slice(i, j + 1), np.array([[i], [j]])
                apart = np.abs(log_alpha[way] - log_alpha[turns])
                return float((apart - np.maximum(u[way], u[turns])).max())

            while len(cuts) > 2:
                heights = [height(i, j) for i, j in pairwise(cuts)]
                smallest = int(np.argmin(heights))
                if heights[smallest] > 0:
                    break
                # Between two turns both go; at an end only the turn does.
                del cuts[max(smallest, 1) : min(smallest + 2, len(cuts) - 1)]
        x, alpha = np.log(grid.q_hat), grid.alpha
        return [
            Branch(bool(alpha[j] > alpha[i]), *(float(a) for a in (x[i], x[j], alpha[i], alpha[j])))
            for i, j in pairwise(cuts)
        ]


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
