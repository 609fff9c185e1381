"""Nodes for averages at a held variable L and a level C: the label's field, a competitor's, and L.

What counts is searched for at one law (`frame`), and carried to laws nearby by smooth functions of
them (`contest`): averages are smooth in (τ, q, V), and Newton's method may differentiate them.

Functions of P = Σ p over the competitors are Fourier series on a window. It reaches from below the
law of P to the largest P that the label can meet; a factor e^{−σP} keeps sums above it from coming
back below. Where P has an end (P → 1 as the label falls far below the others) the functions jump
there; each is smoothed by a Gaussian times a polynomial whose moments vanish. Smoothing in P is the
same as a normaliser 1 + u in place of 1, averaged over u: once L is integrated over, all is smooth
in u, and nothing is changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.losses.coordinates import AdditivePull
from polyceptron.numerics import Array
from polyceptron.numerics.panels import legendre_rule
from polyceptron.theory.fields.levels import Utilities

BOTTOM = -7.0  # of a student's field in its standard deviations
_LABEL = 26.0  # a label's density is followed down to e^−26 of its peak
_COMPETITOR = 17.0  # and the competitors' to e^−17
SEARCHED = 5  # levels at which the search is made
_NEAR_END = 1 - 1e-6  # of the largest P
_CLIMB = 60  # steps of Newton's method
_BISECTIONS = 12
_SCAN = 24  # values of L at which the bound is tried, and of the label's field there
_TILTS, _STRONGEST = np.linspace(-1, 1, 17), 20.0  # signs and logarithms of tilts
_DEAD = 14.0  # all competitors' p together are e^−14 of one at its knee, or less: nothing
_FAR = 12  # nodes there
_HELD = 15.0  # what L weighs is followed down to e^−15 of its peak


class Window(NamedTuple):
    """At each level (n,): the label's lowest and highest field, and the competitors' highest."""

    low: Array
    high: Array
    top: Array


class Frame(NamedTuple):
    """The same at each level (n,) for laws nearby, and the range of L.

    The label's fields are in spreads around their mean; an L is known by the P (2, n) of a label
    there, in units of `Contest.balance`, or by how far (2, n) that is off, in spreads.
    """

    low: Array
    high: Array
    top: Array
    P: Array
    off: Array


class Contest(NamedTuple):
    """A label and its competitors at levels C (c,): pull, utilities of some width, √q, window."""

    pull: AdditivePull
    utilities: Utilities
    width: float
    root: float
    n_competitors: int
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

    def balance(self) -> float:
        """P at the L where classes of field 0 balance, Σ p = P, as −ln(1 − P); 1 without an end.

        By Newton's method, which climbs to it from L = 0: P − Σ p is concave in L.
        """
        pull, L = self.pull, np.zeros(1)
        if math.isinf(pull.largest):
            return 1.0
        for _ in range(_CLIMB):
            p, a = pull.competitor(-L)
            label = pull.label(-L)
            step = (self.n_competitors * p - label.P) / (label.a + self.n_competitors * a)
            L = L + step
            if step[0] < 1e-9 * (1 + L[0]):
                break
        return float(_stretched(self.n_competitors * p, pull.largest)[0])

    def frame(self, found: Array) -> Frame:
        """From a search at the same law on fewer levels."""
        n, places = len(self.C), np.linspace(0, 1, found.shape[1])
        low, high, top, *ends = (np.interp(np.linspace(0, 1, n), places, row) for row in found)
        d = -np.stack(ends)
        P = np.clip(self.pull.label(d).P, 0.0, _NEAR_END * self.pull.largest)
        off = (d - self.pull.label_at(P)[0]) / (self.root * self.label()[1])
        return Frame(low, high, top, _stretched(P, self.pull.largest) / self.balance(), off)

    def framed(self, frame: Frame) -> tuple[Contest, Array]:
        """With the edges of a frame, and the range (2, c) of L."""
        mean, spread = self.label()
        edges = Window(mean + spread * frame.low, mean + spread * frame.high, frame.top)
        P, largest = frame.P * self.balance(), self.pull.largest
        if math.isfinite(largest):
            P = np.minimum(-largest * np.expm1(-P / largest), _NEAR_END * largest)
        d = self.pull.label_at(P)[0] + self.root * spread * frame.off
        return self._replace(edges=edges), self.root * mean - d


def _stretched(P: Array, largest: float) -> Array:
    """−ln(1 − P) in units of the largest; P itself where it has no end."""
    return P if math.isinf(largest) else np.asarray(-largest * np.log1p(-P / largest))


def _window(contest: Contest, mean: Array, spread: float) -> Window:
    """Where label and competitors are not negligible, in units of √q."""
    utilities, C = contest.utilities, contest.C

    def label(x: Array) -> Array:
        return np.asarray(utilities.winning(C, x) - 0.5 * x * x)

    def competitor(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(utilities.losing(C, x)[0]) - 0.5 * x * x)

    tries = mean + spread * np.linspace(-20, 12, 65)[:, None]
    peak_at = tries[np.argmax(label(tries), axis=0), np.arange(len(C))]
    floor = label(peak_at) - _LABEL
    low = _edge(label, floor, peak_at, peak_at - 22 * spread)
    high = _edge(label, floor, peak_at, peak_at + 14 * spread)
    least = np.full(len(C), -_COMPETITOR - math.log(contest.n_competitors))
    inside = np.minimum(low, 0.0)
    top = _edge(competitor, least, inside, np.full(len(C), 9.0))
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


class Competitors(NamedTuple):
    """One competitor at each L (…): x, weights, p, a and F′/F (…, nodes), and their moments (…).

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


def competitor_nodes(contest: Contest, L: Array, n: int) -> Competitors:
    """Nodes of one competitor at L (c, l); n of them where p counts, in p itself.

    Below they follow the field, broken at the turn of F and the knee of p; where p is nothing all
    fields are one node. Competitors whose p alone is too much for the label are left out.
    """
    pull, utilities, width, root, n_competitors, C, edges = contest
    low, _, top = (edge[:, None] for edge in edges)
    floor = pull.competitor(root * BOTTOM - L)[0]
    most = pull.label(root * low - L).P
    cut = floor + 1.5 * np.maximum(most - n_competitors * floor, 1e-3 * np.abs(most))
    bottom = np.full_like(L, BOTTOM)
    highest = np.minimum(top, (L + pull.competitor_at(np.maximum(cut, 1e-300))[0]) / root)
    highest = np.maximum(highest, bottom + 1e-9)
    p_top = pull.competitor(root * highest - L)[0]
    p_start = floor + 0.05 * (p_top - floor)
    start = np.clip(
        (L + pull.competitor_at(np.maximum(p_start, 1e-300))[0]) / root, bottom, highest
    )
    knee = np.clip((L + pull.knee) / root, bottom, start)
    dead = np.maximum(knee - (_DEAD + math.log(n_competitors)) / root, bottom)
    middle = np.where(np.isfinite(C), C, 0.0)[:, None] / max(utilities.rho, 1e-3)
    turn = middle - 4 * width / max(utilities.rho, 1e-3) + 0 * L
    n_below = 6 + n // 6
    x, weight = _joined(
        gauss(bottom, np.clip(turn, bottom, dead), _FAR),
        gauss(np.clip(turn, bottom, dead), dead, _FAR),
        gauss(dead, np.clip(turn, dead, knee), n_below),
        gauss(np.clip(turn, dead, knee), knee, n_below),
        gauss(knee, start, 2 + n // 5),
    )
    p, step = gauss(np.minimum(p_start, p_top), p_top, n)
    t, a = pull.competitor_at(np.maximum(p, 1e-300))
    x, weight = _joined(
        (x, weight), ((t + L[..., None]) / root, step / (root * np.maximum(a, 1e-300)))
    )
    F, hazard = utilities.losing(C[:, None, None], x)
    weight = weight * F * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    far = 2 * _FAR
    away = weight[..., :far].sum(-1, keepdims=True)
    pressed = (weight * hazard)[..., :far].sum(-1, keepdims=True) / np.maximum(away, 1e-300)
    x = np.concatenate([bottom[..., None], x[..., far:]], -1)
    weight = np.concatenate([away, weight[..., far:]], -1)
    hazard = np.concatenate([pressed, hazard[..., far:]], -1)
    p_below, a_below = pull.competitor(root * x[..., :-n] - L[..., None])
    p, a = np.concatenate([p_below, p], -1), np.concatenate([a_below, a], -1)
    mass = np.maximum(weight.sum(-1), 1e-300)
    above = p - floor[..., None]
    mean = (weight * above).sum(-1) / mass
    apart = (above - mean[..., None]) ** 2
    second, central, fourth = (
        (weight * power).sum(-1) / mass for power in (above**2, apart, apart**2)
    )
    return Competitors(x, weight, p, a, hazard, highest, floor, mean, second, central, fourth)


def _joined(*rules: tuple[Array, Array]) -> tuple[Array, Array]:
    nodes, weights = zip(*rules, strict=True)
    return np.concatenate(nodes, -1), np.concatenate(weights, -1)


def _held_range(contest: Contest) -> tuple[Array, Array]:
    """The least and largest L (c,) that count at each level.

    From all others at the bottom or at the top; then by Chernoff's bound on what L weighs.
    """
    pull, root, N = contest.pull, contest.root, contest.n_competitors
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
    """A bound on ln ∫ over label and competitors at L (c, l), sharp up to factors of order 1.

    For every tilt t, E g(P) ≤ max_P [g(P) e^{−tP}] · (E e^{tp})^N.
    """
    pull, root, N = contest.pull, contest.root, contest.n_competitors
    competitors = competitor_nodes(contest, L, 12)
    low, high, _ = (edge[:, None, None] for edge in contest.edges)
    x = low + (high - low) * np.linspace(0, 1, _SCAN)
    P, a, _ = pull.label(root * x - L[..., None])
    log_g = contest.utilities.winning(contest.C[:, None, None], x) - 0.5 * x * x
    mean_a = (competitors.weight * competitors.a).sum(-1) / np.maximum(
        competitors.weight.sum(-1), 1e-300
    )
    spread = np.sqrt(N * competitors.central + 1e-300)[..., None]
    log_g = log_g + np.log((a + N * mean_a[..., None]) / np.maximum(a, spread))
    label = P - (N * competitors.floor)[..., None]
    above = competitors.p - competitors.floor[..., None]
    log_weight = np.log(np.maximum(competitors.weight, 1e-300))
    best = np.full_like(L, math.inf)
    weakest = np.log(1 / np.maximum(above.max(-1, keepdims=True), 1e-300))
    strongest = np.maximum(np.log(_STRONGEST / spread), weakest + 1)
    for tilt in _TILTS:
        t = np.sign(tilt) * np.exp(weakest + np.abs(tilt) * (strongest - weakest))
        of_label = (log_g - t * label).max(-1)
        grown = log_weight + t * above
        peak = grown.max(-1)
        of_competitors = peak + np.log(np.exp(grown - peak[..., None]).sum(-1))
        best = np.minimum(best, of_label + N * of_competitors)
    return best


def _held(pull: AdditivePull, label: Array, competitor: Array, n_competitors: int) -> Array:
    """L at which the label's field is `label` and all competitors' are `competitor`."""
    low = np.minimum(label, competitor) - 1.0
    high = np.maximum(label, competitor) + 40.0 + math.log(n_competitors) + abs(pull.knee)
    narrow = math.log2(1 / min(float(np.abs(label - competitor).max()) + 1e-12, 1.0))
    for _ in range(_BISECTIONS + math.ceil(narrow)):
        L = (low + high) / 2
        P = n_competitors * pull.competitor(competitor - L)[0]
        allowed = pull.largest > P
        short = ~allowed | (L + pull.label_at(np.where(allowed, P, 0.0))[0] < label)
        low, high = np.where(short, L, low), np.where(short, high, L)
    return high


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

    The functions are φF′ dω_1/dP times 1, P, P², (ω_1 − L)P, ℓ, and these times a_1.
    """

    alive: NDArray[np.bool_]
    angle: Array
    sigma: Array
    coefficients: Complex


def label_series(contest: Contest, L: Array, competitors: Competitors, n: int) -> ModeSeries:
    """The series at L (c, l), P measured from n_competitors times its floor."""
    pull, _, _, root, n_competitors, _, edges = contest
    low, high, _ = (edge[:, None] for edge in edges)
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
    typical = np.minimum((low + high) / 2, L / root)
    spread = field * pull.label(root * typical - L).a
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
        functions = _functions(contest, x, L, weight, P, a, value)
        c += modes(angle[..., None] * above, functions, n)
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
    log_density = contest.utilities.winning(contest.C[:, None, None], x) - 0.5 * x * x
    np.exp(log_density, out=one)
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
