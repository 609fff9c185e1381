"""What training samples see: their error and their mean loss, where these have a form of their own.

On a training sample the fields are prox_{Vℓ(·,y)}(ω) (theorem 1). Where a loss says at which fresh
gap a training sample is just mistaken, the training error is a probability of the fresh margin.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from polyceptron.model.law import Hats, Law
from polyceptron.model.losses import Loss
from polyceptron.numerics.estimate import from_replicates
from polyceptron.theory.erm.margin_probability import margin_exceeds
from polyceptron.theory.sides import Problem

_SAMPLED_LEVEL = 1
_ROUNDING = 1e-11  # of a probability that is 1 minus a double integral


def training_error(problem: Problem, law: Law) -> float | None:
    """P(a training sample is mistaken), where the fresh margin decides it alone; else None."""
    if math.isinf(law.V):
        return 0.0
    gap = problem.loss.mistake_gap(law.V)
    if gap is None:
        return None
    if math.isinf(gap):
        return 0.0
    kept = margin_exceeds(problem.channel, problem.n_classes, law.tau, gap / math.sqrt(law.q))
    return None if kept is None else max(1 - kept, 0.0) if 1 - kept > _ROUNDING else 0.0


def sampled_training_error(problem: Problem, law: Law) -> tuple[float, float]:
    """P(a training sample is mistaken) and its uncertainty, from quasi-random points."""
    rule = replace(problem, by_points=True).rule(_SAMPLED_LEVEL, law)
    value, uncertainty = from_replicates(rule(law).error)
    return float(value), float(uncertainty)


def square_training_loss(problem: Problem, law: Law) -> float:
    """E ‖z − e_y‖²/2 over training samples, all k coordinates, at the proximal point.

    On 1⊥ it is r Q/2. Along (1, …, 1) the target is the constant 1/√k: inputs of mean 0 carry
    nothing of it, so that the equations are the same with c = 0, m₁ = 0 and q₁ = x(1/k + q₁), where
    x is the norm that unit noise leaves, times α/(1+V)².
    """
    if math.isinf(law.V):
        return 0.0
    averages = problem.explicit(law)
    if averages is None:
        return math.nan
    k, shrink = problem.n_classes, 1 / (1 + law.V) ** 2
    noise = problem.law(Hats(0.0, 1.0, float(averages.C[0]) * problem.alpha)).q
    along = shrink / (k * (1 - problem.alpha * shrink * noise))
    return ((k - 1) * float(averages.Q[0]) + along) / 2


@lru_cache(maxsize=64)
def moves_along_ones(loss: Loss, n_classes: int) -> bool:
    """Whether the loss acts along (1, …, 1), which no label shows: its mean is not known then."""
    slope = loss.gradient(np.zeros((1, n_classes)), np.zeros(1, dtype=np.int64))
    return bool(abs(float(slope.sum())) > 1e-8 * (1 + float(np.abs(slope).max())))
