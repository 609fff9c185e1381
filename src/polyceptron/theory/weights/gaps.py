"""Two and three classes of a continuous prior at large q̂: panels along the gaps of the fields.

In sorted order the fields are 0, g₁ (and g₁ + g₂), with k! orderings alike. What changes over a
width of 1 does so where gaps are small, the rest over √q̂: g = λ sinh t on panels of t. The common
shift is integrated as in `shift`; with three classes by tables, since the fields' differences are
g₁, g₂ and their sum.
"""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from polyceptron.theory.weights.field_law import FieldTable
from polyceptron.theory.weights.shift import SCALE, closeness, shift_moments, shift_nodes

Array = NDArray[np.float64]
Parts = tuple[Array, Array, Array]
_PANEL = 1.5


def gap_variance(table: FieldTable, n_classes: int, order: int, step: float) -> tuple[float, float]:
    """v, and the total probability less 1, which shows the rule's error; k = 2 or 3.

    `order` is the number of nodes of a panel of the gaps, `step` that of t along the shift.
    """
    g, weight = _gaps(table, order)
    if n_classes == 2:
        found = shift_moments(table, np.stack([np.zeros_like(g), g], -1), step)
        chance = 2 * weight * np.exp(found.log_density)
        return float(chance @ found.variance), float(chance.sum()) - 1
    z, z_weight = shift_nodes(table, step)
    own = table(-z)
    up, down = table(g[:, None] - z), table(-g[:, None] - z)
    variance, mass = 0.0, -1.0
    for n in range(g.size):
        seen = g[n] + g < 2 * table.reach
        sums = g[n] + g[seen, None]
        far_up, far_down = table(sums - z), table(-sums - z)
        g1, g2 = g[n], g[seen, None]
        # Around each class in turn: (ln f, μ̃, var) of the three, and how far each is.
        around = (
            (own, tuple(a[n] for a in up), far_up, (-z, g1 - z, sums - z)),
            (tuple(a[n] for a in down), own, tuple(a[seen] for a in up), (-g1 - z, -z, g2 - z)),
            (far_down, tuple(a[seen] for a in down), own, (-sums - z, -g2 - z, -z)),
        )
        P, first, second = 0.0, [0.0, 0.0, 0.0], 0.0
        for i, (*parts, away) in enumerate(around):
            near = [closeness(x) for x in away]
            w = np.exp(parts[0][0] + parts[1][0] + parts[2][0]) * (near[i] / sum(near) * z_weight)
            a, b, c = (part[1] for part in parts)
            spread = (2 * (a * a + b * b + c * c) - 2 * (a * b + b * c + a * c)) / 3
            P = P + w.sum(-1)
            first = [
                total + (w * mean).sum(-1) for total, mean in zip(first, (a, b, c), strict=True)
            ]
            inner = sum(part[2] for part in parts)
            second = second + (w * (2 / 3 * inner + spread)).sum(-1)
        squared = sum((x - y) ** 2 for x, y in permutations(first, 2)) / 6  # ‖P first‖²
        node = 6 * weight[n] * weight[seen]
        variance += float(node @ np.maximum(second - squared / np.maximum(P, 1e-290), 0.0))
        mass += float(node @ P)
    return variance / 2, mass


def _gaps(table: FieldTable, order: int) -> tuple[Array, Array]:
    """Gaps λ sinh t on Gauss–Legendre panels of t, and their weights."""
    end = math.asinh(2 * table.reach / SCALE)
    edges = np.linspace(0.0, end, math.ceil(end / _PANEL) + 1)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = 0.5 * np.diff(edges)[:, None]
    t = (edges[:-1, None] + half * (nodes + 1)).ravel()
    return SCALE * np.sinh(t), SCALE * np.cosh(t) * (half * weights).ravel()
