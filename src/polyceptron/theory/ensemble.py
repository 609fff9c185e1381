"""The Bayes-optimal solution set as one curve, parametrised by q̂, for each replicate.

The order parameter is a scalar, so nothing need be iterated: choose q̂, then

    v = 1 − F(q̂),   α(q̂) = q̂ / I(1 − v, v),   Φ = (r/2) q̂ v + ψ(q̂) + αΨ_out(1 − v, v)

is a fixed point of state evolution at that α (eq. SE_BO), stable where α rises with q̂ and
unstable where it falls. The integrals behind F, I and Ψ_out become Chebyshev proxies, once;
for k ≥ 4 there is one curve for each randomisation of the points, and whatever is read off the
curves (an error, a transition) is read off each of them, so that the spread is its uncertainty.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher, FinitePrior, GaussianPrior, Teacher
from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.theory.channel import channel_moments
from polyceptron.theory.generalisation import angle, error_from_angle
from polyceptron.theory.prior import prior_entropy, prior_variance

Array = NDArray[Any]
Index = NDArray[np.int64]

_THETA_LOW = 1e-3
_FLOOR = 1e-12  # relative error claimed for the deterministic rules, on top of the proxies' own


class Points(NamedTuple):
    """Points of the solution curve, arrays of one shape."""

    q_hat: Array
    v: Array  # 1 − q
    alpha: Array
    channel_entropy: Array  # Ψ_out = dΦ/dα
    free_entropy: Array

    @property
    def q(self) -> Array:
        """The overlap."""
        return 1 - self.v


@lru_cache(maxsize=64)
def channel_proxy(n_classes: int, log2_points: int) -> ChebyshevProxy:
    """θ ↦ (sin θ · I, Ψ_out/sin θ), columns: all replicates of the first, then of the second.

    For k ≥ 4 the proxied functions are ratios to k = 3, which vary little.
    """

    def scaled(theta: Array) -> Array:
        sine = np.sin(theta)
        v = sine**2
        q = np.maximum(np.cos(theta) ** 2, 1e-12)
        moments = channel_moments(q, v, n_classes, log2_points)
        values = np.hstack([moments.information * sine[:, None], moments.entropy / sine[:, None]])
        if n_classes > 3:
            base = channel_proxy(3, 0)(theta).T
            half = values.shape[1] // 2
            values = values / np.repeat(base, half, axis=1)
        return values

    deterministic = n_classes <= 3
    return chebyshev_proxy(
        scaled,
        _THETA_LOW,
        math.pi / 2,
        tol=1e-13 if deterministic else 3e-6,
        start=33 if deterministic else 17,
        max_points=257 if deterministic else 17,
    )


class PriorProxy:
    """√q̂ ↦ ln v and ψ, on panels that are built when first asked for."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.edges = [0.0, *(_reach(teacher) * i / 5 for i in range(1, 6))]
        self.panels: list[tuple[ChebyshevProxy, ChebyshevProxy]] = []
        self.start: Array = np.zeros(1)  # ψ at the end of the last panel
        self.errors: list[float] = []  # of ln v, one a panel

    @property
    def n_replicates(self) -> int:
        """How many curves there are."""
        return self._panel(0)[0].coefficients.shape[1]

    def _panel(self, i: int) -> tuple[ChebyshevProxy, ChebyshevProxy]:
        while len(self.panels) <= i:
            self._build()
        return self.panels[i]

    def _build(self) -> None:
        low, high = self.edges[len(self.panels) : len(self.panels) + 2]
        deterministic = self.teacher.reduced_rank <= 2

        def log_v(x: Array) -> Array:
            return np.log(np.maximum(prior_variance(self.teacher, x**2, self.log2_points), 1e-200))

        # The sum behind v is good to about 1e-15 in absolute terms: ask for no more of ln v.
        noise = 3e-15 / float(prior_variance(self.teacher, np.array([high**2]), 2).min() + 1e-300)
        proxy = chebyshev_proxy(
            log_v,
            low,
            high,
            tol=min(max(1e-13, noise), 1e-3) if deterministic else 3e-6,
            start=17 if deterministic else 11,
            max_points=129 if deterministic else 11,
        )
        # ψ′(q̂) = −(r/2) v, hence dψ/dx = −r x v in x = √q̂.
        r = self.teacher.reduced_rank
        slope = chebyshev_proxy(
            lambda x: -r * x[:, None] * np.exp(proxy(x).T), low, high, tol=1e-14, start=33
        )
        integral = C.chebint(slope.coefficients, scl=0.5 * (high - low), axis=0)
        integral[0] += self.start - C.chebval(-1.0, integral)
        psi = ChebyshevProxy(low, high, integral, slope.error)
        self.start = np.asarray(C.chebval(1.0, integral))
        self.errors.append(float(np.max(proxy.error)))
        self.panels.append((proxy, psi))

    def __call__(self, q_hat: Array, replicate: Index) -> tuple[Array, Array]:
        """v and ψ at q̂ (n,), each on the curve of its replicate (n,).

        Beyond the last panel a finite prior is recovered perfectly: v = 0, ψ = −H.
        """
        if isinstance(self.teacher.prior, GaussianPrior):
            return 1 / (1 + q_hat), -0.5 * self.teacher.reduced_rank * np.log1p(q_hat)
        x = np.sqrt(q_hat)
        where = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        beyond = x > self.edges[-1]
        v, psi = np.zeros_like(x), np.full_like(x, -prior_entropy(self.teacher))
        for i in np.unique(where[~beyond]):
            mask = (where == i) & ~beyond
            log_v_proxy, psi_proxy = self._panel(int(i))
            v[mask] = np.exp(at(log_v_proxy, x[mask], replicate[mask]))
            psi[mask] = at(psi_proxy, x[mask], replicate[mask])
        return v, psi


def _reach(teacher: AnyTeacher) -> float:
    """√q̂ at which v, falling as exp(−q̂δ²/8), is negligible: 1e-12, or 1e-6 where sampled.

    δ is the smallest distance of two rows u, which differ in one class.
    """
    if not isinstance(teacher.prior, FinitePrior):
        return math.inf
    spacing = float(np.diff(teacher.prior.values).min())
    if isinstance(teacher, Teacher):
        spacing *= math.sqrt(1 - 1 / teacher.n_classes)
    negligible = 1e-12 if teacher.reduced_rank <= 2 else 1e-6
    return math.sqrt(8 * math.log(1 / negligible)) / spacing


def at(proxy: ChebyshevProxy, x: Array, column: Index) -> Array:
    """p_column(x), elementwise over x (n,) and column (n,)."""
    s = (2 * x - proxy.low - proxy.high) / (proxy.high - proxy.low)
    value: Array = C.chebval(s, proxy.coefficients[:, column], tensor=False)
    return value


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All solution curves of one teacher at one sampling effort; build with `ensemble`."""

    teacher: AnyTeacher
    log2_points: int
    prior: PriorProxy
    channel: ChebyshevProxy

    @property
    def n_replicates(self) -> int:
        """One where everything is deterministic."""
        channel = self.channel.coefficients.shape[1] // 2
        gaussian = isinstance(self.teacher.prior, GaussianPrior)
        return channel if gaussian else max(channel, self.prior.n_replicates)

    def relative_error(self, q_hat: float) -> float:
        """Claimed relative error of α at q̂ from the rules' truncation (not the sampling)."""
        if self.n_replicates > 1:
            return 1e-7  # the orthant table's step; sampling errors are far larger
        values = np.abs(self.channel(np.linspace(_THETA_LOW, math.pi / 2, 50))).min(-1)
        channel = float((self.channel.error / values).max())
        if isinstance(self.teacher.prior, GaussianPrior):
            return _FLOOR + channel
        # I falls as 1/√v at worst, so half of the error of ln v is passed on to α.
        panel = min(bisect_right(self.prior.edges, math.sqrt(q_hat)), len(self.prior.errors)) - 1
        return _FLOOR + channel + self.prior.errors[panel]

    def points(self, q_hat: Array, replicate: Index) -> Points:
        """The curve of each replicate (n,) at q̂ (n,)."""
        v, psi = self.prior(q_hat, replicate)
        theta = angle(v)
        k, r = self.teacher.n_classes, self.teacher.reduced_rank
        half = self.channel.coefficients.shape[1] // 2
        column = replicate % half
        information = at(self.channel, theta, column)
        entropy = at(self.channel, theta, column + half)
        if k > 3:
            base = channel_proxy(3, 0)
            zero = np.zeros_like(column)
            information = information * at(base, theta, zero)
            entropy = entropy * at(base, theta, zero + 1)
        sine = np.sqrt(v)
        alpha = q_hat * sine / information
        entropy = entropy * sine
        return Points(q_hat, v, alpha, entropy, 0.5 * r * q_hat * v + psi + alpha * entropy)

    def information(self, v: Array, replicate: Index) -> Array:
        """I at residual variance v (n,)."""
        theta = angle(v)
        half = self.channel.coefficients.shape[1] // 2
        column = replicate % half
        value = at(self.channel, theta, column)
        if self.teacher.n_classes > 3:
            value = value * at(channel_proxy(3, 0), theta, np.zeros_like(column))
        return value / np.sqrt(v)

    def prior_variance(self, q_hat: Array, replicate: Index) -> Array:
        """v = 1 − F(q̂) (n,)."""
        return self.prior(q_hat, replicate)[0]

    def errors(self, v: Array) -> Array:
        """Generalisation error at residual variance v."""
        return error_from_angle(angle(v), self.teacher.n_classes)

    @cached_property
    def grid(self) -> Points:
        """The curves on a grid of q̂ that spans them and contains every fold, (points, R)."""
        if isinstance(self.teacher.prior, GaussianPrior):
            return self._on(np.exp(np.linspace(math.log(1e-30), math.log(1e22), 700)))
        small = np.exp(np.linspace(math.log(1e-30), math.log(0.05), 120))
        q_hat = np.concatenate([small, self._finite_roots() ** 2])
        return self._on(np.unique(np.concatenate([q_hat, self._fold(self._on(q_hat)) ** 2])))

    @cached_property
    def fold(self) -> tuple[Array, Array]:
        """Each replicate's largest α (R,), and the √q̂ (R,) where it is."""
        best = self.grid.alpha.argmax(0)
        replicate = np.arange(best.size)
        return self.grid.alpha[best, replicate], np.sqrt(self.grid.q_hat[best, replicate])

    def _on(self, q_hat: Array) -> Points:
        R = self.n_replicates
        flat = self.points(np.repeat(q_hat, R), np.tile(np.arange(R), q_hat.size))
        return Points(*(values.reshape(-1, R) for values in flat))

    def _fold(self, grid: Points) -> Array:
        """√q̂ (R,) of each replicate's largest α, by golden section around the grid's best."""
        best = grid.alpha.argmax(0)
        replicate = np.arange(best.size)
        x = np.sqrt(grid.q_hat[:, 0])
        low, high = x[np.maximum(best - 1, 0)], x[np.minimum(best + 1, x.size - 1)]
        golden = (math.sqrt(5) - 1) / 2
        for _ in range(60):
            a, b = high - golden * (high - low), low + golden * (high - low)
            left = self.points(a**2, replicate).alpha > self.points(b**2, replicate).alpha
            low, high = np.where(left, low, a), np.where(left, b, high)
        return 0.5 * (low + high)

    def _finite_roots(self) -> Array:
        """√q̂ of a finite prior, panel after panel until α is far past its maximum."""
        parts: list[Array] = []
        highest = 0.0
        # How much of the unstable branch to follow: sampled panels are dear.
        past = 0.25 if self.teacher.reduced_rank <= 2 else 0.7
        edges = self.prior.edges
        for low, high in pairwise(edges):
            parts.append(np.linspace(max(low, 0.2236068), high, 102)[1:])
            zero = np.zeros(parts[-1].size, dtype=int)
            alpha = self.points(parts[-1] ** 2, zero).alpha
            highest = max(highest, float(alpha.max()))
            if alpha[-1] < past * highest:
                break
        return np.concatenate(parts)


@lru_cache(maxsize=32)
def ensemble(teacher: AnyTeacher, log2_points: int = 6) -> Ensemble:
    """The solution curves of `teacher`; `log2_points` matters for k ≥ 4 only."""
    if teacher.n_classes <= 3:
        log2_points = 0
    prior = PriorProxy(teacher, log2_points)
    return Ensemble(teacher, log2_points, prior, channel_proxy(teacher.n_classes, log2_points))
