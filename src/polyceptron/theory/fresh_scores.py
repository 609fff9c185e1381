"""What a student's probabilities are worth on fresh inputs, at a law that is known already."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators import BayesOptimal
from polyceptron.model.law import Law
from polyceptron.model.teacher import AnyTeacher
from polyceptron.numerics.panels import Array
from polyceptron.theory.erm.fixed_point import as_erm, erm_fixed_point
from polyceptron.theory.fresh_fields import Fresh, Says, fresh_fields, label_chances
from polyceptron.theory.reliability import reliability

TARGETS = ("error", "test-loss", "calibration")
N_BINS = 15  # of confidence, even from 1/k to 1


def own_says(teacher: AnyTeacher, estimator: Any, law: Law) -> Says | None:
    """The student's own probabilities of fields (n, k), if it has any."""
    if isinstance(estimator, BayesOptimal):
        return lambda omega: label_chances(teacher.channel, omega, law)
    loss = as_erm(estimator).loss
    if loss.probabilities(np.zeros((1, teacher.n_classes))) is None or loss.scale_free:
        return None

    def says(omega: Array) -> Array:
        found = loss.probabilities(omega)
        assert found is not None  # asked above
        return found

    return says


def says_of(teacher: AnyTeacher, estimator: Any, law: Law) -> Says:
    """The student's own probabilities of fields (n, k), or a sentence."""
    says = own_says(teacher, estimator, law)
    if says is None:
        raise InvalidInput(
            f"the loss {as_erm(estimator).loss.name!r} stands for no probabilities, and through a "
            f"softmax of the best temperature the ridge of least error is best for them too: ask "
            f"for target 'error'"
        )
    return says


def fresh_loss(teacher: AnyTeacher, estimator: Any, law: Law) -> float:
    """The test loss alone, at a law that is known already."""
    says = says_of(teacher, estimator, law)
    return float(mean_scores(fresh_fields(teacher.channel, teacher.n_classes, law), says)[0].mean())


def fresh_scores(teacher: AnyTeacher, estimator: Any, law: Law) -> dict[str, float]:
    """Columns of a row: test loss, Brier score, and calibration error over 15 bins.

    None where the student has no probabilities of its own.
    """
    says, k = own_says(teacher, estimator, law), teacher.n_classes
    if says is None:
        return {}
    loss, brier = mean_scores(fresh_fields(teacher.channel, k, law), says)
    error = 0.0
    if not isinstance(estimator, BayesOptimal):
        edges = np.linspace(1 / k, 1, N_BINS + 1)
        error = float(reliability(teacher.channel, k, law, says, edges)[-1].value)
    return {
        "test_loss": float(loss.mean()),
        "brier": float(brier.mean()),
        "calibration_error": error,
    }


def mean_scores(nodes: Fresh, says: Says) -> tuple[Array, Array]:
    """Test loss and Brier score, one of each for a replicate."""
    p, t = says(nodes.omega), nodes.truth
    loss = -(t * np.log(np.maximum(p, 1e-300))).sum(1)
    brier = (p * p).sum(1) - 2 * (t * p).sum(1) + 1
    total = nodes.weight.sum(1)
    return nodes.mean(loss) / total, nodes.mean(brier) / total


def softened(nodes: Fresh) -> tuple[float, Says]:
    """The temperature of least test loss, and the softmax there."""

    def plain(omega: Array) -> Array:
        return np.asarray(softmax(omega, axis=1))

    best = best_temperature(nodes, plain)
    return best, lambda omega: plain(omega / best)


def best_temperature(nodes: Fresh, says: Says) -> float:
    def loss(log_t: float) -> float:
        cooled = nodes._replace(omega=nodes.omega * math.exp(-log_t))
        return float(mean_scores(cooled, says)[0].mean())

    found = minimize_scalar(loss, bounds=(-6.0, 6.0), method="bounded", options={"xatol": 1e-6})
    return math.exp(float(found.x))


def ridge_for(teacher: AnyTeacher, estimator: Any, alpha: float, target: str) -> float:
    """The λ of least test loss or least calibration error at α."""
    loss = as_erm(estimator).loss
    spec = replace(as_erm(estimator), ridge=1.0) if not loss.scale_free else as_erm(estimator)
    says = says_of(teacher, spec, Law(1.0, 1.0, 1.0))
    edges = np.linspace(1 / teacher.n_classes, 1, N_BINS + 1)
    near: list[Any] = [None]

    def score(log_ridge: float) -> float:
        point = erm_fixed_point(
            teacher, replace(spec, ridge=math.exp(log_ridge)), alpha, start=near[0]
        )
        if not math.isfinite(point.q):
            return math.inf
        near[0], law, k = point, point.law, teacher.n_classes
        if target == "test-loss":
            return fresh_loss(teacher, spec, law)
        bins = reliability(teacher.channel, k, law, says, edges)
        return float(bins[-1].value)

    grid = np.log(10.0) * np.arange(-3.0, 2.0)
    values = [score(x) for x in grid[::-1]][::-1]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(score, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))
