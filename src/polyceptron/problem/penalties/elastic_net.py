"""The elastic net P(u) = L₁‖u‖ + (L₂/2)‖u‖², which sets whole features to zero.

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
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammaln

from polyceptron.errors import InvalidInput
from polyceptron.problem.order import Conjugates, RowEstimate, ScalarOrder
from polyceptron.problem.penalties.base import Penalty
from polyceptron.problem.priors import WeightsRow

# Poisson weights beyond 9 standard deviations sum to less than 1e-15, and 20 more terms are kept
# where the mean is small: tests/unit/problem/test_penalties.py compares with quadrature.
POISSON_DEVIATIONS_KEPT = 9.0
POISSON_TERMS_ADDED = 20


class TeacherNorms(NamedTuple):
    """A share of the teacher's rows: ‖u*‖², and s = ‖γ‖ as `scale` times a χ_r of δ."""

    share: float
    squared_norm: float
    scale: float
    delta: float


class NormMoments(NamedTuple):
    """E of 1, s, s² and 1/s over s > L₁."""

    zeroth: float
    first: float
    second: float
    inverse: float


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """L₁‖u‖ + (L₂/2)‖u‖².

    >>> ElasticNet(1.0, 1.0).denoise(np.array([[0.5, -0.5], [3.0, -3.0]]), 1.0).mean[0].tolist()
    [0.0, 0.0]
    """

    l1: float
    l2: float
    name: str = field(init=False, repr=False, compare=False)
    strength: float = field(init=False, repr=False, compare=False)
    convexity: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        l1 = _checked_strength("L1", self.l1)
        l2 = _checked_strength("L2", self.l2)
        if l1 + l2 == 0:
            raise InvalidInput("an elastic net needs L1 or L2 above 0")
        object.__setattr__(self, "l1", l1)
        object.__setattr__(self, "l2", l2)
        object.__setattr__(self, "name", f"elastic-net:{l1!r}:{l2!r}")
        object.__setattr__(self, "strength", l2 + l1)
        object.__setattr__(self, "convexity", l2)

    def path(self) -> Iterator[Self]:
        """Yield penalties that lead here from a ridge of strength L₁ + L₂."""
        for part in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
            yield replace(self, l1=part * self.l1, l2=self.l2 + (1 - part) * self.l1)

    def denoise(self, gamma: ArrayLike, precision: ArrayLike) -> RowEstimate:
        """Return (1 − L₁/s)₊ γ/A, shape (..., k), and the trace of its slope, shape (...)."""
        gamma = np.asarray(gamma, dtype=float)
        r = gamma.shape[-1] - 1
        scale = 1 / (np.asarray(precision, dtype=float) + self.l2)
        ratio = self.l1 / np.maximum(np.linalg.norm(gamma, axis=-1), 1e-300)
        kept = ratio < 1
        shrinkage = np.where(kept, 1 - ratio, 0.0) * scale
        trace = np.where(kept, r - (r - 1) * ratio, 0.0) * scale
        return RowEstimate(gamma * shrinkage[..., None] + 0.0, trace)  # + 0.0: no −0.0

    def isotropic_law(self, hats: Conjugates, row: WeightsRow) -> ScalarOrder:
        """Return m, q, V as above, averaged over the norms ‖u*‖² of the teacher's rows."""
        r = row.n_classes - 1
        A = hats.V + self.l2
        m = 0.0
        q = 0.0
        V = 0.0
        for rows in _teacher_norms(hats, row):
            s = self._moments(rows.scale, rows.delta, r)
            further = self._moments(rows.scale, rows.delta, r + 2)
            m += rows.share * rows.squared_norm * (further.zeroth - self.l1 * further.inverse)
            q += rows.share * (s.second - 2 * self.l1 * s.first + self.l1**2 * s.zeroth)
            V += rows.share * (r * s.zeroth - (r - 1) * self.l1 * s.inverse)
        scale = 1 / A
        return ScalarOrder.of_overlaps(
            hats.m * m * scale / r, max(q, 0.0) * scale**2 / r, V * scale / r
        )

    def _moments(self, scale: float, delta: float, r: int) -> NormMoments:
        """Return E of 1, s, s² and 1/s over s > L₁, with s a non-central χ_r(δ) times `scale`."""
        mean = delta / 2  # of j: Poisson weights of r + 2j degrees of freedom
        if mean > 0:
            reach = POISSON_DEVIATIONS_KEPT * math.sqrt(mean) + POISSON_TERMS_ADDED
            first = max(0, math.floor(mean - reach))
            j = np.arange(first, math.ceil(mean + reach) + 1, dtype=float)
            weight = np.exp(j * math.log(mean) - mean - gammaln(j + 1))
        else:
            j = np.zeros(1)
            weight = np.ones(1)
        weight = weight / weight.sum()
        degrees = r + 2 * j
        power = np.array([[0], [1], [2], [-1]])
        a = 0.5 * (degrees + power)
        positive = np.maximum(a, 1e-9)  # a = 0 is the divergent E[1/χ_1]; its factor r − 1 is 0
        size = np.exp(gammaln(positive) - gammaln(0.5 * degrees))
        tail = np.where(a > 0, gammaincc(positive, 0.5 * (self.l1 / scale) ** 2), 0.0)
        units = (math.sqrt(2) * scale) ** power[:, 0].astype(float)
        return NormMoments(*((weight * size * tail).sum(1) * units).tolist())


def _checked_strength(name: str, given: float) -> float:
    """Return a strength as a float; raise `InvalidInput` unless it is from 0 to 1e12."""
    value = float(given)
    if not 0 <= value <= 1e12:
        raise InvalidInput(f"{name} of an elastic net is 0 or more, got {value!r}")
    return value


def _teacher_norms(hats: Conjugates, row: WeightsRow) -> list[TeacherNorms]:
    """Return the laws of s = ‖γ‖ at conjugates, one for each norm that a teacher's row may have."""
    if row.gaussian:
        scale = math.sqrt(hats.m**2 + hats.q)
        return [TeacherNorms(1.0, float(row.n_classes - 1), scale, 0.0)]
    norms = row.norms()
    if norms is None:
        raise InvalidInput(
            "the theory of an elastic net takes Gaussian weights or finitely many values, got "
            f"prior {row.prior.name!r} with {row.n_classes} classes"
        )
    squared_norms, probabilities = norms
    scale = math.sqrt(hats.q)
    return [
        TeacherNorms(p, squared_norm, scale, hats.m**2 * squared_norm / hats.q)
        for squared_norm, p in zip(squared_norms.tolist(), probabilities.tolist(), strict=True)
    ]
