"""The fixed point of the loop as a root-finding problem in the logarithms of (τ, q, V) (eq. SE).

Five systems with the same roots:

- `LoopEquations`: ln(law after a round) − ln(law before), for any penalty and spectrum.
- `IsotropicEquations`: for a ridge and independent features V = 1/(λ + V̂), m = m̂V, q = (m̂² + q̂)V²,

      τ² = αM²/Q,    λ = α(M(1−ρ²)/m + D),    1/V = λ + αC.

  The second is m(λ + αC) = αM after integration by parts: for small λ or large α both sides of the
  latter nearly cancel and λ drowns, here nothing does.
- `RidgeEquations`: a ridge and any spectrum. With x = s/(λ + V̂s) the second becomes

      ⟨sθ λ/(λ + V̂s)⟩ = 1 − ρ² + Dm/M,

  what the ridge holds back of the signal; τ and V are those after a round. The more is held back
  the more of m = m̂⟨sθx⟩ is mixed in: both have the sign of ln(m/m̂⟨sθx⟩), so that no root is added.
- `ScaleFreeEquations`: a loss with f ∝ 1/V (max-margin). V drops out, two unknowns remain,
  τ² = αM²/Q and ρ√q = αM at V = 1, and the equation of the ridge gives λV.
- `ScaleFreeLevels`: such a loss and any spectrum. What is held back gives V̂ at λ = 1, whatever V:

      ⟨sθ/(1 + V̂s)⟩ / ⟨sθ V̂s/(1 + V̂s)⟩ = (1 − ρ² + Dm/M) / (Cm/M),

  and then V = ⟨x⟩ and m = αM⟨sθx⟩/V, with M at V = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from polyceptron.model.law import Hats, Law
from polyceptron.model.penalties.ridge import level_sums, stiffness
from polyceptron.numerics import Array
from polyceptron.theory.fields.integrand import Averages
from polyceptron.theory.sides import Problem

_FLOOR = 1e-300


class Equations(Protocol):
    """A system F(θ) = 0 whose root is the fixed point of a problem."""

    n_unknowns: ClassVar[int]

    @property
    def problem(self) -> Problem:
        """What is solved."""
        ...

    def of(self, problem: Problem) -> Equations:
        """The same system for another problem."""
        ...

    def law(self, theta: Array) -> Law:
        """The law of the fields at θ."""
        ...

    def residual(self, theta: Array, averages: Averages) -> Array:
        """F (unknowns, replicates) at θ, from the averages there."""
        ...

    def solution(self, theta: Array, averages: Averages) -> tuple[Law, Hats]:
        """What is reported at the root."""
        ...


@dataclass(frozen=True)
class LoopEquations:
    """ln of the law after a round less that before."""

    problem: Problem
    n_unknowns: ClassVar[int] = 3

    def of(self, problem: Problem) -> Equations:
        return replace(self, problem=problem)

    def law(self, theta: Array) -> Law:
        return Law(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))

    def residual(self, theta: Array, averages: Averages) -> Array:
        a, p = averages, self.problem
        columns = []
        for M, Q, C in zip(a.M, a.Q, a.C, strict=True):
            after = p.weights(Hats(p.alpha * float(M), p.alpha * float(Q), p.alpha * float(C)))
            columns.append([after.tau, after.q, after.V])
        return np.asarray(theta)[:, None] - _log(np.array(columns).T)

    def solution(self, theta: Array, averages: Averages) -> tuple[Law, Hats]:
        return self.law(theta), self.problem.fields.hats(averages)


@dataclass(frozen=True)
class IsotropicEquations(LoopEquations):
    """A ridge, and independent features."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a, p = self.law(theta), averages, self.problem
        log_alpha = math.log(p.alpha)
        # τ² = αM²/Q
        first = theta[0] - 0.5 * log_alpha - _log(a.M) + 0.5 * _log(a.Q)
        pull = a.M * (law.residual / law.m)
        balance = _log(p.ridge + p.alpha * a.D_minus) - _log(p.alpha * (pull + a.D_plus))
        third = theta[2] + _log(p.ridge + p.alpha * a.C)
        return np.stack([first, balance, third])


@dataclass(frozen=True)
class RidgeEquations(LoopEquations):
    """A ridge, and any spectrum."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a, p = self.law(theta), averages, self.problem
        sums = level_sums(p.ridge, p.spectrum, p.alpha * a.C)
        rest = sums.norm * a.Q / p.alpha + sums.spread * a.M**2
        first = theta[0] - _log(sums.mean * a.M) + 0.5 * _log(rest)
        slope = law.m / np.maximum(a.M, _FLOOR)
        balance = _log(sums.kept + slope * a.D_minus) - _log(law.residual + slope * a.D_plus)
        # A large ridge holds back nearly all, which says nothing of m: there m = m̂⟨sθx⟩ does.
        size = math.log(law.m) - _log(p.alpha * a.M * sums.mean)
        second = sums.kept * size + (1 - sums.kept) * balance
        return np.stack([first, second, theta[2] - _log(sums.response)])


@dataclass(frozen=True)
class ScaleFreeEquations:
    """Two unknowns; the averages are taken at V = 1 and the solution is reported at λ = 1."""

    problem: Problem
    n_unknowns: ClassVar[int] = 2

    def of(self, problem: Problem) -> Equations:
        return replace(self, problem=problem)

    def law(self, theta: Array) -> Law:
        return Law(math.exp(theta[0]), math.exp(theta[1]), 1.0)

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a = self.law(theta), averages
        log_alpha = math.log(self.problem.alpha)
        first = theta[0] - 0.5 * log_alpha - _log(a.M) + 0.5 * _log(a.Q)
        size = math.log(law.rho) + 0.5 * theta[1] - log_alpha - _log(a.M)  # ρ√q = αMV
        return np.stack([first, size])

    def solution(self, theta: Array, averages: Averages) -> tuple[Law, Hats]:
        law, a, alpha = self.law(theta), averages.mean(), self.problem.alpha
        pull = float(a.M[0]) * law.residual / law.m
        V = alpha * (pull + float(a.D_plus[0]) - float(a.D_minus[0]))
        hats = self.problem.fields.hats(a)
        return Law(law.tau, law.q, V), Hats(hats.m / V, hats.q / V**2, hats.V / V)


@dataclass(frozen=True)
class ScaleFreeLevels(ScaleFreeEquations):
    """Any spectrum, at λ = 1: two unknowns, as V̂ is known from what is held back."""

    def residual(self, theta: Array, averages: Averages) -> Array:
        law, a, p = self.law(theta), averages, self.problem
        sums = level_sums(1.0, p.spectrum, self._stiffness(law, a))
        rest = sums.norm * a.Q / p.alpha + sums.spread * a.M**2
        first = theta[0] - _log(sums.mean * a.M) + 0.5 * _log(rest)
        size = math.log(law.m) - _log(p.alpha * a.M * sums.mean / sums.response)
        return np.stack([first, size])

    def solution(self, theta: Array, averages: Averages) -> tuple[Law, Hats]:
        law, a = self.law(theta), averages.mean()
        V = float(level_sums(1.0, self.problem.spectrum, self._stiffness(law, a)).response[0])
        hats = self.problem.fields.hats(a)
        return Law(law.tau, law.q, V), Hats(hats.m / V, hats.q / V**2, hats.V / V)

    def _stiffness(self, law: Law, a: Averages) -> Array:
        """V̂ (replicates,)."""
        slope = law.m / np.maximum(a.M, _FLOOR)
        held = _log(law.residual + slope * (a.D_plus - a.D_minus)) - _log(slope * a.C)
        return stiffness(self.problem.spectrum, held)


def _log(x: Array) -> Array:
    return np.asarray(np.log(np.maximum(x, _FLOOR)))
