"""Test loss and calibration: how good a student's probabilities are on fresh inputs.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ². With p the student's own probabilities (the softmax of its fields;
Bayes: those of the posterior)

    test loss −E Σ t_l ln p_l,   Brier E Σ t_l ‖p − e_l‖²,   best temperature argmin_T of the loss
    of p(ω/T),   calibration error Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin: what a reliability diagram shows.
Classes are alike, so that ω₁ ≥ ω₂ ≥ … is enough. Nodes: panels along one gap (k = 2) or two
(k = 3), quasi-random replicates above.

Fields that stand for no probabilities (square loss), or have no scale (max-margin, and ridge 0 on
separable data), are read through a softmax of the best temperature.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from polyceptron.checks import check_alpha, check_size
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.problem.specs import ERM, Probabilities, as_erm
from polyceptron.rows import Status
from polyceptron.sides.fresh_scores import (
    N_BINS,
    Bins,
    Fresh,
    binned,
    fresh_fields,
    mean_scores,
    reliability,
)
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.sides.scores import leading_nodes
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.students import Student, student_of
from polyceptron.theory.erm.fixed_point import default_tolerance, student_order
from polyceptron.theory.erm.unequal_classes import population_point

TARGETS = ("error", "test-loss", "calibration")
_SCORES = ("test_loss", "brier", "calibration_error")
_FACTS = ("status", "generalisation_error", "ridge", "temperature", "own_probabilities")
_Found = tuple[Bins, tuple[Estimate, ...], tuple[Any, ...]]  # bins, scores and facts
_SEARCH_SHARE = 0.1  # of the fixed point's tolerance: that of the search for a ridge


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


def calibration(teacher: Any, estimator: Any, alpha: float, n_bins: int = N_BINS) -> Calibration:
    """Test loss, Brier score, reliability and best temperature at n = αd, d → ∞.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : BayesOptimal or ERM
        Where its loss stands for no probabilities they are those of a softmax of the fields at the
        best temperature.
    alpha : float
        n/d.
    n_bins : int
        Number of equal bins of confidence.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> found = calibration(Teacher(2, noise="softmax:2"), ERM("cross-entropy", 1e-3), 5.0)
    >>> found.temperature > 1  # hardly any ridge: overconfident
    True
    """
    check_population(teacher)
    alpha, n_bins = check_alpha(alpha), check_size(n_bins, "n_bins")
    if alpha == 0:
        raise InvalidInput("there is nothing to calibrate at alpha 0, where there are no data")
    student = student_of(estimator)
    edges = np.linspace(1 / teacher.n_classes, 1, n_bins + 1)
    compute = _of_teacher if student.spec.sees_equal_classes(teacher) else _of_population
    bins, scores, facts = compute(teacher, student, alpha, edges)
    found = {**bins, **dict(zip(_FACTS, facts, strict=True))}
    for name, (value, spread) in zip(_SCORES, scores, strict=True):
        found |= {name: float(value), f"{name}_uncertainty": float(spread)}
    found |= {"n_classes": teacher.n_classes, "noise": str(teacher.columns.get("noise", "none"))}
    return Calibration(estimator=student.spec.name, alpha=alpha, edges=edges, **found)


def _of_teacher(teacher: AnyTeacher, student: Student, alpha: float, edges: Array) -> _Found:
    """Classes that are alike: by the scalar law of the fields."""
    channel, k = teacher.channel, teacher.n_classes
    law, spread_of_error, status, ridge, scaled = student.law(teacher, alpha)
    own = student.probabilities(teacher, law) if scaled else None
    levels = [fresh_fields(channel, k, law, level) for level in ((0, 1) if k <= 3 else (0,))]
    best = 1.0 if own else _best_temperature(levels[0], partial(softmax, axis=1))
    probabilities = own or (lambda omega: softmax(omega / best, axis=1))
    scores = [mean_scores(nodes, probabilities) for nodes in levels]
    found = [estimate_from_replicates(part) for part in scores[-1]]
    if k <= 3:
        found = [
            Estimate(new.mean(), abs(new.mean() - old.mean()) + 1e-12)
            for old, new in zip(*scores, strict=True)
        ]
    slope = error_slope(channel, law.tau, k)
    width = spread_of_error / slope if slope > 0 else 0.0  # of ln τ
    up = replace(law, tau=law.tau * math.exp(width)), replace(law, q=law.q * math.exp(2 * width))
    moved = [mean_scores(fresh_fields(channel, k, near), probabilities) for near in up]
    spread = [sum(abs(float((m[i] - scores[0][i]).mean())) for m in moved) for i in (0, 1)]
    loss, brier = (Estimate(f.value, f.uncertainty + s) for f, s in zip(found, spread, strict=True))
    bins, error = reliability(channel, k, law, probabilities, edges)
    if student.spec.calibrated:
        error = Estimate(np.zeros(()), np.zeros(()))
    else:
        best = _best_temperature(levels[-1], probabilities) if own else best
        error = Estimate(error.value, error.uncertainty + sum(spread))
    wrong = float(error_on_labels(channel, law.tau, k))
    return bins, (loss, brier, error), (status, wrong, ridge, best, own is not None)


def _of_population(population: Population, student: Student, alpha: float, edges: Array) -> _Found:
    """Classes that are not alike: at random fields of the fixed point's law."""
    point = population_point(population, as_erm(student.spec), alpha)
    own, nodes = point.probabilities, Fresh(*leading_nodes(point.law))
    best = _best_temperature(nodes, own or partial(softmax, axis=1))
    probabilities = own or (lambda omega: softmax(omega / best, axis=1))
    bins, error = binned(nodes, probabilities, edges)
    loss, brier = (estimate_from_replicates(each) for each in mean_scores(nodes, probabilities))
    law = point.uncertainty + point.brier_uncertainty if own else point.uncertainty
    if own:  # which the point knows better
        loss = Estimate(*np.array([point.test_loss, point.test_loss_uncertainty]))
        brier = Estimate(*np.array([point.brier, point.brier_uncertainty]))
    error = Estimate(error.value, error.uncertainty + law)
    facts = point.status, point.generalisation_error, point.ridge, best, own is not None
    return bins, (loss, brier, error), facts


def _best_temperature(nodes: Fresh, probabilities: Probabilities) -> float:
    """T of least test loss."""

    def loss(log_t: float) -> float:
        cooled = nodes._replace(omega=nodes.omega * math.exp(-log_t))
        return float(mean_scores(cooled, probabilities)[0].mean())

    return _least(loss, -6.0, 6.0, 1e-6)


def _least(function: Callable[[float], float], low: float, high: float, xatol: float) -> float:
    """e^x at the least value of a function of x between `low` and `high`."""
    found = minimize_scalar(function, bounds=(low, high), options={"xatol": xatol})
    return math.exp(float(found.x))


def fresh_scores(teacher: AnyTeacher, student: Student, law: ScalarOrder) -> dict[str, float]:
    """Test loss, Brier score, calibration error at a known law; none without probabilities."""
    k = teacher.n_classes
    if (probabilities := student.probabilities(teacher, law)) is None:
        return {}
    nodes, error = fresh_fields(teacher.channel, k, law), 0.0
    if student.spec.calibrated:  # its probabilities are those of the labels
        probabilities = lambda _: nodes.truth  # noqa: E731
    else:
        edges = np.linspace(1 / k, 1, N_BINS + 1)
        error = float(reliability(teacher.channel, k, law, probabilities, edges)[1].value)
    loss, brier = (float(each.mean()) for each in mean_scores(nodes, probabilities))
    return {"test_loss": loss, "brier": brier, "calibration_error": error}


def _unbinned_error(channel: Channel, k: int, law: ScalarOrder, p: Probabilities) -> float:
    """The calibration error of ever finer bins: the least of few lies where one is calibrated."""
    if k > 2:
        edges = np.linspace(1 / k, 1, 10 * N_BINS + 1)
        return float(reliability(channel, k, law, p, edges)[1].value)
    nodes = fresh_fields(channel, k, law, 4)
    apart = np.abs(nodes.truth[:, 0] - p(nodes.omega)[:, 0])
    return float(nodes.mean(apart)[0] / nodes.weight.sum())


def ridge_for(teacher: AnyTeacher, estimator: Any, alpha: float, target: str) -> float:
    """The λ of least test loss or least calibration error (of fine bins) at α."""
    spec = as_erm(estimator)
    if (probabilities := spec.probabilities(teacher, ScalarOrder(1.0, 1.0, 1.0))) is None:
        raise InvalidInput(
            f"the loss {spec.name!r} stands for no probabilities, and through a softmax of the "
            f"best temperature the ridge of least error is best for them too: ask for target "
            f"'error'"
        )

    objective = _ScoreOfRidge(teacher, spec, alpha, target, probabilities)
    largest = 1e8 * max(1.0, alpha)
    tol = _SEARCH_SHARE * default_tolerance(teacher.n_classes)
    found = minimise(objective, 0.1, tol, range_=(1e-9, largest), limit_at_zero=True)
    if found is None:
        raise ComputationFailed(
            f"no fixed point at alpha {alpha:g} on the way to the ridge of least {target}"
        )
    if found.place == Place.EDGE:
        raise ComputationFailed(
            f"the {target} at alpha {alpha:g} still falls at ridge {found.parameter:.3g}, the last "
            f"that could be solved for: give a ridge"
        )
    return found.parameter


@dataclass(frozen=True)
class _ScoreOfRidge:
    """Test loss or calibration error as a function of the ridge, for the minimiser."""

    teacher: AnyTeacher
    estimator: ERM
    alpha: float
    target: str
    probabilities: Probabilities

    def __call__(self, ridge: float) -> Trial:
        try:
            estimator = self.estimator.with_ridge(ridge)
            _, law, scaled = student_order(self.teacher, estimator, self.alpha)
        except (InvalidInput, ComputationFailed):  # no such limit of the loss, no fixed point
            return Trial(math.inf)
        if not scaled:  # weights without a ridge diverge, and their test loss with them
            return Trial(math.inf)
        channel = self.teacher.channel
        n_classes = self.teacher.n_classes
        if self.target == "calibration":
            return Trial(_unbinned_error(channel, n_classes, law, self.probabilities))
        nodes = fresh_fields(channel, n_classes, law)
        return Trial(float(mean_scores(nodes, self.probabilities)[0].mean()))
