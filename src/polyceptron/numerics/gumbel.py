"""A Gumbel variable plus a normal one: the utility of a class of the softmax, field noise included.

    F(y) = E_ξ exp(−e^{−(y − sξ)}),   h = F′/F = ⟨E⟩,   h′ = Var E − ⟨E⟩ = −(1 − Var ξ)/s²

with E = e^{−(y − sξ)} and ⟨·⟩ the average over ξ weighted by the integrand, all in units of 1/β.
The trapezoidal rule is centred on the integrand's mode, ξ = −W(s²e^{−y})/s with Lambert's W, so
that nothing underflows. Where the normal part is the wider one the Gumbel variable G is integrated
instead, F = E_G Φ((y − G)/s). The values are tabulated in y once for each s and interpolated.

Which class has the largest utility is one integral over the winning level C,

    Z_l(ω) = ∫ dC h(C − ω_l) ∏_j F(C − ω_j)        (all classes, with h = F′/F)

whose integrand is log-concave. Its mode and width come from Newton's method; the substitution
C = C₀ + w(e^{2au} − 1)/2a stretches the right side, where it falls as an exponential, and the
trapezoidal rule in u converges geometrically. Score and curvature are averages under the same
weights, as in `numerics.orthant`, with A_j = h(C − ω_j).

Of three classes at gaps g₁, g₂ it is ∫ dC F′(C) F(C + g₁) F(C + g₂), smooth in x = g/√(1 + s²) and
t = 1/√(1 + s²), from s = 0 to s = ∞: quintic splines on a grid in asinh(x/4) at Chebyshev points of
t are combined linearly for the s at hand. Good to 1e-9.

The label is not the class of a student at correlation ρ = cos θ with probability ε,

    1 − ε = k ∫ φ(x) ∫ F′(t) B(t, x)^{k−1} dt dx

with x the student's field of a class, by a proxy for each slope.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtr, wrightomega

from polyceptron.numerics import Array, special
from polyceptron.numerics.orthant import Labels, Quadrature, other_classes
from polyceptron.numerics.panels import panel_rule

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

_LOW, _HIGH = 12.0, 45.0  # units of √(1 + s²) to the left, decay lengths to the right
_STEP = 0.1  # of the table, in units of √(1 + s²): the quintic errs by 3e-11 of ln F
_WIDE = 2.0  # s from which the normal part is integrated in closed form
_GUMBEL_STEP = 0.32  # of the Gumbel variable there: the rule errs by 1e-12
_NEWTON = 30
_SKEW = 1 / 9  # a Gumbel density has 1/6: a little less reaches further left; noise dilutes it
_U_STEP = 0.36
_U = np.linspace(-25, 35, 61) * _U_STEP
_U_COARSE = 0.65  # for a chance to 1e-8
_U_SHORT = np.linspace(-9, 14, 24) * _U_COARSE
_GRID_STRETCH = 4.0
_GRID_STEP = 0.043  # of asinh(x/4): 0.17 of x at the boundary
_HALF = 60  # grid points on either side: |x| up to 26, where e^{−x} is 5e-12
_FINE = 0.07
_C_GRID = np.arange(-8.4, 28.0, _FINE)  # of y/√(1 + s²), where F is computed
_EVERY = 5  # of these are levels C of the integral: a step of 0.35
_N_S = 18  # Chebyshev points of t: what is left out is 2e-10
_FAR_GAP = 17.5  # of a difference of two fields of unit variance, in fields that count


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
    p, log_total = special.normalised(log_f)
    E = np.where(p > 0, E, 0.0)
    hazard = (p * E).sum(1)
    spread = (p * (xi - (p * xi).sum(1)[:, None]) ** 2).sum(1)
    left = (1 - spread) / s**2
    right = hazard - (p * (E - hazard[:, None]) ** 2).sum(1)
    log_cdf = log_total + math.log(step / math.sqrt(2 * math.pi))
    return Utility(log_cdf, hazard, np.where(spread < 0.5, left, right))


def _mixed_normals(y: Array, s: float) -> Utility:
    """F = E_G Φ((y − G)/s), s > 2: h = ⟨r⟩/s and −h′ = ⟨r(x + r)⟩/s² − Var(r)/s², r = φ/Φ."""
    G = np.arange(-13, 145) * _GUMBEL_STEP
    x = (y[:, None] - G) / s
    log_cdf, r = special.log_cdf_and_mills(x)
    p, log_total = special.normalised(log_cdf - (G + np.exp(-G)))
    mean = (p * r).sum(1)
    slope = (p * special.mills_slope(x, r)).sum(1) - (p * (r - mean[:, None]) ** 2).sum(1)
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
        self._tabled = np.stack(utility_values(self.y, s), 1)
        self._pieces = special.EvenPieces(self.y, self._tabled, 5)

    @cached_property
    def log_density(self) -> PPoly:
        """ln F′, and through its derivatives the place and the width of integrands."""
        from scipy.interpolate import PPoly, make_interp_spline  # loads slowly, rarely needed

        log_cdf, hazard, _ = self._tabled.T
        spline: Any = make_interp_spline(self.y, log_cdf + np.log(hazard), k=5)
        return PPoly.from_spline(spline)

    def __call__(self, y: Array) -> Utility:
        """Values at y of any shape; beyond the table by direct evaluation."""
        return Utility(*self.first(y, 3))

    def first(self, y: Array, n: int) -> list[Array]:
        """The first n of them."""
        out = self._pieces(y, n)
        if (far := y < self.y[0]).any():
            for part, value in zip(out, utility_values(y[far], self.s), strict=False):
                part[far] = value
        return out


utility_table = lru_cache(maxsize=32)(UtilityTable)


def integrate_utilities(omega: Array, label: Labels, table: UtilityTable) -> Quadrature:
    """ln Z (n,) and the averages behind its derivatives, ω (n, k) in units of 1/β."""
    n, k = omega.shape
    competitors, own = other_classes(label, k), omega[np.arange(n), label]
    fields = np.column_stack([own, np.take_along_axis(omega, competitors, 1)])  # the label's first
    skew, width, C = _levels(fields, table, _U)
    found = table(C[:, :, None] - fields[:, None, :])
    with np.errstate(divide="ignore"):
        log_f = found.log_cdf.sum(-1) + np.log(found.hazard[..., 0]) + 2 * skew * _U
    p, log_total = special.normalised(log_f)
    log_z = log_total + np.log(width * _U_STEP)
    A, slope = found.hazard[..., 1:], found.slope[..., 1:]
    return Quadrature(np.minimum(log_z, 0.0), p, A, slope, competitors)


def winning_utilities(omega: Array, table: UtilityTable) -> Array:
    """Z of every class at once, (n, k) at ω (n, k) in units of 1/β, to absolute accuracy."""
    rows, top = np.arange(len(omega)), omega.argmax(1)
    fields = omega.copy()  # the leader's first
    fields[rows, 0], fields[rows, top] = omega[rows, top], omega[:, 0]
    skew, _, C = _levels(fields, table, _U)
    found = table(C[:, :, None] - omega[:, None, :])
    weight = np.exp(found.log_cdf.sum(-1) + 2 * skew * _U)
    chances = np.einsum("nt,ntk->nk", weight, found.hazard)
    return np.asarray(chances / chances.sum(1, keepdims=True))


def winning_label(fields: Array, table: UtilityTable) -> tuple[Array, Array]:
    """Z (n,) of the first class and −∂Z/∂ω_h (n, k−1) of the others, to absolute accuracy."""
    skew, width, C = _levels(fields, table, _U_SHORT)
    log_cdf, hazard = table.first(C[:, :, None] - fields[:, None, :], 2)
    weight = np.exp(log_cdf.sum(-1) + 2 * skew * _U_SHORT) * hazard[..., 0]
    weight *= (width * _U_COARSE)[:, None]
    return weight.sum(1), np.matmul(weight[:, None, :], hazard[..., 1:])[:, 0]


def _levels(omega: Array, table: UtilityTable, u: Array) -> tuple[float, Array, Array]:
    """The skew a of the substitution, its widths w (n,), and C (n, t) of nodes u (t,)."""
    (level, width), skew = _mode(omega, table), _SKEW / (1 + table.s**2) ** 1.5
    return skew, width, level[:, None] + width[:, None] * (np.expm1(2 * skew * u) / (2 * skew))


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


def three_softmax(gaps: Array, s: float, slopes: bool = True) -> tuple[Array, Array]:
    """Z (n,) and its slopes (2, n), or none of them, at gaps (2, n), in units of 1/β."""
    from scipy.ndimage import map_coordinates  # loads slowly, and most answers do without

    width = math.hypot(1.0, s)
    place = np.arcsinh(gaps / (width * _GRID_STRETCH)) / _GRID_STEP + _HALF
    np.clip(place, 0, 2 * _HALF, out=place)
    # Spline coefficients of Z and ∂Z/∂x₁ at t = 1/√(1 + s²): the barycentric formula.
    nodes, table = _table()
    apart = 1 / width - nodes
    hit = np.abs(apart) < 1e-14
    if hit.any():
        weight = hit.astype(float)
    else:
        weight = (-1.0) ** np.arange(_N_S) * np.sin((np.arange(_N_S) + 0.5) * (math.pi / _N_S))
        weight /= apart
        weight /= weight.sum()
    z_spline, slope_spline = (weight @ table).reshape(2, 2 * _HALF + 1, 2 * _HALF + 1)
    ways = (z_spline, place), (slope_spline, place), (slope_spline, place[::-1])
    z, *both = (
        np.asarray(map_coordinates(spline, at, order=5, prefilter=False, mode="mirror"), float)
        for spline, at in (ways if slopes else ways[:1])
    )
    return z, np.reshape(both, (len(both), len(z))) / width


@lru_cache(maxsize=1)
def _table() -> tuple[Array, Array]:
    """Chebyshev points t (j,) and the coefficients there (j, 2·grid²)."""
    from scipy.interpolate import BSpline
    from scipy.ndimage import spline_filter1d

    filtered = partial(spline_filter1d, order=5, axis=0, mode="mirror")
    t = 0.5 + 0.5 * np.cos((np.arange(_N_S) + 0.5) * (math.pi / _N_S))
    x = _GRID_STRETCH * np.sinh((np.arange(2 * _HALF + 1) - _HALF) * _GRID_STEP)
    place = (_C_GRID[::_EVERY] + x[:, None] - _C_GRID[0]) / _FINE
    n = _C_GRID.size
    read = BSpline.design_matrix(np.clip(place, 0, n - 1).ravel(), np.arange(-5.0, n + 5), 5)
    found = np.empty((_N_S, 2, x.size, x.size))
    for out, s in zip(found, np.sqrt(t**-2 - 1), strict=True):
        width = math.hypot(1.0, float(s))
        of = utility_values(_C_GRID * width, float(s))
        F = np.exp(of.log_cdf)
        law = np.stack([F, width * of.hazard * F])  # F and its slope in y/√(1 + s²)
        own = law[1, ::_EVERY] * (_EVERY * _FINE)
        seen = own > 1e-13
        # Splines are linear in what they go through: the factors are filtered, not their products.
        below, first = (
            filtered((read @ np.pad(filtered(row), 2, "reflect")).reshape(place.shape)[:, seen])
            for row in law
        )
        weighted = (below * own[seen]).T
        np.matmul(below, weighted, out=out[0])
        np.matmul(first, weighted, out=out[1])
    return t, found.reshape(_N_S, -1)


def softmax_error(slope: float, tau: Array, n_classes: int) -> Array:
    """ε on labels as drawn at τ, any shape."""
    tau = np.asarray(tau, dtype=float)
    theta, scale = np.arctan2(1.0, tau), min(1.0, 2 / slope)
    # One proxy in θ, stretched where θ is as small as the noise.
    proxy = _proxy(slope, n_classes, scale)
    found = np.asarray(proxy(np.arcsinh(np.minimum(theta, math.pi / 2) / scale)))
    if np.any(tau < 0):  # a student worse than chance
        found[tau < 0] = [disagreement(slope, n_classes, float(t)) for t in theta[tau < 0]]
    return found


@lru_cache(maxsize=64)
def _proxy(slope: float, k: int, scale: float) -> special.ChebyshevProxy:
    """asinh(θ/θ₀) ↦ ε."""

    def error(x: Array) -> Array:
        return np.array([disagreement(slope, k, float(t)) for t in scale * np.sinh(x)])

    top = math.asinh(0.5 * math.pi / scale)
    return special.chebyshev_proxy(error, 0.0, top, tol=1e-10, start=17, max_points=129)


def disagreement(slope: float, k: int, theta: float, margin: float = 0.0) -> float:
    """ε of any k: another class is below in both with B = ∫_m^∞ φ(x − u) F(t + βρu) du, m = 0.

    A margin m ≠ 0 gives the chance that the label's lead in the student's fields is not above it.
    """
    s, along = slope * abs(math.sin(theta)), slope * math.cos(theta)
    table = utility_table(s)
    width = math.hypot(1.0, s)
    x = np.arange(-44, 45) * 0.2
    t_step = 0.25 * width
    t = np.arange(-9 * width, min(0.5 * s * s, 9 * s) + 38, t_step)
    scale = min(1.0, width / max(abs(along), 1e-300))
    breaks = scale * np.concatenate([[0.0], 2.0 ** np.arange(0, math.ceil(math.log2(18 / scale)))])
    breaks = np.concatenate([-breaks[:0:-1], breaks])  # F is steep around u = 0
    low, high = min(max(margin, -_FAR_GAP), _FAR_GAP), _FAR_GAP
    inside = breaks[(breaks > low) & (breaks < high)]
    u, weight = panel_rule(np.concatenate([[low], inside, [high]]), 16)
    levels = table(t + along * u[:, None])
    steps = np.exp(-0.5 * (x[:, None] - u) ** 2) * (weight / math.sqrt(2 * math.pi))
    if along > 0:  # F → 1 with growing u: integrate what is missing
        B = ndtr(x - low)[:, None] + steps @ np.expm1(levels.log_cdf)
    else:
        B = steps @ np.exp(levels.log_cdf)
    here = table(t)
    density = np.exp(here.log_cdf) * here.hazard * t_step
    phi = np.exp(-0.5 * x * x) * (0.2 / math.sqrt(2 * math.pi))
    return 1 - k * float(phi @ np.clip(B, 0.0, 1.0) ** (k - 1) @ density)
