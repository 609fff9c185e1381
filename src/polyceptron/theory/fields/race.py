"""One class against the others: the chance that it wins, for a whole row of its own leads at once.

In fields measured from the runner-up the winner is at x and the other losers δ_h ≥ 0 below. With F
the law of a utility around its field,

    P(x) = ∫ dC F′(C − x) F(C) ∏_h F(C + δ_h)

is a convolution: one table over C serves every x by a matrix product, and so do its slopes, with
F′/F of one loser as a further factor. A channel whose law is no table is asked at every node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.channels import Channel
from polyceptron.model.channels.base import UtilityLaw

Array = NDArray[Any]
_STEP = 0.3  # of C in widths: a Gumbel law is analytic for |Im C| < π/2, error exp(−π²/0.3)


def race(channel: Channel, v: float, gaps: Array, x: Array) -> tuple[Array, Array]:
    """P and ‖∇P‖²/P, each (n, m), at losers' gaps δ (n, k−2) and leads x (m,).

    The leads are neighbouring multiples of their spacing.
    """
    if gaps.shape[1] == 0:  # two classes: one gap, and no table
        P, slopes = channel.utility_gaps(x[None], v)
        P = np.maximum(P, 1e-300)
        return P[None], 2 * slopes**2 / P
    law = channel.utility_law(v)
    if law is None:
        return _asked(channel, v, gaps, x)
    spacing = float(x[1] - x[0])
    every = max(1, math.floor(_STEP * channel.width(v) / spacing * (1 + 1e-9)))
    # Where C is below `low` the runner-up's F is nothing; above x + high the winner is not there.
    first = math.ceil(law.low / (every * spacing))
    last = math.ceil((float(x.max()) + law.high) / (every * spacing))
    level = np.arange(first, last + 1) * every
    apart = level[:, None] - np.rint(x / spacing).astype(int)
    if every > 4:
        kernel = _density(law, spacing * apart)
    else:  # C − x repeats itself: its values are one row
        lowest = int(apart.min())
        row = np.arange(lowest, int(apart.max()) + 1, dtype=float)
        kernel = _density(law, spacing * row)[apart - lowest]
    kernel *= every * spacing
    C: Array = spacing * level
    runner_log, runner_rate = law.values(C)
    others_log, others_rate = law.values(gaps[:, :, None] + C)
    product = np.exp(runner_log + others_log.sum(1))
    P = np.maximum(product @ kernel, 1e-300)
    runner = (product * runner_rate) @ kernel
    others = (product[:, None, :] * others_rate) @ kernel
    norm = runner**2 + (others**2).sum(1) + (runner + others.sum(1)) ** 2
    return P, norm / P


def _density(law: UtilityLaw, y: Array) -> Array:
    """F′(y), of any shape."""
    log_cdf, hazard = law.values(np.clip(y, law.low, law.high))
    return np.where((y >= law.low) & (y <= law.high), np.exp(log_cdf) * hazard, 0.0)


def _asked(channel: Channel, v: float, gaps: Array, x: Array) -> tuple[Array, Array]:
    n, k = len(gaps), gaps.shape[1] + 2
    omega = np.zeros((n, x.size, k))
    omega[..., 0] = x
    omega[..., 2:] = -gaps[:, None, :]
    label = np.zeros(n * x.size, dtype=np.int64)
    found = channel.utility(omega.reshape(-1, k), label, v, 20)
    P = np.exp(found.log_z)
    return P.reshape(n, -1), ((found.score**2).sum(-1) * P).reshape(n, -1)
