"""A label and its competitors at a level C of the winning utility, and at a held variable L.

With F the law of a utility around its field and C the level of the label's own,

    Z_1 = ∫ dC F′(C − μ_1) ∏_h F(C − μ_h)

so that at a given C each competitor carries a factor F of its own. Over all fields the level is the
largest of k utilities; its nodes are equal steps of the normal score of one utility, and know
nothing of the student. Given L too, competitors reach the label by the sum of their p alone.

Which fields and which L count is searched for at one law (`search`), and carried to laws nearby by
smooth functions of them (`carried`): averages are smooth in (τ, q, V), and Newton's method may
differentiate them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from polyceptron.numerics import Array
from polyceptron.numerics.panels import gauss
from polyceptron.problem.channels.channel import Channel, UtilityLaw
from polyceptron.problem.losses.additive import AdditivePull
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FieldsStudent

Mask = NDArray[np.bool_]
_NEGLIGIBLE = 14.0  # levels of e^−14 of the largest density are left out
_FARTHEST = 8.0  # no level of a thousand classes is beyond
_BOTTOM = -7.0  # of a student's field in its standard deviations
_LABEL = 26.0  # a label's density is followed down to e^−26 of its peak
_COMPETITOR = 17.0  # and the competitors' to e^−17
_NEAR_END = 1 - 1e-6  # of the largest P
_CLIMB = 60  # steps of Newton's method
_BISECTIONS = 12
_SCAN = 24  # values of L at which the bound is tried, and of the label's field there
_TILTS, _STRONGEST = np.linspace(-1, 1, 17), 20.0  # signs and logarithms of tilts
_DEAD = 14.0  # all competitors' p together are e^−14 of one at its knee, or less: nothing
_FAR = 12  # nodes there
_HELD = 15.0  # what L weighs is followed down to e^−15 of its peak
_ROOT = math.sqrt(2 * math.pi)


class CompetitorLevels(NamedTuple):
    """C (c,), weights (c,) for k ∫ dC, and the chance (c,) that a utility is below C."""

    C: Array
    weight: Array
    below: Array


@lru_cache(maxsize=128)
def winning_levels(channel: Channel, n_classes: int, n: int) -> CompetitorLevels:
    """Nodes for the level of the largest of k utilities, φ(g)Φ(g)^{k−1} in its normal score g."""
    k = n_classes
    grid = np.linspace(-_FARTHEST, _FARTHEST, 4001)
    log_p = -0.5 * grid**2 + (k - 1) * log_ndtr(grid)
    seen = grid[log_p > log_p.max() - _NEGLIGIBLE]
    g = np.linspace(seen[0], seen[-1], n)
    law = channel.utility_law(1.0)
    assert law is not None
    if channel.utility_variance is not None:
        C = g * math.sqrt(1 + channel.utility_variance)
    else:
        y = np.linspace(law.low, law.high, 2000)
        C = np.interp(log_ndtr(g), law.values(y)[0], y)
        for _ in range(6):
            log_cdf, hazard = law.values(C)
            C = C + np.clip((log_ndtr(g) - log_cdf) / hazard, -1.0, 1.0)
    log_cdf, hazard = law.values(C)
    stretch = np.exp(-0.5 * g**2 - log_cdf) / (_ROOT * hazard)  # dC/dg
    return CompetitorLevels(C, k * (g[1] - g[0]) * stretch, np.exp(log_ndtr(g)))


class Contest(NamedTuple):
    """At levels (c,) of utilities with fields ρx, x the student's in units of √q = `root`.

    `edges` (3, c) are the label's lowest and highest field, and the competitors' highest.
    """

    pull: AdditivePull
    rho: float
    law: UtilityLaw | None  # None: the label is a guess, no field matters
    width: float  # of the utilities
    root: float
    n_competitors: int
    levels: CompetitorLevels
    edges: Array

    def part(self, rows: slice) -> Contest:
        """Some of the levels."""
        levels = CompetitorLevels(*(field[rows] for field in self.levels))
        return self._replace(levels=levels, edges=self.edges[:, rows])

    def around(self, x: Array) -> tuple[Array, Array]:
        """ln F(C − ρx) and F′/F there, at fields (c, …)."""
        if self.law is None:
            return np.zeros_like(x), np.zeros_like(x)
        return self.law.values(self.levels.C.reshape(-1, *[1] * (x.ndim - 1)) - self.rho * x)

    def winning(self, x: Array) -> Array:
        """ln F′(C − ρx) − x²/2 at fields (c, …)."""
        log_cdf, hazard = self.around(x)
        with np.errstate(divide="ignore"):
            log_hazard = 0.0 if self.law is None else np.log(hazard)
        return np.asarray(log_cdf + log_hazard - 0.5 * x * x)

    def middle(self) -> Array:
        """The field (c,) at which a utility is as likely above C as below; 0 for guesses."""
        return np.where(np.isfinite(self.levels.C), self.levels.C, 0.0) / max(self.rho, 1e-3)

    def label(self) -> tuple[Array, float]:
        """Mean (c,) and spread of the label's field at each level, in units of √q."""
        if self.law is None:
            return np.zeros(len(self.levels.C)), 1.0
        total = math.hypot(self.width, self.rho)
        return self.rho * self.levels.C / total**2, self.width / total

    def search(self) -> Array:
        """What counts at each level (5, c): edges, in spreads for the label, and the ends of L."""
        mean, spread = self.label()
        framed = self._replace(edges=_window(self, mean, spread))
        low, high, top = framed.edges
        ends = (end - self.root * mean for end in _held_range(framed))
        return np.stack([(low - mean) / spread, (high - mean) / spread, top, *ends])

    def balance(self) -> float:
        """P where classes of field 0 balance, Σ p = P, as −ln(1 − P): a concave climb of L."""
        pull, N, L = self.pull, self.n_competitors, np.zeros(1)
        for _ in range(_CLIMB):
            p, a = pull.competitor(-L)
            label = pull.label(-L)
            step = (N * p - label.P) / (label.a + N * a)
            L = L + step
            if step[0] < 1e-9 * (1 + L[0]):
                break
        return -math.log1p(-N * float(p[0]) / pull.largest)

    def carried(self, near: Contest, found: Array) -> tuple[Contest, Array]:
        """With edges, and the range (2, c) of L, from a search on fewer levels at a law nearby.

        An L is known by the P of a label there, −ln(1 − P) in units of `balance`, and by how far
        off that is, in spreads.
        """
        new, old = (np.linspace(0, 1, n) for n in (len(self.levels.C), found.shape[1]))
        low, high, top, *ends = (np.interp(new, old, row) for row in found)
        d, largest = -np.stack(ends), self.pull.largest
        P = np.clip(near.pull.label(d).P, 0.0, _NEAR_END * largest)
        off = (d - near.pull.label_at(P)[0]) / (near.root * near.label()[1])
        if math.isfinite(largest):
            share = -np.expm1(np.log1p(-P / largest) * (self.balance() / near.balance()))
            P = largest * np.minimum(share, _NEAR_END)
        mean, spread = self.label()
        d = self.pull.label_at(P)[0] + self.root * spread * off
        edges = np.stack([mean + spread * low, mean + spread * high, top])
        return self._replace(edges=edges), self.root * mean - d


def contests(
    student: FieldsStudent, channel: Channel, n_classes: int, law: ScalarOrder, n: int
) -> list[Contest]:
    """Each way in which the label may arise: utilities with n levels, and guesses; no edges yet."""
    pull, k, guess = student.additive(law.V), n_classes, channel.guess(n_classes)
    assert pull is not None
    unknown = np.full((3, n), math.nan)
    C, weight, below = winning_levels(channel, k, n)
    known = Contest(
        pull,
        law.rho,
        channel.utility_law(law.residual),
        channel.width(law.residual),
        math.sqrt(law.q),
        k - 1,
        CompetitorLevels(C, (1 - k * guess) * weight, below),
        unknown,
    )
    if guess == 0:
        return [known]
    free = CompetitorLevels(np.array([math.inf]), np.array([k * guess]), np.ones(1))
    return [known, known._replace(law=None, levels=free, edges=unknown[:, :1])]


def _window(contest: Contest, mean: Array, spread: float) -> Array:
    """The edges of where label and competitors are not negligible."""
    tries = mean[:, None] + spread * np.linspace(-20, 12, 65)
    peak_at = tries[np.arange(len(mean)), contest.winning(tries).argmax(1)]
    floor = contest.winning(peak_at) - _LABEL
    low, high = (
        _bisected(lambda x: contest.winning(x) > floor, peak_at, peak_at + reach * spread)
        for reach in (-22, 14)
    )
    least = -_COMPETITOR - math.log(contest.n_competitors)
    top = _bisected(
        lambda x: contest.around(x)[0] - 0.5 * x * x > least,
        np.minimum(low, 0.0),
        np.full_like(low, 9.0),
    )
    return np.stack([low, high, np.maximum(top, _BOTTOM + 1)])


def _bisected(
    holds: Callable[[Array], Mask], inside: Array, outside: Array, n: int = _BISECTIONS
) -> Array:
    """How far from `inside` a condition holds that does not at `outside`."""
    for _ in range(n):
        middle = (inside + outside) / 2
        within = holds(middle)
        inside, outside = np.where(within, middle, inside), np.where(within, outside, middle)
    return inside


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
    pull, root, n_competitors = contest.pull, contest.root, contest.n_competitors
    low, _, top = contest.edges[..., None]

    def field_of(p: Array) -> Array:
        return np.asarray((L + pull.competitor_at(np.maximum(p, 1e-300))[0]) / root)

    floor = pull.competitor(root * _BOTTOM - L)[0]
    most = pull.label(root * low - L).P
    cut = floor + 1.5 * np.maximum(most - n_competitors * floor, 1e-3 * np.abs(most))
    bottom = np.full_like(L, _BOTTOM)
    highest = np.maximum(np.minimum(top, field_of(cut)), bottom + 1e-9)
    p_top = pull.competitor(root * highest - L)[0]
    p_start = floor + 0.05 * (p_top - floor)
    start = np.clip(field_of(p_start), bottom, highest)
    knee = np.clip((L + pull.knee) / root, bottom, start)
    dead = np.maximum(knee - (_DEAD + math.log(n_competitors)) / root, bottom)
    turn = contest.middle()[:, None] - 4 * contest.width / max(contest.rho, 1e-3)
    n_below = 6 + n // 6
    p, step = gauss(np.minimum(p_start, p_top), p_top, n)
    t, a = pull.competitor_at(np.maximum(p, 1e-300))
    rules = (
        gauss(bottom, np.clip(turn, bottom, dead), _FAR),
        gauss(np.clip(turn, bottom, dead), dead, _FAR),
        gauss(dead, np.clip(turn, dead, knee), n_below),
        gauss(np.clip(turn, dead, knee), knee, n_below),
        gauss(knee, start, 2 + n // 5),
        ((t + L[..., None]) / root, step / (root * np.maximum(a, 1e-300))),
    )
    x, weight = (np.concatenate(parts, -1) for parts in zip(*rules, strict=True))
    log_F, hazard = contest.around(x)
    weight = weight * np.exp(log_F - 0.5 * x * x) / _ROOT
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


def _held_range(contest: Contest) -> tuple[Array, Array]:
    """The least and largest L (c,) that count at each level, by Chernoff's bound on its weight."""
    pull, root, N = contest.pull, contest.root, contest.n_competitors
    low, high, top = contest.edges
    least = _held(pull, root * low, np.full_like(low, _BOTTOM * root), N)
    least = np.maximum(least, root * low)
    most = np.maximum(_held(pull, root * high, root * top, N), least + 1e-12)
    for depth in (2 * _HELD, _HELD):
        L = least[:, None] + (most - least)[:, None] * np.linspace(0, 1, _SCAN)
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
    N, one = contest.n_competitors, competitor_nodes(contest, L, 12)
    low, high, _ = contest.edges[..., None, None]
    x = low + (high - low) * np.linspace(0, 1, _SCAN)
    P, a, _ = contest.pull.label(contest.root * x - L[..., None])
    mean_a = (one.weight * one.a).sum(-1) / np.maximum(one.weight.sum(-1), 1e-300)
    spread = np.sqrt(N * one.central + 1e-300)[..., None]
    wide = spread / (contest.root * contest.label()[1])  # the law of P, as a label's field sees it
    log_g = contest.winning(x) + np.log((a + N * mean_a[..., None]) / np.maximum(a, wide))
    label = P - (N * one.floor)[..., None]
    above = one.p - one.floor[..., None]
    log_weight = np.log(np.maximum(one.weight, 1e-300))
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

    def enough(L: Array) -> Mask:
        P = n_competitors * pull.competitor(competitor - L)[0]
        allowed = pull.largest > P
        return allowed & (L + pull.label_at(np.where(allowed, P, 0.0))[0] >= label)

    return _bisected(enough, high, low, _BISECTIONS + math.ceil(narrow))
