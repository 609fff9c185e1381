"""Test loss and calibration: how good a student's probabilities are on fresh inputs.

With p the student's probabilities (the softmax of its fields; Bayes: those of the posterior) and t
the true ones given the same fields (`fresh_fields`),

    test loss −E Σ t_l ln p_l,   Brier E Σ t_l ‖p − e_l‖²,   best temperature argmin_T of the loss
    of p(ω/T),   calibration error Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin: what a reliability diagram shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_alpha, check_size
from polyceptron.model.estimators import BayesOptimal
from polyceptron.model.law import Law
from polyceptron.model.teacher import AnyTeacher, check_teacher
from polyceptron.numerics.estimate import Estimate, from_replicates
from polyceptron.numerics.panels import Array
from polyceptron.rows import Status
from polyceptron.theory.bayes_optimal import fixed_points
from polyceptron.theory.erm.fixed_point import as_erm, erm_fixed_point
from polyceptron.theory.fresh_fields import (
    Fresh,
    Says,
    fresh_fields,
    label_chances,
)
from polyceptron.theory.generalisation import error_on_labels
from polyceptron.theory.reliability import reliability

TARGETS = ("error", "test-loss", "calibration")


@dataclass(frozen=True)
class Calibration:
    """Scores of the probabilities, and the reliability diagram: arrays over bins (b,)."""

    n_classes: int
    noise: str
    estimator: str
    ridge: float | None
    alpha: float
    generalisation_error: float
    test_loss: float
    test_loss_uncertainty: float
    brier: float
    brier_uncertainty: float
    calibration_error: float
    calibration_error_uncertainty: float
    temperature: float  # by which fields are divided for the least test loss
    status: Status
    edges: Array = field(repr=False)  # (b + 1,)
    share: Array = field(repr=False)
    confidence: Array = field(repr=False)
    accuracy: Array = field(repr=False)
    accuracy_uncertainty: Array = field(repr=False)


def calibration(teacher: AnyTeacher, estimator: Any, alpha: float, n_bins: int = 15) -> Calibration:
    """Test loss, Brier score, reliability and best temperature at n = αd, d → ∞.

    `estimator` is `BayesOptimal()`, or an `ERM` whose loss stands for probabilities.

    >>> from polyceptron.model import ERM, Teacher
    >>> found = calibration(Teacher(2, noise="softmax:2"), ERM("cross-entropy", 1e-3), 5.0)
    >>> found.temperature > 1  # hardly any ridge: overconfident
    True
    """
    check_teacher(teacher)
    alpha, n_bins = check_alpha(alpha), check_size(n_bins, "n_bins")
    law, says, name, ridge, width = _student(teacher, estimator, alpha)
    k, channel = teacher.n_classes, teacher.noise
    levels = [fresh_fields(channel, k, law, level) for level in ((0, 1) if k <= 3 else (0,))]
    fresh = levels[-1]
    scores = [_scores(nodes, says) for nodes in levels]
    found = [from_replicates(part) for part in scores[-1]]
    if k <= 3:
        found = [
            Estimate(new.mean(), abs(new.mean() - old.mean()) + 1e-12)
            for old, new in zip(*scores, strict=True)
        ]
    moved = [_scores(fresh_fields(channel, k, near, 0), says) for near in _nearby(law, width)]
    base = scores[0]
    spread = [sum(abs(float((m[i] - base[i]).mean())) for m in moved) for i in (0, 1)]
    edges = np.linspace(1 / k, 1, n_bins + 1)
    bins = reliability(channel, k, law, says, edges)
    share, confidence, accuracy, accuracy_spread, error = bins
    exact = isinstance(estimator, BayesOptimal)
    return Calibration(
        n_classes=k,
        noise=channel.name,
        estimator=name,
        ridge=ridge,
        alpha=alpha,
        generalisation_error=float(error_on_labels(channel, law.tau, k)),
        test_loss=float(found[0].value),
        test_loss_uncertainty=float(found[0].uncertainty) + spread[0],
        brier=float(found[1].value),
        brier_uncertainty=float(found[1].uncertainty) + spread[1],
        calibration_error=0.0 if exact else float(error.value),
        calibration_error_uncertainty=0.0 if exact else float(error.uncertainty) + sum(spread),
        temperature=1.0 if exact else _temperature(fresh, says),
        status=Status.OK,
        edges=edges,
        share=share,
        confidence=confidence,
        accuracy=accuracy,
        accuracy_uncertainty=accuracy_spread,
    )


def fresh_loss(teacher: AnyTeacher, estimator: Any, law: Law) -> float:
    """The test loss alone, at a law that is known already."""
    says = says_of(teacher, estimator, law)
    return float(_scores(fresh_fields(teacher.noise, teacher.n_classes, law), says)[0].mean())


def says_of(teacher: AnyTeacher, estimator: Any, law: Law) -> Says:
    """The student's probabilities of fields (n, k), or a sentence."""
    if isinstance(estimator, BayesOptimal):
        return lambda omega: label_chances(teacher.noise, omega, law)
    loss = as_erm(estimator).loss
    if loss.probabilities(np.zeros((1, teacher.n_classes))) is None or loss.scale_free:
        raise InvalidInput(
            f"the loss {loss.name!r} stands for no probabilities: calibration needs one that does, "
            f"such as 'cross-entropy', or BayesOptimal()"
        )

    def says(omega: Array) -> Array:
        found = loss.probabilities(omega)
        assert found is not None  # asked above
        return found

    return says


def ridge_for(teacher: AnyTeacher, estimator: Any, alpha: float, target: str) -> float:
    """The λ of least test loss or least calibration error at α."""
    loss = as_erm(estimator).loss
    spec = replace(as_erm(estimator), ridge=1.0) if not loss.scale_free else as_erm(estimator)
    says = says_of(teacher, spec, Law(1.0, 1.0, 1.0))
    edges = np.linspace(1 / teacher.n_classes, 1, 16)
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
        bins = reliability(teacher.noise, k, law, says, edges)
        return float(bins[-1].value)

    grid = np.log(10.0) * np.arange(-3.0, 2.0)
    values = [score(x) for x in grid[::-1]][::-1]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(score, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    return math.exp(float(found.x))


def _student(
    teacher: AnyTeacher, estimator: Any, alpha: float
) -> tuple[Law, Says, str, float | None, float]:
    """The law, the probabilities, the name and ridge, and the uncertainty of ln τ."""
    if alpha == 0:
        raise InvalidInput("there is nothing to calibrate at alpha 0, where there are no data")
    if isinstance(estimator, BayesOptimal):
        point = fixed_points(teacher, alpha)[0]
        law, name, ridge, spread = Law.bayes(point.v), estimator.name, None, point.uncertainty
    else:
        spec = as_erm(estimator)
        says_of(teacher, spec, Law(1.0, 1.0, 1.0))  # its sentence before any work
        solved = erm_fixed_point(teacher, spec, alpha)
        if not (math.isfinite(solved.q) and solved.theta.size != 2):
            raise InvalidInput(
                f"at alpha {alpha:g} a ridge of 0 gives fields without a scale, and so no "
                f"probabilities: give a ridge above 0"
            )
        law, name, ridge, spread = solved.law, spec.name, solved.ridge, solved.uncertainty
    step = 1e-4
    errors = error_on_labels(
        teacher.noise, law.tau * np.exp(np.array([-step, step])), teacher.n_classes
    )
    slope = abs(float(errors[1] - errors[0])) / (2 * step)
    width = spread / slope if slope > 0 else 0.0
    return law, says_of(teacher, estimator, law), name, ridge, width


def _nearby(law: Law, width: float) -> tuple[Law, Law]:
    """The law with each of its numbers moved by its uncertainty."""
    return replace(law, tau=law.tau * math.exp(width)), replace(law, q=law.q * math.exp(2 * width))


def _scores(nodes: Fresh, says: Says) -> tuple[Array, Array]:
    """Test loss and Brier score, one of each for a replicate."""
    p, t = says(nodes.omega), nodes.truth
    loss = -(t * np.log(np.maximum(p, 1e-300))).sum(1)
    brier = (p * p).sum(1) - 2 * (t * p).sum(1) + 1
    total = nodes.weight.sum(1)
    return nodes.mean(loss) / total, nodes.mean(brier) / total


def _temperature(nodes: Fresh, says: Says) -> float:
    def loss(log_t: float) -> float:
        cooled = nodes._replace(omega=nodes.omega * math.exp(-log_t))
        return float(_scores(cooled, says)[0].mean())

    found = minimize_scalar(loss, bounds=(-6.0, 6.0), method="bounded", options={"xatol": 1e-6})
    return math.exp(float(found.x))
