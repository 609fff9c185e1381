"""The ridge of least test loss or of least calibration error.

At each ridge λ tried the fixed point gives the order parameters (τ, q, V), and these the score of
the student's probabilities on fresh inputs (`calibration` defines both scores). `solve/minimise.py`
searches in ln λ, the limit λ → 0⁺ included.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import ERM, Probabilities, as_erm
from polyceptron.sides.fresh_scores import N_BINS, fresh_fields, mean_scores, reliability
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.erm.fixed_point import default_tolerance, student_order

TARGETS = ("error", "test-loss", "calibration")
FINE_BINS = 10 * N_BINS


def ridge_for(teacher: AnyTeacher, estimator: Any, alpha: float, target: str) -> float:
    """Return the λ of least test loss or least calibration error at α.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    estimator : ERM, Loss or str
        Its loss must stand for probabilities; its own ridge is not used.
    alpha : float
        n/d.
    target : {'test-loss', 'calibration'}
        The calibration error is that of fine bins: with few, its minimum is where one of them
        happens to be calibrated.
    """
    spec = as_erm(estimator)
    probabilities = spec.probabilities(teacher, ScalarOrder(1.0, 1.0, 1.0))
    if probabilities is None:
        raise InvalidInput(
            f"the loss {spec.name!r} models no probabilities; with a softmax at the best "
            "temperature the ridge of least error is the best one for them too: use target 'error'"
        )
    objective = _ScoreOfRidge(teacher, spec, alpha, target, probabilities)
    largest = 1e8 * max(1.0, alpha)  # above it weights are proportional to class means
    # The search adds little to the error bar of a fixed point.
    tol = 0.1 * default_tolerance(teacher.n_classes)
    minimum = minimise(objective, 0.1, tol, range_=(1e-9, largest), limit_at_zero=True)
    if minimum is None:
        raise ComputationFailed(
            f"no fixed point at alpha {alpha:g} on the way to the ridge of least {target}"
        )
    if minimum.place == Place.EDGE:
        raise ComputationFailed(
            f"the {target} at alpha {alpha:g} still falls at ridge {minimum.parameter:.3g}, the "
            f"last that could be solved for: give a ridge"
        )
    return minimum.parameter


@dataclass(frozen=True)
class _ScoreOfRidge:
    """Test loss or calibration error as a function of the ridge, for the minimiser."""

    teacher: AnyTeacher
    estimator: ERM
    alpha: float
    target: str
    probabilities: Probabilities

    def __call__(self, ridge: float) -> Trial:
        """Return the score at one ridge, infinite where there is none."""
        try:
            estimator = self.estimator.with_ridge(ridge)
            _, order, has_scale = student_order(self.teacher, estimator, self.alpha)
        except (InvalidInput, ComputationFailed):  # no such limit of the loss, no fixed point
            return Trial(math.inf)
        if not has_scale:  # weights without a ridge diverge, and their test loss with them
            return Trial(math.inf)
        channel = self.teacher.channel
        n_classes = self.teacher.n_classes
        if self.target == "calibration":
            return Trial(_unbinned_error(channel, n_classes, order, self.probabilities))
        losses, _ = mean_scores(fresh_fields(channel, n_classes, order), self.probabilities)
        return Trial(float(losses.mean()))


def _unbinned_error(
    channel: Channel, k: int, order: ScalarOrder, probabilities: Probabilities
) -> float:
    """Return the calibration error in the limit of fine bins.

    For two classes that is E|t₁ − p₁|, since p₁ is a function of the one gap of the fields.
    """
    if k > 2:
        edges = np.linspace(1 / k, 1, FINE_BINS + 1)
        _, error = reliability(channel, k, order, probabilities, edges)
        return float(error.value)
    fine_level = 4  # the difference has a kink
    nodes = fresh_fields(channel, k, order, fine_level)
    apart = np.abs(nodes.truth[:, 0] - probabilities(nodes.omega)[:, 0])
    return float(nodes.mean(apart)[0] / nodes.weight.sum())
