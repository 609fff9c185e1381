"""The one integrand of the fields side, for every number of classes, student and channel.

By symmetry label 1 is drawn, and the other classes are ordered by the student's gaps ω₁ − ω_h, the
smallest first. With the label's probability Z and its slopes in the teacher's mean gaps

    ∇Z·f = Σ_h ∂Z/∂g_h (f₁ − f_h),    ω·f = −Σ_h (ω₁ − ω_h) f_h,    f₁ = −Σ_h f_h.

What a node weighs, its volume times the density of ordered gaps, comes from the rule that placed
it.
"""

from __future__ import annotations

import math

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.model.losses.coordinates import Pull
from polyceptron.theory.fields.averages import Array, Averages


def average(
    channel: Channel,
    law: Law,
    gaps: Array,
    weight: Array,
    pull: Pull,
    *,
    n_classes: int,
    n_replicates: int = 1,
) -> Averages:
    """The averages from gaps (c, n), weights (n,) and the pull there, n = replicates × nodes.

    c is k − 1, or less where the other classes are left out of the race.
    """
    label = channel.label_law(gaps * law.slope, law.residual, n_classes)
    losers = pull.losers
    first = -losers.sum(0)
    joint = weight * label.z
    rank = n_classes - 1
    along = np.einsum("hn,hn->n", gaps, losers) * (-1 / (rank * law.q))
    ahead = np.maximum(along, 0.0)

    def mean(density: Array, values: Array) -> Array:
        if n_replicates == 1:
            return np.array([density @ values])
        shape = (n_replicates, -1)
        return np.einsum("rn,rn->r", density.reshape(shape), values.reshape(shape))

    tilt = np.einsum("hn,hn->n", label.slopes, first - losers)
    squared = first * first + np.einsum("hn,hn->n", losers, losers)
    return Averages(
        M=mean(weight, tilt) / rank,
        Q=mean(joint, squared) / rank,
        C=mean(joint, pull.trace) / rank,
        D_plus=mean(joint, ahead),
        D_minus=mean(joint, ahead - along),
        loss=mean(joint, pull.value),
        error=mean(joint, (pull.margin < 0).astype(float)),
        mass=mean(joint, np.ones_like(joint)),
    )


def ordered_density(gaps: Array, q: float) -> Array:
    """k! times the density of the gaps (k−1, n), whose covariance is q(I + 11ᵀ)."""
    k = len(gaps) + 1
    total = gaps.sum(0)
    exponent = (np.einsum("hn,hn->n", gaps, gaps) - total * total / k) / (-2 * q)
    norm = math.factorial(k) / (math.sqrt(k) * math.sqrt(2 * math.pi * q) ** (k - 1))
    return np.asarray(norm * np.exp(exponent))
