"""v₁ and ψ₁ of one row as functions of q̂: in closed form, or proxies of ln v₁ on panels.

The panels are built when first needed, one after the other, in a coordinate x of q̂:

    finite        x = √q̂, up to where v₁ is negligible: it falls as exp(−q̂δ²/8)/√q̂, δ the
                  smallest distance of two rows, and is continued so          (`RootCoordinate`)
    continuous    x = ln(1 + q̂/q̂₀), q̂₀ = 3/E w⁴: v₁ falls as 1/q̂, and is continued beyond
                  q̂ = 1e8 as q̂v₁ = A + B/√q̂; above three classes what one class leaves is exact,
                  and only the ratio to it is sampled                          (`LogCoordinate`)

Narrow peaks of a density are told apart one scale after the other. In between v₁ stays where it is,
and later it falls faster than 1/q̂: the first stage of panels ends where it falls as 1/q̂.

Where rows are sampled, or the prior is continuous, the first panel is that of ln v₁ over what it
vanishes with at q̂ = 0, v₁ = 1 − q̂ + …, so that its error vanishes too.

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.
"""

import math
import threading
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import N_REPLICATES
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy, points
from polyceptron.problem import AnyTeacher
from polyceptron.progress import steps
from polyceptron.sides.weights import point_rows
from polyceptron.sides.weights.row_differences import (
    changes_of_one_class,
    row_entropy,
    row_spacing,
)
from polyceptron.sides.weights.row_rule import effort, row_rule
from polyceptron.sides.weights.sign_table import EDGES, is_sign

Index = NDArray[np.int64]

# q̂ of the last panel of a continuous prior: beyond, its tilted law loses digits.
LARGEST_Q_HAT_OF_PANELS = 1e8
# Width in x of the panels of a continuous prior; its curve is always built but for the last four.
WIDTH_OF_LOG_PANELS = 2.4
N_STAGES_OF_LOG_PANELS = 5
# How far −d ln v₁/d ln q̂ may be from 1 where all scales of a continuous prior are told apart:
# 0.02 for sparse weights, and 1 between two scales (test_several_folds.py).
LARGEST_CHANGE_OF_STEEPNESS = 0.25
# Relative error of v₁ of a continuous prior up to there, above which rises and falls of α may be
# the rule's own: 1e-4 for sparse weights, more than 1 between narrow peaks.
LARGEST_ERROR_OF_A_SCALE = 0.01
# √q̂ times the range of values, up to which rows are sampled: the cost of a sum is as its square.
LARGEST_SAMPLED_FIELD = 100.0
# v₁ at which the panels of a finite prior end, up to three classes and above.
NEGLIGIBLE_VARIANCE = 1e-12
NEGLIGIBLE_VARIANCE_OF_MANY_CLASSES = 1e-6
JUST_INSIDE = 1 - 1e-9  # of q̂ at the end of a panel


class GaussianRows(NamedTuple):
    """v₁ = 1/(1 + q̂), ψ₁ = −(r/2) ln(1 + q̂); α rises throughout."""

    half: float  # r/2
    edges: tuple[float, ...] = ()
    ends: tuple[float, ...] = (1e3,)
    n_replicates: int = 0
    resolved: bool = True

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """Return v₁ and ψ₁ at q̂ (n,)."""
        return 1 / (1 + q_hat), -self.half * np.log1p(q_hat)

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Return 0 at each q̂ (n,): nothing is lost."""
        return np.zeros_like(q_hat)


class RootCoordinate(NamedTuple):
    """x = √q̂, in which v₁ of a finite prior falls as a Gaussian."""

    unit: float  # q̂ below which a series in q̂ converges

    def x(self, q_hat: AnyArray) -> AnyArray:
        """Return x at q̂."""
        return np.sqrt(q_hat)

    def q_hat(self, x: AnyArray) -> AnyArray:
        """Return q̂ at x."""
        return np.asarray(x**2)

    def q_hat_slope(self, x: AnyArray) -> AnyArray:
        """Return dq̂/dx at x."""
        return np.asarray(2 * x)

    def like_q_hat(self, x: AnyArray) -> AnyArray:
        """Return what vanishes with q̂ as 1 − v₁ does."""
        return np.square(x)


class LogCoordinate(NamedTuple):
    """x = ln(1 + q̂/q̂₀), in which v₁ of a continuous prior falls as an exponential."""

    unit: float  # q̂₀

    def x(self, q_hat: AnyArray) -> AnyArray:
        """Return x at q̂."""
        return np.asarray(np.log1p(q_hat / self.unit))

    def q_hat(self, x: AnyArray) -> AnyArray:
        """Return q̂ at x."""
        return np.asarray(self.unit * np.expm1(x))

    def q_hat_slope(self, x: AnyArray) -> AnyArray:
        """Return dq̂/dx at x."""
        return np.asarray(self.unit * np.exp(x))

    def like_q_hat(self, x: AnyArray) -> AnyArray:
        """Return what vanishes with q̂ as 1 − v₁ does."""
        return np.multiply(self.unit, x)


class PanelSettings(NamedTuple):
    """How the proxy of a panel is made: first and last number of points, and its tolerance."""

    start: int
    most: int
    tol: float


class PanelRows:
    """v₁ and ψ₁ of a prior that is not Gaussian, from proxies of ln v₁ on panels of x.

    Attributes
    ----------
    n_replicates : int
        R, or 0 where the rule is not sampled.
    edges : list of float
        Ends of the panels, in x.
    """

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher = teacher
        self.log2_points = log2_points
        self.rule = row_rule(teacher)
        self.finite = teacher.prior.support is not None
        self.n_replicates = N_REPLICATES if self.rule.sampled else 0
        self.divided = self.rule.sampled or not self.finite  # else digits would be lost
        self.panels: list[tuple[ChebyshevProxy, ChebyshevProxy]] = []
        self.errors: list[float] = []  # of ln v, what the series of each panel leaves
        self.missed: list[tuple[float, float]] = [(0.0, 0.0)]  # x, and what the rule leaves there
        self.start: AnyArray = np.zeros(1)  # ψ at the end of the last panel
        self._building = threading.RLock()  # panels follow one another
        self.unit = _radius_of_series(teacher)
        self.coordinate: RootCoordinate | LogCoordinate
        if self.finite:
            self.coordinate = RootCoordinate(self.unit)
            self.edges = self._edges_of_finite_prior()
        else:
            self.coordinate = LogCoordinate(self.unit)
            last = math.log1p(LARGEST_Q_HAT_OF_PANELS / self.unit)
            n_panels = math.ceil(last / WIDTH_OF_LOG_PANELS)
            self.edges = np.linspace(0.0, last, n_panels + 1).tolist()

    @cached_property
    def ends(self) -> list[float]:
        """q̂ at the ends of the last stages of panels; by the first, all rows are told apart."""
        stages = self.edges[-N_STAGES_OF_LOG_PANELS:]
        if self.finite:
            stages = self.edges[-1:]
        ends = (JUST_INSIDE * self.coordinate.q_hat(np.array(stages))).tolist()
        while len(ends) > 1 and not self._on_first_level._falls_as_inverse(ends[0]):
            del ends[0]
        return ends

    @cached_property
    def resolved(self) -> bool:
        """Return whether the panels reach to where all rows are told apart."""
        if self.finite:
            return not self.rule.sampled or self._reach_of_rows() <= self._reach_of_samples()
        table = self._on_first_level
        end = table.ends[0]
        if not table._falls_as_inverse(end):
            return False
        return float(table.error(np.geomspace(self.unit, end)).max()) < LARGEST_ERROR_OF_A_SCALE

    @property
    def _on_first_level(self) -> "PanelRows":
        """The table at the first level of effort, which decides where the stages end."""
        first_level = effort(self.teacher).first
        if self.log2_points == first_level:
            return self
        table = row_table(self.teacher, first_level)
        assert isinstance(table, PanelRows)
        return table

    def _falls_as_inverse(self, q_hat: float) -> bool:
        """Say whether v₁ of a continuous prior falls as 1/q̂ at q̂, which builds its panels."""
        ratio = 1.5
        v, _ = self(np.array([q_hat / ratio, q_hat]), np.zeros(2, dtype=np.int64))
        steepness = math.log(v[0] / v[1]) / math.log(ratio)
        return abs(steepness - 1) < LARGEST_CHANGE_OF_STEEPNESS

    def _reach_of_rows(self) -> float:
        """Return the √q̂ at which v ~ exp(−q̂δ²/8) of a finite prior is negligible."""
        negligible = NEGLIGIBLE_VARIANCE_OF_MANY_CLASSES
        if self.teacher.n_classes <= 3:
            negligible = NEGLIGIBLE_VARIANCE
        return math.sqrt(8 * math.log(1 / negligible)) / row_spacing(self.teacher)

    def _reach_of_samples(self) -> float:
        """Return the √q̂ up to which rows of a finite prior are sampled."""
        values = point_rows.support_of(self.teacher.prior)[0]
        return LARGEST_SAMPLED_FIELD / float(np.ptp(values))

    def _edges_of_finite_prior(self) -> list[float]:
        """Return the ends of the panels, up to √q̂ at which v ~ exp(−q̂δ²/8) is negligible."""
        teacher = self.teacher
        if teacher.n_classes > 3 and is_sign(teacher.prior):
            return list(EDGES)
        reach = self._reach_of_rows()
        falls = reach * row_spacing(teacher)
        if self.rule.sampled:
            reach = min(reach, self._reach_of_samples())
        width = falls / float(changes_of_one_class(teacher).max()) / 5
        edges = [0.0, width / 2 if self.divided else width]
        while edges[-1] < JUST_INSIDE * reach:
            ahead = max(edges[-1] + width, 1.5 * edges[-1])
            edges.append(reach if 1.2 * ahead > reach else ahead)
        return edges

    def q_hat(self, x: AnyArray) -> AnyArray:
        """Return q̂ at x."""
        return self.coordinate.q_hat(x)

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Return the relative error of v₁ at q̂ (n,), sampling apart; v₁(0) = 1 is met exactly."""
        x = self.coordinate.x(q_hat)
        panel = np.clip(np.searchsorted(self.edges, x, side="right"), 1, len(self.errors)) - 1
        errors = np.array(self.errors)[panel] * np.minimum(1.0, q_hat / self.unit)
        return np.asarray(errors + np.interp(x, *np.array(self.missed).T))

    # Building panels.

    def _panel(self, number: int) -> tuple[ChebyshevProxy, ChebyshevProxy]:
        """Return ln v₁ and ψ₁ on a panel, which is built with those before it if it is new."""
        if len(self.panels) <= number:
            with self._building:
                while len(self.panels) <= number:
                    self._build()
        return self.panels[number]

    def _build(self) -> None:
        """Build the next panel."""
        low, high = self.edges[len(self.panels) : len(self.panels) + 2]
        level, missed = self._level_of_panel(low, high)
        proxy = self._log_variance(low, high, level, self._settings(low, high, missed))
        psi = self._integrated(low, high, proxy)
        self.errors.append(float(proxy.error[0]))
        self.panels.append((proxy, psi))

    @property
    def _from_exact_sums(self) -> bool:
        """Say whether v₁ is a sum to rounding, with no levels of accuracy."""
        return self.finite and not self.rule.levels

    def _level_of_panel(self, low: float, high: float) -> tuple[int, float]:
        """Return the level of the rule for a panel, and the largest error that it leaves there."""
        inside = points(low, high, 9)[[4, 0]]
        if self._from_exact_sums:
            inside = points(low, high, 9)[[6, 4, 2, 0]]
        for level in self.rule.levels or (self.log2_points,):
            missed = [self.rule.error(float(q_hat), level) for q_hat in self.q_hat(inside)]
            if max(missed) < self.rule.enough:
                break
        self.missed += zip(inside.tolist(), missed, strict=True)
        return level, max(missed)

    def _settings(self, low: float, high: float, missed: float) -> PanelSettings:
        """Return how the proxy of ln v₁ is made on a panel; `missed` is the rule's own error."""
        if self.rule.sampled:
            n_points = 11
            if low > 0:
                n_points = 9 if self.finite else 7
            return PanelSettings(n_points, n_points, max(1e-9, 0.1 * missed))
        if self._from_exact_sums:  # the sum behind v is good to about 1e-15 in absolute terms
            least = 3e-15 / float(self.rule(high**2).min() + 1e-300)
            return PanelSettings(17, 129, min(max(1e-13, least, 0.1 * missed), 1e-3))
        return PanelSettings(9, 65, max(1e-9, 0.05 * self.rule.enough, 0.1 * missed))

    def _log_variance(
        self, low: float, high: float, level: int, settings: PanelSettings
    ) -> ChebyshevProxy:
        """Return the proxy of ln v₁ on a panel."""
        proxy = chebyshev_proxy(
            partial(self._log_v, level=level),
            low,
            high,
            tol=settings.tol,
            start=settings.start,
            max_points=settings.most,
        )
        if self.rule.known:
            proxy += chebyshev_proxy(self._log_known, low, high, tol=1e-6, start=9, max_points=65)
        if low > 0 or not self.divided:
            return proxy
        n_points = len(proxy.coefficients) + 2

        def multiplied(x: AnyArray) -> AnyArray:
            """Return the function at x (n,), multiplied by what grows like q̂."""
            return np.asarray(self.coordinate.like_q_hat(x)[:, None] * proxy(x).T)

        whole = chebyshev_proxy(multiplied, low, high, start=n_points, max_points=n_points)
        error = proxy.error * self.coordinate.like_q_hat(np.asarray(high))
        return ChebyshevProxy(whole.low, whole.high, whole.coefficients, error)

    def _integrated(self, low: float, high: float, log_v: ChebyshevProxy) -> ChebyshevProxy:
        """Return the proxy of ψ₁ on a panel: dψ/dx = −(r/2) v dq̂/dx."""
        half = 0.5 * self.teacher.reduced_rank

        def rate(x: AnyArray) -> AnyArray:
            """Return dψ₁/dx at x (n,), a column for each of the mean and the replicates."""
            slope = self.coordinate.q_hat_slope(x)[:, None]
            return np.asarray(-half * slope * np.exp(log_v(x).T))

        slope = chebyshev_proxy(rate, low, high, tol=1e-14, start=33)
        integral = C.chebint(slope.coefficients, scl=0.5 * (high - low), axis=0)
        integral[0] += self.start - C.chebval(-1.0, integral)
        self.start = np.asarray(C.chebval(1.0, integral))
        return ChebyshevProxy(low, high, integral, slope.error)

    def _log_v(self, x: AnyArray, level: int) -> AnyArray:
        """Return ln v (p, 1 + R) of the mean and of its replicates.

        One replicate is the mean itself. What is known of v is divided out.
        """
        v = self.rule(self.q_hat(x), level)
        if not np.isfinite(v).all():
            raise ComputationFailed(
                f"the posterior of weights {self.teacher.prior.name!r} at k = "
                f"{self.teacher.n_classes} is not a number: use another prior or fewer classes"
            )
        if v.shape[1] > 1:
            v = np.hstack([v.mean(1, keepdims=True), v])
        log_v = self._divided(x, np.log(np.maximum(v, 1e-200)))
        if self.rule.known:
            return log_v - self._log_known(x)
        return log_v

    def _log_known(self, x: AnyArray) -> AnyArray:
        """Return ln of what is known of v, (p, 1)."""
        assert self.rule.known is not None
        known = [[self.rule.known(float(q_hat))] for q_hat in self.q_hat(x)]
        return self._divided(x, np.log(known))

    def _divided(self, x: AnyArray, log_v: AnyArray) -> AnyArray:
        """Return ln v in the first panel over what it vanishes with; elsewhere ln v itself."""
        if not self.divided or x.max() > self.edges[1]:
            return log_v
        small = self.coordinate.like_q_hat(x)[:, None]
        return np.where(small > 0, log_v / np.where(small > 0, small, 1.0), -1.0)

    # Reading panels.

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """Return v₁ and ψ₁ at q̂ (n,), each in its column (n,)."""
        x = self.coordinate.x(q_hat)
        last = len(self.edges) - 2
        panel_of = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, last)
        beyond = x > self.edges[-1]
        v = np.empty_like(x)
        psi = np.empty_like(x)
        for number in steps(np.unique(panel_of[~beyond])):
            here = (panel_of == number) & ~beyond
            proxy, psi_proxy = self._panel(int(number))
            v[here] = np.exp(proxy.column(x[here], column[here]))
            psi[here] = psi_proxy.column(x[here], column[here])
        if beyond.any():
            continued = self._beyond_finite if self.finite else self._beyond_continuous
            v[beyond], psi[beyond] = continued(q_hat[beyond], column[beyond])
        return v, psi

    def _beyond_finite(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """Return v and ψ past the last panel: v falls as exp(−q̂δ²/8)/√q̂."""
        half = 0.5 * self.teacher.reduced_rank
        proxy = self._panel(len(self.edges) - 2)[0]
        last = np.exp(proxy.column(np.full_like(q_hat, self.edges[-1]), column))
        fall = row_spacing(self.teacher) ** 2 / 8
        v = last * np.exp(-fall * (q_hat - self.ends[0])) * np.sqrt(self.ends[0] / q_hat)
        return v, half / fall * v - row_entropy(self.teacher)

    def _beyond_continuous(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """Return v and ψ past the last panel: q̂v = A + B/√q̂, with A and B from its two ends."""
        half = 0.5 * self.teacher.reduced_rank
        end = LARGEST_Q_HAT_OF_PANELS
        low, high = (
            place * self(np.full_like(q_hat, place), column)[0]
            for place in (end / 64, end * JUST_INSIDE)
        )
        slope = (low - high) * math.sqrt(end) / 7  # B: 1/√q̂ falls by 7/8 between the two
        limit = high - slope / math.sqrt(end)
        inverse_root = 1 / np.sqrt(q_hat)
        gained = limit * np.log(q_hat / end) + 2 * slope * (1 / math.sqrt(end) - inverse_root)
        return (limit + slope * inverse_root) / q_hat, self.start[column] - half * gained


def _radius_of_series(teacher: AnyTeacher) -> float:
    """Return 3/E w⁴ or 1, the smaller: q̂ below which a series of v₁ converges.

    3/E w⁴ is the density of sparse weights. ln g(b, 0) = b²/2 + κ₄b⁴/24 + … at b = ±0.1 gives κ₄.
    """
    log_g = teacher.prior.tilted(np.array([0.1, -0.1]), np.zeros(2)).log_g
    fourth_cumulant = 24e4 * max(float(log_g.mean()) - 0.005, 0.0)
    return min(1.0, 3 / (3 + fourth_cumulant))


@lru_cache(maxsize=32)
def row_table(teacher: AnyTeacher, log2_points: int) -> GaussianRows | PanelRows:
    """Return one table for all noises and features: neither is a matter of one row."""
    if teacher.prior.gaussian:
        return GaussianRows(0.5 * teacher.reduced_rank)
    return PanelRows(teacher, log2_points)
