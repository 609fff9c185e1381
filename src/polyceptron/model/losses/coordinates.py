"""Where a loss is smooth: the coordinates in which the theory integrates over it.

Label 1 leads the other classes by gaps g_h = ω₁ − ω_h, the smallest first. A rule has break points
that follow the law of the fields; a loss turns them into break points of its own coordinates (x on
the line of two classes, x and y on the plane of three), where it adds what it needs, and says at
each what the gaps are, by how much volume is stretched, and what it pulls. Without other knowledge
the coordinates are the gaps themselves, g₁ and g₂ − g₁, in panels halved until the pull is smooth
on each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, resolve

if TYPE_CHECKING:
    from polyceptron.model.losses.base import Loss

_FAR = 1e3  # a class that plays no part


class Pull(NamedTuple):
    """What a student makes of label 1 at n points."""

    losers: Array  # f of the other classes (k−1, n); the label's own is minus their sum
    trace: Array  # −tr_⊥ ∂f (n,)
    value: Array  # ℓ at the proximal point (n,)
    margin: Array  # gap of the proximal point to the best of the others (n,)


class Placed(NamedTuple):
    """Gaps (k−1, n) at the nodes' coordinates, their volume per unit (n,), and the pull."""

    gaps: Array
    stretch: Array | float
    pull: Pull


class Plane(Protocol):
    """Coordinates of three classes: those of a loss, or others that it has."""

    def line_breaks(self, breaks: Array, V: float) -> Array: ...

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array: ...

    def on_plane(self, row: Array, y: Array, V: float) -> Placed: ...


def pull_at_gaps(loss: Loss, gaps: Array, V: float) -> Pull:
    """The loss's denoiser at gaps (k−1, n)."""
    n = gaps.shape[1]
    omega = np.concatenate([np.zeros((n, 1)), -gaps.T], axis=1)
    omega -= omega.mean(1, keepdims=True)
    label = np.zeros(n, dtype=np.int64)
    f, trace = loss.denoise(omega, label, V)
    f = f - f.mean(1, keepdims=True)  # a part along (1, …, 1) is shown by no label
    value = loss.value_at_prox(omega + V * f, label)
    return Pull(f[:, 1:].T, trace, value, gaps[0] + V * (f[:, 0] - f[:, 1]))


def line_breaks(loss: Loss, breaks: Array, V: float) -> Array:
    """Break points (b,) of the gap between two classes: those given, and those that f needs."""
    edges = (*loss.kinks, *mistake_edges(loss, V))
    points = blend_breaks([breaks], float(breaks[0]), float(breaks[-1]), keep=edges)

    def pull(gap: Array) -> Array:
        found = loss.at_gaps(gap[None], V)
        return np.stack([found.losers[0], found.trace])

    return resolve(pull, points)


def plane_breaks(loss: Loss, row: Array, breaks: Array, V: float) -> Array:
    """Break points (rows, b) of the gap between the losers, at rows (rows,) of the first gap."""
    probes = np.quantile(row, [0.0, 0.2, 0.4, 0.6, 0.8])  # rows on which the pull is tried

    def pull(y: Array) -> Array:
        tried = []
        for a in probes:
            first = np.full_like(y, a)
            found = loss.at_gaps(np.stack([first, first + y]), V)
            tried += [*found.losers, found.trace]
        return np.stack(tried)

    columns = resolve(pull, breaks)
    return np.broadcast_to(columns, (len(row), len(columns)))


def mistake_edges(loss: Loss, V: float) -> tuple[float, ...]:
    """The student's gaps at which a training sample of two classes is just mistaken, or none."""
    known = loss.mistake_gap(V)
    if known is not None:
        return (known,) if np.isfinite(known) else ()

    def mistaken(gap: float) -> bool:
        return float(loss.at_gaps(np.array([[gap]]), V).margin[0]) < 0

    low, high = -1.0, 0.0
    while low > -1e12 and not mistaken(low):
        low, high = 2 * low, low
    while high - low > 1e-13 * abs(low):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if mistaken(middle) else (low, middle)
    return (high,)
