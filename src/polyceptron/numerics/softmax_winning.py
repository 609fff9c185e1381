"""Which class a softmax teacher chooses: three classes at given gaps, and the errors of any k.

Utilities are fields plus Gumbel noise of scale 1/β.

The chance that one of three classes wins at gaps g₁, g₂, with F the law of a utility of Gumbel and
normal noise of standard deviation s (all in units of 1/β),

    Z(g₁, g₂; s) = ∫ dC F′(C) F(C + g₁) F(C + g₂)

is smooth in x = g/√(1 + s²) and t = 1/√(1 + s²), from s = 0 to s = ∞: quintic splines on a grid in
asinh(x/4) at Chebyshev points of t are combined linearly for the s at hand. Good to 1e-9.

The label is not the class of a student at correlation ρ = cos θ with probability ε,

    1 − ε = k ∫ φ(x) ∫ F′(t) B(t, x)^{k−1} dt dx

with x the student's field of a class, by a proxy for each slope.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from polyceptron.numerics import Array
from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.numerics.gumbel import utility_table, utility_values
from polyceptron.numerics.panels import panel_rule

_STRETCH = 4.0
_STEP = 0.043  # of asinh(x/4): 0.17 of x at the boundary
_HALF = 60  # grid points on either side: |x| up to 26, where e^{−x} is 5e-12
_FINE = 0.07
_LEVELS = np.arange(-8.4, 28.0, _FINE)  # of y/√(1 + s²), where F is computed
_EVERY = 5  # of these are levels C of the integral: a step of 0.35
_N_S = 18  # Chebyshev points of t: what is left out is 2e-10


def three_softmax(gaps: Array, s: float) -> tuple[Array, Array]:
    """Z (n,) and its slopes (2, n) at gaps (2, n), in units of 1/β."""
    from scipy.ndimage import map_coordinates  # loads slowly, and most answers do without

    width = math.hypot(1.0, s)
    place = np.arcsinh(gaps / (width * _STRETCH)) / _STEP + _HALF
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
    z, first, second = (
        np.asarray(map_coordinates(spline, at, order=5, prefilter=False, mode="mirror"), float)
        for spline, at in ((z_spline, place), (slope_spline, place), (slope_spline, place[::-1]))
    )
    return z, np.stack([first, second]) / width


@lru_cache(maxsize=1)
def _table() -> tuple[Array, Array]:
    """Chebyshev points t (j,) and the coefficients there (j, 2·grid²)."""
    from scipy.interpolate import BSpline

    t = 0.5 + 0.5 * np.cos((np.arange(_N_S) + 0.5) * (math.pi / _N_S))
    x = _STRETCH * np.sinh((np.arange(2 * _HALF + 1) - _HALF) * _STEP)
    place = (_LEVELS[::_EVERY] + x[:, None] - _LEVELS[0]) / _FINE
    n = _LEVELS.size
    read = BSpline.design_matrix(np.clip(place, 0, n - 1).ravel(), np.arange(-5.0, n + 5), 5)
    found = np.empty((_N_S, 2, x.size, x.size))
    for out, s in zip(found, np.sqrt(t**-2 - 1), strict=True):
        width = math.hypot(1.0, float(s))
        of = utility_values(_LEVELS * width, float(s))
        F = np.exp(of.log_cdf)
        law = np.stack([F, width * of.hazard * F])  # F and its slope in y/√(1 + s²)
        own = law[1, ::_EVERY] * (_EVERY * _FINE)
        seen = own > 1e-13
        # Splines are linear in what they go through: the factors are filtered, not their products.
        below, first = (
            _filtered((read @ np.pad(_filtered(row), 2, "reflect")).reshape(place.shape)[:, seen])
            for row in law
        )
        weighted = (below * own[seen]).T
        np.matmul(below, weighted, out=out[0])
        np.matmul(first, weighted, out=out[1])
    return t, found.reshape(_N_S, -1)


def _filtered(values: Array) -> Array:
    """Coefficients of the splines through the columns of values (grid, n)."""
    from scipy.ndimage import spline_filter1d

    return np.asarray(spline_filter1d(values, order=5, axis=0, mode="mirror"), dtype=float)


_FAR = 17.5  # of a difference of two fields of unit variance, in fields that count


def softmax_error(slope: float, tau: Array, n_classes: int) -> Array:
    """ε on labels as drawn at τ, any shape."""
    tau = np.asarray(tau, dtype=float)
    theta = np.arctan2(1.0, tau)
    # One proxy in θ, stretched where θ is as small as the noise.
    near = np.minimum(theta, math.pi / 2)
    found = np.asarray(_proxy(slope, n_classes)(np.arcsinh(near / _stretch(slope))))
    if np.any(tau < 0):  # a student worse than chance
        wrong = np.array([disagreement(slope, n_classes, float(t)) for t in theta[tau < 0].ravel()])
        found[tau < 0] = wrong
    return found


@lru_cache(maxsize=64)
def _proxy(slope: float, k: int) -> ChebyshevProxy:
    """asinh(θ/θ₀) ↦ ε."""
    scale = _stretch(slope)

    def error(x: Array) -> Array:
        return np.array([disagreement(slope, k, float(t)) for t in scale * np.sinh(x)])

    top = math.asinh(0.5 * math.pi / scale)
    return chebyshev_proxy(error, 0.0, top, tol=1e-10, start=17, max_points=129)


def _stretch(slope: float) -> float:
    return min(1.0, 2 / slope)


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
    low, high = min(max(margin, -_FAR), _FAR), _FAR
    u, weight = panel_rule(
        np.concatenate([[low], breaks[(breaks > low) & (breaks < high)], [high]]), 16
    )
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
