"""Nodes for averages at a held variable L and a level C: the label's field, a loser's, and L.

What counts is searched for at one law (`frame`), and carried to laws nearby by smooth functions of
them (`contest`): averages are smooth in (τ, q, V), and Newton's method may differentiate them.
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
SEARCHED = 5  # levels at which the search is made
_NEAR_END = 1 - 1e-6  # of the largest P
_BISECTIONS = 12
_SCAN = 24  # values of L at which the bound is tried, and of the label's field there
_TILTS, _STRONGEST = np.linspace(-1, 1, 17), 20.0  # signs and logarithms of tilts
_HELD = 15.0  # what L weighs is followed down to e^−15 of its peak


class Window(NamedTuple):
    """At each level (n,): the label's lowest and highest field, and the losers' highest."""

    low: Array
    high: Array
    top: Array


class Frame(NamedTuple):
    """The same at each level (n,) for laws nearby, and the range of L.

    The label's fields are in spreads around their mean; an L is known by the P (2, n) of a label
    there, and where none would do by how far (2, n) that one is off, in spreads.
    """

    low: Array
    high: Array
    top: Array
    P: Array
    off: Array


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

    def label(self) -> tuple[Array, float]:
        """Mean (c,) and spread of the label's field at each level, in units of √q."""
        if self.utilities.law is None:
            return np.zeros(len(self.C)), 1.0
        total = math.hypot(self.width, self.utilities.rho)
        return self.utilities.rho * self.C / total**2, self.width / total

    def search(self) -> Array:
        """What counts at each level: the window in spreads and the range of L, (5, n)."""
        mean, spread = self.label()
        edges = _window(self, mean, spread)
        ends = _held_range(self._replace(edges=edges))
        window = (edges.low - mean) / spread, (edges.high - mean) / spread, edges.top
        return np.stack([*window, *(end - self.root * mean for end in ends)])

    def frame(self, found: Array) -> Frame:
        """From a search at the same law on fewer levels."""
        n, places = len(self.C), np.linspace(0, 1, found.shape[1])
        low, high, top, *ends = (np.interp(np.linspace(0, 1, n), places, row) for row in found)
        d = -np.stack(ends)
        P = np.clip(self.pull.label(d).P, 0.0, _NEAR_END * self.pull.largest)
        off = (d - self.pull.label_at(P)[0]) / (self.root * self.label()[1])
        return Frame(low, high, top, P, off)

    def framed(self, frame: Frame) -> tuple[Contest, Array]:
        """With the edges of a frame, and the range (2, c) of L."""
        mean, spread = self.label()
        edges = Window(mean + spread * frame.low, mean + spread * frame.high, frame.top)
        d = self.pull.label_at(frame.P)[0] + self.root * spread * frame.off
        return self._replace(edges=edges), self.root * mean - d


def _window(contest: Contest, mean: Array, spread: float) -> Window:
    """Where label and losers are not negligible, in units of √q."""
    utilities, C = contest.utilities, contest.C

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
    least = np.full(len(C), -_LOSER - math.log(contest.n_losers))
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
    highest = np.minimum(top, (L + pull.loser_at(np.maximum(cut, 1e-300))[0]) / root)
    highest = np.maximum(highest, bottom + 1e-9)
    p_top = pull.loser(root * highest - L)[0]
    p_start = floor + 0.05 * (p_top - floor)
    start = np.clip((L + pull.loser_at(np.maximum(p_start, 1e-300))[0]) / root, bottom, highest)
    knee = np.clip((L + pull.knee) / root, bottom, start)
    turn = (np.where(np.isfinite(C), C, 0.0)[:, None] - 4 * width) / max(utilities.rho, 1e-3)
    turn = np.clip(turn + 0 * L, bottom, knee)
    nodes = [gauss(bottom, turn, 10), gauss(turn, knee, 10), gauss(knee, start, 6)]
    below, steps = (np.concatenate(part, -1) for part in zip(*nodes, strict=True))
    p_below, a_below = pull.loser(root * below - L[..., None])
    p, step = gauss(np.minimum(p_start, p_top), p_top, n)
    t, a = pull.loser_at(np.maximum(p, 1e-300))
    x = np.concatenate([below, (t + L[..., None]) / root], -1)
    weight = np.concatenate([steps, step / (root * np.maximum(a, 1e-300))], -1)
    p, a = np.concatenate([p_below, p], -1), np.concatenate([a_below, a], -1)
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


def _held_range(contest: Contest) -> tuple[Array, Array]:
    """The least and largest L (c,) that count at each level.

    At first with all losers at the bottom or all at the top; then where Chernoff's bound on what L
    weighs, found on a few values of it, has not fallen far below its peak.
    """
    pull, root, N = contest.pull, contest.root, contest.n_losers
    low, high, top = contest.edges
    least = _held(pull, root * low, np.full_like(low, BOTTOM * root), N)
    least = np.maximum(least, root * low)
    most = np.maximum(_held(pull, root * high, root * top, N), least + 1e-12)
    place = np.linspace(0, 1, _SCAN)
    for depth in (2 * _HELD, _HELD):
        L = least[:, None] + (most - least)[:, None] * place
        above = _held_bound(contest, L)
        above += depth - above.max(1, keepdims=True)
        first, last = (_crossing(side) for side in (above, above[:, ::-1]))
        span = (most - least) / (_SCAN - 1)
        least, most = least + span * first, most - span * last
    return least, most


def _crossing(f: Array) -> Array:
    """Where rows f (c, n) first rise above 0, in steps from the first; 0 if they begin there."""
    rows, after = np.arange(len(f)), (f > 0).argmax(1)
    before = np.maximum(after - 1, 0)
    low, high = f[rows, before], f[rows, after]
    return np.where(after > 0, before + low / np.minimum(low - high, -1e-300), 0.0)


def _held_bound(contest: Contest, L: Array) -> Array:
    """A bound on ln ∫ over label and losers at L (c, l), sharp up to factors of order 1.

    For every tilt t, E g(P) ≤ max_P [g(P) e^{−tP}] · (E e^{tp})^N.
    """
    pull, root, N = contest.pull, contest.root, contest.n_losers
    losers = loser_nodes(contest, L, 12)
    low, high, _ = (edge[:, None, None] for edge in contest.edges)
    x = low + (high - low) * np.linspace(0, 1, _SCAN)
    P, a, _ = pull.label(root * x - L[..., None])
    log_g = contest.utilities.winning(contest.C[:, None, None], x) - 0.5 * x * x
    mean_a = (losers.weight * losers.a).sum(-1) / np.maximum(losers.weight.sum(-1), 1e-300)
    spread = np.sqrt(N * losers.central + 1e-300)[..., None]
    log_g = log_g + np.log((a + N * mean_a[..., None]) / np.maximum(a, spread))
    label = P - (N * losers.floor)[..., None]
    above = losers.p - losers.floor[..., None]
    log_weight = np.log(np.maximum(losers.weight, 1e-300))
    best = np.full_like(L, math.inf)
    weakest = np.log(1 / np.maximum(above.max(-1, keepdims=True), 1e-300))
    strongest = np.maximum(np.log(_STRONGEST / spread), weakest + 1)
    for tilt in _TILTS:
        t = np.sign(tilt) * np.exp(weakest + np.abs(tilt) * (strongest - weakest))
        of_label = (log_g - t * label).max(-1)
        grown = log_weight + t * above
        peak = grown.max(-1)
        of_losers = peak + np.log(np.exp(grown - peak[..., None]).sum(-1))
        best = np.minimum(best, of_label + N * of_losers)
    return best


def _held(pull: AdditivePull, label: Array, loser: Array, n_losers: int) -> Array:
    """L at which the label's field is `label` and all losers' are `loser`."""
    low = np.minimum(label, loser) - 1.0
    high = np.maximum(label, loser) + 40.0 + math.log(n_losers) + abs(pull.knee)
    narrow = math.log2(1 / min(float(np.abs(label - loser).max()) + 1e-12, 1.0))
    for _ in range(_BISECTIONS + math.ceil(narrow)):
        L = (low + high) / 2
        P = n_losers * pull.loser(loser - L)[0]
        allowed = pull.largest > P
        short = ~allowed | (L + pull.label_at(np.where(allowed, P, 0.0))[0] < label)
        low, high = np.where(short, L, low), np.where(short, high, L)
    return high
