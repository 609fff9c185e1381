"""The state-evolution iteration, step by step: what message passing for ERM follows (eq. SE).

m̂ = αM, q̂ = αQ, V̂ = αC at (m, q, V);   V ← 1/(λ + V̂),   m ← m̂V,   q ← (m̂² + q̂)V²
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators import ERM
from polyceptron.model.losses import MaxMargin, SquareLoss
from polyceptron.model.teacher import check_classes
from polyceptron.theory.erm.averages import Law
from polyceptron.theory.erm.equations import Problem, rule_at
from polyceptron.theory.erm.fixed_point import error_at
from polyceptron.theory.erm.public import check_alpha, check_symmetric
from polyceptron.theory.erm.square import label_signal

_NOTHING = 1e-18  # stands for q = 0, where every loss has a finite limit


class ErmStep(NamedTuple):
    """The state after `step` iterations; step 0 is the start."""

    step: int
    m: float
    q: float
    V: float
    generalisation_error: float


def erm_state_evolution(
    n_classes: int,
    loss: Any,
    ridge: float,
    alpha: float,
    n_steps: int = 50,
    start: tuple[float, float, float] | None = None,
) -> list[ErmStep]:
    """The states of steps 0..n_steps from `start` = (m, q, V), by default (0, 0, 1/λ).

    For max-margin, λ only sets the scale of V and is taken to be 1.

    >>> steps = erm_state_evolution(3, "square", ridge=1.0, alpha=2.0, n_steps=100)
    >>> round(steps[-1].m / steps[-1].q**0.5, 4)
    0.7848
    """
    k = check_classes(n_classes)
    estimator = ERM(loss, ridge)
    alpha = check_alpha(alpha)
    hard = isinstance(estimator.loss, MaxMargin)
    if isinstance(estimator.ridge, str) or (estimator.ridge == 0 and not hard):
        raise InvalidInput(f"the iteration needs a ridge above 0 (max-margin: none), got {ridge!r}")
    check_symmetric_or_square(estimator, k)
    penalty = 1.0 if hard else float(estimator.ridge)
    m, q, V = start if start is not None else (0.0, 0.0, 1 / penalty)
    if not (q >= 0 and V > 0 and abs(m) <= math.sqrt(q) * (1 + 1e-12)):
        raise InvalidInput(f"a start (m, q, V) needs q >= 0, V > 0 and |m| <= √q, got {start!r}")
    steps = [_step(0, m, q, V, k)]
    for count in range(1, n_steps + 1):
        M, Q, C = _averages(k, estimator, m, q, V, alpha)
        V = 1 / (penalty + alpha * C)
        m, q = alpha * M * V, ((alpha * M) ** 2 + alpha * Q) * V**2
        steps.append(_step(count, m, q, V, k))
    return steps


def check_symmetric_or_square(estimator: ERM, k: int) -> None:
    """The square loss is exempt: its part along 1 decouples."""
    if not isinstance(estimator.loss, SquareLoss):
        check_symmetric(estimator.loss, k)


def _averages(
    k: int, estimator: ERM, m: float, q: float, V: float, alpha: float
) -> tuple[float, float, float]:
    if isinstance(estimator.loss, SquareLoss):
        c, s2 = label_signal(k)
        return c / (1 + V), (s2 - 2 * m * c + q) / (1 + V) ** 2, 1 / (1 + V)
    q = max(q, _NOTHING)
    law = Law(_tau(m, q), q, V)
    averages = rule_at(Problem(k, estimator.loss, 1.0, alpha), 2 if k <= 3 else 1, law)(law)
    return float(np.mean(averages.M)), float(np.mean(averages.Q)), float(np.mean(averages.C))


def _tau(m: float, q: float) -> float:
    return m / math.sqrt(max(q - m * m, 1e-14 * q))


def _step(count: int, m: float, q: float, V: float, k: int) -> ErmStep:
    if q <= 0 or m <= 0:
        return ErmStep(count, m, q, V, 1 - 1 / k)
    return ErmStep(count, m, q, V, float(error_at(math.log(_tau(m, q)), k)))
