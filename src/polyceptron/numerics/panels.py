"""Gauss–Legendre panels whose break points follow several length scales at once.

An integrand that changes within scales of a boundary that differ by many decades (the spread of
the fields, the width of a label's transition, the scale of a loss) is integrated with a few digits
a node by panels that are short near the boundary at each scale and grow away from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from polyceptron.numerics import Array

# Break points in units of a Gaussian's standard deviation; beyond the last one it is below 1e-17.
GAUSS_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8])
CUTOFF = float(GAUSS_BREAKS[-1])
_TINY = 1e-300
_SLACK = 0.15  # of a panel: a little more than n panels' worth is still n panels


@lru_cache(maxsize=32)
def legendre_rule(order: int) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def blend_breaks(
    sets: Sequence[Array], low: float, high: float, *, keep: tuple[float, ...] = ()
) -> Array:
    """Break points (b,) from low to high that follow several sets of them, each sorted.

    With N_i(x) how many panels of a set lie below x, those of the blend have equal parts of
    ∫(Σ dN_i³)^{1/3}: where one set is much denser they are its own, and nowhere are there tiny ones
    because two sets have points side by side. At `keep` the integrand has a kink.
    """
    ends = np.array([low, *sorted(x for x in keep if low < x < high), high])
    grid = np.concatenate([*sets, ends])
    grid = np.sort(grid[(grid >= low) & (grid <= high)])
    parts = _parts([np.interp(grid, breaks, np.arange(len(breaks))) for breaks in sets])
    marks = np.interp(ends, grid, parts)
    wanted = [
        np.linspace(a, b, max(math.ceil(b - a - _SLACK), 1), endpoint=False)
        for a, b in pairwise(marks.tolist())
    ]
    return np.interp(np.concatenate([*wanted, marks[-1:]]), parts, grid)


def blend_rows(own: Array, common: Array, share: float) -> Array:
    """Break points (r, b') that follow sets `own` (r, b) and `common` (c,) as far as the former go.

    `share` is the number of panels to the whole of the integral. Short rows repeat their last.
    """
    inside = np.clip(common, own[:, :1], own[:, -1:])
    after = np.clip((own[:, None, :] <= inside[:, :, None]).sum(2), 1, own.shape[1] - 1)
    start, end = (np.take_along_axis(own, j, 1) for j in (after - 1, after))
    between = after - 1 + (inside - start) / np.maximum(end - start, _TINY)
    # Numbers grow with their points, so that both are sorted alike.
    whole = np.broadcast_to(np.arange(own.shape[1]), own.shape)
    grid, mine = (np.sort(np.concatenate(p, 1), 1) for p in ((own, inside), (whole, between)))
    parts = _parts([mine, np.interp(grid, common, np.arange(len(common)))])
    total = parts[:, -1:]
    panels = np.maximum(np.ceil(share * total - _SLACK), 1.0)
    wanted = np.minimum(np.arange(panels.max() + 1) / panels, 1.0) * total
    # One interpolation for all rows: each has a stretch of its own on a long axis.
    apart = np.arange(len(own))[:, None] * (2 * float(total.max()) + 1)
    found = np.interp((wanted + apart).ravel(), (parts + apart).ravel(), grid.ravel())
    return np.asarray(found.reshape(wanted.shape))


def _parts(numbers: list[Array]) -> Array:
    """∫(Σ dN³)^{1/3} along a grid, from N there, each (..., g)."""
    cubes = sum(np.diff(number) ** 3 for number in numbers)
    parts = np.zeros(numbers[0].shape)
    np.cumsum(np.cbrt(cubes), axis=-1, out=parts[..., 1:])
    return parts


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
    """`breaks` (b,), panels halved until `function`, (n,) → (c, n), is nearly polynomial on each.

    A panel is fine when the last two of its eight Legendre coefficients are below `tol` times the
    function's size; a kink is closed in upon by `rounds` halvings, to two thousand panels.
    """
    # Ends count: a kink between an end and the first node of Gauss would not be seen.
    nodes = np.clip(0.5 - 0.5 * np.cos(np.linspace(0, np.pi, _PROBE)), _INSIDE, 1 - _INSIDE)
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
_INSIDE = 1e-7  # of a panel: where a break point is itself a kink, both sides are smooth
