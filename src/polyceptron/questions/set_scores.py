"""Scores of classes, and the sets of all classes whose score is at most a threshold.

    "probability"   s_l = 1 − p_l, in log-odds: −ln(p_l/(1 − p_l))
    "adaptive"      s_l = Σ_h p_h 1(p_h > p_l) + U p_l

As the threshold rises, classes of all nodes are taken into the sets in the order of their scores.
Two cumulative sums in this order are the coverage and the mean size at every threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.specs import Probabilities
from polyceptron.questions.set_fields import (
    LOG2_OF_FEWEST_NODES,
    Draw,
    FreshFields,
    SolvedStudent,
)

SMALLEST_PROBABILITY = 1e-300  # so that log-odds stay finite
MORE_NODES = 2  # the logarithm of by how many times more, until the tolerance is met
ENTRIES_OF_A_REPLICATE = 2**18  # classes times points: bounds time and memory where k is large
N_POINTS_OF_A_CURVE = 4000  # of the mean size against the coverage, to interpolate between


class Asked(NamedTuple):
    """What is asked of every student: the score, the coverage, the precision of the mean size."""

    score: str
    coverage: float
    tol: float


class SizeCurve(NamedTuple):
    """The mean size as a function of the coverage, through rising points of both, (points,)."""

    coverage: Array
    size: Array

    def __call__(self, coverage: Array) -> Array:
        """Return the mean size at each coverage, by linear interpolation."""
        return np.interp(coverage, self.coverage, self.size)


class Sets(NamedTuple):
    """Sets at one threshold; shapes () and (k,) of all nodes, (R,) and (R, k) of replicates."""

    threshold: Array
    size: Array
    empty: Array
    single: Array
    class_coverage: Array


def _probability_scores(p: Array, fields: Array, uniform: Array) -> Array:
    """Return −ln(p_l/(1 − p_l)) (n, k), which orders classes as 1 − p_l does.

    It tells probabilities apart that are 1 to rounding: 1 − p_l is the sum of the others. Where the
    others are too small to represent, the margin of the fields (n, k) orders the samples.
    """
    p = np.maximum(p, SMALLEST_PROBABILITY)
    before = np.cumsum(p, axis=1) - p
    behind = np.cumsum(p[:, ::-1], axis=1)[:, ::-1] - p
    others = np.maximum(before, 0.0) + np.maximum(behind, 0.0)
    smallest = p.shape[1] * SMALLEST_PROBABILITY
    scores = np.log(np.maximum(others, smallest)) - np.log(p)
    sample, leader = np.nonzero(others <= smallest)
    if sample.size:
        competitors = fields[sample].copy()
        competitors[np.arange(sample.size), leader] = -math.inf
        scores[sample, leader] -= fields[sample, leader] - competitors.max(axis=1)
    return scores


def _adaptive_scores(p: Array, fields: Array, uniform: Array) -> Array:
    """Return Σ_h p_h 1(p_h > p_l) + U p_l (n, k)."""
    order = np.argsort(-p, axis=1, kind="stable")
    sorted_p = np.take_along_axis(p, order, axis=1)
    sorted_scores = np.cumsum(sorted_p, axis=1) - (1 - uniform[:, None]) * sorted_p
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, sorted_scores, axis=1)
    return scores


SCORE_FUNCTIONS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "probability": _probability_scores,
    "adaptive": _adaptive_scores,
}


def threshold_shown(score: str, threshold: float) -> float:
    """Return the threshold as users know it: a probability in place of its log-odds."""
    if score == "probability":
        return float(1 / (1 + np.exp(threshold)))
    return threshold


def class_scores(asked: Asked, fresh: FreshFields, probabilities: Probabilities | None) -> Array:
    """Return the score of every class at every node, (R, n, k)."""
    shape = fresh.fields.shape
    fields = fresh.fields.reshape(-1, shape[-1])
    p = fresh.truth.reshape(-1, shape[-1])
    if probabilities is not None:
        p = probabilities(fields)
    scores = SCORE_FUNCTIONS[asked.score](p, fields, fresh.uniform.ravel())
    return scores.reshape(shape)


def size_curve(scores: Array, fresh: FreshFields) -> tuple[SizeCurve, Array]:
    """Return mean size against coverage as the threshold rises, and the thresholds, (points,)."""
    order = np.argsort(scores, axis=None, kind="stable")
    n_replicates = len(scores)
    node_weight = np.broadcast_to(fresh.weight[..., None] / n_replicates, scores.shape)
    coverage = np.cumsum((node_weight * fresh.truth).ravel()[order])
    size = np.cumsum(node_weight.ravel()[order])
    return SizeCurve(coverage / coverage[-1], size), scores.ravel()[order]


def _sets_at_coverage(scores: Array, fresh: FreshFields, coverage: float) -> Sets:
    """Return the sets at the lowest threshold that reaches the coverage."""
    curve, thresholds = size_curve(scores, fresh)
    place = min(int(np.searchsorted(curve.coverage, coverage)), thresholds.size - 1)
    inside = scores <= thresholds[place]
    sizes = inside.sum(axis=-1)
    weight = fresh.weight / len(scores)
    labels = weight[..., None] * fresh.truth
    covered = (labels * inside).sum(axis=(0, 1))
    return Sets(
        threshold=thresholds[place],
        size=(weight * sizes).sum(),
        empty=(weight * (sizes == 0)).sum(),
        single=(weight * (sizes == 1)).sum(),
        class_coverage=covered / labels.sum(axis=(0, 1)),
    )


def _replicated_sets(scores: Array, fresh: FreshFields, coverage: float) -> Sets:
    """Return the sets of each replicate, solved for alone; the first axis is the replicates."""
    solved = []
    for replicate in range(len(scores)):
        part = slice(replicate, replicate + 1)
        own = FreshFields(
            fresh.fields[part],
            fresh.weight[part],
            fresh.truth[part],
            fresh.uniform[part],
            fresh.in_class_order,
        )
        solved.append(_sets_at_coverage(scores[part], own, coverage))
    return Sets(*(np.array(values) for values in zip(*solved, strict=True)))


class Averaged(NamedTuple):
    """Sets at nodes that are many enough, with the uncertainty of each number."""

    fresh: FreshFields
    scores: Array
    sets: Sets
    bars: Sets


def averaged(asked: Asked, solved: SolvedStudent) -> Averaged:
    """Add nodes until the mean size is known to the tolerance, or they are too many to keep."""
    log2_points = LOG2_OF_FEWEST_NODES
    while True:
        fresh = solved.draw(log2_points)
        scores = class_scores(asked, fresh, solved.probabilities)
        sets = _sets_at_coverage(scores, fresh, asked.coverage)
        bars = _bars_of_replicates(scores, fresh, sets, asked.coverage)
        is_precise = float(bars.size) <= asked.tol * float(sets.size)
        log2_points += MORE_NODES
        if is_precise or 2**log2_points * scores.shape[-1] > ENTRIES_OF_A_REPLICATE:
            break
    widths = _changes_within_uncertainty(asked, solved)
    return Averaged(fresh, scores, sets, _summed(bars, widths))


def _bars_of_replicates(scores: Array, fresh: FreshFields, sets: Sets, coverage: float) -> Sets:
    """Return the uncertainty of each number: that of replicates, their bias, and that of nodes."""
    replicated = _replicated_sets(scores, fresh, coverage)
    resolution = _resolution(scores, fresh, coverage)
    bars = []
    for pooled, values, step in zip(sets, replicated, resolution, strict=True):
        estimate = estimate_from_replicates(values, axis=0)
        bias = np.abs(estimate.value - pooled)
        bars.append(estimate.uncertainty + bias + step)
    return Sets(*bars)


def _resolution(scores: Array, fresh: FreshFields, coverage: float) -> Sets:
    """Return by how much one node more or less in each replicate changes each number."""
    share = fresh.weight.max()
    after = _sets_at_coverage(scores, fresh, min(coverage + share, 1.0))
    before = _sets_at_coverage(scores, fresh, coverage - share)
    return Sets(
        *(np.abs(high - low) / len(scores) for high, low in zip(after, before, strict=True))
    )


def _changes_within_uncertainty(asked: Asked, solved: SolvedStudent) -> Sets:
    """Return by how much each number changes within the uncertainty of the solution."""
    here = _sets_of_fewest_nodes(asked, solved, solved.draw)
    changes = Sets(*(np.zeros_like(values) for values in here))
    for draw, steps in solved.neighbours:
        if steps > 0:
            moved = _sets_of_fewest_nodes(asked, solved, draw)
            pairs = zip(moved, here, strict=True)
            own = Sets(*(steps * np.abs(after - before) for after, before in pairs))
            changes = _summed(changes, own)
    return changes


def _sets_of_fewest_nodes(asked: Asked, solved: SolvedStudent, draw: Draw) -> Sets:
    """Return the sets at the same few nodes for all solutions that are compared."""
    fresh = draw(LOG2_OF_FEWEST_NODES)
    scores = class_scores(asked, fresh, solved.probabilities)
    return _sets_at_coverage(scores, fresh, asked.coverage)


def _summed(first: Sets, second: Sets) -> Sets:
    """Return the sum of two uncertainties of each number."""
    return Sets(*(a + b for a, b in zip(first, second, strict=True)))


def thinned(curve: SizeCurve) -> SizeCurve:
    """Return points of the curve that are close enough to interpolate between.

    They are even in the size and in the coverage, since either can be steep in the other.
    """
    n = curve.coverage.size
    even = np.linspace(0, 1, min(n, N_POINTS_OF_A_CURVE))
    by_coverage = np.searchsorted(curve.coverage, even)
    by_size = np.searchsorted(curve.size, even * curve.size[-1])
    kept = np.unique(np.clip(np.concatenate([by_coverage, by_size]), 0, n - 1))
    return SizeCurve(
        np.append(0.0, curve.coverage[kept]),
        np.append(0.0, curve.size[kept]),
    )
