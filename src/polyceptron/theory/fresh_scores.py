"""What a student says of a fresh input, beside what is true of it.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ²; the student says p_l. Classes are alike, so ω₁ ≥ ω₂ ≥ … is enough.
Nodes: panels along one gap (k = 2) or two (k = 3), quasi-random replicates above.

Accuracy against confidence: the bins of a reliability diagram.

What a student's probabilities are worth on fresh inputs, at a law that is known already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri, softmax

from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.estimators import as_estimator
from polyceptron.model.law import Law
from polyceptron.model.teacher import AnyTeacher
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import (
    N_REPLICATES,
    Estimate,
    from_replicates,
    uniform_replicates,
)
from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.theory.erm.fixed_point import as_erm, erm_fixed_point
from polyceptron.theory.fields.integrand import field_scales, ordered_density

_SEED = 20
_EVALUATIONS = 3e8  # of a channel's integrand: fewer points where classes are many

Says = Callable[[Array], Array]
"""Fields (n, k) → probabilities (n, k)."""


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
        return sampled_fields(channel, n_classes, law, level)
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
    return Fresh(omega, weight[None], label_chances(channel, omega, law))


def sampled_fields(channel: Channel, n_classes: int, law: Law, level: int = 0) -> Fresh:
    """Quasi-random fields, any k: also for averages that jump, such as those over bins."""
    cost = 1.0 if n_classes <= 3 else 14.0 * n_classes**2
    log2 = int(np.clip(math.log2(_EVALUATIONS / (N_REPLICATES * cost)), 5, 10 + level))
    points = uniform_replicates(n_classes, log2, _SEED).reshape(-1, n_classes)
    omega = -np.sort(-math.sqrt(law.q) * ndtri(points), axis=1)
    n = len(omega) // N_REPLICATES
    weight = np.full((N_REPLICATES, n), 1 / n)
    return Fresh(omega, weight, label_chances(channel, omega, law))


def label_chances(channel: Channel, omega: Array, law: Law) -> Array:
    """t (n, k) at the student's fields (n, k), sorted from the largest."""
    k = omega.shape[1]
    mean = law.slope * omega.T
    out = np.empty(omega.shape)
    for label in range(k):
        gaps = mean[label] - np.delete(mean, label, axis=0)
        out[:, label] = channel.label_law(gaps, law.residual).z
    out = np.clip(out, 1e-300, None)
    return np.asarray(out / out.sum(1, keepdims=True))


Bins = tuple[Array, Array, Array, Array, Estimate]
"""Share, mean confidence, accuracy and its uncertainty in each bin, and the calibration error."""


def reliability(channel: Channel, k: int, law: Law, says: Says, edges: Array) -> Bins:
    """The bins of confidence between `edges` (b + 1,)."""
    return (bins_of_two if k == 2 else bins_sampled)(channel, k, law, says, edges)


def bins_of_two(channel: Channel, k: int, law: Law, says: Says, edges: Array) -> Bins:
    """Two classes: the confidence rises with the gap, so that bins are intervals of it."""

    def confidence(gap: Any) -> Array:
        gap = np.atleast_1d(gap)
        return says(np.stack([np.zeros_like(gap), -gap], 1))[:, 0]

    top = GAUSS_BREAKS[-1] * math.sqrt(2 * law.q)
    highest = float(confidence(top)[0])
    inner = [
        float(brentq(lambda g, e=e: float(confidence(g)[0]) - e, 0.0, top)) if e < highest else top
        for e in edges[1:-1]
    ]
    ends = np.array([0.0, *inner, top])
    sums = np.zeros((3, len(edges) - 1))
    for i, (low, high) in enumerate(pairwise(ends)):
        if high > low:
            gap, weight = panel_rule(np.linspace(low, high, 9), 12)
            weight = weight * ordered_density(gap[None], law.q)
            t = channel.label_law(law.slope * gap[None], law.residual).z
            sums[:, i] = weight.sum(), weight @ confidence(gap), weight @ t
    share = sums[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean, accuracy = sums[1] / share, sums[2] / share
    error = float(np.abs(sums[2] - sums[1]).sum())
    return (
        share,
        mean,
        accuracy,
        np.full_like(share, 1e-9),
        Estimate(np.array(error), np.array(1e-9)),
    )


def bins_sampled(channel: Channel, k: int, law: Law, says: Says, edges: Array) -> Bins:
    """From quasi-random fields, with the uncertainty that replicates show."""
    nodes = sampled_fields(channel, k, law, 2)
    confidence = says(nodes.omega)[:, 0]
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, len(edges) - 2)
    each = np.stack([nodes.mean(np.where(place == b, 1.0, 0.0)) for b in range(len(edges) - 1)])
    hit, said = (
        np.stack([nodes.mean(np.where(place == b, v, 0.0)) for b in range(len(edges) - 1)])
        for v in (nodes.truth[:, 0], confidence)
    )
    share = each.mean(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy, mean = hit.mean(1) / share, said.mean(1) / share
        spread = from_replicates(hit - accuracy[:, None] * each).uncertainty / share
    gap = hit - said
    side = np.sign(gap.mean(1, keepdims=True))
    error = from_replicates((side * gap).sum(0))
    return share, mean, accuracy, np.asarray(spread), error


TARGETS = ("error", "test-loss", "calibration")
N_BINS = 15  # of confidence, even from 1/k to 1


def says_of(teacher: AnyTeacher, estimator: Any, law: Law) -> Says:
    """The student's own probabilities of fields (n, k), or a sentence."""
    student = as_estimator(estimator)
    says = student.probabilities(teacher, law)
    if says is None:
        raise InvalidInput(
            f"the loss {student.name!r} stands for no probabilities, and through a "
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
    student, k = as_estimator(estimator), teacher.n_classes
    says = student.probabilities(teacher, law)
    if says is None:
        return {}
    loss, brier = mean_scores(fresh_fields(teacher.channel, k, law), says)
    error = 0.0
    if not student.calibrated:
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
