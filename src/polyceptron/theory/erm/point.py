"""The fixed point of empirical risk minimisation with equal classes: what is known of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polyceptron.problem.order import Conjugates, PaperMatrices, ScalarOrder
from polyceptron.sides.generalisation import error_at_tau
from polyceptron.sides.scalar import Problem
from polyceptron.solve.solution import Solution


@dataclass(frozen=True, kw_only=True, repr=False)
class ErmFixedPoint(Solution):
    """m, q, V per class direction (eq. SE), errors, and how far to trust them.

    Every `…_uncertainty` holds in at least 99 of 100 cases.

    Attributes
    ----------
    n_classes : int
    ridge : float
    alpha : float
        n/d.
    m, q, V : float
        Overlap, norm and susceptibility.
    m_hat, q_hat, V_hat : float
        Their conjugates.
    tau : float
        ρ/√(1 − ρ²), where ρ = m/√q.
    clean_error : float
        Against the noiseless rule.
    training_loss, training_error : float
        Means over the training samples; the loss without the ridge.
    """

    n_classes: int
    ridge: float
    alpha: float
    m: float
    q: float
    V: float
    m_hat: float
    q_hat: float
    V_hat: float
    tau: float
    clean_error: float
    training_loss: float = math.nan
    training_loss_uncertainty: float = math.inf
    training_error: float = math.nan
    training_error_uncertainty: float = math.inf

    @property
    def matrices(self) -> PaperMatrices:
        """m, q and V as the paper writes them, (k − 1, k − 1) each."""
        return PaperMatrices.of_scalars(self.n_classes, self.m, self.q, self.V)

    @property
    def correlation(self) -> float:
        """The correlation ρ = m/√q of student and teacher fields."""
        return self.tau / math.hypot(1.0, self.tau)

    @property
    def law(self) -> ScalarOrder:
        """The order parameters (τ, q, V)."""
        return ScalarOrder(self.tau, self.q, self.V)


def point_at(problem: Problem, law: ScalarOrder, hats: Conjugates) -> ErmFixedPoint:
    """Return the point at given order parameters and conjugates, without errors and bars."""
    return ErmFixedPoint(
        n_classes=problem.n_classes,
        ridge=problem.ridge,
        alpha=problem.alpha,
        m=law.m,
        q=law.q,
        V=law.V,
        m_hat=hats.m,
        q_hat=hats.q,
        V_hat=hats.V,
        tau=law.tau,
        clean_error=float(error_at_tau(law.tau, problem.n_classes)),
    )


def unsolved_point(problem: Problem) -> ErmFixedPoint:
    """Return a point without numbers, for a problem of which no fixed point was found."""
    unknown = math.nan
    return point_at(
        problem,
        ScalarOrder(unknown, unknown, unknown),
        Conjugates(unknown, unknown, unknown),
    )
