"""Three classes: a deterministic double integral over the gaps to the best and the worst loser.

With a = ω₁ − ω₂ and y = ω₂ − ω₃ ≥ 0 (class 2 the student's best loser; factor 6 for the order of
the classes) the fields have density exp(−(a² + ay + y²)/3q)/(2π√3 q), and Z* is the bivariate
normal orthant of correlation 1/2 at τa/√(2q), τ(a + y)/√(2q). For cross-entropy y is replaced by
the gap Y = z₂ − z₃ of the proximal point, in which the loss varies on scale 1:

    |∂ω/∂z| on 1⊥ = ∏_h (1 + V p_h) · Σ_h p_h/(1 + V p_h),    ∂a/∂A = 1 + V p₁(2p₂ + p₃).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr, owens_t, wrightomega

from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin
from polyceptron.model.prox import two_class_root
from polyceptron.numerics.erm_nodes import (
    CUTOFF,
    GAUSS_BREAKS,
    Array,
    merge_breaks,
    panel_rule,
    split_long,
)
from polyceptron.theory.erm.averages import Averages, Law
from polyceptron.theory.erm.two import gap_breaks, gap_scales, mistake_edge, softmax_gap_breaks

_SQRT3 = math.sqrt(3)
ORDERS = (4, 6, 8, 11, 15, 20)  # nodes a panel, by level
# For a < 0 the third class matters around y = −a, so the corner reaches further than one width.
CORNER_BREAKS = np.array([0.0, 1.6, 3.4, 5.8, 8.8, 14.0])
_NEGLIGIBLE = 42.0  # nodes whose Gaussian exponent is beyond this are dropped


class Grid(NamedTuple):
    """Flat nodes: the rows' coordinate, the coordinate along rows, and weights.

    For cross-entropy the two-class proximal gap of the row and Y, else a and y.
    """

    row: Array
    along: Array
    weight: Array


class Nodes(NamedTuple):
    """Flat nodes: gaps a, y; weights; f of the two losers; −tr_⊥∂f; loss; training gap A."""

    a: Array
    y: Array
    weight: Array
    f2: Array
    f3: Array
    trace: Array
    loss: Array
    A: Array


def orthant(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Z = P(x ≤ a, y ≤ b) of standard normals with correlation 1/2, a ≤ b, and ∂Z/∂a, ∂Z/∂b.

    Absolute accuracy 1e-11, which the weights of the rule never magnify. Far from the corner
    (b large) only a matters, and nothing there needs Owen's function.
    """
    z, slope_a, slope_b = ndtr(a), np.exp(-0.5 * a * a), np.zeros_like(a)
    near = np.flatnonzero((b < 6.7) & (a > -6.7))
    if near.size:
        h, g = a[near], b[near]
        slope_a[near] *= ndtr((2 * g - h) / _SQRT3)
        slope_b[near] = np.exp(-0.5 * g * g) * ndtr((2 * h - g) / _SQRT3)
        h, g = np.where(h == 0, 1e-300, h), np.where(g == 0, 1e-300, g)
        with np.errstate(over="ignore"):
            t = owens_t(h, (2 * g / h - 1) / _SQRT3) + owens_t(g, (2 * h / g - 1) / _SQRT3)
        z[near] = 0.5 * (z[near] + ndtr(g)) - t - 0.5 * ((h < 0) != (g < 0))
    norm = 1 / math.sqrt(2 * math.pi)
    return z, norm * slope_a, norm * slope_b


def place_softmax(law: Law, level: int) -> Grid:
    """Cross-entropy: rows of constant a, and along them the gap Y of the proximal losers.

    Rows are placed by their two-class proximal gap: in it the loss varies on scale 1 for every V.
    """
    order, V = ORDERS[level], law.V
    sigma, width = gap_scales(law)
    row, weight_row = panel_rule(softmax_gap_breaks(law), order)
    points = [width * CORNER_BREAKS, sigma * GAUSS_BREAKS]
    y_breaks = merge_breaks(points, 0.0, CUTOFF * sigma)
    # Near the row's start y ≈ Y + c(1 − e^{−Y}), c = V p₂: break points of y, seen in Y.
    loser = expit(-row)
    c = (V * loser / (1 + loser))[:, None] + 1e-300
    Y_breaks = np.maximum(y_breaks - c + np.real(wrightomega(c - y_breaks + np.log(c))), 0.0)
    Y_breaks[:, 0] = 0.0
    steps = np.array([0.7, 2.0, 4.5, 8.0, 13.0, 20.0])
    extra = np.minimum(np.broadcast_to(steps, (len(row), len(steps))), Y_breaks[:, -1:])
    breaks = np.sort(np.concatenate([Y_breaks, extra], axis=1), axis=1)
    Y, weight = panel_rule(breaks, order)
    a = (row - 2 * V * loser)[:, None]
    weight = weight * weight_row[:, None]
    keep = (weight > 0) & ((a * a + a * Y + Y * Y) / (3 * law.q) < _NEGLIGIBLE)
    return Grid(np.broadcast_to(row[:, None], Y.shape)[keep], Y[keep], weight[keep])


def softmax_nodes(law: Law, grid: Grid) -> Nodes:
    """Given (a, Y) the remaining gap A of the proximal point solves a two-class problem."""
    V, Y = law.V, grid.along
    loser = expit(-grid.row)
    a = grid.row - 2 * V * loser
    weight = grid.weight * (1 + 2 * V * loser * (1 - loser))
    E = np.exp(-Y)
    both = 1 + E
    log_both = np.log1p(E)
    u = two_class_root(log_both - a, V * (1 + 0.5 * E) / both)
    lost = expit(u)
    p1, p2 = 1 - lost, lost / both
    p3 = p2 * E
    y = Y + V * (p2 - p3)
    d1, d2, d3 = 1 + V * p1, 1 + V * p2, 1 + V * p3
    a1, a2, a3 = p1 / d1, p2 / d2, p3 / d3
    total = a1 + a2 + a3
    jacobian = d1 * d2 * d3 * total / (1 + V * p1 * (lost + p2))
    trace = 2 * (a1 * a2 + (a1 + a2) * a3) / total
    return Nodes(a, y, weight * jacobian, -p2, -p3, trace, np.logaddexp(0.0, u), log_both - u)


def place_fields(loss: Loss, law: Law, level: int) -> Grid:
    """Any loss: a grid in the student's gaps, with the kink of the hard margin on a panel edge."""
    order = ORDERS[level]
    sigma, width = gap_scales(law)
    points, top, low = [*gap_breaks(law)], CUTOFF * sigma, -CUTOFF * width
    scales = [width * CORNER_BREAKS, sigma * GAUSS_BREAKS]
    hard = isinstance(loss, MaxMargin)
    if hard:
        rows = merge_breaks(points, low, max(top, 1.5), keep=(1.0,))
    else:
        step = 2.5 / (1 + level)
        points.append(split_long(np.array([0.0]), max(low, -30.0), min(30.0, top), step))
        rows = merge_breaks(points, low, top, keep=(mistake_edge(loss, law.V, 3),))
        scales.append(step * np.arange(1.0, 13.0))
    a, weight_row = panel_rule(rows, order)
    base = merge_breaks(scales, 0.0, top)
    columns = np.broadcast_to(base, (len(a), len(base)))
    if hard:  # the worst loser is active for y < (1 − a)/2
        kink = np.clip((1 - a) / 2, 0.0, top)[:, None]
        columns = np.sort(np.concatenate([columns, kink], axis=1), axis=1)
    y, weight = panel_rule(np.ascontiguousarray(columns), order)
    a = np.broadcast_to(a[:, None], y.shape)
    keep = (a * a + a * y + y * y) / (3 * law.q) < _NEGLIGIBLE
    return Grid(a[keep], y[keep], (weight_row[:, None] * weight)[keep])


def field_nodes(loss: Loss, law: Law, grid: Grid) -> Nodes:
    """The loss's denoiser at the nodes."""
    a, y = grid.row, grid.along
    omega = np.stack([np.zeros_like(a), -a, -a - y], axis=1)
    label = np.zeros(len(a), dtype=np.int64)
    f, trace = loss.denoise(omega, label, law.V)
    f = f - f.mean(1, keepdims=True)  # the square loss also moves along 1, which no label shows
    z = omega + law.V * f
    value = np.zeros_like(a) if isinstance(loss, MaxMargin) else loss.value(z, label)
    return Nodes(a, y, grid.weight, f[:, 1], f[:, 2], trace, value, z[:, 0] - z[:, 1])


def place_nodes(loss: Loss, law: Law, level: int) -> Grid:
    """Nodes adapted to `law`; held still they serve any law near it, smoothly."""
    if isinstance(loss, CrossEntropy):
        return place_softmax(law, level)
    return place_fields(loss, law, level)


def joint_density(law: Law, a: Array, y: Array) -> Array:
    """6 × the density of the ordered gaps."""
    exponent = (a * a + a * y + y * y) / (3 * law.q)
    return np.asarray(3 / (math.pi * _SQRT3 * law.q) * np.exp(-exponent))


def averages(loss: Loss, law: Law, grid: Grid) -> Averages:
    """M, Q, C, D and the training averages at k = 3."""
    soft = isinstance(loss, CrossEntropy)
    nodes = softmax_nodes(law, grid) if soft else field_nodes(loss, law, grid)
    a, y, f2, f3 = nodes.a, nodes.y, nodes.f2, nodes.f3
    density = nodes.weight * joint_density(law, a, y)
    scale = law.tau / math.sqrt(2 * law.q)
    z, slope2, slope3 = orthant(scale * a, scale * (a + y))
    joint = density * z
    f1 = -f2 - f3
    along = -(a * f2 + (a + y) * f3) / (2 * law.q)
    pull = slope2 * (f1 - f2) + slope3 * (f1 - f3)
    norm = 1 / (math.sqrt(2) * law.teacher_width)  # the gap's scale in the orthant's arguments
    return Averages(
        M=np.atleast_1d(density @ pull) * (norm / 2),
        Q=np.atleast_1d(joint @ (f1 * f1 + f2 * f2 + f3 * f3) / 2),
        C=np.atleast_1d(joint @ nodes.trace / 2),
        D_plus=np.atleast_1d(joint @ np.maximum(along, 0.0)),
        D_minus=np.atleast_1d(joint @ np.maximum(-along, 0.0)),
        loss=np.atleast_1d(joint @ nodes.loss),
        error=np.atleast_1d(joint @ (nodes.A < 0)),
        mass=np.atleast_1d(joint.sum()),
    )
