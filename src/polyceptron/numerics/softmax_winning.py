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
from scipy.special import ndtr

Array = NDArray[np.float64]
_STRETCH = 4.0
_STEP = 0.043  # of asinh(x/4): 0.17 of x at the boundary
_HALF = 60  # grid points on either side: |x| up to 26, where e^{−x} is 5e-12
_FINE = 0.07
_LEVELS = np.arange(-8.4, 28.0, _FINE)  # of y/√(1 + s²), where F is computed
_EVERY = 5  # of these are levels C of the integral: a step of 0.35
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
    from scipy.interpolate import BSpline

    t = 0.5 + 0.5 * np.cos((np.arange(_N_S) + 0.5) * (math.pi / _N_S))
    x = _STRETCH * np.sinh((np.arange(2 * _HALF + 1) - _HALF) * _STEP)
    place = (_LEVELS[::_EVERY] + x[:, None] - _LEVELS[0]) / _FINE
    n = _LEVELS.size
    read = BSpline.design_matrix(np.clip(place, 0, n - 1).ravel(), np.arange(-5.0, n + 5), 5)
    found = np.empty((_N_S, 2, x.size, x.size))
    for out, s in zip(found, np.sqrt(t**-2 - 1), strict=True):
        law = _law(float(s))
        own = law[1, ::_EVERY] * (_EVERY * _FINE)
        seen = own > 1e-13
        # Splines are linear in what they go through: the factors are filtered, not their products.
        F, first = (
            _filtered((read @ np.pad(_filtered(row), 2, "reflect")).reshape(place.shape)[:, seen])
            for row in law
        )
        weighted = (F * own[seen]).T
        np.matmul(F, weighted, out=out[0])
        np.matmul(first, weighted, out=out[1])
    return t, found.reshape(_N_S, -1)


def _law(s: float) -> Array:
    """F and its slope (2, n) in y/√(1 + s²), absolutely: the normal or the Gumbel part is summed.

    A Gumbel law is analytic for |Im y| < π/2, so that steps of 0.36 leave out 1e-11.
    """
    width = math.hypot(1.0, s)
    y = _LEVELS * width
    if s > 5:
        G = np.arange(-11, 84) * 0.36
        weight = 0.36 * np.exp(-G - np.exp(-G))
        a = (y[:, None] - G) / s
        first = np.exp(-0.5 * a * a) @ weight / (s * math.sqrt(2 * math.pi))
        return np.stack([ndtr(a) @ weight, width * first])
    split = math.ceil(_FINE * width / (0.8 * s))  # a grid as fine as the normal part
    step = _FINE * width / split
    half = math.ceil(7.6 * s / step)
    normal = np.exp(-0.5 * (np.arange(-half, half + 1) * (step / s)) ** 2)
    normal /= normal.sum()
    fine = y[0] + np.arange(-half, (y.size - 1) * split + half + 1) * step
    E = np.exp(np.minimum(-fine, 300.0))
    F = np.exp(-E)
    both = (np.convolve(part, normal, "valid")[::split] for part in (F, width * E * F))
    return np.stack(list(both))


def _filtered(values: Array) -> Array:
    """Coefficients of the splines through the columns of values (grid, n)."""
    from scipy.ndimage import spline_filter1d

    return np.asarray(spline_filter1d(values, order=5, axis=0, mode="mirror"), dtype=float)
