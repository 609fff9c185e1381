"""Test loss and calibration: how good a student's probabilities are on fresh inputs.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ². With p the student's own probabilities (the softmax of its fields;
Bayes: those of the posterior)

    test loss            −E Σ_l t_l ln p_l
    Brier score          E Σ_l t_l ‖p − e_l‖²
    best temperature     argmin_T of the test loss of p(ω/T)
    calibration error    Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin: what a reliability diagram shows.
Where classes are equal, averages are over sorted fields ω₁ ≥ ω₂ ≥ …, with panels along one gap
(k = 2) or two (k = 3), quasi-random replicates above (`sides/probability_scores.py`); else,
over random fields of the solution's matrices (`sides/scores.py`).

Fields that stand for no probabilities (square loss), or have no scale (max-margin, and ridge 0 on
separable data), are read through a softmax of the best temperature.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from polyceptron.checks import check_alpha, check_size
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.problem.specs import Probabilities, as_erm
from polyceptron.rows import Status
from polyceptron.sides.fresh_scores import N_BINS, Bins, Fresh, binned, mean_scores
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.sides.probability_scores import ProbabilityScores
from polyceptron.sides.scores import leading_nodes
from polyceptron.students import Student, student_of
from polyceptron.theory.erm.unequal_classes import population_point

LARGEST_LOG_TEMPERATURE = 6.0  # fields are divided by e^−6 to e^6
TEMPERATURE_TOLERANCE = 1e-6  # of ln T; the test loss is flat there, so it is known to 1e-12


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


@dataclass(frozen=True)
class _Scores:
    """What is computed for `Calibration`, before names and inputs are added."""

    status: Status
    generalisation_error: float
    ridge: float | None
    temperature: float
    own_probabilities: bool
    test_loss: Estimate
    brier: Estimate
    calibration_error: Estimate
    bins: Bins


@np.errstate(under="ignore")  # Chances of classes far behind are 0.
def calibration(teacher: Any, estimator: Any, alpha: float, n_bins: int = N_BINS) -> Calibration:
    """Return test loss, Brier score, reliability and best temperature at n = αd, d → ∞.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : BayesOptimal or ERM
        If its loss models no probabilities, they are those of a softmax of the fields at the best
        temperature.
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
    >>> teacher = Teacher(2, noise="softmax:2")
    >>> found = calibration(teacher, ERM("cross-entropy", 1e-3), 5.0)
    >>> found.temperature > 1  # hardly any ridge: overconfident
    True
    """
    check_population(teacher)
    alpha = check_alpha(alpha)
    n_bins = check_size(n_bins, "n_bins")
    if alpha == 0:
        raise InvalidInput("there is nothing to calibrate at alpha 0, where there are no data")
    student = student_of(estimator)
    edges = np.linspace(1 / teacher.n_classes, 1, n_bins + 1)
    if student.spec.sees_equal_classes(teacher):
        scores = _scores_of_equal_classes(teacher, student, alpha, edges)
    else:
        scores = _scores_of_unequal_classes(teacher, student, alpha, edges)
    return Calibration(
        n_classes=teacher.n_classes,
        noise=str(teacher.columns.get("noise", "none")),
        estimator=student.spec.name,
        ridge=scores.ridge,
        alpha=alpha,
        generalisation_error=scores.generalisation_error,
        test_loss=float(scores.test_loss.value),
        test_loss_uncertainty=float(scores.test_loss.uncertainty),
        brier=float(scores.brier.value),
        brier_uncertainty=float(scores.brier.uncertainty),
        calibration_error=float(scores.calibration_error.value),
        calibration_error_uncertainty=float(scores.calibration_error.uncertainty),
        temperature=scores.temperature,
        own_probabilities=scores.own_probabilities,
        status=scores.status,
        edges=edges,
        **scores.bins,
    )


def _scores_of_equal_classes(
    teacher: AnyTeacher, student: Student, alpha: float, edges: Array
) -> _Scores:
    """Return the scores where three order parameters (τ, q, V) give the distribution of fields."""
    known = student.order_parameters(teacher, alpha)
    order = known.order
    scores = ProbabilityScores(teacher.channel, teacher.n_classes, order, known.uncertainty)
    own = None
    if known.has_scale:
        own = student.probabilities(teacher, order)
    if own is not None:
        probabilities = own
        temperature = 1.0
        if not student.spec.calibrated:
            temperature = _best_temperature(scores.nodes, own)
    else:
        temperature = _best_temperature(scores.nodes, _softmax)
        probabilities = partial(_cooled_softmax, temperature=temperature)
    test_loss, brier = scores.means(None if student.spec.calibrated else probabilities)
    bins, calibration_error = scores.calibration(probabilities, edges)
    if student.spec.calibrated:
        calibration_error = Estimate(np.zeros(()), np.zeros(()))
    return _Scores(
        status=known.status,
        generalisation_error=float(error_on_labels(teacher.channel, order.tau, teacher.n_classes)),
        ridge=known.ridge,
        temperature=temperature,
        own_probabilities=own is not None,
        test_loss=test_loss,
        brier=brier,
        calibration_error=calibration_error,
        bins=bins,
    )


def _scores_of_unequal_classes(
    population: Population, student: Student, alpha: float, edges: Array
) -> _Scores:
    """Return the scores at random fields of the solution, which has matrices for each class."""
    point = population_point(population, as_erm(student.spec), alpha)
    own = point.probabilities
    nodes = Fresh(*leading_nodes(point.law))
    if own is not None:
        temperature = _best_temperature(nodes, own)
        probabilities = own
        # The solution knows these better than the nodes do.
        loss = Estimate(np.array(point.test_loss), np.array(point.test_loss_uncertainty))
        brier = Estimate(np.array(point.brier), np.array(point.brier_uncertainty))
        of_the_solution = point.uncertainty + point.brier_uncertainty
    else:
        temperature = _best_temperature(nodes, _softmax)
        probabilities = partial(_cooled_softmax, temperature=temperature)
        losses, briers = mean_scores(nodes, probabilities)
        loss = estimate_from_replicates(losses)
        brier = estimate_from_replicates(briers)
        of_the_solution = point.uncertainty
    bins, calibration_error = binned(nodes, probabilities, edges)
    return _Scores(
        status=point.status,
        generalisation_error=point.generalisation_error,
        ridge=point.ridge,
        temperature=temperature,
        own_probabilities=own is not None,
        test_loss=loss,
        brier=brier,
        calibration_error=Estimate(
            calibration_error.value, calibration_error.uncertainty + of_the_solution
        ),
        bins=bins,
    )


def _softmax(omega: Array) -> Array:
    """Return the softmax of fields (n, k) over the classes."""
    return np.asarray(softmax(omega, axis=1))


def _cooled_softmax(omega: Array, temperature: float) -> Array:
    """Return the softmax of ω/T for fields ω (n, k)."""
    return _softmax(omega / temperature)


def _best_temperature(nodes: Fresh, probabilities: Probabilities) -> float:
    """Return the T of least test loss of p(ω/T)."""

    def test_loss(log_temperature: float) -> float:
        """Return the test loss of fields that are divided by a temperature."""
        cooled = nodes._replace(omega=nodes.omega * math.exp(-log_temperature))
        losses, _ = mean_scores(cooled, probabilities)
        return float(losses.mean())

    minimum = minimize_scalar(
        test_loss,
        bounds=(-LARGEST_LOG_TEMPERATURE, LARGEST_LOG_TEMPERATURE),
        options={"xatol": TEMPERATURE_TOLERANCE},
    )
    return math.exp(float(minimum.x))
