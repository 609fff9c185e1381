"""Functions of P = Σ p over the losers, as Fourier series on a window that holds them.

The window reaches from below the law of P to the largest P that the label can meet; a factor
e^{−σP} keeps sums above it from coming back below. Where P has an end (P → 1 as the label falls far
below the others) the functions jump there; each is smoothed by a Gaussian times a polynomial whose
moments vanish. Smoothing in P is the same as a normaliser 1 + u in place of 1, averaged over u:
once L is integrated over, all is smooth in u, and nothing is changed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.theory.fields.averages import Array
from polyceptron.theory.fields.sum_nodes import Contest, Losers, gauss

Complex = NDArray[np.complex128]
_REACH = 32.0  # twice the exponent at which a tail bound is believed to be nothing
_DAMPING, _DAMPING_TO_END = 16.0, 11.0  # σ times the window
_MOMENTS = 4  # even ones of the smoothing that are right, that of order 0 included
_DECAY = 6.3  # widths⁻¹ beyond which no mode of the smoothing is left
_BELOW, _ABOVE, _FLAT = 8.5, 8.0, 6.0  # widths kept below, above, and untouched below


class ModeSeries(NamedTuple):
    """At each L (c, l): whether it counts, angle and σ; coefficients (c, l, 10, modes + 1).

    The functions are φF′ dω_1/dP times a_1, 1, P a_1, P, P² a_1, P², ω_1 P a_1, ω_1 P, ℓ a_1, ℓ.
    """

    alive: NDArray[np.bool_]
    angle: Array
    sigma: Array
    coefficients: Complex


def label_series(contest: Contest, L: Array, losers: Losers, n: int) -> ModeSeries:
    """The series at L (c, l), P measured from n_losers times its floor."""
    pull, utilities, _, root, n_losers, C, edges = contest
    low, high, _ = (edge[:, None] for edge in edges)
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
    unit = _DECAY / (2 * math.pi * n)  # width of the smoothing in windows
    below = np.where(
        to_end,
        _BELOW * unit / (1 - (_BELOW + _ABOVE) * unit) * (room - start),
        np.maximum(6.5 * spread, 1.5 * grain),
    )
    first = np.maximum(np.minimum(least - base, start), start - below)
    period = (room - first) / (1 - np.where(to_end, _ABOVE * unit, 0.1))
    sigma = np.where(to_end, _DAMPING_TO_END, _DAMPING) / period
    angle = 2 * math.pi / period
    # Next to the end of P nodes follow the label's field, elsewhere P.
    split = np.clip(pull.largest - 0.06 * period, base + first, np.maximum(most, base + first))
    edge = np.clip((L + pull.label_at(split)) / root, low, high)
    n_near = n // 2 + 12
    near, near_weight = gauss(low + 0 * L, edge, n_near)
    far, far_weight = gauss(base + first, split, 2 * n + 12)
    x = np.concatenate([near, (L[..., None] + pull.label_at(far)) / root], -1)
    P, a, value = pull.label(root * x - L[..., None])
    weight = np.concatenate([near_weight, far_weight / (root * a[..., n_near:])], -1)
    log_density = utilities.winning(C[:, None, None], x) - 0.5 * x * x
    density = weight * np.exp(log_density) / math.sqrt(2 * math.pi)
    above = P - base[..., None]
    depth = (start[..., None] - above) / np.maximum(start - first, 1e-300)[..., None]
    cut = (least - base < first)[..., None]
    density = np.where(cut, density * _taper((depth * _BELOW - _FLAT) / (_BELOW - _FLAT)), density)
    one, o = np.ones_like(a), root * x * P
    functions = np.stack([a, one, P * a, P, P * P * a, P * P, o * a, o, value * a, value], -2)
    grown = np.exp(np.minimum(sigma[..., None] * above, 700.0))
    c = modes(density * grown, angle[..., None] * above, functions, n)
    smooth = np.where(to_end, unit * period, 0.0)
    m = np.arange(n + 1)
    kept = _smoothing((angle[..., None] * m + 1j * sigma[..., None]) * smooth[..., None])
    kept = kept * (np.where(m == 0, 1.0, 2.0) / period[..., None])
    return ModeSeries(alive, angle, sigma, c * kept[..., None, :])


def modes(weight: Array, phase: Array, functions: Array, n: int) -> Complex:
    """Σ_nodes weight · function · e^{−im·phase}, m = 0..n: (…, functions, n + 1)."""
    z = np.empty((*phase.shape, n + 1), dtype=complex)
    z[..., 0] = weight
    power, known = np.exp(-1j * phase), 1
    while known <= n:  # twice as many powers each time
        more = min(known, n + 1 - known)
        np.multiply(z[..., :more], power[..., None], out=z[..., known : known + more])
        power, known = power * power, known + more
    return np.ascontiguousarray(functions @ z.view(float)).view(complex)


def _smoothing(z: Complex) -> Complex:
    """Fourier transform e^{−y} Σ_{j<4} yʲ/j!, y = z²/2: a Gaussian of width 1 with flat moments."""
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
