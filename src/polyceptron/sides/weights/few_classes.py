"""What a row of two or three classes leaves unknown, for any prior: a lattice, or panels of gaps.

On a lattice: f, fμ̃ and f(μ̃² + var) (`field_table`) are tabulated once on equal steps, and the sums
over the common shift c for all differences of y at once are products A diag(f) Aᵀ with
A_{yc} = f(y − c). Everything is entire in y and c: the trapezoidal rule converges faster than any
power.

At large q̂, on panels of the gaps: sorted, the fields are 0, g₁ (and g₁ + g₂), k! orderings alike.
They have features of width 1 where gaps are small (a prior's spike, kink or edge) and of √q̂
elsewhere: g = λ sinh t on panels of t, and the shift as in `common_shift`.
"""

import math
from functools import lru_cache
from itertools import permutations

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.common_shift import SCALE, closeness, shift_moments, shift_nodes
from polyceptron.sides.weights.field_table import (
    FieldTable,
    field_table,
    reach,
    scalar_posterior,
    single_variance,
)

_PANEL = 1.5  # of the gaps


def hidden_variance(
    table: FieldTable, n_classes: int, order: int, step: float
) -> tuple[float, float]:
    """What the shift hides of v at k = 2 or 3, `order` nodes a panel; the probability less 1."""
    end = math.asinh(2 * table.reach / SCALE)
    t, weight = panel_rule(np.linspace(0.0, end, math.ceil(end / _PANEL) + 1), order)
    g, weight = SCALE * np.sinh(t), SCALE * np.cosh(t) * weight
    if n_classes == 2:
        found = shift_moments(table, np.stack([0 * g, g], -1), step)
        chance = 2 * weight * np.exp(found.log_density)
        return float(chance @ found.hidden), float(chance.sum()) - 1
    z, z_weight = shift_nodes(table, step)
    own = table(-z, 2)

    def both(gap: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """ln f and μ̃ (n, nodes) of a class above by `gap` (n, 1), and of one below."""
        up = table(gap - z, 2)
        return up, (up[0][:, ::-1], -up[1][:, ::-1]) if table.even else table(-gap - z, 2)

    up, down = both(g[:, None])
    variance, mass = 0.0, -1.0
    for n in range(g.size):
        seen = g[n] + g < 2 * table.reach
        if table.even:  # the mirror image of a pair of gaps is alike
            seen[:n] = False
        sums = g[n] + g[seen, None]
        far_up, far_down = both(sums)
        g1, g2 = g[n], g[seen, None]
        # Around each class in turn: (ln f, μ̃) of the three, and how far each is.
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
            first = [x + (w * mean).sum(-1) for x, mean in zip(first, (a, b, c), strict=True)]
            second = second + (w * spread).sum(-1)
        squared = sum((x - y) ** 2 for x, y in permutations(first, 2)) / 6  # ‖P first‖²
        node = 6 * weight[n] * weight[seen]
        if table.even:
            node[1:] *= 2
        variance += float(node @ np.maximum(second - squared / np.maximum(P, 1e-290), 0.0))
        mass += float(node @ P)
    return variance / 2, mass


def lattice(prior: Prior, q_hat: float) -> tuple[float, int]:
    """Its step, and its points on each side of 0.

    Where a finite prior switches between values δ apart √q̂ δ step = 0.6 leaves 1e-14.
    """
    apart = 0.0 if prior.support is None else float(np.diff(prior.support[0]).max())
    step = min(0.35, 0.6 / (math.sqrt(q_hat) * apart + 1e-300))
    return step, math.ceil(reach(prior, q_hat) / step)


def lattice_variance(prior: Prior, n_classes: int, q_hat: float) -> float:
    """v at q̂ for k = 2 or 3 and any prior."""
    step, n = lattice(prior, q_hat)
    place = np.arange(-n, n + 1)
    log_f, mean, variance = scalar_posterior(prior, q_hat, place * step)
    f = np.exp(log_f) * step
    first_f, second_f = f * mean, f * (mean**2 + variance)
    if n_classes == 2:
        P, cross, square = (np.correlate(t, f, "full") for t in (f, first_f, second_f))
        first = cross - cross[::-1]
        second = square + square[::-1] - 2 * np.correlate(first_f, first_f, "full")
    else:
        # Row d, column c: the table at y = d − c; outside the lattice f is nothing.
        index = np.arange(-2 * n, 2 * n + 1)[:, None] - place
        inside = np.abs(index) <= n
        index = np.where(inside, index + n, 0)
        F, G, H = (np.where(inside, t[index], 0.0) for t in (f, first_f, second_f))
        here = f[::-1]  # the last class, at y = 0 − c
        right = (F * here).T
        P, cross, square = F @ right, G @ right, H @ right
        first = cross - cross.T
        second = square + square.T - 2 * (G @ (G * here).T)
    return 0.5 * float(np.maximum(second - first**2 / np.maximum(P, 1e-290), 0.0).sum())


# Lattice points on each side of 0 up to which it is quick (a tenth of a second); else nodes of a
# panel of gaps and the step of the shift: two coarser ones tell what a rule leaves.
_LARGEST_LATTICE = {2: 700, 3: 230}
GAP_RULES = {
    2: ((18, 0.09), (20, 0.075), (24, 0.06), (30, 0.05)),
    3: ((6, 0.34), (7, 0.3), (8, 0.25), (10, 0.2), (12, 0.17), (14, 0.14), (18, 0.11)),
}
GAP_ERROR = {2: 1e-8, 3: 2e-6}


@lru_cache(maxsize=64)
def gap_variance(prior: Prior, k: int, q_hat: float, level: int) -> tuple[float, float]:
    """What the shift hides by the rule of an accuracy level, and the mass less 1."""
    return hidden_variance(field_table(prior, q_hat), k, *GAP_RULES[k][level])


def few_shift_variance(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """v at q̂ for k = 2 or 3: the lattice, or where it is too large the gaps."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return lattice_variance(prior, k, q_hat)
    return single_variance(prior, q_hat) + gap_variance(prior, k, q_hat, level)[0]


def few_shift_error(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """The relative error that this leaves: what two coarser rules change, and the mass."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return 0.0
    rules = range(level - 2, level + 1)
    *coarse, (found, missing) = (gap_variance(prior, k, q_hat, rule) for rule in rules)
    v = single_variance(prior, q_hat) + found
    apart = sum(abs(found - other) for other, _ in coarse)  # one may agree by accident
    return apart / v + abs(missing) * min(1.0, 10 * found / v)  # it may hide ten times as much
