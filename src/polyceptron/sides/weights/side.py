"""The weights side of Bayes-optimal learning: q̂ ↦ v, ψ for any prior and any spectrum.

One row u = Pw in R^r is seen as γ = q̂u* + √q̂ ξ. With ⟨·⟩ the posterior,

    v₁(q̂) = 1 − F(q̂) = E tr Cov⟨u⟩ / r,

a sum of positive terms, never 1 − q, so that it keeps its digits when q → 1. Which sum depends on
the prior and on the number of classes (`row_rule.py`); of most it is computed at the nodes of
proxies (`panel_rows.py`).

Whitened, feature i carries the share p_i = s_iθ_i of the teacher's field and sees the scalar
signal-to-noise ratio q̂p_i. With ⟨·⟩ the mean over features, ⟨p⟩ = 1,

    v(q̂) = ⟨p v₁(q̂p)⟩,      ψ(q̂) = ⟨ψ₁(q̂p)⟩,      ψ₁′ = −(r/2) v₁   so that   ψ′ = −(r/2) v,

ψ = E ln Z_w − rq̂/2. A finite prior ends at q̂ = ∞ with all rows known, whatever their p > 0: v = 0
and ψ = −H times their fraction, H the entropy of a reduced row.

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from polyceptron.numerics import AnyArray
from polyceptron.numerics.special import local_gauss
from polyceptron.problem import AnyTeacher
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.sides.weights.panel_rows import JUST_INSIDE, GaussianRows, Index, row_table
from polyceptron.sides.weights.row_differences import row_entropy, row_spacing, variance_bound

SMALLEST = 1e-30  # q̂ at which α is 1e-12 or less, for every channel
LARGEST = 1e22  # q̂ at which α is 1e8 or more
VARIES_AS_POWERS = 0.05  # q̂ below which v and I vary over powers of q̂ only
# Ratios of neighbouring q̂ where rows of many strengths are resolved in turn; Gaussian rows are
# smooth.
RATIO_OF_Q_HAT = 1.006
RATIO_OF_Q_HAT_OF_GAUSSIAN_ROWS = 1.02
N_POINTS_OF_A_STAGE = 300
N_POINTS_OF_A_PANEL = 102
N_POINTS_OF_SMALL_Q_HAT = 120
MOST_POINTS_OF_A_MIXED_STAGE = 150
NUMBERS_AT_ONCE = 2_000_000  # rows of panels that are read in one pass


class PriorSide:
    """v, ψ and what is known of their error; `log2_points` matters where rows are sampled.

    Attributes
    ----------
    n_replicates : int
        R, or 0 where nothing is sampled.
    power, fraction : ndarray, (l,)
        p of each level of the features, and its share of them.
    """

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher = teacher
        features = teacher.features
        self.flat = features.flat
        self.rows = row_table(_rows_alone(teacher), log2_points)
        self.n_replicates = self.rows.n_replicates
        self.power, self.fraction = local_gauss(features.power, features.fraction)

    @property
    def known_entropy(self) -> float:
        """−ψ at q̂ = ∞: the entropy of all rows that carry signal (finite priors)."""
        return float(self.fraction.sum()) * row_entropy(self.teacher)

    @property
    def slowest_fall(self) -> float:
        """δ²/8 times the weakest feature's share: v falls as exp(−q̂ times this) (finite priors)."""
        return float(self.power.min()) * row_spacing(self.teacher) ** 2 / 8

    def bound(self, q_hat: AnyArray) -> AnyArray:
        """Return what v is at most at q̂ (n,), also where rows are not resolved (finite priors)."""
        bound_of_row = variance_bound(_rows_alone(self.teacher))
        seen = np.multiply.outer(q_hat, self.power)
        bounds = bound_of_row(seen.ravel()).reshape(seen.shape)
        return np.asarray(bounds @ (self.power * self.fraction))

    def __call__(self, hats: Conjugates, column: int = 0) -> ScalarOrder:
        """Return the order of the mean (column 0) or of a replicate after a step of the loop."""
        v = float(self.moments(np.array([hats.q]), np.array([column]))[0][0])
        if v > 0:
            return ScalarOrder.bayes(v)
        return ScalarOrder(math.inf, 1.0, 0.0)

    def moments(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """Return v and ψ at q̂ (n,), each in its column (n,)."""
        if not self.n_replicates:
            column = np.zeros_like(column)
        if self.flat:
            return self.rows(q_hat, column)
        v = np.empty_like(q_hat)
        psi = np.empty_like(q_hat)
        n_levels = len(self.power)
        block = max(1, NUMBERS_AT_ONCE // n_levels)
        for start in range(0, len(q_hat), block):
            part = slice(start, start + block)
            seen = np.multiply.outer(q_hat[part], self.power)
            v_of_rows, psi_of_rows = self.rows(seen.ravel(), np.repeat(column[part], n_levels))
            v[part] = v_of_rows.reshape(seen.shape) @ (self.power * self.fraction)
            psi[part] = psi_of_rows.reshape(seen.shape) @ self.fraction
        return v, psi

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Return the relative error of v at q̂ (n,) from panels and rules, sampling apart."""
        if self.flat or isinstance(self.rows, GaussianRows):
            return self.rows.error(q_hat)
        shape = (len(q_hat), len(self.power))
        seen = np.multiply.outer(q_hat, self.power).ravel()
        v_of_rows, _ = self.rows(seen, np.zeros(seen.size, dtype=np.int64))
        share = v_of_rows.reshape(shape) * self.power * self.fraction
        error = self.rows.error(seen).reshape(shape)
        total = share.sum(1)
        known = total > 0  # else v is too small for a number, and exact as it is
        return np.where(known, (share * error).sum(1) / np.where(known, total, 1.0), 0.0)

    def panel_end(self, q_hat: float) -> float:
        """Return the end of the panel of q̂.

        It is infinite past the last stage, and where rows of several strengths are mixed.
        """
        if not self.flat or isinstance(self.rows, GaussianRows) or q_hat > self.rows.ends[0]:
            return math.inf
        ends = self.rows.q_hat(np.array(self.rows.edges))
        return JUST_INSIDE * float(ends[np.searchsorted(ends, q_hat)])

    def stages(self, far: int) -> Iterator[AnyArray]:
        """Yield q̂ in rising order, stage after stage: close enough to see every turn of α(q̂).

        From `far` = 1 on, panel by panel, every row has told nearly all and α rises for good.
        """
        strongest = float(self.power.max())
        if far:
            yield self._far_stage(far)
            return
        first = VARIES_AS_POWERS / strongest
        yield np.geomspace(SMALLEST, first, N_POINTS_OF_SMALL_Q_HAT)
        tail = self._ends_of_stages()[0]
        if not self.flat:
            yield from self._mixed_stages(first, tail)
        elif self.teacher.prior.support is None:
            yield np.geomspace(first, tail, N_POINTS_OF_A_STAGE)[1:]
        else:  # panel after panel: they are dear
            for low, high in pairwise(self.rows.edges):
                start = max(low, math.sqrt(first))
                yield np.linspace(start, high, N_POINTS_OF_A_PANEL)[1:] ** 2

    def _far_stage(self, far: int) -> AnyArray:
        """Return the q̂ of a panel where every row has told nearly all."""
        low, high = self._ends_of_stages()[far - 1 : far + 1]
        return np.geomspace(low, high, N_POINTS_OF_A_STAGE)[1:]

    def _ends_of_stages(self) -> list[float]:
        """Return the q̂, in rising order, at which the first stages end and each panel after."""
        weakest = float(self.power.min())
        ends = [self.rows.ends[0] / weakest]
        for end in (*self.rows.ends[1:], LARGEST):
            ends.append(max(min(end / weakest, LARGEST), 10 * ends[-1]))
        return ends

    def _mixed_stages(self, first: float, tail: float) -> Iterator[AnyArray]:
        """Yield q̂ from `first` to `tail`, where rows of many strengths are resolved in turn."""
        ratio = RATIO_OF_Q_HAT
        if isinstance(self.rows, GaussianRows):
            ratio = RATIO_OF_Q_HAT_OF_GAUSSIAN_ROWS
        n = max(2, math.ceil(math.log(tail / first) / math.log(ratio)))
        n_stages = max(1, n // MOST_POINTS_OF_A_MIXED_STAGE)
        yield from np.array_split(np.geomspace(first, tail, n)[1:], n_stages)


def _rows_alone(teacher: AnyTeacher) -> AnyTeacher:
    """Return the teacher without noise and with independent features: what a row depends on."""
    return replace(teacher, noise="none", features="isotropic")  # type: ignore[arg-type]
