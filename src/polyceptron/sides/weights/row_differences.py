"""Rows of a finite prior as points: their distances, what bounds v₁, and their entropy.

A row u = Pw has the values of a finite prior in each class, up to a common shift. How well two rows
are told apart depends on q̂Δ²/8, Δ their distance.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations

import numpy as np
from scipy.special import gammaln

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem import AnyTeacher
from polyceptron.sides.weights import point_rows

# Ways to distribute k classes over values or differences that are summed over: more take a second.
LARGEST_NUMBER_OF_COUNTS = 500_000


def row_spacing(teacher: AnyTeacher) -> float:
    """Return the smallest distance δ of two different rows u of a finite prior.

    Up to a common shift rows w and w′ differ by the scatter of w − w′ over the classes. Its entries
    are differences of values, and the smallest scatter has one entry that is next to all others:
    δ² = g²(1 − 1/k) with g the smallest gap between two differences of values.
    """
    if not teacher.common_shift:
        return float(np.diff(point_rows.support_of(teacher.prior)[0]).min())
    return point_rows.smallest_difference(teacher.prior) * math.sqrt(1 - 1 / teacher.n_classes)


def changes_of_one_class(teacher: AnyTeacher) -> Array:
    """Return the distances of rows of a finite prior that differ in one class, (n_values − 1,).

    They differ there by neighbouring values.
    """
    gaps: Array = np.diff(point_rows.support_of(teacher.prior)[0])
    if not teacher.common_shift:
        return gaps
    return gaps * math.sqrt(1 - 1 / teacher.n_classes)


def _counts(total: int, parts: int) -> Array:
    """Return all ways to write a total as a sum of so many whole numbers, (n, parts)."""
    places = total + parts - 1
    bars = np.array(list(combinations(range(places), parts - 1))).reshape(-1, parts - 1)
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, places)))
    return np.asarray(np.diff(ends) - 1)


@lru_cache(maxsize=64)
def variance_bound(teacher: AnyTeacher) -> Callable[[AnyArray], AnyArray]:
    """Return a function of q̂ (n,) that is at least v₁, for a finite prior on class differences.

    v₁ = (1/r) Σ Δ² E[w w′] over pairs of rows a distance Δ apart, w and w′ their posterior
    probabilities. As ab/(a + b) ≤ √(ab)/2, E[w w′] ≤ ½√(PP′) exp(−q̂Δ²/8). The difference of two
    rows has entries that are differences d of values, each with a factor Σ √(p(w) p(w + d)).
    """
    values, p = point_rows.support_of(teacher.prior)
    k = teacher.n_classes
    all_differences = np.subtract.outer(values, values).ravel()
    decimals = -round(math.log10(point_rows.SAME_DIFFERENCE))
    differences, place = np.unique(np.round(all_differences, decimals), return_inverse=True)
    overlap = np.bincount(place.ravel(), np.sqrt(np.outer(p, p)).ravel())
    if math.comb(k + len(differences) - 1, len(differences) - 1) > LARGEST_NUMBER_OF_COUNTS:
        return lambda q_hat: np.ones_like(q_hat)
    counts = _counts(k, len(differences))
    log_weight = gammaln(k + 1) - gammaln(counts + 1).sum(1) + counts @ np.log(overlap)
    square = counts @ differences**2 - (counts @ differences) ** 2 / k  # Δ²
    apart = square > point_rows.SAME_DIFFERENCE
    scale = square[apart] * np.exp(log_weight[apart]) / (4 * teacher.reduced_rank)
    fall = square[apart] / 8

    def bound(q_hat: AnyArray) -> AnyArray:
        """Return the upper bound of v (n,) at q̂ (n,)."""
        found = [float(scale @ np.exp(-fall * q)) for q in q_hat]
        return np.minimum(np.array(found), 1.0)

    return bound


@lru_cache(maxsize=64)
def row_entropy(teacher: AnyTeacher) -> float:
    """Return H(u), the entropy of one reduced teacher row; infinite for a continuous prior.

    Rows that differ by a shift inside the support are one u; they are counted by their values.
    """
    prior, k = teacher.prior, teacher.n_classes
    if prior.support is None or not teacher.common_shift:
        return prior.entropy
    values, p = prior.support
    m = len(values)
    if math.comb(k + m - 1, m - 1) > LARGEST_NUMBER_OF_COUNTS:
        raise ComputationFailed(
            f"the entropy of a row of {k} classes with {m} values is not implemented at this size; "
            "use fewer classes or values"
        )
    counts = _counts(k, m)
    log_row = counts @ np.log(p)
    log_u = log_row.copy()
    for shift in np.unique(np.round(np.subtract.outer(values, values), 9)):
        place = np.abs(values + shift - values[:, None])  # (target, value)
        stays = place.min(0) < point_rows.SAME_DIFFERENCE
        fits = ~counts[:, ~stays].any(1) & (shift != 0)
        moved = counts[fits] @ np.where(stays, np.log(p[place.argmin(0)]), 0.0)
        log_u[fits] = np.logaddexp(log_u[fits], moved)
    return float(-(np.exp(gammaln(k + 1) - gammaln(counts + 1).sum(1) + log_row) @ log_u))
