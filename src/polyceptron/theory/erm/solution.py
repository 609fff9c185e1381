"""What is known at a fixed point of empirical risk minimisation, and how far to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.model.law import Law
from polyceptron.numerics import Array
from polyceptron.rows import Status
from polyceptron.theory.sides import Problem


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
    theta: Array = field(repr=False)  # (ln τ, ln q, ln V), a start for a neighbour
    jacobian: Array = field(repr=False)  # of the equations in θ
    bend: float = field(default=math.nan, repr=False)  # d² ln τ/d ln λ² at a best ridge

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
    k = problem.n_classes
    guess = 1 - 1 / k
    return ErmFixedPoint(
        n_classes=k, ridge=ridge, alpha=0.0, m=0.0, q=0.0, V=1 / ridge if ridge > 0 else math.inf,
        m_hat=0.0, q_hat=0.0, V_hat=0.0, generalisation_error=guess, uncertainty=0.0,
        clean_error=guess, training_loss=math.nan, training_loss_uncertainty=math.nan,
        training_error=math.nan, training_error_uncertainty=math.nan, status=Status.OK, tau=0.0,
        theta=np.zeros(0), jacobian=np.eye(0),
    )  # fmt: skip


def not_converged(problem: Problem, theta: Array, jacobian: Array) -> ErmFixedPoint:
    """No root in reach: no numbers but the problem's."""
    nan = math.nan
    return ErmFixedPoint(
        n_classes=problem.n_classes, ridge=problem.ridge, alpha=problem.alpha, m=nan, q=nan, V=nan,
        m_hat=nan, q_hat=nan, V_hat=nan, generalisation_error=nan, uncertainty=math.inf,
        clean_error=nan, training_loss=nan, training_loss_uncertainty=math.inf, training_error=nan,
        training_error_uncertainty=math.inf, status=Status.NOT_CONVERGED, tau=nan, theta=theta,
        jacobian=jacobian,
    )  # fmt: skip
