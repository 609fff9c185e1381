"""What is known at a fixed point of empirical risk minimisation, and how far to trust it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.model.law import Hats, Law
from polyceptron.numerics import Array
from polyceptron.rows import Status
from polyceptron.theory.generalisation import error_at_tau
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
    # (ln τ, ln q, ln V), a start for a neighbour, and the Jacobian of the equations in it.
    theta: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    jacobian: Array = field(default_factory=lambda: np.eye(0), repr=False)
    bend: float = field(default=math.nan, repr=False)  # d² ln τ/d ln λ² at a best ridge

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


def not_converged(problem: Problem, theta: Array, jacobian: Array) -> ErmFixedPoint:
    """No root in reach: no numbers but the problem's."""
    nan = math.nan
    return ErmFixedPoint.at(
        problem, Law(nan, nan, nan), Hats(nan, nan, nan), generalisation_error=nan,
        uncertainty=math.inf, training_loss=nan, training_loss_uncertainty=math.inf,
        training_error=nan, training_error_uncertainty=math.inf, status=Status.NOT_CONVERGED,
        theta=theta, jacobian=jacobian,
    )  # fmt: skip
