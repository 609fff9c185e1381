"""Where a student is smooth: the coordinates in which the theory integrates over what it does.

Label 1 leads the other classes by gaps g_h = ω₁ − ω_h, the smallest first. A rule has break points
that follow the law of the fields; a student turns them into break points of its own coordinates (x
on the line of two classes, x and y on the plane of three), and gives at each the gaps, by how much
volume is stretched, and its pull. Without other knowledge these are the gaps themselves, g₁ and
g₂ − g₁, in panels halved until the pull is smooth on each.

For cross-entropy and the hard margin there is a variable L (the log-normaliser at the proximal
point; the labelled class's own field there) given which the competitors act alone:

    f_h = −p(ω_h − L),     f_1 = P = Σ_h p(ω_h − L),     ω_1 = L + d(P)

With a = p′ of each competitor, a_1 = −1/d′ and S = a_1 + Σ a, differentiating ω_1 − L = d(P) gives

    ∂ω_1/∂L = S/a_1,     −tr ∂f = (S² − a_1² − Σ a²)/S

so that, integrated over L instead of ω_1, every average is a polynomial in sums over the others
(`sides/fields/sums.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, resolve
from polyceptron.numerics.special import wright_omega

if TYPE_CHECKING:
    from polyceptron.numerics.orthant import Winning
    from polyceptron.problem.losses.loss import Loss


class LabelPull(NamedTuple):
    """P, a_1 and the loss at the label's field, all of one shape."""

    P: Array
    a: Array
    value: Array


class SoftmaxPull:
    """Cross-entropy: V p = W(V exp t), and p_1 = 1 − P with d = ln p_1 − VP.

    `knee` is the t below which p(t) is next to nothing, `largest` the least upper bound of P, and
    p is `scale` times the pull.

    >>> pull = SoftmaxPull(2.0)
    >>> p, _ = pull.competitor(np.array([0.3]))
    >>> bool(abs(pull.competitor_at(p)[0][0] - 0.3) < 1e-9)
    True
    """

    def __init__(self, V: float) -> None:
        self.V, self.log_V, self.scale, self.largest = V, math.log(V), 1.0, 1.0
        self.knee = -math.log(max(V, 1.0)) - 4

    def competitor(self, t: Array) -> tuple[Array, Array]:
        """p and a = p′ at t = ω_h − L."""
        y = wright_omega(t + self.log_V)
        p = y / self.V
        return p, p / (1 + y)

    def label(self, d: Array) -> LabelPull:
        """At d = ω_1 − L; d > 0, where no fields are, continues smoothly to P < 0."""
        # For p_1 near 1 the difference 1 − p_1 comes from ln p_1 = d + VP, by one Newton step.
        y = wright_omega(d + (self.V + self.log_V))
        p = y / self.V
        P = 1 - p
        with np.errstate(invalid="ignore", divide="ignore"):
            P = np.where(np.abs(P) < 0.5, P - (np.log1p(-P) - self.V * P - d) * -(p / (1 + y)), P)
            value = np.where(np.abs(P) < 0.5, -np.log1p(-P), -(d + self.V * P))
        return LabelPull(P, p / (1 + y), value)

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        """t of p, and a there."""
        return np.log(p) + self.V * p, p / (1 + self.V * p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        """d of P, a_1 and the loss there."""
        log_p, p = np.log1p(-P), 1 - P
        return log_p - self.V * P, p / (1 + self.V * p), -log_p


class MarginPull:
    """A hard margin κ: Vf is made of p = max(t + κ, 0) and d = −P, L the label's own field."""

    def __init__(self, V: float, margin: float) -> None:
        self.scale, self.margin, self.knee, self.largest = V, margin, -margin, math.inf

    def competitor(self, t: Array) -> tuple[Array, Array]:
        return np.maximum(t + self.margin, 0.0), (t >= self.knee).astype(float)

    def label(self, d: Array) -> LabelPull:
        return LabelPull(-d, np.ones_like(d), np.zeros_like(d))

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        return p - self.margin, np.ones_like(p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        return -P, np.ones_like(P), np.zeros_like(P)


AdditivePull = SoftmaxPull | MarginPull


class Pull(NamedTuple):
    """What a student makes of label 1 at n points."""

    others: Array  # f of the other classes (k−1, n); the label's own is minus their sum
    trace: Array  # −tr_⊥ ∂f (n,)
    value: Array  # ℓ at the proximal point (n,)
    margin: Array  # gap of the proximal point to the best of the others (n,)
    label: Winning | None = None  # the label's law there, if the student computed it


class Placed(NamedTuple):
    """Gaps (k−1, n) at the nodes' coordinates, their volume per unit (n,), and the pull."""

    gaps: Array
    stretch: Array | float
    pull: Pull


class Coordinates:
    """The gaps themselves, by a loss's denoiser; who knows better overrides some methods."""

    resolved: ClassVar[bool] = False  # all break points known: levels converge geometrically
    jumps: ClassVar[bool] = False  # −tr ∂f does: over points held still a step function of V

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """What label 1 pulls at gaps ω₁ − ω_h (k−1, n), the smallest first."""
        n = gaps.shape[1]
        omega = np.concatenate([np.zeros((n, 1)), -gaps.T], axis=1)
        omega -= omega.mean(1, keepdims=True)
        label = np.zeros(n, dtype=np.int64)
        f, trace = self.loss.denoise(omega, label, V)
        f = f - f.mean(1, keepdims=True)  # a part along (1, …, 1) is shown by no label
        value = self.loss.value_at_prox(omega + V * f, label)
        return Pull(f[:, 1:].T, trace, value, gaps[0] + V * (f[:, 0] - f[:, 1]))

    def mistake_gap(self, V: float) -> float | None:
        """The gap to the best other class below which a training sample is mistaken, if known."""
        return None

    def fresh_margin(self, margin: Array, V: float) -> tuple[Array, float] | None:
        """The fresh margin that training moves to `margin`, and its slope, if it alone decides."""
        return None

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Two classes: break points (b',) of the coordinate, from those (b,) of the gap."""
        low, high = float(breaks[0]), float(breaks[-1])
        points = blend_breaks([breaks], low, high, keep=self._mistake_edges(V))

        def pull(gap: Array) -> Array:
            found = self.at_gaps(gap[None], V)
            return np.stack([found.others[0], found.trace])

        return resolve(pull, points)

    def on_line(self, x: Array, V: float) -> Placed:
        """Two classes: gaps and pull at coordinates x (n,)."""
        return Placed(x[None], 1.0, self.at_gaps(x[None], V))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Three: break points (rows, b') along rows x (rows,), from those (b,) of g₂ − g₁."""
        probes = np.quantile(row, [0.0, 0.2, 0.4, 0.6, 0.8])  # rows on which the pull is tried

        def pull(y: Array) -> Array:
            tried = []
            for a in probes:
                found = self.at_gaps(np.stack([np.full_like(y, a), a + y]), V)
                tried += [*found.others, found.trace]
            return np.stack(tried)

        columns = resolve(pull, breaks)
        return np.broadcast_to(columns, (len(row), len(columns)))

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Three classes: gaps and pull at coordinates (n,), (n,); the second is ≤ g₂ − g₁."""
        gaps = np.stack([row, row + y])
        return Placed(gaps, 1.0, self.at_gaps(gaps, V))

    def wide(self, width: float, V: float) -> Coordinates | None:
        """Three classes: coordinates of another kind for labels that vary on this width."""
        return None

    def _mistake_edges(self, V: float) -> tuple[float, ...]:
        """Gaps at which a training sample of two classes is just mistaken, or none."""
        if (known := self.mistake_gap(V)) is not None:
            return (known,) if np.isfinite(known) else ()

        def margin(gap: float) -> float:
            return float(self.at_gaps(np.array([[gap]]), V).margin[0])

        from scipy.optimize import brentq  # loads slowly, and is rarely needed

        low = next((x for x in -(2.0 ** np.arange(42)) if margin(x) < 0), None)
        return () if low is None else (float(brentq(margin, low, 0.0, xtol=1e-14)),)


class KinkedCoordinates(Coordinates):
    """A loss whose pull is smooth between known kinks, which are whole numbers of its coordinates.

    On the line x = i is the i-th kink and between two kinks the gap is linear in x, beyond them
    with slope 1; along a row of the plane so is g₂ − g₁. Kinks that move with V are then met by
    panels that are held still. `rows(V)` are the gaps g₁ at which pull, curvature or mistakes have
    a kink or a jump, of two classes and where those along g₂ − g₁ begin, cross or end;
    `columns(g₁, V)` the values of g₂ − g₁ at which they have one, at g₁ (n,), none below 0.
    """

    resolved = True
    jumps = True

    def __init__(
        self,
        loss: Loss,
        rows: Callable[[float], list[float]],
        columns: Callable[[Array, float], list[Array]],
    ) -> None:
        super().__init__(loss)
        self.rows, self.columns = rows, columns

    def mistake_gap(self, V: float) -> float | None:
        """None is mistaken inside a hard margin."""
        return -np.inf if self.loss.scale_free else None

    def _columns(self, gap: Array, V: float) -> Array:
        """0 and the kinks along rows g₁ (n,), sorted: (n, 1 + kinks)."""
        found = [np.zeros_like(gap), *self.columns(gap, V)]
        return np.sort(np.maximum(np.stack(found, 1), 0.0), axis=1)

    def _row(self, x: Array, V: float) -> tuple[Array, Array]:
        """g₁ at x (n,), and its slope."""
        knots = np.sort(self.rows(V))
        return _between(np.broadcast_to(knots, (len(x), len(knots))), x)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        (x,) = _places(np.sort(self.rows(V))[None], breaks[None])
        whole = tuple(map(float, range(len(self.rows(V)))))
        return blend_breaks([x], float(x[0]), float(x[-1]), keep=whole)

    def on_line(self, x: Array, V: float) -> Placed:
        gap, stretch = self._row(x, V)
        return Placed(gap[None], stretch, self.at_gaps(gap[None], V))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        knots = self._columns(self._row(row, V)[0], V)
        y = _places(knots, np.broadcast_to(breaks, (len(row), len(breaks))))
        whole = np.minimum(np.arange(1.0, knots.shape[1]), y[:, -1:])
        return np.sort(np.concatenate([y, whole], axis=1), axis=1)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        first, stretch = self._row(row, V)
        apart, along = _between(self._columns(first, V), y)
        gaps = np.stack([first, first + apart])
        return Placed(gaps, stretch * along, self.at_gaps(gaps, V))

    def wide(self, width: float, V: float) -> Coordinates | None:
        return self  # its second coordinate is not a gap


def _between(knots: Array, x: Array) -> tuple[Array, Array]:
    """The linear interpolation of knots (n, j) at 0..j−1 to x (n,), beyond with slope 1; slopes."""
    last, each = knots.shape[1] - 1, np.arange(len(x))
    part = np.clip(np.floor(x).astype(np.int64), -1, last)
    low, high = (knots[each, np.clip(i, 0, last)] for i in (part, part + 1))
    slope = np.where((part < 0) | (part == last), 1.0, high - low)
    return np.where(part < 0, low + x, low + slope * (x - part)), slope


def _places(knots: Array, values: Array) -> Array:
    """Where the interpolation of knots (n, j) has sorted values (n, b)."""
    last = knots.shape[1] - 1
    after = (knots[:, None, :] <= values[:, :, None]).sum(2)
    low, high = (np.take_along_axis(knots, np.clip(i, 0, last), 1) for i in (after - 1, after))
    inside = (values - low) / np.maximum(high - low, 1e-300)
    outside = np.where(after == 0, values - low, last + values - low)
    return np.where((after == 0) | (after > last), outside, after - 1 + inside)
