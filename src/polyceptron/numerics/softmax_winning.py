"""The chance that one of three classes wins under the softmax, from one table for every slope.

With utilities of Gumbel noise plus normal noise of standard deviation s (in units of 1/β), F their
law and g₁, g₂ the gaps in those units,

    Z(g₁, g₂; s) = ∫ dC F′(C) F(C + g₁) F(C + g₂)

is a matrix product on a grid of gaps. In x = g/√(1 + s²) it is smooth in t = 1/√(1 + s²), both at
s = 0, where it is a function of s², and at s = ∞, the Gaussian law: quintic splines on a grid in
asinh(x/4) at Chebyshev points of t are combined linearly for the s at hand. Absolute accuracy 1e-9;
made once, on first use.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics.gumbel import utility_table

Array = NDArray[np.float64]
_STRETCH = 4.0
_STEP = 0.043  # of asinh(x/4): 0.17 of x at the boundary
_HALF = 60  # grid points on either side: |x| up to 26, where e^{−x} is 5e-12
_N_S = 18  # Chebyshev points of t: what is left out is 2e-10


def three_softmax(gaps: Array, s: float) -> tuple[Array, Array]:
    """Z (n,) and its slopes (2, n) at gaps (2, n), in units of 1/β."""
    width = math.hypot(1.0, s)
    place = np.arcsinh(gaps / (width * _STRETCH)) / _STEP + _HALF
    np.clip(place, 0, 2 * _HALF, out=place)
    z_spline, slope_spline = _at(1 / width)
    z = _read(z_spline, place)
    slopes = np.stack([_read(slope_spline, place), _read(slope_spline, place[::-1])])
    return z, slopes / width


def _read(spline: Array, place: Array) -> Array:
    from scipy.ndimage import map_coordinates  # loads slowly, and most answers do without

    return np.asarray(
        map_coordinates(spline, place, order=5, prefilter=False, mode="mirror"), dtype=float
    )


def _at(t: float) -> tuple[Array, Array]:
    """Spline coefficients of Z and ∂Z/∂x₁ at t = 1/√(1 + s²): the barycentric formula."""
    nodes, table = _table()
    angle = (np.arange(_N_S) + 0.5) * (math.pi / _N_S)
    apart = t - nodes
    hit = np.flatnonzero(np.abs(apart) < 1e-14)
    if hit.size:
        weight = np.zeros(_N_S)
        weight[hit[0]] = 1.0
    else:
        weight = (-1.0) ** np.arange(_N_S) * np.sin(angle) / apart
        weight /= weight.sum()
    both = (weight @ table).reshape(2, 2 * _HALF + 1, 2 * _HALF + 1)
    return both[0], both[1]


@lru_cache(maxsize=1)
def _table() -> tuple[Array, Array]:
    """Chebyshev points t (j,) and the coefficients there (j, 2·grid²)."""
    t = 0.5 + 0.5 * np.cos((np.arange(_N_S) + 0.5) * (math.pi / _N_S))
    x = _STRETCH * np.sinh((np.arange(2 * _HALF + 1) - _HALF) * _STEP)
    return t, np.stack([_coefficients(x, float(s)) for s in np.sqrt(t**-2 - 1)])


def _coefficients(x: Array, s: float) -> Array:
    width, law = math.hypot(1.0, s), utility_table(s)
    step = 0.35 * width
    C = np.arange(law.y[0], law.y[-1], step)
    own = law(C)
    density = np.exp(own.log_cdf) * own.hazard * step
    seen = density > 1e-13
    level = C[seen] + width * x[:, None]
    values = law(np.clip(level, law.y[0], law.y[-1]))
    F = np.exp(values.log_cdf)
    # Splines are linear in what they go through: the factors are filtered, not their products.
    spline = _filtered(F)
    first = _filtered(F * values.hazard * width)
    weighted = (spline * density[seen]).T
    return np.concatenate([(spline @ weighted).ravel(), (first @ weighted).ravel()])


def _filtered(values: Array) -> Array:
    """Coefficients of the splines through the columns of values (grid, n)."""
    from scipy.ndimage import spline_filter1d

    return np.asarray(spline_filter1d(values, order=5, axis=0, mode="mirror"), dtype=float)
