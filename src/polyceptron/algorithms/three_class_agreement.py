"""P(argmax s = argmax t) of two centred, jointly Gaussian field vectors of three classes.

Each class contributes an orthant probability of two student and two teacher differences. With the
cross-correlations multiplied by τ it is a product of two wedges at τ = 0, and by Plackett's
identity its derivative in τ is elementary:

    ∂P/∂c_ij = (1/4 + arcsin(ρ_ij)/2π) / (2π √(1 − c_ij²)),

with ρ_ij the correlation of the other two differences given that these two vanish. One integral
over τ, with its possible singularity at τ = 1, is a task for the tanh-sinh rule.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def three_class_agreement(student: Array, teacher: Array, cross: Array) -> tuple[float, float]:
    """Agreement and its uncertainty from the 3×3 covariances of s, of t, and between them."""
    coarse, fine = (
        sum(_class_share(l, student, teacher, cross, step) for l in range(3))
        for step in (1 / 8, 1 / 16)
    )
    return fine, abs(fine - coarse) + 1e-14


def _class_share(label: int, student: Array, teacher: Array, cross: Array, step: float) -> float:
    """P(label wins both), by Plackett's identity along τ in [0, 1]."""
    D = np.delete(np.eye(3)[label] - np.eye(3), label, axis=0)  # rows e_l − e_h
    S, T, C = D @ student @ D.T, D @ teacher @ D.T, D @ cross @ D.T
    s, t = np.sqrt(np.diag(S)), np.sqrt(np.diag(T))
    a, b = S[0, 1] / (s[0] * s[1]), T[0, 1] / (t[0] * t[1])
    c = np.clip(C / np.outer(s, t), -1.0, 1.0)
    wedges = _wedge(a) * _wedge(b)
    tau, weight = _tanh_sinh(step)
    slope = np.zeros_like(tau)
    for i in range(2):
        for j in range(2):
            r = tau * c[i, j]
            free = np.maximum(1 - r * r, 1e-30)
            # Given x_i = y_j = 0, with the others' correlations p, q to x_i and u, v to y_j.
            p, u = a, tau * c[1 - i, j]
            q, v = tau * c[i, 1 - j], b
            vx = 1 - (p * p - 2 * r * p * u + u * u) / free
            vy = 1 - (q * q - 2 * r * q * v + v * v) / free
            xy = tau * c[1 - i, 1 - j] - (p * q - r * (p * v + u * q) + u * v) / free
            spread = np.sqrt(np.maximum(vx, 1e-150)) * np.sqrt(np.maximum(vy, 1e-150))
            rho = np.clip(xy / spread, -1.0, 1.0)
            slope += (
                c[i, j] * (0.25 + np.arcsin(rho) / (2 * math.pi)) / (2 * math.pi * np.sqrt(free))
            )
    return float(wedges + weight @ slope)


def _wedge(correlation: float) -> float:
    """P(x > 0, y > 0) of two unit Gaussians."""
    return 0.25 + math.asin(min(1.0, max(-1.0, correlation))) / (2 * math.pi)


@lru_cache(maxsize=4)
def _tanh_sinh(step: float) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1] that also serve integrands with a root in the denominator."""
    x = np.arange(-3.6, 3.6 + step / 2, step)
    tau = 1 / (1 + np.exp(-math.pi * np.sinh(x)))
    weight = step * math.pi * np.cosh(x) * tau * (1 - tau)
    return tau, weight
