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
from polyceptron.theory.erm.two import gap_breaks, gap_scales, softmax_gap_breaks

_SQRT3 = math.sqrt(3)
ORDERS = (4, 6, 9, 13, 18)  # nodes a panel, by level
_NEGLIGIBLE = 40.0  # nodes whose Gaussian exponent is beyond this are dropped


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


def orthant(a: Array, b: Array) -> Array:
    """P(x ≤ a, y ≤ b) of standard normals with correlation 1/2, for a ≤ b (absolute accuracy)."""
    z = ndtr(a)
    near = (b < 8.3) & (a > -8.3)
    if near.any():
        h, g = a[near], b[near]
        h, g = np.where(h == 0, 1e-300, h), np.where(g == 0, 1e-300, g)
        with np.errstate(over="ignore"):
            t = owens_t(h, (2 * g / h - 1) / _SQRT3) + owens_t(g, (2 * h / g - 1) / _SQRT3)
        z[near] = 0.5 * (z[near] + ndtr(g)) - t - 0.5 * ((h < 0) != (g < 0))
    return np.asarray(z)


def softmax_nodes(law: Law, level: int) -> Nodes:
    """Cross-entropy: rows of constant a, and along them the gap Y of the proximal losers.

    Given (a, Y) the remaining gap A of the proximal point solves a two-class problem. Rows are
    placed by their two-class proximal gap, in which the loss varies on scale 1 for every V.
    """
    order = ORDERS[level]
    V = law.V
    sigma, width = gap_scales(law)
    row, weight_row = panel_rule(softmax_gap_breaks(law, level), order)
    loser = expit(-row)
    a_row = row - 2 * V * loser
    weight_row = weight_row * (1 + 2 * V * loser * expit(row))
    points = [width * GAUSS_BREAKS[:-1], sigma * GAUSS_BREAKS]
    y_breaks = merge_breaks(points, 0.0, CUTOFF * sigma)
    # Near the row's start y ≈ Y + c(1 − e^{−Y}), c = V p₂: break points of y, seen in Y.
    c = (V * loser / (1 + loser))[:, None] + 1e-300
    Y_breaks = np.maximum(y_breaks - c + np.real(wrightomega(c - y_breaks + np.log(c))), 0.0)
    Y_breaks[:, 0] = 0.0
    steps = np.array([0.7, 2.0, 4.5, 8.0, 13.0, 20.0])
    top = Y_breaks[:, -1:]
    extra = np.minimum(np.broadcast_to(steps, (len(row), len(steps))), top)
    Y, weight = panel_rule(np.sort(np.concatenate([Y_breaks, extra], axis=1), axis=1), order)
    a = np.broadcast_to(a_row[:, None], Y.shape)
    weight = weight * weight_row[:, None]
    keep = (weight > 0) & ((a * a + a * Y + Y * Y) / (3 * law.q) < _NEGLIGIBLE + 4)
    Y, a, weight = Y[keep], a[keep], weight[keep]
    E = np.exp(-Y)
    both = 1 + E
    u = two_class_root(np.log(both) - a, V * (1 + 0.5 * E) / both)
    lost, p1 = expit(u), expit(-u)
    p2 = lost / both
    p3 = p2 * E
    y = Y + V * (p2 - p3)
    a1, a2, a3 = p1 / (1 + V * p1), p2 / (1 + V * p2), p3 / (1 + V * p3)
    total = a1 + a2 + a3
    jacobian = (1 + V * p1) * (1 + V * p2) * (1 + V * p3) * total / (1 + V * p1 * (lost + p2))
    trace = 2 * (a1 * a2 + (a1 + a2) * a3) / total
    return Nodes(a, y, weight * jacobian, -p2, -p3, trace, np.logaddexp(0.0, u), np.log(both) - u)


def field_nodes(loss: Loss, law: Law, level: int) -> Nodes:
    """Any loss: a grid in the student's gaps, with the kink of the hard margin on a panel edge."""
    order = ORDERS[level]
    sigma, width = gap_scales(law)
    points, top, low = [*gap_breaks(law)], CUTOFF * sigma, -CUTOFF * width
    scales = [width * GAUSS_BREAKS[:-1], sigma * GAUSS_BREAKS]
    hard = isinstance(loss, MaxMargin)
    if hard:
        rows = merge_breaks(points, low, max(top, 1.5), keep=(1.0,))
    else:
        step = 2.5 / (1 + level)
        rows = merge_breaks(
            [split_long(np.concatenate(points), max(low, -30.0), min(30.0, top), step)], low, top
        )
        scales.append(np.arange(1, 13) * step)
    a, wa = panel_rule(rows, order)
    base = merge_breaks(scales, 0.0, top)
    columns = np.broadcast_to(base, (len(a), len(base)))
    if hard:  # the worst loser is active for y < (1 − a)/2
        kink = np.clip((1 - a) / 2, 0.0, top)[:, None]
        columns = np.sort(np.concatenate([columns, kink], axis=1), axis=1)
    y, wy = panel_rule(np.ascontiguousarray(columns), order)
    a = np.broadcast_to(a[:, None], y.shape)
    keep = (a * a + a * y + y * y) / (3 * law.q) < _NEGLIGIBLE
    weight = (wa[:, None] * wy)[keep]
    a, y = a[keep], y[keep]
    omega = np.stack([np.zeros_like(a), -a, -a - y], axis=1)
    label = np.zeros(len(a), dtype=np.int64)
    f, trace = loss.denoise(omega, label, law.V)
    f = f - f.mean(1, keepdims=True)  # the square loss also moves along 1, which no label shows
    z = omega + law.V * f
    value = np.zeros_like(a) if hard else loss.value(z, label)
    return Nodes(a, y, weight, f[:, 1], f[:, 2], trace, value, z[:, 0] - z[:, 1])


def joint_density(law: Law, a: Array, y: Array) -> Array:
    """6 × the density of the ordered gaps."""
    exponent = (a * a + a * y + y * y) / (3 * law.q)
    return np.asarray(3 / (math.pi * _SQRT3 * law.q) * np.exp(-exponent))


def averages(loss: Loss, law: Law, level: int) -> Averages:
    """M, Q, C and the training averages at k = 3; `level` 0, 1, 2, ... refines."""
    if isinstance(loss, CrossEntropy):
        nodes = softmax_nodes(law, level)
    else:
        nodes = field_nodes(loss, law, level)
    a, y, f2, f3 = nodes.a, nodes.y, nodes.f2, nodes.f3
    density = nodes.weight * joint_density(law, a, y)
    scale = law.tau / math.sqrt(2 * law.q)
    h, g = scale * a, scale * (a + y)
    joint = density * orthant(h, g)
    # ∂Z*/∂(mean gap): a one-dimensional density times the chance to beat the third class too
    norm = 1 / (math.sqrt(4 * math.pi) * law.teacher_width)
    slope2 = norm * np.exp(-0.5 * h * h) * ndtr((2 * g - h) / _SQRT3)
    slope3 = norm * np.exp(-0.5 * g * g) * ndtr((2 * h - g) / _SQRT3)
    f1 = -f2 - f3
    along = -(a * f2 + (a + y) * f3) / (2 * law.q)
    pull = slope2 * (f1 - f2) + slope3 * (f1 - f3)
    return Averages(
        M=np.atleast_1d(density @ pull / 2),
        Q=np.atleast_1d(joint @ (f1 * f1 + f2 * f2 + f3 * f3) / 2),
        C=np.atleast_1d(joint @ nodes.trace / 2),
        D_plus=np.atleast_1d(joint @ np.maximum(along, 0.0)),
        D_minus=np.atleast_1d(joint @ np.maximum(-along, 0.0)),
        loss=np.atleast_1d(joint @ nodes.loss),
        error=np.atleast_1d(joint @ (nodes.A < 0)),
        mass=np.atleast_1d(joint.sum()),
    )
