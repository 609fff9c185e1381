"""Branches of the solution curve: from where α(q̂) turns to where it turns again.

The curve is known on a grid of rising q̂. A *turn* is a node at which α stops rising or stops
falling; it is a *fold* if α leaves it by more than its uncertainty on both sides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import AnyArray


class CurvePoints(NamedTuple):
    """Points of the solution curve, arrays of one shape."""

    q_hat: AnyArray
    v: AnyArray  # 1 − q
    alpha: AnyArray  # n/d
    channel_entropy: AnyArray  # Ψ_out = dΦ/dα
    free_entropy: AnyArray

    @property
    def q(self) -> AnyArray:
        """The overlap q = 1 − v."""
        return 1 - self.v


class Branch(NamedTuple):
    """A stretch of the curve from one fold (or end) to the next: ln q̂ and α at both ends.

    Low and high are in the order of q̂: on a falling branch α is largest at its low end.
    """

    rising: bool
    low: float  # ln q̂
    high: float
    alpha_at_low: float  # α at the end of low q̂
    alpha_at_high: float  # α at the end of high q̂, not the higher α
    far: int = 0  # the number of the grid on which it was found

    def meets(self, alpha: float) -> bool:
        """Say whether α is between those of the two ends."""
        lowest = min(self.alpha_at_low, self.alpha_at_high)
        highest = max(self.alpha_at_low, self.alpha_at_high)
        return lowest < alpha <= highest


def turns(alpha: AnyArray) -> AnyArray:
    """Return the indices at which α (n,) stops rising or stops falling."""
    rising = np.diff(alpha) > 0
    return np.flatnonzero(rising[1:] != rising[:-1]) + 1


def certain_cuts(cuts: list[int], log_alpha: AnyArray, uncertainty: AnyArray) -> list[int]:
    """Keep the turns of ln α (n,) that are folds, with both ends of the curve.

    A turn and the next one are no folds if α, all the way between, differs from theirs by no more
    than its uncertainty. The pair that is least certain goes first.
    """

    def certain_height(i: int, j: int) -> float:
        """Return how far α leaves both turns between them, beyond its uncertainty."""
        between = slice(i, j + 1)
        ends = np.array([[i], [j]])
        apart = np.abs(log_alpha[between] - log_alpha[ends])
        unsure = np.maximum(uncertainty[between], uncertainty[ends])
        return float((apart - unsure).max())

    certain = list(cuts)
    while len(certain) > 2:
        heights = [certain_height(i, j) for i, j in pairwise(certain)]
        smallest = int(np.argmin(heights))
        if heights[smallest] > 0:
            break
        # Of a pair of turns both go. The ends of the curve stay, and the turn beside one goes.
        first = max(smallest, 1)
        last = min(smallest + 1, len(certain) - 2)
        del certain[first : last + 1]
    return certain


def cell_of(branch: Branch, log_q_hat: AnyArray, alpha: AnyArray, wanted: AnyArray) -> AnyArray:
    """Return the right node (n,) of the cell in which the branch has each wanted α (n,).

    The grid has ln q̂ and α at its nodes. ±α climbs along the branch, up to rounding and sampling.
    """
    first, last = np.searchsorted(log_q_hat, (branch.low, branch.high))
    direction = 1 if branch.rising else -1
    climb = np.maximum.accumulate(direction * alpha[first : last + 1])
    return np.searchsorted(climb, direction * wanted).clip(1, climb.size - 1) + first
