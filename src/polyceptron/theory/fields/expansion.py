"""Four classes or more with cross-entropy: an expansion in few known losers, without sampling.

`losers` lists configurations order by order, `softmax_pull` integrates over the label's field at
each; M follows from C and D by Gaussian integration by parts, M = (q/m)(C + D). The cost of a rule
does not depend on k. What it leaves out is seen from the last orders, and what its nodes miss from
a finer level.
"""

from __future__ import annotations

import math

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.theory.fields.averages import Array, Averages, Rule
from polyceptron.theory.fields.losers import Configurations, configurations
from polyceptron.theory.fields.softmax_pull import label_integrals, rise_nodes

# Nodes of each known loser, order by order, and the step of the best one: by level.
NODES = (((10,), 0.85), ((12, 6, 4), 0.8), ((14, 10, 7), 0.75), ((20, 14, 9), 0.6))
N_LEVELS = len(NODES)
_DEEPEST = 25.0  # of ln p
_TINY = 1e-3
_CHUNK = 300_000  # losers × nodes at once: what a cache holds


def serves(channel: Channel) -> bool:
    """Whether the labels are those of Gaussian utilities, flipped or not."""
    return channel.utility_variance is not None


def begins(law: Law) -> bool:
    """Whether there is a field and an overlap at all: M = (C + D)q/m needs both."""
    return min(law.rho, math.sqrt(law.q)) > _TINY and law.V > _TINY**2


def resolves(channel: Channel, n_classes: int, law: Law) -> bool:
    """Whether labels never fall so far below that 1 − Σp, their own p, is lost in rounding."""
    width = channel.width(law.residual)
    depth = 8.5 if channel.guess(n_classes) > 0 else min(6.5 * width / max(law.rho, 1e-9), 8.5)
    return math.sqrt(law.q) * depth - law.V < _DEEPEST


def place(loss: Loss, channel: Channel, n_classes: int, law: Law, level: int) -> Rule:
    """All orders at once; nodes follow the law smoothly."""
    each = place_orders(channel, n_classes, law, level)
    return lambda law: each(law).map(lambda part: part[-1:])


def place_orders(channel: Channel, n_classes: int, law: Law, level: int) -> Rule:
    """Averages (orders + 1,): up to each order, the anchor first."""
    nodes, step = NODES[level]
    guess, r = channel.guess(n_classes), n_classes - 1
    rise = rise_nodes(law.rho / channel.width(law.residual), law)

    def rule(law: Law) -> Averages:
        tau = law.rho / channel.width(law.residual)
        width = max(1 / max(tau, 1e-9), min(1.0, (1 + law.V) / math.sqrt(law.q)))
        found = []
        for configs in configurations(n_classes, tau, width, nodes, step):
            found.append(_summed(n_classes, tau, guess, law, configs, rise))
        Q, C, D, value, mass = np.cumsum(found, 0).T
        Q, C, D = Q / r, C / r, D / (r * law.q)
        unknown = np.full_like(Q, math.nan)
        M = (C + D) / law.slope
        plus, minus = np.maximum(D, 0.0), np.maximum(-D, 0.0)
        return Averages(M, Q, C, plus, minus, value, unknown, mass)

    return rule


def _summed(
    n_classes: int, tau: float, guess: float, law: Law, configs: Configurations, rise: int
) -> Array:
    """Sums over configurations of what `label_integrals` finds, (5,)."""
    g, c, h = configs.copies.shape
    size = max(1, _CHUNK // (2 * c * h * rise))
    total = np.zeros(5)
    for start in range(0, g, size):
        part = Configurations(*(field[start : start + size] for field in configs))
        values = label_integrals(n_classes, tau, guess, law, part, rise)
        total += np.einsum("pgc,gc->p", values, part.weight)
    return total
