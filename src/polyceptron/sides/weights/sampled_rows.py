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

STEP_OF_SAMPLED_SHIFT = 0.25  # of t: replicates have offsets of their own, which show its error
SHARE_DRAWN_AS_IT_IS = 0.2  # d, of the sampled rows: bounds every weight by 1/d


def likely_gaps(table: FieldTable, k: int) -> Array:
    """Return a density of the gap of a class to the shift: as it is seen, times what it hides.

    Parameters
    ----------
    table : FieldTable
    k : int
        Number of classes.

    Returns
    -------
    ndarray, (n,)
        The density of t = asinh(gap) at the nodes t of the table.
    """
    score = np.gradient(table.values[:, 0], table.t) / np.cosh(table.t)
    information = float(table.mass @ score**2) * TABLE_STEP  # of one class about the shift
    c = np.linspace(-3.5, 3.5, 29)  # in standard deviations of the shift, given the other classes
    seen = np.sinh(table.t)[:, None] - c / math.sqrt((k - 1) * information)
    log_f, mean = table(seen, 2)
    # In the slope of μ most classes are alike; it is what differs that hides.
    mean = mean - _median_slope(table) * seen
    weight = np.exp(log_f - 0.5 * c**2)
    total = np.maximum(weight.sum(-1), 1e-290)
    hidden = (weight * mean**2).sum(-1) / total - ((weight * mean).sum(-1) / total) ** 2
    mass = total * np.cosh(table.t) * np.maximum(hidden, 1e-6 * hidden.max() + 1e-200)
    return np.asarray(mass / (mass.sum() * TABLE_STEP))


def _median_slope(table: FieldTable) -> float:
    """Return the median of dμ̃/dy over the field of a class."""
    order = np.argsort(table.slope)
    below = np.cumsum(table.mass[order])
    return float(table.slope[order[np.searchsorted(below, 0.5 * below[-1])]])


def sampled_shift_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Return v for k ≥ 4: what one class leaves, and sampled what the shift hides.

    A share d of the rows is drawn as it is. In the others a class has a gap to the shift, which the
    rest tells, of a density g that favours what hides. Classes are alike: with p the density of a
    class's gap given the rest, all are of density d + (1 − d) mean_h g/p times that of rows.

    Parameters
    ----------
    prior : Prior
    k : int
        Number of classes.
    q_hat : float
    log2_points : int
        The rows of a replicate are 2 to this power.

    Returns
    -------
    ndarray, (R,)
        The replicates.
    """
    table = field_table(prior, q_hat)
    gap_density = likely_gaps(table, k)
    log_gap_density = EvenPieces(table.t, np.log(np.maximum(gap_density, 1e-300))[:, None], 3)
    d = SHARE_DRAWN_AS_IT_IS
    uniform = uniform_replicates(k, log2_points, seed=2000 + k)
    u = uniform[..., 0]
    first = np.minimum(u / d, 1.0)
    fields = table.quantile(np.concatenate([first[..., None], uniform[..., 1:]], -1))
    gap = table.quantile(np.maximum((u - d) / (1 - d), 0.0), gap_density)
    hidden = np.empty(N_REPLICATES)
    for i, rows in enumerate(fields):
        offset = (i + 0.5) / N_REPLICATES - 0.5
        moved = u[i] > d
        others = shift_moments(table, rows[moved, 1:], STEP_OF_SAMPLED_SHIFT, offset)
        rows[moved, 0] = others.shift + gap[i, moved]
        hidden[i] = _mean_hidden(table, log_gap_density, rows, offset)
    return np.asarray(single_variance(prior, q_hat) + hidden / (k - 1))


def _mean_hidden(
    table: FieldTable, log_gap_density: EvenPieces, rows: Array, offset: float
) -> float:
    """Average what the shift hides over fields (n, k), weighted by 1/(d + (1 − d) mean_h g/p)."""
    moments = shift_moments(table, rows, STEP_OF_SAMPLED_SHIFT, offset, others=True)
    assert moments.others is not None
    log_density_without, shift_without = moments.others
    gaps = rows - shift_without
    # p, as a density of t = asinh(gap).
    log_p = moments.log_density[:, None] - log_density_without + 0.5 * np.log1p(gaps**2)
    log_ratio = np.minimum(log_gap_density(np.arcsinh(gaps))[0] - log_p, 600.0)
    ratio = np.exp(log_ratio).mean(1)
    d = SHARE_DRAWN_AS_IT_IS
    return float((moments.hidden / (d + (1 - d) * ratio)).mean())
