"""What a row of a finite prior leaves unknown, where it can take many points.

By symmetry what the common shift c hides (`common_shift`) is the variance over c of the mean of
w_1 − w̄, times k/r. The k − 1 other classes are sampled and weigh a grid of c; its sums, for all
y_1, are products of matrices.
"""

import math
from functools import lru_cache

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.field_table import field_table, scalar_posterior
from polyceptron.sides.weights.point_rows import smallest_difference, support_of, switch_step

_WHOLE = 7  # log2 of points that are never halved
_BLOCK = 16  # shifts at once
_UNSEEN = 1e-8  # the weight of shifts that are left out


@lru_cache(maxsize=512)
def finite_row_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for a finite prior; of twice the points one half is known."""
    values, p = support_of(prior)
    s, log_p = math.sqrt(q_hat), np.log(p) - 0.5 * q_hat * values**2
    uniform = uniform_replicates(k - 1, log2_points, seed=1000 + k)
    known = log2_points > _WHOLE
    if known:
        uniform = uniform[:, uniform.shape[1] // 2 :]
    y = field_table(prior, q_hat).quantile(uniform).reshape(-1, k - 1)
    near, far = s * smallest_difference(prior), s * float(np.ptp(values))
    first_step = min(0.7, switch_step(16 + near**2 / 8, far))
    low, high = s * values.min() - 8, s * values.max() + 8
    y_first = np.arange(math.floor(low / first_step), math.ceil(high / first_step) + 1) * first_step
    log_f, mean, variance = scalar_posterior(prior, q_hat, y_first)
    first_weight, linear = np.exp(log_f) * first_step, s / (1 + q_hat)
    step, reach = min(0.8, 1.15 / math.sqrt(k)), s * float(values.max() - values.min()) + 7
    if p.max() ** (k - 1) < 1e-7:
        # No shift by a difference of values can pass unnoticed: only the local peak matters.
        score = (1 - s * linear) * y_first - s * mean  # −d ln f/dy
        reach = min(reach, 8 / math.sqrt((k - 1) * float(first_weight @ score**2)))
    c = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    size = max(1, min(_BLOCK, int(900 / (step * s * prior.extent + 1e-300))))
    blocks = [slice(i, i + size) for i in range(0, c.size, size)]
    log_f, mu, _ = scalar_posterior(prior, q_hat, y_first - c[:, None])
    f, mu = np.exp(log_f), mu * (1 - 1 / k)
    kernels = np.hstack([f, f * mu, f * mu**2])
    result, m = np.empty(len(y)), y_first.size
    chunk = max(1, 400_000 // (6 * m + k * c.size))
    for start in range(0, len(y), chunk):
        rows = y[start : start + chunk].T  # class after class
        log_w, shift = np.empty((2, rows.shape[1], c.size))
        for block in blocks:
            # f(y − c) ∝ Σ_i [p_i exp(s v_i (y − c₀))]·[exp(−s v_i (c − c₀))], c₀ in the middle.
            at = c[block]
            middle = at[at.size // 2]
            classes = log_p[:, None] + s * values[:, None] * (rows - middle).ravel()
            top = classes.max(0)
            np.exp(classes - top, out=classes)
            columns = np.exp(-s * values[:, None] * (at - middle))
            total, mean = classes.T @ columns, classes.T @ (values[:, None] * columns)
            shift[:, block] = (mean / total).reshape(*rows.shape, -1).sum(0)
            log_w[:, block] = (np.log(total) + top[:, None]).reshape(*rows.shape, -1).sum(0)
        # The gaps y − c themselves, but for what all c of a row share.
        told = rows.sum(0)[:, None]
        log_w += (told - 0.5 * (k - 1) * c) * c
        shift = (shift - linear * (told - (k - 1) * c)) / k
        w = np.exp(log_w - log_w.max(-1, keepdims=True))
        sums = np.zeros((len(w), 6 * m))
        for block in blocks:
            some = np.flatnonzero(w[:, block].max(1) > _UNSEEN)
            weight, moved, kernel = w[some, block], shift[some, block], kernels[block]
            sums[some, : 3 * m] += weight @ kernel
            sums[some, 3 * m : 5 * m] += (weight * moved) @ kernel[:, : 2 * m]
            sums[some, 5 * m :] += (weight * moved**2) @ kernel[:, :m]
        Z, first, second, less, cross, square = sums.reshape(len(w), 6, m).swapaxes(0, 1)
        Z = np.maximum(Z, 1e-300)
        hidden = (second - 2 * cross + square) / Z - ((first - less) / Z) ** 2
        result[start : start + chunk] = np.maximum(hidden, 0.0) @ first_weight
    found = first_weight @ variance + result.reshape(len(uniform), -1).mean(-1) * k / (k - 1)
    if known:
        found = 0.5 * (found + finite_row_variance(prior, k, q_hat, log2_points - 1))
    return np.asarray(found)
