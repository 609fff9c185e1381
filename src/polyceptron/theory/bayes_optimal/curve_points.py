"""The Bayes-optimal solution set as one curve, parametrised by q̂.

The order parameter is a scalar, so nothing need be iterated: choose q̂, then

    v = 1 − F(q̂),   α(q̂) = q̂ / I(v),   Φ = (r/2) q̂ v + ψ(q̂) + αΨ_out(v)

is a fixed point of state evolution at that α (eq. SE_BO), stable where α rises with q̂ and
unstable where it falls. Where the integrals are sampled (k ≥ 4) the curve is that of the mean over
replicates: everything, a crossing, a fold, which branch wins, is decided on the mean, and the
replicates say how far it can be trusted.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from polyceptron.model import AnyTeacher
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import student_quantile
from polyceptron.theory.bayes_optimal.channel_table import GaussianWeights, Index, channel_table
from polyceptron.theory.bayes_optimal.weights_table import weights_table
from polyceptron.theory.generalisation import angle, error_from_angle, error_on_labels
from polyceptron.theory.weights.posterior import row_entropy

_FLOOR = 1e-12  # relative error claimed for the deterministic rules, on top of the proxies' own
_SAMPLED_FLOOR = 1e-7  # and for the sampled ones: the step of their winner's table
_NO_LESS = 1e-300  # stands for v = 0, where τ is infinite


class CurvePoints(NamedTuple):
    """Points of the solution curve, arrays of one shape."""

    q_hat: AnyArray
    v: AnyArray  # 1 − q
    alpha: AnyArray
    channel_entropy: AnyArray  # Ψ_out = dΦ/dα
    free_entropy: AnyArray

    @property
    def q(self) -> AnyArray:
        """The overlap."""
        return 1 - self.v


class PointwiseCurve:
    """The curve of one teacher at one sampling effort, point by point."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.weights = weights_table(teacher, log2_points)
        self.channel = channel_table(teacher.channel, teacher.n_classes, log2_points)
        self.perfect = teacher.prior.support is not None and teacher.channel.width(0.0) == 0

    @property
    def n_replicates(self) -> int:
        """R, or 0 where everything is deterministic."""
        return max(self.channel.n_replicates, self.weights.n_replicates)

    # The curve itself.

    def points(self, q_hat: AnyArray, column: Index | None = None) -> CurvePoints:
        """The curve at q̂ (n,): of the mean (column 0), or of replicates 1 to R (n,)."""
        column = np.zeros(q_hat.shape, dtype=np.int64) if column is None else column
        v, psi = self.weights(q_hat, column if self.weights.n_replicates else 0 * column)
        information, entropy = self.channel(v, column if self.channel.n_replicates else 0 * column)
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = q_hat / information
        rest = 0.5 * self.teacher.reduced_rank * q_hat * v + psi
        return CurvePoints(q_hat, v, alpha, entropy, rest + alpha * entropy)

    def variance(self, q_hat: AnyArray, column: Index) -> AnyArray:
        """v = 1 − F(q̂) (n,): the weights side."""
        if isinstance(self.weights, GaussianWeights):
            return self.weights.variance(q_hat)
        return self.weights(q_hat, column if self.weights.n_replicates else 0 * column)[0]

    def information(self, v: AnyArray, column: Index) -> AnyArray:
        """I at residual variance v (n,): the fields side."""
        return self.channel(v, column if self.channel.n_replicates else 0 * column)[0]

    def alpha(self, q_hat: AnyArray) -> AnyArray:
        """α(q̂) (n,) of the mean, and nothing else."""
        column = np.zeros(q_hat.shape, dtype=np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):
            return q_hat / self.information(self.variance(q_hat, column), column)

    def errors(self, v: AnyArray) -> AnyArray:
        """Generalisation error on labels as drawn, at residual variance v."""
        noise, k = self.teacher.channel, self.teacher.n_classes
        if noise.noiseless:
            return self.clean_errors(v)
        v = np.maximum(v, _NO_LESS)
        return error_on_labels(noise, np.sqrt(np.maximum(1 - v, 0.0) / v), k)

    def clean_errors(self, v: AnyArray) -> AnyArray:
        """Error against the noiseless rule at residual variance v."""
        return error_from_angle(angle(v), self.teacher.n_classes)

    def perfect_entropy(self, alpha: Any) -> Any:
        """Φ = −H + αΨ₀ at perfect learning, v = 0 (finite priors under a channel without width)."""
        return -row_entropy(self.teacher) + alpha * self.channel.known_entropy

    # How far it can be trusted.

    def rule_errors(self, q_hat: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Relative errors of v and of I at q̂ (n,) from rules and proxies, sampling apart."""
        floor = _SAMPLED_FLOOR if self.n_replicates else _FLOOR
        v = np.array([self.weights.error(float(value)) for value in q_hat])
        return v, np.full(q_hat.shape, floor + self._channel_error + self.teacher.channel.accuracy)

    @cached_property
    def _channel_error(self) -> float:
        return self.channel.error

    def alpha_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Relative uncertainty (n,) of α at fixed q̂."""
        v_error, i_error = self.rule_errors(at.q_hat)
        # I falls as 1/√v at worst, so half of the error of ln v is passed on to α.
        return self._spread(np.log(self._replicates(at).alpha / at.alpha[:, None])) + (
            i_error + 0.5 * v_error
        )

    def error_uncertainty(self, at: CurvePoints, gap: AnyArray) -> AnyArray:
        """Uncertainty (n,) of the generalisation error at fixed α.

        A relative error u of α moves ε by its slope along the curve; the error of v at fixed q̂
        moves it directly. `gap` is the distance of ln α to the closest fold: nearer to it than u
        there may be no crossing at all (infinite), and up to there the square root that ends at the
        fold at most doubles what a straight line says.
        """
        step = 1e-4
        up, down = self.points(at.q_hat * (1 + step)), self.points(at.q_hat * (1 - step))
        d_alpha = np.log(up.alpha / down.alpha)
        d_error, d_v = self.errors(up.v) - self.errors(down.v), up.v - down.v
        with np.errstate(divide="ignore", invalid="ignore"):
            by_alpha = np.where(d_error == 0, 0.0, d_error / d_alpha)
            by_v = np.where(d_v == 0, 0.0, d_error / d_v)
        v_error, i_error = self.rule_errors(at.q_hat)
        u = i_error + 0.5 * v_error
        total = np.abs(by_alpha) * u + np.abs(by_v) * at.v * v_error + self.teacher.channel.accuracy
        if self.n_replicates:
            found = self._replicates(at)
            log_alpha = np.log(found.alpha / at.alpha[:, None])
            moved = by_v[:, None] * (found.v - at.v[:, None]) - by_alpha[:, None] * log_alpha
            total = total + self._spread(moved)
            u = u + self._spread(log_alpha)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(u < gap, total * (1 + u / gap + u), np.inf)

    def entropy_uncertainty(self, at: CurvePoints) -> AnyArray:
        """Uncertainty (n,) of Φ at fixed α, where Φ is stationary: only ψ and Ψ_out count."""
        v_error, i_error = self.rule_errors(at.q_hat)
        energy = np.abs(at.alpha * at.channel_entropy)
        total = i_error * energy + (_FLOOR + v_error) * (1 + np.abs(at.free_entropy) + energy)
        if not self.n_replicates:
            return total
        n, R = at.q_hat.size, self.n_replicates
        column = np.tile(np.arange(1, R + 1), n)
        mean = self.weights(at.q_hat, np.zeros(n, dtype=np.int64))[1]
        psi = np.repeat(mean, R)
        if self.weights.n_replicates:
            psi = self.weights(np.repeat(at.q_hat, R), column)[1]
        entropy = np.repeat(at.channel_entropy, R)
        if self.channel.n_replicates:
            entropy = self.channel(np.repeat(at.v, R), column)[1]
        replicates = psi.reshape(n, R) + at.alpha[:, None] * entropy.reshape(n, R)
        return total + self._spread(replicates)

    def _replicates(self, at: CurvePoints) -> CurvePoints:
        """Every replicate's point at the same q̂: (n, R), or (n, 1) of the mean."""
        n, R = at.q_hat.size, self.n_replicates
        if not R:
            return CurvePoints(*(part[:, None] for part in at))
        found = self.points(np.repeat(at.q_hat, R), np.tile(np.arange(1, R + 1), n))
        return CurvePoints(*(part.reshape(n, R) for part in found))

    def _spread(self, replicates: AnyArray) -> AnyArray:
        """Student's quantile times the standard error of the mean over replicates (n, R)."""
        R = replicates.shape[1]
        if R == 1:
            return np.zeros(len(replicates))
        spread: AnyArray = replicates.std(1, ddof=1) * (student_quantile(R) / math.sqrt(R))
        return spread
