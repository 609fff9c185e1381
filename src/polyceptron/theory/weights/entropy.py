"""The entropy of one teacher row on class differences, where there are finitely many."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import xlogy

from polyceptron.errors import ComputationFailed
from polyceptron.model import AnyTeacher
from polyceptron.model.priors import Prior
from polyceptron.model.priors.row import reduced_support

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
