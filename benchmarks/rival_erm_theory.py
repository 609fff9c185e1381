"""The plain route to the ERM fixed point at k = 3, as a reader of the paper would write it first.

A damped fixed-point iteration of m, q, V; every average a nested scipy quadrature over the two
class differences; one proximal problem solved by Newton at every node. The only help it gets is the
reduction to three scalars and closed orthant probabilities.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr, owens_t


class RivalPoint(NamedTuple):
    """Where the iteration ended, and the integrand evaluations it took."""

    m: float
    q: float
    V: float
    iterations: int
    evaluations: int


def orthant(a: float, b: float) -> float:
    """P(x ≤ a, y ≤ b), correlation 1/2."""
    a, b = a or 1e-12, b or 1e-12
    root = math.sqrt(3)
    value = 0.5 * (ndtr(a) + ndtr(b)) - owens_t(a, (2 * b / a - 1) / root)
    value -= owens_t(b, (2 * a / b - 1) / root)
    return float(value - 0.5 * (a * b < 0))


def prox(omega: np.ndarray, V: float) -> np.ndarray:
    """Newton for z = ω + V(e₁ − softmax z), with halved steps."""
    z = omega.copy()
    label = np.array([1.0, 0.0, 0.0])

    def energy(v: np.ndarray) -> float:
        top = v.max()
        return float(
            ((v - omega) ** 2).sum() / (2 * V) + top + math.log(np.exp(v - top).sum()) - v[0]
        )

    for _ in range(100):
        p = np.exp(z - z.max())
        p /= p.sum()
        slope = (z - omega) / V + p - label
        if np.abs(slope).max() * min(V, 1.0) < 1e-12:
            break
        step = np.linalg.solve(np.eye(3) / V + np.diag(p) - np.outer(p, p), slope)
        scale, here = 1.0, energy(z)
        while energy(z - scale * step) > here and scale > 1e-6:
            scale /= 2
        z = z - scale * step
    return z


class Averages:
    """M, Q, C at (m, q, V) by nested adaptive quadrature."""

    def __init__(self, m: float, q: float, V: float, accuracy: float) -> None:
        self.q, self.V, self.accuracy = q, V, accuracy
        rho = m / math.sqrt(q)
        self.width = math.sqrt(1 - rho**2)
        self.scale = rho / self.width / math.sqrt(2 * q)
        self.reach = 6 * math.sqrt(2 * q)
        self.evaluations = 0

    def integrand(self, y: float, x: float, which: int) -> float:
        self.evaluations += 1
        q, V = self.q, self.V
        a, b = x, x + y  # ω₁ − ω₂ ≤ ω₁ − ω₃ by symmetry
        density = 3 / (math.pi * math.sqrt(3) * q) * math.exp(-(a * a - a * b + b * b) / (3 * q))
        omega = np.array([0.0, -a, -b])
        z = prox(omega, V)
        f = (z - omega) / V
        h, g = self.scale * a, self.scale * b
        if which == 0:
            norm = 1 / (math.sqrt(4 * math.pi) * self.width)
            s2 = norm * math.exp(-h * h / 2) * ndtr((2 * g - h) / math.sqrt(3))
            s3 = norm * math.exp(-g * g / 2) * ndtr((2 * h - g) / math.sqrt(3))
            return density * float(s2 * (f[0] - f[1]) + s3 * (f[0] - f[2])) / 2
        weight = density * orthant(h, g) / 2
        if which == 1:
            return weight * float(f @ f)
        p = np.exp(z - z.max())
        p /= p.sum()
        H = np.diag(p) - np.outer(p, p)
        return weight * float(np.trace(np.linalg.solve(np.eye(3) + V * H, H)))

    def average(self, which: int) -> float:
        asked = {"epsabs": self.accuracy, "epsrel": self.accuracy}

        def inner(x: float) -> float:
            return quad(self.integrand, 0, self.reach, args=(x, which), **asked)[0]

        return quad(inner, -self.reach, self.reach, **asked)[0]


def rival_fixed_point(
    alpha: float,
    ridge: float,
    accuracy: float,
    start: tuple[float, float, float] = (0.5, 0.6, 1.0),
    damping: float = 0.3,
    max_iter: int = 500,
) -> RivalPoint:
    """m, q, V of cross-entropy at k = 3 to about `accuracy`, relative."""
    m, q, V = start
    evaluations = iteration = 0
    change = math.inf
    while change > accuracy and iteration < max_iter:
        iteration += 1
        averages = Averages(m, q, V, accuracy)
        M, Q, C = (averages.average(which) for which in range(3))
        evaluations += averages.evaluations
        new_V = 1 / (ridge + alpha * C)
        new_m, new_q = alpha * M * new_V, ((alpha * M) ** 2 + alpha * Q) * new_V**2
        change = max(abs(new_m / m - 1), abs(new_q / q - 1), abs(new_V / V - 1))
        m = damping * m + (1 - damping) * new_m
        q = damping * q + (1 - damping) * new_q
        V = damping * V + (1 - damping) * new_V
    return RivalPoint(m, q, V, iteration, evaluations)
