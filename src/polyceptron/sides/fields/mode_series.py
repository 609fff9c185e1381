"""Fourier series in P = Σ p of what the label and its competitors are given L.

At a winning utility U and a value L of the conditioning variable, a function g(P) of
the label is written on a window of length `period` as

    g(P) = Σ_m Re c_m e^{−(σ + im·angle)(P − base)},      angle = 2π/period,  m = 0 … n

so that its mean over N independent competitors is Σ_m c_m times the N-th power of one competitor's
mode ⟨e^{−(σ + im·angle)(p − floor)}⟩, base = N·floor (`label_series`, `competitor_modes`).

The window reaches from below the law of P to the largest P that the label can meet; the factor
e^{−σP} keeps sums above it from coming back below. Where P has an upper end (P → 1 as the label
falls far below the others) the functions jump there; each is smoothed by a Gaussian times a
polynomial whose moments vanish. Smoothing in P is the same as a normaliser 1 + u in place of 1,
averaged over u: once L is integrated over, all is smooth in u, and nothing is changed.

Shapes: c utilities U, l values of L at each, and nodes or modes last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import TINY, Array
from polyceptron.numerics.panels import gauss, legendre_rule
from polyceptron.sides.fields.competitors import Competitors
from polyceptron.sides.fields.winner import SQRT_TWO_PI, WinnerAtUtility

Complex = NDArray[np.complex128]


class LabelFunction(IntEnum):
    """The label's functions of P, each times φF′ dω_1/dP."""

    ONE = 0
    P = 1
    P_SQUARED = 2
    FIELD_P = 3  # (ω_1 − L)P
    LOSS = 4


class ModeSeries(NamedTuple):
    """The series of the label's functions at each (U, L)."""

    counts: NDArray[np.bool_]  # (c, l), whether L contributes at all
    angle: Array  # (c, l)
    sigma: Array  # (c, l)
    coefficients: Complex  # (5, c, l, n + 1), by `LabelFunction`
    coefficients_a: Complex  # (5, c, l, n + 1), of the same functions times a_1


class CompetitorModes(NamedTuple):
    """⟨f e^{−(σ + im·angle)(p − floor)}⟩ of one competitor, m = 0 … n, for ten f: (c, l, n + 1)."""

    one: Complex
    a: Complex
    p_squared: Complex
    field_p: Complex  # (ω − L)p
    p_squared_a: Complex
    field_p_a: Complex
    hazard: Complex  # h = F′/F
    hazard_p: Complex
    hazard_a: Complex
    hazard_p_a: Complex


def competitor_modes(
    winner: WinnerAtUtility, L: Array, competitors: Competitors, series: ModeSeries, n: int
) -> CompetitorModes:
    """Return the modes 0 … n of one competitor at L (c, l)."""
    p_above = competitors.p - competitors.floor[..., None]
    field_from_L = winner.field_scale * competitors.x - L[..., None]
    functions = np.empty((10, *competitors.p.shape))
    one, a, p_squared, field_p, _, _, hazard, hazard_p, _, _ = functions
    np.multiply(competitors.weight, np.exp(-series.sigma[..., None] * p_above), out=one)
    np.multiply(one, competitors.a, out=a)
    np.multiply(one, competitors.p, out=p_squared)
    np.multiply(p_squared, field_from_L, out=field_p)
    p_squared *= competitors.p
    np.multiply(functions[2:4], competitors.a, out=functions[4:6])
    np.multiply(one, competitors.hazard, out=hazard)
    np.multiply(hazard, competitors.p, out=hazard_p)
    np.multiply(functions[6:8], competitors.a, out=functions[8:10])
    modes = fourier_modes(series.angle[..., None] * p_above, functions, n)
    modes[0] += _mass_below_nodes(winner, competitors)[..., None]
    return CompetitorModes(*modes)


def _mass_below_nodes(winner: WinnerAtUtility, competitors: Competitors) -> Array:
    """Return the mass (c, l) of one competitor that its nodes miss.

    All mass below U is known. What nodes do not have, and what is not above their top either, is
    far below, where p is nothing: it belongs to the function 1 alone.
    """
    top = np.maximum(winner.edges[2][:, None], competitors.top)
    middle = np.clip(winner.median_field()[:, None], competitors.top, top)
    missed = winner.utilities.below[:, None] - competitors.weight.sum(-1)
    for low, high in ((competitors.top, middle), (middle, top)):
        x, weight = gauss(low, high, 10)
        density = np.exp(winner.log_cdf_and_hazard(x)[0] - 0.5 * x**2)
        missed = missed - (weight * density).sum(-1) / SQRT_TWO_PI
    return missed


@dataclass(frozen=True)
class SumWindow:
    """The window of P on which the label's functions are series; arrays are (c, l).

    P is measured from `base`, N times the least p of a competitor. The window is
    first ≤ P − base ≤ first + period; its last `free_share` is kept empty.
    """

    base: Array
    law_start: Array  # P − base below which the law of the competitors' sum is nothing
    counts: NDArray[np.bool_]  # whether the label can meet that law at all
    reaches_end: NDArray[np.bool_]  # whether the label's functions jump at the end of P
    begins_inside: NDArray[np.bool_]  # whether label functions are cut off at `first`
    first: Array
    period: Array
    free_share: float
    damping: float  # σ times the period
    smoothing_width: float  # in windows

    @property
    def sigma(self) -> Array:
        """Return the rate σ of the factor e^{−σP}."""
        return self.damping / self.period

    @property
    def angle(self) -> Array:
        """Return the phase of the first mode per unit of P."""
        return 2 * math.pi / self.period


def _sum_window(winner: WinnerAtUtility, L: Array, competitors: Competitors, n: int) -> SumWindow:
    """Choose the window at L (c, l) for modes 0 … n."""
    pull = winner.pull
    scale = winner.field_scale
    N = winner.n_competitors
    low, high, _ = winner.edges[..., None]
    # The smoothing is as wide in P as in modes: as many widths are kept on each side. Beyond
    # 1.4√n inverse widths no mode of it is left.
    reach = 1.4 * math.sqrt(n)
    smoothing_width = reach / (2 * math.pi * n)
    margin = reach * smoothing_width  # in windows
    if math.isfinite(pull.largest):
        free_share = margin
        damping = 2 * reach
    else:  # nothing jumps: a tenth kept free, behind a factor e^−16
        free_share = 0.1
        damping = 16.0
    base = N * competitors.floor
    largest = pull.label(scale * low - L).P
    least = pull.label(scale * high - L).P
    # Chernoff's bound on the law of P falls to e^−16 at √(32 N E p²) below the mean.
    law_start = N * competitors.mean - np.sqrt(32.0 * N * competitors.second)
    law_start = np.maximum(law_start, 0.0)
    last = np.maximum(largest - base, law_start + 1e-9)
    reaches_end = largest > 0.9 * pull.largest
    below_smoothed = margin / (1 - 2 * margin) * (last - law_start)
    below_smooth = _room_below(winner, L, competitors)
    below = np.where(reaches_end, below_smoothed, below_smooth)
    first = np.maximum(np.minimum(least - base, law_start), law_start - below)
    return SumWindow(
        base=base,
        law_start=law_start,
        counts=largest - base > law_start,
        reaches_end=reaches_end,
        begins_inside=least - base < first,
        first=first,
        period=(last - first) / (1 - free_share),
        free_share=free_share,
        damping=damping,
        smoothing_width=smoothing_width,
    )


def _room_below(winner: WinnerAtUtility, L: Array, competitors: Competitors) -> Array:
    """Return how far (c, l) below its law a window of P begins where the label does not jump.

    It is 6.5 times the spread of P that the label's own field makes, or 1.5 times the scale on
    which the sum over the competitors varies.
    """
    low, high, _ = winner.edges[..., None]
    scale = winner.field_scale
    label_spread = scale * winner.label_field().spread
    nearest_field = np.minimum((low + high) / 2, L / scale)
    spread_of_P = label_spread * winner.pull.label(scale * nearest_field - L).a
    kurtosis_scale = competitors.fourth / np.maximum(competitors.central, TINY)
    grain = np.sqrt(kurtosis_scale + winner.n_competitors * competitors.central)
    return np.maximum(6.5 * spread_of_P, 1.5 * grain)


def label_series(winner: WinnerAtUtility, L: Array, competitors: Competitors, n: int) -> ModeSeries:
    """Return the series of modes 0 … n at L (c, l)."""
    window = _sum_window(winner, L, competitors, n)
    m = np.arange(n + 1)
    if math.isfinite(winner.pull.largest):
        share = 1 - window.free_share - 0.06  # the last 0.06 of the window has nodes of its own
        c = _modes_in_P(winner, L, window, share, n)
        c += _modes_near_end(winner, L, window, share, n)
    else:
        c = _modes_in_P(winner, L, window, 1 - window.free_share, n)
    width = np.where(window.reaches_end, window.smoothing_width * window.period, 0.0)
    frequency = window.angle[..., None] * m + 1j * window.sigma[..., None]
    twice_but_first = np.where(m == 0, 1.0, 2.0)
    c *= _smoothing_transform(frequency * width[..., None]) * (
        twice_but_first / window.period[..., None]
    )
    return ModeSeries(window.counts, window.angle, window.sigma, c[:5], c[5:])


def _modes_in_P(
    winner: WinnerAtUtility, L: Array, window: SumWindow, share: float, n: int
) -> Complex:
    """Integrate functions times modes over the first `share` of the window: (10, c, l, n + 1).

    Nodes follow P, at the same places of every window, so that one table of modes serves all.
    """
    place, step = (share * rule for rule in legendre_rule(_n_window_nodes(n, share)))
    P_above = window.first[..., None] + window.period[..., None] * place
    P = window.base[..., None] + P_above
    d, a, loss = winner.pull.label_at(P)
    x = (L[..., None] + d) / winner.field_scale
    weight = step * (window.period / winner.field_scale)[..., None] / a
    tapered = weight * _taper(window, P_above)
    weight = np.where(window.begins_inside[..., None], tapered, weight)
    functions = _label_functions(winner, x, L, weight, P, a, loss)
    c = (functions @ _window_modes(n, share, window.damping)).view(complex)
    shift = (window.damping - 2j * math.pi * np.arange(n + 1)) * (window.first / window.period)[
        ..., None
    ]
    return np.asarray(c * np.exp(shift))


def _taper(window: SumWindow, P_above: Array) -> Array:
    """Return a smooth factor (c, l, nodes): 1 near the law of P, 0 at the window's first point.

    It is 1 over the nearer seven tenths of the way down, and falls over the rest as
    1/(1 + exp(1/(1 − t) − 1/t)), 0 < t < 1.
    """
    flat = 0.7
    room = np.maximum(window.law_start - window.first, TINY)[..., None]
    depth = (window.law_start[..., None] - P_above) / room
    t = np.clip((depth - flat) / (1 - flat), 2e-3, 1 - 2e-3)
    return np.asarray(1 / (1 + np.exp(1 / (1 - t) - 1 / t)))


def _modes_near_end(
    winner: WinnerAtUtility, L: Array, window: SumWindow, share: float, n: int
) -> Complex:
    """Integrate over the part of P next to its end, on nodes in the label's field instead."""
    low, high, _ = winner.edges[..., None]
    pull = winner.pull
    scale = winner.field_scale
    P_split = window.base + window.first + share * window.period
    split = (L + pull.label_at(P_split)[0]) / scale
    x, weight = gauss(low + 0 * L, np.clip(split, low, high), n // 2 + 4)
    P, a, loss = pull.label(scale * x - L[..., None])
    P_above = P - window.base[..., None]
    weight = weight * np.exp(window.sigma[..., None] * P_above)
    functions = _label_functions(winner, x, L, weight, P, a, loss)
    return fourier_modes(window.angle[..., None] * P_above, functions, n)


def _label_functions(
    winner: WinnerAtUtility, x: Array, L: Array, weight: Array, P: Array, a: Array, loss: Array
) -> Array:
    """Return weights times the label's functions at x (c, l, nodes): (10, c, l, nodes).

    The first five are in the order of `LabelFunction`, the last five the same times a_1.
    """
    functions = np.empty((10, *x.shape))
    one, f_P, f_P_squared, f_field_P, f_loss = functions[:5]
    np.exp(winner.log_label_density(x), out=one)
    one *= weight
    one *= 1 / SQRT_TWO_PI
    np.multiply(one, P, out=f_P)
    np.multiply(f_P, P, out=f_P_squared)
    np.multiply(f_P, winner.field_scale * x - L[..., None], out=f_field_P)
    np.multiply(one, loss, out=f_loss)
    np.multiply(functions[:5], a, out=functions[5:])
    return functions


def _n_window_nodes(n: int, share: float) -> int:
    """Return the number of nodes of a window: π for each period of the last mode, and 12 more."""
    return round(math.pi * n * share) + 12


@lru_cache(maxsize=16)
def _window_modes(n: int, share: float, damping: float) -> Array:
    """Return e^{(damping − 2πim)s} at nodes s: (nodes, 2(n + 1)), real and imaginary in turn."""
    place = share * legendre_rule(_n_window_nodes(n, share))[0]
    exponent = (damping - 2j * math.pi * np.arange(n + 1)) * place[:, None]
    return np.exp(exponent).view(float)


def fourier_modes(phase: Array, functions: Array, n: int) -> Complex:
    """Return Σ_nodes f e^{−im·phase} for m = 0 … n.

    Parameters
    ----------
    phase : ndarray, (c, l, nodes)
    functions : ndarray, (f, c, l, nodes)
    n : int
        The last mode.

    Returns
    -------
    ndarray of complex, (f, c, l, n + 1)
    """
    rows_at_once = 8  # what a cache holds
    n_rows = math.prod(phase.shape[:-1])
    flat_phase = phase.reshape(n_rows, -1)
    flat_functions = functions.reshape(len(functions), n_rows, -1)
    sums = np.empty((len(functions), n_rows, n + 1), dtype=complex)
    table_shape = (min(n_rows, rows_at_once), flat_phase.shape[1], n + 1)
    table = np.empty(table_shape, dtype=complex)
    table[..., 0] = 1.0
    for start in range(0, n_rows, rows_at_once):
        part = slice(start, start + rows_at_once)
        powers = table[: len(flat_phase[part])]
        _fill_powers(powers, np.exp(-1j * flat_phase[part]))
        product = flat_functions[:, part].transpose(1, 0, 2) @ powers.view(float)
        sums[:, part] = product.view(complex).transpose(1, 0, 2)
    return sums.reshape(*functions.shape[:-1], n + 1)


def _fill_powers(powers: Complex, base: Complex) -> None:
    """Fill powers (rows, nodes, n + 1), whose power 0 is known, with those of base (rows, nodes).

    Each round doubles how many powers are known.
    """
    n_wanted = powers.shape[-1]
    n_known = 1
    factor = base  # base to the power n_known
    while n_known < n_wanted:
        n_more = min(n_known, n_wanted - n_known)
        more = powers[..., n_known : n_known + n_more]
        np.multiply(powers[..., :n_more], factor[..., None], out=more)
        factor = factor * factor
        n_known += n_more


def _smoothing_transform(z: Complex) -> Complex:
    """Return e^{−y} Σ_{j<5} yʲ/j! with y = z²/2, the Fourier transform of the smoothing.

    It is that of a Gaussian of width 1 times a polynomial; the even moments up to order 8 are those
    of no smoothing at all.
    """
    y = 0.5 * z * z
    term = np.ones_like(y)
    total = np.ones_like(y)
    for j in range(1, 5):
        term = term * y / j
        total = total + term
    return np.asarray(np.exp(-y) * total)
