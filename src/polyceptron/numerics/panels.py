"""Gauss–Legendre panels whose break points follow several length scales at once.

An integrand that changes within scales of a boundary that differ by many decades (the spread of
the fields, the width of a label's transition, the scale of a loss) is integrated with a few digits
a node by panels that are short near the boundary at each scale and grow away from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


def resolve(
    function: Callable[[Array], Array], breaks: Array, *, tol: float = 1e-6, rounds: int = 20
) -> Array:
    """`breaks` (b,) with panels halved until `function` is nearly a polynomial on each.

    `function` takes points (n,) and returns (c, n). A panel is fine when the last two of its eight
    Legendre coefficients are below `tol` times the function's size; a kink or a jump is closed in
    upon by `rounds` halvings. Two thousand panels are the most.

    >>> len(resolve(lambda x: np.abs(x)[None], np.array([-1.0, 0.3, 1.0]), rounds=5)) > 5
    True
    """
    nodes, _ = legendre_rule(_PROBE)
    basis = np.linalg.inv(np.polynomial.legendre.legvander(2 * nodes - 1, _PROBE - 1))[-2:]
    done, open_ = [breaks[:1]], np.stack([breaks[:-1], breaks[1:]])
    size: Array | None = None
    for _ in range(rounds):
        x = open_[0][:, None] + (open_[1] - open_[0])[:, None] * nodes
        values = function(x.ravel()).reshape(-1, *x.shape)  # (c, panels, nodes)
        if size is None:
            size = np.abs(values).max((1, 2))
        tail = np.abs(values @ basis.T).max(2)
        rough = (tail > tol * np.maximum(size, 1e-300)[:, None]).any(0)
        done.append(open_[1][~rough])
        middle = open_[:, rough].mean(0)
        if not rough.any() or sum(map(len, done)) + 2 * len(middle) > 2000:
            done.append(open_[1][rough])
            break
        open_ = np.concatenate(
            [np.stack([open_[0][rough], middle]), np.stack([middle, open_[1][rough]])], axis=1
        )
    else:
        done.append(open_[1])
    return np.unique(np.concatenate(done))


_PROBE = 8  # nodes that try a panel
