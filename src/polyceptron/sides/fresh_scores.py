"""Fields of fresh samples, and how good probabilities are on them.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ². With p the student's own probabilities

    test loss −E Σ t_l ln p_l,    Brier E Σ t_l ‖p − e_l‖²,
    calibration error Σ_b w_b |a_b − c_b| over bins b of the confidence max p

with w, c and a the share, mean confidence and accuracy of a bin. Classes are alike, so that
ω₁ ≥ ω₂ ≥ … is enough. Nodes: panels along one gap (k = 2) or two (k = 3), quasi-random replicates
above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import (
    N_REPLICATES,
    Estimate,
    estimate_from_replicates,
    uniform_replicates,
)
from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.specs import Probabilities
from polyceptron.sides.fields.integrand import field_scales, ordered_density

N_BINS = 15  # of confidence
Bins = dict[str, Array]
"""Share, confidence, accuracy and its uncertainty of each bin, (b,)."""

POINTS_SEED = 20
# log2 of random points in a replicate, at level 0: at most, and at least.
LOG2_MOST_POINTS = 10
LOG2_LEAST_POINTS = 5
# Evaluations of a channel's integrand at most: fewer points where classes are many.
MAX_EVALUATIONS = 3e8
# Evaluations of a point, for each class, where the channel's chances are integrals.
EVALUATIONS_OF_A_CHANCE = 60.0
NEGLIGIBLE_WEIGHT = 1e-18  # of a node, relative to the largest
SMALLEST_CHANCE = 1e-300
# Bins of two classes: panels and nodes of each. What is left is below BIN_ACCURACY.
PANELS_OF_A_BIN = 8
NODES_OF_A_PANEL = 12
BIN_ACCURACY = 1e-9


class Fresh(NamedTuple):
    """Fields of fresh samples.

    Attributes
    ----------
    omega : array, shape (n, k)
        Sorted from the largest, or the largest first.
    weight : array, shape (R, n/R)
        Sums to 1 in each of R replicates.
    truth : array, shape (n, k)
        t, in the order of the fields.
    """

    omega: Array
    weight: Array
    truth: Array

    def mean(self, values: Array) -> Array:
        """Return E of values (n,) in each replicate, shape (R,)."""
        return np.asarray((self.weight * values.reshape(self.weight.shape)).sum(1))


def fresh_fields(channel: Channel, n_classes: int, law: ScalarOrder, level: int = 0) -> Fresh:
    """Return nodes for averages that are smooth in ω; a higher level is a finer rule."""
    if n_classes > 3:
        return sampled_fields(channel, n_classes, law, level)
    order = 10 + 6 * level
    scales = field_scales(channel, law, n_classes)
    lengths = [x * GAUSS_BREAKS for x in (scales.sigma, scales.width, math.sqrt(2))]
    gap, weight = panel_rule(blend_breaks(lengths, 0.0, scales.high), order)
    gaps = gap[None]
    if n_classes == 3:
        first, second = np.meshgrid(gap, gap, indexing="ij")
        gaps = np.stack([first.ravel(), (first + second).ravel()])
        weight = np.outer(weight, weight).ravel()
    weight = weight * ordered_density(gaps, law.q)
    seen = weight > NEGLIGIBLE_WEIGHT * weight.max()
    gaps = gaps[:, seen]
    omega = np.concatenate([np.zeros((1, gaps.shape[1])), -gaps]).T
    return Fresh(omega, weight[seen][None], chances_given_fields(channel, omega, law))


def sampled_fields(channel: Channel, n_classes: int, law: ScalarOrder, level: int = 0) -> Fresh:
    """Return quasi-random fields, any k: also for averages that jump, such as those over bins."""
    cost = 1.0
    if n_classes > 3:
        cost = EVALUATIONS_OF_A_CHANCE * n_classes
    affordable = math.log2(MAX_EVALUATIONS / N_REPLICATES / cost)
    log2 = int(np.clip(affordable, LOG2_LEAST_POINTS, LOG2_MOST_POINTS + level))
    points = uniform_replicates(n_classes, log2, POINTS_SEED)
    omega = -np.sort(-math.sqrt(law.q) * ndtri(points.reshape(-1, n_classes)), axis=1)
    weight = np.full(points.shape[:2], 2.0**-log2)
    return Fresh(omega, weight, chances_given_fields(channel, omega, law))


def chances_given_fields(channel: Channel, omega: Array, law: ScalarOrder) -> Array:
    """Return t (n, k) at the student's fields (n, k), sorted from the largest."""
    mean = law.slope * omega.T
    k = omega.shape[1]
    if k > 3:
        return np.maximum(channel.chances(mean.T, law.residual), SMALLEST_CHANCE)
    chances = np.empty(omega.shape)
    for label in range(k):
        gaps = mean[label] - np.delete(mean, label, axis=0)
        chances[:, label] = channel.label_law(gaps, law.residual).z
    chances = np.clip(chances, SMALLEST_CHANCE, None)
    return np.asarray(chances / chances.sum(1, keepdims=True))


def reliability(
    channel: Channel, k: int, law: ScalarOrder, p: Probabilities, edges: Array
) -> tuple[Bins, Estimate]:
    """Return the bins of confidence between `edges` (b + 1,), and the calibration error."""
    if k == 2:
        return _bins_of_two(channel, law, p, edges)
    return binned(sampled_fields(channel, k, law, 2), p, edges)


def binned(nodes: Fresh, p: Probabilities, edges: Array) -> tuple[Bins, Estimate]:
    """Return bins and calibration error at random fields, with uncertainties by replicates."""
    confidence = p(nodes.omega)[:, 0]
    n_bins = len(edges) - 1
    bin_of = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, n_bins - 1)
    mass = _sums_in_bins(nodes, bin_of, n_bins, np.ones_like(confidence))
    hits = _sums_in_bins(nodes, bin_of, n_bins, nodes.truth[:, 0])
    claims = _sums_in_bins(nodes, bin_of, n_bins, confidence)
    share = mass.mean(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = hits.mean(1) / share
        mean_confidence = claims.mean(1) / share
        spread = estimate_from_replicates(hits - accuracy[:, None] * mass).uncertainty / share
    gap = hits - claims
    signs = np.sign(gap.mean(1, keepdims=True))
    bins = {
        "share": share,
        "confidence": mean_confidence,
        "accuracy": accuracy,
        "accuracy_uncertainty": np.asarray(spread),
    }
    return bins, estimate_from_replicates((signs * gap).sum(0))


def _sums_in_bins(nodes: Fresh, bin_of: NDArray[np.intp], n_bins: int, values: Array) -> Array:
    """Return Σ w · values (n,) over each bin and replicate, shape (b, R)."""
    replicates, n = nodes.weight.shape
    place = bin_of + np.repeat(np.arange(replicates) * n_bins, n)
    sums = np.bincount(place, nodes.weight.ravel() * values, replicates * n_bins)
    return np.asarray(sums.reshape(replicates, n_bins).T, dtype=float)


def _bins_of_two(
    channel: Channel, law: ScalarOrder, p: Probabilities, edges: Array
) -> tuple[Bins, Estimate]:
    """Return the bins of two classes: the confidence rises with the gap, so they are intervals."""

    def confidence(gap: Array) -> Array:
        """Return the larger of two probabilities at a gap (n,)."""
        return p(np.stack([np.zeros_like(gap), -gap], 1))[:, 0]

    ends = _gaps_at(confidence, edges, GAUSS_BREAKS[-1] * math.sqrt(2 * law.q))
    panels = np.linspace(ends[:-1], ends[1:], PANELS_OF_A_BIN + 1, axis=1)
    gap, weight = panel_rule(panels, NODES_OF_A_PANEL)  # (b, nodes)
    flat = gap.ravel()
    weight = weight * ordered_density(flat[None], law.q).reshape(gap.shape)
    truth = channel.label_law(law.slope * flat[None], law.residual).z
    share = weight.sum(1)
    hits = (weight * truth.reshape(gap.shape)).sum(1)
    claims = (weight * confidence(flat).reshape(gap.shape)).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        bins = {"share": share, "confidence": claims / share, "accuracy": hits / share}
    bins["accuracy_uncertainty"] = np.full_like(share, BIN_ACCURACY)
    return bins, Estimate(np.abs(hits - claims).sum(), np.array(BIN_ACCURACY))


def _gaps_at(confidence: Callable[[Array], Array], edges: Array, top: float) -> Array:
    """Return the gaps (b + 1,) at which the confidence passes `edges`, from 0 to `top`."""

    def excess(gap: float, edge: float) -> float:
        """Return by how much the confidence at a gap is above an edge."""
        return float(confidence(np.array([gap]))[0]) - edge

    inner = [top for _ in edges[1:-1]]
    for i, edge in enumerate(edges[1:-1]):
        if excess(top, edge) > 0:
            inner[i] = float(brentq(excess, 0.0, top, args=(edge,)))
    return np.array([0.0, *inner, top])


def mean_scores(nodes: Fresh, probabilities: Probabilities) -> tuple[Array, Array]:
    """Return test loss and Brier score in each replicate, (R,) each."""
    p = probabilities(nodes.omega)
    loss = -(nodes.truth * np.log(np.maximum(p, SMALLEST_CHANCE))).sum(1)
    brier = (p * p).sum(1) - 2 * (nodes.truth * p).sum(1) + 1
    total = nodes.weight.sum(1)
    return nodes.mean(loss) / total, nodes.mean(brier) / total
