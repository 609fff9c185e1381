"""The entropy of one teacher row on class differences, where there are finitely many.

What a row of weights leaves unknown at signal-to-noise ratio q̂, for any prior and any k.

One row u = Pw in R^r is seen as γ = q̂u* + √q̂ ξ. With ⟨·⟩ the posterior,

    v(q̂) = 1 − F(q̂) = E tr Cov⟨u⟩ / r,            ψ(q̂) = E ln Z_w(γ, q̂) − r q̂/2 = −(r/2) ∫_0^q̂ v,

so that the free entropy is Φ = (r/2) q̂ v + ψ + αΨ_out, with no large terms that cancel, and v
keeps its digits when q → 1 (a sum of positive terms, never 1 − q). Which sum depends on the prior:

    Gaussian                     1/(1 + q̂)
    finite, r ≤ 2                the points that a row can take, on a grid            `points`
    ±1, r ≥ 3                    a table for every k                                  `sign_table`
    other finite, r ≥ 3          k − 1 classes sampled, the last one integrated       `finite_rows`
    any other, one weight        one integral
    any other, k ≤ 3             a lattice, at large q̂ panels of gaps           `lattice`, `gaps`
    any other, k ≥ 4             the fields sampled                                   `sampled_rows`
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import xlogy

from polyceptron.errors import ComputationFailed
from polyceptron.model import AnyTeacher
from polyceptron.model.priors import Prior
from polyceptron.model.priors.base import reduced_support
from polyceptron.numerics import Array
from polyceptron.theory.weights.finite_rows import (
    finite_row_variance,
    point_variance,
    sampled_row_variance,
    support_of,
)
from polyceptron.theory.weights.shift import (
    FieldTable,
    gap_variance,
    lattice_size,
    lattice_variance,
    scalar_posterior,
)
from polyceptron.theory.weights.sign_table import is_sign, sign_table

_MOST_ROWS = 10_000


@lru_cache(maxsize=64)
def row_entropy(teacher: AnyTeacher) -> float:
    """H(u): the entropy of one reduced teacher row; infinite for a continuous prior.

    Φ tends to −H at perfect learning. u forgets the common part of w, which is recovered from u
    unless the row can be shifted inside the support, so configurations merge only there.
    """
    prior, k = teacher.prior, teacher.n_classes
    if prior.support is None or not teacher.common_shift:
        return prior.entropy
    if len(prior.support[0]) ** k <= _MOST_ROWS:
        log_p = reduced_support(prior, k)[1]
        return float(-(np.exp(log_p) * log_p).sum())
    return _large_entropy(prior, k)


def _large_entropy(prior: Prior, k: int) -> float:
    """k H(w) less what merging loses: rows w and w + c·1 share one u.

    Rows merge along chains of equal shape; for many classes this is a tiny correction, computed
    over the shapes that shift inside the support: those whose values all stay in it.
    """
    assert prior.support is not None
    values, p = prior.support
    total = k * prior.entropy
    if len(values) == 2:  # only constant rows merge: all-a with all-b
        a, b = k * math.log(p[0]), k * math.log(p[1])
        both = np.logaddexp(a, b)
        return total - float(xlogy(np.exp(both), np.exp(both)) - np.exp(a) * a - np.exp(b) * b)
    shifts = {round(float(b - a), 9) for a in values for b in values if b > a}
    bound = sum(
        float(p[np.isin(np.round(values + c, 9), np.round(values, 9))].sum()) ** k for c in shifts
    )
    if bound * k * math.log(1 / p.min()) > 1e-9:
        raise ComputationFailed(
            f"the entropy of a row of {k} classes with {len(values)} equally spaced values is not "
            "implemented at this size; use fewer classes or values"
        )
    return total


_LARGEST_LATTICE = {2: 700, 3: 230}  # points on each side of 0: a tenth of a second
# Nodes of a panel of the gaps, step along the shift; and the relative error that they leave.
_GAP_RULE = {2: (24, 0.06), 3: (14, 0.14)}
_GAP_ERROR = {2: 1e-8, 3: 3e-6}


def residual_variance(teacher: AnyTeacher, q_hat: Any, log2_points: int = 8) -> Array:
    """v at the signal-to-noise ratios q̂ (p,), 0 ≤ q̂: shape (p, replicates)."""
    q_hat = np.atleast_1d(np.asarray(q_hat, dtype=float))
    if teacher.prior.gaussian:
        return 1 / (1 + q_hat)[:, None]
    if teacher.n_classes > 3 and is_sign(teacher.prior):
        return np.exp(sign_table(teacher.n_classes).log_variance(np.sqrt(q_hat)))[:, None]
    return np.stack([_variance(teacher, float(value), log2_points) for value in q_hat])


def rows_sampled(teacher: AnyTeacher) -> bool:
    """Whether v is averaged over random points."""
    prior, k = teacher.prior, teacher.n_classes
    return not (k <= 3 or prior.gaussian or is_sign(prior))


def row_spacing(teacher: AnyTeacher) -> float:
    """The smallest distance δ of two rows u of a finite prior, which differ in one class."""
    spacing = float(np.diff(support_of(teacher.prior)[0]).min())
    return spacing * math.sqrt(1 - 1 / teacher.n_classes) if teacher.common_shift else spacing


def row_reach(teacher: AnyTeacher) -> float:
    """√q̂ at which v ~ exp(−q̂δ²/8) is negligible."""
    negligible = 1e-12 if teacher.n_classes <= 3 else 1e-6
    return math.sqrt(8 * math.log(1 / negligible)) / row_spacing(teacher)


def rule_error(teacher: AnyTeacher, q_hat: float) -> float:
    """The relative error of v that the rules leave at q̂, sampling apart."""
    prior, k = teacher.prior, teacher.n_classes
    if k > 3 and is_sign(prior):
        return sign_table(k).error(math.sqrt(q_hat))
    if prior.support is not None or prior.gaussian or not teacher.common_shift:
        return 0.0
    return _GAP_ERROR.get(k, 1e-5) if not _on_lattice(prior, k, q_hat) else 0.0


def _on_lattice(prior: Prior, k: int, q_hat: float) -> bool:
    return k <= 3 and lattice_size(prior, q_hat) <= _LARGEST_LATTICE[k]


def _variance(teacher: AnyTeacher, q_hat: float, log2_points: int) -> Array:
    prior, k = teacher.prior, teacher.n_classes
    if prior.support is not None:
        if teacher.reduced_rank > 2:
            return finite_row_variance(prior, k, q_hat, log2_points)
        return np.array([point_variance(teacher, q_hat)])
    if not teacher.common_shift:
        return np.array([single_variance(prior, q_hat)])
    if k > 3:
        return sampled_row_variance(prior, k, q_hat, log2_points)
    if _on_lattice(prior, k, q_hat):
        return np.array([lattice_variance(prior, k, q_hat)])
    return np.array([gap_variance(FieldTable(prior, q_hat), k, *_GAP_RULE[k])[0]])


def single_variance(prior: Prior, q_hat: float) -> float:
    """v = E var(w | y) of one weight without a common shift: equal steps of t = asinh y."""
    end = math.asinh(math.sqrt(q_hat) * prior.extent + 8.5)
    t = np.linspace(-end, end, 2 * math.ceil(end / 0.02) + 1)
    found = scalar_posterior(prior, q_hat, np.sinh(t))
    mass = np.exp(found.log_f) * np.cosh(t) * (t[1] - t[0])
    return float(mass @ found.variance)
