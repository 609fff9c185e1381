"""Gauss–Legendre panels on a line, short where an integrand changes quickly.

An integrand may change within scales of a boundary that differ by many decades: the spread of the
fields, the width of a label's transition, the scale of a loss. Panels that are short near the
boundary at each scale, and grow away from it, integrate it with a few digits a node. `blend_breaks`
makes one set of break points from the sets that each scale asks for; `resolve` halves panels until
the last two Legendre coefficients of a function on each are small.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from polyceptron.numerics import TINY, Array

# Break points in units of a Gaussian's standard deviation; beyond the last one it is below 1e-17.
GAUSS_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8])
CUTOFF = float(GAUSS_BREAKS[-1])
SHARE_OF_A_PANEL_TO_SPARE = 0.15  # a little more than n panels' worth is still n panels


@lru_cache(maxsize=32)
def legendre_rule(order: int) -> tuple[Array, Array]:
    """Return the nodes and weights of Gauss's rule on [0, 1], shape (order,) each."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def panel_rule(breaks: Array, order: int) -> tuple[Array, Array]:
    """Return nodes and weights over panels between `breaks` (..., b), each (..., (b−1)·order)."""
    x, w = legendre_rule(order)
    start = breaks[..., :-1, None]
    width = breaks[..., 1:, None] - start
    shape = (*breaks.shape[:-1], -1)
    return (start + width * x).reshape(shape), (width * w).reshape(shape)


def gauss(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Return Gauss nodes and weights (…, n) between arrays of ends (…)."""
    return panel_rule(np.stack([low, high], -1), n)


def blend_breaks(
    sets: Sequence[Array], low: float, high: float, *, keep: tuple[float, ...] = ()
) -> Array:
    """Return break points (b,) from `low` to `high` that follow several sorted sets of them.

    With N_i(x) how many panels of set i lie below x, the panels of the blend have equal parts of
    ∫(Σ_i dN_i³)^{1/3}. Where one set is much denser the blend follows it, and no panel is tiny
    because two sets have points side by side. At `keep` the integrand has a kink: a panel ends
    there.
    """
    kinks = sorted(x for x in keep if low < x < high)
    ends = np.array([low, *kinks, high])
    grid = np.concatenate([*sets, ends])
    grid = np.sort(grid[(grid >= low) & (grid <= high)])
    measure = panel_measure([np.interp(grid, breaks, np.arange(len(breaks))) for breaks in sets])
    marks = np.interp(ends, grid, measure)
    wanted = []
    for start, end in pairwise(marks.tolist()):
        n_panels = max(math.ceil(end - start - SHARE_OF_A_PANEL_TO_SPARE), 1)
        wanted.append(np.linspace(start, end, n_panels, endpoint=False))
    return np.interp(np.concatenate([*wanted, marks[-1:]]), measure, grid)


def blend_rows(own: Array, common: Array, share: float) -> Array:
    """Return break points (r, b') that follow both `own` (r, b) and `common` (c,) in each row.

    A row ends where its own points end. `share` is the number of panels per unit of the measure
    ∫(Σ dN³)^{1/3}. Rows with fewer panels than others repeat their last point.
    """
    inside = np.clip(common, own[:, :1], own[:, -1:])
    after = np.clip((own[:, None, :] <= inside[:, :, None]).sum(2), 1, own.shape[1] - 1)
    start = np.take_along_axis(own, after - 1, 1)
    end = np.take_along_axis(own, after, 1)
    number_inside = after - 1 + (inside - start) / np.maximum(end - start, TINY)
    number_own = np.broadcast_to(np.arange(own.shape[1]), own.shape)
    # Numbers grow with their points, so that sorting both keeps them together.
    grid = np.sort(np.concatenate([own, inside], 1), 1)
    number = np.sort(np.concatenate([number_own, number_inside], 1), 1)
    measure = panel_measure([number, np.interp(grid, common, np.arange(len(common)))])
    total = measure[:, -1:]
    panels = np.maximum(np.ceil(share * total - SHARE_OF_A_PANEL_TO_SPARE), 1.0)
    wanted = np.minimum(np.arange(panels.max() + 1) / panels, 1.0) * total
    return interpolate_rows(wanted, measure, grid)


def panel_measure(numbers: list[Array]) -> Array:
    """Return ∫(Σ_i dN_i³)^{1/3} along a grid, from the N_i there, each (..., g)."""
    cubes = sum(np.diff(number) ** 3 for number in numbers)
    measure = np.zeros(numbers[0].shape)
    np.cumsum(np.cbrt(cubes), axis=-1, out=measure[..., 1:])
    return measure


def interpolate_rows(wanted: Array, x: Array, y: Array) -> Array:
    """Return np.interp of each row, shape (r, w), from x and y (r, g).

    All rows are laid on one long axis, with a stretch of it for each.
    """
    offset = np.arange(len(y))[:, None] * (2 * float(x[:, -1].max()) + 1)
    found = np.interp((wanted + offset).ravel(), (x + offset).ravel(), y.ravel())
    return np.asarray(found.reshape(wanted.shape))


def resolve(
    function: Callable[[Array], Array],
    breaks: Array,
    *,
    tol: float = 1e-6,
    max_panels: int = 2000,
) -> Array:
    """Halve the panels between `breaks` (b,) until a function is nearly a polynomial on each.

    Parameters
    ----------
    function : callable
        Takes points (n,) and returns values (c, n) of c quantities.
    breaks : array, (b,)
    tol : float
        Of the last two Legendre coefficients, relative to the size of the function.
    max_panels : int

    Returns
    -------
    array
        Break points.
    """
    # The nodes that are tried include the ends of a panel, less a little: a kink between an end
    # and the first node of Gauss would not be seen, and an end itself may be a kink.
    nodes = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 8))
    nodes = np.clip(nodes, 1e-7, 1 - 1e-7)
    to_coefficients = last_coefficients(tuple(nodes))
    low = breaks[:-1]
    high = breaks[1:]
    ends = [breaks[:1]]  # of panels that are smooth
    size: Array | None = None
    for _ in range(20):
        x = low[:, None] + (high - low)[:, None] * nodes
        values = function(x.ravel()).reshape(-1, *x.shape)  # (c, panels, nodes)
        if size is None:
            size = np.abs(values).max((1, 2))
        tail = np.abs(values @ to_coefficients.T).max(2)
        rough = (tail > tol * np.maximum(size, TINY)[:, None]).any(0)
        ends.append(high[~rough])
        low = low[rough]
        high = high[rough]
        n_panels = sum(map(len, ends)) + 2 * len(low)
        if len(low) == 0 or n_panels > max_panels:
            break
        middle = (low + high) / 2
        low = np.concatenate([low, middle])
        high = np.concatenate([middle, high])
    return np.unique(np.concatenate([*ends, high]))


@lru_cache
def last_coefficients(nodes: tuple[float, ...]) -> Array:
    """Return the map (2, n) from values at nodes of [0, 1] to the last Legendre coefficients."""
    basis = np.polynomial.legendre.legvander(2 * np.array(nodes) - 1, len(nodes) - 1)
    return np.asarray(np.linalg.inv(basis)[-2:], dtype=float)
