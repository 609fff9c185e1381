"""The fixed point of the square loss with its errors, all in closed form."""

from __future__ import annotations

import math

import numpy as np

from polyceptron.model.law import Hats, Law
from polyceptron.rows import Status
from polyceptron.theory.erm.solution import ErmFixedPoint
from polyceptron.theory.erm.square_closed_form import solve_square
from polyceptron.theory.erm.training import square_training_loss, training_error
from polyceptron.theory.generalisation import error_at_tau, error_on_labels
from polyceptron.theory.sides import Problem

CLOSED_FORM = 1e-12  # what rounding leaves of a closed form


def square_fixed_point(problem: Problem) -> ErmFixedPoint:
    """All that is reported, at the problem's ridge."""
    k, alpha = problem.n_classes, problem.alpha
    signal = problem.channel.signal(k)
    m, q, V, _, tau = solve_square(k, signal, alpha, problem.ridge, problem.spectrum)
    law = Law(tau, q, V)
    hats = Hats(0.0, 0.0, alpha / (1 + V))
    if math.isfinite(V):
        shrink = 1 / (1 + V)
        Q = (1 / k - 2 * m * signal + q) * shrink**2
        hats = Hats(alpha * signal * shrink, alpha * Q, alpha * shrink)
    mistakes = training_error(problem, law)
    spread = math.nan if mistakes is None else 1e-11 + problem.channel.accuracy
    return ErmFixedPoint(
        n_classes=k,
        ridge=problem.ridge,
        alpha=alpha,
        m=m,
        q=q,
        V=V,
        m_hat=hats.m,
        q_hat=hats.q,
        V_hat=hats.V,
        generalisation_error=float(error_on_labels(problem.channel, tau, k)),
        uncertainty=CLOSED_FORM + problem.channel.accuracy,
        clean_error=float(error_at_tau(tau, k)),
        training_loss=square_training_loss(problem, law),
        training_loss_uncertainty=CLOSED_FORM + problem.channel.accuracy,
        training_error=math.nan if mistakes is None else mistakes,
        training_error_uncertainty=spread,
        status=Status.OK if math.isfinite(q) else Status.DIVERGES,
        tau=tau,
        theta=np.zeros(0),
        jacobian=np.eye(0),
    )
