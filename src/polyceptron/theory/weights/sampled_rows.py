"""Any prior and any number of classes: sample the fields of a row, integrate the common shift.

Fields come from their own law f by inverse CDF, one quasi-random coordinate a class, so that they
move smoothly with q̂; what is left unknown given them is the shift, integrated as in `shift`. The
nodes of the shift get an offset of their own in each replicate: what they miss shows in the spread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.priors import Prior
from polyceptron.numerics.qmc import N_REPLICATES, uniform_replicates
from polyceptron.theory.weights.field_law import FieldTable
from polyceptron.theory.weights.shift import shift_moments

Array = NDArray[np.float64]
_STEP = 0.25


def sampled_row_variance(prior: Prior, n_classes: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v."""
    k = n_classes
    table = FieldTable(prior, q_hat)
    y = table.quantile(uniform_replicates(k, log2_points, seed=2000 + k))
    offsets = (np.arange(N_REPLICATES) + 0.5) / N_REPLICATES - 0.5
    found = [
        shift_moments(table, rows, _STEP, offset).variance.mean()
        for rows, offset in zip(y, offsets, strict=True)
    ]
    return np.array(found) / (k - 1)
