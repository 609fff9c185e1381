"""The weights side of Bayes-optimal learning: q̂ ↦ v, ψ for any prior and any spectrum.

Whitened, feature i carries the share p_i = s_iθ_i of the teacher's field and sees the scalar
signal-to-noise ratio q̂p_i. With v₁, ψ₁ the functions of one row of the prior (`rules.py`) and ⟨·⟩
the mean over features, ⟨p⟩ = 1,

    v(q̂) = ⟨p v₁(q̂p)⟩,      ψ(q̂) = ⟨ψ₁(q̂p)⟩,      ψ₁′ = −(r/2) v₁   so that   ψ′ = −(r/2) v,

ψ = E ln Z_w − rq̂/2, and Φ = (r/2) q̂v + ψ + αΨ_out has no large terms that cancel. A finite prior
ends at q̂ = ∞ with all rows known, whatever their p > 0: v = 0 and ψ = −H times their fraction.

v₁ and ψ₁ are functions of one variable, in closed form for Gaussian weights, else on panels that
are built when first needed:

    finite        ln v₁ in x = √q̂, up to where v₁ is negligible: it falls as exp(−q̂δ²/8)/√q̂, δ the
                  smallest distance of two rows, and is continued so; ±1 weights of four classes and
                  more have a table with panels of its own (`sign_table.py`)
    continuous    v₁(1 + q̂) in x = ln(1 + q̂): v₁ falls as 1/q̂, and is continued beyond q̂ = 1e8 as
                  q̂v₁ = A + B/√q̂

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray

from polyceptron.errors import ComputationFailed
from polyceptron.model import AnyTeacher
from polyceptron.numerics import AnyArray
from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy, gauss_rule, local_gauss
from polyceptron.theory.weights.rules import row_entropy, row_reach, row_rule, row_spacing
from polyceptron.theory.weights.sign_table import EDGES, is_sign

Index = NDArray[np.int64]
_LAST = 1e8  # q̂ of the last panel of a continuous prior: beyond, its tilted law loses digits
_FIRST_STAGE = 9990.0  # q̂ up to which a continuous prior's curve is always built: four panels
_SMOOTH = 0.05  # q̂ below which v and I vary over powers of q̂ only
_RATIO = 1.006  # of neighbouring q̂ where rows of many strengths are resolved in turn
_AT_ONCE = 2_000_000


class PriorSide:
    """v, ψ and what is known of their error; build with `weights_side`."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher = teacher
        features = teacher.features
        self.flat = features.flat
        self.rows = _row_table(replace(teacher, noise="none", features="isotropic"), log2_points)  # type: ignore[arg-type]
        few = gauss_rule if isinstance(self.rows, GaussianRows) else local_gauss
        self.power, self.fraction = few(features.power, features.fraction)

    @property
    def n_replicates(self) -> int:
        """R, or 0 where the rule is deterministic."""
        return self.rows.n_replicates

    @property
    def known_entropy(self) -> float:
        """−ψ at q̂ = ∞: the entropy of all rows that carry signal (finite priors)."""
        return float(self.fraction.sum()) * row_entropy(self.teacher)

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
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
        column = np.zeros(len(self.power), dtype=np.int64)
        found = []
        for seen in np.multiply.outer(q_hat, self.power):
            share = self.rows(seen, column)[0] * self.power * self.fraction
            found.append(share @ self.rows.error(seen) / share.sum())
        return np.array(found)

    def stages(self, *, far: bool) -> Iterator[AnyArray]:
        """q̂ in rising order, stage after stage, close enough to see every turn of the curve α(q̂).

        The first reaches from almost nothing to where rows begin to tell; `far` is the stretch in
        which every row has told nearly all and α rises for good.
        """
        first, last = _SMOOTH / float(self.power.max()), 1 / float(self.power.min())
        tail = self.rows.end * last
        if far:
            yield np.geomspace(min(tail, 0.1 * LARGEST), LARGEST, 300)[1:]
            return
        yield np.exp(np.linspace(math.log(SMALLEST), math.log(first), 120))
        if self.flat:
            yield from self.rows.stages(first)
            return
        ratio = 1.02 if isinstance(self.rows, GaussianRows) else _RATIO
        n = max(2, math.ceil(math.log(tail / first) / math.log(ratio)))
        yield from np.array_split(np.geomspace(first, tail, n)[1:], max(1, n // 150))


SMALLEST, LARGEST = 1e-30, 1e22  # of q̂: α from 1e-12 to 1e8 for every channel


@lru_cache(maxsize=64)
def weights_side(teacher: AnyTeacher, log2_points: int) -> PriorSide:
    """The weights side of a teacher; `log2_points` matters where rows are sampled."""
    return PriorSide(teacher, log2_points)


class GaussianRows:
    """v₁ = 1/(1 + q̂), ψ₁ = −(r/2) ln(1 + q̂)."""

    n_replicates = 0
    end = 1e3

    def __init__(self, reduced_rank: int) -> None:
        self.half = 0.5 * reduced_rank

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        return 1 / (1 + q_hat), -self.half * np.log1p(q_hat)

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Nothing is lost."""
        return np.zeros_like(q_hat)

    def stages(self, start: float) -> Iterator[AnyArray]:
        """α rises throughout."""
        yield np.geomspace(start, self.end, 130)[1:]


class PanelRows(ABC):
    """v₁ and ψ₁ of a prior that is not Gaussian."""

    edges: list[float]
    end: float  # q̂ of the last stage

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.rule = row_rule(teacher)
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

    @abstractmethod
    def stages(self, start: float) -> Iterator[AnyArray]:
        """q̂ from `start` on, for one row alone."""

    def error(self, q_hat: AnyArray) -> AnyArray:
        """Relative error of v₁ at q̂ (n,) from panels and rules, sampling apart.

        v₁(0) = 1 is met exactly, so that near 0 that of the panels grows from nothing.
        """
        panel = np.searchsorted(self.edges, self.coordinate(q_hat), side="right")
        errors = np.array(self.errors)[np.clip(panel, 1, len(self.errors)) - 1]
        return np.asarray(errors * np.minimum(1.0, q_hat) + self.rule.error(q_hat))

    def _panel(self, i: int) -> tuple[ChebyshevProxy, ChebyshevProxy]:
        if len(self.panels) <= i:
            with self._building:
                while len(self.panels) <= i:
                    self._build()
        return self.panels[i]

    def _build(self) -> None:
        low, high = self.edges[len(self.panels) : len(self.panels) + 2]
        sampled = self.rule.sampled
        proxy = chebyshev_proxy(
            self._checked,
            low,
            high,
            tol=3e-6 if sampled else self.tolerance(low, high),
            start=11 if sampled else 17,
            max_points=11 if sampled else 129,
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

    def _checked(self, x: AnyArray) -> AnyArray:
        """What is proxied, mean first; a number that is none never becomes a curve."""
        found = self.proxied(x)
        if not np.isfinite(found).all():
            raise ComputationFailed(
                f"the posterior of weights {self.teacher.prior.name!r} at k = "
                f"{self.teacher.n_classes} is not a number: use another prior or fewer classes"
            )
        return found

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v₁ and ψ₁ at q̂ (n,), each in its column (n,)."""
        x = self.coordinate(q_hat)
        where = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        out = x > self.edges[-1]
        v, psi = np.empty_like(x), np.empty_like(x)
        for i in np.unique(where[~out]):
            mask = (where == i) & ~out
            proxy, psi_proxy = self._panel(int(i))
            v[mask] = self.variance(x[mask], proxy.column(x[mask], column[mask]))
            psi[mask] = psi_proxy.column(x[mask], column[mask])
        if out.any():
            v[out], psi[out] = self.beyond(q_hat[out], column[out])
        return v, psi


class FiniteRows(PanelRows):
    """A finite prior: recovered perfectly in the end."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        super().__init__(teacher, log2_points)
        self.spacing = row_spacing(teacher)
        signs = teacher.n_classes > 3 and is_sign(teacher.prior)
        self.edges = list(EDGES) if signs else [row_reach(teacher) * i / 5 for i in range(6)]
        self.end = self.edges[-1] ** 2

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        return np.sqrt(q_hat)

    def proxied(self, x: AnyArray) -> AnyArray:
        found = with_mean(self.rule(x**2, self.log2_points))
        return np.log(np.maximum(found, 1e-200))

    def variance(self, x: AnyArray, proxied: AnyArray) -> AnyArray:
        return np.exp(proxied)

    def rate(self, x: AnyArray) -> AnyArray:
        return 2 * x

    def tolerance(self, low: float, high: float) -> float:
        # The sum behind v is good to about 1e-15 in absolute terms: ask for no more of ln v.
        noise = 3e-15 / float(self.rule(high**2, 2).min() + 1e-300)
        return min(max(1e-13, noise, 0.1 * float(self.rule.error(np.array([high**2]))[0])), 1e-3)

    def relative_error(self, proxy: ChebyshevProxy) -> float:
        return float(proxy.error[0])

    def beyond(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        proxy = self._panel(len(self.edges) - 2)[0]
        last = np.exp(proxy.column(np.full_like(q_hat, self.edges[-1]), column))
        rate = self.spacing**2 / 8
        v = last * np.exp(-rate * (q_hat - self.end)) * np.sqrt(self.end / q_hat)
        psi = 0.5 * self.teacher.reduced_rank / rate * v - row_entropy(self.teacher)
        return v, psi

    def stages(self, start: float) -> Iterator[AnyArray]:
        """Panel after panel: those of many classes are dear."""
        for low, high in pairwise(self.edges):
            yield np.linspace(max(low, math.sqrt(start)), high, 102)[1:] ** 2


class ContinuousRows(PanelRows):
    """A continuous prior: never recovered perfectly."""

    end = _FIRST_STAGE

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        super().__init__(teacher, log2_points)
        self.edges = [math.log1p(_LAST) * i / 8 for i in range(9)]

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        return np.log1p(q_hat)

    def proxied(self, x: AnyArray) -> AnyArray:
        return with_mean(self.rule(np.expm1(x), self.log2_points)) * np.exp(x)[:, None]

    def variance(self, x: AnyArray, proxied: AnyArray) -> AnyArray:
        return proxied * np.exp(-x)

    def rate(self, x: AnyArray) -> AnyArray:
        return np.exp(x)

    def tolerance(self, low: float, high: float) -> float:
        return max(1e-11, 0.3 * float(self.rule.error(np.expm1([high]))[0]))

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

    def stages(self, start: float) -> Iterator[AnyArray]:
        yield np.geomspace(start, self.end, 300)[1:]


@lru_cache(maxsize=32)
def _row_table(teacher: AnyTeacher, log2_points: int) -> GaussianRows | PanelRows:
    """One table for all noises and features: neither is a matter of one row."""
    if teacher.prior.gaussian:
        return GaussianRows(teacher.reduced_rank)
    kind = ContinuousRows if teacher.prior.support is None else FiniteRows
    return kind(teacher, log2_points)


def with_mean(replicates: AnyArray) -> AnyArray:
    """(p, R) → (p, 1 + R): the mean before its replicates; one replicate is the mean itself."""
    if replicates.shape[1] == 1:
        return replicates
    return np.hstack([replicates.mean(1, keepdims=True), replicates])
