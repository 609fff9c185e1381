"""The fixed-point equations of empirical risk minimisation, as a root-finding problem (eq. SE).

    V = 1/(λ + V̂),   m = m̂V,   q = (m̂² + q̂)V²,      m̂ = αM, q̂ = αQ, V̂ = αC

in the unknowns θ = (ln τ, ln q, ln V), where τ = ρ/√(1−ρ²), and the equations read

    τ² = αM²/Q,    λ = α(M(1−ρ²)/m + D),    1/V = λ + αC.

The second is m(λ + αC) = αM after integration by parts: for small λ or large α both sides of the
latter nearly cancel and λ drowns, here nothing does. For max-margin f ∝ 1/V, so V drops out: two
unknowns remain, τ² = αM²/Q and ρ√q = αM at V = 1, and the second equation gives λV.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

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
        law, a = self.law(theta), averages
        log_alpha = math.log(self.alpha)
        # τ² = αM²/Q
        first = theta[0] - 0.5 * log_alpha - _log(a.M) + 0.5 * _log(a.Q)
        if self.hard:  # ρ√q = αMV
            size = math.log(law.rho) + 0.5 * theta[1] - log_alpha - _log(a.M)
            return np.stack([first, size])
        pull = a.M * (law.teacher_width**2 / law.m)
        balance = _log(self.ridge + self.alpha * a.D_minus) - _log(self.alpha * (pull + a.D_plus))
        third = theta[2] + _log(self.ridge + self.alpha * a.C)
        return np.stack([first, balance, third])

    def scaled_V(self, theta: Array, averages: Averages) -> float:
        """λV of max-margin, from the averages at V = 1."""
        law, a = self.law(theta), averages
        pull = float(np.mean(a.M)) * law.teacher_width**2 / law.m
        return self.alpha * (pull + float(np.mean(a.D_plus)) - float(np.mean(a.D_minus)))


def _log(x: Array) -> Array:
    return np.asarray(np.log(np.maximum(x, _FLOOR)))


Rule = Callable[[Law], Averages]


def rule_at(problem: Problem, level: int, reference: Law) -> Rule:
    """The averages at a level of accuracy; nodes are placed for `reference` and kept."""
    k, loss = problem.n_classes, problem.loss
    if k == 2:
        line = two.place_nodes(loss, reference, level)
        return lambda law: two.averages(loss, law, line)
    if k == 3:
        grid = three.place_nodes(loss, reference, level)
        return lambda law: three.averages(loss, law, grid)
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


@lru_cache(maxsize=256)
def boundary_density(n_classes: int) -> float:
    """B_k = (k(k−1)/2) ∫ φ(s) Φ(s/√2)^{k−2} ds: class boundaries per unit gap, B₂ = 1."""
    s = np.linspace(-12.0, 12.0, 1201)
    log_p = -0.5 * s**2 + (n_classes - 2) * log_ndtr(s / math.sqrt(2))
    total = float(np.exp(log_p).sum() * (s[1] - s[0])) / math.sqrt(2 * math.pi)
    return n_classes * (n_classes - 1) / 2 * total


def two_class_twin(problem: Problem) -> Problem:
    """The two-class problem with as many samples per boundary and direction.

    When data are plentiful only pairs of classes meet, and M, Q, C of k classes are B_k/(k−1) times
    those of two: a fine guess at any α, and exact in the limit of large α.
    """
    k = problem.n_classes
    return Problem(2, problem.loss, problem.ridge, problem.alpha * boundary_density(k) / (k - 1))
