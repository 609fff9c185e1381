"""Cross-entropy of the softmax: what multinomial logistic regression minimises; smoothed labels.

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

Smoothed labels spread a share ε of each label over all classes:

    ℓ(z, y) = −Σ_h t_h ln p_h,   t = (1 − ε)e_y + ε/k,   p = softmax(z)
            = cross-entropy(z, y) + ε(z_y − z̄)

With two classes it is the maximum penalised likelihood of Diaconis and Ylvisaker, whose prior adds
pseudo-observations of either class. The extra term is linear, so that the proximal point is that of
cross-entropy from ω − Vε(e_y − 1/k), and all that is smooth of one is smooth of the other.

For every ε > 0 the loss grows in all directions of the class differences: it has its minimum
ln(1 + (1 − ε)k/ε)·e_y in the fields, and ε > 0 never leaves labels that can be separated without a
minimiser. With fewer samples than features many weights have it (λ → 0⁺ interpolates), with more
there is one, for any labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, softmax, wrightomega

from polyceptron.errors import InvalidInput
from polyceptron.model.law import Decay
from polyceptron.model.losses.coordinates import (
    AdditivePull,
    Coordinates,
    Placed,
    Pull,
    SoftmaxPull,
)
from polyceptron.model.losses.hinges import MaxMargin
from polyceptron.model.losses.loss import Loss, broadcast, one_hot, pair_decay
from polyceptron.numerics import Array
from polyceptron.numerics.panels import blend_breaks, blend_rows
from polyceptron.numerics.softmax_prox import (
    softmax_curvature,
    softmax_prox,
    solve_softmax,
    two_class_root,
)

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
def boundary(V: float, shift: float = 0.0) -> float:
    """A₀ ≥ 0 with A₀ + s = 2Vσ(−A₀)."""
    return float(proximal_gap(np.array([-shift]), V)[0])


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
    """x = A − A₀ on the line; on the plane rows of one a, and Y along them.

    Smoothed labels take ε(e_y − 1/k) off the pull: their gaps are larger by εV at the same A.
    """

    resolved = True

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = epsilon

    def start(self, V: float) -> float:
        """A₀: the proximal gap at a = 0."""
        return boundary(V, self.epsilon * V)

    def _smoothed(self, found: Placed, V: float) -> Placed:
        """From the gaps and the pull of labels as they are."""
        if self.epsilon == 0:
            return found
        pull, share = found.pull, self.epsilon / (len(found.gaps) + 1)
        lead = found.gaps - V * (pull.others + pull.others.sum(0))  # of the proximal point
        value = pull.value + share * lead.sum(0)
        return Placed(
            found.gaps + self.epsilon * V,
            found.stretch,
            pull._replace(others=pull.others + share, value=value),
        )

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        plain = gaps - self.epsilon * V
        if len(gaps) == 1:
            return self.on_line(proximal_gap(plain[0], V) - self.start(V), V).pull
        spread = np.full(gaps.shape[1], V)
        log_p, u = solve_softmax(-plain.T, spread)
        p = np.exp(log_p)
        trace = softmax_curvature(p, expit(-u), spread)
        margin = plain[0] + V * (expit(u) + p[:, 0])
        found = Placed(plain, 1.0, Pull(-p.T, trace, np.logaddexp(0.0, u), margin))
        return self._smoothed(found, V).pull

    def mistake_gap(self, V: float) -> float | None:
        """−V: at z₁ = z₂ the gap is −V(1 − p₁ + p₂) = −V wherever the others are."""
        return (self.epsilon - 1) * V

    def line_breaks(self, breaks: Array, V: float) -> Array:
        return _with_bends([proximal_gap(breaks - self.epsilon * V, V)], V) - self.start(V)

    def on_line(self, x: Array, V: float) -> Placed:
        A = x + self.start(V)
        g = expit(-A)  # the other class's probability
        bend = 2 * g * expit(A)
        stretch = 1 + V * bend
        pull = Pull(-g[None], bend / stretch, np.logaddexp(0.0, -A), A)
        return self._smoothed(Placed((A - 2 * V * g)[None], stretch, pull), V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        other = expit(-row - self.start(V))
        return _row_breaks(V * other / (1 + other), breaks)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        alone = row + self.start(V)  # the label's lead without the third class
        other = expit(-alone)
        a = alone - 2 * V * other
        E = np.exp(-y)
        u = two_class_root(np.log1p(E) - a, V * (1 + 0.5 * E) / (1 + E))
        found = _of_proximal(u, y, E, V)
        p2, lost = -found.pull.others[0], -found.pull.others.sum(0)
        bend = (1 + 2 * V * other * (1 - other)) / (1 + V * (1 - lost) * (lost + p2))
        gaps = found.gaps + (a - found.gaps[0])
        return self._smoothed(Placed(gaps, found.stretch * bend, found.pull), V)

    def wide(self, width: float, V: float) -> Coordinates | None:
        """For labels of scale 1 in A, ∂a/∂A ≈ 1 + A₀ at the boundary."""
        narrow = V < _LARGE or width < _WIDE * (1 + self.start(V))
        return None if narrow else _WideProximal(self.epsilon)


class _WideProximal(ProximalCoordinates):
    """Rows of one A: large V, and labels that vary on scale 1 of A or more."""

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Break points of A, from those of the gap with the third class far away, and level."""
        plain = breaks - self.epsilon * V
        return _with_bends([proximal_gap(plain, x) for x in (V, 0.75 * V)], V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """As on rows of one a, where p₂ ≈ σ(−A) is larger and V p₃ ~ V e^{−Y} lasts longer."""
        longer = np.sort(np.concatenate([_STEPS[:4], _STEPS[1:] + math.log1p(V)]))
        return _row_breaks(V * expit(-row), breaks, longer)

    def on_plane(self, row: Array, y: Array, V: float) -> Placed:
        """Nothing is left to solve."""
        E = np.exp(-y)
        return self._smoothed(_of_proximal(np.log1p(E) - row, y, E, V), V)


def _log_softmax(z: Array) -> Array:
    """SciPy's, without what it does for arrays of other libraries: four times faster on small z."""
    z = z - z.max(1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(1, keepdims=True)))


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"
    solver = "softmax"
    passes = 50
    epsilon: float = 0.0

    def _taken(self, y: Any, k: int) -> Array:
        """ε(e_y − 1/k), (n, k)."""
        return np.asarray(self.epsilon * (one_hot(y, k) - 1 / k))

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        plain = -np.take_along_axis(_log_softmax(z), y[:, None], 1)[:, 0]
        return (
            plain + (z * self._taken(y, z.shape[1])).sum(1) if self.epsilon else np.asarray(plain)
        )

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(_log_softmax(z))
        rest = np.where(np.arange(z.shape[1]) == y[:, None], 0.0, p)
        np.put_along_axis(rest, y[:, None], -rest.sum(1, keepdims=True), 1)  # p_y − 1, exactly
        return rest + self._taken(y, z.shape[1]) if self.epsilon else rest

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        p = np.exp(_log_softmax(z))
        H = -p[:, :, None] * p[:, None, :]
        np.einsum("nhh->nh", H)[...] += p
        return H

    def prox(self, omega: Any, y: Any, V: Any) -> Array:
        omega, y, V = broadcast(omega, y, V)
        return np.asarray(omega + V[:, None] * self.denoise(omega, y, V)[0])

    def denoise(self, omega: Any, y: Any, V: Any) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        if not self.epsilon:
            return softmax_prox(omega, y, V)
        taken = self._taken(y, omega.shape[1])
        f, trace = softmax_prox(omega - V[:, None] * taken, y, V)
        return f - taken, trace

    def without_ridge(self) -> Loss | None:
        """Max-margin in direction, wherever the data can be separated."""
        return MaxMargin()

    def probabilities(self, z: Any) -> Array | None:
        """The softmax."""
        return np.asarray(softmax(np.asarray(z, dtype=float), axis=1))

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1 without a ridge or at the best one, 2/3 at a fixed λ: √q grows as (α/λ)^(1/3)."""
        return pair_decay(ridge, n_classes, math.pi**2 / 12, math.log(2) - 0.5, pull=0.5)

    @property
    def coordinates(self) -> Coordinates:
        """Its proximal point."""
        return ProximalCoordinates(self.epsilon)

    def additive(self, V: float) -> AdditivePull | None:
        """The log-normaliser at the proximal point is held."""
        return SoftmaxPull(V)


@dataclass(frozen=True)
class Smoothed(CrossEntropy):
    """ℓ(z, y) = ln Σ_h exp(z_h) − (1 − ε) z_y − ε z̄.

    The softmax of its fields tends to (1 − ε) times the truth plus ε/k.

    >>> Smoothed(0.1).name
    'smoothed:0.1'
    """

    epsilon: float
    name: str = field(init=False, default="smoothed")
    solver = "newton"
    passes = Loss.passes

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1:
            raise InvalidInput(
                f"the share of smoothed labels must be from 0 to below 1, got {self.epsilon!r}"
            )
        object.__setattr__(self, "name", f"smoothed:{self.epsilon!r}".removesuffix(".0"))

    def without_ridge(self) -> Loss | None:
        return None

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        """p = 1/2: also of aligned students the pull does not vanish where labels are right."""
        return Decay(0.5) if self.epsilon > 0 else super().decay(ridge, n_classes)

    def additive(self, V: float) -> AdditivePull | None:
        return None
