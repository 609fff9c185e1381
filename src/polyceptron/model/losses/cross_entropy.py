"""Cross-entropy of the softmax: what multinomial logistic regression minimises.

The theory integrates over its proximal point, in which it varies on scale 1 for every V. Two
classes: everything is explicit in the gap A of the proximal point,

    a = A − 2Vσ(−A),    da/dA = 1 + 2Vσ(A)σ(−A),

and the coordinate is x = A − A₀, with A₀ the proximal gap at a = 0: held still while V changes, x
stays on the boundary a = 0, about which fields and labels vary.

Three classes: rows are placed by the A that a would have with two classes, and along a row the gap
y = ω₂ − ω₃ is replaced by Y = z₂ − z₃; given (a, Y) the remaining gap A solves a two-class problem:

    |∂ω/∂z| on 1⊥ = ∏_h (1 + V p_h) · Σ_h p_h/(1 + V p_h),    ∂a/∂A = 1 + V p₁(2p₂ + p₃).

On rows of one a the three classes part within 1/V of a place that moves with Y, which counts where
V is large and labels are mistaken far from the boundary, as near α_s without a ridge. On rows of
one A nothing of the loss varies faster than on scale 1 (`_WideProximal`); labels must not, either.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax, wrightomega

from polyceptron.model.law import Decay
from polyceptron.model.losses.base import Loss, broadcast
from polyceptron.model.losses.coordinates import (
    AdditivePull,
    Coordinates,
    Placed,
    Pull,
    SoftmaxPull,
)
from polyceptron.model.losses.max_margin import MaxMargin
from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, blend_rows
from polyceptron.numerics.softmax_prox import (
    softmax_curvature,
    softmax_prox,
    solve_softmax,
    two_class_root,
)
from polyceptron.numerics.special import boundary_density

_PANEL = 2.8  # of A, where σ(A) bends: six nodes then give four digits
_DEAD = 14.0  # e^{−14} = 1e-6 of the pull is left; what remains is a smooth tail
_TAIL = np.array([4.0, 10.0, 20.0, 40.0])
_STEPS = np.array([0.0, 0.7, 2.0, 4.5, 8.0, 13.0, 20.0])  # of Y: e^{−Y} is gone at the last
_SHARE = 0.85  # of the panels of Y, along which all is smoother than along A
_LARGE = 20.0  # V from which rows of one gap need more nodes than they have
_WIDE = 0.3  # of the labels in A, from which rows of one A serve them


def proximal_gap(gap: Array, V: float) -> Array:
    """A with A − 2Vσ(−A) = a: the two-class proximal point."""
    return -two_class_root(-gap, np.full(gap.shape, V))


@lru_cache(maxsize=32)
def boundary(V: float) -> float:
    """A₀ ≥ 0 with A₀ = 2Vσ(−A₀), by Newton's method, which climbs to it from the left.

    There A₀ + ln A₀ + ln(1 + e^{−A₀}) = ln 2V, so that ln 2V − ln ln 2V − ln 2 lies below.
    """
    log_2V = math.log(2 * V)
    A = log_2V - math.log(log_2V) - math.log(2) if log_2V > 3 else 0.0
    for _ in range(60):
        g = 1 / (1 + math.exp(A))
        step = (2 * V * g - A) / (1 + 2 * V * g * (1 - g))
        A += step
        if abs(step) <= 1e-15 * A:
            break
    return A


def _with_bends(sets: list[Array], V: float) -> Array:
    """Break points of A that follow sets of them and a pull that bends about 0 and dies away."""
    low, high = min(float(A[0]) for A in sets), max(float(A[-1]) for A in sets)
    # Below, the pull is 1 and its curvature dies as V e^A; above, it dies as e^{−A}.
    bent = math.log1p(2 * V) + _DEAD
    first, last = max(low, -bent), min(high, max(low, 0.0) + bent)
    bends = np.linspace(first, last, math.ceil((last - first) / _PANEL) + 1)
    own = np.concatenate([first - _TAIL[::-1], bends, last + _TAIL])
    return blend_breaks([*sets, own], low, high, keep=(0.0,))


def _row_breaks(c: Array, breaks: Array, steps: Array = _STEPS) -> Array:
    """Near the row's start y ≈ Y + c(1 − e^{−Y}), c = V p₂: break points of y, seen in Y."""
    c = c[:, None] + 1e-300
    Y = np.maximum(breaks - c + np.real(wrightomega(c - breaks + np.log(c))), 0.0)
    Y[:, 0] = 0.0
    return blend_rows(Y, steps, _SHARE)


def _of_proximal(u: Array, Y: Array, E: Array, V: float) -> Placed:
    """Gaps, volume and pull where the loss is ln(1 + e^u) and the other classes are apart by Y."""
    lost = expit(u)
    p1, p2 = expit(-u), lost / (1 + E)
    p3 = p2 * E
    A = np.log1p(E) - u
    gaps = np.empty((2, len(u)))
    gaps[0] = A - V * (p2 + lost)
    gaps[1] = gaps[0] + Y + V * (p2 - p3)
    d1, d2, d3 = 1 + V * p1, 1 + V * p2, 1 + V * p3
    a1, a2, a3 = p1 / d1, p2 / d2, p3 / d3
    total = a1 + a2 + a3
    trace = 2 * (a1 * a2 + (a1 + a2) * a3) / total
    pull = Pull(np.stack([-p2, -p3]), trace, np.logaddexp(0.0, u), A)
    return Placed(gaps, d1 * d2 * d3 * total, pull)


class ProximalCoordinates(Coordinates):
    """x = A − A₀ on the line; on the plane rows of one a, and Y along them."""

    resolved = True

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        if len(gaps) == 1:
            return self.on_line(proximal_gap(gaps[0], V) - boundary(V), V).pull
        spread = np.full(gaps.shape[1], V)
        log_p, u = solve_softmax(-gaps.T, spread)
        p = np.exp(log_p)
        trace = softmax_curvature(p, expit(-u), spread)
        margin = gaps[0] + V * (expit(u) + p[:, 0])
        return Pull(-p.T, trace, np.logaddexp(0.0, u), margin)

    def mistake_gap(self, V: float) -> float | None:
        """−V: at z₁ = z₂ the gap is −V(1 − p₁ + p₂) = −V wherever the others are."""
        return -V

    def line_breaks(self, breaks: Array, V: float) -> Array:
        return _with_bends([proximal_gap(breaks, V)], V) - boundary(V)

    def on_line(self, x: Array, V: float) -> Placed:
        A = x + boundary(V)
        g = expit(-A)  # the other class's probability
        bend = 2 * g * expit(A)
        stretch = 1 + V * bend
        pull = Pull(-g[None], bend / stretch, np.logaddexp(0.0, -A), A)
        return Placed((A - 2 * V * g)[None], stretch, pull)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        other = expit(-row - boundary(V))
        return _row_breaks(V * other / (1 + other), breaks)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        alone = row + boundary(V)  # the label's lead without the third class
        other = expit(-alone)
        a = alone - 2 * V * other
        E = np.exp(-y)
        u = two_class_root(np.log1p(E) - a, V * (1 + 0.5 * E) / (1 + E))
        found = _of_proximal(u, y, E, V)
        p2, lost = -found.pull.others[0], -found.pull.others.sum(0)
        bend = (1 + 2 * V * other * (1 - other)) / (1 + V * (1 - lost) * (lost + p2))
        return Placed(found.gaps + (a - found.gaps[0]), found.stretch * bend, found.pull)

    def wide(self, width: float, V: float) -> Coordinates | None:
        """For labels of scale 1 in A, ∂a/∂A ≈ 1 + A₀ at the boundary."""
        narrow = V < _LARGE or width < _WIDE * (1 + boundary(V))
        return None if narrow else _WideProximal()


class _WideProximal(ProximalCoordinates):
    """Rows of one A: large V, and labels that vary on scale 1 of A or more."""

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Break points of A, from those of the gap with the third class far away, and level."""
        return _with_bends([proximal_gap(breaks, x) for x in (V, 0.75 * V)], V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """As on rows of one a, where p₂ ≈ σ(−A) is larger and V p₃ ~ V e^{−Y} lasts longer."""
        longer = np.sort(np.concatenate([_STEPS[:4], _STEPS[1:] + math.log1p(V)]))
        return _row_breaks(V * expit(-row), breaks, longer)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Nothing is left to solve."""
        E = np.exp(-y)
        return _of_proximal(np.log1p(E) - row, y, E, V)


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"
    solver = "softmax"
    passes = 50

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        return -np.asarray(np.take_along_axis(log_softmax(z, axis=1), y[:, None], 1)[:, 0])

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(log_softmax(z, axis=1))
        rest = np.where(np.arange(z.shape[1]) == y[:, None], 0.0, p)
        np.put_along_axis(rest, y[:, None], -rest.sum(1, keepdims=True), 1)  # p_y − 1, exactly
        return rest

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(log_softmax(z, axis=1))
        return np.asarray(p[:, :, None] * np.eye(z.shape[1]) - p[:, :, None] * p[:, None, :])

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + V[:, None] * softmax_prox(omega, y, V)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        return softmax_prox(*broadcast(omega, y, V))

    def without_ridge(self) -> Loss | None:
        """Max-margin in direction, wherever the data can be separated."""
        return MaxMargin()

    def probabilities(self, z: Any) -> Array | None:
        """The softmax."""
        return np.asarray(softmax(np.asarray(z, dtype=float), axis=1))

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1 without a ridge or at the best one, 2/3 at a fixed λ: √q grows as (α/λ)^(1/3).

        There C_k = B_k^(1/3) (k − 1)^(2/3) C₂, from pairs of classes.
        """
        if ridge in (0, "optimal"):
            return Decay(1.0)
        pairs = boundary_density(n_classes) * (n_classes - 1) ** 2
        return Decay(2 / 3, pairs ** (1 / 3) * two_class_constant(float(ridge)))

    @property
    def coordinates(self) -> Coordinates:
        """Its proximal point."""
        return ProximalCoordinates()

    def additive(self, V: float) -> AdditivePull | None:
        """The log-normaliser at the proximal point is held."""
        return SoftmaxPull(V)


def two_class_constant(ridge: float) -> float:
    """C₂ at fixed λ: (λ^(1/6)/π) √((2 ln 2 − 1)√π/κ), κ = (π^(3/2)/12)^(1/3).

    A student aligned with the teacher has mean loss π^(3/2)/(12√q); with the ridge λq/2 that puts
    the norm at √q = κ(α/λ)^(1/3). There V → 0, M → 1/√π and Q → (2 ln 2 − 1)/√(πq) in τ² = αM²/Q.
    """
    kappa = (math.pi**1.5 / 12) ** (1 / 3)
    spread = (2 * math.log(2) - 1) * math.sqrt(math.pi) / kappa
    return ridge ** (1 / 6) / math.pi * math.sqrt(spread)
