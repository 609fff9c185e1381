"""What a student says of a fresh input, beside what is true of it.

Given the student's fields ω ~ N(0, q) the label is l with probability t_l, the channel's Z_l at
mean (m/q)ω and variance 1 − ρ²; the student says p_l. Classes are alike, so ω₁ ≥ ω₂ ≥ … is enough.
Nodes: panels along one gap (k = 2) or two (k = 3), quasi-random replicates above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.numerics.panels import GAUSS_BREAKS, Array, blend_breaks, panel_rule
from polyceptron.numerics.qmc import N_REPLICATES, uniform_replicates
from polyceptron.theory.fields.integrand import ordered_density
from polyceptron.theory.fields.scales import field_scales

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
