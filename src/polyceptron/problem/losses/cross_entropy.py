"""Cross-entropy of the softmax: what multinomial logistic regression minimises; smoothed labels.

With p = softmax(prox) the stationarity conditions z_h + V p_h = ω_h (h ≠ y) and
z_y = ω_y + V(1 − p_y) leave one unknown a sample, u = logit(1 − p_y): the normaliser is
L = ω_y + Vσ(u) + ln(1 + e^u), the other probabilities solve p_h exp(V p_h) = exp(ω_h − L), that is
p_h = W(V exp(ω_h − L))/V with Lambert's W, and Σ_{h≠y} p_h = σ(u) fixes u. The left side falls and
the right side grows with u, and u lies between the two-class solution and its value at V = 0, so
Newton with that bracket always arrives; working with ln p_h nothing overflows or cancels.

The theory integrates over its proximal point, in which it varies on scale 1 for every V. Two
classes: everything is explicit in the gap A of the proximal point,

    a = A − 2Vσ(−A),    da/dA = 1 + 2Vσ(A)σ(−A),

and the coordinate is x = A − A₀, with A₀ the proximal gap at a = 0: held still while V changes, x
stays on the boundary, about which fields and labels vary.

Three classes: rows are placed by the A that a would have with two classes, and along a row the gap
y = ω₂ − ω₃ is replaced by Y = z₂ − z₃; given (a, Y) the remaining gap A solves a two-class problem:

    |∂ω/∂z| on 1⊥ = ∏_h (1 + V p_h) · Σ_h p_h/(1 + V p_h),    ∂a/∂A = 1 + V p₁(2p₂ + p₃).

On rows of one a the three classes part within 1/V of a place that moves with Y, which counts where
V is large and labels are mistaken far from the boundary, as near α_s without a ridge. On rows of
one A nothing of the loss varies faster than on scale 1; labels must not, either.

Smoothed labels spread a share ε of each label over all classes:

    ℓ(z, y) = −Σ_h t_h ln p_h,   t = (1 − ε)e_y + ε/k,   p = softmax(z)
            = cross-entropy(z, y) + ε(z_y − z̄)

With two classes it is the maximum penalised likelihood of Diaconis and Ylvisaker, whose prior adds
pseudo-observations of either class. The extra term is linear, so that the proximal point is that of
cross-entropy from ω − Vε(e_y − 1/k), and all that is smooth of one is smooth of the other. For
every ε > 0 the loss has a minimum in the fields, ln(1 + (1 − ε)k/ε)·e_y: with more samples than
features there is a minimiser for any labels.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, wrightomega

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.orthant import other_classes
from polyceptron.numerics.panels import blend_breaks, blend_rows
from polyceptron.problem.losses import coordinates as xy
from polyceptron.problem.losses.hinges import MaxMargin
from polyceptron.problem.losses.loss import Loss, broadcast, one_hot, pair_decay
from polyceptron.problem.order import Decay

_PANEL = 2.8  # of A, where σ(A) bends: six nodes then give four digits
_DEAD = 14.0  # e^{−14} = 1e-6 of the pull is left; what remains is a smooth tail
_TAIL = np.array([4.0, 10.0, 20.0, 40.0])
_STEPS = np.array([0.0, 0.7, 2.0, 4.5, 8.0, 13.0, 20.0])  # of Y: e^{−Y} is gone at the last
_SHARE = 0.85  # of the panels of Y, along which all is smoother than along A
_LARGE = 20.0  # V from which rows of one gap need more nodes than they have
_WIDE = 0.3  # of the labels in A, from which rows of one A serve them


def softmax_curvature(p: Array, p_y: Array, V: Array) -> Array:
    """tr_⊥ H(I + VH)⁻¹ for H = diag(p) − ppᵀ, from p of the competitors (n, k−1) and of y (n,).

    With a_h = p_h/(1 + V p_h) it is (S² − Σa²)/S, S = Σa: Sherman–Morrison, without cancellation.
    """
    a = np.concatenate([p_y[:, None], p], axis=1)
    a /= 1 + V[:, None] * a
    largest = np.arange(len(a)), a.argmax(1)
    top, a[largest] = a[largest], 0.0
    rest = a @ np.ones(a.shape[1])
    pairs = rest**2 - np.einsum("nh,nh->n", a, a)
    return np.asarray((2 * top * rest + pairs) / (top + rest))


def solve_softmax(gap: Array, V: Array, rounds: int = 100) -> tuple[Array, Array]:
    """ln p_h of the competitors (n, k−1) and u = logit(1 − p_y) (n,), from ω_h − ω_y and V > 0."""
    if gap.shape[1] == 1:
        u = two_class_root(gap[:, 0], V)
        return log_expit(u)[:, None], u
    log_V = np.log(V)
    peak = gap.max(1)
    high = peak + np.log(np.exp(gap - peak[:, None]).sum(1))  # u at V = 0
    u = two_class_start(high, V)
    low = np.minimum(high - 2 * V, u) - 1.0
    high = high + 1e-12 * (1 + np.abs(high))
    u = np.clip(u, low, high)
    for _ in range(rounds):
        e = expit(u)
        softplus = np.logaddexp(0.0, u)
        x = gap - (V * e + softplus - log_V)[:, None]
        w = np.real(wrightomega(x))  # V p_h
        # ln w = x − w exactly; each form is used where it does not cancel or underflow.
        log_p = np.where(w > 0.5, np.log(np.maximum(w, 0.5)), x - w) - log_V[:, None]
        top = log_p.max(1)
        scaled = np.exp(log_p - top[:, None])
        total = scaled.sum(1)
        residual = top + np.log(total) + (softplus - u)  # ln Σp − ln σ(u), falls with u
        low = np.where(residual > 0, np.maximum(low, u), low)
        high = np.where(residual < 0, np.minimum(high, u), high)
        flexible = (scaled / (1 + w)).sum(1) / total
        step = residual / (flexible * e * (V * (1 - e) + 1) + (1 - e))
        new = u + step
        outside = (new < low) | (new > high)
        new = np.where(outside, (low + high) / 2, new)
        done = (np.abs(step) <= 1e-12 * (1 + np.abs(u))) | (high - low <= 1e-15 * np.abs(u))
        u = new
        if done.all():
            break
    log_p = log_p - (flexible * (V * e * (1 - e) + e) * step)[:, None] / (1 + w)
    return np.minimum(log_p, 0.0), u


def two_class_start(u0: Array, V: Array) -> Array:
    """About the root of u + 2Vσ(u) = u₀, from σ(u) ≈ e^u below 0 and 1 − e^{−u} above."""
    two = 2 * V
    below = u0 <= V
    x = np.where(below, u0, two - u0)
    root = x - np.real(wrightomega(x + np.log(two)))
    return np.asarray(np.where(below, root, -root))


def two_class_root(u0: Array, V: Array) -> Array:
    """The root of u + 2Vσ(u) = u₀, elementwise: the two-class proximal point of cross-entropy."""
    u = two_class_start(u0, V)
    two = 2 * V
    for _ in range(30):
        e = expit(u)
        step = (u + two * e - u0) / (1 + two * e * (1 - e))
        # σ bends at 0: a step across it may overshoot, so it stops there first.
        across = ((u < 0) & (u - step > 1)) | ((u > 0) & (u - step < -1))
        u = np.where(across, 0.0, u - step)
        if np.max(np.abs(step) / (1 + np.abs(u)), initial=0.0) < 1e-8:
            break
    return u


def proximal_gap(gap: Array, V: float) -> Array:
    """A with A − 2Vσ(−A) = a: the two-class proximal point."""
    return -two_class_root(-gap, np.full(gap.shape, V))


@lru_cache(maxsize=32)
def _start(V: float, shift: float) -> float:
    """A₀ with A₀ + s = 2Vσ(−A₀): the proximal gap at a = 0 where gaps are larger by s."""
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


def _of_proximal(u: Array, Y: Array, E: Array, V: float) -> xy.Placed:
    """Gaps, volume and pull where the loss is ln(1 + e^u) and the other classes are apart by Y."""
    lost, A = expit(u), np.log1p(E) - u
    p1, p2 = expit(-u), lost / (1 + E)
    p3 = p2 * E
    first = A - V * (p2 + lost)
    gaps = np.stack([first, first + Y + V * (p2 - p3)])
    d1, d2, d3 = 1 + V * p1, 1 + V * p2, 1 + V * p3
    a1, a2, a3 = p1 / d1, p2 / d2, p3 / d3
    total = a1 + a2 + a3
    trace = 2 * (a1 * a2 + (a1 + a2) * a3) / total
    pull = xy.Pull(np.stack([-p2, -p3]), trace, np.logaddexp(0.0, u), A)
    return xy.Placed(gaps, d1 * d2 * d3 * total, pull)


class ProximalCoordinates(xy.Coordinates):
    """x = A − A₀ on the line; on the plane rows of one a, and Y along them.

    Smoothed labels take ε(e_y − 1/k) off the pull: their gaps are larger by εV at the same A.
    """

    resolved = True

    def __init__(self, epsilon: float = 0.0) -> None:
        self.epsilon = epsilon

    def _smoothed(self, found: xy.Placed, V: float) -> xy.Placed:
        """From the gaps and the pull of labels as they are."""
        if self.epsilon == 0:
            return found
        pull, share = found.pull, self.epsilon / (len(found.gaps) + 1)
        lead = found.gaps - V * (pull.others + pull.others.sum(0))  # of the proximal point
        value = pull.value + share * lead.sum(0)
        pull = pull._replace(others=pull.others + share, value=value)
        return xy.Placed(found.gaps + self.epsilon * V, found.stretch, pull)

    def at_gaps(self, gaps: Array, V: float) -> xy.Pull:
        plain = gaps - self.epsilon * V
        if len(gaps) == 1:
            return self.on_line(proximal_gap(plain[0], V) - _start(V, self.epsilon * V), V).pull
        spread = np.full(gaps.shape[1], V)
        log_p, u = solve_softmax(-plain.T, spread)
        p = np.exp(log_p)
        trace = softmax_curvature(p, expit(-u), spread)
        margin = plain[0] + V * (expit(u) + p[:, 0])
        pull = xy.Pull(-p.T, trace, np.logaddexp(0.0, u), margin)
        return self._smoothed(xy.Placed(plain, 1.0, pull), V).pull

    def mistake_gap(self, V: float) -> float | None:
        """−V: at z₁ = z₂ the gap is −V(1 − p₁ + p₂) = −V wherever the others are."""
        return (self.epsilon - 1) * V

    def line_breaks(self, breaks: Array, V: float) -> Array:
        shift = self.epsilon * V
        return _with_bends([proximal_gap(breaks - shift, V)], V) - _start(V, shift)

    def on_line(self, x: Array, V: float) -> xy.Placed:
        A = x + _start(V, self.epsilon * V)
        g = expit(-A)  # the other class's probability
        bend = 2 * g * expit(A)
        stretch = 1 + V * bend
        pull = xy.Pull(-g[None], bend / stretch, np.logaddexp(0.0, -A), A)
        return self._smoothed(xy.Placed((A - 2 * V * g)[None], stretch, pull), V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        other = expit(-row - _start(V, self.epsilon * V))
        return _row_breaks(V * other / (1 + other), breaks)

    def on_plane(self, row: Array, y: Array, V: float) -> xy.Placed:
        alone = row + _start(V, self.epsilon * V)  # the label's lead without the third class
        other = expit(-alone)
        a = alone - 2 * V * other
        E = np.exp(-y)
        u = two_class_root(np.log1p(E) - a, V * (1 + 0.5 * E) / (1 + E))
        found = _of_proximal(u, y, E, V)
        p2, lost = -found.pull.others[0], -found.pull.others.sum(0)
        bend = (1 + 2 * V * other * (1 - other)) / (1 + V * (1 - lost) * (lost + p2))
        gaps = found.gaps + (a - found.gaps[0])
        return self._smoothed(xy.Placed(gaps, found.stretch * bend, found.pull), V)

    def wide(self, width: float, V: float) -> xy.Coordinates | None:
        """For labels of scale 1 in A, ∂a/∂A ≈ 1 + A₀ at the boundary."""
        narrow = V < _LARGE or width < _WIDE * (1 + _start(V, self.epsilon * V))
        return None if narrow else _WideProximal(self.epsilon)


class _WideProximal(ProximalCoordinates):
    """Rows of one A: large V, and labels that vary on scale 1 of A or more."""

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Break points of A, from those of the gap with the third class far away, and level."""
        plain, two = breaks - self.epsilon * V, math.log(2)
        level = proximal_gap(plain - two, 0.75 * V) + two
        return _with_bends([proximal_gap(plain, V), level], V)

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """As on rows of one a, where p₂ ≈ σ(−A) is larger and V p₃ ~ V e^{−Y} lasts longer."""
        longer = np.sort(np.concatenate([_STEPS[:4], _STEPS[1:] + math.log1p(V)]))
        return _row_breaks(V * expit(-row), breaks, longer)

    def on_plane(self, row: Array, y: Array, V: float) -> xy.Placed:
        E = np.exp(-y)
        return self._smoothed(_of_proximal(np.log1p(E) - row, y, E, V), V)


def _odds(z: Array) -> tuple[Array, Array, Array]:
    """z less its largest (n, k), e^ of that, its sum (n, 1); numpy reduces short rows slowly."""
    z = z - reduce(np.maximum, z.T)[:, None]
    odds = np.exp(z)
    return z, odds, (odds @ np.ones(z.shape[1]))[:, None]


class CrossEntropy(Loss):
    """ℓ(z, y) = ln Σ_h exp(z_h) − z_y.

    >>> float(CrossEntropy().value([[0.0, 0.0]], [1])[0]) == float(np.log(2))
    True
    """

    name = "cross-entropy"
    solver, passes = "softmax", 50
    epsilon: float = 0.0
    rough: ClassVar[dict[str, Any]] = {"rounds": 2}

    def _taken(self, y: Any, k: int) -> Array:
        """ε(e_y − 1/k), (n, k), or one row of zeros."""
        return self.epsilon * (one_hot(y, k) - 1 / k) if self.epsilon else np.zeros((1, k))

    def value(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        shifted, _, total = _odds(z)
        plain = np.log(total[:, 0]) - shifted[np.arange(len(z)), y]
        return plain + (z * self._taken(y, z.shape[1])).sum(1) if self.epsilon else plain

    def gradient(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        _, rest, total = _odds(z)
        rest /= total
        own = np.arange(len(z)), y
        rest[own] = 0.0
        rest[own] = -(rest @ np.ones(z.shape[1]))  # p_y − 1
        return rest + self._taken(y, z.shape[1]) if self.epsilon else rest

    def hessian(self, z: Any, y: Any) -> Array:
        z, y, _ = broadcast(z, y, 1.0)
        _, odds, total = _odds(z)
        p = odds / total
        H = -p[:, :, None] * p[:, None, :]
        np.einsum("nhh->nh", H)[...] += p
        return H

    def denoise(self, omega: Any, y: Any, V: Any, rounds: int = 100) -> tuple[Array, Array]:
        omega, y, V = broadcast(omega, y, V)
        taken, others = self._taken(y, omega.shape[1]), other_classes(y, omega.shape[1])
        omega, rows = omega - V[:, None] * taken, np.arange(len(omega))
        gap = omega[rows[:, None], others] - omega[rows, y][:, None]
        log_p, u = solve_softmax(gap, V, rounds)
        p, f = np.exp(log_p), np.empty(omega.shape)
        f[rows[:, None], others] = -p
        f[rows, y] = expit(u)  # 1 − p_y
        return f - taken, softmax_curvature(p, expit(-u), V)

    def relaxed(self, gradient: Array, y: Any, v: Array, right: Array) -> Array:
        """Sherman and Morrison's, of ∇²ℓ = diag(p) − ppᵀ."""
        p = gradient - self._taken(y, gradient.shape[1])
        p[np.arange(len(p)), y] += 1.0
        a, one = p / (1 + v * p), np.ones(p.shape[1])
        part = (a * right) @ one / (a @ one)
        return np.asarray(right - v * a * (right - part[:, None]))

    def without_ridge(self) -> Loss | None:
        """Max-margin in direction, wherever the data can be separated."""
        return MaxMargin()

    def probabilities(self, z: Any) -> Array | None:
        _, odds, total = _odds(np.asarray(z, dtype=float))
        return np.asarray(odds / total)

    def decay(self, ridge: float | str, n_classes: int) -> Decay | None:
        return pair_decay(ridge, n_classes, math.pi**2 / 12, math.log(2) - 0.5, pull=0.5)

    @property
    def coordinates(self) -> xy.Coordinates:
        return ProximalCoordinates(self.epsilon)

    def additive(self, V: float) -> xy.AdditivePull | None:
        return xy.SoftmaxPull(V)


@dataclass(frozen=True)
class Smoothed(CrossEntropy):
    """ℓ(z, y) = ln Σ_h exp(z_h) − (1 − ε) z_y − ε z̄.

    The softmax of its fields tends to (1 − ε) times the truth plus ε/k.

    >>> Smoothed(0.1).name
    'smoothed:0.1'
    """

    epsilon: float
    name: str = field(init=False, default="smoothed")
    solver, passes = "newton", 400

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

    def additive(self, V: float) -> xy.AdditivePull | None:
        return None
