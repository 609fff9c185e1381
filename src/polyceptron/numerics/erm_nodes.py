"""Gauss–Legendre panels whose break points follow several length scales at once.

As data become plentiful the integrands of empirical risk minimisation change within three scales
of a class boundary that may differ by many decades: the spread of the fields, the width of the
teacher's transition, and the scale 1 of the loss. Panels that are short near the boundary at each
scale and grow away from it integrate all of them with a few digits per node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Break points in units of a Gaussian's standard deviation; beyond the last one it is below 1e-17.
GAUSS_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8])
CUTOFF = float(GAUSS_BREAKS[-1])


@lru_cache(maxsize=32)
def legendre_rule(order: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def merge_breaks(
    points: Iterable[Array],
    low: float,
    high: float,
    *,
    closest: float = 0.15,
    keep: tuple[float, ...] = (),
) -> Array:
    """Sorted break points in [low, high]; one that nearly repeats its neighbour is dropped.

    "Nearly" is a fraction `closest` of the distance to the next one, so that scales apart by
    decades all survive. The points in `keep`, where the integrand has a kink, always stay.
    """
    inside = np.concatenate([np.asarray(p, dtype=float).ravel() for p in points] + [np.array(keep)])
    inside = np.sort(inside[(inside > low) & (inside < high)])
    out = [low]
    for i, point in enumerate(inside):
        after = inside[i + 1] if i + 1 < len(inside) else high
        if point in keep:
            if (
                len(out) > 1
                and out[-1] not in keep
                and point - out[-1] < closest * (point - out[-2])
            ):
                out.pop()
            out.append(float(point))
        elif point - out[-1] > closest * (after - out[-1]):
            out.append(float(point))
    return np.array([*out, high])


def split_long(breaks: Array, low: float, high: float, longest: float) -> Array:
    """Cut panels inside [low, high] until none is longer than `longest`."""
    n = int(np.ceil((high - low) / longest))
    if n < 1:
        return breaks
    return np.concatenate([breaks, np.linspace(low, high, n + 1)])


def panel_rule(breaks: Array, order: int) -> tuple[Array, Array]:
    """Nodes and weights over panels; `breaks` is (..., b), the result (..., (b−1)·order)."""
    x, w = legendre_rule(order)
    start = breaks[..., :-1, None]
    width = breaks[..., 1:, None] - start
    shape = (*breaks.shape[:-1], -1)
    return (start + width * x).reshape(shape), (width * w).reshape(shape)
