"""Fields of fresh samples, and how good probabilities are on them.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ². With p the student's own probabilities

    test loss −E Σ t_l ln p_l,    Brier E Σ t_l ‖p − e_l‖²,
    calibration error Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin. Classes are alike, so that
ω₁ ≥ ω₂ ≥ … is enough. Nodes: panels along one gap (k = 2) or two (k = 3), quasi-random replicates
above.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, uniform_replicates
from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.specs import Probabilities
from polyceptron.sides.fields.integrand import field_scales, ordered_density

N_BINS = 15  # of confidence
Bins = dict[str, Array]  # share, confidence, accuracy and its uncertainty, each (b,)
_SEED = 20
_EVALUATIONS = 3e8 / 16  # of a channel's integrand: fewer points where classes are many


class Fresh(NamedTuple):
    """Sorted fields (n, k), weights (R, n/R) that sum to 1 in each replicate, and t (n, k)."""

    omega: Array
    weight: Array
    truth: Array

    def mean(self, values: Array) -> Array:
        """E of values (n,), one for each replicate."""
        return np.asarray((self.weight * values.reshape(self.weight.shape)).sum(1))


def fresh_fields(channel: Channel, n_classes: int, law: ScalarOrder, level: int = 0) -> Fresh:
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


def _sampled_fields(channel: Channel, n_classes: int, law: ScalarOrder, level: int = 0) -> Fresh:
    """Quasi-random fields, any k: also for averages that jump, such as those over bins."""
    cost = 1.0 if n_classes <= 3 else 60.0 * n_classes
    log2 = int(np.clip(math.log2(_EVALUATIONS / cost), 5, 10 + level))
    points = uniform_replicates(n_classes, log2, _SEED)
    omega = -np.sort(-math.sqrt(law.q) * ndtri(points.reshape(-1, n_classes)), axis=1)
    weight = np.full(points.shape[:2], 2.0**-log2)
    return Fresh(omega, weight, chances_given_fields(channel, omega, law))


def chances_given_fields(channel: Channel, omega: Array, law: ScalarOrder) -> Array:
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
    channel: Channel, k: int, law: ScalarOrder, p: Probabilities, edges: Array
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
        spread = estimate_from_replicates(hit - accuracy[:, None] * each).uncertainty / share
    gap = hit - said
    error = estimate_from_replicates((np.sign(gap.mean(1, keepdims=True)) * gap).sum(0))
    bins = {"share": share, "confidence": mean, "accuracy": accuracy}
    return {**bins, "accuracy_uncertainty": np.asarray(spread)}, error


def _bins_of_two(
    channel: Channel, law: ScalarOrder, p: Probabilities, edges: Array
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
