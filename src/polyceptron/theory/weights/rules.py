"""What a row of weights leaves unknown at signal-to-noise ratio q̂: one rule for each prior and k.

One row u = Pw in R^r is seen as γ = q̂u* + √q̂ ξ. With ⟨·⟩ the posterior,

    v(q̂) = 1 − F(q̂) = E tr Cov⟨u⟩ / r,

a sum of positive terms, never 1 − q, so that it keeps its digits when q → 1. Which sum depends on
the prior and on the number of classes, and is decided in `row_rule` and nowhere else:

    Gaussian                     1/(1 + q̂)
    finite, r ≤ 2                the points that a row can take, on a grid        `finite_rows.py`
    ±1, r ≥ 3                    a table for every k                              `sign_table.py`
    other finite, r ≥ 3          k − 1 classes sampled, the last one integrated   `finite_rows.py`
    any other, one weight        one integral                                     `shift.py`
    any other, k ≤ 3             a lattice, at large q̂ panels of gaps             `shift.py`
    any other, k ≥ 4             the fields sampled                               `shift.py`

For a finite prior the entropy H of a reduced row is what Φ tends to, −H, at perfect learning.

How hard to sample is decided in `effort`, by the number of classes: log2 of the quasi-random points
of a replicate, of which there are 16. A point costs about k (finite priors) or k² (continuous ones,
up to twelve classes), so more classes start lower and stop earlier.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from polyceptron.errors import ComputationFailed
from polyceptron.model import AnyTeacher
from polyceptron.numerics import Array
from polyceptron.theory.weights.finite_rows import finite_row_variance, point_variance, support_of
from polyceptron.theory.weights.shift import (
    few_shift_error,
    few_shift_variance,
    sampled_shift_variance,
    single_variance,
)
from polyceptron.theory.weights.sign_table import is_sign, sign_table

_MOST_COUNTS = 500_000
_SAMPLED_SHIFT_ERROR = 1e-5  # relative, of v: what the nodes of the shift leave


@dataclass(frozen=True)
class RowRule:
    """How v is computed: at q̂ with 2**log2_points points a replicate, as an array (replicates,)."""

    at: Callable[[float, int], Array]
    error: Callable[[Array], Array] = np.zeros_like  # relative, at q̂ (n,), sampling apart
    sampled: bool = False  # whether v is averaged over random points

    def __call__(self, q_hat: Any, log2_points: int = 8) -> Array:
        """v at each q̂ (p,): shape (p, replicates)."""
        q_hat = np.atleast_1d(np.asarray(q_hat, dtype=float))
        return np.stack([self.at(float(value), log2_points) for value in q_hat])


@lru_cache(maxsize=64)
def row_rule(teacher: AnyTeacher) -> RowRule:
    """The rule of a teacher's rows."""
    prior, k = teacher.prior, teacher.n_classes
    if prior.gaussian:
        return RowRule(lambda q_hat, _: np.array([1 / (1 + q_hat)]))
    if prior.support is not None:
        if teacher.reduced_rank <= 2:
            return RowRule(lambda q_hat, _: np.array([point_variance(teacher, q_hat)]))
        if is_sign(prior):
            table = sign_table(k)
            return RowRule(
                lambda q_hat, _: np.exp(table.log_variance(np.sqrt([q_hat]))),
                lambda q_hat: table.error(np.sqrt(q_hat)),
            )
        return RowRule(lambda q_hat, n: finite_row_variance(prior, k, q_hat, n), sampled=True)
    if not teacher.common_shift:
        return RowRule(lambda q_hat, _: np.array([single_variance(prior, q_hat)]))
    if k > 3:
        return RowRule(
            lambda q_hat, n: sampled_shift_variance(prior, k, q_hat, n),
            lambda q_hat: np.full_like(q_hat, _SAMPLED_SHIFT_ERROR),
            sampled=True,
        )
    return RowRule(
        lambda q_hat, _: np.array([few_shift_variance(prior, k, q_hat)]),
        lambda q_hat: few_shift_error(prior, k, q_hat),
    )


class Effort(NamedTuple):
    """log2 of the points of the first, a drawn and the finest curve, and the default tolerances."""

    first: int  # a few seconds; 0 where nothing is sampled
    drawn: int  # for whole trajectories and curves, which are looked at rather than read off
    last: int  # minutes
    tolerance: float  # of the error
    transition: float  # of α_IT and α_algo


def effort(teacher: AnyTeacher) -> Effort:
    """How hard to sample for a teacher, and what uncertainty to ask for where none is given."""
    k, prior = teacher.n_classes, teacher.prior
    continuous = prior.support is None and not prior.gaussian
    if k <= 3:  # the gap rule of three classes is good to 1e-6
        return Effort(0, 0, 0, 1e-6 if continuous and k == 3 else 1e-8, 1e-6)
    tolerance = 1e-4 if prior.gaussian else 2e-3 if continuous else 3e-4
    if not row_rule(teacher).sampled:
        return Effort(0, 0, 0, tolerance, 1e-3)
    last = (11 if k <= 20 else 10 if k <= 50 else 8) - 2 * continuous
    return Effort(6 if k <= 20 else 4, 8 if k <= 20 else 5, last, tolerance, 3e-3)


def row_spacing(teacher: AnyTeacher) -> float:
    """The smallest distance δ of two rows u of a finite prior, which differ in one class."""
    spacing = float(np.diff(support_of(teacher.prior)[0]).min())
    return spacing * math.sqrt(1 - 1 / teacher.n_classes) if teacher.common_shift else spacing


def row_reach(teacher: AnyTeacher) -> float:
    """√q̂ at which v ~ exp(−q̂δ²/8) of a finite prior is negligible."""
    negligible = 1e-12 if teacher.n_classes <= 3 else 1e-6
    return math.sqrt(8 * math.log(1 / negligible)) / row_spacing(teacher)


@lru_cache(maxsize=64)
def row_entropy(teacher: AnyTeacher) -> float:
    """H(u): the entropy of one reduced teacher row; infinite for a continuous prior.

    u forgets the common part of w: rows that differ by a shift inside the support are one u. Rows
    are counted by how often they have each value.
    """
    prior, k = teacher.prior, teacher.n_classes
    if prior.support is None or not teacher.common_shift:
        return prior.entropy
    values, p = prior.support
    m = len(values)
    if math.comb(k + m - 1, m - 1) > _MOST_COUNTS:
        raise ComputationFailed(
            f"the entropy of a row of {k} classes with {m} values is not implemented at this size; "
            "use fewer classes or values"
        )
    bars = np.array(list(combinations(range(k + m - 1), m - 1))).reshape(-1, m - 1)
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, k + m - 1)))
    counts = np.diff(ends) - 1  # (n, m)
    log_row = counts @ np.log(p)
    log_u = log_row.copy()
    for shift in np.unique(np.round(np.subtract.outer(values, values), 9)):
        place = np.abs(values + shift - values[:, None])  # (target, value)
        stays = place.min(0) < 1e-8
        fits = ~counts[:, ~stays].any(1) & (shift != 0)
        moved = counts[fits] @ np.where(stays, np.log(p[place.argmin(0)]), 0.0)
        log_u[fits] = np.logaddexp(log_u[fits], moved)
    ways = gammaln(k + 1) - gammaln(counts + 1).sum(1)
    return float(-(np.exp(ways + log_row) @ log_u))
