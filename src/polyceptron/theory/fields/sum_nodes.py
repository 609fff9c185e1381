"""Nodes for averages at a held variable L and a level C: the label's field, a loser's, and L.

Everything is placed by smooth functions of the law, in numbers that do not depend on it: averages
are then smooth in (τ, q, V), and Newton's method may differentiate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polyceptron.model.losses.additive import AdditivePull
from polyceptron.numerics.panels import legendre_rule
from polyceptron.theory.fields.averages import Array
from polyceptron.theory.fields.levels import Utilities

BOTTOM = -7.0  # of a student's field in its standard deviations
_LABEL = 26.0  # a label's density is followed down to e^−26 of its peak
_LOSER = 17.0  # and the losers' to e^−17
_BISECTIONS = 26
_SCAN = 24  # values of L at which the bounds are tried


class Window(NamedTuple):
    """At each level (n,): the label's lowest and highest field, and the losers' highest."""

    low: Array
    high: Array
    top: Array


class Contest(NamedTuple):
    """A label and n_losers others at levels C (c,): pull, utilities of some width, √q, window."""

    pull: AdditivePull
    utilities: Utilities
    width: float
    root: float
    n_losers: int
    C: Array
    edges: Window

    def part(self, rows: slice) -> Contest:
        """Some of the levels."""
        edges = Window(*(edge[rows] for edge in self.edges))
        return self._replace(C=self.C[rows], edges=edges)


def window(utilities: Utilities, C: Array, width: float, n_losers: int) -> Window:
    """Where label and losers are not negligible, in units of √q."""
    total = math.hypot(width, utilities.rho)
    level = np.where(np.isfinite(C), C, 0.0)
    spread = 1.0 if utilities.law is None else width / total
    mean = 0.0 if utilities.law is None else utilities.rho * level / total**2

    def label(x: Array) -> Array:
        return np.asarray(utilities.winning(C, x) - 0.5 * x * x)

    def loser(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(utilities.losing(C, x)[0]) - 0.5 * x * x)

    tries = mean + spread * np.linspace(-20, 12, 65)[:, None]
    peak_at = tries[np.argmax(label(tries), axis=0), np.arange(len(C))]
    floor = label(peak_at) - _LABEL
    low = _edge(label, floor, peak_at, peak_at - 22 * spread)
    high = _edge(label, floor, peak_at, peak_at + 14 * spread)
    least = np.full(len(C), -_LOSER - math.log(n_losers))
    inside = np.minimum(low, 0.0)
    top = _edge(loser, least, inside, np.full(len(C), 9.0))
    return Window(low, high, np.maximum(top, BOTTOM + 1))


def _edge(f: Callable[[Array], Array], level: Array, inside: Array, outside: Array) -> Array:
    """Where f falls to `level` between two points."""
    for _ in range(_BISECTIONS):
        middle = (inside + outside) / 2
        within = f(middle) > level
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return inside


def gauss(low: Array, high: Array, n: int) -> tuple[Array, Array]:
    """Gauss nodes and weights (…, n) between arrays of ends (…)."""
    x, w = legendre_rule(n)
    span = (high - low)[..., None]
    return low[..., None] + span * x, span * w


class Losers(NamedTuple):
    """One loser at each L (…): fields x, weights, p, a and F′/F (…, nodes), and their moments (…).

    `top` is the highest field kept, `floor` the least p; p is measured from there in the moments.
    """

    x: Array
    weight: Array
    p: Array
    a: Array
    hazard: Array
    top: Array
    floor: Array
    mean: Array
    second: Array
    central: Array
    fourth: Array


def loser_nodes(contest: Contest, L: Array, n: int) -> Losers:
    """Nodes of one loser at L (c, l); n of them where p counts, in p itself.

    Below, where p is next to nothing, they follow the field: up to the turn of its factor F, up to
    the knee of p, and until p is a twentieth of its largest. Losers whose p alone is too much for
    the label are left out.
    """
    pull, utilities, width, root, n_losers, C, edges = contest
    low, _, top = (edge[:, None] for edge in edges)
    floor = pull.loser(root * BOTTOM - L)[0]
    most = pull.label(root * low - L).P
    cut = floor + 1.5 * np.maximum(most - n_losers * floor, 1e-3 * np.abs(most))
    bottom = np.full_like(L, BOTTOM)
    highest = np.minimum(top, (L + pull.loser_at(np.maximum(cut, 1e-300))) / root)
    highest = np.maximum(highest, bottom + 1e-9)
    p_top = pull.loser(root * highest - L)[0]
    p_start = floor + 0.05 * (p_top - floor)
    start = np.clip((L + pull.loser_at(np.maximum(p_start, 1e-300))) / root, bottom, highest)
    knee = np.clip((L + pull.knee) / root, bottom, start)
    turn = (np.where(np.isfinite(C), C, 0.0)[:, None] - 4 * width) / max(utilities.rho, 1e-3)
    turn = np.clip(turn + 0 * L, bottom, knee)
    parts = [gauss(bottom, turn, 10), gauss(turn, knee, 12), gauss(knee, start, 8)]
    p, step = gauss(np.minimum(p_start, p_top), p_top, n)
    t = pull.loser_at(np.maximum(p, 1e-300))
    slope = pull.loser(t)[1]
    parts.append(((t + L[..., None]) / root, step / (root * np.maximum(slope, 1e-300))))
    x, weight = (np.concatenate([part[i] for part in parts], -1) for i in (0, 1))
    p, a = pull.loser(root * x - L[..., None])
    F, hazard = utilities.losing(C[:, None, None], x)
    weight = weight * F * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    mass = np.maximum(weight.sum(-1), 1e-300)
    above = p - floor[..., None]
    mean = (weight * above).sum(-1) / mass
    apart = (above - mean[..., None]) ** 2
    second, central, fourth = (
        (weight * power).sum(-1) / mass for power in (above**2, apart, apart**2)
    )
    return Losers(x, weight, p, a, hazard, highest, floor, mean, second, central, fourth)


def held_range(contest: Contest) -> tuple[Array, Array]:
    """The least and largest L (c,) that count at each level.

    At first with all losers at the bottom or all at the top; then where Bernstein's bounds on the
    law of their sum P leave a chance that P is what the label can meet.
    """
    pull, root, N = contest.pull, contest.root, contest.n_losers
    low, high, top = contest.edges
    least = _held(pull, root * low, np.full_like(low, BOTTOM * root), N)
    least = np.maximum(least, root * low)
    most = np.maximum(_held(pull, root * high, root * top, N), least + 1e-12)
    rows = np.arange(len(low))
    for _ in range(2):
        L = least[:, None] + (most - least)[:, None] * np.linspace(0, 1, _SCAN)
        found = loser_nodes(contest, L, 12)
        room = pull.label(root * low[:, None] - L).P - N * found.floor
        need = pull.label(root * high[:, None] - L).P - N * found.floor
        above, below = (np.maximum(x, 0.0) for x in (N * found.mean - room, need - N * found.mean))
        largest = (found.p - found.floor[..., None]).max(-1)
        bound = N * np.log(np.maximum(found.weight.sum(-1), 1e-300))
        bound -= above**2 / (2 * N * found.second + 1e-300)
        bound -= below**2 / (2 * N * found.central + (2 / 3) * largest * below + 1e-300)
        seen = bound > bound.max(1, keepdims=True) - _LOSER
        first = np.maximum(seen.argmax(1) - 1, 0)
        last = np.minimum(_SCAN - seen[:, ::-1].argmax(1), _SCAN - 1)
        least, most = L[rows, first], L[rows, last]
    return least, most


def _held(pull: AdditivePull, label: Array, loser: Array, n_losers: int) -> Array:
    """L at which the label's field is `label` and all losers' are `loser`."""
    low = np.minimum(label, loser) - 1.0
    high = np.maximum(label, loser) + 40.0 + math.log(n_losers) + abs(pull.knee)
    for _ in range(_BISECTIONS):
        L = (low + high) / 2
        P = n_losers * pull.loser(loser - L)[0]
        allowed = pull.largest > P
        short = ~allowed | (L + pull.label_at(np.where(allowed, P, 0.0)) < label)
        low, high = np.where(short, L, low), np.where(short, high, L)
    return high
