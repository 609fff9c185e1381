"""The square loss in closed form, for any k, channel, α and λ, with independent features.

With c the channel's signal (E[max of k normals]/(k−1) without noise), s² = 1/k and σ² = s² − c²
(the part of the label that no linear rule explains), V solves λV² + (λ + α − 1)V − 1 = 0 and

    m = αcV/(1+V),   A = αV²/(1+V)²,   q = (m² + A(s² − 2mc))/(1 − A).

The best ridge is λ = σ²/c² at every α. As λ → 0⁺ (minimum-norm interpolation below α = 1) the norm
diverges at α = 1 while m stays finite: there ρ → 0 and the error tends to that of a random guess.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from polyceptron.model.channels import Channel


class SquareSolution(NamedTuple):
    """The fixed point; at λ → 0⁺ and α < 1, V is infinite and `scaled_V` = λV stays finite."""

    m: float
    q: float
    V: float
    scaled_V: float
    tau: float


def best_square_ridge(channel: Channel, n_classes: int) -> float:
    """λ = σ²/c² = 1/(k c²) − 1, the same at every α.

    >>> from polyceptron.model import GaussianNoise
    >>> bool(abs(best_square_ridge(GaussianNoise(), 2) - (math.pi / 2 - 1)) < 1e-12)
    True
    """
    return 1 / (n_classes * channel.signal(n_classes) ** 2) - 1


def solve_square(n_classes: int, signal: float, alpha: float, ridge: float) -> SquareSolution:
    """The fixed point at λ > 0, or its limit λ → 0⁺ (infinite q at α = 1)."""
    c, s2 = signal, 1 / n_classes
    if ridge == 0 and alpha <= 1:
        m = alpha * c
        q = alpha * (s2 - alpha * c**2) / (1 - alpha) if alpha < 1 else math.inf
        V, scaled, ratio = math.inf, 1 - alpha, alpha / (1 - alpha) if alpha < 1 else math.inf
    elif ridge == 0:
        V, scaled, ratio = 1 / (alpha - 1), 0.0, 1 / (alpha - 1)
        m, q = c, c**2 + (s2 - c**2) / (alpha - 1)
    else:
        b = ridge + alpha - 1
        root = math.hypot(b, 2 * math.sqrt(ridge))
        # The root that does not subtract nearly equal numbers.
        V = 2 / (b + root) if b > 0 else (root - b) / (2 * ridge)
        m = alpha * c * V / (1 + V)
        A = alpha * (V / (1 + V)) ** 2
        # 1 − A from V's equation, α = (1 + V)(1 − λV)/V, without cancellation as α → 1, λ → 0.
        left = (1 + ridge * V**2) / (1 + V)
        q, scaled, ratio = (m**2 + A * (s2 - 2 * m * c)) / left, ridge * V, A / left
    # q − m² without cancellation: (A/(1−A))(s² − 2mc + m²).
    rest = ratio * (s2 - 2 * m * c + m**2)
    return SquareSolution(m, q, V, scaled, m / math.sqrt(rest) if rest < math.inf else 0.0)
