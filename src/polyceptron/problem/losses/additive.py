"""Losses whose competitors act independently, given one variable L of the label.

For cross-entropy L is the log-normaliser at the proximal point, for a hard margin the labelled
class's own field there. The pull f of a sample with label 1 is then

    f_h = −p(ω_h − L),     f_1 = P = Σ_h p(ω_h − L),     ω_1 = L + d(P)

With a = p′ of each competitor, a_1 = −1/d′ and S = a_1 + Σ a, differentiating ω_1 − L = d(P) gives

    ∂ω_1/∂L = S/a_1,     −tr ∂f = (S² − a_1² − Σ a²)/S

so that, integrated over L instead of ω_1, every average is a polynomial in sums over the others
(`sides/fields/sums.py`). A class of this file gives p, a, d and a_1 of one loss at one V.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.special import wright_omega


class LabelPull(NamedTuple):
    """P, a_1 and the loss ℓ at the label's field, all of one shape."""

    P: Array
    a: Array
    value: Array


class SoftmaxPull:
    """Cross-entropy: V p = W(V exp t) with Lambert's W, and p_1 = 1 − P with d = ln p_1 − VP.

    Attributes
    ----------
    knee : float
        The t below which p(t) is next to nothing.
    largest : float
        The least upper bound of P.
    scale : float
        p is `scale` times the pull.

    Examples
    --------
    >>> pull = SoftmaxPull(2.0)
    >>> p, _ = pull.competitor(np.array([0.3]))
    >>> bool(abs(pull.competitor_at(p)[0][0] - 0.3) < 1e-9)
    True
    """

    def __init__(self, V: float) -> None:
        self.V = V
        self.log_V = math.log(V)
        self.scale = 1.0
        self.largest = 1.0
        self.knee = -math.log(max(V, 1.0)) - 4

    def competitor(self, t: Array) -> tuple[Array, Array]:
        """Return p and a = p′ at t = ω_h − L, in the shape of t."""
        y = wright_omega(t + self.log_V)
        p = y / self.V
        return p, p / (1 + y)

    def label(self, d: Array) -> LabelPull:
        """Return P, a_1 and ℓ at d = ω_1 − L, in the shape of d.

        No fields have d > 0; there the function continues smoothly to P < 0.
        """
        y = wright_omega(d + (self.V + self.log_V))
        p = y / self.V
        a = p / (1 + y)
        P = 1 - p
        with np.errstate(invalid="ignore", divide="ignore"):
            # For p_1 near 1 the difference 1 − p_1 comes from ln p_1 = d + VP, by one Newton step.
            small = np.abs(P) < 0.5
            residual = np.log1p(-P) - self.V * P - d
            P = np.where(small, P - residual * -a, P)
            value = np.where(np.abs(P) < 0.5, -np.log1p(-P), -(d + self.V * P))
        return LabelPull(P, a, value)

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        """Return t at which a competitor has p, and a there."""
        return np.log(p) + self.V * p, p / (1 + self.V * p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        """Return d at which the label has P, and a_1 and ℓ there."""
        log_p = np.log1p(-P)
        p = 1 - P
        return log_p - self.V * P, p / (1 + self.V * p), -log_p


class MarginPull:
    """A hard margin κ: Vf is made of p = max(t + κ, 0) and d = −P, L the label's own field.

    The attributes are those of `SoftmaxPull`.
    """

    def __init__(self, V: float, margin: float) -> None:
        self.scale = V
        self.margin = margin
        self.knee = -margin
        self.largest = math.inf

    def competitor(self, t: Array) -> tuple[Array, Array]:
        """Return p and a = p′ at t = ω_h − L, in the shape of t."""
        return np.maximum(t + self.margin, 0.0), (t >= self.knee).astype(float)

    def label(self, d: Array) -> LabelPull:
        """Return P, a_1 and ℓ = 0 at d = ω_1 − L, in the shape of d."""
        return LabelPull(-d, np.ones_like(d), np.zeros_like(d))

    def competitor_at(self, p: Array) -> tuple[Array, Array]:
        """Return t at which a competitor has p, and a there."""
        return p - self.margin, np.ones_like(p)

    def label_at(self, P: Array) -> tuple[Array, Array, Array]:
        """Return d at which the label has P, and a_1 and ℓ there."""
        return -P, np.ones_like(P), np.zeros_like(P)


AdditivePull = SoftmaxPull | MarginPull
