"""Where the solution curve passes given sample ratios, all of them at once.

On every stretch between two folds α is monotone in q̂, so each α is met at most once there: a
root in ln q̂ on the stretch. Each crossing comes with its uncertainty, and with a doubt where a
fold is closer than the curve's own uncertainty: then the branch may end before this α.

The shape of the solution curve: a grid that spans it, its folds, the stretches between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polyceptron.model import AnyTeacher
from polyceptron.numerics import AnyArray
from polyceptron.theory.bayes_optimal.curve_points import CurvePoints, PointwiseCurve
from polyceptron.theory.bayes_optimal.weights_table import PanelWeights
from polyceptron.theory.effort import first_effort
from polyceptron.theory.weights.sign_table import is_sign

_TINY = 1e-300
_STEPS, _CLOSE = 128, 1e-15  # of ln q̂: the most steps, and when two of them are one


@dataclass(frozen=True)
class Crossing:
    """A fixed point at α: where it is, what it says, and how far that can be trusted.

    A `ghost` is the fold of a branch that the mean curve has lost just below this α: within the
    uncertainty of the curve the branch may still be there.
    """

    stable: bool
    q_hat: float
    v: float
    free_entropy: float
    free_entropy_uncertainty: float
    error: float
    clean_error: float
    uncertainty: float
    ghost: bool = False


def crossings(curve: SolutionCurve, alphas: list[float]) -> list[list[Crossing]]:
    """For each α > 0 its fixed points in the order of overlap."""
    found: list[list[Crossing]] = [[] for _ in alphas]
    for far in (False, True):
        wanted = [n for n, a in enumerate(alphas) if curve.near_enough(a) is not far]
        if wanted:
            _cross(curve, alphas, wanted, far, found)
    return found


def _cross(
    curve: SolutionCurve,
    alphas: list[float],
    wanted: list[int],
    far: bool,
    found: list[list[Crossing]],
) -> None:
    """Add to `found` the crossings of the wanted α on the near or on the far curve."""
    branches, folds = curve.branches(far=far), _folds(curve, far)
    met = [
        (n, i)
        for n in wanted
        for i, b in enumerate(branches)
        if min(b.alpha_low, b.alpha_high) < alphas[n] <= max(b.alpha_low, b.alpha_high)
    ]
    if met:
        stretch = np.array([i for _, i in met])
        at = _meet(curve, [branches[i] for i in stretch], np.array([alphas[n] for n, _ in met]))
        parts = np.stack(_trust(curve, at, folds, stretch))
        for column, (n, i) in enumerate(met):
            q_hat, v, phi = (float(a[column]) for a in (at.q_hat, at.v, at.free_entropy))
            phi_error, error, clean, uncertainty = (float(a) for a in parts[:, column])
            found[n].append(
                Crossing(branches[i].rising, q_hat, v, phi, phi_error, error, clean, uncertainty)
            )
    for fold in folds:
        for n in wanted:
            if fold.maximum and 0 < np.log(alphas[n] / fold.alpha) <= fold.uncertainty:
                found[n].append(fold.ghost)


@dataclass(frozen=True)
class Fold:
    """A turning point of the curve: α there with its relative uncertainty, and its fixed point."""

    maximum: bool
    after: int  # the stretch that ends here
    alpha: float
    uncertainty: float
    ghost: Crossing


def _folds(curve: SolutionCurve, far: bool) -> list[Fold]:
    """Every fold of the curve, in the order of q̂."""
    ends = curve.branches(far=far)[:-1]
    if not ends:
        return []
    at = curve.points(np.exp(np.array([branch.high for branch in ends])))
    u = curve.alpha_uncertainty(at)
    errors, clean = curve.errors(at.v), curve.clean_errors(at.v)
    entropy = curve.entropy_uncertainty(at)
    return [
        Fold(
            branch.rising,
            i,
            float(at.alpha[i]),
            float(u[i]),
            Crossing(
                True,
                float(at.q_hat[i]),
                float(at.v[i]),
                float(at.free_entropy[i]),
                float(entropy[i]),
                float(errors[i]),
                float(clean[i]),
                np.inf,
                ghost=True,
            ),
        )
        for i, branch in enumerate(ends)
    ]


def _meet(curve: SolutionCurve, branches: list[Branch], alpha: AnyArray) -> CurvePoints:
    """Where each branch has its α (n,): together for speed, each as if it were alone.

    False position on ln α, nearly straight in ln q̂; the end that stays counts less at each step
    (Anderson and Björck), and now and then the stretch is halved. One that has arrived stays where
    it is, whatever the others still need: at a fold α is met at the end of its stretch itself.
    """

    def above(found: AnyArray) -> AnyArray:
        return np.asarray(np.log(np.clip(found, _TINY, 1 / _TINY) / alpha))

    x0, x1, a0, a1 = (
        np.array([getattr(b, end) for b in branches])
        for end in ("low", "high", "alpha_low", "alpha_high")
    )
    f0, f1 = above(a0), above(a1)
    swap = f0 == 0
    x0, x1, f0, f1 = (np.where(swap, *pair) for pair in ((x1, x0), (x0, x1), (f1, f0), (f0, f1)))
    going = f1 != 0
    for count in range(1, _STEPS):
        share = f1 / np.where(f1 == f0, 1.0, f1 - f0) if count % 6 else 0.5
        x = np.where(going, x1 + (x0 - x1) * share, x1)
        f = np.where(going, above(curve.alpha(np.exp(x))), f1)
        moved, crossed = np.abs(x - x1), going & ((f > 0) != (f1 > 0))
        weight = 1 - f / np.where(f1 == 0, 1.0, f1)
        stay = f0 * np.where(weight > 0, weight, 0.5)
        x0, f0 = np.where(crossed, x1, x0), np.where(crossed, f1, stay)
        x1, f1 = x, f
        close = np.minimum(moved, np.abs(x - x0)) < _CLOSE * (1 + np.abs(x))
        going = going & ~close & (f != 0)
        if not going.any():
            break
    return curve.points(np.exp(x1))


def _trust(
    curve: SolutionCurve, at: CurvePoints, folds: list[Fold], stretch: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Uncertainty of Φ, ε, its clean version, and the uncertainty of ε, each (n,)."""
    gap = np.full(at.alpha.shape, np.inf)
    for fold in folds:
        beside = (stretch == fold.after) | (stretch == fold.after + 1)
        distance = np.abs(np.log(at.alpha / fold.alpha))
        gap[beside] = np.minimum(gap[beside], distance[beside])
    return (
        curve.entropy_uncertainty(at),
        curve.errors(at.v),
        curve.clean_errors(at.v),
        curve.error_uncertainty(at, gap),
    )


_SMALLEST, _LARGEST = 1e-30, 1e22  # of q̂: α from 1e-12 to 1e8 for every channel
_FIRST_STAGE = 9990.0  # q̂ up to which a continuous prior's curve is always built: four panels


class Branch(NamedTuple):
    """A stretch of the curve from one fold (or end) to the next: q̂ and α at both ends."""

    rising: bool
    low: float  # ln q̂
    high: float
    alpha_low: float  # α at the ends, in the order of q̂
    alpha_high: float


class SolutionCurve(PointwiseCurve):
    """The curve with its folds; build with `curve_of`."""

    def grid(self, *, far: bool) -> CurvePoints:
        """The curve on a grid of q̂ that spans it and contains every fold.

        A continuous prior's curve is built up to q̂ ≈ 1e4, where v ~ 1/q̂ already and α rises for
        good, and beyond only where `far`.
        """
        return self._far_grid if far else self._near_grid

    @cached_property
    def _near_grid(self) -> CurvePoints:
        small = np.exp(np.linspace(math.log(_SMALLEST), math.log(0.05), 120))
        if not isinstance(self.weights, PanelWeights):
            every = np.exp(np.linspace(math.log(_SMALLEST), math.log(_LARGEST), 700))
            return self._with_folds(every)
        if self.teacher.prior.support is None:
            return self._with_folds(np.concatenate([small, np.geomspace(0.05, _FIRST_STAGE, 300)]))
        roots = self._finite_roots(math.sqrt(0.05))
        if self.perfect:
            return self._with_folds(np.concatenate([small, roots**2]))
        tail = np.geomspace(roots[-1] ** 2, _LARGEST, 200)
        return self._with_folds(np.concatenate([small, roots**2, tail[1:]]))

    @cached_property
    def _far_grid(self) -> CurvePoints:
        near = self._near_grid
        if near.q_hat[-1] > _FIRST_STAGE or self.perfect:
            return near
        more = self.points(np.geomspace(near.q_hat[-1], _LARGEST, 300)[1:])
        return CurvePoints(*(np.concatenate(pair) for pair in zip(near, more, strict=True)))

    def near_enough(self, alpha: float) -> bool:
        """Whether α is met on the near grid and not only far out."""
        return self.perfect or alpha < 0.5 * float(self._near_grid.alpha[-1])

    def _finite_roots(self, start: float) -> AnyArray:
        """√q̂ of a finite prior, panel after panel until α is far past its maximum."""
        assert isinstance(self.weights, PanelWeights)
        parts: list[AnyArray] = []
        highest = 0.0
        # How much of the unstable branch to follow: panels of many classes are dear.
        past = 0.25 if self.teacher.n_classes <= 3 or is_sign(self.teacher.prior) else 0.7
        for low, high in pairwise(self.weights.edges):
            parts.append(np.linspace(max(low, start), high, 102)[1:])
            alpha = self.points(parts[-1] ** 2).alpha
            highest = max(highest, float(alpha.max()))
            if self.perfect and alpha[-1] < past * highest:
                break
        return np.concatenate(parts)

    def _with_folds(self, q_hat: AnyArray) -> CurvePoints:
        """The curve on the grid and at every fold, found by golden section around the grid's."""
        alpha = self.points(q_hat).alpha
        rising = np.diff(alpha) > 0
        turns = np.flatnonzero(rising[1:] != rising[:-1]) + 1
        if turns.size == 0:
            return self.points(q_hat)
        sign = np.where(rising[turns - 1], 1.0, -1.0)
        low, high = np.sqrt(q_hat[turns - 1]), np.sqrt(q_hat[turns + 1])
        golden = (math.sqrt(5) - 1) / 2
        for _ in range(60):
            a, b = high - golden * (high - low), low + golden * (high - low)
            left = sign * self.points(a**2).alpha > sign * self.points(b**2).alpha
            low, high = np.where(left, low, a), np.where(left, b, high)
        folds = (0.5 * (low + high)) ** 2
        return self.points(np.unique(np.concatenate([q_hat, folds])))

    def branches(self, *, far: bool = False) -> list[Branch]:
        """The stretches between folds, in the order of q̂.

        A turn and the next that differ in α by no more than α is uncertain there are no folds.
        """
        return self._far_branches if far else self._near_branches

    @cached_property
    def _near_branches(self) -> list[Branch]:
        return self._branches(self._near_grid)

    @cached_property
    def _far_branches(self) -> list[Branch]:
        return self._branches(self._far_grid)

    def _branches(self, grid: CurvePoints) -> list[Branch]:
        rising = np.diff(grid.alpha) > 0
        cuts = [0, *(np.flatnonzero(rising[1:] != rising[:-1]) + 1).tolist(), rising.size]
        if len(cuts) > 2:
            at = CurvePoints(*(part[cuts] for part in grid))
            u = 3 * self.alpha_uncertainty(at)
            log_alpha = np.log(at.alpha)
            keep = list(range(len(cuts)))
            while len(keep) > 2:
                heights = np.abs(np.diff(log_alpha[keep])) - np.maximum(u[keep][1:], u[keep][:-1])
                smallest = int(heights.argmin())
                if heights[smallest] > 0:
                    break
                # Between two turns both go; at an end only the turn does.
                del keep[max(smallest, 1) : min(smallest + 2, len(keep) - 1)]
            cuts = [cuts[i] for i in keep]
        x, alpha = np.log(grid.q_hat), grid.alpha
        return [
            Branch(bool(alpha[j] > alpha[i]), *(float(a) for a in (x[i], x[j], alpha[i], alpha[j])))
            for i, j in pairwise(cuts)
        ]


@lru_cache(maxsize=32)
def curve_of(teacher: AnyTeacher, log2_points: int | None = None) -> SolutionCurve:
    """The solution curve of `teacher`; `log2_points` matters for k ≥ 4 only."""
    first = first_effort(teacher)
    return SolutionCurve(teacher, first if log2_points is None or first == 0 else log2_points)
