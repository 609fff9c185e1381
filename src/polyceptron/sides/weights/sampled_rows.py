"""What a row of four classes or more leaves unknown, for a continuous prior: the fields sampled.

Fields are drawn by inverse distribution function, one quasi-random coordinate a class, most rows so
that the gap of one class to what the others tell of the shift is where it hides much (rare weights
then need no luck), with bounded weights; the shift is integrated as in `common_shift` around a few
of the classes, its nodes with an offset of their own in each replicate, so their error is seen.
"""

import math

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.special import EvenPieces
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.common_shift import shift_moments
from polyceptron.sides.weights.field_table import (
    TABLE_STEP,
    FieldTable,
    field_table,
    single_variance,
)

_SHIFT_STEP = 0.25  # of t, where fields are sampled
_AS_IT_IS = 0.2  # of the sampled rows


def likely_gaps(table: FieldTable, k: int) -> Array:
    """Density of t (n,), of the gap of a class to the shift: as it is seen, times what it hides."""
    score = np.gradient(table.values[:, 0], table.t) / np.cosh(table.t)
    information = float(table.mass @ score**2) * TABLE_STEP  # of one class about the shift
    c = np.linspace(-3.5, 3.5, 29)
    seen = np.sinh(table.t)[:, None] - c / math.sqrt((k - 1) * information)
    log_f, mean = table(seen, 2)
    # In the slope of μ most classes are alike; it is what differs that hides.
    order = np.argsort(table.slope)
    below = np.cumsum(table.mass[order])
    mean = mean - table.slope[order[np.searchsorted(below, 0.5 * below[-1])]] * seen
    weight = np.exp(log_f - 0.5 * c**2)
    total = np.maximum(weight.sum(-1), 1e-290)
    hidden = (weight * mean**2).sum(-1) / total - ((weight * mean).sum(-1) / total) ** 2
    mass = total * np.cosh(table.t) * np.maximum(hidden, 1e-6 * hidden.max() + 1e-200)
    return np.asarray(mass / (mass.sum() * TABLE_STEP))


def sampled_shift_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for k ≥ 4: what one class leaves, and sampled what the shift hides.

    A share d of the rows is drawn as it is. In the others a class has a gap to the shift, which the
    rest tells, of a density g that favours what hides. Classes are alike: with p the density of a
    class's gap given the rest, all are of density d + (1 − d) mean_h g/p times that of rows.
    """
    table = field_table(prior, q_hat)
    mass = likely_gaps(table, k)
    log_mass = EvenPieces(table.t, np.log(np.maximum(mass, 1e-300))[:, None], 3)
    uniform = uniform_replicates(k, log2_points, seed=2000 + k)
    u = uniform[..., 0]
    first = np.minimum(u / _AS_IT_IS, 1.0)
    y = table.quantile(np.concatenate([first[..., None], uniform[..., 1:]], -1))
    gap = table.quantile(np.maximum((u - _AS_IT_IS) / (1 - _AS_IT_IS), 0.0), mass)
    above = np.empty(N_REPLICATES)
    for i, rows in enumerate(y):
        offset = (i + 0.5) / N_REPLICATES - 0.5
        moved = u[i] > _AS_IT_IS
        told = shift_moments(table, rows[moved, 1:], _SHIFT_STEP, offset)
        rows[moved, 0] = told.shift + gap[i, moved]
        found = shift_moments(table, rows, _SHIFT_STEP, offset, others=True)
        assert found.others is not None
        gaps = rows - found.others[1]
        log_p = found.log_density[:, None] - found.others[0] + 0.5 * np.log1p(gaps**2)
        ratio = np.exp(np.minimum(log_mass(np.arcsinh(gaps))[0] - log_p, 600.0)).mean(1)
        above[i] = (found.hidden / (_AS_IT_IS + (1 - _AS_IT_IS) * ratio)).mean()
    return np.asarray(single_variance(prior, q_hat) + above / (k - 1))
