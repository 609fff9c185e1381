"""What a row of a finite prior leaves unknown, where it can take many points.

By symmetry what the common shift c hides (`common_shift`) is the variance over c of the mean of
w_1 − w̄, times k/r. The k − 1 other classes are sampled and weigh a grid of c; its sums, for all
y_1, are products of matrices.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.field_table import field_table, scalar_posterior
from polyceptron.sides.weights.point_rows import smallest_difference, support_of, switch_step

LOG2_POINTS_NEVER_HALVED = 7
SHIFTS_OF_A_BLOCK = 16  # columns of one product; the larger it is, the less the rows' weight varies
LARGEST_EXPONENT = 900.0  # of exp(√q̂ v c) within a block: 1e±308 are the ends of double precision
NEGLIGIBLE_SHIFT_WEIGHT = 1e-8  # relative to a row's largest: blocks of less are left out
NUMBERS_OF_A_CHUNK = 400_000  # numbers in the tables of the rows treated at once
RARE_EQUAL_ROW = 1e-7  # chance that k − 1 classes are equal, below which no far shift counts


class SeenShifts(NamedTuple):
    """What the sampled classes of n rows tell of the shifts c, (n, shifts) each."""

    log_weight: Array  # up to a constant of each row
    mean: Array  # (1/k) Σ_h μ̃_h of the sampled classes


class ShiftGrid:
    """The sums over a grid of the shift and of the field of the first class.

    Attributes
    ----------
    y : ndarray, (m,)
        The fields of the first class, on equal steps.
    y_weights : ndarray, (m,)
        f(y) times the step.
    shifts : ndarray, (shifts,)
        The values of c, on equal steps.
    blocks : list of slice
        The shifts that are treated at once.
    kernels : ndarray, (shifts, 3m)
        f, fμ̃(1 − 1/k) and fμ̃²(1 − 1/k)² at y − c.
    """

    def __init__(self, prior: Prior, k: int, q_hat: float) -> None:
        self.k = k
        self.q_hat = q_hat
        self.values, p = support_of(prior)
        self.log_p = np.log(p) - 0.5 * q_hat * self.values**2
        y_step = self._step_of_first_fields(smallest_difference(prior))
        self.y = self._first_fields(y_step)
        log_f, self.y_mean, variance = scalar_posterior(prior, q_hat, self.y)
        self.y_weights = np.exp(log_f) * y_step
        self.single_variance = self.y_weights @ variance
        step = min(0.8, 1.15 / math.sqrt(k))
        no_far_shift = p.max() ** (k - 1) < RARE_EQUAL_ROW
        self.shifts = self._shifts(step, no_far_shift)
        largest = int(LARGEST_EXPONENT / (step * self.s * prior.extent + 1e-300))
        size = max(1, min(SHIFTS_OF_A_BLOCK, largest))
        self.blocks = [slice(i, i + size) for i in range(0, self.shifts.size, size)]
        self.kernels = self._kernels(prior)

    @property
    def s(self) -> float:
        """√q̂, the signal of a weight in its field."""
        return math.sqrt(self.q_hat)

    @property
    def linear(self) -> float:
        """The slope √q̂/(1 + q̂) of the linear part that μ̃ leaves out of μ."""
        return self.s / (1 + self.q_hat)

    @property
    def rows_of_a_chunk(self) -> int:
        """The number of rows treated at once."""
        return max(1, NUMBERS_OF_A_CHUNK // (6 * self.y.size + self.k * self.shifts.size))

    def hidden(self, rows: Array) -> Array:
        """Return what the shift hides of the first class (n,), given the others' fields (k − 1, n).

        It is the variance over c of μ̃_1 − (1/k) Σ_h μ̃_h, averaged over the first class's field.
        """
        seen = self._seen_shifts(rows)
        w = np.exp(seen.log_weight - seen.log_weight.max(-1, keepdims=True))
        Z, first, second, less, cross, square = self._sums(w, seen.mean)
        Z = np.maximum(Z, 1e-300)
        hidden = (second - 2 * cross + square) / Z - ((first - less) / Z) ** 2
        return np.asarray(np.maximum(hidden, 0.0) @ self.y_weights)

    def _step_of_first_fields(self, smallest_gap: float) -> float:
        """Return the step of the first class's field, which resolves every switch of the prior."""
        near = self.s * smallest_gap
        far = self.s * float(np.ptp(self.values))
        return min(0.7, switch_step(16 + near**2 / 8, far))

    def _first_fields(self, step: float) -> Array:
        """Return the fields (m,) of the first class: 8 standard deviations beyond the values."""
        low = self.s * self.values.min() - 8
        high = self.s * self.values.max() + 8
        places = np.arange(math.floor(low / step), math.ceil(high / step) + 1)
        return np.asarray(places * step)

    def _shifts(self, step: float, no_far_shift: bool) -> Array:
        """Return the shifts c, as far as two values can be apart and 7 standard deviations more.

        Where no shift by a difference of values can pass unnoticed only the local peak matters: 8
        standard deviations by the Fisher information of the k − 1 sampled classes.
        """
        reach = self.s * float(self.values.max() - self.values.min()) + 7
        if no_far_shift:
            score = (1 - self.s * self.linear) * self.y - self.s * self.y_mean  # −d ln f/dy
            information = (self.k - 1) * float(self.y_weights @ score**2)
            reach = min(reach, 8 / math.sqrt(information))
        n = math.ceil(reach / step)
        return np.asarray(np.arange(-n, n + 1) * step, dtype=float)

    def _kernels(self, prior: Prior) -> Array:
        """Return the factors (shifts, 3m) that depend on the first class alone."""
        log_f, mean, _ = scalar_posterior(prior, self.q_hat, self.y - self.shifts[:, None])
        f = np.exp(log_f)
        mean = mean * (1 - 1 / self.k)
        return np.hstack([f, f * mean, f * mean**2])

    def _seen_shifts(self, rows: Array) -> SeenShifts:
        """Return weights and means of all shifts for the sampled fields (k − 1, n)."""
        n_others = self.k - 1
        log_w = np.empty((rows.shape[1], self.shifts.size))
        mean = np.empty((rows.shape[1], self.shifts.size))
        for block in self.blocks:
            log_w[:, block], mean[:, block] = self._block_of_shifts(rows, self.shifts[block])
        # The gaps y − c themselves, but for what all c of a row share.
        field_sum = rows.sum(0)[:, None]
        log_w += (field_sum - 0.5 * n_others * self.shifts) * self.shifts
        mean = (mean - self.linear * (field_sum - n_others * self.shifts)) / self.k
        return SeenShifts(log_w, mean)

    def _block_of_shifts(self, rows: Array, shifts: Array) -> tuple[Array, Array]:
        """Return Σ_h ln Σ_i p_i exp(s v_i (y_h − c)) and Σ_h μ_h for a block of c, (n, block) each.

        The sum over values i is a product of matrices: with c₀ in the middle of the block it is
        Σ_i [p_i exp(s v_i (y − c₀))]·[exp(−s v_i (c − c₀))].
        """
        middle = shifts[shifts.size // 2]
        classes = self.log_p[:, None] + self.s * self.values[:, None] * (rows - middle).ravel()
        top = classes.max(0)
        np.exp(classes - top, out=classes)
        columns = np.exp(-self.s * self.values[:, None] * (shifts - middle))
        total = classes.T @ columns
        value_sum = classes.T @ (self.values[:, None] * columns)
        mean = (value_sum / total).reshape(*rows.shape, -1).sum(0)
        log_w = (np.log(total) + top[:, None]).reshape(*rows.shape, -1).sum(0)
        return log_w, mean

    def _sums(self, w: Array, mean: Array) -> Array:
        """Sum over the shifts, for n rows and each field of the first class: (6, n, m).

        With a = μ̃_1(1 − 1/k) and b = `mean`, weights f·w: of 1, a, a², b, ab and b².
        """
        m = self.y.size
        sums = np.zeros((len(w), 6 * m))
        for block in self.blocks:
            rows = np.flatnonzero(w[:, block].max(1) > NEGLIGIBLE_SHIFT_WEIGHT)
            weight = w[rows, block]
            b = mean[rows, block]
            kernel = self.kernels[block]
            sums[rows, : 3 * m] += weight @ kernel
            sums[rows, 3 * m : 5 * m] += (weight * b) @ kernel[:, : 2 * m]
            sums[rows, 5 * m :] += (weight * b**2) @ kernel[:, :m]
        return sums.reshape(len(w), 6, m).swapaxes(0, 1)


@lru_cache(maxsize=512)
def finite_row_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Return replicates (R,) of v at q̂ for a finite prior, by sampled rows.

    Parameters
    ----------
    prior : Prior
        A finite one.
    k : int
        Number of classes.
    q_hat : float
    log2_points : int
        The rows of a replicate are 2 to this power; the first half is that of one power less.

    Returns
    -------
    ndarray, (R,)
    """
    uniform = uniform_replicates(k - 1, log2_points, seed=1000 + k)
    first_half_known = log2_points > LOG2_POINTS_NEVER_HALVED
    if first_half_known:
        uniform = uniform[:, uniform.shape[1] // 2 :]
    fields = field_table(prior, q_hat).quantile(uniform).reshape(-1, k - 1)
    grid = ShiftGrid(prior, k, q_hat)
    hidden = np.empty(len(fields))
    size = grid.rows_of_a_chunk
    for start in range(0, len(fields), size):
        chunk = slice(start, start + size)
        hidden[chunk] = grid.hidden(fields[chunk].T)
    of_replicates = hidden.reshape(len(uniform), -1).mean(-1)
    v = grid.single_variance + of_replicates * k / (k - 1)
    if first_half_known:
        v = 0.5 * (v + finite_row_variance(prior, k, q_hat, log2_points - 1))
    return np.asarray(v)
