"""Nodes inside an orthant for a Gaussian: E h(g) 1[g > 0] of g ~ N(μ, Σ) in r dimensions.

For r ≤ 2 there are panels, one coordinate after the other. They are short across *lines*
n·g + o = 0, near which the integrand changes over a width w: those of the Gaussian itself, and the
caller's. Given g₁, the Gaussian of g₂ is one more line.

Above, g = μ + Ly with L the Cholesky factor: y₁, y₂, … are drawn from their normals cut off where
g < 0, and a point weighs the product of what was left of each. No point is outside the orthant, so
that probabilities have a relative error however small they are.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from polyceptron.numerics import Array
from polyceptron.numerics.panels import (
    CUTOFF,
    GAUSS_BREAKS,
    interpolate_rows,
    panel_measure,
    panel_rule,
)

BREAKS_ON_BOTH_SIDES = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
NEGLIGIBLE_WEIGHT = 1e-17  # of the largest
SMALLEST_VARIANCE = 1e-30  # of g₂ given g₁, where both are one
STRICTLY_RISING = 1e-13  # per point, added to a measure whose points may coincide


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
    """Return a rule of panels for g ~ N(mean (r,), covariance (r, r)), r = 1 or 2.

    Parameters
    ----------
    lines : sequence of Line
        Where the integrand changes, besides the Gaussian itself.
    order : int
        Nodes of a panel.
    """
    if len(mean) == 1:
        first, weight = _first_coordinate(mean, covariance, lines, order)
        return Nodes(first[:, None], weight[None])
    slope = covariance[0, 1] / covariance[0, 0]
    rest = math.sqrt(max(covariance[1, 1] - slope * covariance[0, 1], SMALLEST_VARIANCE))
    given_first = Line(np.array([-slope, 1.0]), float(slope * mean[0] - mean[1]), rest)
    # Where a line meets g₂ = 0 the integral over g₂ changes with g₁.
    first, weight = _first_coordinate(mean, covariance, [*lines, given_first], order)
    seen = weight > NEGLIGIBLE_WEIGHT * weight.max(initial=0.0)
    if not seen.any():  # so far off that its density is 0
        return Nodes(np.zeros((0, 2)), np.zeros((1, 0)))
    first = first[seen]
    weight = weight[seen]
    centre = mean[1] + slope * (first - mean[0])
    across = [line for line in (given_first, *lines) if line.normal[1]]
    high = np.maximum(centre + CUTOFF * rest, 0.0)
    second, weight_second = panel_rule(_breaks(across, first[:, None], high), order)
    total = weight[:, None] * weight_second * _normal_density(second - centre[:, None], rest)
    seen = total > NEGLIGIBLE_WEIGHT * total.max(initial=0.0)
    points = np.stack([np.broadcast_to(first[:, None], seen.shape)[seen], second[seen]], 1)
    return Nodes(points, total[seen][None])


def _first_coordinate(
    mean: Array, covariance: Array, lines: Sequence[Line], order: int
) -> tuple[Array, Array]:
    """Return nodes (n,) of g₁ > 0 and their weights (n,), the density of g₁ included."""
    deviation = math.sqrt(covariance[0, 0])
    own = Line(np.eye(len(mean))[0], -float(mean[0]), deviation)
    high = np.array([max(mean[0] + CUTOFF * deviation, 0.0)])
    across = [line for line in (own, *lines) if line.normal[0]]
    breaks = _breaks(across, np.zeros((1, 0)), high)[0]
    first, weight = panel_rule(breaks, order)
    return first, weight * _normal_density(first - mean[0], deviation)


def _normal_density(x: Array, deviation: float) -> Array:
    scale = deviation * math.sqrt(2 * math.pi)
    return np.asarray(np.exp(-0.5 * (x / deviation) ** 2) / scale)


def _breaks(lines: Sequence[Line], before: Array, high: Array) -> Array:
    """Return break points (rows, b) from 0 to high (rows,) of the next coordinate of g.

    `before` (rows, j) are the coordinates before it.
    """
    j = before.shape[1]
    crossings = [-(line.offset + before @ line.normal[:j]) / line.normal[j] for line in lines]
    widths = [line.width / abs(line.normal[j]) for line in lines]
    ends = np.stack([np.zeros_like(high), high], 1)
    sets = [
        crossing[:, None] + width * BREAKS_ON_BOTH_SIDES
        for crossing, width in zip(crossings, widths, strict=True)
    ]
    grid = np.sort(np.clip(np.concatenate([*sets, ends], 1), 0.0, high[:, None]), 1)
    numbers = [
        np.interp(
            (grid - crossing[:, None]) / width,
            BREAKS_ON_BOTH_SIDES,
            np.arange(len(BREAKS_ON_BOTH_SIDES)),
        )
        for crossing, width in zip(crossings, widths, strict=True)
    ]
    measure = panel_measure(numbers)
    n_panels = max(math.ceil(float(measure[:, -1].max())), 1)
    wanted = np.arange(n_panels + 1) / n_panels * measure[:, -1:]
    rising = measure + STRICTLY_RISING * np.arange(measure.shape[1])
    breaks = interpolate_rows(wanted, rising, grid)
    breaks[:, 0] = 0.0
    breaks[:, -1] = high
    return breaks


def rarest_first(mean: Array, covariance: Array) -> NDArray[np.intp]:
    """Return the order of coordinates (..., r) in which points lose least of their weight."""
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    return np.argsort(mean / deviation, axis=-1, kind="stable")


def truncated_nodes(
    mean: Array, covariance: Array, uniform: Array, order: NDArray[np.intp] | None = None
) -> Nodes:
    """Return random points inside the orthant from uniform ones (replicates, n, r).

    They move smoothly with mean and covariance in a given `order` of the coordinates, by default
    that of `rarest_first`. Several Gaussians, mean (..., r) and covariance (..., r, r), have as
    many sets of points.
    """
    replicates, n, r = uniform.shape
    u = uniform.reshape(-1, r)
    if order is None:
        order = rarest_first(mean, covariance)
    mean = np.take_along_axis(mean, order, -1)
    rows = np.take_along_axis(covariance, order[..., None], -2)
    L = np.linalg.cholesky(np.take_along_axis(rows, order[..., None, :], -1))
    y = np.empty((r, *mean.shape[:-1], len(u)))
    g = np.empty(y.shape)
    weight = np.full(y.shape[1:], 1 / n)
    for i in range(r):
        centre = mean[..., i, None] + np.einsum("j...n,...j->...n", y[:i], L[..., i, :i])
        scale = L[..., i, i, None]
        left = ndtr(centre / scale)
        weight *= left
        y[i] = -ndtri(np.maximum(u[:, i] * left, 1e-300))
        g[i] = np.maximum(centre + scale * y[i], 0.0)
    in_given_order = np.argsort(order, -1)[..., None, :]
    points = np.take_along_axis(np.moveaxis(g, 0, -1), in_given_order, -1)
    return Nodes(points, weight.reshape(*mean.shape[:-1], replicates, n))
