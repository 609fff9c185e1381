"""Makes numerics/softmax_tables.json: direct integrals at Chebyshev points (seconds).

    python tools/softmax_tables.py > src/polyceptron/numerics/softmax_tables.json

At given (t, φ), in units in which w = 1: q = cot²φ, β = 1/t and v = 1 − t². The error's student has
the angle θ with tan θ = √v/√q, in units in which q + v = 1.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import xlogy

from polyceptron.model.channels import Channel, SoftmaxNoise
from polyceptron.model.channels.channel import UtilityLaw
from polyceptron.numerics import AnyArray
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.softmax_winning import CLASSES, disagreement

N_POINTS = 28  # of either variable
_DIGITS = 13
_STEP = 0.3  # of C in widths: a Gumbel law is analytic for |Im C| < π/2, error exp(−π²/0.3)


def direct(n_classes: int, t: float, phi: float) -> AnyArray:
    """The three scaled functions (3,) at one point, by integration."""
    root_q, root_v = 1 / math.tan(phi), math.sqrt(1 - t * t)
    information, excess = raced_moments(SoftmaxNoise(1 / t), root_q**2, 1 - t * t, n_classes)
    error = disagreement(math.hypot(root_q, root_v) / t, n_classes, math.atan2(root_v, root_q))
    return np.array([information / math.sin(phi), excess / math.sin(phi), error / phi])


def race(channel: Channel, v: float, gaps: AnyArray, x: AnyArray) -> tuple[AnyArray, AnyArray]:
    """P and ‖∇P‖²/P, each (n, m), at competitors' gaps δ (n, k−2) and leads x (m,).

    In fields measured from the runner-up, P(x) = ∫ dC F′(C − x) F(C) ∏_h F(C + δ_h) with F the law
    of a utility: a convolution, so that one table over C serves every lead by a matrix product. The
    leads are neighbouring multiples of their spacing.
    """
    if gaps.shape[1] == 0:  # two classes: one gap, and no table
        P, slopes = channel.utility_gaps(x[None], v)
        P = np.maximum(P, 1e-300)
        return P[None], 2 * slopes**2 / P
    law = channel.utility_law(v)
    assert law is not None
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
    C: AnyArray = spacing * level
    runner_log, runner_rate = law.values(C)
    others_log, others_rate = law.values(gaps[:, :, None] + C)
    product = np.exp(runner_log + others_log.sum(1))
    P = np.maximum(product @ kernel, 1e-300)
    runner = (product * runner_rate) @ kernel
    others = (product[:, None, :] * others_rate) @ kernel
    norm = runner**2 + (others**2).sum(1) + (runner + others.sum(1)) ** 2
    return P, norm / P


def _density(law: UtilityLaw, y: AnyArray) -> AnyArray:
    """F′(y), of any shape."""
    log_cdf, hazard = law.values(np.clip(y, law.low, law.high))
    return np.where((y >= law.low) & (y <= law.high), np.exp(log_cdf) * hazard, 0.0)


def raced_moments(channel: Channel, q: float, v: float, k: int) -> tuple[float, float]:
    """Any channel at k = 2, 3: nodes along the gaps, as wide as the channel says.

    The gap has variance 2q; 40 widths are enough for tails that fall as slowly as exp(−x/width).
    """
    width, reach = channel.width(v), 9 * math.sqrt(2 * q)
    step = min(0.3 * width, 0.25 * math.sqrt(2 * q))
    last = math.ceil(min(reach, 40 * width) / step)
    x = np.arange(-last, last + 1) * step
    if k == 2:
        gaps = np.zeros((1, 0))
        weight = step * np.exp(-(x**2) / (4 * q)) / math.sqrt(4 * math.pi * q)
    else:
        near = min(reach, 40 * width)
        ends = [0.0, 0.15 * near, near, reach] if near < reach else [0.0, reach]
        y, weight_y = panel_rule(np.array(ends), 48)
        gaps = y[:, None]
        form = (x**2 + x * gaps + gaps**2) / (3 * q)
        density = np.exp(-form) / (math.pi * math.sqrt(3) * q)
        weight = step * weight_y[:, None] * density
    P, squared = race(channel, v, gaps, x)
    excess = xlogy(P, P)
    return k * float((weight * squared).sum()) / (k - 1), k * float((weight * excess).sum())


def make(n: int = N_POINTS) -> dict[str, Any]:
    """Coefficients (3, n, n) of each k, along t and along φ."""
    x = np.cos((np.arange(n) + 0.5) * (math.pi / n))
    to_series = np.linalg.inv(chebyshev.chebvander(x, n - 1))
    tables = {}
    for k in CLASSES:
        values = np.array(
            [[direct(k, 0.5 + 0.5 * a, 0.25 * math.pi * (1 - b)) for b in x] for a in x]
        )
        series = to_series @ np.moveaxis(values, -1, 0) @ to_series.T
        tables[str(k)] = (np.round(series, _DIGITS) + 0.0).tolist()
    return tables


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make(), separators=(",", ":")).replace("0.0,", "0,") + "\n")
