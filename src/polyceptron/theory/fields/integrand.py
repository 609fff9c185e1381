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
    losers, rank = pull.losers, n_classes - 1
    first = -losers.sum(0)
    joint = weight * label.z
    tilt = first * label.slopes.sum(0) - _dot(label.slopes, losers)
    along = _dot(gaps, losers) * (-1 / (rank * law.q))
    table = np.empty((6, len(joint)))
    table[0] = first * first + _dot(losers, losers)
    table[1] = pull.trace
    np.maximum(along, 0.0, out=table[2])
    table[3] = along
    table[4] = pull.value
    table[5] = pull.margin < 0
    if n_replicates == 1:
        M, mass, means = (
            np.array([weight @ tilt]),
            np.array([joint.sum()]),
            (table @ joint)[:, None],
        )
    else:
        shape = (n_replicates, -1)
        M = np.einsum("rn,rn->r", weight.reshape(shape), tilt.reshape(shape))
        mass = joint.reshape(shape).sum(1)
        means = np.einsum("irn,rn->ir", table.reshape(6, *shape), joint.reshape(shape))
    squared, trace, ahead, balance, value, mistaken = means
    return Averages(
        M=M / rank,
        Q=squared / rank,
        C=trace / rank,
        D_plus=ahead,
        D_minus=ahead - balance,
        loss=value,
        error=mistaken,
        mass=mass,
    )


def _dot(a: Array, b: Array) -> Array:
    """Σ_h a_h b_h (n,) of arrays (c, n)."""
    return a[0] * b[0] if len(a) == 1 else np.einsum("hn,hn->n", a, b)


def ordered_density(gaps: Array, q: float) -> Array:
    """k! times the density of the gaps (k−1, n), whose covariance is q(I + 11ᵀ)."""
    k = len(gaps) + 1
    total = gaps.sum(0)
    exponent = (_dot(gaps, gaps) - total * total / k) * (-0.5 / q)
    norm = math.factorial(k) / (math.sqrt(k) * math.sqrt(2 * math.pi * q) ** (k - 1))
    return np.asarray(norm * np.exp(exponent))
