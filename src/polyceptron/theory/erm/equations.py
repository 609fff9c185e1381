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
against the plain loop (`theory/loop.py`). What is known at a root, and how far to trust it, is an
`ErmFixedPoint`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.model.law import Hats, Law, PaperMatrices
from polyceptron.model.penalties.penalty import spectrum_sums
from polyceptron.numerics import Array
from polyceptron.rows import Status
from polyceptron.theory.fields.integrand import Averages
from polyceptron.theory.generalisation import error_at_tau
from polyceptron.theory.sides import Problem

_FLOOR = 1e-300


@dataclass(frozen=True)
class Equations:
    """F(θ) = 0 whose root is the fixed point: θ less the logarithms of the law after a round."""

    problem: Problem

    def law(self, theta: Array) -> Law:
        """The law of the fields at θ."""
        return Law(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))

    def residual(self, theta: Array, averages: Averages) -> Array:
        """F (unknowns, replicates) at θ, from the averages there."""
        a, p = averages, self.problem
        columns = []
        for M, Q, C in zip(a.M, a.Q, a.C, strict=True):
            after = p.weights(Hats(p.alpha * float(M), p.alpha * float(Q), p.alpha * float(C)))
            columns.append([after.tau, after.q, after.V])
        return np.asarray(theta)[:, None] - _log(np.array(columns).T)


@dataclass(frozen=True)
class RidgeEquations(Equations):
    """A ridge, and any spectrum."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a, p = self.law(theta), averages, self.problem
        sums = spectrum_sums(p.ridge, p.weights.spectrum, p.alpha * a.C)
        with np.errstate(over="ignore", invalid="ignore"):  # at steps that went astray
            slope = law.m / np.maximum(a.M, _FLOOR)
            shrinkage = sums.shrinkage * slope / (p.alpha * sums.mean)
            balance = _log(shrinkage + slope * a.D_minus) - _log(law.residual + slope * a.D_plus)
        rest = sums.norm * a.Q / p.alpha + sums.spread * a.M**2  # τ² = m²/(q − m²)
        direction = theta[0] - _log(sums.mean * a.M) + 0.5 * _log(rest)
        return np.stack([direction, balance, theta[2] - _log(sums.response)])


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
    generalisation_error: float  # on labels as drawn
    uncertainty: float
    clean_error: float  # against the noiseless rule
    training_loss: float
    training_loss_uncertainty: float
    training_error: float
    training_error_uncertainty: float
    status: Status
    tau: float  # ρ/√(1 − ρ²)

    @classmethod
    def at(cls, problem: Problem, law: Law, hats: Hats, **numbers: Any) -> ErmFixedPoint:
        """The fixed point of a problem at a law of its fields, with all other numbers given."""
        k = problem.n_classes
        known = {
            **{"n_classes": k, "ridge": problem.ridge, "alpha": problem.alpha},
            **{"m": law.m, "q": law.q, "V": law.V, "tau": law.tau},
            **{"m_hat": hats.m, "q_hat": hats.q, "V_hat": hats.V},
            "clean_error": float(error_at_tau(law.tau, k)),
        }
        return cls(**{**known, **numbers})

    @property
    def matrices(self) -> PaperMatrices:
        """m, q and V as the paper writes them."""
        return PaperMatrices.of_scalars(self.n_classes, self.m, self.q, self.V)

    @property
    def correlation(self) -> float:
        """ρ = m/√q."""
        return self.tau / math.hypot(1.0, self.tau)

    @property
    def law(self) -> Law:
        """The law of the fields."""
        return Law(self.tau, self.q, self.V)


def no_data(problem: Problem, ridge: float) -> ErmFixedPoint:
    """α = 0: the estimate is 0 and every class is a guess."""
    guess, nan = 1 - 1 / problem.n_classes, math.nan
    return ErmFixedPoint.at(
        problem, Law(0.0, 0.0, 1 / ridge if ridge > 0 else math.inf), Hats(0.0, 0.0, 0.0),
        ridge=ridge, generalisation_error=guess, clean_error=guess, uncertainty=0.0,
        training_loss=nan, training_loss_uncertainty=nan, training_error=nan,
        training_error_uncertainty=nan, status=Status.OK,
    )  # fmt: skip


def not_converged(problem: Problem) -> ErmFixedPoint:
    """No root in reach: no numbers but the problem's."""
    nan = math.nan
    return ErmFixedPoint.at(
        problem, Law(nan, nan, nan), Hats(nan, nan, nan), generalisation_error=nan,
        uncertainty=math.inf, training_loss=nan, training_loss_uncertainty=math.inf,
        training_error=nan, training_error_uncertainty=math.inf, status=Status.NOT_CONVERGED,
    )  # fmt: skip
