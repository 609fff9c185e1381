"""Four classes or more, for losses whose pull is a sum over the others: exact in k, no sampling.

At a held variable L and a level C of the winning utility the N = k − 1 others are independent, and
what the label needs to know of them is the sum P = Σ p(ω_h − L) (`AdditivePull`): its
own field is ω_1 = L + d(P). So with φ and F′ the label's densities

    E g = k ∫dC ∫dL E_competitors[ (φF′/a_1)(P) · S g ],      S = a_1 + Σ a,

and S g is a polynomial in sums over the competitors for every g that the fields side averages:

    rM   P Σ h + Σ p h   with h = F′/F,     rQ   P² + Σ p²,     rqD   (ω_1 − L)P − Σ(ω − L)p,
    rC·S   2 a_1 Σ a + Σ_{h≠h'} a_h a_h',   and functions of P: the loss, 1

(in rqD L stands for any number, and is near all fields that count: little cancels).

Functions of P are short Fourier series on a window (`sum_modes`), and of a mode the mean over the
competitors is the N-th power of one competitor's: the cost does not depend on k.
"""

from __future__ import annotations

import math
from dataclasses import fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.numerics import Array
from polyceptron.theory.fields.integrand import Averages, Averaging, FieldsStudent, Rule
from polyceptron.theory.fields.levels import Levels, ways_to_win
from polyceptron.theory.fields.sum_nodes import (
    SEARCHED,
    Competitors,
    Complex,
    Contest,
    Frame,
    ModeSeries,
    Window,
    competitor_nodes,
    gauss,
    label_series,
    modes,
)


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
_NO_LAW = 1e20  # τ, 1/q or 1/V of a step that went astray
_LATTICE = 0.16  # of ln τ, ln q, ln V: where the search for what counts is made
_FAR = 0.12  # and as far from there as nodes are carried
_GUESSED = 2  # so many sizes more for labels that are guessed, of one level
_CHUNK = 8  # levels at once: what a cache holds


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
        self, student: FieldsStudent, channel: Channel, n_classes: int, law: Law, level: int
    ) -> Averaging:
        """Nodes follow laws near `law` smoothly; farther off what counts is searched for again.

        At a point of a lattice that is kept as long as it is near.
        """
        corner = _corner(law)

        def averages(law: Law) -> Averages:
            nonlocal corner
            if not (law.q > 1 / _NO_LAW and law.V > 1 / _NO_LAW and law.tau < _NO_LAW):
                return Averages(*(np.full(1, math.nan) for _ in fields(Averages)))
            if np.abs(_logarithms(law) - corner).max() > _FAR:
                corner = _corner(law)
            near = Law(*np.exp(corner).tolist())
            with np.errstate(all="ignore"):
                return _averages(student, channel, n_classes, level, near, law)

        return averages


@lru_cache(maxsize=256)  # a root is asked for its averages again
def _averages(
    student: FieldsStudent, channel: Channel, n_classes: int, level: int, near: Law, law: Law
) -> Averages:
    """At a law, what counts known from another."""
    size, r = SIZES[level], n_classes - 1
    total = np.zeros(6)
    bare = _contests(student, channel, n_classes, size.levels, law)
    frames = _frames(student, channel, n_classes, size.levels, near)
    for (contest, levels), frame in zip(bare, frames, strict=True):
        contest, ends = contest.framed(frame)
        if len(levels.C) == 1:  # a guess, which may be far below the others: all is in P and L
            size = SIZES[min(level + _GUESSED, len(SIZES) - 1)]
        for start in range(0, len(levels.C), _CHUNK):
            part = slice(start, start + _CHUNK)
            held = gauss(ends[0, part], ends[1, part], size.held)
            some = Levels(*(field[part] for field in levels))
            total += _averaged(contest.part(part), some, held, size)
    scale, mass = contest.pull.scale, total[5:]
    M, Q, C, D, value, _ = total[:, None] / mass  # coarse nodes miss of all alike
    M, C, D = (part / (r * scale) for part in (M, C, D / law.q))
    Q = Q / (r * scale**2)
    plus, minus = np.maximum(D, 0.0), np.maximum(-D, 0.0)
    return Averages(M, Q, C, plus, minus, value, np.full(1, math.nan), mass)


def _contests(
    student: FieldsStudent, channel: Channel, n_classes: int, n: int, law: Law
) -> list[tuple[Contest, Levels]]:
    """Each way to win, with n levels; the edges of the window are not known yet."""
    pull = student.additive(law.V)
    assert pull is not None
    width, root = channel.width(law.residual), math.sqrt(law.q)
    return [
        (Contest(pull, utilities, width, root, n_classes - 1, C, Window(C, C, C)), Levels(C, *rest))
        for utilities, (C, *rest) in ways_to_win(channel, n_classes, law, n)
    ]


@lru_cache(maxsize=128)
def _frames(
    student: FieldsStudent, channel: Channel, n_classes: int, n: int, law: Law
) -> list[Frame]:
    """What counts at a law, for each way to win: neighbouring problems ask for the same."""
    contests = [each for each, _ in _contests(student, channel, n_classes, n, law)]
    found = _searched(student, channel, n_classes, law)
    return [each.frame(rows) for each, rows in zip(contests, found, strict=True)]


@lru_cache(maxsize=64)
def _searched(student: FieldsStudent, channel: Channel, n_classes: int, law: Law) -> list[Array]:
    return [each.search() for each, _ in _contests(student, channel, n_classes, SEARCHED, law)]


def _corner(law: Law) -> Array:
    """The point of a lattice of logarithms next to a law."""
    return np.asarray(np.round(_logarithms(law) / _LATTICE) * _LATTICE)


def _logarithms(law: Law) -> Array:
    return np.log(np.maximum([law.tau, law.q, law.V], 1e-300))


def _averaged(contest: Contest, levels: Levels, held: tuple[Array, Array], size: Size) -> Array:
    """Sums over nodes of rM, rQ, rC, rqD, the loss and 1, (6,)."""
    L, step = held
    N = contest.n_competitors
    n = size.modes if math.isinf(contest.pull.largest) else size.modes_to_end
    competitors = competitor_nodes(contest, L, 5 * n // 4)
    series = label_series(contest, L, competitors, n)
    one, fa, fpp, fop, fppa, fopa, fh, fhp, fha, fhpa = _competitor_modes(
        contest, levels, L, competitors, series, n
    )
    power = np.where(series.alive, levels.weight[:, None] * step, 0.0)[..., None] * one ** (N - 2)
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
    contest: Contest, levels: Levels, L: Array, competitors: Competitors, series: ModeSeries, n: int
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
    C, top = levels.C[:, None], np.maximum(contest.edges.top[:, None], competitors.top)
    middle = np.where(np.isfinite(C), C, 0.0) / max(contest.utilities.rho, 1e-3)
    middle = np.clip(middle, competitors.top, top)
    left = levels.below[:, None] - competitors.weight.sum(-1)
    for low, high in ((competitors.top, middle), (middle, top)):
        field, weight = gauss(low, high, 10)
        F = contest.utilities.losing(C[..., None], field)[0]
        left = left - (weight * F * np.exp(-0.5 * field**2)).sum(-1) / math.sqrt(2 * math.pi)
    f[0] += left[..., None]
    return f
