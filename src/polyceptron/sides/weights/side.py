"""The weights side of Bayes-optimal learning: q̂ ↦ v, ψ for any prior and any spectrum.

One row u = Pw in R^r is seen as γ = q̂u* + √q̂ ξ. With ⟨·⟩ the posterior,

    v₁(q̂) = 1 − F(q̂) = E tr Cov⟨u⟩ / r,

a sum of positive terms, never 1 − q, so that it keeps its digits when q → 1. Which sum depends on
the prior and on the number of classes, and is decided in `row_rule` and nowhere else:

    Gaussian                     1/(1 + q̂)
    ±1, k ≥ 4                    a table for every k                              `sign_table.py`
    finite, few rows             the points that a row can take, on a lattice     `point_rows.py`
    other finite                 k − 1 classes sampled, the last one integrated   `finite_rows.py`
    any other, one weight        one integral                                     `field_table.py`
    any other, k ≤ 3             a lattice, at large q̂ panels of gaps             `few_classes.py`
    any other, k ≥ 4             the fields sampled                               `sampled_rows.py`

Whitened, feature i carries the share p_i = s_iθ_i of the teacher's field and sees the scalar
signal-to-noise ratio q̂p_i. With ⟨·⟩ the mean over features, ⟨p⟩ = 1,

    v(q̂) = ⟨p v₁(q̂p)⟩,      ψ(q̂) = ⟨ψ₁(q̂p)⟩,      ψ₁′ = −(r/2) v₁   so that   ψ′ = −(r/2) v,

ψ = E ln Z_w − rq̂/2. A finite prior ends at q̂ = ∞ with all rows known, whatever their p > 0: v = 0
and ψ = −H times their fraction, H the entropy of a reduced row.

v₁ and ψ₁ are in closed form for Gaussian weights, else proxies of ln v₁ on panels that are built
when first needed:

    finite        in x = √q̂, up to where v₁ is negligible: it falls as exp(−q̂δ²/8)/√q̂, δ the
                  smallest distance of two rows, and is continued so
    continuous    in x = ln(1 + q̂/q̂₀), q̂₀ = 3/E w⁴: v₁ falls as 1/q̂, and is continued beyond
                  q̂ = 1e8 as q̂v₁ = A + B/√q̂; above three classes what one class leaves is exact,
                  and only the ratio to it is sampled

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.
"""

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray
from scipy.special import gammaln

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.estimate import N_REPLICATES
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy, local_gauss, points
from polyceptron.problem import AnyTeacher
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.progress import steps
from polyceptron.sides.weights import few_classes, finite_rows, point_rows, sampled_rows
from polyceptron.sides.weights.field_table import single_variance
from polyceptron.sides.weights.sign_table import EDGES, is_sign, sign_table

_MOST_COUNTS = 500_000
_MOST_ROWS = {4: 4096, 5: 1024, 6: 64}  # points that a row can take, to be summed on a lattice
_MOST_CLOSE_ROWS = 1024  # at six classes, if some are so close that samples would miss them
_DIGITS, _LATTICE_ERROR = {4: 12, 5: 10, 6: 9}, 2e-4  # e-folds of its error at first; enough of v
_SAMPLED_SHIFT_ERROR = 1e-5  # relative, of v: what the nodes of the shift leave


@dataclass(frozen=True)
class RowRule:
    """How v is computed: at q̂ and a level, 2**level points a replicate where it is sampled."""

    at: Callable[[float, int], Any]  # a number, or replicates
    error: Callable[[float, int], float] = lambda *_: 0.0  # relative, at q̂, sampling apart
    levels: Iterable[int] = ()  # of a rule that is not sampled, in turn, until its error is
    enough: float = 0.0
    sampled: bool = False  # whether v is averaged over random points
    known: Callable[[float], float] | None = None  # most of v at q̂, not sampled

    def __call__(self, q_hat: Any, level: int = 8) -> Array:
        """v at each q̂ (p,): shape (p, replicates)."""
        each = np.atleast_1d(np.asarray(q_hat, dtype=float))
        return np.stack([np.atleast_1d(self.at(float(q), level)) for q in steps(each)])


@lru_cache(maxsize=64)
def row_rule(teacher: AnyTeacher) -> RowRule:
    """The rule of a teacher's rows."""
    prior, k = teacher.prior, teacher.n_classes
    if prior.gaussian:
        return RowRule(lambda q_hat, _: 1 / (1 + q_hat))
    if prior.support is not None:
        if teacher.reduced_rank <= 2:
            return RowRule(lambda q_hat, _: point_rows.point_variance(teacher, q_hat))
        if is_sign(prior):
            table = sign_table(k)
            return RowRule(
                lambda q_hat, _: np.exp(table.log_variance(np.sqrt([q_hat]))),
                lambda q_hat, _: float(table.error(math.sqrt(q_hat))),
            )
        most_rows = _MOST_ROWS.get(k, 0)
        if k == 6 and row_spacing(teacher) < 0.5 * changes_of_one_class(teacher).min():
            most_rows = _MOST_CLOSE_ROWS
        if len(prior.support[0]) ** k <= most_rows:
            return RowRule(
                partial(point_rows.point_variance, teacher),
                partial(point_rows.point_error, teacher),
                *((_DIGITS[k], _DIGITS[k] + 2), _LATTICE_ERROR),
            )
        rule = partial(finite_rows.finite_row_variance, prior, k)
        return RowRule(rule, lambda *_: _SAMPLED_SHIFT_ERROR, sampled=True)
    left = 3 * prior.accuracy
    if not teacher.common_shift:
        return RowRule(lambda q_hat, _: single_variance(prior, q_hat), lambda *_: left)
    if k > 3:
        return RowRule(
            partial(sampled_rows.sampled_shift_variance, prior, k),
            lambda *_: _SAMPLED_SHIFT_ERROR + left,
            sampled=True,
            known=partial(single_variance, prior),
        )
    return RowRule(
        partial(few_classes.few_shift_variance, prior, k),
        lambda q_hat, level: few_classes.few_shift_error(prior, k, q_hat, level) + left,
        range(2, len(few_classes.GAP_RULES[k])),
        few_classes.GAP_ERROR[k],
    )


class Effort(NamedTuple):
    """log2 of the points of the first and the finest curve, and the default tolerances."""

    first: int  # a few seconds; 0 where nothing is sampled
    last: int  # minutes
    tolerance: float  # of the error
    transition: float  # of α_IT and α_algo


def effort(teacher: AnyTeacher) -> Effort:
    """How hard to sample for a teacher, and what uncertainty to ask for where none is given."""
    k, prior = teacher.n_classes, teacher.prior
    continuous = prior.support is None and not prior.gaussian
    if k <= 3:  # the gap rule of three classes is good to 1e-6
        return Effort(0, 0, 1e-6 if continuous and k == 3 else 1e-8, 1e-6)
    tolerance = 1e-4 if prior.gaussian else 2e-3 if continuous else 3e-4
    if not row_rule(teacher).sampled:
        return Effort(0, 0, tolerance, 1e-3)
    # What the shift hides falls as 1/k.
    first = 5 if k <= (10 if continuous else 20) else 4 if k <= 60 else 2
    return Effort(first, 10 if k <= 20 else 8, tolerance, 3e-3)


def row_spacing(teacher: AnyTeacher) -> float:
    """The smallest distance δ of two different rows u of a finite prior.

    Up to a common shift rows w and w′ differ by the scatter of w − w′ over the classes. Its entries
    are differences of values, and the smallest scatter has one entry that is next to all others:
    δ² = g²(1 − 1/k) with g the smallest gap between two differences of values.
    """
    if not teacher.common_shift:
        return float(np.diff(point_rows.support_of(teacher.prior)[0]).min())
    return point_rows.smallest_difference(teacher.prior) * math.sqrt(1 - 1 / teacher.n_classes)


def changes_of_one_class(teacher: AnyTeacher) -> Array:
    """The distances of rows that differ in one class, by neighbouring values of a finite prior."""
    gaps: Array = np.diff(point_rows.support_of(teacher.prior)[0])
    if not teacher.common_shift:
        return gaps
    return gaps * math.sqrt(1 - 1 / teacher.n_classes)


def _counts(total: int, parts: int) -> Array:
    """All ways to write a total as a sum of so many whole numbers, (n, parts)."""
    places = total + parts - 1
    bars = np.array(list(combinations(range(places), parts - 1))).reshape(-1, parts - 1)
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, places)))
    return np.asarray(np.diff(ends) - 1)


@lru_cache(maxsize=64)
def variance_bound(teacher: AnyTeacher) -> Callable[[AnyArray], AnyArray]:
    """A function of q̂ (n,) that is at least v₁, for a finite prior on class differences.

    v₁ = (1/r) Σ Δ² E[w w′] over pairs of rows a distance Δ apart, w and w′ their posterior
    probabilities. As ab/(a + b) ≤ √(ab)/2, E[w w′] ≤ ½√(PP′) exp(−q̂Δ²/8). The difference of two
    rows has entries that are differences d of values, each with a factor Σ √(p(w) p(w + d)).
    """
    values, p = point_rows.support_of(teacher.prior)
    k = teacher.n_classes
    all_differences = np.subtract.outer(values, values).ravel()
    decimals = -round(math.log10(point_rows.SAME_DIFFERENCE))
    differences, place = np.unique(np.round(all_differences, decimals), return_inverse=True)
    overlap = np.bincount(place.ravel(), np.sqrt(np.outer(p, p)).ravel())
    if math.comb(k + len(differences) - 1, len(differences) - 1) > _MOST_COUNTS:
        return lambda q_hat: np.ones_like(q_hat)
    counts = _counts(k, len(differences))
    log_weight = gammaln(k + 1) - gammaln(counts + 1).sum(1) + counts @ np.log(overlap)
    square = counts @ differences**2 - (counts @ differences) ** 2 / k  # Δ²
    apart = square > point_rows.SAME_DIFFERENCE
    scale = square[apart] * np.exp(log_weight[apart]) / (4 * teacher.reduced_rank)
    fall = square[apart] / 8

    def bound(q_hat: AnyArray) -> AnyArray:
        found = [float(scale @ np.exp(-fall * q)) for q in q_hat]
        return np.minimum(np.array(found), 1.0)

    return bound


@lru_cache(maxsize=64)
def row_entropy(teacher: AnyTeacher) -> float:
    """H(u): the entropy of one reduced teacher row; infinite for a continuous prior.

    Rows that differ by a shift inside the support are one u; they are counted by their values.
    """
    prior, k = teacher.prior, teacher.n_classes
    if prior.support is None or not teacher.common_shift:
        return prior.entropy
    values, p = prior.support
    m = len(values)
    if math.comb(k + m - 1, m - 1) > _MOST_COUNTS:
        raise ComputationFailed(
            f"the entropy of a row of {k} classes with {m} values is not implemented at this size; "
            "use fewer classes or values"
        )
    counts = _counts(k, m)
    log_row = counts @ np.log(p)
    log_u = log_row.copy()
    for shift in np.unique(np.round(np.subtract.outer(values, values), 9)):
        place = np.abs(values + shift - values[:, None])  # (target, value)
        stays = place.min(0) < point_rows.SAME_DIFFERENCE
        fits = ~counts[:, ~stays].any(1) & (shift != 0)
        moved = counts[fits] @ np.where(stays, np.log(p[place.argmin(0)]), 0.0)
        log_u[fits] = np.logaddexp(log_u[fits], moved)
    return float(-(np.exp(gammaln(k + 1) - gammaln(counts + 1).sum(1) + log_row) @ log_u))


Index = NDArray[np.int64]
_LAST = 1e8  # q̂ of the last panel of a continuous prior: beyond, its tilted law loses digits
_WIDTH = 2.4  # of the panels of a continuous prior; its curve is always built but for the last four
_SMOOTH = 0.05  # q̂ below which v and I vary over powers of q̂ only
_MOST_SAMPLED_FIELD = 100.0  # √q̂ times the range of values; the cost of a sum is as its square
_RATIO = 1.006  # of neighbouring q̂ where rows of many strengths are resolved in turn
_AT_ONCE = 2_000_000


class PriorSide:
    """v, ψ and what is known of their error; `log2_points` matters where rows are sampled."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher = teacher
        features = teacher.features
        self.flat = features.flat
        self.rows = _row_table(replace(teacher, noise="none", features="isotropic"), log2_points)  # type: ignore[arg-type]
        self.n_replicates = self.rows.n_replicates  # R, or 0 where the rule is deterministic
        self.power, self.fraction = local_gauss(features.power, features.fraction)

    @property
    def known_entropy(self) -> float:
        """−ψ at q̂ = ∞: the entropy of all rows that carry signal (finite priors)."""
        return float(self.fraction.sum()) * row_entropy(self.teacher)

    @property
    def slowest_fall(self) -> float:
        """δ²/8 times the weakest feature's share: v falls as exp(−q̂ times this) (finite priors)."""
        return float(self.power.min()) * row_spacing(self.teacher) ** 2 / 8

    def bound(self, q_hat: AnyArray) -> AnyArray:
        """What v is at most at q̂ (n,), also where rows are not resolved (finite priors)."""
        one_row = variance_bound(replace(self.teacher, noise="none", features="isotropic"))  # type: ignore[arg-type]
        seen = np.multiply.outer(q_hat, self.power)
        each = one_row(seen.ravel()).reshape(seen.shape)
        return np.asarray(each @ (self.power * self.fraction))

    def __call__(self, hats: Conjugates, column: int = 0) -> ScalarOrder:
        """The law of the mean (column 0) or of one replicate after a step of the plain loop."""
        v = float(self.moments(np.array([hats.q]), np.array([column]))[0][0])
        return ScalarOrder.bayes(v) if v > 0 else ScalarOrder(math.inf, 1.0, 0.0)

    def moments(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v and ψ at q̂ (n,), each in its column (n,)."""
        if not self.n_replicates:
            column = 0 * column
        if self.flat:
            return self.rows(q_hat, column)
        v, psi = np.empty_like(q_hat), np.empty_like(q_hat)
        block = max(1, _AT_ONCE // len(self.power))
        for start in range(0, len(q_hat), block):
            part = slice(start, start + block)
            seen = np.multiply.outer(q_hat[part], self.power)
            each = np.repeat(column[part], len(self.power))
            one_v, one_psi = (a.reshape(seen.shape) for a in self.rows(seen.ravel(), each))
            v[part] = one_v @ (self.power * self.fraction)
            psi[part] = one_psi @ self.fraction
        return v, psi

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Relative error of v at q̂ (n,) from panels and rules, sampling apart."""
        if self.flat or isinstance(self.rows, GaussianRows):
            return self.rows.error(q_hat)
        seen = np.multiply.outer(q_hat, self.power).ravel()
        share = self.rows(seen, np.zeros(seen.size, dtype=np.int64))[0]
        share, error = (a.reshape(len(q_hat), -1) for a in (share, self.rows.error(seen)))
        share = share * self.power * self.fraction
        total = share.sum(1)
        known = total > 0  # else v is too small for a number, and exact as it is
        return np.where(known, (share * error).sum(1) / np.where(known, total, 1.0), 0.0)

    def panel_end(self, q_hat: float) -> float:
        """The end of the panel of q̂; infinite past the last stage, or where panels are mixed."""
        if not self.flat or isinstance(self.rows, GaussianRows) or q_hat > self.rows.ends[0]:
            return math.inf
        ends = self.rows.q_hat(np.array(self.rows.edges))
        return (1 - 1e-9) * float(ends[np.searchsorted(ends, q_hat)])

    def stages(self, far: int) -> Iterator[AnyArray]:
        """q̂ in rising order, stage after stage, close enough to see every turn of the curve α(q̂).

        From `far` = 1 on, panel by panel, every row has told nearly all and α rises for good.
        """
        first, last = _SMOOTH / float(self.power.max()), 1 / float(self.power.min())
        tail = self.rows.ends[0] * last
        if far:
            ends = (*self.rows.ends, LARGEST)
            low, high = (min(ends[far + i] * last, LARGEST) for i in (-1, 0))
            yield np.geomspace(min(low, 0.1 * high), high, 300)[1:]
            return
        yield np.geomspace(SMALLEST, first, 120)
        if not self.flat:
            ratio = 1.02 if isinstance(self.rows, GaussianRows) else _RATIO
            n = max(2, math.ceil(math.log(tail / first) / math.log(ratio)))
            yield from np.array_split(np.geomspace(first, tail, n)[1:], max(1, n // 150))
        elif self.teacher.prior.support is None:
            yield np.geomspace(first, tail, 300)[1:]
        else:  # panel after panel: they are dear
            for low, high in pairwise(self.rows.edges):
                yield np.linspace(max(low, math.sqrt(first)), high, 102)[1:] ** 2


SMALLEST, LARGEST = 1e-30, 1e22  # of q̂: α from 1e-12 to 1e8 for every channel


class GaussianRows(NamedTuple):
    """v₁ = 1/(1 + q̂), ψ₁ = −(r/2) ln(1 + q̂); α rises throughout."""

    half: float  # r/2
    edges: tuple[float, ...] = ()
    ends: tuple[float, ...] = (1e3,)
    n_replicates: int = 0
    resolved: bool = True

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        return 1 / (1 + q_hat), -self.half * np.log1p(q_hat)

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Nothing is lost."""
        return np.zeros_like(q_hat)


class PanelRows:
    """v₁ and ψ₁ of a prior that is not Gaussian, from proxies of ln v₁ on panels of x."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.rule, self.finite = row_rule(teacher), teacher.prior.support is not None
        self.n_replicates = N_REPLICATES if self.rule.sampled else 0
        self.divided = self.rule.sampled or not self.finite  # else digits would be lost
        self.resolved = True  # whether the panels reach to where all rows are told apart
        self.panels: list[tuple[ChebyshevProxy, ChebyshevProxy]] = []
        self.errors: list[float] = []  # of ln v, what the series of each panel leaves
        self.missed: list[tuple[float, float]] = [(0.0, 0.0)]  # x, and what the rule leaves there
        self.start: AnyArray = np.zeros(1)  # ψ at the end of the last panel
        self._building = threading.RLock()  # panels follow one another
        # Below q̂ = 3/E w⁴, the density of sparse weights, a series in q̂ converges.
        log_g = teacher.prior.tilted(np.array([0.1, -0.1]), np.zeros(2)).log_g  # b²/2 + κ₄b⁴/24 …
        self.unit = min(1.0, 3 / (3 + 24e4 * max(float(log_g.mean()) - 0.005, 0.0)))
        self.small: Any = np.square if self.finite else partial(np.multiply, self.unit)  # like q̂
        last = math.log1p(_LAST / self.unit)
        self.edges = np.linspace(0.0, last, math.ceil(last / _WIDTH) + 1).tolist()
        if self.finite:  # up to √q̂ at which v ~ exp(−q̂δ²/8) is negligible
            nothing = 1e-12 if teacher.n_classes <= 3 else 1e-6
            reach = math.sqrt(8 * math.log(1 / nothing)) / row_spacing(teacher)
            if self.rule.sampled:
                values = point_rows.support_of(teacher.prior)[0]
                most = _MOST_SAMPLED_FIELD / float(np.ptp(values))
                self.resolved = reach <= most
                reach = min(reach, most)
            signs = teacher.n_classes > 3 and is_sign(teacher.prior)
            width = (
                math.sqrt(8 * math.log(1 / nothing))
                / float(changes_of_one_class(teacher).max())
                / 5
            )
            self.edges = list(EDGES) if signs else [0.0, width / (2 if self.divided else 1)]
            while self.edges[-1] < (1 - 1e-9) * reach and not signs:
                ahead = max(self.edges[-1] + width, 1.5 * self.edges[-1])
                self.edges.append(reach if 1.2 * ahead > reach else ahead)
        stages = self.edges[-1 if self.finite else -5 :]
        self.ends = ((1 - 1e-9) * self.q_hat(np.array(stages))).tolist()  # q̂ of the last stages

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        """x at q̂."""
        return np.sqrt(q_hat) if self.finite else np.log1p(q_hat / self.unit)

    def q_hat(self, x: AnyArray) -> AnyArray:
        """q̂ at x."""
        return np.asarray(x**2 if self.finite else self.unit * np.expm1(x))

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Relative error of v₁ at q̂ (n,), sampling apart; v₁(0) = 1 is met exactly."""
        x = self.coordinate(q_hat)
        panel = np.clip(np.searchsorted(self.edges, x, side="right"), 1, len(self.errors)) - 1
        errors = np.array(self.errors)[panel] * np.minimum(1.0, q_hat / self.unit)
        return np.asarray(errors + np.interp(x, *np.array(self.missed).T))

    def _panel(self, i: int) -> tuple[ChebyshevProxy, ChebyshevProxy]:
        if len(self.panels) <= i:
            with self._building:
                while len(self.panels) <= i:
                    self._build()
        return self.panels[i]

    def _build(self) -> None:
        low, high = self.edges[len(self.panels) : len(self.panels) + 2]
        table = self.finite and not self.rule.levels
        inside = points(low, high, 9)[[6, 4, 2, 0] if table else [4, 0]]
        for level in self.rule.levels or (self.log2_points,):
            missed = [self.rule.error(float(q_hat), level) for q_hat in self.q_hat(inside)]
            if max(missed) < self.rule.enough:
                break
        self.missed += zip(inside.tolist(), missed, strict=True)
        start, most, tol = 9, 65, max(1e-9, 0.05 * self.rule.enough, 0.1 * max(missed))
        if self.rule.sampled:
            start = most = 7 if low > 0 and not self.finite else 9 if low > 0 else 11
        elif table:  # the sum behind v is good to about 1e-15 in absolute terms
            least = 3e-15 / float(self.rule(high**2).min() + 1e-300)
            start, most, tol = 17, 129, min(max(1e-13, least, 0.1 * max(missed)), 1e-3)
        log_v = partial(self._log_v, level=level)
        proxy = chebyshev_proxy(log_v, low, high, tol=tol, start=start, max_points=most)
        if self.rule.known:
            proxy += chebyshev_proxy(self._log_known, low, high, tol=1e-6, start=9, max_points=65)
        if low == 0 and self.divided:
            part, n = proxy, len(proxy.coefficients) + 2
            whole = chebyshev_proxy(
                lambda x: self.small(x)[:, None] * part(x).T, low, high, start=n, max_points=n
            )
            proxy = replace(whole, error=part.error * self.small(high))
        half = 0.5 * self.teacher.reduced_rank

        def rate(x: AnyArray) -> AnyArray:
            """dψ/dx = −(r/2) v dq̂/dx."""
            q_slope = 2 * x if self.finite else self.unit * np.exp(x)
            return np.asarray(-half * q_slope[:, None] * np.exp(proxy(x).T))

        slope = chebyshev_proxy(rate, low, high, tol=1e-14, start=33)
        integral = C.chebint(slope.coefficients, scl=0.5 * (high - low), axis=0)
        integral[0] += self.start - C.chebval(-1.0, integral)
        psi = ChebyshevProxy(low, high, integral, slope.error)
        self.start = np.asarray(C.chebval(1.0, integral))
        self.errors.append(float(proxy.error[0]))
        self.panels.append((proxy, psi))

    def _log_v(self, x: AnyArray, level: int) -> AnyArray:
        """ln v (p, 1 + R) of the mean and of its replicates; one replicate is the mean itself."""
        found = self.rule(self.q_hat(x), level)
        if not np.isfinite(found).all():
            raise ComputationFailed(
                f"the posterior of weights {self.teacher.prior.name!r} at k = "
                f"{self.teacher.n_classes} is not a number: use another prior or fewer classes"
            )
        if found.shape[1] > 1:
            found = np.hstack([found.mean(1, keepdims=True), found])
        log_v = self._over(x, np.log(np.maximum(found, 1e-200)))
        return log_v - self._log_known(x) if self.rule.known else log_v

    def _log_known(self, x: AnyArray) -> AnyArray:
        """ln of what is known of v, (p, 1)."""
        assert self.rule.known is not None
        return self._over(x, np.log([[self.rule.known(float(q))] for q in self.q_hat(x)]))

    def _over(self, x: AnyArray, log_v: AnyArray) -> AnyArray:
        """ln v in the first panel over what it vanishes with, as v = 1 − q̂ + …: its error does."""
        if not self.divided or x.max() > self.edges[1]:
            return log_v
        small = self.small(x)[:, None]
        return np.where(small > 0, log_v / np.where(small > 0, small, 1.0), -1.0)

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v₁ and ψ₁ at q̂ (n,), each in its column (n,)."""
        x = self.coordinate(q_hat)
        where = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        out = x > self.edges[-1]
        v, psi = np.empty_like(x), np.empty_like(x)
        for i in steps(np.unique(where[~out])):
            mask = (where == i) & ~out
            proxy, psi_proxy = self._panel(int(i))
            v[mask] = np.exp(proxy.column(x[mask], column[mask]))
            psi[mask] = psi_proxy.column(x[mask], column[mask])
        if out.any():
            v[out], psi[out] = self._beyond(q_hat[out], column[out])
        return v, psi

    def _beyond(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v and ψ past the last panel."""
        half = 0.5 * self.teacher.reduced_rank
        if self.finite:
            proxy = self._panel(len(self.edges) - 2)[0]
            last = np.exp(proxy.column(np.full_like(q_hat, self.edges[-1]), column))
            fall = row_spacing(self.teacher) ** 2 / 8
            v = last * np.exp(-fall * (q_hat - self.ends[0])) * np.sqrt(self.ends[0] / q_hat)
            return v, half / fall * v - row_entropy(self.teacher)
        ends = (_LAST / 64, _LAST * (1 - 1e-9))
        low, high = (q * self(np.full_like(q_hat, q), column)[0] for q in ends)
        slope = (low - high) * math.sqrt(_LAST) / 7  # B: 1/√q̂ falls by 7/8 between the two
        limit = high - slope / math.sqrt(_LAST)
        root = 1 / np.sqrt(q_hat)
        steps = limit * np.log(q_hat / _LAST) + 2 * slope * (1 / math.sqrt(_LAST) - root)
        return (limit + slope * root) / q_hat, self.start[column] - half * steps


@lru_cache(maxsize=32)
def _row_table(teacher: AnyTeacher, log2_points: int) -> GaussianRows | PanelRows:
    """One table for all noises and features: neither is a matter of one row."""
    if teacher.prior.gaussian:
        return GaussianRows(0.5 * teacher.reduced_rank)
    return PanelRows(teacher, log2_points)
