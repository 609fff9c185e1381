"""The softmax teacher, P(y = l) ∝ exp(β z_l): the multinomial-logit model.

It is the argmax of utilities z_l + G_l/β with independent Gumbel noise, so that at fields of
variance v a class's total noise is a Gumbel plus a normal variable of s = β√v, whose distribution
function F is one table (`numerics.gumbel`), and

    Z_l(ω) = ∫ dC F′(C − ω_l) ∏_{h≠l} F(C − ω_h)        (in units of 1/β)
    c = E[z_y]/(k − 1) = k ∫ F^{k−2} F′² dC              at v = 1, by Gaussian integration by parts
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, ndtr, softmax

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, gumbel
from polyceptron.numerics.orthant import Orthant, Winning
from polyceptron.problem.channels.channel import Channel, UtilityLaw

_CHUNK = 400_000  # numbers of a table of levels held at once
_RATIO = 1.06  # between neighbouring s, where every sample has a variance of its own
_SMALLEST_S = 1e-3
_WIDE = 3.3  # s from which the logistic part is the narrower one
_LOGISTIC_STEP = 0.55  # poles at ±iπ leave e^{−2π²/step}, 3e-16, of the rule over it


@dataclass(frozen=True)
class SoftmaxNoise(Channel):
    """P(y = l) ∝ exp(β z_l), β the slope, at fields z that noise of some variance may blur."""

    accuracy: ClassVar[float] = 1e-9  # its law is a table: ten times what finer ones changed
    slope: float
    variance: float = 0.0  # of the fields, before the softmax
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if not 1e-6 <= self.slope <= 1e6:
            raise InvalidInput(
                f"the slope of a softmax teacher must be from 1e-6 to 1e6, got {self.slope!r}"
            )
        object.__setattr__(self, "slope", float(self.slope))
        object.__setattr__(self, "name", f"softmax:{self.slope!r}")

    def behind(self, hidden: float) -> Channel:
        shown = 1 - hidden
        return SoftmaxNoise(self.slope * math.sqrt(shown), (self.variance + hidden) / shown)

    def width(self, variance: float) -> float:
        return math.sqrt(variance + self.variance + self.slope**-2)

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        noise = rng.gumbel(size=fields.shape) / self.slope
        if self.variance > 0:
            noise += math.sqrt(self.variance) * rng.standard_normal(fields.shape)
        return np.asarray(fields + noise)

    def utility_chances(self, fields: Array, variance: float) -> Array:
        s = self.slope * math.sqrt(variance + self.variance)
        if s == 0:
            return np.asarray(softmax(self.slope * fields, axis=-1))
        if fields.shape[-1] == 3:  # the last has what the others leave
            a, b, c = self.slope * fields.T
            gaps = np.stack([a - b, a - c]), np.stack([b - a, b - c])
            Z = [gumbel.three_softmax(each, s, slopes=False)[0] for each in gaps]
            return np.stack([*Z, np.maximum(1 - Z[0] - Z[1], 0.0)], -1)
        table, parts = gumbel.utility_table(s), _chunks(self.slope * fields, fields.shape[-1])
        return np.concatenate([gumbel.winning_utilities(part, table) for part in parts])

    def utility(self, omega: Array, label: Any, variance: Any, order: int) -> Orthant:
        shape, k = omega.shape[:-1], omega.shape[-1]
        flat = self.slope * omega.reshape(-1, k)
        y = np.broadcast_to(np.asarray(label, dtype=np.int64), shape).ravel()
        log_z, score, diagonal = np.zeros(len(flat)), np.zeros(flat.shape), np.zeros(flat.shape)
        for rows, weights in self._variances(variance, omega.shape):
            for s, share in weights:
                for part in _chunks(rows, k):
                    found = gumbel.integrate_utilities(flat[part], y[part], gumbel.utility_table(s))
                    at = found.orthant(y[part])
                    own = share if np.ndim(share) == 0 else share[np.searchsorted(rows, part)]
                    log_z[part] += own * at.log_z
                    score[part] += np.reshape(own, (-1, 1)) * at.score
                    diagonal[part] += np.reshape(own, (-1, 1)) * at.diagonal
        score, diagonal = self.slope * score, self.slope**2 * diagonal
        return Orthant(log_z.reshape(shape), score.reshape(*shape, k), diagonal.reshape(*shape, k))

    def _variances(self, variance: Any, shape: tuple[int, ...]) -> list[tuple[Any, list[Any]]]:
        """Rows that share tables, each with the s of its tables and their shares.

        One variance for each sample: the cubic through four tables, good to 1e-6; for each class as
        well: their mean over the classes.
        """
        v = np.asarray(variance, dtype=float) + self.variance
        n = math.prod(shape[:-1])
        if v.ndim == 0:
            return [(np.arange(n), [(self.slope * math.sqrt(float(v)), 1.0)])]
        v = v.mean(-1) if v.ndim == len(shape) else v
        s = np.maximum(self.slope * np.sqrt(np.broadcast_to(v, shape[:-1]).ravel()), _SMALLEST_S)
        place = np.log(s) / math.log(_RATIO)
        cell = np.floor(place).astype(int)
        groups = []
        for j in np.unique(cell):
            rows = np.flatnonzero(cell == j)
            t = place[rows] - j
            a, b = t * (t - 1) / 6, (t + 1) * (t - 2) / 2
            shares = (-a * (t - 2), b * (t - 1), -b * t, a * (t + 1))
            groups.append((rows, [(_RATIO ** (j + i), w) for i, w in enumerate(shares, -1)]))
        return groups

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        s = self.slope * math.sqrt(variance + self.variance)
        if len(gaps) == 1:
            return _two_classes(self.slope * gaps[0], math.sqrt(2) * s, self.slope)
        if len(gaps) == 2:
            z, slopes = gumbel.three_softmax(self.slope * gaps, s)
            return Winning(z, self.slope * slopes)
        fields, table = np.zeros((gaps.shape[1], len(gaps) + 1)), gumbel.utility_table(s)
        np.multiply(gaps.T, -self.slope, out=fields[:, 1:])
        parts = [gumbel.winning_label(part, table) for part in _chunks(fields, fields.shape[1])]
        z, slopes = (np.concatenate(of) for of in zip(*parts, strict=True))
        return Winning(z, self.slope * slopes.T)

    def utility_law(self, variance: float) -> UtilityLaw:
        b = self.slope
        table = gumbel.utility_table(b * math.sqrt(variance + self.variance))

        def values(y: Array) -> tuple[Array, Array]:
            log_cdf, hazard = table.first(b * y, 2)
            return log_cdf, b * hazard

        return UtilityLaw(table.y[0] / b, table.y[-1] / b, values)

    def utility_signal(self, n_classes: int) -> float:
        spread = math.sqrt(1 + self.variance)
        return _signal(self.slope * spread, n_classes) / spread

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        return gumbel.softmax_error(*self._blurred(tau), n_classes)

    def utility_lead(self, tau: float, n_classes: int, margin: float) -> float:
        slope, seen = self._blurred(np.asarray(tau))
        return 1 - gumbel.disagreement(slope, n_classes, math.atan2(1.0, float(seen)), margin)

    def _blurred(self, tau: Array) -> tuple[float, Array]:
        """β and τ for blurred fields in units of their own spread √(1 + Δ)."""
        seen = tau / np.sqrt(1 + self.variance * (1 + tau**2))
        return self.slope * math.sqrt(1 + self.variance), np.asarray(seen)


def _two_classes(x: Array, s: float, slope: float) -> Winning:
    """E σ(x + sξ) and its slope by the trapezoidal rule over ξ, or where s is large over L.

    Two Gumbel variables differ by a logistic one, L: E σ(x + sξ) = E_L Φ((x + L)/s).
    """
    if s > _WIDE:
        L = np.arange(-60, 61) * _LOGISTIC_STEP
        weight = _LOGISTIC_STEP * expit(L) * expit(-L)
        a = (x[:, None] + L) / s
        slopes = np.exp(-0.5 * a * a) @ weight / (s * math.sqrt(2 * math.pi))
        return Winning(ndtr(a) @ weight, slope * slopes[None])
    # Shifted by ia the sum over ξ errs by exp(a²/2 − 2πa/step), and σ has a pole at a = π/s.
    shift = min(math.pi / s, math.sqrt(60)) if s > 0 else 1.0
    step = 2 * math.pi * shift / (30 + 0.5 * shift**2)
    reach = math.ceil(7.2 / step) if s > 0 else 0
    xi = np.arange(-reach, reach + 1) * step
    weight = np.exp(-0.5 * xi**2)
    weight /= weight.sum()
    p = expit(x[:, None] + s * xi)
    return Winning(p @ weight, (slope * ((p * (1 - p)) @ weight))[None])


def _chunks(rows: Any, k: int) -> list[Any]:
    size = max(1, _CHUNK // (60 * k))
    return [rows[i : i + size] for i in range(0, len(rows), size)]


@lru_cache(maxsize=256)
def _signal(slope: float, k: int) -> float:
    """k ∫ F^{k−2} F′² dC at v = 1."""
    y = gumbel.utility_grid(slope, 0.25)  # F is analytic: the trapezoidal rule needs no more
    F = gumbel.utility_values(y, slope)
    density = np.exp(k * F.log_cdf) * F.hazard**2
    return k * slope * float(density.sum() * (y[1] - y[0]))
