"""The weights side as a function of one variable, q̂ ↦ v and ψ: panels, built when first needed.

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.

    Gaussian      closed form (`gaussian_weights.py`)
    finite        ln v on panels in x = √q̂, up to where v is negligible: v falls as exp(−q̂δ²/8)/√q̂,
                  δ the smallest distance of two rows, and is continued so; ±1 weights have a table
                  with panels of its own (`weights/sign_table.py`)
    continuous    v(1 + q̂) on panels in x = ln(1 + q̂): v falls as 1/q̂, and is continued beyond
                  q̂ = 1e8 as q̂v = A + B/√q̂

ψ is the panels' own integral, ψ′(q̂) = −(r/2) v.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev as C

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher
from polyceptron.numerics import AnyArray
from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.theory.bayes_optimal.channel_table import GaussianWeights, Index, at, with_mean
from polyceptron.theory.weights.posterior import (
    residual_variance,
    row_entropy,
    row_reach,
    row_spacing,
    rows_sampled,
    rule_error,
)
from polyceptron.theory.weights.sign_table import EDGES, is_sign

_LAST = 1e8  # q̂ of the last panel of a continuous prior: beyond, its tilted law loses digits


class PanelWeights(ABC):
    """v and ψ of a prior that is not Gaussian; build with `weights_table`."""

    edges: list[float]

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.panels: list[tuple[ChebyshevProxy, ChebyshevProxy]] = []
        self.errors: list[float] = []  # of ln v, one a panel
        self.start: AnyArray = np.zeros(1)  # ψ at the end of the last panel
        self._building = threading.RLock()  # panels follow one another

    @property
    def n_replicates(self) -> int:
        """R, or 0 where the rule is deterministic."""
        return self._panel(0)[0].coefficients.shape[1] - 1

    # The coordinate of the panels, and what is proxied in it.

    @abstractmethod
    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        """x at q̂."""

    @abstractmethod
    def proxied(self, x: AnyArray) -> AnyArray:
        """(p, columns): ln v, or v(1 + q̂)."""

    @abstractmethod
    def variance(self, x: AnyArray, proxied: AnyArray) -> AnyArray:
        """v from what is proxied."""

    @abstractmethod
    def rate(self, x: AnyArray) -> AnyArray:
        """dq̂/dx."""

    @abstractmethod
    def relative_error(self, proxy: ChebyshevProxy) -> float:
        """That of v, from what the panel's coefficients leave."""

    @abstractmethod
    def beyond(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v and ψ past the last panel."""

    @abstractmethod
    def tolerance(self, low: float, high: float) -> float:
        """What to ask of a deterministic panel."""

    def error(self, q_hat: float) -> float:
        """Relative error of v at q̂ from panels and rules, sampling apart.

        v(0) = 1 is met exactly, so that near 0 that of the panels grows from nothing.
        """
        x = float(self.coordinate(np.array([q_hat]))[0])
        panel = min(bisect_right(self.edges, x), len(self.errors)) - 1
        return self.errors[panel] * min(1.0, q_hat) + rule_error(self.teacher, q_hat)

    def _panel(self, i: int) -> tuple[ChebyshevProxy, ChebyshevProxy]:
        if len(self.panels) <= i:
            with self._building:
                while len(self.panels) <= i:
                    self._build()
        return self.panels[i]

    def _build(self) -> None:
        low, high = self.edges[len(self.panels) : len(self.panels) + 2]
        deterministic = not rows_sampled(self.teacher)
        proxy = chebyshev_proxy(
            self.proxied,
            low,
            high,
            tol=self.tolerance(low, high) if deterministic else 3e-6,
            start=17 if deterministic else 11,
            max_points=129 if deterministic else 11,
        )
        half = 0.5 * self.teacher.reduced_rank
        slope = chebyshev_proxy(
            lambda x: -half * self.rate(x[:, None]) * self.variance(x[:, None], proxy(x).T),
            low,
            high,
            tol=1e-14,
            start=33,
        )
        integral = C.chebint(slope.coefficients, scl=0.5 * (high - low), axis=0)
        integral[0] += self.start - C.chebval(-1.0, integral)
        psi = ChebyshevProxy(low, high, integral, slope.error)
        self.start = np.asarray(C.chebval(1.0, integral))
        self.errors.append(self.relative_error(proxy))
        self.panels.append((proxy, psi))

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v and ψ at q̂ (n,), each in its column (n,)."""
        x = self.coordinate(q_hat)
        where = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        out = x > self.edges[-1]
        v, psi = np.empty_like(x), np.empty_like(x)
        for i in np.unique(where[~out]):
            mask = (where == i) & ~out
            proxy, psi_proxy = self._panel(int(i))
            v[mask] = self.variance(x[mask], at(proxy, x[mask], column[mask]))
            psi[mask] = at(psi_proxy, x[mask], column[mask])
        if out.any():
            v[out], psi[out] = self.beyond(q_hat[out], column[out])
        return v, psi


class FiniteWeights(PanelWeights):
    """A finite prior: recovered perfectly in the end."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        super().__init__(teacher, log2_points)
        self.spacing = row_spacing(teacher)
        if teacher.n_classes > 3 and is_sign(teacher.prior):
            self.edges = list(EDGES)
            return
        self.edges = [row_reach(teacher) * i / 5 for i in range(6)]

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        return np.sqrt(q_hat)

    def proxied(self, x: AnyArray) -> AnyArray:
        found = with_mean(residual_variance(self.teacher, x**2, self.log2_points))
        return np.log(np.maximum(found, 1e-200))

    def variance(self, x: AnyArray, proxied: AnyArray) -> AnyArray:
        return np.exp(proxied)

    def rate(self, x: AnyArray) -> AnyArray:
        return 2 * x

    def tolerance(self, low: float, high: float) -> float:
        # The sum behind v is good to about 1e-15 in absolute terms: ask for no more of ln v.
        noise = 3e-15 / float(residual_variance(self.teacher, [high**2], 2).min() + 1e-300)
        return min(max(1e-13, noise, 0.1 * rule_error(self.teacher, high**2)), 1e-3)

    def relative_error(self, proxy: ChebyshevProxy) -> float:
        return float(proxy.error[0])

    def beyond(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        end = self.edges[-1] ** 2
        proxy = self._panel(len(self.edges) - 2)[0]
        last = np.exp(at(proxy, np.full_like(q_hat, self.edges[-1]), column))
        rate = self.spacing**2 / 8
        v = last * np.exp(-rate * (q_hat - end)) * np.sqrt(end / q_hat)
        psi = 0.5 * self.teacher.reduced_rank / rate * v - row_entropy(self.teacher)
        return v, psi


class ContinuousWeights(PanelWeights):
    """A continuous prior: never recovered perfectly."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        super().__init__(teacher, log2_points)
        last = math.log1p(_LAST)
        self.edges = [last * i / 8 for i in range(9)]

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        return np.log1p(q_hat)

    def proxied(self, x: AnyArray) -> AnyArray:
        found = with_mean(residual_variance(self.teacher, np.expm1(x), self.log2_points))
        return found * np.exp(x)[:, None]

    def variance(self, x: AnyArray, proxied: AnyArray) -> AnyArray:
        return proxied * np.exp(-x)

    def rate(self, x: AnyArray) -> AnyArray:
        return np.exp(x)

    def tolerance(self, low: float, high: float) -> float:
        return max(1e-11, 0.3 * rule_error(self.teacher, math.expm1(high)))

    def relative_error(self, proxy: ChebyshevProxy) -> float:
        ends = proxy(np.array([proxy.low, proxy.high]))[0]
        return float(proxy.error[0] / ends.min())

    def beyond(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        low, high = (
            q * self(np.full_like(q_hat, q), column)[0] for q in (_LAST / 64, _LAST * (1 - 1e-9))
        )
        slope = (low - high) * math.sqrt(_LAST) / 7  # B: 1/√q̂ falls by 7/8 between the two
        limit = high - slope / math.sqrt(_LAST)
        root = 1 / np.sqrt(q_hat)
        steps = limit * np.log(q_hat / _LAST) + 2 * slope * (1 / math.sqrt(_LAST) - root)
        psi = self.start[column] - 0.5 * self.teacher.reduced_rank * steps
        return (limit + slope * root) / q_hat, psi


WeightsTable = GaussianWeights | PanelWeights


def weights_table(teacher: AnyTeacher, log2_points: int) -> WeightsTable:
    """The table that suits the teacher's prior."""
    if teacher.prior.gaussian:
        return GaussianWeights(teacher)
    if not teacher.features.flat:
        name = teacher.features.name  # cut where it spells out many levels
        raise InvalidInput(
            f"the Bayes-optimal theory of correlated features "
            f"({name if len(name) < 60 else name[:57] + '...'}) is for gaussian weights, got the "
            f"prior {teacher.prior.name!r}"
        )
    return _panels(replace(teacher, noise="none"), log2_points)  # type: ignore[arg-type]


@lru_cache(maxsize=32)
def _panels(teacher: AnyTeacher, log2_points: int) -> PanelWeights:
    """One table for all noises: they are no matter of the weights side."""
    kind = ContinuousWeights if teacher.prior.support is None else FiniteWeights
    return kind(teacher, log2_points)
