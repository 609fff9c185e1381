"""Four classes or more, for losses whose pull is a sum over the others: exact in k, no sampling.

At a held variable L and a level C of the winning utility the N = k − 1 others are independent, and
what the label needs to know of them is the sum P = Σ p(ω_h − L) (`AdditivePull`): its
own field is ω_1 = L + d(P). So with φ and F′ the label's densities

    E g = k ∫dC ∫dL E_competitors[ (φF′/a_1)(P) · S g ],      S = a_1 + Σ a,

and S g is a polynomial in sums over the competitors for every g that the fields side averages:

    rM   P Σ h + Σ p h   with h = F′/F,     rQ   P² + Σ p²,     rqD   (ω_1 − L)P − Σ(ω − L)p,
    rC·S   2 a_1 Σ a + Σ_{h≠h'} a_h a_h',   and functions of P: the loss, 1

(in rqD L stands for any number, and is near all fields that count: little cancels).

Functions of P are short Fourier series on a window, and of a mode the mean over the competitors is
the N-th power of one competitor's: the cost does not depend on k. The window reaches from below the
law of P to the largest P that the label can meet; a factor e^{−σP} keeps sums above it from coming
back below. Where P has an end (P → 1 as the label falls far below the others) the functions jump
there; each is smoothed by a Gaussian times a polynomial whose moments vanish. Smoothing in P is the
same as a normaliser 1 + u in place of 1, averaged over u: once L is integrated over, all is smooth
in u, and nothing is changed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import Array
from polyceptron.numerics.panels import gauss, legendre_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.contest import Competitors, Contest, competitor_nodes, contests
from polyceptron.sides.fields.integrand import Averages, Averaging, FieldsStudent, Rule

Complex = NDArray[np.complex128]


class Size(NamedTuple):
    """Numbers of nodes: levels C, held variables L, modes of P without an end and with one."""

    levels: int
    held: int
    modes: int
    modes_to_end: int


SIZES = (
    Size(13, 18, 18, 24),  # to start from
    Size(15, 21, 22, 34),
    Size(19, 26, 26, 48),
    Size(24, 34, 32, 66),
    Size(30, 44, 40, 92),
    Size(38, 58, 52, 130),
)
_SEARCHED = 5  # levels at which what counts is searched for
_NO_LAW = 1e20  # τ, 1/q or 1/V of a step that went astray
_LATTICE = 0.16  # of ln τ, ln q, ln V: where the search for what counts is made
_FAR = 0.12  # and as far from there as nodes are carried
_GUESSED = 2  # so many sizes more for labels that are guessed, of one level
_CHUNK, _ROWS = 8, 8  # levels, and values of L, at once: what a cache holds
_REACH = 32.0  # twice the exponent at which a tail bound is believed to be nothing
_NO_END = 0.1, 16.0  # share of the window kept free, and σ times it, where P has no end
_MOMENTS = 5  # even ones of the smoothing that are right, that of order 0 included
_DECAY = 1.4  # times √modes: widths⁻¹ beyond which no mode of the smoothing is left
_FLAT = 0.7  # of the widths kept below that are untouched
_NEAR = 0.06  # of the window, next to its upper end


class Sums(Rule):
    """Four classes or more, students whose pull is a sum over the others."""

    n_levels = len(SIZES)
    follows = True
    floors = (6e-5, 2e-5, 1e-5, 5e-6, 3e-6)
    loss_floor = 10.0  # the loss lives where P is near its end
    left = 0.5
    by_parts = 0.5

    @staticmethod
    def serves(student: FieldsStudent, channel: Channel) -> bool:
        """Whether the pull is such a sum, and utilities have a law of their own."""
        return student.additive(1.0) is not None and channel.utility_law(1.0) is not None

    def place(
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder, level: int
    ) -> Averaging:
        """Nodes follow laws near a point of a lattice smoothly; farther off it is chosen again."""
        corner = _corner(law)

        def averages(law: ScalarOrder) -> Averages:
            nonlocal corner
            if not (law.q > 1 / _NO_LAW and law.V > 1 / _NO_LAW and law.tau < _NO_LAW):
                return Averages(*(np.full(1, math.nan) for _ in Averages._fields))
            if np.abs(_logarithms(law) - corner).max() > _FAR:
                corner = _corner(law)
            near = ScalarOrder(*np.exp(corner).tolist())
            with np.errstate(all="ignore"):
                return _averages(student, channel, n_classes, level, near, law)

        return averages


@lru_cache(maxsize=256)  # a root is asked for its averages again
def _averages(
    student: FieldsStudent,
    channel: Channel,
    n_classes: int,
    level: int,
    near: ScalarOrder,
    law: ScalarOrder,
) -> Averages:
    """At a law, what counts known from another."""
    size, r = SIZES[level], n_classes - 1
    total = np.zeros(6)
    here, there = (contests(student, channel, n_classes, at, size.levels) for at in (law, near))
    known = _searched(student, channel, n_classes, near)
    for each, other, found in zip(here, there, known, strict=True):
        contest, ends = each.carried(other, found)
        n = len(contest.levels.C)
        if n == 1:  # a guess, which may be far below the others: all is in P and L
            size = SIZES[min(level + _GUESSED, len(SIZES) - 1)]
        for start in range(0, n, _CHUNK):
            part = slice(start, start + _CHUNK)
            L, step = gauss(ends[0, part], ends[1, part], size.held)
            total += _averaged(contest.part(part), L, step, size)
    scale, mass = contest.pull.scale, total[5:]
    M, Q, C, D, value, _ = total[:, None] / mass  # coarse nodes miss of all alike
    M, C, D = (part / (r * scale) for part in (M, C, D / law.q))
    Q = Q / (r * scale**2)
    plus, minus = np.maximum(D, 0.0), np.maximum(-D, 0.0)
    return Averages(M, Q, C, plus, minus, value, np.full(1, math.nan), mass)


@lru_cache(maxsize=64)  # neighbouring problems ask for the same
def _searched(
    student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder
) -> list[Array]:
    return [each.search() for each in contests(student, channel, n_classes, law, _SEARCHED)]


def _corner(law: ScalarOrder) -> Array:
    """The point of a lattice of logarithms next to a law."""
    return np.asarray(np.round(_logarithms(law) / _LATTICE) * _LATTICE)


def _logarithms(law: ScalarOrder) -> Array:
    return np.log(np.maximum([law.tau, law.q, law.V], 1e-300))


def _averaged(contest: Contest, L: Array, step: Array, size: Size) -> Array:
    """Sums over nodes of rM, rQ, rC, rqD, the loss and 1, (6,)."""
    N = contest.n_competitors
    n = size.modes if math.isinf(contest.pull.largest) else size.modes_to_end
    competitors = competitor_nodes(contest, L, 5 * n // 4)
    series = label_series(contest, L, competitors, n)
    one, fa, fpp, fop, fppa, fopa, fh, fhp, fha, fhpa = _competitor_modes(
        contest, L, competitors, series, n
    )
    weight = np.where(series.alive, contest.levels.weight[:, None] * step, 0.0)
    power = weight[..., None] * one ** (N - 2)
    pair, single, none = N * (N - 1) * power, N * power * one, power * one * one

    def mean(i: int, of_competitors: Complex) -> float:
        return float(np.vdot(of_competitors, series.coefficients[i]).real)

    def with_one(f: Complex, f_a: Complex, i: int) -> float:
        """Of Σ f over the competitors times S, and the label's function i (and i + 5, with a_1)."""
        return mean(i + 5, single * f) + mean(i, single * f_a + pair * f * fa)

    def alone(i: int) -> float:
        """Of a function of P times S."""
        return mean(i + 5, none) + mean(i, single * fa)

    table = (
        with_one(fh, fha, 1) + with_one(fhp, fhpa, 0),
        alone(2) + with_one(fpp, fppa, 0),
        2 * mean(5, single * fa) + mean(0, pair * fa * fa),
        alone(3) - with_one(fop, fopa, 0),
        alone(4),
        alone(0),
    )
    return np.array(table)


def _competitor_modes(
    contest: Contest, L: Array, competitors: Competitors, series: ModeSeries, n: int
) -> Complex:
    """⟨function · e^{−(σ + im·angle)p̃}⟩ of one competitor for m = 0..n: (10, c, l, n + 1)."""
    x, p, a, h = competitors.x, competitors.p, competitors.a, competitors.hazard
    above = p - competitors.floor[..., None]
    functions = np.empty((10, *p.shape))
    one, fa, fpp, fop, _, _, fh, fhp, _, _ = functions
    np.multiply(competitors.weight, np.exp(-series.sigma[..., None] * above), out=one)
    np.multiply(one, a, out=fa)
    np.multiply(one, p, out=fpp)
    np.multiply(fpp, contest.root * x - L[..., None], out=fop)
    fpp *= p
    np.multiply(functions[2:4], a, out=functions[4:6])
    np.multiply(one, h, out=fh)
    np.multiply(fh, p, out=fhp)
    np.multiply(functions[6:8], a, out=functions[8:10])
    f = modes(series.angle[..., None] * above, functions, n)
    # What the nodes miss of the mass that is kept is far below, where p is nothing.
    top = np.maximum(contest.edges[2][:, None], competitors.top)
    middle = np.clip(contest.middle()[:, None], competitors.top, top)
    left = contest.levels.below[:, None] - competitors.weight.sum(-1)
    for low, high in ((competitors.top, middle), (middle, top)):
        field, weight = gauss(low, high, 10)
        F = np.exp(contest.around(field)[0] - 0.5 * field**2)
        left = left - (weight * F).sum(-1) / math.sqrt(2 * math.pi)
    f[0] += left[..., None]
    return f


class ModeSeries(NamedTuple):
    """At each L (c, l): whether it counts, angle and σ; coefficients (10, c, l, modes + 1).

    The functions are φF′ dω_1/dP times 1, P, P², (ω_1 − L)P, ℓ, and these times a_1.
    """

    alive: NDArray[np.bool_]
    angle: Array
    sigma: Array
    coefficients: Complex


def label_series(contest: Contest, L: Array, competitors: Competitors, n: int) -> ModeSeries:
    """The series at L (c, l), P measured from n_competitors times its floor."""
    pull, root, n_competitors = contest.pull, contest.root, contest.n_competitors
    low, high, _ = contest.edges[..., None]
    # The smoothing is as wide in P as in modes: as many widths are kept on each side.
    reach = _DECAY * math.sqrt(n)
    unit = reach / (2 * math.pi * n)  # width of the smoothing in windows
    ends = math.isfinite(pull.largest)
    free, damping = (reach * unit, 2 * reach) if ends else _NO_END
    base = n_competitors * competitors.floor
    most, least = (pull.label(root * edge - L).P for edge in (low, high))
    start = n_competitors * competitors.mean - np.sqrt(_REACH * n_competitors * competitors.second)
    start = np.maximum(start, 0.0)  # the law of P is nothing below
    alive = most - base > start
    room = np.maximum(most - base, start + 1e-9)
    field = root * contest.label()[1]
    spread = field * pull.label(root * np.minimum((low + high) / 2, L / root) - L).a
    ratio = competitors.fourth / np.maximum(competitors.central, 1e-300)
    grain = np.sqrt(ratio + n_competitors * competitors.central)
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
    t = np.clip((depth - _FLAT) / (1 - _FLAT), 2e-3, 1 - 2e-3)
    taper = 1 / (1 + np.exp(1 / (1 - t) - 1 / t))  # 1 at t ≤ 0, 0 at t ≥ 1, smooth between
    weight = np.where(cut, weight * taper, weight)
    c = _functions(contest, x, L, weight, P, a, value) @ _kernel(n, share, damping)
    m = np.arange(n + 1)
    c = c.view(complex) * np.exp((damping - 2j * math.pi * m) * (first / period)[..., None])
    if ends:
        split = (L + pull.label_at(base + first + share * period)[0]) / root
        x, weight = gauss(low + 0 * L, np.clip(split, low, high), n // 2 + 4)
        P, a, value = pull.label(root * x - L[..., None])
        above = P - base[..., None]
        weight = weight * np.exp(sigma[..., None] * above)
        c += modes(angle[..., None] * above, _functions(contest, x, L, weight, P, a, value), n)
    smooth = np.where(to_end, unit * period, 0.0)
    kept = _smoothing((angle[..., None] * m + 1j * sigma[..., None]) * smooth[..., None])
    c *= kept * (np.where(m == 0, 1.0, 2.0) / period[..., None])
    return ModeSeries(alive, angle, sigma, c)


def _functions(
    contest: Contest, x: Array, L: Array, weight: Array, P: Array, a: Array, value: Array
) -> Array:
    """Weights times the label's functions at its fields x (c, l, nodes): (10, c, l, nodes)."""
    functions = np.empty((10, *x.shape))
    one, f_P, f_PP, f_oP, loss = functions[:5]
    np.exp(contest.winning(x), out=one)
    one *= weight
    one *= 1 / math.sqrt(2 * math.pi)
    np.multiply(one, P, out=f_P)
    np.multiply(f_P, P, out=f_PP)
    np.multiply(f_P, contest.root * x - L[..., None], out=f_oP)
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
    table = np.empty((min(rows, _ROWS), phase.shape[1], n + 1), dtype=complex)
    table[..., 0] = 1.0
    for start in range(0, rows, _ROWS):
        part = slice(start, start + _ROWS)
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
