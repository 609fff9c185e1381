"""Two classes: one integral over the gap.

The student's gap a = ω₁ − ω₂ ~ N(0, 2q), the teacher's class 1 wins with Z* = Φ(τa/√(2q)), and
f = g(a)(1, −1). For cross-entropy the integration variable is the gap A of the proximal point, in
which everything is explicit: a = A − 2Vσ(−A).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

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

ORDERS = (6, 9, 12, 16, 22, 30)  # nodes a panel, by level


def gap_scales(law: Law) -> tuple[float, float]:
    """Standard deviation of the gap, and width of the teacher's transition in it."""
    sigma = math.sqrt(2 * law.q)
    return sigma, sigma / max(law.tau, 1.0)


def gap_breaks(law: Law) -> list[Array]:
    """Break points of the student's gap: both scales, on both sides of the boundary."""
    sigma, width = gap_scales(law)
    return [
        np.array([0.0]),
        -width * GAUSS_BREAKS,
        width * GAUSS_BREAKS,
        sigma * GAUSS_BREAKS,
    ]


def proximal_gap(gap: Array, V: float) -> Array:
    """A with A − 2Vσ(−A) = a: the two-class proximal point of cross-entropy."""
    return -two_class_root(-gap, np.full(gap.shape, V))


def softmax_gap_breaks(law: Law) -> Array:
    """Break points of the proximal gap A for cross-entropy."""
    gaps = np.unique(np.concatenate(gap_breaks(law)))
    A = proximal_gap(gaps, law.V)
    low, high = float(A[0]), float(A[-1])
    # In A the loss varies on scale 1, from the lowest gap to where e^{-A} has died out.
    dead = max(low, math.log1p(2 * law.V)) + 14
    points = split_long(A, low, min(high, dead), 2.8)
    tail = dead + np.array([4.0, 10.0, 20.0, 40.0])
    return merge_breaks([points, tail], low, high, keep=(0.0,))


class Line(NamedTuple):
    """Nodes and weights: the proximal gap A for cross-entropy, the student's gap a otherwise."""

    nodes: Array
    weights: Array


def place_nodes(loss: Loss, law: Law, level: int) -> Line:
    """Nodes adapted to `law`; held still they serve any law near it, smoothly."""
    if isinstance(loss, CrossEntropy):
        return Line(*panel_rule(softmax_gap_breaks(law), ORDERS[level]))
    sigma, width = gap_scales(law)
    points, low, high, edge = gap_breaks(law), -CUTOFF * width, CUTOFF * sigma, 1.0
    if not isinstance(loss, MaxMargin):
        points.append(split_long(np.array([0.0]), max(low, -30.0), min(high, 30.0), 2.5))
        edge = mistake_edge(loss, law.V, 2)
    breaks = merge_breaks(points, low, high, keep=(edge,))
    return Line(*panel_rule(breaks, ORDERS[level]))


def mistake_edge(loss: Loss, V: float, n_classes: int) -> float:
    """The student's gap at which a training sample is just mistaken, by bisection.

    With more classes it may depend on where the others are; they are taken far below.
    """
    label = np.zeros(1, dtype=np.int64)
    far = [-1e3] * (n_classes - 2)

    def mistaken(gap: float) -> bool:
        f, _ = loss.denoise(np.array([[gap, 0.0, *far]]), label, V)
        return gap + V * float(f[0, 0] - f[0, 1]) < 0

    low, high = -1.0, 0.0
    while low > -1e12 and not mistaken(low):
        low, high = 2 * low, low
    while high - low > 1e-13 * abs(low):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if mistaken(middle) else (low, middle)
    return high


class Pair(NamedTuple):
    """Two classes at gap a: f = (g, −g), −tr_⊥∂f, the proximal gap and the loss there."""

    a: Array
    g: Array
    trace: Array
    A: Array
    value: Array


def pair_at(loss: Loss, law: Law, a: Array) -> Pair:
    """The two-class denoiser at the student's gaps a (n,)."""
    V = law.V
    if isinstance(loss, CrossEntropy):
        A = proximal_gap(a, V)
        g = expit(-A)
        bend = 2 * g * expit(A)
        return Pair(a, g, bend / (1 + V * bend), A, np.logaddexp(0.0, -A))
    label = np.zeros(len(a), dtype=np.int64)
    f, trace = loss.denoise(np.stack([a / 2, -a / 2], axis=1), label, V)
    g = (f[:, 0] - f[:, 1]) / 2
    A = a + 2 * V * g
    z = np.stack([A / 2, -A / 2], axis=1)
    value = np.zeros_like(a) if isinstance(loss, MaxMargin) else loss.value(z, label)
    return Pair(a, g, trace, A, value)


def integrands(law: Law, pair: Pair) -> Array:
    """What is averaged over the gap a ~ N(0, 2q) of label 1, (8, n), in the order of `Averages`."""
    a, g = pair.a, pair.g
    argument = a * (law.tau / math.sqrt(2 * law.q))
    wins = ndtr(argument)
    # ∇Z*·f = 2g ∂Z*/∂(teacher gap mean), a N(0, 2(1−ρ²)) density at the mean.
    tilt = np.exp(-0.5 * argument**2) / (math.sqrt(math.pi) * law.teacher_width)
    along = a * g / law.q
    return np.stack(
        [
            tilt * g,
            wins * 2 * g**2,
            wins * pair.trace,
            wins * np.maximum(along, 0.0),
            wins * np.maximum(-along, 0.0),
            wins * pair.value,
            wins * (pair.A < 0),
            wins,
        ]
    )


def averages(
    loss: Loss, law: Law, line: Line, envelope: Callable[[Array], Array] | None = None
) -> Averages:
    """M, Q, C, D and the training averages at k = 2.

    `envelope`, a function of a/√(2q), multiplies the density of the gap.
    """
    weight = line.weights
    if isinstance(loss, CrossEntropy):
        A = line.nodes
        g = expit(-A)  # the loser's probability
        bend = 2 * g * expit(A)
        weight = weight * (1 + law.V * bend)  # da/dA
        trace = bend / (1 + law.V * bend)
        pair = Pair(A - 2 * law.V * g, g, trace, A, np.logaddexp(0.0, -A))
    else:
        pair = pair_at(loss, law, line.nodes)
    scaled = pair.a / math.sqrt(2 * law.q)
    density = weight * np.exp(-0.5 * scaled**2) / math.sqrt(math.pi * law.q)  # 2 labels × N(0, 2q)
    if envelope is not None:
        density = density * envelope(scaled)
    return Averages(*(integrands(law, pair) @ density)[:, None])
