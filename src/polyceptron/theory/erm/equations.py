"""The fixed point of the loop as a root-finding problem in the logarithms of (τ, q, V) (eq. SE).

Two systems with the same roots; `equations` chooses:

- `Equations`: ln(law after a round) − ln(law before), for any penalty and spectrum.
- `RidgeEquations`: a ridge. With x = s/(λ + V̂s), m = m̂⟨sθx⟩ is after integration by parts

      ⟨sθ λ/(λ + V̂s)⟩ m/(m̂⟨sθx⟩) = 1 − ρ² + Dm/M,

  the ridge's shrinkage of the signal; τ and V are those after a round. For small λ or large α both
  sides of m = m̂⟨sθx⟩ nearly cancel and λ drowns, here nothing does. The right side is 1 − Cm/M, so
  that m = m̂⟨sθx⟩ is the only root. For one eigenvalue it reads λ = α(M(1−ρ²)/m + D), without C.

A loss with f ∝ 1/V (max-margin) has a solution at every λ that differs by its V alone: at λ = 1.
A loss whose averages are in closed form needs none of them (`Problem.closed_form`). Each is tested
against the plain loop (`theory/dynamics.py`). What is known at a root, and how far to trust it, is
an `ErmFixedPoint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.numerics import Array
from polyceptron.problem.order import Conjugates, PaperMatrices, ScalarOrder
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.rows import Status
from polyceptron.sides.fields.integrand import Averages, Averaging
from polyceptron.sides.generalisation import error_at_tau
from polyceptron.sides.scalar import Problem

Residual = Callable[[Array], Array]
_FLOOR = 1e-300


@dataclass(frozen=True)
class Equations:
    """F(θ) = 0 whose root is the fixed point: θ less the logarithms of the law after a round."""

    problem: Problem

    def law(self, theta: Array) -> ScalarOrder:
        """The law of the fields at θ."""
        return ScalarOrder(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))

    def placed(self, level: int, theta: Array) -> Averaging:
        """The averages on a level, with nodes placed at the law of θ."""
        return self.problem.fields.averages(level, self.law(theta))

    def on(self, averages: Averaging) -> Residual:
        """F(θ) of the mean over replicates."""
        return lambda at: self.residual(at, averages(self.law(at)).mean())[:, 0]

    def at(self, level: int, theta: Array) -> tuple[Averages, float]:
        """The averages on a level at θ, and what they miss by their own checks."""
        law = self.law(theta)
        averages = self.placed(level, theta)(law)
        return averages, averages.doubt(law, self.problem.fields.rule.by_parts)

    def residual(self, theta: Array, averages: Averages) -> Array:
        """F (unknowns, replicates) at θ, from the averages there."""
        a, p = averages, self.problem
        hats = (p.alpha * np.stack([a.M, a.Q, a.C], 1)).tolist()  # (replicates, 3)
        after = [[law.tau, law.q, law.V] for law in (p.weights(Conjugates(*each)) for each in hats)]
        return np.asarray(theta)[:, None] - _log(np.array(after).T)


@dataclass(frozen=True)
class RidgeEquations(Equations):
    """A ridge, and any spectrum."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a, p = self.law(theta), averages, self.problem
        sums = spectrum_sums(p.ridge, p.weights.spectrum, p.alpha * a.C)
        with np.errstate(over="ignore", invalid="ignore"):  # at steps that went astray
            slope = law.m / np.maximum(a.M, _FLOOR)
            left = sums.shrinkage * slope / (p.alpha * sums.mean) + slope * a.D_minus
            right = law.residual + slope * a.D_plus
        rest = sums.norm * a.Q / p.alpha + sums.spread * a.M**2  # τ² = m²/(q − m²)
        m, r, left, right, V = _log(np.array([sums.mean * a.M, rest, left, right, sums.response]))
        return np.array([theta[0] - m + 0.5 * r, left - right, theta[2] - V])


def equations(problem: Problem) -> Equations:
    """The system to give to Newton's method."""
    if problem.loss.scale_free:
        problem = problem.at(ridge=1.0)
    return (RidgeEquations if problem.weights.penalty.quadratic else Equations)(problem)


def _log(x: Array) -> Array:
    return np.asarray(np.log(np.maximum(x, _FLOOR)))


@dataclass(frozen=True, repr=False)
class ErmFixedPoint(ShortDisplay):
    """Scalars per class direction, errors, and how far to trust them."""

    n_classes: int
    ridge: float
    alpha: float
    m: float
    q: float
    V: float
    m_hat: float
    q_hat: float
    V_hat: float
    tau: float  # ρ/√(1 − ρ²)
    clean_error: float  # against the noiseless rule
    generalisation_error: float = math.nan  # on labels as drawn
    uncertainty: float = math.inf
    training_loss: float = math.nan
    training_loss_uncertainty: float = math.inf
    training_error: float = math.nan
    training_error_uncertainty: float = math.inf
    status: Status = Status.NOT_CONVERGED

    @classmethod
    def at(
        cls, problem: Problem, law: ScalarOrder, hats: Conjugates, **numbers: Any
    ) -> ErmFixedPoint:
        """The fixed point of a problem at a law of its fields, with all other numbers given."""
        k = problem.n_classes
        point = cls(
            k,
            problem.ridge,
            problem.alpha,
            law.m,
            law.q,
            law.V,
            hats.m,
            hats.q,
            hats.V,
            law.tau,
            clean_error=float(error_at_tau(law.tau, k)),
        )
        return replace(point, **numbers)

    @property
    def matrices(self) -> PaperMatrices:
        """m, q and V as the paper writes them."""
        return PaperMatrices.of_scalars(self.n_classes, self.m, self.q, self.V)

    @property
    def correlation(self) -> float:
        """ρ = m/√q."""
        return self.tau / math.hypot(1.0, self.tau)

    @property
    def law(self) -> ScalarOrder:
        """The law of the fields."""
        return ScalarOrder(self.tau, self.q, self.V)
