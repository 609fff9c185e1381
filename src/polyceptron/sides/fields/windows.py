"""Which fields and which L count, searched for once and used at order parameters nearby.

A search at one (τ, q, V) finds at each winning utility U the range of the label's field, the
highest field of a competitor, and the range of the conditioning variable L (`search_windows`). At
other order parameters nearby smooth functions of what was found serve (`with_windows`): averages
are then smooth in (τ, q, V), and Newton's method may differentiate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import TINY, Array
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.sides.fields.competitors import LOWEST_FIELD, competitor_nodes
from polyceptron.sides.fields.winner import WinnerAtUtility

Mask = NDArray[np.bool_]
_LARGEST_SHARE_OF_END = 1 - 1e-6  # P is kept this far below its least upper bound
_BISECTIONS = 12  # edges need two digits only: they say where nodes go, not what they weigh
_N_TRIED = 24  # values of L at which the bound is tried, and of the label's field at each


class Windows(NamedTuple):
    """What counts at each utility (c,).

    The label's edges are in standard deviations from its mean, the competitors' in units of √q, and
    the range of L is measured from the label's mean field.
    """

    label_low: Array
    label_high: Array
    competitor_top: Array
    L_low: Array
    L_high: Array


def search_windows(winner: WinnerAtUtility) -> Windows:
    """Search for what counts at each utility."""
    mean, spread = winner.label_field()
    bounded = winner._replace(edges=_field_edges(winner))
    low, high, top = bounded.edges
    L_low, L_high = _range_of_L(bounded)
    origin = winner.field_scale * mean
    return Windows(
        (low - mean) / spread, (high - mean) / spread, top, L_low - origin, L_high - origin
    )


def with_windows(
    winner: WinnerAtUtility, searched: WinnerAtUtility, windows: Windows
) -> tuple[WinnerAtUtility, Array]:
    """Return `winner` with its edges, and the range (2, c) of L, from a search made nearby.

    An end of the range is known by the P of a label there, −ln(1 − P) in units of its value at
    `_balanced_depth`, and by how far off L is from that label, in standard deviations of its field.

    Parameters
    ----------
    winner : WinnerAtUtility
        At the order parameters where averages are wanted.
    searched : WinnerAtUtility
        At those of the search, possibly with fewer utilities.
    windows : Windows
        What the search found.
    """
    at_utilities = _on_utilities(windows, len(winner.utilities.U))
    largest = winner.pull.largest
    d = -np.stack([at_utilities.L_low, at_utilities.L_high])  # ω_1 − L of a label at its mean field
    P = np.clip(searched.pull.label(d).P, 0.0, _LARGEST_SHARE_OF_END * largest)
    deviation = d - searched.pull.label_at(P)[0]
    deviations = deviation / (searched.field_scale * searched.label_field().spread)
    if math.isfinite(largest):
        stretch = _balanced_depth(winner) / _balanced_depth(searched)
        share = -np.expm1(np.log1p(-P / largest) * stretch)
        P = largest * np.minimum(share, _LARGEST_SHARE_OF_END)
    mean, spread = winner.label_field()
    d = winner.pull.label_at(P)[0] + winner.field_scale * spread * deviations
    edges = np.stack(
        [
            mean + spread * at_utilities.label_low,
            mean + spread * at_utilities.label_high,
            at_utilities.competitor_top,
        ]
    )
    return winner._replace(edges=edges), winner.field_scale * mean - d


def _on_utilities(windows: Windows, n: int) -> Windows:
    """Interpolate windows to n utilities; both sets are equal steps of the same normal score."""
    new = np.linspace(0, 1, n)
    old = np.linspace(0, 1, len(windows.label_low))
    return Windows(*(np.interp(new, old, row) for row in windows))


def _balanced_depth(winner: WinnerAtUtility) -> float:
    """Return −ln(1 − P) where all classes have the field 0, so that P = N p(−L).

    L is found by Newton's method, which climbs to it since P − N p is concave in L.
    """
    pull = winner.pull
    N = winner.n_competitors
    L = np.zeros(1)
    for _ in range(60):
        p, a = pull.competitor(-L)
        label = pull.label(-L)
        step = (N * p - label.P) / (label.a + N * a)
        L = L + step
        if step[0] < 1e-9 * (1 + L[0]):
            break
    return -math.log1p(-N * float(p[0]) / pull.largest)


def _field_edges(winner: WinnerAtUtility) -> Array:
    """Return the edges (3, c) outside which label or competitors are negligible."""
    log_label_floor = 26.0  # a label's density is followed down to e^−26 of its peak
    log_competitor_floor = 17.0  # and that of all competitors together to e^−17
    mean, spread = winner.label_field()
    tried = mean[:, None] + spread * np.linspace(-20, 12, 65)
    likeliest = winner.log_label_density(tried).argmax(1)
    peak = tried[np.arange(len(mean)), likeliest]
    floor = winner.log_label_density(peak) - log_label_floor

    def label_counts(x: Array) -> Mask:
        """Return where the label's density is above the floor."""
        return winner.log_label_density(x) > floor

    low = _bisected(label_counts, peak, peak - 22 * spread)
    high = _bisected(label_counts, peak, peak + 14 * spread)
    competitor_floor = -log_competitor_floor - math.log(winner.n_competitors)

    def competitor_counts(x: Array) -> Mask:
        """Return where the competitors' density is above the floor."""
        return np.asarray(winner.log_cdf_and_hazard(x)[0] - 0.5 * x * x > competitor_floor)

    top = _bisected(competitor_counts, np.minimum(low, 0.0), np.full_like(low, 9.0))
    return np.stack([low, high, np.maximum(top, LOWEST_FIELD + 1)])


def _bisected(
    holds: Callable[[Array], Mask], inside: Array, outside: Array, n: int = _BISECTIONS
) -> Array:
    """Return how far from `inside` (c,) a condition holds that does not at `outside` (c,)."""
    for _ in range(n):
        middle = (inside + outside) / 2
        within = holds(middle)
        inside = np.where(within, middle, inside)
        outside = np.where(within, outside, middle)
    return inside


def _range_of_L(winner: WinnerAtUtility) -> tuple[Array, Array]:
    """Return the least and largest L (c,) that count, by Chernoff's bound on their weight."""
    log_floor = 15.0  # the weight of L is followed down to e^−15 of its peak
    pull = winner.pull
    scale = winner.field_scale
    N = winner.n_competitors
    low, high, top = winner.edges
    bottom = np.full_like(low, LOWEST_FIELD * scale)
    least = np.maximum(_L_of_fields(pull, scale * low, bottom, N), scale * low)
    most = np.maximum(_L_of_fields(pull, scale * high, scale * top, N), least + 1e-12)
    for depth in (2 * log_floor, log_floor):  # a first look, and a second one inside its range
        L = least[:, None] + (most - least)[:, None] * np.linspace(0, 1, _N_TRIED)
        above = _log_weight_bound(winner, L)
        above += depth - above.max(1, keepdims=True)
        step = (most - least) / (_N_TRIED - 1)
        least = least + step * _first_rise(above)
        most = most - step * _first_rise(above[:, ::-1])
    return least, most


def _first_rise(f: Array) -> Array:
    """Return where rows f (c, n) first rise above 0, in steps; 0 for rows that begin above."""
    rows = np.arange(len(f))
    after = (f > 0).argmax(1)
    before = np.maximum(after - 1, 0)
    low = f[rows, before]
    high = f[rows, after]
    return np.where(after > 0, before + low / np.minimum(low - high, -TINY), 0.0)


def _log_weight_bound(winner: WinnerAtUtility, L: Array) -> Array:
    """Return a bound on the logarithm of what L (c, l) weighs, sharp up to factors of order 1.

    For every tilt t, E g(P) ≤ max_P [g(P) e^{−tP}] · (E e^{tp})^N: the least of several t is kept.
    """
    N = winner.n_competitors
    one = competitor_nodes(winner, L, 12)
    low, high, _ = winner.edges[..., None, None]
    x = low + (high - low) * np.linspace(0, 1, _N_TRIED)
    P, a, _ = winner.pull.label(winner.field_scale * x - L[..., None])
    mean_a = (one.weight * one.a).sum(-1) / np.maximum(one.weight.sum(-1), TINY)
    spread_of_P = np.sqrt(N * one.central + TINY)[..., None]
    # The law of P, in units of how P changes over the label's own spread.
    seen_spread = spread_of_P / (winner.field_scale * winner.label_field().spread)
    log_S_over_a = np.log((a + N * mean_a[..., None]) / np.maximum(a, seen_spread))
    log_g = winner.log_label_density(x) + log_S_over_a
    P_above = P - (N * one.floor)[..., None]
    p_above = one.p - one.floor[..., None]
    log_weight = np.log(np.maximum(one.weight, TINY))
    best = np.full_like(L, math.inf)
    # Tilts of both signs, from 1 over the largest p to 20 standard deviations of P.
    log_weakest = np.log(1 / np.maximum(p_above.max(-1, keepdims=True), TINY))
    log_strongest = np.maximum(np.log(20.0 / spread_of_P), log_weakest + 1)
    for signed_share in np.linspace(-1, 1, 17):
        log_size = log_weakest + np.abs(signed_share) * (log_strongest - log_weakest)
        t = np.sign(signed_share) * np.exp(log_size)
        log_label = (log_g - t * P_above).max(-1)
        tilted = log_weight + t * p_above
        peak = tilted.max(-1)
        log_competitor = peak + np.log(np.exp(tilted - peak[..., None]).sum(-1))
        best = np.minimum(best, log_label + N * log_competitor)
    return best


def _L_of_fields(pull: AdditivePull, label: Array, competitor: Array, n_competitors: int) -> Array:
    """Return L (c,) at which the label's field is `label` and all competitors' `competitor`."""
    low = np.minimum(label, competitor) - 1.0
    high = np.maximum(label, competitor) + 40.0 + math.log(n_competitors) + abs(pull.knee)
    smallest_gap = min(float(np.abs(label - competitor).max()) + 1e-12, 1.0)
    more_bisections = math.ceil(math.log2(1 / smallest_gap))

    def is_large_enough(L: Array) -> Mask:
        """Return where the label's field at L (c,) reaches the one asked for."""
        P = n_competitors * pull.competitor(competitor - L)[0]
        possible = pull.largest > P
        label_field = L + pull.label_at(np.where(possible, P, 0.0))[0]
        return np.asarray(possible & (label_field >= label))

    return _bisected(is_large_enough, high, low, _BISECTIONS + more_bisections)
