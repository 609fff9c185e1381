"""The square loss in closed form, for any k, α and λ.

With c = E[max of k normals]/(k−1), s² = 1/k and σ² = s² − c² (the part of the label that no linear
rule explains), V solves λV² + (λ + α − 1)V − 1 = 0 and

    m = αcV/(1+V),   A = αV²/(1+V)²,   q = (m² + A(s² − 2mc))/(1 − A).

The best ridge is λ = σ²/c² at every α. As λ → 0⁺ (minimum-norm interpolation below α = 1) the norm
diverges at α = 1 while m stays finite: there ρ → 0 and the error tends to that of a random guess.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr


class SquareSolution(NamedTuple):
    """The fixed point; at λ → 0⁺ and α < 1, V is infinite and `scaled_V` = λV stays finite."""

    m: float
    q: float
    V: float
    scaled_V: float


@lru_cache(maxsize=256)
def label_signal(n_classes: int) -> tuple[float, float]:
    """c = E[max of k normals]/(k−1) and s² = 1/k."""
    k = n_classes
    # E max = ∫ x k φ(x) Φ(x)^{k−1} dx; the trapezoidal rule converges geometrically.
    x = np.linspace(-12.0, 12.0, 2401)
    log_density = -0.5 * x**2 + (k - 1) * log_ndtr(x)
    density = np.exp(log_density) * k / math.sqrt(2 * math.pi)
    return float((x * density).sum() * (x[1] - x[0])) / (k - 1), 1 / k


def best_square_ridge(n_classes: int) -> float:
    """λ = σ²/c² = (k−1)²/(k E_max²) − 1, the same at every α.

    >>> bool(abs(best_square_ridge(2) - (math.pi / 2 - 1)) < 1e-12)
    True
    """
    c, s2 = label_signal(n_classes)
    return s2 / c**2 - 1


def solve_square(n_classes: int, alpha: float, ridge: float) -> SquareSolution:
    """The fixed point at λ > 0, or its limit λ → 0⁺ (infinite q at α = 1)."""
    c, s2 = label_signal(n_classes)
    if ridge == 0:
        if alpha > 1:
            V = 1 / (alpha - 1)
            return SquareSolution(c, c**2 + (s2 - c**2) / (alpha - 1), V, 0.0)
        m = alpha * c
        q = alpha * (s2 - alpha * c**2) / (1 - alpha) if alpha < 1 else math.inf
        return SquareSolution(m, q, math.inf, 1 - alpha)
    b = ridge + alpha - 1
    root = math.hypot(b, 2 * math.sqrt(ridge))
    # The root that does not subtract nearly equal numbers.
    V = 2 / (b + root) if b > 0 else (root - b) / (2 * ridge)
    m = alpha * c * V / (1 + V)
    A = alpha * (V / (1 + V)) ** 2
    # 1 − A from V's equation, α = (1 + V)(1 − λV)/V, without cancellation as α → 1, λ → 0.
    left = (1 + ridge * V**2) / (1 + V)
    return SquareSolution(m, (m**2 + A * (s2 - 2 * m * c)) / left, V, ridge * V)


def square_training_loss(n_classes: int, alpha: float, solution: SquareSolution) -> float:
    """E ‖z − e_y‖²/2 over training samples, all k coordinates, at the proximal point.

    On 1⊥ it is r q̂/(2α) with q̂/α = (s² − 2mc + q)/(1+V)²; along 1 the residual is
    (1 − Σω)/(1+V) with Σω → the regression of the constant 1, which needs no label.
    """
    c, s2 = label_signal(n_classes)
    k = n_classes
    m, q, V, _ = solution
    if math.isinf(V):
        return 0.0
    across = (s2 - 2 * m * c + q) / (1 + V) ** 2
    # Along 1 the target is the constant 1/√k: inputs of mean 0 carry nothing of it, so m₁ = 0 and
    # q₁ = A(1/k + q₁): the same equations with c = 0.
    A = alpha * (V / (1 + V)) ** 2
    along_q = A / k / (1 - A)
    along = (1 / k + along_q) / (1 + V) ** 2
    return float(((k - 1) * across + along) / 2)
