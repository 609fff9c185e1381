"""What goes round the loop: the law of the fields, and the statistics of one sample's pull.

Student fields ω and teacher fields z are Gaussian, independent between class directions; in each

    Var z = 1,   Var ω = q,   Cov(z, ω) = m,   ρ = m/√q,   τ = ρ/√(1 − ρ²)

and V is the student's own uncertainty (Bayes: 1 − q) or susceptibility (ERM). The law is kept as
(τ, q, V): ρ alone would lose everything when student and teacher nearly agree.

A student maps ω, y, V to f, −tr_⊥ ∂f (a `Channel` the Bayes-optimal way, a `Loss` any other), and a
belief maps γ, Λ to mean and variance of a row of weights (the row of a `Prior`, or a `Penalty`).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from polyceptron.numerics import Array

_ROUNDING = 1e-14  # of q − m², where m was computed on its own


@dataclass(frozen=True)
class ScalarOrder:
    """The joint law of the fields: τ = ρ/√(1−ρ²), norm q and uncertainty V."""

    tau: float
    q: float
    V: float

    @classmethod
    def of_overlaps(cls, m: float, q: float, V: float) -> Self:
        """Return the order parameters of the overlaps m, q, V, accurate to rounding where ρ → 1."""
        return cls(m / math.sqrt(max(q - m * m, _ROUNDING * q)) if q > 0 else 0.0, q, V)

    @classmethod
    def bayes(cls, v: float) -> Self:
        """m = q = 1 − v and V = v: the Bayes-optimal student."""
        return cls(math.sqrt((1 - v) / v), 1 - v, v)

    @property
    def rho(self) -> float:
        """Correlation of student and teacher fields, m/√q."""
        return self.tau / math.hypot(1.0, self.tau)

    @property
    def m(self) -> float:
        """Overlap ρ√q."""
        return self.rho * math.sqrt(self.q)

    @property
    def residual(self) -> float:
        """1 − ρ²: the variance of the teacher's fields given the student's."""
        return 1 / (1 + self.tau**2)

    @property
    def slope(self) -> float:
        """m/q: the teacher's mean field per unit of the student's."""
        return self.rho / math.sqrt(self.q)


@dataclass(frozen=True)
class Conjugates:
    """m̂, q̂, V̂: signal, noise and stiffness that n = αd samples put on one coordinate."""

    m: float
    q: float
    V: float


class Decay(NamedTuple):
    """p and, where it has a closed form, C of ε ≈ ε₀ + C α^(−p) for plentiful data."""

    exponent: float
    constant: float | None = None
    consistent: bool = True  # whether ε₀ is the error of the teacher itself


class RowEstimate(NamedTuple):
    """Mean of the row on class differences (..., k) and the trace of its covariance there (...)."""

    mean: Array
    variance: Array


class Belief(Protocol):
    """What is made of a row of weights, seen as γ = Λu + noise of variance Λ."""

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """Mean and variance of u at γ (..., k) and scalar precision Λ (...)."""
        ...


class PaperMatrices(NamedTuple):
    """m, q and V as the paper writes them, (k−1, k−1) each: of classes less the last one.

    Weights w̃_h = w_h − w_k have the metric I + 11ᵀ, so a number m per class direction is
    m(I + 11ᵀ). Fitted weights have no V.
    """

    m: Array
    q: Array
    V: Array | None = None

    @classmethod
    def of_scalars(cls, n_classes: int, m: float, q: float, V: float) -> Self:
        """Return the matrices of equal classes from one number per class direction."""
        metric = np.eye(n_classes - 1) + 1.0
        return cls(m * metric, q * metric, V * metric)
