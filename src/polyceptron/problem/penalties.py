"""What a penalty is asked for, its minimiser on data and the weights side; ridge and elastic net.

The ridge P(u) = (λ/2)‖u‖² has

    V = ⟨s/(λ + V̂s)⟩,   m = m̂⟨s²θ/(λ + V̂s)⟩,   q = ⟨s(m̂²s²θ + q̂s)/(λ + V̂s)²⟩

with s the variance of a feature, θ that of the teacher's weight along it and ⟨·⟩ the mean over
features (eq. SE for s = θ = 1). The teacher's prior enters by its variance only.

The elastic net P(u) = L₁‖u‖ + (L₂/2)‖u‖² sets whole features to zero: u is a row of the weights on
the r = k − 1 class differences, a feature's weights for all classes. With s = ‖γ‖ and A = Λ + L₂
the minimiser of Λ‖u‖²/2 − γ·u + P(u) and the trace of its slope are

    u = (1 − L₁/s)₊ γ/A,      tr ∂u/∂γ = 1[s > L₁] (r − (r − 1) L₁/s)/A.

The weights side has γ = m̂u* + √q̂ξ. Given ‖u*‖ the squared norm s²/q̂ is a non-central χ²_r(δ) with
δ = m̂²‖u*‖²/q̂, a Poisson mixture of central ones with r + 2j degrees; for Gaussian weights it is
(m̂² + q̂)χ²_r. With E_r the mean over s > L₁ and, by rotation, E[γ h(s)] = E[m̂u*] E_{r+2}[h],

    rm = m̂ E[‖u*‖² E_{r+2}(1 − L₁/s)]/A,   rq = E_r(s − L₁)²/A²,   rV = E_r(r − (r − 1)L₁/s)/A.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammaincc, gammaln

from polyceptron.checks import check_ridge
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.order import Conjugates, RowEstimate, ScalarOrder
from polyceptron.problem.priors import Row
from polyceptron.problem.registry import Entry, Registry
from polyceptron.problem.spectrum import Spectrum

__all__ = ["PENALTIES", "ElasticNet", "Penalty", "Ridge", "as_penalty"]


class Penalty(ABC):
    """P(u) of one row u of weights on class differences, unchanged by rotations of them."""

    name: str  # with its numbers, as the registry reads it
    strength: float  # of the ridge from which the theory starts its search
    quadratic: ClassVar[bool] = False  # a ridge, for which equations have forms without cancelling
    convexity: float = 0.0  # μ of P(u) − μ‖u‖²/2 convex: what certifies a fit

    def path(self) -> Iterable[Self]:
        """Penalties that lead from a ridge to this one, for where the direct way is lost."""
        return (self,)

    @abstractmethod
    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """argmin_u Λ‖u‖²/2 − γ·u + P(u) at γ (..., k), and the trace of its derivative in γ."""

    def isotropic_law(self, hats: Conjugates, row: Row) -> ScalarOrder:
        """The weights side of independent features: m, q, V of a row of the teacher."""
        raise NotImplementedError(f"the penalty {self.name!r} has neither isotropic_law nor law")

    def law(self, hats: Conjugates, spectrum: Spectrum, row: Row) -> ScalarOrder:
        """The weights side over the features' spectrum.

        A coordinate of variance s and signal θ is one of independent features with m̂s√θ, q̂s and
        V̂s; its m, q and V count s√θ, s and s times.
        """
        if spectrum.isotropic:
            return self.isotropic_law(hats, row)
        m = q = V = 0.0
        parts = (spectrum.eigenvalues, spectrum.signal, spectrum.fraction)
        for s, theta, share in np.stack(parts, 1).tolist():
            root = math.sqrt(theta)
            here = self.isotropic_law(Conjugates(hats.m * s * root, hats.q * s, hats.V * s), row)
            m, q, V = m + share * s * root * here.m, q + share * s * here.q, V + share * s * here.V
        return ScalarOrder.of_overlaps(m, q, V)


def as_penalty(penalty: Any) -> Penalty:
    """A penalty, or what its name means.

    >>> as_penalty("ridge:0.1").strength
    0.1
    """
    return PENALTIES.read(penalty)


PENALTIES: Registry[Penalty] = Registry("penalty", Penalty)


@dataclass(frozen=True)
class Ridge(Penalty):
    """(λ/2)‖u‖².

    >>> Ridge(1.0).denoise(np.array([[2.0, -2.0]]), 1.0).mean.tolist()
    [[1.0, -1.0]]
    """

    strength: float
    quadratic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", float(check_ridge(self.strength)))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"ridge:{self.strength!r}"

    @property
    def convexity(self) -> float:  # type: ignore[override]
        return self.strength

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """γ/(λ + Λ), and (k − 1)/(λ + Λ)."""
        gamma = np.asarray(gamma, dtype=float)
        V = 1 / (self.strength + np.asarray(precision, dtype=float))
        variance = np.broadcast_to((gamma.shape[-1] - 1) * V, gamma.shape[:-1])
        return RowEstimate(gamma * V[..., None], variance)

    def law(self, hats: Conjugates, spectrum: Spectrum, row: Row) -> ScalarOrder:
        """m, q, V as above; q − m² is the noise's part plus the spread of s/(λ + V̂s) under sθ."""
        sums = spectrum_sums(self.strength, spectrum, np.array([hats.V]))
        m = hats.m * float(sums.mean[0])
        rest = hats.q * float(sums.norm[0]) + hats.m**2 * float(sums.spread[0])
        return ScalarOrder(
            m / math.sqrt(rest) if rest > 0 else 0.0, m * m + rest, float(sums.response[0])
        )


class SpectrumSums(NamedTuple):
    """Sums over the spectrum of x = s/(λ + V̂s), each (n,) for n values of V̂."""

    response: Array  # ⟨x⟩
    mean: Array  # ⟨sθ x⟩
    norm: Array  # ⟨x²⟩
    spread: Array  # ⟨sθ x²⟩ − ⟨sθ x⟩²
    shrinkage: Array  # ⟨sθ λ/(λ + V̂s)⟩ = 1 − V̂⟨sθ x⟩, of the signal


def spectrum_sums(ridge: float, spectrum: Spectrum, V_hat: Array) -> SpectrumSums:
    """The sums at V̂ (n,); nothing cancels in the spread or in the shrinkage."""
    if spectrum.isotropic:
        x = 1 / (ridge + V_hat)
        return SpectrumSums(x, x, x * x, 0 * x, ridge * x)
    (s, fraction), V = spectrum.by_feature, V_hat[:, None]
    every = s / (ridge + V * s)
    s, signal = spectrum.by_field
    h = 1 / (ridge + V * s)
    middle = float(signal @ s)  # x − x₀ = λ(s − s₀)/((λ + V̂s)(λ + V̂s₀))
    apart = (s - middle) * h * (ridge / (ridge + V_hat * middle))[:, None]
    apart = apart - (apart @ signal)[:, None]
    mean, spread = (s * h) @ signal, apart**2 @ signal
    return SpectrumSums(every @ fraction, mean, every**2 @ fraction, spread, ridge * (h @ signal))


_TERMS = 9.0  # standard deviations of the Poisson weights that are kept


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
            if not 0 <= value <= 1e12:
                raise InvalidInput(f"{name.upper()} of an elastic net is 0 or more, got {value!r}")
            object.__setattr__(self, name, value)
        if self.l1 + self.l2 == 0:
            raise InvalidInput("an elastic net needs L1 or L2 above 0")

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"elastic-net:{self.l1!r}:{self.l2!r}"

    @property
    def strength(self) -> float:  # type: ignore[override]
        return self.l2 + self.l1

    @property
    def convexity(self) -> float:  # type: ignore[override]
        return self.l2

    def path(self) -> Iterator[Self]:
        """Penalties that lead here from a ridge."""
        for part in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0):
            yield replace(self, l1=part * self.l1, l2=self.l2 + (1 - part) * self.l1)

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        gamma = np.asarray(gamma, dtype=float)
        r = gamma.shape[-1] - 1
        scale = 1 / (np.asarray(precision, dtype=float) + self.l2)
        ratio = self.l1 / np.maximum(np.linalg.norm(gamma, axis=-1), 1e-300)
        kept = ratio < 1
        shrinkage = np.where(kept, 1 - ratio, 0.0) * scale
        trace = np.where(kept, r - (r - 1) * ratio, 0.0) * scale
        return RowEstimate(gamma * shrinkage[..., None] + 0.0, trace)  # + 0.0: no −0.0

    def isotropic_law(self, hats: Conjugates, row: Row) -> ScalarOrder:
        r, scale = row.n_classes - 1, 1 / (hats.V + self.l2)
        m = q = V = 0.0
        if row.gaussian:
            kinds = [(1.0, float(r), math.sqrt(hats.m**2 + hats.q), 0.0)]
        elif (found := row.norms()) is None:
            raise InvalidInput(
                "the theory of an elastic net takes Gaussian weights or finitely many values, got "
                f"prior {row.prior.name!r} with {row.n_classes} classes"
            )
        else:
            kinds = [
                (p, s2, math.sqrt(hats.q), hats.m**2 * s2 / hats.q)
                for s2, p in zip(*(part.tolist() for part in found), strict=True)
            ]
        for share, squared_norm, spread, delta in kinds:  # of rows with one ‖u*‖²
            zero, one, two, inverse = self._moments(spread, delta, r)
            further_zero, *_, further_inverse = self._moments(spread, delta, r + 2)
            m += share * squared_norm * (further_zero - self.l1 * further_inverse)
            q += share * (two - 2 * self.l1 * one + self.l1**2 * zero)
            V += share * (r * zero - (r - 1) * self.l1 * inverse)
        return ScalarOrder.of_overlaps(
            hats.m * m * scale / r, max(q, 0.0) * scale**2 / r, V * scale / r
        )

    def _moments(self, scale: float, delta: float, r: int) -> tuple[float, ...]:
        """E of 1, s, s² and 1/s over s > L₁, of a non-central χ_r(δ) times the scale."""
        mean = delta / 2  # of j: Poisson weights of r + 2j degrees of freedom
        spread = _TERMS * math.sqrt(mean) + 20 if mean > 0 else 0
        j = np.arange(max(0, math.floor(mean - spread)), math.ceil(mean + spread) + 1, dtype=float)
        weight = np.exp(j * math.log(mean) - mean - gammaln(j + 1)) if mean > 0 else np.ones(1)
        weight, degrees = weight / weight.sum(), r + 2 * j
        power = np.array([[0], [1], [2], [-1]])
        a = 0.5 * (degrees + power)
        safe = np.maximum(a, 1e-9)
        size = np.exp(gammaln(safe) - gammaln(0.5 * degrees))
        tail = np.where(a > 0, gammaincc(safe, 0.5 * (self.l1 / scale) ** 2), 0.0)
        found = (weight * size * tail).sum(1) * (math.sqrt(2) * scale) ** power[:, 0].astype(float)
        return tuple(found.tolist())


PENALTIES.add(
    Entry("ridge", "(λ/2) times the squared norm", Ridge, ("strength",), (0.1,)),
    Entry(
        "elastic-net",
        "L₁ times the norm of each feature's weights, and (L₂/2) times its square",
        ElasticNet,
        ("l1", "l2"),
        (0.1, 0.1),
        label="elastic net",
    ),
)
