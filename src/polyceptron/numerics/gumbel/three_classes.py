"""Three classes under the softmax with field noise, read off a table.

At gaps g₁, g₂ the first class wins with probability ∫ dC F′(C) F(C + g₁) F(C + g₂). It is smooth in
x = g/√(1 + s²) and t = 1/√(1 + s²), from s = 0 to s = ∞: quintic splines on a grid in asinh(x/4),
at Chebyshev points of t, are combined linearly for the s at hand. Good to 1e-9.
"""

import math
from functools import lru_cache
from typing import Final

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.gumbel.utility import utility_values

# The grid of x = 4 sinh(step·i), i = −60 … 60: steps of 0.17 at the boundary, |x| up to 26, where
# e^{−x} is 5e-12.
GRID_STRETCH = 4.0
GRID_STEP = 0.043
GRID_HALF = 60
GRID_SIZE = 2 * GRID_HALF + 1
# Levels of y/√(1 + s²) at which F is computed; every fifth is a level C of the integral.
LEVEL_STEP = 0.07
LEVELS = np.arange(-8.4, 28.0, LEVEL_STEP)
LEVELS_PER_NODE = 5
N_CHEBYSHEV = 18  # points of t: what is left out is 2e-10
SPLINE_DEGREE: Final = 5


def three_softmax(gaps: Array, s: float, slopes: bool = True) -> tuple[Array, Array]:
    """Return Z (n,) and its slopes (2, n) at gaps (2, n) in units of 1/β.

    Without `slopes` the second array has no rows.
    """
    width = math.hypot(1.0, s)
    place = np.arcsinh(gaps / (width * GRID_STRETCH)) / GRID_STEP + GRID_HALF
    np.clip(place, 0, 2 * GRID_HALF, out=place)
    z_spline, slope_spline = _splines_at(1 / width)
    z = _read(z_spline, place)
    if not slopes:
        return z, np.empty((0, len(z)))
    both = np.stack([_read(slope_spline, place), _read(slope_spline, place[::-1])])
    return z, both / width


def _read(spline: Array, place: Array) -> Array:
    """Return a spline with coefficients (grid, grid) at places (2, n) counted in grid steps."""
    from scipy.ndimage import map_coordinates  # loads slowly, and most answers do without

    found = map_coordinates(spline, place, order=SPLINE_DEGREE, prefilter=False, mode="mirror")
    return np.asarray(found, float)


def _splines_at(t: float) -> Array:
    """Return the spline coefficients (2, grid, grid) of Z and ∂Z/∂x₁ at t, by interpolation.

    The barycentric formula at Chebyshev points of the first kind has the weights
    (−1)^j sin((j + ½)π/n).
    """
    nodes, table = _table()
    distance = t - nodes
    at_node = np.abs(distance) < 1e-14
    if at_node.any():
        weight = at_node.astype(float)
    else:
        j = np.arange(N_CHEBYSHEV)
        weight = (-1.0) ** j * np.sin((j + 0.5) * (math.pi / N_CHEBYSHEV)) / distance
        weight /= weight.sum()
    return np.asarray((weight @ table).reshape(2, GRID_SIZE, GRID_SIZE))


@lru_cache(maxsize=1)
def _table() -> tuple[Array, Array]:
    """Return the Chebyshev points t (j,) and the spline coefficients there (j, 2·grid²)."""
    from scipy.interpolate import BSpline
    from scipy.ndimage import spline_filter1d

    def filtered(values: Array) -> Array:
        """Return the spline coefficients along the first axis."""
        spline = spline_filter1d(values, order=SPLINE_DEGREE, axis=0, mode="mirror")
        return np.asarray(spline)

    j = np.arange(N_CHEBYSHEV)
    t = 0.5 + 0.5 * np.cos((j + 0.5) * (math.pi / N_CHEBYSHEV))
    x = GRID_STRETCH * np.sinh((np.arange(GRID_SIZE) - GRID_HALF) * GRID_STEP)
    place = (LEVELS[::LEVELS_PER_NODE] + x[:, None] - LEVELS[0]) / LEVEL_STEP
    n = LEVELS.size
    knots = np.arange(-5.0, n + 5)
    reading = BSpline.design_matrix(np.clip(place, 0, n - 1).ravel(), knots, SPLINE_DEGREE)
    table = np.empty((N_CHEBYSHEV, 2, x.size, x.size))
    for out, s in zip(table, np.sqrt(t**-2 - 1), strict=True):
        width = math.hypot(1.0, float(s))
        utility = utility_values(LEVELS * width, float(s))
        F = np.exp(utility.log_cdf)
        slope = width * utility.hazard * F  # of F in y/√(1 + s²)
        weight = slope[::LEVELS_PER_NODE] * (LEVELS_PER_NODE * LEVEL_STEP)
        seen = weight > 1e-13
        # Splines are linear in what they go through: the factors are filtered, not their products.
        F_at, slope_at = (
            filtered((reading @ np.pad(filtered(row), 2, "reflect")).reshape(place.shape)[:, seen])
            for row in (F, slope)
        )
        weighted = (F_at * weight[seen]).T
        np.matmul(F_at, weighted, out=out[0])
        np.matmul(slope_at, weighted, out=out[1])
    return t, table.reshape(N_CHEBYSHEV, -1)
