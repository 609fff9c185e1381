"""Gaussian integrals over an orthant g > 0 of r dimensions: where one class leads all others.

    P(g > 0)           g ~ N(μ, Σ): Φ at r = 1, the bivariate orthant at r = 2
    E h(g) 1[g > 0]    panels at r ≤ 2, one coordinate after the other; else random points

Panels are short across *lines* n·g + o = 0, near which the integrand changes over a width w: those
of the Gaussian itself, and the caller's. Given g₁ the Gaussian of g₂ is one more line.

Separation of variables, g = μ + Ly with L the Cholesky factor: y₁, y₂, … are drawn from their
normals cut off where g < 0, and a point weighs the product of what was left of each. No point is
outside the orthant, so that probabilities have a relative error however small they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from polyceptron.numerics import Array
from polyceptron.numerics.orthant import bivariate_orthant
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, panel_rule

_BREAKS = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
_UNSEEN = 1e-17  # of the largest weight


class Line(NamedTuple):
    """n·g + offset = 0, across which an integrand changes over a width (in units of n·g)."""

    normal: Array
    offset: float
    width: float


class Nodes(NamedTuple):
    """Points (n, r) inside the orthant, and weights (replicates, n/replicates)."""

    points: Array
    weight: Array


def orthant_chance(mean: Array, covariance: Array) -> float:
    """P(g > 0) for g ~ N(mean (r,), covariance (r, r)), r = 1 or 2, to 1e-13 of itself."""
    s = np.sqrt(np.diag(covariance))
    a = mean / s
    if len(a) == 1:
        return float(ndtr(a[0]))
    rho = float(np.clip(covariance[0, 1] / (s[0] * s[1]), -1 + 1e-15, 1 - 1e-15))
    return float(np.exp(bivariate_orthant(a[:1], a[1:], rho).log_z[0]))


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
    """Break points (rows, b) from 0 to high (rows,) of the next coordinate, given those before it.

    Each row follows every line at once, as in `blend_breaks`.
    """
    j = before.shape[1]
    at = [-(l.offset + before @ l.normal[:j]) / l.normal[j] for l in lines]
    width = [l.width / abs(l.normal[j]) for l in lines]
    sets = [c[:, None] + w * _BREAKS for c, w in zip(at, width, strict=True)]
    ends = np.stack([np.zeros_like(high), high], 1)
    grid = np.sort(np.clip(np.concatenate([*sets, ends], 1), 0.0, high[:, None]), 1)
    number = np.arange(len(_BREAKS))
    cubes = sum(
        np.diff(np.interp((grid - c[:, None]) / w, _BREAKS, number)) ** 3
        for c, w in zip(at, width, strict=True)
    )
    parts = np.concatenate([np.zeros((len(grid), 1)), np.cumsum(np.cbrt(cubes), 1)], 1)
    total = parts[:, -1:]
    panels = max(math.ceil(float(total.max())), 1)
    wanted = np.arange(panels + 1) / panels * total
    apart = np.arange(len(grid))[:, None] * (2 * float(total.max()) + 1)
    rising = parts + 1e-13 * np.arange(parts.shape[1])  # no two alike
    found = np.interp((wanted + apart).ravel(), (rising + apart).ravel(), grid.ravel())
    found = found.reshape(wanted.shape)
    found[:, 0], found[:, -1] = 0.0, high
    return np.asarray(found)


def rarest_first(mean: Array, covariance: Array) -> NDArray[np.intp]:
    """The order of coordinates in which points lose least of their weight."""
    return np.argsort(mean / np.sqrt(np.diag(covariance)), kind="stable")


def truncated_nodes(
    mean: Array, covariance: Array, uniform: Array, order: NDArray[np.intp] | None = None
) -> Nodes:
    """Random points inside the orthant from uniform ones (replicates, n, r).

    They move smoothly with mean and covariance in a given `order` of the coordinates.
    """
    replicates, n, r = uniform.shape
    u = uniform.reshape(-1, r)
    order = rarest_first(mean, covariance) if order is None else order
    L = np.linalg.cholesky(covariance[np.ix_(order, order)])
    y, g, weight = np.empty(u.shape), np.empty(u.shape), np.full(len(u), 1 / n)
    for i in range(r):
        centre = mean[order[i]] + y[:, :i] @ L[i, :i]
        left = ndtr(centre / L[i, i])
        weight *= left
        y[:, i] = -ndtri(np.maximum(u[:, i] * left, 1e-300))
        g[:, order[i]] = np.maximum(centre + L[i, i] * y[:, i], 0.0)
    return Nodes(g, weight.reshape(replicates, n))


_AT_ONCE = 400_000  # numbers of a table
GRID = np.arange(-5.5, 7.6, 0.5)  # of the trapezoidal rule: 9 digits up to k = 10, 7 at k = 50


def win_probabilities(fields: Array) -> Array:
    """P(class l has the largest field + unit noise), all l at once: (n, k) to (n, k).

    The winning value lies around the largest field, which the trapezoidal rule covers.
    """
    shifted, chances = fields - fields.max(1, keepdims=True), np.empty(fields.shape)
    size = max(1, _AT_ONCE // (GRID.size * fields.shape[1]))
    for part in (slice(i, i + size) for i in range(0, len(fields), size)):
        x = GRID - shifted[part, :, None]
        below = ndtr(x)
        ratio = np.exp(-0.5 * x * x) / below
        chances[part] = np.einsum("nx,nkx->nk", below.prod(1), ratio)
    return np.asarray(chances / chances.sum(1, keepdims=True))
