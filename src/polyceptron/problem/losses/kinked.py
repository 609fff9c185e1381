"""Coordinates of a loss with kinks: between two kinks its pull is smooth, and the kinks are known.

The i-th kink has the coordinate x = i. Between two kinks the gap is linear in x, beyond the outer
ones it has slope 1:

    gap(x) = κ_i + (κ_{i+1} − κ_i)(x − i)   for i ≤ x ≤ i + 1,      κ_0 ≤ κ_1 ≤ … at a given V

so that panels which end at whole numbers of x meet the kinks at every V, while they are not moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks
from polyceptron.problem.losses.coordinates import Coordinates, Placed

if TYPE_CHECKING:
    from polyceptron.problem.losses.base import Loss


class KinkedCoordinates(Coordinates):
    """Coordinates in which the kinks of a loss are whole numbers: x for g₁, y for g₂ − g₁.

    Parameters
    ----------
    loss : Loss
    rows : callable
        `rows(V)` are the gaps g₁ at which pull, curvature or mistakes of two classes have a kink
        or a jump, and at which those along g₂ − g₁ begin, cross or end.
    columns : callable
        `columns(g1, V)` are the values of g₂ − g₁ at which they have one, arrays (n,) at g₁ (n,);
        none is below 0.
    """

    resolved = True
    jumps = True

    def __init__(
        self,
        loss: Loss,
        rows: Callable[[float], list[float]],
        columns: Callable[[Array, float], list[Array]],
    ) -> None:
        super().__init__(loss)
        self.rows = rows
        self.columns = columns

    def mistake_gap(self, V: float) -> float | None:
        """Return −∞ for a hard margin, inside which no training sample is mistaken."""
        if self.loss.scale_free:
            return -np.inf
        return None

    def _column_kinks(self, gap: Array, V: float) -> Array:
        """Return 0 and the kinks along rows g₁ (n,), sorted, shape (n, 1 + kinks)."""
        kinks = [np.zeros_like(gap), *self.columns(gap, V)]
        return np.sort(np.maximum(np.stack(kinks, 1), 0.0), axis=1)

    def _row_gap(self, x: Array, V: float) -> tuple[Array, Array]:
        """Return g₁ at x (n,), and its slope, both (n,)."""
        knots = np.sort(self.rows(V))
        return _interpolated(np.broadcast_to(knots, (len(x), len(knots))), x)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points of x for two classes, the kinks among them."""
        (x,) = _positions(np.sort(self.rows(V))[None], breaks[None])
        kinks = tuple(float(i) for i in range(len(self.rows(V))))
        return blend_breaks([x], float(x[0]), float(x[-1]), keep=kinks)

    def on_line(self, x: Array, V: float) -> Placed:
        """Return gaps and pull of two classes at x (n,)."""
        gap, stretch = self._row_gap(x, V)
        return Placed(gap[None], stretch, self.at_gaps(gap[None], V))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return break points of y along rows x for three classes, the kinks among them."""
        knots = self._column_kinks(self._row_gap(row, V)[0], V)
        y = _positions(knots, np.broadcast_to(breaks, (len(row), len(breaks))))
        kinks = np.minimum(np.arange(1.0, knots.shape[1]), y[:, -1:])
        return np.sort(np.concatenate([y, kinks], axis=1), axis=1)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Return gaps and pull of three classes at coordinates x (n,) and y (n,)."""
        first, row_stretch = self._row_gap(row, V)
        apart, column_stretch = _interpolated(self._column_kinks(first, V), y)
        gaps = np.stack([first, first + apart])
        return Placed(gaps, row_stretch * column_stretch, self.at_gaps(gaps, V))

    def wide(self, width: float, V: float) -> Coordinates | None:
        """Return these coordinates at every width: y is not a gap, so it does not grow with it."""
        return self


def _interpolated(knots: Array, x: Array) -> tuple[Array, Array]:
    """Return the piecewise linear function of x (n,) through knots (n, j) at 0..j−1, and slopes.

    Beyond the first and the last knot it has slope 1.
    """
    last = knots.shape[1] - 1
    rows = np.arange(len(x))
    part = np.clip(np.floor(x).astype(np.int64), -1, last)
    low = knots[rows, np.clip(part, 0, last)]
    high = knots[rows, np.clip(part + 1, 0, last)]
    slope = np.where((part < 0) | (part == last), 1.0, high - low)
    return np.where(part < 0, low + x, low + slope * (x - part)), slope


def _positions(knots: Array, values: Array) -> Array:
    """Return the x (n, b) at which the function of `_interpolated` has sorted values (n, b)."""
    last = knots.shape[1] - 1
    n_below = (knots[:, None, :] <= values[:, :, None]).sum(2)
    low = np.take_along_axis(knots, np.clip(n_below - 1, 0, last), 1)
    high = np.take_along_axis(knots, np.clip(n_below, 0, last), 1)
    width = high - low  # 0 beyond the first and the last knot
    share = np.divide(values - low, width, out=np.zeros(width.shape), where=width > 0)
    inside = n_below - 1 + share
    outside = np.where(n_below == 0, values - low, last + values - low)
    return np.where((n_below == 0) | (n_below > last), outside, inside)
