"""Where nodes sit: Gauss–Legendre panels and boxes, and points inside an orthant.

An integrand that changes within scales of a boundary that differ by many decades (the spread of
the fields, the width of a label's transition, the scale of a loss) is integrated with a few digits
a node by panels that are short near the boundary at each scale and grow away from it. Others are
halved, panels or boxes, until the last two Legendre coefficients of a function on each are small.

E h(g) 1[g > 0] of g ~ N(μ, Σ) in r dimensions has panels at r ≤ 2, one coordinate after the other,
short across *lines* n·g + o = 0, near which the integrand changes over a width w: those of the
Gaussian itself, and the caller's. Given g₁ the Gaussian of g₂ is one more line. Above, g = μ + Ly
with L the Cholesky factor: y₁, y₂, … are drawn from their normals cut off where g < 0, and a point
weighs the product of what was left of each. No point is outside the orthant, so that probabilities
have a relative error however small they are.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from polyceptron.numerics import Array

# Break points in units of a Gaussian's standard deviation; beyond the last one it is below 1e-17.
GAUSS_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8])
CUTOFF = float(GAUSS_BREAKS[-1])
_BOTH_SIDES = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
_TINY = 1e-300
_SLACK = 0.15  # of a panel: a little more than n panels' worth is still n panels
_PROBE, _INSIDE = 8, 1e-7  # nodes that try a panel, off its ends: these may be kinks
_SMOOTH, _PANELS = 1e-6, 2000  # of the size of a function; most panels
_BOX_NODES = 200_000
_UNSEEN = 1e-17  # of the largest weight


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
    ∫(Σ dN_i³)^{1/3}: its own where one set is much denser, and none tiny because two sets have
    points side by side. At `keep` the integrand has a kink.
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
    return _each_row(np.minimum(np.arange(panels.max() + 1) / panels, 1.0) * total, parts, grid)


def _parts(numbers: list[Array]) -> Array:
    """∫(Σ dN³)^{1/3} along a grid, from N there, each (..., g)."""
    cubes = sum(np.diff(number) ** 3 for number in numbers)
    parts = np.zeros(numbers[0].shape)
    np.cumsum(np.cbrt(cubes), axis=-1, out=parts[..., 1:])
    return parts


def _each_row(wanted: Array, parts: Array, grid: Array) -> Array:
    """np.interp of each row, (r, w) from (r, g): on one long axis with a stretch for every row."""
    apart = np.arange(len(grid))[:, None] * (2 * float(parts[:, -1].max()) + 1)
    found = np.interp((wanted + apart).ravel(), (parts + apart).ravel(), grid.ravel())
    return np.asarray(found.reshape(wanted.shape))


def panel_rule(breaks: Array, order: int) -> tuple[Array, Array]:
    """Nodes and weights over panels; `breaks` is (..., b), the result (..., (b−1)·order)."""
    x, w = legendre_rule(order)
    start = breaks[..., :-1, None]
    width = breaks[..., 1:, None] - start
    shape = (*breaks.shape[:-1], -1)
    return (start + width * x).reshape(shape), (width * w).reshape(shape)


def gauss(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Gauss nodes and weights (…, n) between arrays of ends (…)."""
    return panel_rule(np.stack([low, high], -1), n)


def resolve(function: Callable[[Array], Array], breaks: Array) -> Array:
    """Panels `breaks` (b,) halved until `function`, (n,) → (c, n), is nearly polynomial there."""
    # Ends count: a kink between an end and the first node of Gauss would not be seen.
    nodes = np.clip(0.5 - 0.5 * np.cos(np.linspace(0, np.pi, _PROBE)), _INSIDE, 1 - _INSIDE)
    basis = _last_coefficients(tuple(nodes))
    done, open_ = [breaks[:1]], np.stack([breaks[:-1], breaks[1:]])
    size: Array | None = None
    for _ in range(20):
        x = open_[0][:, None] + (open_[1] - open_[0])[:, None] * nodes
        values = function(x.ravel()).reshape(-1, *x.shape)  # (c, panels, nodes)
        if size is None:
            size = np.abs(values).max((1, 2))
        tail = np.abs(values @ basis.T).max(2)
        rough = (tail > _SMOOTH * np.maximum(size, _TINY)[:, None]).any(0)
        done.append(open_[1][~rough])
        open_ = open_[:, rough]
        if not rough.any() or sum(map(len, done)) + 2 * rough.sum() > _PANELS:
            break
        (low, high), middle = open_, open_.mean(0)
        open_ = np.array([[low, middle], [middle, high]]).reshape(2, -1)
    return np.unique(np.concatenate([*done, open_[1]]))


@lru_cache
def _last_coefficients(nodes: tuple[float, ...]) -> Array:
    """(2, n): the last two Legendre coefficients of a function on [0, 1] from its values."""
    basis = np.polynomial.legendre.legvander(2 * np.array(nodes) - 1, len(nodes) - 1)
    return np.asarray(np.linalg.inv(basis)[-2:], dtype=float)


def smooth_boxes(
    function: Callable[[Array], Array], ends: Sequence[Array], *, tol: float, order: int
) -> tuple[Array, Array, Array]:
    """Nodes (n, r), weights (n,) and values (c, n) of `function`, (n, r) → (c, n), r = 1 or 2.

    `ends` are sorted break points along each axis, at which it may have kinks and jumps; a box is
    halved along the axes where it is not smooth to `tol` of the integrals of |function|.

    >>> ends = [np.array([-8.3, -3.0, 0.0, 3.0, 8.3])] * 2
    >>> bell = lambda x: np.exp(-(x**2).sum(1) / 2)[None]
    >>> x, w, values = smooth_boxes(bell, ends, tol=1e-9, order=8)
    >>> bool(abs(w @ values[0] / (2 * np.pi) - 1) < 1e-9)
    True
    """
    dimension = len(ends)
    place = [g.ravel() for g in np.meshgrid(*[np.arange(len(e) - 1) for e in ends], indexing="ij")]
    low = np.stack([e[i] for e, i in zip(ends, place, strict=True)], 1)
    width = np.stack([e[i + 1] for e, i in zip(ends, place, strict=True)], 1) - low
    t, w = legendre_rule(order)
    unit = np.stack([g.ravel() for g in np.meshgrid(*[t] * dimension, indexing="ij")], 1)
    weight = np.prod(np.meshgrid(*[w] * dimension, indexing="ij"), 0).ravel()
    basis = _last_coefficients(tuple(t))
    nodes, weights, found, total, size = [], [], [], 0, None
    for last in [False] * 15 + [True]:
        x = low[:, None] + width[:, None] * unit
        values = function(x.reshape(-1, dimension))
        volume = width.prod(1)
        if size is None:
            size = np.abs(values) @ (volume[:, None] * weight).ravel()
        values = values.reshape(len(values), len(low), *[order] * dimension)
        scale = np.maximum(tol * size, _TINY)[:, None] / np.maximum(volume, _TINY)
        rough = np.stack(
            [
                (
                    np.abs(np.tensordot(values, basis, (axis + 2, 1)))
                    .reshape(len(size), len(low), -1)
                    .max(2)
                    > scale
                ).any(0)
                for axis in range(dimension)
            ],
            1,
        )
        full = total + 2 * rough.any(1).sum() * len(unit) > _BOX_NODES
        done = np.full(len(low), True) if full or last else ~rough.any(1)
        nodes.append(x[done].reshape(-1, dimension))
        weights.append((volume[done, None] * weight).ravel())
        found.append(values[:, done].reshape(len(values), -1))
        total += len(nodes[-1])
        low, width, rough = low[~done], width[~done], rough[~done]
        for axis in range(dimension):
            split = rough[:, axis]
            half = width[split].copy()
            half[:, axis] /= 2
            upper = low[split].copy()
            upper[:, axis] += half[:, axis]
            width[split] = half
            low, width = np.concatenate([low, upper]), np.concatenate([width, half])
            rough = np.concatenate([rough, rough[split]])
        if not len(low):
            break
    return np.concatenate(nodes), np.concatenate(weights), np.concatenate(found, 1)


class Line(NamedTuple):
    """n·g + offset = 0, across which an integrand changes over a width (in units of n·g)."""

    normal: Array
    offset: float
    width: float


class Nodes(NamedTuple):
    """Points (n, r) inside the orthant, and weights (replicates, n/replicates)."""

    points: Array
    weight: Array


def panel_nodes(mean: Array, covariance: Array, lines: Sequence[Line], order: int) -> Nodes:
    """A rule for g ~ N(mean (r,), covariance (r, r)), r = 1 or 2."""
    s = math.sqrt(covariance[0, 0])
    own = Line(np.eye(len(mean))[0], -float(mean[0]), s)
    # Where a line meets g₂ = 0 the integral over g₂ changes with g₁.
    outer = [own, *lines]
    if len(mean) == 2:
        tilt = covariance[0, 1] / covariance[0, 0]
        rest = math.sqrt(max(covariance[1, 1] - tilt * covariance[0, 1], 1e-30))
        inner = Line(np.array([-tilt, 1.0]), float(tilt * mean[0] - mean[1]), rest)
        outer.append(inner)
    high = np.array([max(mean[0] + CUTOFF * s, 0.0)])
    breaks = _breaks([l for l in outer if l.normal[0]], np.zeros((1, 0)), high)[0]
    first, weight = panel_rule(breaks, order)
    weight = weight * _density(first - mean[0], s)
    if len(mean) == 1:
        return Nodes(first[:, None], weight[None])
    seen = weight > _UNSEEN * weight.max(initial=0.0)
    if not seen.any():  # so far off that its density is 0
        return Nodes(np.zeros((0, 2)), np.zeros((1, 0)))
    first, weight = first[seen], weight[seen]
    centre = mean[1] + tilt * (first - mean[0])
    across = [l for l in (inner, *lines) if l.normal[1]]
    high = np.maximum(centre + CUTOFF * rest, 0.0)
    second, each = panel_rule(_breaks(across, first[:, None], high), order)
    total = weight[:, None] * each * _density(second - centre[:, None], rest)
    seen = total > _UNSEEN * total.max(initial=0.0)
    points = np.stack([np.broadcast_to(first[:, None], seen.shape)[seen], second[seen]], 1)
    return Nodes(points, total[seen][None])


def _density(x: Array, s: float) -> Array:
    return np.asarray(np.exp(-0.5 * (x / s) ** 2) / (s * math.sqrt(2 * math.pi)))


def _breaks(lines: Sequence[Line], before: Array, high: Array) -> Array:
    """Break points (rows, b) from 0 to high (rows,) of the next coordinate, given those before."""
    j = before.shape[1]
    at = [-(l.offset + before @ l.normal[:j]) / l.normal[j] for l in lines]
    width = [l.width / abs(l.normal[j]) for l in lines]
    sets = [c[:, None] + w * _BOTH_SIDES for c, w in zip(at, width, strict=True)]
    ends = np.stack([np.zeros_like(high), high], 1)
    grid = np.sort(np.clip(np.concatenate([*sets, ends], 1), 0.0, high[:, None]), 1)
    number = np.arange(len(_BOTH_SIDES))
    seen = [(grid - c[:, None]) / w for c, w in zip(at, width, strict=True)]
    parts = _parts([np.interp(x, _BOTH_SIDES, number) for x in seen])
    panels = max(math.ceil(float(parts[:, -1].max())), 1)
    wanted = np.arange(panels + 1) / panels * parts[:, -1:]
    rising = parts + 1e-13 * np.arange(parts.shape[1])  # no two alike
    found = _each_row(wanted, rising, grid)
    found[:, 0], found[:, -1] = 0.0, high
    return found


def rarest_first(mean: Array, covariance: Array) -> NDArray[np.intp]:
    """The order of coordinates in which points lose least of their weight."""
    spread = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    return np.argsort(mean / spread, axis=-1, kind="stable")


def truncated_nodes(
    mean: Array, covariance: Array, uniform: Array, order: NDArray[np.intp] | None = None
) -> Nodes:
    """Random points inside the orthant from uniform ones (replicates, n, r).

    They move smoothly with mean and covariance in a given `order` of the coordinates. Several
    Gaussians, along axes in front, have as many sets of points.
    """
    replicates, n, r = uniform.shape
    u = uniform.reshape(-1, r)
    order = rarest_first(mean, covariance) if order is None else order
    mean = np.take_along_axis(mean, order, -1)
    rows = np.take_along_axis(covariance, order[..., None], -2)
    L = np.linalg.cholesky(np.take_along_axis(rows, order[..., None, :], -1))
    y, g = np.empty((2, r, *mean.shape[:-1], len(u)))
    weight = np.full(y.shape[1:], 1 / n)
    for i in range(r):
        centre = mean[..., i, None] + np.einsum("j...n,...j->...n", y[:i], L[..., i, :i])
        scale = L[..., i, i, None]
        left = ndtr(centre / scale)
        weight *= left
        y[i] = -ndtri(np.maximum(u[:, i] * left, 1e-300))
        g[i] = np.maximum(centre + scale * y[i], 0.0)
    g = np.moveaxis(g, 0, -1)
    points = np.take_along_axis(g, np.argsort(order, -1)[..., None, :], -1)
    return Nodes(points, weight.reshape(*mean.shape[:-1], replicates, n))
