"""The fixed-point equations of empirical risk minimisation, as a root-finding problem (eq. SE).

    V = 1/(λ + V̂),   m = m̂V,   q = (m̂² + q̂)V²,      m̂ = αM, q̂ = αQ, V̂ = αC

in the unknowns θ = (ln τ, ln q, ln V), where τ = ρ/√(1−ρ²) and the equations read
τ² = αM²/Q,  ρ√q = αMV,  1/V = λ + αC. For max-margin f ∝ 1/V, so V drops out: two unknowns remain
and λV = 1 − αC|_{V=1}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from polyceptron.model.losses import Loss, MaxMargin
from polyceptron.numerics.erm_nodes import Array
from polyceptron.theory.erm import many, three, two
from polyceptron.theory.erm.averages import Averages, Law
from polyceptron.theory.erm.square import solve_square

_FLOOR = 1e-300


@dataclass(frozen=True)
class Problem:
    """Number of classes, loss, ridge and sample ratio."""

    n_classes: int
    loss: Loss
    ridge: float
    alpha: float

    @property
    def hard(self) -> bool:
        """Max-margin: two unknowns, V a free scale."""
        return isinstance(self.loss, MaxMargin)

    def law(self, theta: Array) -> Law:
        """The law of the fields at θ."""
        V = 1.0 if self.hard else math.exp(theta[2])
        return Law(math.exp(theta[0]), math.exp(theta[1]), V)

    def residual(self, theta: Array, averages: Averages) -> Array:
        """The equations at θ, shape (unknowns, replicates); zero at the fixed point."""
        law = self.law(theta)
        log_M, log_Q = (
            np.log(np.maximum(averages.M, _FLOOR)),
            np.log(np.maximum(averages.Q, _FLOOR)),
        )
        log_alpha = math.log(self.alpha)
        first = theta[0] - 0.5 * log_alpha - log_M + 0.5 * log_Q
        second = math.log(law.rho) + 0.5 * theta[1] - log_alpha - log_M - math.log(law.V)
        if self.hard:
            return np.stack([first, second])
        third = theta[2] + np.log(np.maximum(self.ridge + self.alpha * averages.C, _FLOOR))
        return np.stack([first, second, third])


Rule = Callable[[Law], Averages]


def rule_at(problem: Problem, level: int, reference: Law) -> Rule:
    """The averages at a level of accuracy; random points are placed for `reference` and kept."""
    k, loss = problem.n_classes, problem.loss
    if k == 2:
        return lambda law: two.averages(loss, law, level)
    if k == 3:
        return lambda law: three.averages(loss, law, level)
    points = many.place_points(k, loss, reference, level)
    return lambda law: many.averages(loss, law, points)


def n_levels(n_classes: int) -> int:
    """How many levels of accuracy there are."""
    return {2: len(two.ORDERS), 3: len(three.ORDERS)}.get(n_classes, len(many.LOG2_POINTS))


def quadratic_guess(problem: Problem) -> Array:
    """θ of the loss's expansion at z = 0, which the square loss solves in closed form.

    With −∇ℓ(0) = β(e_y − 1/k) and Hessian h on 1⊥ the fields are β/h times those of the square
    loss at ridge λ/h.
    """
    k = problem.n_classes
    zero, label = np.zeros((1, k)), np.zeros(1, dtype=np.int64)
    if problem.hard:
        # A margin of 1 asks for fields of order 1, whose direction is about that of least squares.
        base, scale = solve_square(k, problem.alpha, 1.0), 2.0
    else:
        H = problem.loss.hessian(zero, label)[0]
        h = (float(np.trace(H)) - float(H.sum()) / k) / (k - 1)
        slope = problem.loss.gradient(zero, label)[0]
        beta = float(slope[1:].mean() - slope[0])
        h = h if h > 1e-12 else beta
        base, scale = solve_square(k, problem.alpha, problem.ridge / h), beta / h
    rho = min(base.m / math.sqrt(base.q), 1 - 1e-12)
    tau = rho / math.sqrt(1 - rho**2)
    log_q = math.log(base.q) + 2 * math.log(scale)
    theta = [math.log(tau), log_q]
    if not problem.hard:
        theta.append(math.log(base.V / h))
    return np.array(theta)
