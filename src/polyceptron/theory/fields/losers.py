"""Configurations of the losers: the best one exactly, few of the others, the rest by their mean.

Student fields in units of √q. The best of k − 1 losers is at x₂; the N = k − 2 others are
independent below it. Whatever depends on them through sums and a product takes a *measure* as well
as points, so that f_A, with the others in A at points and the rest at their mean, is defined, and

    E f = f_∅ + N (E f_1 − f_∅) + ½N(N−1) (E f_2 − 2 E f_1 + f_∅) + …

Nothing is left out from order N on; order 1 already has all effects of second order in the spread.
Each order measures from the mean of its own rule, so that no order repeats a lower one. The number
of configurations does not depend on k.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from polyceptron.theory.fields.argmax_entropy import layer, layered_rule, levels
from polyceptron.theory.fields.averages import Array


class Configurations(NamedTuple):
    """g best losers with c configurations each.

    Losers x (g, h) with the best one first, how often each is there (g, c, h), the product of
    P(utility below C) over all losers (g, c, C), and weights (g, c).
    """

    x: Array
    copies: Array
    product: Array
    weight: Array


def configurations(
    n_classes: int, tau: float, width: float, nodes: tuple[int, ...], step: float
) -> list[Configurations]:
    """Order by order, the lowest first; their contributions add up.

    `tau` is the slope of a utility's mean in x over its spread, `width` that of the boundary in x,
    `nodes[n − 1]` the number of places of each of n known losers, `step` that of the best one in
    its standard deviations.
    """
    x2, w = best_loser(n_classes, width, step)
    N, n, C = n_classes - 2, len(x2), levels(n_classes)[0]
    log_cdf = log_ndtr(x2)
    size = layer(log_cdf, width)
    log_u, bath_weight = layered_rule(nodes[0], size)
    bath = ndtri_exp(log_cdf[:, None] + log_u)
    mean = np.einsum("nbc,nb->nc", _missed(tau, x2, bath, C), bath_weight)[:, None, :]
    base = np.exp(log_ndtr(C) + N * np.log1p(-mean))
    anchor = np.concatenate([np.ones((n, 1)), N * bath_weight], 1)[:, None, :]
    x = np.concatenate([x2[:, None], bath], 1)
    orders = [Configurations(x, anchor, base, w[:, None])]
    for order, count in enumerate(nodes[:N], 1):
        log_u, weight = layered_rule(count, size)
        few = ndtri_exp(log_cdf[:, None] + log_u)
        miss = _missed(tau, x2, few, C)
        own = np.einsum("nbc,nb->nc", miss, weight)[:, None, :]
        ratio = 1 + np.clip((own - miss) / (1 - mean), -1, 1e6)
        move = np.eye(count) - weight[:, None, :]  # a loser at a point, less its rule's mean
        moved, product, signed = [], [], []
        for known in range(order + 1):
            sets = list(combinations_with_replacement(range(count), known))
            index = np.array(sets, dtype=np.intp).reshape(len(sets), known)
            sign = (-1) ** (order - known) * math.comb(N, order) * math.comb(order, known)
            ways = np.array([_arrangements(s) for s in sets], dtype=float)
            moved.append(np.zeros((n, 1, count)) + move[:, index].sum(2))
            product.append(base * ratio[:, index].prod(2))
            signed.append(sign * ways * weight[:, index].prod(2) * w[:, None])
        moves = np.concatenate(moved, 1)
        if order == 1:  # the nodes of the mean serve again
            held = anchor + np.concatenate([np.zeros((n, moves.shape[1], 1)), moves], 2)
            places = x
        else:
            held = np.concatenate([np.repeat(anchor, moves.shape[1], 1), moves], 2)
            places = np.concatenate([x, few], 1)
        parts = np.concatenate(product, 1), np.concatenate(signed, 1)
        orders.append(Configurations(places, held, *parts))
    return orders


def best_loser(n_classes: int, width: float, step: float) -> tuple[Array, Array]:
    """Nodes x₂ and weights of the best of k − 1 losers, times k for the label's choice."""
    k = n_classes
    grid = np.linspace(-12, 12, 2401)
    # As the boundary narrows the label must sit beside the best loser: one more factor φ.
    log_p = -0.5 * grid**2 * (1 + 1 / (1 + 3 * width**2)) + (k - 2) * log_ndtr(grid)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = float(p @ grid)
    h = step * math.sqrt(float(p @ grid**2) - mean**2)
    x2 = mean + h * np.arange(-math.ceil(8 / step), math.ceil(24 / step))
    w = h * k * (k - 1) * np.exp(-0.5 * x2**2 + (k - 2) * log_ndtr(x2)) / math.sqrt(2 * math.pi)
    reach = w * np.exp(-0.5 * np.maximum(x2, 0) ** 2 / (1 + width**2))
    keep = reach > 1e-9 * reach.max()
    return x2[keep], w[keep]


def _missed(tau: float, x2: Array, x: Array, C: Array) -> Array:
    """P(utility above C) of a loser at x (n, nodes, C), C measured from the best one's mean."""
    return np.asarray(ndtr(-(tau * (x2[:, None] - x)[:, :, None] + C)))


def _arrangements(chosen: tuple[int, ...]) -> int:
    """In how many orders a multiset can be written."""
    repeats = math.prod(math.factorial(chosen.count(i)) for i in set(chosen))
    return math.factorial(len(chosen)) // repeats
