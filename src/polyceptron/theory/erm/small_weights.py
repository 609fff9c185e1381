"""Hinges whose weights are 0 or nearly so, as where no class has the majority.

At W = 0 the pulls of a sample on the other classes are any a ≥ 0 of sum 1. For V → 0 and q = κ²V²
they are the point of that simplex nearest to ω/V, and a round of the loop is one of (τ, κ) alone,
without the ridge, times a growth g of V. With a ridge λV = 1 − 1/g: for g < 1 the only fixed point
is 0.
"""

import math
from dataclasses import dataclass

from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import Averages
from polyceptron.sides.scalar import Problem

SMALL_V = 1e-7  # V that stands for 0


def small_weights(problem: Problem) -> ScalarOrder | None:
    """Return the order parameters of a hinge in the limit of small weights.

    Returns
    -------
    ScalarOrder or None
        (0, 0, 0) where the weights vanish; None where a step along the teacher lowers the loss, so
        that the weights are not small.
    """
    limit = _SmallWeights.start(problem)
    if limit.teacher_lowers_loss():
        return None
    limit.settle()
    growth = limit.V_after / SMALL_V
    C = estimate_from_replicates(limit.averages.C)
    doubt = float(C.uncertainty / limit.averages.C.mean())
    if growth * (1 + doubt) < 1:
        return ScalarOrder(0.0, 0.0, 0.0)
    smallest_ridge = 1e-9  # stands for 0
    V = (1 - 1 / max(growth, 1 + doubt)) / max(problem.ridge, smallest_ridge)
    return ScalarOrder(limit.law.tau, limit.law.q * (V / SMALL_V) ** 2, V)


@dataclass
class _SmallWeights:
    """The loop at V → 0 without a ridge: the law scaled to V = SMALL_V, and the last averages."""

    problem: Problem  # without a ridge
    law: ScalarOrder
    averages: Averages
    V_after: float = math.nan  # V after the last round, from SMALL_V

    @classmethod
    def start(cls, problem: Problem) -> "_SmallWeights":
        """Begin at κ → ∞."""
        kappa = 1e3
        law = ScalarOrder(1 / math.sqrt(SMALL_V), (kappa * SMALL_V) ** 2, SMALL_V)
        unpenalised = problem.at_ridge(0.0)
        return cls(unpenalised, law, _averages(unpenalised, law))

    def teacher_lowers_loss(self) -> bool:
        """Return whether D > 0 beyond its uncertainty, at κ → ∞."""
        D = estimate_from_replicates(self.averages.D_plus - self.averages.D_minus)
        return bool(D.value > D.uncertainty)

    def settle(self) -> None:
        """Make rounds until κ² and τ change by less than 1e-5 of themselves, eight at most."""
        for number in range(8):
            if number > 0:
                self.averages = _averages(self.problem, self.law)
            before = self.law
            after = self.problem.weights(self.problem.fields.hats(self.averages))
            self.V_after = after.V
            self.law = ScalarOrder(after.tau, after.q * (SMALL_V / after.V) ** 2, SMALL_V)
            change = max(abs(self.law.tau / before.tau - 1), abs(self.law.q / before.q - 1))
            if change < 1e-5:
                break


def _averages(problem: Problem, law: ScalarOrder) -> Averages:
    level = 2
    if problem.nodes_are_random:
        level = 0
    return problem.fields.averages(level, law)(law)
