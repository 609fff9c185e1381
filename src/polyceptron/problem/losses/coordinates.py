"""Where a student is smooth: the coordinates in which the theory integrates over what it does.

Label 1 leads the other classes by gaps g_h = ω₁ − ω_h, the smallest first. A quadrature rule has
break points that follow the law of the fields; a student turns them into break points of its own
coordinates (x on the line of two classes, x and y on the plane of three), and gives at each node
the gaps, by how much volume is stretched, and its pull. Without other knowledge these coordinates
are the gaps themselves, g₁ and g₂ − g₁, in panels halved until the pull is smooth on each
(`Coordinates`). Losses with kinks have `kinked.py`, cross-entropy `proximal_coordinates.py`; four
and more classes are integrated in other ways (`additive.py`, or random points).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq

from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, resolve

if TYPE_CHECKING:
    from polyceptron.numerics.orthant import Winning
    from polyceptron.problem.losses.base import Loss


class Pull(NamedTuple):
    """What a student makes of label 1 at n points.

    Attributes
    ----------
    others : ndarray, shape (k−1, n)
        f of the other classes; the label's own is minus their sum.
    trace : ndarray, shape (n,)
        −tr_⊥ ∂f.
    value : ndarray, shape (n,)
        ℓ at the proximal point.
    margin : ndarray, shape (n,)
        Gap of the proximal point to the best of the others.
    label : Winning, optional
        The label's law there, if the student computed it.
    """

    others: Array
    trace: Array
    value: Array
    margin: Array
    label: Winning | None = None


class Placed(NamedTuple):
    """Gaps (k−1, n) at the nodes' coordinates, their volume per unit (n,), and the pull."""

    gaps: Array
    stretch: Array | float
    pull: Pull


class Coordinates:
    """The gaps themselves, with the pull from a loss's denoiser.

    Subclasses override what they know better. `resolved` says that all break points are known, so
    that levels of a rule converge geometrically; `jumps` that −tr ∂f has jumps, so that averages of
    it over points that do not move are step functions of V.
    """

    resolved: ClassVar[bool] = False
    jumps: ClassVar[bool] = False

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """Return the pull of label 1 at gaps ω₁ − ω_h (k−1, n), the smallest first."""
        n = gaps.shape[1]
        omega = np.concatenate([np.zeros((n, 1)), -gaps.T], axis=1)
        omega -= omega.mean(1, keepdims=True)
        label = np.zeros(n, dtype=np.int64)
        f, trace = self.loss.denoise(omega, label, V)
        f = f - f.mean(1, keepdims=True)  # labels show nothing of a part along (1, …, 1)
        value = self.loss.value_at_prox(omega + V * f, label)
        return Pull(f[:, 1:].T, trace, value, gaps[0] + V * (f[:, 0] - f[:, 1]))

    def mistake_gap(self, V: float) -> float | None:
        """Return the g₁ below which a training sample is mistaken, None if it is not known."""
        return None

    def fresh_margin(self, margin: Array, V: float) -> tuple[Array, float] | None:
        """Return the margin before training of one that training moves to `margin`, and its slope.

        None where the other gaps matter as well.
        """
        return None

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points (b',) of x for two classes, from those (b,) of the gap."""
        edges = self._mistake_edges(V)
        points = blend_breaks([breaks], float(breaks[0]), float(breaks[-1]), keep=edges)

        def pull_and_trace(gap: Array) -> Array:
            """Return the pull and the trace of the denoiser at gaps (n,), shape (2, n)."""
            pull = self.at_gaps(gap[None], V)
            return np.stack([pull.others[0], pull.trace])

        return resolve(pull_and_trace, points)

    def on_line(self, x: Array, V: float) -> Placed:
        """Return gaps and pull of two classes at coordinates x (n,)."""
        return Placed(x[None], 1.0, self.at_gaps(x[None], V))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return break points (rows, b') of y for three classes, along rows x (rows,).

        `breaks` (b,) are those of g₂ − g₁. The same y serve all rows: panels are halved until the
        pull is smooth on five of them.
        """
        probes = np.quantile(row, [0.0, 0.2, 0.4, 0.6, 0.8])

        def pulls_and_traces(y: Array) -> Array:
            """Return pulls and traces at the second gap y (n,), for each probe of the first."""
            parts = []
            for first in probes:
                pull = self.at_gaps(np.stack([np.full_like(y, first), first + y]), V)
                parts += [*pull.others, pull.trace]
            return np.stack(parts)

        columns = resolve(pulls_and_traces, breaks)
        return np.broadcast_to(columns, (len(row), len(columns)))

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Return gaps and pull of three classes at coordinates x (n,) and y (n,) ≤ g₂ − g₁."""
        gaps = np.stack([row, row + y])
        return Placed(gaps, 1.0, self.at_gaps(gaps, V))

    def wide(self, width: float, V: float) -> Coordinates | None:
        """Return other coordinates of three classes for labels that vary on this width, or None."""
        return None

    def _mistake_edges(self, V: float) -> tuple[float, ...]:
        """Return the gap at which a training sample of two classes is just mistaken, or none."""
        known = self.mistake_gap(V)
        if known is None:
            return self._searched_mistake_edges(V)
        if not np.isfinite(known):
            return ()
        return (known,)

    def _searched_mistake_edges(self, V: float) -> tuple[float, ...]:
        """Return the root of the trained margin as a function of the gap, or none."""

        def margin(gap: float) -> float:
            """Return the margin of a training sample after its proximal step from `gap`."""
            return float(self.at_gaps(np.array([[gap]]), V).margin[0])

        for low in -(2.0 ** np.arange(42)):
            if margin(low) < 0:
                return (float(brentq(margin, low, 0.0, xtol=1e-14)),)
        return ()
