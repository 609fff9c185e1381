"""The weights side of Bayes-optimal learning: q̂ ↦ v, ψ for any prior and any spectrum.

Whitened, feature i carries the share p_i = s_iθ_i of the teacher's field and sees the scalar
signal-to-noise ratio q̂p_i. With v₁, ψ₁ the functions of one row of the prior (`rules.py`) and ⟨·⟩
the mean over features, ⟨p⟩ = 1,

    v(q̂) = ⟨p v₁(q̂p)⟩,      ψ(q̂) = ⟨ψ₁(q̂p)⟩,      ψ₁′ = −(r/2) v₁   so that   ψ′ = −(r/2) v,

ψ = E ln Z_w − rq̂/2, and Φ = (r/2) q̂v + ψ + αΨ_out has no large terms that cancel. A finite prior
ends at q̂ = ∞ with all rows known, whatever their p > 0: v = 0 and ψ = −H times their fraction.

v₁ and ψ₁ are functions of one variable, in closed form for Gaussian weights, else proxies of ln v₁
on panels that are built when first needed:

    finite        in x = √q̂, up to where v₁ is negligible: it falls as exp(−q̂δ²/8)/√q̂, δ the
                  smallest distance of two rows, and is continued so; ±1 weights of four classes and
                  more have a table with panels of its own (`sign_table.py`)
    continuous    in x = ln(1 + q̂): v₁ falls as 1/q̂, and is continued beyond q̂ = 1e8 as
                  q̂v₁ = A + B/√q̂

Column 0 is the mean over replicates, columns 1 to R the replicates themselves.
"""

from __future__ import annotations

import math
import threading
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
    """v, ψ and what is known of their error; `log2_points` matters where rows are sampled."""

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


class PanelRows:
    """v₁ and ψ₁ of a prior that is not Gaussian, from proxies of ln v₁ on panels of x."""

    def __init__(self, teacher: AnyTeacher, log2_points: int) -> None:
        self.teacher, self.log2_points = teacher, log2_points
        self.rule, self.finite = row_rule(teacher), teacher.prior.support is not None
        self.panels: list[tuple[ChebyshevProxy, ChebyshevProxy]] = []
        self.errors: list[float] = []  # of ln v, one a panel
        self.start: AnyArray = np.zeros(1)  # ψ at the end of the last panel
        self._building = threading.RLock()  # panels follow one another
        if self.finite:
            signs = teacher.n_classes > 3 and is_sign(teacher.prior)
            self.edges = list(EDGES) if signs else [row_reach(teacher) * i / 5 for i in range(6)]
        else:
            self.edges = [math.log1p(_LAST) * i / 8 for i in range(9)]
        self.end = self.edges[-1] ** 2 if self.finite else _FIRST_STAGE  # q̂ of the last stage

    @property
    def n_replicates(self) -> int:
        """R, or 0 where the rule is deterministic."""
        return self._panel(0)[0].coefficients.shape[1] - 1

    def coordinate(self, q_hat: AnyArray) -> AnyArray:
        """x at q̂: √q̂ for a finite prior, else ln(1 + q̂)."""
        return np.sqrt(q_hat) if self.finite else np.log1p(q_hat)

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
        if self.rule.sampled:
            proxy = chebyshev_proxy(self._log_v, low, high, tol=3e-6, start=11, max_points=11)
        else:
            proxy = chebyshev_proxy(
                self._log_v, low, high, tol=self._tolerance(high), max_points=129
            )
        half = 0.5 * self.teacher.reduced_rank

        def rate(x: AnyArray) -> AnyArray:
            """dψ/dx = −(r/2) v dq̂/dx."""
            q_slope = 2 * x if self.finite else np.exp(x)
            return np.asarray(-half * q_slope[:, None] * np.exp(proxy(x).T))

        slope = chebyshev_proxy(rate, low, high, tol=1e-14, start=33)
        integral = C.chebint(slope.coefficients, scl=0.5 * (high - low), axis=0)
        integral[0] += self.start - C.chebval(-1.0, integral)
        psi = ChebyshevProxy(low, high, integral, slope.error)
        self.start = np.asarray(C.chebval(1.0, integral))
        self.errors.append(float(proxy.error[0]))
        self.panels.append((proxy, psi))

    def _tolerance(self, high: float) -> float:
        """What to ask of ln v on a deterministic panel that ends at x = `high`."""
        q_hat = high**2 if self.finite else math.expm1(high)
        least = 1e-11
        if self.finite:  # the sum behind v is good to about 1e-15 in absolute terms
            least = max(1e-13, 3e-15 / float(self.rule(q_hat, 2).min() + 1e-300))
        return min(max(least, 0.1 * float(self.rule.error(np.array([q_hat]))[0])), 1e-3)

    def _log_v(self, x: AnyArray) -> AnyArray:
        """ln v (p, 1 + R) of the mean and of its replicates; one replicate is the mean itself."""
        found = self.rule(x**2 if self.finite else np.expm1(x), self.log2_points)
        if not np.isfinite(found).all():
            raise ComputationFailed(
                f"the posterior of weights {self.teacher.prior.name!r} at k = "
                f"{self.teacher.n_classes} is not a number: use another prior or fewer classes"
            )
        if found.shape[1] > 1:
            found = np.hstack([found.mean(1, keepdims=True), found])
        return np.asarray(np.log(np.maximum(found, 1e-200)))

    def __call__(self, q_hat: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """v₁ and ψ₁ at q̂ (n,), each in its column (n,)."""
        x = self.coordinate(q_hat)
        where = np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)
        out = x > self.edges[-1]
        v, psi = np.empty_like(x), np.empty_like(x)
        for i in np.unique(where[~out]):
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
            v = last * np.exp(-fall * (q_hat - self.end)) * np.sqrt(self.end / q_hat)
            return v, half / fall * v - row_entropy(self.teacher)
        low, high = (
            q * self(np.full_like(q_hat, q), column)[0] for q in (_LAST / 64, _LAST * (1 - 1e-9))
        )
        slope = (low - high) * math.sqrt(_LAST) / 7  # B: 1/√q̂ falls by 7/8 between the two
        limit = high - slope / math.sqrt(_LAST)
        root = 1 / np.sqrt(q_hat)
        steps = limit * np.log(q_hat / _LAST) + 2 * slope * (1 / math.sqrt(_LAST) - root)
        return (limit + slope * root) / q_hat, self.start[column] - half * steps

    def stages(self, start: float) -> Iterator[AnyArray]:
        """q̂ from `start` on, for one row alone; panel after panel where they are dear."""
        if not self.finite:
            yield np.geomspace(start, self.end, 300)[1:]
            return
        for low, high in pairwise(self.edges):
            yield np.linspace(max(low, math.sqrt(start)), high, 102)[1:] ** 2


@lru_cache(maxsize=32)
def _row_table(teacher: AnyTeacher, log2_points: int) -> GaussianRows | PanelRows:
    """One table for all noises and features: neither is a matter of one row."""
    if teacher.prior.gaussian:
        return GaussianRows(teacher.reduced_rank)
    return PanelRows(teacher, log2_points)
