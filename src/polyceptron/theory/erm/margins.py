"""The law of the margin z_y − max_{h≠y} z_h, on fresh samples and on training samples.

On a fresh sample the fields are ω, on a training sample prox_{Vℓ(·,y)}(ω) (theorem 1): a training
sample has pulled its own fields towards a small loss. Fresh margins are a double integral for any
k. Training margins: the square loss shrinks towards 1, margin ↦ (margin + V)/(1 + V); max-margin
moves every margin below 1 to 1, an atom; cross-entropy is explicit at k = 2 and is a weighted
average over quasi-random points above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from polyceptron.model.estimators import ERM
from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin, SquareLoss
from polyceptron.numerics.erm_nodes import Array
from polyceptron.theory.erm import many
from polyceptron.theory.erm.agreement import margin_density, margin_exceeds
from polyceptron.theory.erm.averages import Law
from polyceptron.theory.erm.fixed_point import ErmFixedPoint
from polyceptron.theory.erm.public import erm_fixed_point


@dataclass(frozen=True)
class MarginLaw:
    """Densities on `margin` (n,); `atom` is the probability of a training margin at `atom_at`."""

    margin: Array
    fresh: Array
    training: Array
    atom: float
    atom_at: float
    point: ErmFixedPoint


def margin_law(
    n_classes: int,
    loss: Any,
    ridge: Any,
    alpha: float,
    margin: Any = None,
    tol: float | None = None,
) -> MarginLaw:
    """Densities of the fresh and the training margin; `margin` defaults to a grid that fits both.

    >>> law = margin_law(2, "square", 1.0, 2.0)
    >>> bool(abs(np.trapezoid(law.fresh, law.margin) - 1) < 1e-3)
    True
    """
    estimator = ERM(loss, ridge)
    point = erm_fixed_point(n_classes, estimator.loss, estimator.ridge, alpha, tol)
    rule: Loss = MaxMargin() if estimator.ridge == 0 and _soft(estimator) else estimator.loss
    k, root_q = point.n_classes, math.sqrt(point.q)
    tau = math.exp(point.theta[0])
    if margin is None:
        margin = default_grid(point)
    x = np.asarray(margin, dtype=float)
    fresh = margin_density(x / root_q, tau, k) / root_q
    atom = 0.0
    if isinstance(rule, SquareLoss):
        if math.isinf(point.V):
            training, atom = np.zeros_like(x), 1.0
        else:
            stretch = 1 + point.V
            training = margin_density((x * stretch - point.V) / root_q, tau, k) * stretch / root_q
    elif isinstance(rule, MaxMargin):
        training, atom = np.where(x > 1, fresh, 0.0), 1 - margin_exceeds(1 / root_q, tau, k)
    elif k == 2 and isinstance(rule, CrossEntropy):
        training = _two_class_training(x, Law(tau, point.q, point.V))
    else:
        training = _sampled_training(x, rule, Law(tau, point.q, point.V), k)
    return MarginLaw(x, fresh, training, atom, 1.0, point)


def _soft(estimator: ERM) -> bool:
    return isinstance(estimator.loss, CrossEntropy)


def default_grid(point: ErmFixedPoint) -> Array:
    """401 margins that hold all but about 1e-4 of the fresh and training samples."""
    spread = math.sqrt(2 * point.q)
    tau = math.exp(point.theta[0])
    low = -4 * spread / max(tau, 1.0)
    reach = 4.2 * spread
    if math.isfinite(point.V):
        low, reach = min(low, -0.5), max(reach, 1.5)
    return np.linspace(low, reach, 401)


def _two_class_training(A: Array, law: Law) -> Array:
    p = expit(-A)
    a = (A - 2 * law.V * p) / math.sqrt(2 * law.q)
    density = np.exp(-0.5 * a * a) / math.sqrt(math.pi * law.q) * ndtr(law.tau * a)
    return np.asarray(density * (1 + 2 * law.V * p * expit(A)))


def _sampled_training(x: Array, loss: Loss, law: Law, k: int) -> Array:
    """Weighted points shared between the two nearest grid margins, per unit margin."""
    points = many.place_points(k, loss, law, 3)
    margin = many.denoised(loss, law, points.below).margin
    weight = many.label_law(law, points).joint / len(margin)
    cell = np.clip(np.searchsorted(x, margin) - 1, 0, len(x) - 2)
    share = (margin - x[cell]) / (x[cell + 1] - x[cell])
    inside = (share >= 0) & (share <= 1)
    mass = np.zeros(len(x))
    np.add.at(mass, cell[inside], (weight * (1 - share))[inside])
    np.add.at(mass, cell[inside] + 1, (weight * share)[inside])
    return np.asarray(mass / np.gradient(x))
