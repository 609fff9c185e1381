"""The distribution function F of a Gumbel variable plus a normal one of standard deviation s.

    F(y) = E_ξ exp(−e^{−(y − sξ)}),   h = F′/F = ⟨E⟩,   h′ = Var E − ⟨E⟩ = −(1 − Var ξ)/s²

with E = e^{−(y − sξ)} and ⟨·⟩ the average over ξ weighted by the integrand, all in units of 1/β,
the scale of the Gumbel variable. The trapezoidal rule is centred on the integrand's mode,
ξ = −W(s²e^{−y})/s with Lambert's W, so that nothing underflows. Where the normal part is the wider
one the Gumbel variable G is integrated instead, F = E_G Φ((y − G)/s). The values are tabulated in y
once for each s and interpolated.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import wrightomega

from polyceptron.numerics import Array, special

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

# The table reaches so far: units of √(1 + s²) to the left, decay lengths of h to the right.
WIDTHS_TO_THE_LEFT = 12.0
DECAY_LENGTHS_TO_THE_RIGHT = 45.0
TABLE_STEP = 0.1  # in units of √(1 + s²): the quintic spline errs by 3e-11 of ln F
SPLINE_DEGREE = 5
# From this s on Φ is used, and the Gumbel variable is integrated; the rule errs by 1e-12.
WIDE_NORMAL = 2.0
GUMBEL_NODES = np.arange(-13, 145) * 0.32
GUMBEL_STEP = 0.32
# The trapezoidal rule over ξ: its step, for the Gaussian and for the strip |Im sξ| < π/2 in which
# the integrand is analytic, and how far it goes from the mode.
NORMAL_STEP = 0.35
NORMAL_REACH = 9.5


class Utility(NamedTuple):
    """ln F, h = F′/F and −h′ at the same points."""

    log_cdf: Array
    hazard: Array
    slope: Array


def utility_values(y: Array, s: float) -> Utility:
    """Return ln F, h and −h′ at y (n,), by direct integration."""
    y = np.asarray(y, dtype=float)
    if s == 0:
        hazard = np.exp(-y)
        return Utility(-hazard, hazard, hazard)
    if s > WIDE_NORMAL:
        return _mean_over_gumbel(y, s)
    return _mean_over_normal(y, s)


def _mean_over_normal(y: Array, s: float) -> Utility:
    """F = E_ξ exp(−e^{−(y − sξ)}), for s up to 2."""
    mode = -np.real(wrightomega(2 * math.log(s) - y)) / s
    step = min(NORMAL_STEP, NORMAL_STEP / s)
    half = math.ceil(NORMAL_REACH / step)
    xi = mode[:, None] + np.arange(-half, half + 1) * step
    with np.errstate(over="ignore"):
        E = np.exp(s * xi - y[:, None])
        log_f = -E - 0.5 * xi**2
    p, log_total = special.normalised(log_f)
    E = np.where(p > 0, E, 0.0)
    hazard = (p * E).sum(1)
    variance_of_xi = (p * (xi - (p * xi).sum(1)[:, None]) ** 2).sum(1)
    # Both formulas for −h′ are exact: each cancels where the other does not.
    by_xi = (1 - variance_of_xi) / s**2
    by_E = hazard - (p * (E - hazard[:, None]) ** 2).sum(1)
    log_cdf = log_total + math.log(step / math.sqrt(2 * math.pi))
    return Utility(log_cdf, hazard, np.where(variance_of_xi < 0.5, by_xi, by_E))


def _mean_over_gumbel(y: Array, s: float) -> Utility:
    """F = E_G Φ((y − G)/s), for s > 2: h = ⟨r⟩/s and −h′ = (⟨r(x + r)⟩ − Var r)/s², r = φ/Φ."""
    x = (y[:, None] - GUMBEL_NODES) / s
    log_cdf, r = special.log_cdf_and_mills(x)
    p, log_total = special.normalised(log_cdf - (GUMBEL_NODES + np.exp(-GUMBEL_NODES)))
    mean = (p * r).sum(1)
    slope = (p * special.mills_slope(x, r)).sum(1) - (p * (r - mean[:, None]) ** 2).sum(1)
    return Utility(log_total + math.log(GUMBEL_STEP), mean / s, slope / s**2)


def utility_range(s: float) -> tuple[float, float]:
    """Return the ends between which F′ is not nothing."""
    low = -WIDTHS_TO_THE_LEFT * math.hypot(1.0, s)
    high = min(0.5 * s * s, NORMAL_REACH * s) + DECAY_LENGTHS_TO_THE_RIGHT
    return low, high


def utility_grid(s: float, step: float) -> Array:
    """Return even points over all of F at s; `step` is in units of √(1 + s²)."""
    width = math.hypot(1.0, s)
    low, high = utility_range(s)
    return np.linspace(low, high, math.ceil((high - low) / (step * width)) + 1)


class UtilityTable:
    """ln F, h and −h′ by interpolation, at one s."""

    def __init__(self, s: float) -> None:
        self.s = s
        self.y = utility_grid(s, TABLE_STEP)
        self._values = np.stack(utility_values(self.y, s), 1)
        self._pieces = special.EvenPieces(self.y, self._values, SPLINE_DEGREE)

    @cached_property
    def log_density(self) -> PPoly:
        """ln F′ as a piecewise polynomial; its derivatives place integrands."""
        from scipy.interpolate import PPoly, make_interp_spline  # loads slowly, rarely needed

        log_cdf, hazard, _ = self._values.T
        spline: Any = make_interp_spline(self.y, log_cdf + np.log(hazard), k=SPLINE_DEGREE)
        return PPoly.from_spline(spline)

    def __call__(self, y: Array) -> Utility:
        """Return ln F, h and −h′ at y of any shape."""
        return Utility(*self.first(y, 3))

    def first(self, y: Array, n: int) -> list[Array]:
        """Return the first n of ln F, h and −h′; left of the table by direct integration."""
        out = self._pieces(y, n)
        far = y < self.y[0]
        if far.any():
            for part, value in zip(out, utility_values(y[far], self.s), strict=False):
                part[far] = value
        return out


utility_table = lru_cache(maxsize=32)(UtilityTable)
