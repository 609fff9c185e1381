"""Pulls that are sums over the competitors once one number is held still.

For cross-entropy and the hard margin there is a variable L (the log-normaliser at the proximal
point; the labelled class's own field there) given which the competitors act alone:

    f_h = −p(ω_h − L),     f_1 = P = Σ_h p(ω_h − L),     ω_1 = L + d(P)

With a = p′ of each competitor, a_1 = −1/d′ and S = a_1 + Σ a, differentiating ω_1 − L = d(P) gives

    ∂ω_1/∂L = S/a_1,     −tr ∂f = (S² − a_1² − Σ a²)/S

so that, integrated over L instead of ω_1, every average is a polynomial in sums over the others
(`theory/fields/sums.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.special import wright_omega


class LabelPull(NamedTuple):
    """P, a_1 and the loss at the label's field, all of one shape."""

    P: Array
    a: Array
    value: Array


class AdditivePull(Protocol):
    """The two functions p and d at one V, with their inverses."""

    knee: float
    """The t below which p(t) is next to nothing."""

    largest: float
    """The least upper bound of P."""

    scale: float
    """p is this many times the pull."""

    def competitor(self, t: Array) -> tuple[Array, Array]:
        """p and a = p′ at t = ω_h − L."""
        ...

    def label(self, d: Array) -> LabelPull:
        """At d = ω_1 − L; d > 0, where no fields are, continues smoothly to P < 0."""
        ...

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        """t of p, and a there."""
        ...

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        """d of P, a_1 and the loss there."""
        ...


class SoftmaxPull:
    """Cross-entropy: V p = W(V exp t), and p_1 = 1 − P with d = ln p_1 − VP.

    >>> pull = SoftmaxPull(2.0)
    >>> p, _ = pull.competitor(np.array([0.3]))
    >>> bool(abs(pull.competitor_at(p)[0][0] - 0.3) < 1e-9)
    True
    """

    largest = 1.0
    scale = 1.0

    def __init__(self, V: float) -> None:
        self.V, self.log_V = V, math.log(V)
        self.knee = -math.log(max(V, 1.0)) - 4

    def competitor(self, t: Array) -> tuple[Array, Array]:
        y = wright_omega(t + self.log_V)
        p = y / self.V
        return p, p / (1 + y)

    def label(self, d: Array) -> LabelPull:
        # For p_1 near 1 the difference 1 − p_1 comes from ln p_1 = d + VP, by one Newton step.
        y = wright_omega(d + (self.V + self.log_V))
        p = y / self.V
        P = 1 - p
        with np.errstate(invalid="ignore", divide="ignore"):
            P = np.where(np.abs(P) < 0.5, P - (np.log1p(-P) - self.V * P - d) * -(p / (1 + y)), P)
            value = np.where(np.abs(P) < 0.5, -np.log1p(-P), -(d + self.V * P))
        return LabelPull(P, p / (1 + y), value)

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        return np.log(p) + self.V * p, p / (1 + self.V * p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        log_p = np.log1p(-P)
        p = 1 - P
        return log_p - self.V * P, p / (1 + self.V * p), -log_p


class MarginPull:
    """A hard margin κ: Vf is made of p = max(t + κ, 0) and d = −P, L the label's own field."""

    largest = math.inf

    def __init__(self, V: float, margin: float) -> None:
        self.scale, self.margin, self.knee = V, margin, -margin

    def competitor(self, t: Array) -> tuple[Array, Array]:
        return np.maximum(t + self.margin, 0.0), (t >= self.knee).astype(float)

    def label(self, d: Array) -> LabelPull:
        return LabelPull(-d, np.ones_like(d), np.zeros_like(d))

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        return p - self.margin, np.ones_like(p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        return -P, np.ones_like(P), np.zeros_like(P)
