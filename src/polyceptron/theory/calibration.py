"""Test loss and calibration: how good a student's probabilities are on fresh inputs.

With p the student's probabilities (the softmax of its fields; Bayes: those of the posterior) and t
the true ones given the same fields (`fresh_fields`),

    test loss −E Σ t_l ln p_l,   Brier E Σ t_l ‖p − e_l‖²,   best temperature argmin_T of the loss
    of p(ω/T),   calibration error Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin: what a reliability diagram shows.

Fields that stand for no probabilities (square loss), or have no scale (max-margin, and ridge 0 on
separable data), are read through a softmax of the best temperature, as users do with held-out data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_alpha, check_size
from polyceptron.model.estimators import as_estimator
from polyceptron.model.law import Law
from polyceptron.model.teacher import AnyTeacher, check_teacher
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, from_replicates
from polyceptron.rows import Status
from polyceptron.theory.fresh_scores import (
    N_BINS,
    best_temperature,
    fresh_fields,
    mean_scores,
    reliability,
    softened,
)
from polyceptron.theory.generalisation import error_on_labels


@dataclass(frozen=True, repr=False)
class Calibration(ShortDisplay):
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
    own_probabilities: bool  # or those of a softmax at that temperature
    status: Status
    edges: Array = field(repr=False)  # (b + 1,)
    share: Array = field(repr=False)
    confidence: Array = field(repr=False)
    accuracy: Array = field(repr=False)
    accuracy_uncertainty: Array = field(repr=False)


def calibration(
    teacher: AnyTeacher, estimator: Any, alpha: float, n_bins: int = N_BINS
) -> Calibration:
    """Test loss, Brier score, reliability and best temperature at n = αd, d → ∞.

    `estimator` is `BayesOptimal()` or an `ERM`. Where its loss stands for no probabilities they are
    those of a softmax of the fields at the best temperature.

    `teacher` is a `Teacher` or a `Perceptron`, `alpha` is n/d, `n_bins` the number of equal bins of
    confidence.

    >>> from polyceptron.model import ERM, Teacher
    >>> found = calibration(Teacher(2, noise="softmax:2"), ERM("cross-entropy", 1e-3), 5.0)
    >>> found.temperature > 1  # hardly any ridge: overconfident
    True
    """
    check_teacher(teacher)
    alpha, n_bins = check_alpha(alpha), check_size(n_bins, "n_bins")
    if alpha == 0:
        raise InvalidInput("there is nothing to calibrate at alpha 0, where there are no data")
    student, k, channel = as_estimator(estimator), teacher.n_classes, teacher.channel
    law, spread_of_error, status, ridge, scaled = student.law(teacher, alpha)
    own = student.probabilities(teacher, law) if scaled else None
    width = _width(teacher, law, spread_of_error)
    best, says = 1.0, own
    if says is None:
        best, says = softened(fresh_fields(channel, k, law))
    levels = [fresh_fields(channel, k, law, level) for level in ((0, 1) if k <= 3 else (0,))]
    fresh = levels[-1]
    scores = [mean_scores(nodes, says) for nodes in levels]
    found = [from_replicates(part) for part in scores[-1]]
    if k <= 3:
        found = [
            Estimate(new.mean(), abs(new.mean() - old.mean()) + 1e-12)
            for old, new in zip(*scores, strict=True)
        ]
    moved = [mean_scores(fresh_fields(channel, k, near, 0), says) for near in _nearby(law, width)]
    base = scores[0]
    spread = [sum(abs(float((m[i] - base[i]).mean())) for m in moved) for i in (0, 1)]
    edges = np.linspace(1 / k, 1, n_bins + 1)
    bins = reliability(channel, k, law, says, edges)
    share, confidence, accuracy, accuracy_spread, error = bins
    exact = student.calibrated
    return Calibration(
        n_classes=k,
        noise=channel.name,
        estimator=student.name,
        ridge=ridge,
        alpha=alpha,
        generalisation_error=float(error_on_labels(channel, law.tau, k)),
        test_loss=float(found[0].value),
        test_loss_uncertainty=float(found[0].uncertainty) + spread[0],
        brier=float(found[1].value),
        brier_uncertainty=float(found[1].uncertainty) + spread[1],
        calibration_error=0.0 if exact else float(error.value),
        calibration_error_uncertainty=0.0 if exact else float(error.uncertainty) + sum(spread),
        temperature=1.0 if exact else best_temperature(fresh, says) if own is not None else best,
        own_probabilities=own is not None,
        status=status,
        edges=edges,
        share=share,
        confidence=confidence,
        accuracy=accuracy,
        accuracy_uncertainty=accuracy_spread,
    )


def _width(teacher: AnyTeacher, law: Law, uncertainty: float) -> float:
    """The uncertainty of ln τ that belongs to that of the error."""
    step = 1e-4
    errors = error_on_labels(
        teacher.channel, law.tau * np.exp(np.array([-step, step])), teacher.n_classes
    )
    slope = abs(float(errors[1] - errors[0])) / (2 * step)
    return uncertainty / slope if slope > 0 else 0.0


def _nearby(law: Law, width: float) -> tuple[Law, Law]:
    """The law with each of its numbers moved by its uncertainty."""
    return replace(law, tau=law.tau * math.exp(width)), replace(law, q=law.q * math.exp(2 * width))
