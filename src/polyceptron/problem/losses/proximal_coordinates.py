"""Coordinates of cross-entropy: its proximal point, in which it varies on scale 1 for every V.

Two classes: everything is explicit in the gap A of the proximal point (a is the gap of the fields),

    a = A − 2Vσ(−A),    da/dA = 1 + 2Vσ(A)σ(−A),

and the coordinate is x = A − A₀, with A₀ the proximal gap at a = 0: where panels of x do not move
while V changes, they stay on the boundary, about which fields and labels vary.

Three classes: rows are placed by the A that a would have with two classes, and along a row the gap
y = ω₂ − ω₃ is replaced by Y = z₂ − z₃; given (a, Y) the remaining gap A solves a two-class problem:

    |∂ω/∂z| on 1⊥ = ∏_h (1 + V p_h) · Σ_h p_h/(1 + V p_h),    ∂a/∂A = 1 + V p₁(2p₂ + p₃).

On rows of one a the three classes part within 1/V of a place that moves with Y, which counts where
V is large and labels are mistaken far from the boundary, as near α_s without a ridge. On rows of
one A (`WideProximalCoordinates`) nothing of the loss varies faster than on scale 1; labels must
not, either.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, wrightomega

from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, blend_rows
from polyceptron.problem.losses.coordinates import Coordinates, Placed, Pull
from polyceptron.problem.losses.softmax_prox import (
    proximal_gap,
    softmax_curvature,
    solve_softmax,
    two_class_solution,
)

# Panels: tests/unit/theory/test_fields.py::test_own_coordinates_agree_with_generic_ones.
PANEL_WIDTH_OF_A = 2.8  # where σ(A) bends: six nodes then give four digits
PULL_DECAY_LENGTH = 14.0  # e^{−14} = 1e-6 of the pull is left; what remains is a smooth tail
TAIL_BREAKS = np.array([4.0, 10.0, 20.0, 40.0])  # of A, beyond that
Y_BREAKS = np.array([0.0, 0.7, 2.0, 4.5, 8.0, 13.0, 20.0])  # e^{−Y} is gone at the last
SHARE_OF_Y_PANELS = 0.85  # along Y all is smoother than along A
SMALLEST_V_OF_WIDE_ROWS = 20.0  # from here on rows of one a need more nodes than they have
SMALLEST_LABEL_WIDTH_IN_A = 0.3  # from here on rows of one A serve the labels


@lru_cache(maxsize=32)
def boundary_gap(V: float, shift: float) -> float:
    """Return A₀ with A₀ + s = 2Vσ(−A₀): the proximal gap at a = 0 where gaps are larger by s."""
    return float(proximal_gap(np.array([-shift]), V)[0])


def _with_bends(sets: list[Array], V: float) -> Array:
    """Return break points of A that follow sets of them and a pull that bends about 0.

    Below 0 the pull is 1 and its curvature dies as V e^A; above it dies as e^{−A}.
    """
    low = min(float(A[0]) for A in sets)
    high = max(float(A[-1]) for A in sets)
    reach = math.log1p(2 * V) + PULL_DECAY_LENGTH
    first = max(low, -reach)
    last = min(high, max(low, 0.0) + reach)
    bends = np.linspace(first, last, math.ceil((last - first) / PANEL_WIDTH_OF_A) + 1)
    own = np.concatenate([first - TAIL_BREAKS[::-1], bends, last + TAIL_BREAKS])
    return blend_breaks([*sets, own], low, high, keep=(0.0,))


def _row_breaks(c: Array, breaks: Array, steps: Array = Y_BREAKS) -> Array:
    """Return break points (rows, b') of Y, from c = V p₂ (rows,) and those (b,) of y.

    Near the row's start y ≈ Y + c(1 − e^{−Y}), which Lambert's W inverts.
    """
    c = c[:, None] + 1e-300  # its logarithm is taken
    Y = np.maximum(breaks - c + np.real(wrightomega(c - breaks + np.log(c))), 0.0)
    Y[:, 0] = 0.0
    return blend_rows(Y, steps, SHARE_OF_Y_PANELS)


def _of_proximal(u: Array, Y: Array, E: Array, V: float) -> Placed:
    """Return gaps, volume and pull of three classes at proximal points with loss ln(1 + e^u).

    The other classes are apart by Y (n,) there, and E = e^{−Y} (n,).
    """
    lost = expit(u)  # 1 − p₁
    A = np.log1p(E) - u
    p1 = expit(-u)
    p2 = lost / (1 + E)
    p3 = p2 * E
    first = A - V * (p2 + lost)
    gaps = np.stack([first, first + Y + V * (p2 - p3)])
    d1 = 1 + V * p1
    d2 = 1 + V * p2
    d3 = 1 + V * p3
    a1 = p1 / d1
    a2 = p2 / d2
    a3 = p3 / d3
    total = a1 + a2 + a3
    trace = 2 * (a1 * a2 + (a1 + a2) * a3) / total
    pull = Pull(np.stack([-p2, -p3]), trace, np.logaddexp(0.0, u), A)
    return Placed(gaps, d1 * d2 * d3 * total, pull)


class ProximalCoordinates(Coordinates):
    """x = A − A₀ on the line; on the plane rows of one a, and Y along them.

    Smoothed labels take ε(e_y − 1/k) off the pull: their gaps are larger by εV at the same A.
    """

    resolved = True

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = epsilon

    def _smoothed(self, found: Placed, V: float) -> Placed:
        """Return the gaps and the pull of smoothed labels, from those of labels as they are."""
        if self.epsilon == 0:
            return found
        pull = found.pull
        share = self.epsilon / (len(found.gaps) + 1)
        lead = found.gaps - V * (pull.others + pull.others.sum(0))  # of the proximal point
        value = pull.value + share * lead.sum(0)
        pull = pull._replace(others=pull.others + share, value=value)
        return Placed(found.gaps + self.epsilon * V, found.stretch, pull)

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """Return the pull of label 1 at gaps (k−1, n), for any number of classes."""
        plain = gaps - self.epsilon * V
        if len(gaps) == 1:
            x = proximal_gap(plain[0], V) - boundary_gap(V, self.epsilon * V)
            return self.on_line(x, V).pull
        spread = np.full(gaps.shape[1], V)
        log_p, u = solve_softmax(-plain.T, spread)
        p = np.exp(log_p)
        trace = softmax_curvature(p, expit(-u), spread)
        margin = plain[0] + V * (expit(u) + p[:, 0])
        pull = Pull(-p.T, trace, np.logaddexp(0.0, u), margin)
        return self._smoothed(Placed(plain, 1.0, pull), V).pull

    def mistake_gap(self, V: float) -> float | None:
        """Return −(1 − ε)V: at z₁ = z₂ the gap is −V(1 − p₁ + p₂) = −V wherever the others are."""
        return (self.epsilon - 1) * V

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points of x, from those of the gap of two classes."""
        shift = self.epsilon * V
        return _with_bends([proximal_gap(breaks - shift, V)], V) - boundary_gap(V, shift)

    def on_line(self, x: Array, V: float) -> Placed:
        """Return gaps and pull of two classes at x (n,): everything is explicit in A."""
        A = x + boundary_gap(V, self.epsilon * V)
        g = expit(-A)  # the other class's probability
        bend = 2 * g * expit(A)
        stretch = 1 + V * bend
        pull = Pull(-g[None], bend / stretch, np.logaddexp(0.0, -A), A)
        return self._smoothed(Placed((A - 2 * V * g)[None], stretch, pull), V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return break points of Y along rows of one a."""
        other = expit(-row - boundary_gap(V, self.epsilon * V))
        return _row_breaks(V * other / (1 + other), breaks)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Return gaps and pull of three classes at x (n,) and Y (n,); A solves an equation."""
        alone = row + boundary_gap(V, self.epsilon * V)  # the label's lead without the third class
        other = expit(-alone)
        a = alone - 2 * V * other
        E = np.exp(-y)
        u = two_class_solution(np.log1p(E) - a, V * (1 + 0.5 * E) / (1 + E))
        found = _of_proximal(u, y, E, V)
        p2 = -found.pull.others[0]
        lost = -found.pull.others.sum(0)  # 1 − p₁
        bend = (1 + 2 * V * other * (1 - other)) / (1 + V * (1 - lost) * (lost + p2))
        gaps = found.gaps + (a - found.gaps[0])
        return self._smoothed(Placed(gaps, found.stretch * bend, found.pull), V)

    def wide(self, width: float, V: float) -> Coordinates | None:
        """Return rows of one A where V is large and labels vary on a scale of 1 in A or more.

        A width of labels in the gap a is narrower in A by ∂a/∂A ≈ 1 + A₀ at the boundary.
        """
        if V < SMALLEST_V_OF_WIDE_ROWS:
            return None
        if width < SMALLEST_LABEL_WIDTH_IN_A * (1 + boundary_gap(V, self.epsilon * V)):
            return None
        return WideProximalCoordinates(self.epsilon)


class WideProximalCoordinates(ProximalCoordinates):
    """Rows of one A: large V, and labels that vary on scale 1 of A or more."""

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points of A, from those of the gap, with the third class far away or level.

        Level with the second one, the two competitors together are one with a lead of ln 2.
        """
        plain = breaks - self.epsilon * V
        level = proximal_gap(plain - math.log(2), 0.75 * V) + math.log(2)
        return _with_bends([proximal_gap(plain, V), level], V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return break points of Y along rows of one A.

        As on rows of one a, but p₂ ≈ σ(−A) is larger and V p₃ ~ V e^{−Y} lasts longer.
        """
        longer = np.sort(np.concatenate([Y_BREAKS[:4], Y_BREAKS[1:] + math.log1p(V)]))
        return _row_breaks(V * expit(-row), breaks, longer)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Return gaps and pull of three classes at A (n,) and Y (n,): everything is explicit."""
        E = np.exp(-y)
        return self._smoothed(_of_proximal(np.log1p(E) - row, y, E, V), V)
