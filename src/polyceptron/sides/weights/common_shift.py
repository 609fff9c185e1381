"""What is known of the shift that all classes of a row share, and what it hides.

Not seeing the common part of a row is seeing all y_h up to a shift c. Given c the classes are
independent, so with E_c the posterior average over c, of weight ∏_h f(y_h − c) (`field_table`),

    tr Cov u = E_c[(1 − 1/k) Σ_h var_h] + E_c‖P(μ̃ − E_c μ̃)‖²,

two terms that are not negative; v is the mean over the fields, divided by r. Averaged over fields
and shift y − c is a class's own field, so that the first term is r times what one class leaves
unknown where nothing hides it, one integral (`single_variance`). The second is what the shift
hides (`shift_moments`): the weight of c is split by a smooth partition of unity into one part
around each class, c = y_i + λ sinh t on equal steps of t.
"""

import math
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import AnyArray, Array
from polyceptron.sides.weights.field_table import FieldTable

SCALE = 1.5  # λ: about the width of a class's own feature
_MANY = 12  # classes above which the shift is known so well that its origin is enough
_APART = 1.5  # λ: nodes of centres that are closer serve both
_UNLIKELY = 18.0  # logarithm of what is left out around a class
_CHUNK = 400_000  # table look-ups at once


def shift_nodes(
    table: FieldTable, step: float, offset: float = 0.0, scale: float = SCALE
) -> tuple[Array, Array]:
    """λ sinh t on equal steps of t, as far as two fields can be apart, and the weights."""
    last = math.ceil(math.asinh(2 * table.reach / scale) / step)
    t = (np.arange(-last, last + 1) + offset) * step
    z = np.clip(scale * np.sinh(t), -2 * table.reach, 2 * table.reach)
    return z, scale * np.cosh(t) * step


def closeness(distance: Array, scale: float = SCALE) -> Array:
    """The partition of unity before it is normalised: 1/(x² + 2λ²)²."""
    return 1 / (distance**2 + 2 * scale**2) ** 2


def shift_centres(table: FieldTable, y: Array, scale: float) -> tuple[Array, AnyArray]:
    """Where the shift of fields y (n, k) can be: candidates (n, m), and which of them are needed.

    The fields' own origin and, up to twelve classes, each class; of close ones the likeliest.
    """
    n, k = y.shape
    centres = np.zeros((n, 1)) if k > _MANY else np.hstack([np.zeros((n, 1)), y])
    likely = table(y[:, None, :] - centres[..., None], 1)[0].sum(-1)
    likely[likely < likely.max(1, keepdims=True) - _UNLIKELY] = -np.inf
    used = np.zeros(centres.shape, dtype=bool)
    while (going := np.flatnonzero(np.isfinite(likely).any(1))).size:
        best = likely[going].argmax(1)
        used[going, best] = True
        apart = np.abs(centres[going] - centres[going, best][:, None])
        likely[going] = np.where(apart > _APART * scale, likely[going], -np.inf)
    return centres, used


class ShiftMoments(NamedTuple):
    """What is known of the shift c of n rows, and what it hides."""

    log_density: Array  # (n,), of the differences of fields
    shift: Array  # (n,), E c
    hidden: Array  # (n,), E_c‖P(μ̃ − E_c μ̃)‖²
    others: tuple[Array, Array] | None  # the first two without each class in turn, (n, k)


def shift_moments(
    table: FieldTable, y: Array, step: float, offset: float = 0.0, *, others: bool = False
) -> ShiftMoments:
    """Moments over the shift of rows with fields y (n, k)."""
    n, k = y.shape
    scale = SCALE * min(1.0, 2 / math.sqrt(k))  # k classes know the shift to 1/√k
    z, weight = shift_nodes(table, step, offset, scale)
    log_weight = np.log(weight)
    centres, used = shift_centres(table, y, scale)
    sample, centre = np.nonzero(used)
    first = np.searchsorted(sample, np.arange(n))
    top = np.zeros((len(sample), 1 + k))
    sums = np.zeros((len(sample), k + 3))  # of 1, c, ‖Pμ̃‖² and μ̃
    rest = np.zeros((2, len(sample), k))  # of 1 and c without each class
    chunk = max(1, _CHUNK // (z.size * k))
    for start in range(0, len(sample), chunk):
        part = slice(start, start + chunk)
        row, own = sample[part], centre[part]
        shift = centres[row, own][:, None] + z  # (pairs, nodes)
        log_f, mean = table(y[row, None, :] - shift[..., None], 2)
        near = closeness(centres[row, None, :] - shift[..., None], scale) * used[row, None, :]
        near = near[np.arange(len(row)), :, own] / near.sum(-1)
        log_w = log_f.sum(-1) + log_weight + np.log(near)
        top[part, 0] = log_w.max(-1)
        w = np.exp(log_w - top[part, :1])
        spread = (mean**2).sum(-1) - mean.sum(-1) ** 2 / k
        sums[part, :3] = np.stack([(w * f).sum(-1) for f in (1, shift, spread)], -1)
        sums[part, 3:] = np.matmul(w[:, None, :], mean)[:, 0]
        if others:
            np.subtract(log_w[..., None], log_f, out=log_f)
            top[part, 1:] = log_f.max(1)
            np.exp(log_f - top[part, None, 1:], out=log_f)
            rest[:, part] = log_f.sum(1), np.matmul(shift[:, None, :], log_f)[:, 0]
    best = np.maximum.reduceat(top, first)
    size = np.exp(top - best[sample])
    sums = np.add.reduceat(sums * size[:, :1], first)
    total, means = sums[:, 0], sums[:, 3:] / sums[:, :1]
    hidden = sums[:, 2] / total - (means**2).sum(1) + means.sum(1) ** 2 / k
    without = None
    if others:
        rest = np.add.reduceat(rest * size[:, 1:], first, axis=1)
        without = np.log(rest[0]) + best[:, 1:], rest[1] / rest[0]
    log_density = np.log(total) + best[:, 0]
    return ShiftMoments(log_density, sums[:, 1] / total, np.maximum(hidden, 0.0), without)
