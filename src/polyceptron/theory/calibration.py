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
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri, softmax

from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.checks import check_alpha, check_size
from polyceptron.model.estimators import ERM, Estimator, Probabilities, as_erm, as_estimator
from polyceptron.model.law import Law
from polyceptron.model.populations import AnyTeacher, Population, check_population
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, from_replicates, uniform_replicates
from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.rows import Status
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.erm.fixed_point import default_tolerance, student_law
from polyceptron.theory.fields.integrand import field_scales, ordered_density
from polyceptron.theory.generalisation import error_on_labels, error_slope
from polyceptron.theory.populations.population_point import population_point
from polyceptron.theory.populations.scores import leading_nodes

N_BINS = 15  # of confidence
TARGETS = ("error", "test-loss", "calibration")
Bins = dict[str, Array]  # share, confidence, accuracy and its uncertainty, each (b,)
_SCORES = ("test_loss", "brier", "calibration_error")
_FACTS = ("status", "generalisation_error", "ridge", "temperature", "own_probabilities")
_Found = tuple[Bins, tuple[Estimate, ...], tuple[Any, ...]]  # bins, scores and facts
_SEED = 20
_SEARCH_SHARE = 0.1  # of the fixed point's tolerance: that of the search for a ridge
_EVALUATIONS = 3e8 / 16  # of a channel's integrand: fewer points where classes are many


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
    >>> from polyceptron.model import ERM, Teacher
    >>> found = calibration(Teacher(2, noise="softmax:2"), ERM("cross-entropy", 1e-3), 5.0)
    >>> found.temperature > 1  # hardly any ridge: overconfident
    True
    """
    check_population(teacher)
    alpha, n_bins = check_alpha(alpha), check_size(n_bins, "n_bins")
    if alpha == 0:
        raise InvalidInput("there is nothing to calibrate at alpha 0, where there are no data")
    student, edges = as_estimator(estimator), np.linspace(1 / teacher.n_classes, 1, n_bins + 1)
    alike = getattr(student, "alike", lambda population: population.symmetric)(teacher)
    bins, scores, facts = (_of_teacher if alike else _of_population)(teacher, student, alpha, edges)
    found = {**bins, **dict(zip(_FACTS, facts, strict=True))}
    for name, (value, spread) in zip(_SCORES, scores, strict=True):
        found |= {name: float(value), f"{name}_uncertainty": float(spread)}
    found |= {"n_classes": teacher.n_classes, "noise": str(teacher.columns.get("noise", "none"))}
    return Calibration(estimator=student.name, alpha=alpha, edges=edges, **found)


def _of_teacher(teacher: AnyTeacher, student: Estimator, alpha: float, edges: Array) -> _Found:
    """Classes that are alike: by the scalar law of the fields."""
    channel, k = teacher.channel, teacher.n_classes
    law, spread_of_error, status, ridge, scaled = student.law(teacher, alpha)
    own = student.probabilities(teacher, law) if scaled else None
    levels = [fresh_fields(channel, k, law, level) for level in ((0, 1) if k <= 3 else (0,))]
    best = 1.0 if own else _best_temperature(levels[0], partial(softmax, axis=1))
    probabilities = own or (lambda omega: softmax(omega / best, axis=1))
    scores = [mean_scores(nodes, probabilities) for nodes in levels]
    found = [from_replicates(part) for part in scores[-1]]
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
    if student.calibrated:
        error = Estimate(np.zeros(()), np.zeros(()))
    else:
        best = _best_temperature(levels[-1], probabilities) if own else best
        error = Estimate(error.value, error.uncertainty + sum(spread))
    wrong = float(error_on_labels(channel, law.tau, k))
    return bins, (loss, brier, error), (status, wrong, ridge, best, own is not None)


def _of_population(
    population: Population, student: Estimator, alpha: float, edges: Array
) -> _Found:
    """Classes that are not alike: at random fields of the fixed point's law."""
    point = population_point(population, as_erm(student), alpha)
    own, nodes = point.probabilities, Fresh(*leading_nodes(point.law))
    best = _best_temperature(nodes, own or partial(softmax, axis=1))
    probabilities = own or (lambda omega: softmax(omega / best, axis=1))
    bins, error = binned(nodes, probabilities, edges)
    loss, brier = (from_replicates(each) for each in mean_scores(nodes, probabilities))
    law = point.uncertainty + point.brier_uncertainty if own else point.uncertainty
    if own:  # which the point knows better
        loss = Estimate(*np.array([point.test_loss, point.test_loss_uncertainty]))
        brier = Estimate(*np.array([point.brier, point.brier_uncertainty]))
    error = Estimate(error.value, error.uncertainty + law)
    facts = point.status, point.generalisation_error, point.ridge, best, own is not None
    return bins, (loss, brier, error), facts


class Fresh(NamedTuple):
    """Sorted fields (n, k), weights (R, n/R) that sum to 1 in each replicate, and t (n, k)."""

    omega: Array
    weight: Array
    truth: Array

    def mean(self, values: Array) -> Array:
        """E of values (n,), one for each replicate."""
        return np.asarray((self.weight * values.reshape(self.weight.shape)).sum(1))


def fresh_fields(channel: Channel, n_classes: int, law: Law, level: int = 0) -> Fresh:
    """Nodes for averages that are smooth in ω; a higher level is a finer rule."""
    if n_classes > 3:
        return _sampled_fields(channel, n_classes, law, level)
    order = 10 + 6 * level
    scales = field_scales(channel, law, n_classes)
    lengths = [x * GAUSS_BREAKS for x in (scales.sigma, scales.width, math.sqrt(2))]
    gap, weight = panel_rule(blend_breaks(lengths, 0.0, scales.high), order)
    if n_classes == 2:
        gaps = gap[None]
    else:
        first, second = np.meshgrid(gap, gap, indexing="ij")
        gaps = np.stack([first.ravel(), (first + second).ravel()])
        weight = np.outer(weight, weight).ravel()
    weight = weight * ordered_density(gaps, law.q)
    seen = weight > 1e-18 * weight.max()
    gaps, weight = gaps[:, seen], weight[seen]
    omega = np.concatenate([np.zeros((1, gaps.shape[1])), -gaps]).T
    return Fresh(omega, weight[None], chances_given_fields(channel, omega, law))


def _sampled_fields(channel: Channel, n_classes: int, law: Law, level: int = 0) -> Fresh:
    """Quasi-random fields, any k: also for averages that jump, such as those over bins."""
    cost = 1.0 if n_classes <= 3 else 60.0 * n_classes
    log2 = int(np.clip(math.log2(_EVALUATIONS / cost), 5, 10 + level))
    points = uniform_replicates(n_classes, log2, _SEED)
    omega = -np.sort(-math.sqrt(law.q) * ndtri(points.reshape(-1, n_classes)), axis=1)
    weight = np.full(points.shape[:2], 2.0**-log2)
    return Fresh(omega, weight, chances_given_fields(channel, omega, law))


def chances_given_fields(channel: Channel, omega: Array, law: Law) -> Array:
    """t (n, k) at the student's fields (n, k), sorted from the largest."""
    mean, k = law.slope * omega.T, omega.shape[1]
    if k > 3:
        return np.maximum(channel.chances(mean.T, law.residual), 1e-300)
    out = np.empty(omega.shape)
    for label in range(k):
        gaps = mean[label] - np.delete(mean, label, axis=0)
        out[:, label] = channel.label_law(gaps, law.residual).z
    out = np.clip(out, 1e-300, None)
    return np.asarray(out / out.sum(1, keepdims=True))


def reliability(
    channel: Channel, k: int, law: Law, p: Probabilities, edges: Array
) -> tuple[Bins, Estimate]:
    """The bins of confidence between `edges` (b + 1,), and the calibration error."""
    if k == 2:
        return _bins_of_two(channel, law, p, edges)
    return binned(_sampled_fields(channel, k, law, 2), p, edges)


def binned(nodes: Fresh, p: Probabilities, edges: Array) -> tuple[Bins, Estimate]:
    """Bins and calibration error at random fields, with the uncertainty that replicates show."""
    confidence = p(nodes.omega)[:, 0]
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, len(edges) - 2)
    shape = len(nodes.weight), len(edges) - 1
    place += np.repeat(np.arange(shape[0]) * shape[1], nodes.weight.shape[1])
    each, hit, said = (
        np.bincount(place, nodes.weight.ravel() * v, math.prod(shape)).reshape(shape).T
        for v in (1.0, nodes.truth[:, 0], confidence)
    )
    share = each.mean(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, mean = hit.mean(1) / share, said.mean(1) / share
        spread = from_replicates(hit - accuracy[:, None] * each).uncertainty / share
    gap = hit - said
    error = from_replicates((np.sign(gap.mean(1, keepdims=True)) * gap).sum(0))
    bins = {"share": share, "confidence": mean, "accuracy": accuracy}
    return {**bins, "accuracy_uncertainty": np.asarray(spread)}, error


def _bins_of_two(
    channel: Channel, law: Law, p: Probabilities, edges: Array
) -> tuple[Bins, Estimate]:
    """Two classes: the confidence rises with the gap, so that bins are intervals of it."""

    def confidence(gap: Any) -> Array:
        gap = np.atleast_1d(gap)
        return p(np.stack([np.zeros_like(gap), -gap], 1))[:, 0]

    top = GAUSS_BREAKS[-1] * math.sqrt(2 * law.q)
    highest = float(confidence(top)[0])
    inner = [
        float(brentq(lambda g, e=e: float(confidence(g)[0]) - e, 0.0, top)) if e < highest else top
        for e in edges[1:-1]
    ]
    ends = np.array([0.0, *inner, top])
    gap, weight = panel_rule(np.linspace(ends[:-1], ends[1:], 9, axis=1), 12)  # (b, nodes)
    flat = gap.ravel()
    weight = weight * ordered_density(flat[None], law.q).reshape(gap.shape)
    t = channel.label_law(law.slope * flat[None], law.residual).z
    share, hit = weight.sum(1), (weight * t.reshape(gap.shape)).sum(1)
    said = (weight * confidence(flat).reshape(gap.shape)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        bins = {"share": share, "confidence": said / share, "accuracy": hit / share}
    known = Estimate(np.abs(hit - said).sum(), np.array(1e-9))
    return {**bins, "accuracy_uncertainty": np.full_like(share, 1e-9)}, known


def mean_scores(nodes: Fresh, probabilities: Probabilities) -> tuple[Array, Array]:
    """Test loss and Brier score, one of each for a replicate."""
    p, t = probabilities(nodes.omega), nodes.truth
    loss = -(t * np.log(np.maximum(p, 1e-300))).sum(1)
    brier = (p * p).sum(1) - 2 * (t * p).sum(1) + 1
    total = nodes.weight.sum(1)
    return nodes.mean(loss) / total, nodes.mean(brier) / total


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


def fresh_scores(teacher: AnyTeacher, estimator: Any, law: Law) -> dict[str, float]:
    """Test loss, Brier score, calibration error at a known law; none without probabilities."""
    student, k = as_estimator(estimator), teacher.n_classes
    if (probabilities := student.probabilities(teacher, law)) is None:
        return {}
    nodes, error = fresh_fields(teacher.channel, k, law), 0.0
    if student.calibrated:  # its probabilities are those of the labels
        probabilities = lambda _: nodes.truth  # noqa: E731
    else:
        edges = np.linspace(1 / k, 1, N_BINS + 1)
        error = float(reliability(teacher.channel, k, law, probabilities, edges)[1].value)
    loss, brier = (float(each.mean()) for each in mean_scores(nodes, probabilities))
    return {"test_loss": loss, "brier": brier, "calibration_error": error}


def _unbinned_error(channel: Channel, k: int, law: Law, p: Probabilities) -> float:
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
    if (probabilities := spec.probabilities(teacher, Law(1.0, 1.0, 1.0))) is None:
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
            found = student_law(self.teacher, self.estimator.with_ridge(ridge), self.alpha)
        except (InvalidInput, ComputationFailed):  # no such limit of the loss, no fixed point
            return Trial(math.inf)
        if not found.scaled:  # weights without a ridge diverge, and their test loss with them
            return Trial(math.inf)
        channel = self.teacher.channel
        n_classes = self.teacher.n_classes
        if self.target == "calibration":
            return Trial(_unbinned_error(channel, n_classes, found.law, self.probabilities))
        nodes = fresh_fields(channel, n_classes, found.law)
        return Trial(float(mean_scores(nodes, self.probabilities)[0].mean()))
