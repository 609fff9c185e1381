"""Nodes of one competitor, given the winning utility U and the conditioning variable L.

Given U and L the competitors of a label are independent, and reach it by the sum P = Σ p(ω_h − L)
alone (`AdditivePull`). One competitor has x = ω/√q with the weight φ(x)F(U − ρx) (`winner`). Its
nodes are

    where p counts                  in p itself, since functions of P are wanted
    below, down to where p ≈ 0      in x, on panels broken at the turn of F and at the knee of p
    where p ≈ 0                     one node that carries the mass of all of them

and competitors whose p alone is more than the label can have are left out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import TINY, Array
from polyceptron.numerics.panels import gauss
from polyceptron.sides.fields.winner import LEAST_CORRELATION, SQRT_TWO_PI, WinnerAtUtility

LOWEST_FIELD = -7.0  # of x: a standard normal is lower with probability 1e-12
_LOG_NEGLIGIBLE_PULL = 14.0  # all p together below e^−14 of one at its knee count as nothing
_NODES_WHERE_PULL_IS_NOTHING = 12  # on each side of the turn of F; their sum is kept, not they


class Competitors(NamedTuple):
    """One competitor at each (U, L): nodes (c, l, nodes) and moments (c, l).

    Moments are those of p − floor under the weights, divided by the mass.
    """

    x: Array  # fields in units of √q
    weight: Array  # with φ(x)F(U − ρx)
    p: Array
    a: Array  # p′
    hazard: Array  # F′/F at U − ρx
    top: Array  # highest x kept (c, l)
    floor: Array  # least p (c, l)
    mean: Array
    second: Array  # mean square
    central: Array  # variance
    fourth: Array  # fourth central moment


class _FieldBreaks(NamedTuple):
    """Break points in x, each (c, l), in rising order, and the p at two of them."""

    bottom: Array
    negligible: Array  # p is next to nothing below
    knee: Array
    start: Array  # nodes are placed in x below, in p above
    top: Array
    p_start: Array
    p_top: Array
    floor: Array  # p at the bottom


def competitor_nodes(winner: WinnerAtUtility, L: Array, n: int) -> Competitors:
    """Return the nodes of one competitor at L (c, l), n of them where p counts."""
    breaks = _field_breaks(winner, L)
    p_above, p_weight = gauss(np.minimum(breaks.p_start, breaks.p_top), breaks.p_top, n)
    t, a_above = winner.pull.competitor_at(np.maximum(p_above, TINY))
    dx_dp = winner.field_scale * np.maximum(a_above, TINY)
    in_p = ((t + L[..., None]) / winner.field_scale, p_weight / dx_dp)
    rules = [*_rules_in_x(winner, breaks, n), in_p]
    x, weight = (np.concatenate(parts, -1) for parts in zip(*rules, strict=True))
    log_F, hazard = winner.log_cdf_and_hazard(x)
    weight = weight * np.exp(log_F - 0.5 * x * x) / SQRT_TWO_PI

    merged = 2 * _NODES_WHERE_PULL_IS_NOTHING
    mass_below = weight[..., :merged].sum(-1, keepdims=True)
    hazard_below = (weight * hazard)[..., :merged].sum(-1, keepdims=True)
    hazard_below = hazard_below / np.maximum(mass_below, TINY)
    x = np.concatenate([breaks.bottom[..., None], x[..., merged:]], -1)
    weight = np.concatenate([mass_below, weight[..., merged:]], -1)
    hazard = np.concatenate([hazard_below, hazard[..., merged:]], -1)

    p_below, a_below = winner.pull.competitor(winner.field_scale * x[..., :-n] - L[..., None])
    p = np.concatenate([p_below, p_above], -1)
    a = np.concatenate([a_below, a_above], -1)
    moments = _moments(p - breaks.floor[..., None], weight)
    return Competitors(x, weight, p, a, hazard, breaks.top, breaks.floor, *moments)


def _field_breaks(winner: WinnerAtUtility, L: Array) -> _FieldBreaks:
    """Return where the rules of one competitor begin and end, at L (c, l)."""
    pull = winner.pull
    scale = winner.field_scale
    N = winner.n_competitors
    lowest_label, _, highest_competitor = winner.edges[..., None]

    def field_of(p: Array) -> Array:
        """Return the competitor's field, in units of its scale, whose pull is p."""
        return np.asarray((L + pull.competitor_at(np.maximum(p, TINY))[0]) / scale)

    floor = pull.competitor(scale * LOWEST_FIELD - L)[0]
    largest_P = pull.label(scale * lowest_label - L).P
    # Half as much again as the label can have of one competitor: beyond, nothing is met.
    largest_p = floor + 1.5 * np.maximum(largest_P - N * floor, 1e-3 * np.abs(largest_P))
    bottom = np.full_like(L, LOWEST_FIELD)
    top = np.maximum(np.minimum(highest_competitor, field_of(largest_p)), bottom + 1e-9)
    p_top = pull.competitor(scale * top - L)[0]
    p_start = floor + 0.05 * (p_top - floor)
    start = np.clip(field_of(p_start), bottom, top)
    knee = np.clip((L + pull.knee) / scale, bottom, start)
    negligible = np.maximum(knee - (_LOG_NEGLIGIBLE_PULL + math.log(N)) / scale, bottom)
    return _FieldBreaks(bottom, negligible, knee, start, top, p_start, p_top, floor)


def _rules_in_x(winner: WinnerAtUtility, breaks: _FieldBreaks, n: int) -> list[tuple[Array, Array]]:
    """Return Gauss rules (nodes, weights) in x from the bottom to where nodes follow p."""
    # F(U − ρx) turns from 1 to 0 within a few widths below its median.
    turn_of_F = winner.median_field()[:, None] - 4 * winner.width / max(
        winner.rho, LEAST_CORRELATION
    )
    lower_turn = np.clip(turn_of_F, breaks.bottom, breaks.negligible)
    upper_turn = np.clip(turn_of_F, breaks.negligible, breaks.knee)
    n_below_knee = 6 + n // 6
    return [
        gauss(breaks.bottom, lower_turn, _NODES_WHERE_PULL_IS_NOTHING),
        gauss(lower_turn, breaks.negligible, _NODES_WHERE_PULL_IS_NOTHING),
        gauss(breaks.negligible, upper_turn, n_below_knee),
        gauss(upper_turn, breaks.knee, n_below_knee),
        gauss(breaks.knee, breaks.start, 2 + n // 5),
    ]


def _moments(p_above_floor: Array, weight: Array) -> list[Array]:
    """Return mean, mean square, variance and fourth central moment of p − floor, each (c, l)."""
    mass = np.maximum(weight.sum(-1), TINY)
    mean = (weight * p_above_floor).sum(-1) / mass
    deviation_squared = (p_above_floor - mean[..., None]) ** 2
    powers = (p_above_floor**2, deviation_squared, deviation_squared**2)
    return [mean, *((weight * power).sum(-1) / mass for power in powers)]
