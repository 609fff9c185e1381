"""The elastic net on rows: P(u) = L₁‖u‖ + (L₂/2)‖u‖², which sets whole features to zero.

u is a row of the weights on the r = k − 1 class differences, a feature's weights for all classes.
With s = ‖γ‖ and A = Λ + L₂ the minimiser of Λ‖u‖²/2 − γ·u + P(u) and the trace of its slope are

    u = (1 − L₁/s)₊ γ/A,      tr ∂u/∂γ = 1[s > L₁] (r − (r − 1) L₁/s)/A.

The weights side has γ = m̂u* + √q̂ξ. Given ‖u*‖ the squared norm s²/q̂ is a non-central χ²_r(δ) with
δ = m̂²‖u*‖²/q̂, a Poisson mixture of central ones with r + 2j degrees; for Gaussian weights it is
(m̂² + q̂)χ²_r. With E_r the mean over s > L₁ and, by rotation, E[γ h(s)] = E[m̂u*] E_{r+2}[h],

    rm = m̂ E[‖u*‖² E_{r+2}(1 − L₁/s)]/A,   rq = E_r(s − L₁)²/A²,   rV = E_r(r − (r − 1)L₁/s)/A.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc, gammaln

from polyceptron.errors import InvalidInput
from polyceptron.model.law import Hats, Law, RowEstimate
from polyceptron.model.penalties.penalty import Penalty
from polyceptron.model.priors import Row

_TERMS = 9.0  # standard deviations of the Poisson weights that are kept


class _Kind(NamedTuple):
    """Rows with one norm of the teacher's: their share, ‖u*‖², the scale of s, and δ."""

    share: float
    squared_norm: float
    scale: float
    delta: float


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """L₁‖u‖ + (L₂/2)‖u‖².

    >>> ElasticNet(1.0, 1.0).denoise(np.array([[0.5, -0.5], [3.0, -3.0]]), 1.0).mean[0].tolist()
    [0.0, 0.0]
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            value = float(getattr(self, name))
            if not (math.isfinite(value) and 0 <= value <= 1e12):
                raise InvalidInput(f"{name.upper()} of an elastic net is 0 or more, got {value!r}")
            object.__setattr__(self, name, value)
        if self.l1 + self.l2 == 0:
            raise InvalidInput("an elastic net needs L1 or L2 above 0")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"elastic-net:{self.l1!r}:{self.l2!r}"

    @property
    def strength(self) -> float:  # type: ignore[override]
        """Of the ridge from which the theory begins."""
        return self.l2 + self.l1

    @property
    def convexity(self) -> float:  # type: ignore[override]
        return self.l2

    def path(self) -> Iterator[ElasticNet]:
        """Penalties that lead here from a ridge."""
        for part in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
            yield replace(self, l1=part * self.l1, l2=self.l2 + (1 - part) * self.l1)

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        gamma = np.asarray(gamma, dtype=float)
        r = gamma.shape[-1] - 1
        scale = 1 / (np.asarray(precision, dtype=float) + self.l2)
        norm = np.linalg.norm(gamma, axis=-1)
        ratio = self.l1 / np.maximum(norm, 1e-300)
        kept = ratio < 1
        shrinkage = np.where(kept, 1 - ratio, 0.0) * scale
        trace = np.where(kept, r - (r - 1) * ratio, 0.0) * scale
        return RowEstimate(gamma * shrinkage[..., None] + 0.0, trace)  # + 0.0: no −0.0

    def isotropic_law(self, hats: Hats, row: Row) -> Law:
        r, scale = row.n_classes - 1, 1 / (hats.V + self.l2)
        m = q = V = 0.0
        if row.gaussian:
            kinds = [_Kind(1.0, float(r), math.sqrt(hats.m**2 + hats.q), 0.0)]
        elif (found := row.norms()) is None:
            raise InvalidInput(
                "the theory of an elastic net takes Gaussian weights or finitely many values, got "
                f"prior {row.prior.name!r} with {row.n_classes} classes"
            )
        else:
            kinds = [
                _Kind(p, s2, math.sqrt(hats.q), hats.m**2 * s2 / hats.q)
                for s2, p in zip(*(part.tolist() for part in found), strict=True)
            ]
        for kind in kinds:
            zero, one, two, inverse = self._moments(kind, r)
            further_zero, *_, further_inverse = self._moments(kind, r + 2)
            m += kind.share * kind.squared_norm * (further_zero - self.l1 * further_inverse)
            q += kind.share * (two - 2 * self.l1 * one + self.l1**2 * zero)
            V += kind.share * (r * zero - (r - 1) * self.l1 * inverse)
        return Law.of_overlaps(hats.m * m * scale / r, max(q, 0.0) * scale**2 / r, V * scale / r)

    def _moments(self, kind: _Kind, r: int) -> tuple[float, float, float, float]:
        """E of 1, s, s² and 1/s over s > L₁, of a non-central χ_r times the scale."""
        mean = kind.delta / 2  # of j: Poisson weights of r + 2j degrees of freedom
        spread = _TERMS * math.sqrt(mean) + 20 if mean > 0 else 0
        j = np.arange(max(0, math.floor(mean - spread)), math.ceil(mean + spread) + 1, dtype=float)
        weight = np.exp(j * math.log(mean) - mean - gammaln(j + 1)) if mean > 0 else np.ones(1)
        weight, degrees = weight / weight.sum(), r + 2 * j
        x = 0.5 * (self.l1 / kind.scale) ** 2
        found = []
        for power in (0, 1, 2, -1):
            a = 0.5 * (degrees + power)
            size = np.where(a > 0, np.exp(gammaln(np.maximum(a, 1e-9)) - gammaln(0.5 * degrees)), 0)
            tail = np.where(a > 0, gammaincc(np.maximum(a, 1e-9), x), 0.0)
            found.append(float(kind.scale**power * 2 ** (0.5 * power) * (weight * size) @ tail))
        return found[0], found[1], found[2], found[3]
