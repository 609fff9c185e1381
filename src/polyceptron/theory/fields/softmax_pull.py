"""The pull of cross-entropy given the losers, integrated over the label's own field.

At the proximal point let p be the softmax and L its log-normaliser. For every loser
V p_h = W(V exp(ω_h − L)) with Lambert's W, so that at fixed L all is explicit,

    p_1 = 1 − Σ p_h,    ω_1 = L + ln p_1 − V(1 − p_1),    ∂ω_1/∂L = S/a_1,

with a = p/(1 + Vp) and S = Σ a over all classes. The integral over ω_1 is taken over L, no proximal
problem is solved at a node, and the losers enter through five sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from polyceptron.model.law import Law
from polyceptron.numerics.panels import legendre_rule
from polyceptron.numerics.wright import wright_omega
from polyceptron.theory.fields.argmax_entropy import levels
from polyceptron.theory.fields.averages import Array
from polyceptron.theory.fields.losers import Configurations

FAR_BELOW, BEYOND = 28, 16  # nodes where the label is far below (if it may be), and far above
RISE, LONG = 28, 26.0  # and between; more where that is longer in ω than this
_LOWEST, _HIGHEST = -7.0, 7.5  # of the label's field in units of √q
_BELOW, _ABOVE = 6.5, 3.5  # where Z rises around the best loser, in widths


def rise_nodes(tau: float, law: Law) -> int:
    """How many nodes Z's rise needs: the pull turns within a few units of ω somewhere in it."""
    span = math.sqrt(law.q) * min((_BELOW + _ABOVE) / max(tau, 1e-9), _HIGHEST - _LOWEST - 1)
    return RISE + min(math.ceil(max(span - LONG, 0.0)), 4 * RISE)


class Sums(NamedTuple):
    """Over the losers at L: Σp, Σa, Σp², Σa², Σωp, each (g, c, i)."""

    p: Array
    a: Array
    pp: Array
    aa: Array
    op: Array


def label_integrals(
    n_classes: int, tau: float, guess: float, law: Law, configs: Configurations, rise: int
) -> Array:
    """rQ, rC, rqD, the loss and 1, weighted with φZ and integrated over ω_1: (5, g, c).

    `tau` is the slope of the utilities in units of their spread, `guess` the channel's η', `rise`
    the number of nodes while Z rises.
    """
    root, V = math.sqrt(law.q), law.V
    omega, count = root * configs.x, configs.copies
    x2 = configs.x[:, :1, None]
    ends = _ends(root, V, tau, x2, guess > 0)
    L, weight = _held_nodes(root, V, omega, count, ends, (FAR_BELOW, rise, BEYOND))
    s = loser_sums(omega, count, L, V)
    p1 = np.maximum(1 - s.p, 1e-300)
    a1 = p1 / (1 + V * p1)
    S = s.a + a1
    omega1 = L + np.log(p1) - V * s.p
    x1 = omega1 / root
    Z = _label_probability(n_classes, configs.product, tau * (x1 - x2))
    if guess > 0:
        Z = guess + (1 - n_classes * guess) * Z
    joint = Z * np.exp(-0.5 * x1**2) * (weight * S / (a1 * root * math.sqrt(2 * math.pi)))
    parts = (
        s.p**2 + s.pp,
        S - (s.aa + a1 * a1) / S,
        omega1 * s.p - s.op,
        -np.log(p1),
        np.ones_like(p1),
    )
    return np.stack([(joint * part).sum(-1) for part in parts])


def loser_sums(omega: Array, count: Array, L: Array, V: float) -> Sums:
    """The sums at fields ω (g, h), each `count` (g, c, h) times, and L (g, c, i)."""
    y = wright_omega(omega[:, None, None, :] + (math.log(V) - L[..., None]))
    p = y / V
    a = p / (1 + y)

    def total(z: Array) -> Array:
        return np.asarray((z @ count[..., None])[..., 0])

    at = omega[:, None, None, :]
    return Sums(total(p), total(a), total(p * p), total(a * a), total(p * at))


def _ends(root: float, V: float, tau: float, x2: Array, guessed: bool) -> list[Array]:
    """Ends (g, 1, 1) of the panels in the label's field, in units of √q."""
    width = 1 / max(tau, 1e-9)
    ends = [
        np.maximum(x2 - _BELOW * width, _LOWEST),
        np.clip(x2 + _ABOVE * width, _LOWEST + 1, _HIGHEST - 1),
        np.clip(x2 + _ABOVE * width + (2 * V + 22) / root, _LOWEST + 1.1, _HIGHEST),
    ]
    if guessed:
        ends[0] = np.minimum(ends[0], _HIGHEST - 1.5)
        ends = [np.full_like(x2, _LOWEST - 0.1), *ends]
    return ends


def _held_nodes(
    root: float, V: float, omega: Array, count: Array, ends: list[Array], panels: tuple[int, ...]
) -> tuple[Array, Array]:
    """Nodes L (g, c, i) and weights, Gauss panels in w with L = base + ln(1 + eʷ)."""
    top = omega[:, :1, None]
    heap = (np.exp(omega[:, None, :] - top) * count).sum(-1, keepdims=True)
    found = np.log(np.maximum(heap, 1e-3)) + top  # ln Σ exp ω: L is not far above
    held = []
    for i, end in enumerate(ends):
        field = root * end
        found = _solve(field, omega, count, V, np.logaddexp(found, field), 4 if i else 6)
        held.append(found)
    lowest, field = held[0], root * ends[0]
    slack = _few_sums(omega, count, lowest, V)[1]
    p1 = np.maximum(wright_omega(field + (V + math.log(V)) - lowest) / V, 1e-10)
    base = lowest - p1 / slack
    w = [end - base + np.log(-np.expm1(base - end)) for end in held]
    nodes, weights = [], []
    for n, low, high in zip(panels[1 - len(ends) :], w[:-1], w[1:], strict=True):
        place, share = legendre_rule(n)
        nodes.append(low + (high - low) * place)
        weights.append((high - low) * share)
    at = np.concatenate(nodes, -1)
    return base + np.logaddexp(0, at), np.concatenate(weights, -1) / (1 + np.exp(-at))


def _few_sums(omega: Array, count: Array, L: Array, V: float) -> tuple[Array, Array]:
    y = wright_omega(omega[:, None, None, :] + (math.log(V) - L[..., None]))
    p = y / V
    both = (z @ count[..., None] for z in (p, p / (1 + y)))
    first, second = (np.asarray(z[..., 0]) for z in both)
    return first, second


def _solve(field: Array, omega: Array, count: Array, V: float, L: Array, steps: int) -> Array:
    """L at which ω_1 is `field` (g, c, 1): Newton on ln Σp = 0, which is nearly linear in L."""
    for _ in range(steps):
        p, a = _few_sums(omega, count, L, V)
        y = wright_omega(field + (V + math.log(V)) - L)  # p_1 exp(V p_1) = exp(ω_1 + V − L)
        total = p + y / V
        L = L + np.log(total) * total / (a + y / V / (1 + y))
    return L


def _label_probability(n_classes: int, product: Array, y: Array) -> Array:
    """Z(y) = ∫ φ(C − y) P(C) dC, P (g, c, C) at the levels, y (g, c, i).

    On equal steps exp(−(C − y)²/2) is exp(−C²/2) exp(−y²/2) times a power of exp(hy): the sum is a
    polynomial. P − Φ decays both ways, and ∫ φ(C − y) Φ(C) dC = Φ(y/√2).
    """
    C, step = levels(n_classes)
    factors = (product - ndtr(C)) * (step / math.sqrt(2 * math.pi) * np.exp(-0.5 * C**2))
    near = np.clip(y, -12.0, 12.0)  # beyond, P − Φ is not felt
    power = np.exp(step * near)
    total = np.zeros_like(y)
    for j in range(C.size - 1, -1, -1):
        total *= power
        total += factors[:, :, j, None]
    total *= np.exp(C[0] * near - 0.5 * near**2)
    return np.asarray(ndtr(y / math.sqrt(2)) + total)
