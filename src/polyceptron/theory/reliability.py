"""Accuracy against confidence: the bins of a reliability diagram."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import brentq

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.numerics.estimate import Estimate, from_replicates
from polyceptron.numerics.panels import GAUSS_BREAKS, Array, panel_rule
from polyceptron.theory.fields.integrand import ordered_density
from polyceptron.theory.fresh_fields import Says, sampled_fields

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
