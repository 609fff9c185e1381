"""A Gumbel variable plus a normal one: the utility of a class of the softmax, field noise included.

    F(y) = E_ξ exp(−e^{−(y − sξ)}),   h = F′/F = ⟨E⟩,   h′ = Var E − ⟨E⟩ = −(1 − Var ξ)/s²

with E = e^{−(y − sξ)} and ⟨·⟩ the average over ξ weighted by the integrand. The trapezoidal rule is
centred on the integrand's mode, ξ = −W(s²e^{−y})/s with Lambert's W, so that nothing underflows.
Where the normal part is the wider one the Gumbel variable G is integrated instead, F = E_G Φ((y −
G)/s). The values are tabulated in y once for each s and interpolated.

Which class has the largest utility is one integral over the winning level C,

    Z_l(ω) = ∫ dC h(C − ω_l) ∏_j F(C − ω_j)        (all classes, with h = F′/F)

whose integrand is log-concave. Its mode and width come from Newton's method; the substitution
C = C₀ + w(e^{2au} − 1)/2a stretches the right side, where it falls as an exponential, and the
trapezoidal rule in u converges geometrically. Score and curvature are averages under the same
weights, as in `numerics.orthant`, with A_j = h(C − ω_j).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import wrightomega

from polyceptron.numerics import Array
from polyceptron.numerics.orthant import Labels, Quadrature
from polyceptron.numerics.special import EvenPieces, log_cdf_and_mills, mills_slope, normalised

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

_LOW, _HIGH = 12.0, 45.0  # units of √(1 + s²) to the left, decay lengths to the right
_STEP = 0.1  # of the table, in units of √(1 + s²): the quintic errs by 3e-11 of ln F
_WIDE = 2.0  # s from which the normal part is integrated in closed form
_GUMBEL_STEP = 0.32  # of the Gumbel variable there: the rule errs by 1e-12
_NEWTON = 30
_SKEW = 1 / 9  # a Gumbel density has 1/6: a little less reaches further left; noise dilutes it
_U_STEP = 0.36
_U = np.arange(-25, 36) * _U_STEP


class Utility(NamedTuple):
    """ln F, h = F′/F and −h′ at the same points."""

    log_cdf: Array
    hazard: Array
    slope: Array


def utility_values(y: Array, s: float) -> Utility:
    """ln F, h and −h′ at y (n,), directly."""
    y = np.asarray(y, dtype=float)
    if s == 0:
        hazard = np.exp(-y)
        return Utility(-hazard, hazard, hazard)
    if s > _WIDE:
        return _mixed_normals(y, s)
    centre = -np.real(wrightomega(2 * math.log(s) - y)) / s
    step = min(0.35, 0.35 / s)  # the Gaussian, and the strip |Im sξ| < π/2 of analyticity
    offset = np.arange(-math.ceil(9.5 / step), math.ceil(9.5 / step) + 1) * step
    xi = centre[:, None] + offset
    with np.errstate(over="ignore"):
        E = np.exp(s * xi - y[:, None])
        log_f = -E - 0.5 * xi**2
    p, log_total = normalised(log_f)
    E = np.where(p > 0, E, 0.0)
    hazard = (p * E).sum(1)
    mean_xi = (p * xi).sum(1)
    spread = (p * (xi - mean_xi[:, None]) ** 2).sum(1)
    left = (1 - spread) / s**2
    right = hazard - (p * (E - hazard[:, None]) ** 2).sum(1)
    log_cdf = log_total + math.log(step / math.sqrt(2 * math.pi))
    return Utility(log_cdf, hazard, np.where(spread < 0.5, left, right))


def _mixed_normals(y: Array, s: float) -> Utility:
    """F = E_G Φ((y − G)/s), s > 2: h = ⟨r⟩/s and −h′ = ⟨r(x + r)⟩/s² − Var(r)/s², r = φ/Φ."""
    G = np.arange(-13, 145) * _GUMBEL_STEP
    x = (y[:, None] - G) / s
    log_cdf, r = log_cdf_and_mills(x)
    p, log_total = normalised(log_cdf - (G + np.exp(-G)))
    mean = (p * r).sum(1)
    spread = (p * (r - mean[:, None]) ** 2).sum(1)
    slope = (p * mills_slope(x, r)).sum(1) - spread
    return Utility(log_total + math.log(_GUMBEL_STEP), mean / s, slope / s**2)


def utility_grid(s: float, step: float) -> Array:
    """Even points over all that F does at s, `step` in units of √(1 + s²)."""
    width = math.hypot(1.0, s)
    low, high = -_LOW * width, min(0.5 * s * s, 9.5 * s) + _HIGH
    return np.linspace(low, high, math.ceil((high - low) / (step * width)) + 1)


class UtilityTable:
    """ln F, h and −h′ by interpolation, at one s; linear in ln h to the right, where h dies out."""

    def __init__(self, s: float) -> None:
        self.s = s
        self.y = utility_grid(s, _STEP)
        values = utility_values(self.y, s)
        self._tabled = np.stack(values, 1)
        self._pieces = EvenPieces.spline(self.y, self._tabled, 5)

    @cached_property
    def log_density(self) -> PPoly:
        """ln F′, and through its derivatives the place and the width of integrands."""
        from scipy.interpolate import PPoly, make_interp_spline  # loads slowly, rarely needed

        log_cdf, hazard, _ = self._tabled.T
        spline: Any = make_interp_spline(self.y, log_cdf + np.log(hazard), k=5)
        return PPoly.from_spline(spline)

    def __call__(self, y: Array) -> Utility:
        """Values at y of any shape; beyond the table by direct evaluation."""
        out = Utility(*self._pieces(y))
        far = y < self.y[0]
        if far.any():
            exact = utility_values(y[far], self.s)
            for part, value in zip(out, exact, strict=True):
                part[far] = value
        return out


utility_table = lru_cache(maxsize=32)(UtilityTable)


def integrate_utilities(omega: Array, label: Labels, table: UtilityTable) -> Quadrature:
    """ln Z (n,) and the averages behind its derivatives, ω (n, k) in units of 1/β."""
    n, k = omega.shape
    competitors = np.arange(k - 1)
    competitors = competitors + (competitors >= label[:, None])
    own = omega[np.arange(n), label]
    fields = np.column_stack([own, np.take_along_axis(omega, competitors, 1)])  # the label's first
    level, width = _mode(fields, table)
    skew, C = _levels(level, width, table.s)
    found = table(C[:, :, None] - fields[:, None, :])
    with np.errstate(divide="ignore"):
        log_f = found.log_cdf.sum(-1) + np.log(found.hazard[..., 0]) + 2 * skew * _U
    p, log_total = normalised(log_f)
    log_z = log_total + np.log(width * _U_STEP)
    A, slope = found.hazard[..., 1:], found.slope[..., 1:]
    mean = np.matmul(p[:, None, :], A)
    return Quadrature(np.minimum(log_z, 0.0), p, A, slope, mean, competitors)


def winning_utilities(omega: Array, table: UtilityTable) -> Array:
    """Z of every class at once, (n, k) at ω (n, k) in units of 1/β, to absolute accuracy."""
    rows, top = np.arange(len(omega)), omega.argmax(1)
    fields = omega.copy()  # the leader's first
    fields[rows, 0], fields[rows, top] = omega[rows, top], omega[:, 0]
    level, width = _mode(fields, table)
    skew, C = _levels(level, width, table.s)
    found = table(C[:, :, None] - omega[:, None, :])
    weight = np.exp(found.log_cdf.sum(-1) + 2 * skew * _U)
    chances = np.einsum("nt,ntk->nk", weight, found.hazard)
    return np.asarray(chances / chances.sum(1, keepdims=True))


def _levels(level: Array, width: Array, s: float) -> tuple[float, Array]:
    """The skew a of the substitution, and C (n, t) of the nodes."""
    skew = _SKEW / (1 + s**2) ** 1.5
    return skew, level[:, None] + width[:, None] * (np.expm1(2 * skew * _U) / (2 * skew))


def _mode(omega: Array, table: UtilityTable) -> tuple[Array, Array]:
    """Where ln F′(C − ω₁) + Σ_{j>1} ln F(C − ω_j) is largest (n,), and its width there (n,)."""
    top = omega.max(1)
    low, high = top + table.y[0] + 1e-9, omega[:, 0] + table.y[-1]
    C = np.minimum(top + np.log(np.exp(omega - top[:, None]).sum(1)) + min(table.s, 1.0), high)
    scale = math.hypot(1.0, table.s)
    for _ in range(_NEWTON):
        found = table(C[:, None] - omega)
        own = np.clip(C - omega[:, 0], table.y[0], table.y[-1])
        pull = table.log_density(own, 1) + found.hazard[:, 1:].sum(1)
        bend = found.slope[:, 1:].sum(1) - table.log_density(own, 2)
        stiff = np.maximum(bend, 0.02 / scale**2)
        step = np.clip(pull / stiff, -2 * scale, 2 * scale)
        C = np.clip(C + step, low, high)
        if np.max(np.abs(step) * np.sqrt(stiff), initial=0.0) < 0.2:
            break
    return C, 1 / np.sqrt(stiff)
