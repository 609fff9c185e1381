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
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, softmax

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, gumbel
from polyceptron.numerics.orthant import Orthant, Winning
from polyceptron.problem.channels.channel import Channel, UtilityLaw

_CHUNK = 400_000  # numbers of a table of levels held at once
_RATIO = 1.06  # between neighbouring s, where every sample has a variance of its own
_SMALLEST_S = 1e-3
_FEW_VALUES = 1500  # of F: integrating each takes less time than a table
_WIDE = 3.3  # s from which the logistic part is the narrower one
_LOGISTIC_STEP = 0.55  # poles at ±iπ leave e^{−2π²/step}, 3e-16, of the rule over it


T = TypeVar("T", np.float64, np.int64)


class _SharedTables(NamedTuple):
    """Samples that share tables.

    Attributes
    ----------
    rows : array of int, shape (m,)
        Which samples they are.
    s : list of float
        The s of each table.
    shares : list of arrays, each of shape (m,)
        The weight of each table in each sample.
    """

    rows: NDArray[np.int64]
    s: list[float]
    shares: list[Array]


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
        """Return the channel of slope β√(1 − δ) and variance (Δ + δ)/(1 − δ), δ = `hidden`."""
        shown = 1 - hidden
        return SoftmaxNoise(self.slope * math.sqrt(shown), (self.variance + hidden) / shown)

    def width(self, variance: float) -> float:
        """Return √(v + Δ + 1/β²)."""
        return math.sqrt(variance + self.variance + self.slope**-2)

    def sample_utility(self, fields: Array, rng: np.random.Generator) -> Array:
        """Return fields (n, k) with Gumbel noise, and Gaussian noise where they are blurred."""
        noise = rng.gumbel(size=fields.shape) / self.slope
        if self.variance > 0:
            noise += math.sqrt(self.variance) * rng.standard_normal(fields.shape)
        return np.asarray(fields + noise)

    def utility_chances(self, fields: Array, variance: float) -> Array:
        """Return P(utility l is the largest) (n, k); of three classes, the last has the rest."""
        s = self.slope * math.sqrt(variance + self.variance)
        if s == 0:
            return np.asarray(softmax(self.slope * fields, axis=-1))
        if fields.shape[-1] == 3:
            a, b, c = self.slope * fields.T
            first, _ = gumbel.three_softmax(np.stack([a - b, a - c]), s, slopes=False)
            second, _ = gumbel.three_softmax(np.stack([b - a, b - c]), s, slopes=False)
            return np.stack([first, second, np.maximum(1 - first - second, 0.0)], -1)
        table = gumbel.utility_table(s)
        parts = _chunks(self.slope * fields, fields.shape[-1])
        return np.concatenate([gumbel.winning_utilities(part, table) for part in parts])

    def utility(self, omega: Array, label: ArrayLike, variance: ArrayLike, order: int) -> Orthant:
        """Return ln P (n,), score and curvature (n, k) from the tables at each sample's s."""
        shape = omega.shape[:-1]
        k = omega.shape[-1]
        flat = self.slope * omega.reshape(-1, k)
        y = np.broadcast_to(np.asarray(label, dtype=np.int64), shape).ravel()
        log_z = np.zeros(len(flat))
        score = np.zeros(flat.shape)
        diagonal = np.zeros(flat.shape)
        for group in self._groups(variance, omega.shape):
            for s, shares in zip(group.s, group.shares, strict=True):
                table = gumbel.utility_table(s)
                chunks = zip(_chunks(group.rows, k), _chunks(shares, k), strict=True)
                for rows, share in chunks:
                    inner = gumbel.integrate_utilities(flat[rows], y[rows], table).orthant(y[rows])
                    log_z[rows] += share * inner.log_z
                    score[rows] += share[:, None] * inner.score
                    diagonal[rows] += share[:, None] * inner.diagonal
        score *= self.slope
        diagonal *= self.slope**2
        return Orthant(log_z.reshape(shape), score.reshape(*shape, k), diagonal.reshape(*shape, k))

    def _groups(self, variance: ArrayLike, shape: tuple[int, ...]) -> list[_SharedTables]:
        """Return the samples in groups that share tables, for fields of a shape (..., k).

        One variance for each sample: the cubic through four tables, good to 1e-6; for each class as
        well: their mean over the classes.
        """
        v = np.asarray(variance, dtype=float) + self.variance
        n = math.prod(shape[:-1])
        if v.ndim == 0:
            s = self.slope * math.sqrt(float(v))
            return [_SharedTables(np.arange(n), [s], [np.ones(n)])]
        if v.ndim == len(shape):
            v = v.mean(-1)
        of_samples = np.broadcast_to(v, shape[:-1]).ravel()
        place = np.log(np.maximum(self.slope * np.sqrt(of_samples), _SMALLEST_S)) / math.log(_RATIO)
        cell = np.floor(place).astype(int)
        groups = []
        for j in np.unique(cell):
            rows = np.flatnonzero(cell == j)
            t = place[rows] - j
            # Lagrange's cubic through the nodes −1, 0, 1 and 2.
            a = t * (t - 1) / 6
            b = (t + 1) * (t - 2) / 2
            shares = [-a * (t - 2), b * (t - 1), -b * t, a * (t + 1)]
            groups.append(_SharedTables(rows, [_RATIO ** (j + i) for i in range(-1, 3)], shares))
        return groups

    def utility_gaps(self, gaps: Array, variance: float) -> Winning:
        """Return the chance (n,) and its slopes (k−1, n) from gaps (k−1, n), smallest first."""
        s = self.slope * math.sqrt(variance + self.variance)
        if len(gaps) == 1:
            return _two_classes(self.slope * gaps[0], math.sqrt(2) * s, self.slope)
        if len(gaps) == 2:
            z, slopes = gumbel.three_softmax(self.slope * gaps, s)
            return Winning(z, self.slope * slopes)
        table = gumbel.utility_table(s)
        fields = np.zeros((gaps.shape[1], len(gaps) + 1))
        np.multiply(gaps.T, -self.slope, out=fields[:, 1:])
        parts = [gumbel.winning_label(part, table) for part in _chunks(fields, fields.shape[1])]
        z = np.concatenate([part[0] for part in parts])
        slopes = np.concatenate([part[1] for part in parts])
        return Winning(z, self.slope * slopes.T)

    def utility_law(self, variance: float) -> UtilityLaw:
        """Return the law of a Gumbel plus a normal variable, in units of the fields."""
        b = self.slope
        s = b * math.sqrt(variance + self.variance)
        low, high = gumbel.utility_range(s)

        def values(y: Array) -> tuple[Array, Array]:
            """Return ln F(βy) and its slope, both of the shape of y."""
            if y.size <= _FEW_VALUES:
                direct = gumbel.utility_values(b * y.ravel(), s)
                return direct.log_cdf.reshape(y.shape), b * direct.hazard.reshape(y.shape)
            log_cdf, hazard = gumbel.utility_table(s).first(b * y, 2)
            return log_cdf, b * hazard

        return UtilityLaw(low / b, high / b, values)

    def utility_signal(self, n_classes: int) -> float:
        """Return c from k ∫ F^{k−2} F′² dC at the variance of the blurred fields."""
        spread = math.sqrt(1 + self.variance)
        return _signal(self.slope * spread, n_classes) / spread

    def utility_error(self, tau: Array, n_classes: int, clean: Callable[[Array], Array]) -> Array:
        """Return P(largest utility is not the student's class) at τ."""
        return gumbel.softmax_error(*self._blurred(tau), n_classes)

    def utility_lead(self, tau: float, n_classes: int, margin: float) -> float:
        """Return P(the class of largest utility leads by > margin·√q at the student) at τ."""
        slope, seen = self._blurred(np.asarray(tau))
        return 1 - gumbel.disagreement(slope, n_classes, math.atan2(1.0, float(seen)), margin)

    def _blurred(self, tau: Array) -> tuple[float, Array]:
        """Return β and τ for blurred fields in units of their own spread √(1 + Δ)."""
        seen = tau / np.sqrt(1 + self.variance * (1 + tau**2))
        return self.slope * math.sqrt(1 + self.variance), np.asarray(seen)


def _two_classes(x: Array, s: float, slope: float) -> Winning:
    """Return E σ(x + sξ) (n,) and its slope (1, n) by the trapezoidal rule over ξ.

    Where s is large the rule is over L instead: two Gumbel variables differ by a logistic one, L,
    and E σ(x + sξ) = E_L Φ((x + L)/s).
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


def _chunks(rows: NDArray[T], k: int) -> list[NDArray[T]]:
    """Return consecutive parts of rows (n, ...) whose tables of levels fit in memory."""
    size = max(1, _CHUNK // (60 * k))
    return [rows[i : i + size] for i in range(0, len(rows), size)]


@lru_cache(maxsize=256)
def _signal(slope: float, k: int) -> float:
    """Return k ∫ F^{k−2} F′² dC at v = 1."""
    y = gumbel.utility_grid(slope, 0.25)  # F is analytic: the trapezoidal rule needs no more
    F = gumbel.utility_values(y, slope)
    density = np.exp(k * F.log_cdf) * F.hazard**2
    return k * slope * float(density.sum() * (y[1] - y[0]))
