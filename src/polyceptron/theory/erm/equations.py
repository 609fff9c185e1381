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
against the plain loop (`theory/dynamics.py`).

The unknowns are θ = (ln τ, ln q, ln V) with τ = ρ/√(1 − ρ²), ρ = m/√q; M, Q, C, D are the averages
over one sample that `sides/fields/integrand.py` defines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from polyceptron.numerics import TINY, Array
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.sides.fields.integrand import Averages, Averaging
from polyceptron.sides.scalar import Problem
from polyceptron.solve.root import Residual
from polyceptron.solve.solution import Stats


@dataclass(frozen=True)
class Equations:
    """F(θ) = θ − ln(τ, q, V after a round of the loop) = 0 at the fixed point.

    Attributes
    ----------
    problem : Problem
        The two sides.
    stats : Stats
        Counts how often F is computed.
    """

    problem: Problem
    stats: Stats = field(default_factory=Stats, compare=False)

    def of(self, problem: Problem) -> Equations:
        """Return the equations of a related problem, whose evaluations are counted together."""
        return equations(problem, self.stats)

    def law(self, theta: Array) -> ScalarOrder:
        """Return the order parameters at θ (3,)."""
        return ScalarOrder(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))

    def placed(self, level: int, theta: Array) -> Averaging:
        """Return the averages on a level as a function of the law, with nodes placed at θ."""
        return self.problem.fields.averages(level, self.law(theta))

    def on(self, averages: Averaging) -> Residual:
        """Return F as a function of θ, from the mean of the averages over replicates."""

        def mean_residual(theta: Array) -> Array:
            """Return F at θ (3,), averaged over replicates."""
            self.stats.n_evaluations += 1
            return np.asarray(self.residual(theta, averages(self.law(theta)).mean())[:, 0])

        return mean_residual

    def at(self, level: int, theta: Array) -> tuple[Averages, float]:
        """Return the averages on a level at θ, and what they miss by their own checks."""
        law = self.law(theta)
        averages = self.placed(level, theta)(law)
        return averages, averages.doubt(law, self.problem.fields.rule.by_parts)

    def residual(self, theta: Array, averages: Averages) -> Array:
        """Return F at θ, shape (3, replicates), from the averages there."""
        p = self.problem
        conjugates = p.alpha * np.stack([averages.M, averages.Q, averages.C], 1)
        after = []
        for m_hat, q_hat, V_hat in conjugates.tolist():
            try:
                law = p.weights(Conjugates(m_hat, q_hat, V_hat))
            except ArithmeticError:  # a step that went astray: all weights vanish
                law = ScalarOrder(math.nan, math.nan, math.nan)
            after.append([law.tau, law.q, law.V])
        return np.asarray(theta)[:, None] - _log(np.array(after).T)


@dataclass(frozen=True)
class RidgeEquations(Equations):
    """The equations of a ridge, for any spectrum, in which nothing cancels (module docstring)."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        """Return F at θ, shape (3, replicates), from the averages there."""
        law = self.law(theta)
        a = averages
        p = self.problem
        sums = spectrum_sums(p.ridge, p.weights.spectrum, p.alpha * a.C)
        with np.errstate(over="ignore", invalid="ignore"):  # at steps that went astray
            slope = law.m / np.maximum(a.M, TINY)
            left = sums.shrinkage * slope / (p.alpha * sums.mean) + slope * a.D_minus
            right = law.residual + slope * a.D_plus
        m = sums.mean * a.M
        unexplained = sums.norm * a.Q / p.alpha + sums.spread * a.M**2  # τ² = m²/(q − m²)
        logs = _log(np.array([m, unexplained, left, right, sums.response]))
        ln_m, ln_unexplained, ln_left, ln_right, ln_V = logs
        return np.array(
            [theta[0] - ln_m + 0.5 * ln_unexplained, ln_left - ln_right, theta[2] - ln_V]
        )


def equations(problem: Problem, stats: Stats | None = None) -> Equations:
    """Return the system to give to Newton's method."""
    if stats is None:
        stats = Stats()
    if problem.loss.scale_free:
        problem = problem.at_ridge(1.0)
    if problem.weights.penalty.quadratic:
        return RidgeEquations(problem, stats)
    return Equations(problem, stats)


def _log(x: Array) -> Array:
    """Return the logarithm, also at steps that went astray."""
    return np.asarray(np.log(np.maximum(x, TINY)))
