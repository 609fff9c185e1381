"""Functions of P = Σ p over the losers, as Fourier series on a window that holds them.

The window reaches from below the law of P to the largest P that the label can meet; a factor
e^{−σP} keeps sums above it from coming back below. Where P has an end (P → 1 as the label falls far
below the others) the functions jump there; each is smoothed by a Gaussian times a polynomial whose
moments vanish. Smoothing in P is the same as a normaliser 1 + u in place of 1, averaged over u:
once L is integrated over, all is smooth in u, and nothing is changed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics.panels import legendre_rule
from polyceptron.theory.fields.averages import Array
from polyceptron.theory.fields.sum_nodes import Contest, Losers, gauss

Complex = NDArray[np.complex128]
_REACH = 32.0  # twice the exponent at which a tail bound is believed to be nothing
_NO_END = 0.1, 16.0  # share of the window kept free, and σ times it, where P has no end
_MOMENTS = 5  # even ones of the smoothing that are right, that of order 0 included
_DECAY = 1.4  # times √modes: widths⁻¹ beyond which no mode of the smoothing is left
_FLAT = 0.7  # of the widths kept below that are untouched
_NEAR = 0.06  # of the window, next to its upper end
_CHUNK = 32  # values of L at once: what a cache holds


class ModeSeries(NamedTuple):
    """At each L (c, l): whether it counts, angle and σ; coefficients (10, c, l, modes + 1).

    The functions are φF′ dω_1/dP times 1, P, P², ω_1 P, ℓ, and these times a_1.
    """

    alive: NDArray[np.bool_]
    angle: Array
    sigma: Array
    coefficients: Complex


def label_series(contest: Contest, L: Array, losers: Losers, n: int) -> ModeSeries:
    """The series at L (c, l), P measured from n_losers times its floor."""
    pull, _, _, root, n_losers, _, edges = contest
    low, high, _ = (edge[:, None] for edge in edges)
    # The smoothing is as wide in P as in modes: as many widths are kept on each side.
    reach = _DECAY * math.sqrt(n)
    unit = reach / (2 * math.pi * n)  # width of the smoothing in windows
    ends = math.isfinite(pull.largest)
    free, damping = (reach * unit, 2 * reach) if ends else _NO_END
    base = n_losers * losers.floor
    most, least = (pull.label(root * edge - L).P for edge in (low, high))
    start = n_losers * losers.mean - np.sqrt(_REACH * n_losers * losers.second)
    start = np.maximum(start, 0.0)  # the law of P is nothing below
    alive = most - base > start
    room = np.maximum(most - base, start + 1e-9)
    field = root * contest.label()[1]
    typical = np.minimum((low + high) / 2, L / root)
    spread = field * pull.label(root * typical - L).a
    ratio = losers.fourth / np.maximum(losers.central, 1e-300)
    grain = np.sqrt(ratio + n_losers * losers.central)
    to_end = most > 0.9 * pull.largest
    below = np.where(
        to_end,
        reach * unit / (1 - 2 * reach * unit) * (room - start),
        np.maximum(6.5 * spread, 1.5 * grain),
    )
    first = np.maximum(np.minimum(least - base, start), start - below)
    period = (room - first) / (1 - free)
    sigma, angle = damping / period, 2 * math.pi / period
    # Nodes follow P, at the same places of every window; next to its end the label's field.
    share = 1 - free - (_NEAR if ends else 0.0)
    place, step = (share * rule for rule in legendre_rule(_far_nodes(n, share)))
    above = first[..., None] + period[..., None] * place
    P = base[..., None] + above
    d, a, value = pull.label_at(P)
    x = (L[..., None] + d) / root
    weight = step * (period / root)[..., None] / a
    depth = (start[..., None] - above) / np.maximum(start - first, 1e-300)[..., None]
    cut = (least - base < first)[..., None]
    weight = np.where(cut, weight * _taper((depth - _FLAT) / (1 - _FLAT)), weight)
    c = _functions(contest, x, weight, P, a, value) @ _kernel(n, share, damping)
    m = np.arange(n + 1)
    c = c.view(complex) * np.exp((damping - 2j * math.pi * m) * (first / period)[..., None])
    if ends:
        split = (L + pull.label_at(base + first + share * period)[0]) / root
        x, weight = gauss(low + 0 * L, np.clip(split, low, high), n // 2 + 4)
        P, a, value = pull.label(root * x - L[..., None])
        above = P - base[..., None]
        weight = weight * np.exp(sigma[..., None] * above)
        functions = _functions(contest, x, weight, P, a, value)
        c += modes(angle[..., None] * above, functions, n)
    smooth = np.where(to_end, unit * period, 0.0)
    kept = _smoothing((angle[..., None] * m + 1j * sigma[..., None]) * smooth[..., None])
    c *= kept * (np.where(m == 0, 1.0, 2.0) / period[..., None])
    return ModeSeries(alive, angle, sigma, c)


def _functions(
    contest: Contest, x: Array, weight: Array, P: Array, a: Array, value: Array
) -> Array:
    """Weights times the label's functions at its fields x (c, l, nodes): (10, c, l, nodes)."""
    functions = np.empty((10, *x.shape))
    one, f_P, f_PP, f_oP, loss = functions[:5]
    log_density = contest.utilities.winning(contest.C[:, None, None], x) - 0.5 * x * x
    np.exp(log_density, out=one)
    one *= weight
    one *= 1 / math.sqrt(2 * math.pi)
    np.multiply(one, P, out=f_P)
    np.multiply(f_P, P, out=f_PP)
    np.multiply(f_P, contest.root * x, out=f_oP)
    np.multiply(one, value, out=loss)
    np.multiply(functions[:5], a, out=functions[5:])
    return functions


def _far_nodes(n: int, share: float) -> int:
    """π nodes a period of the last mode, and some more."""
    return round(math.pi * n * share) + 12


@lru_cache(maxsize=16)
def _kernel(n: int, share: float, damping: float) -> Array:
    """e^{(damping − 2πim)s} at nodes s of a share of the window: (nodes, 2(n + 1)), re and im."""
    place = share * legendre_rule(_far_nodes(n, share))[0]
    return np.exp((damping - 2j * math.pi * np.arange(n + 1)) * place[:, None]).view(float)


def modes(phase: Array, functions: Array, n: int) -> Complex:
    """Σ_nodes function · e^{−im·phase}, m = 0..n: (functions, c, l, n + 1)."""
    rows = math.prod(phase.shape[:-1])
    phase, flat = phase.reshape(rows, -1), functions.reshape(len(functions), rows, -1)
    out = np.empty((len(functions), rows, n + 1), dtype=complex)
    table = np.empty((min(rows, _CHUNK), phase.shape[1], n + 1), dtype=complex)
    table[..., 0] = 1.0
    for start in range(0, rows, _CHUNK):
        part = slice(start, start + _CHUNK)
        power, known = np.exp(-1j * phase[part]), 1
        z = table[: len(power)]
        while known <= n:  # twice as many powers each time
            more = min(known, n + 1 - known)
            np.multiply(z[..., :more], power[..., None], out=z[..., known : known + more])
            power, known = power * power, known + more
        found = flat[:, part].transpose(1, 0, 2) @ z.view(float)
        out[:, part] = found.view(complex).transpose(1, 0, 2)
    return out.reshape(*functions.shape[:-1], n + 1)


def _smoothing(z: Complex) -> Complex:
    """Fourier transform e^{−y} Σ_{j<5} yʲ/j!, y = z²/2: a Gaussian of width 1 with flat moments."""
    y = 0.5 * z * z
    term, total = np.ones_like(y), np.ones_like(y)
    for j in range(1, _MOMENTS):
        term = term * y / j
        total = total + term
    return np.asarray(np.exp(-y) * total)


def _taper(t: Array) -> Array:
    """1 for t ≤ 0, 0 for t ≥ 1, smooth between."""
    t = np.clip(t, 2e-3, 1 - 2e-3)
    return np.asarray(1 / (1 + np.exp(1 / (1 - t) - 1 / t)))
