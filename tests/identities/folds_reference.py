"""The solution curve of two classes with a finite prior, by plain sums: nothing of the package.

The class difference u = (w₁ − w₂)/√2 is seen as y = √q̂ u + ξ, and a label is the sign of a field of
unit variance of which ω ~ N(0, q) is known. Everything is smooth, so that trapezoidal sums over
ξ and over x = ω/√v are good to many digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp, xlogy

XI = np.linspace(-11, 11, 1101)  # steps of 0.02: switches are 0.06 wide at least
XI_WEIGHTS = np.exp(-(XI**2) / 2) / math.sqrt(2 * math.pi) * (XI[1] - XI[0])
X = np.linspace(-38, 38, 3801)  # Φ(−38) is the smallest that is not zero
X_STEP = X[1] - X[0]


def standardised(values: Sequence[float], p: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The prior's values with mean 0 and variance 1, and their probabilities."""
    w, share = np.array(values, dtype=float), np.array(p, dtype=float)
    share = share / share.sum()
    w = w - share @ w
    return w / math.sqrt(share @ w**2), share


class TwoClasses:
    """α, v, Φ and Ψ_out of two classes at q̂, without noise; `power` are eigenvalues, all alike."""

    def __init__(
        self, values: Sequence[float], p: Sequence[float], power: Sequence[float] = (1.0,)
    ) -> None:
        w, share = standardised(values, p)
        difference = np.subtract.outer(w, w).ravel() / math.sqrt(2)
        weight = np.outer(share, share).ravel()
        # Equal differences are one; the number itself is not rounded, as q̂u² must keep its digits.
        _, first, place = np.unique(
            np.round(difference, 10), return_index=True, return_inverse=True
        )
        self.u = difference[first]
        self.p = np.bincount(place.ravel(), weight)
        self.power = np.array(power) / np.mean(power)
        self.entropy = -float(self.p @ np.log(self.p))

    def row(self, q_hat: float) -> tuple[float, float]:
        """E Var(u | y) and ψ = E ln Z − q̂/2 of one row."""
        v, log_z = 0.0, 0.0
        root = math.sqrt(q_hat)
        for u, p in zip(self.u, self.p, strict=True):
            y = root * u + XI[:, None]
            log_w = np.log(self.p) - 0.5 * (y - root * self.u) ** 2
            total = logsumexp(log_w, axis=1)
            posterior = np.exp(log_w - total[:, None])
            mean = posterior @ self.u
            variance = (posterior * (self.u - mean[:, None]) ** 2).sum(1)
            v += p * float(XI_WEIGHTS @ variance)
            # Z = Σ p exp(√q̂ y u − q̂u²/2): the sum above is Z exp(−y²/2).
            log_z += p * float(XI_WEIGHTS @ (total + 0.5 * y[:, 0] ** 2))
        return v, log_z - 0.5 * q_hat

    def point(self, q_hat: float) -> dict[str, float]:
        """One point of the curve."""
        rows = np.array([self.row(q_hat * power) for power in self.power])
        v = float((self.power * rows[:, 0]).mean())
        psi = float(rows[:, 1].mean())
        information, entropy = two_class_channel(v)
        alpha = q_hat / information
        phi = 0.5 * q_hat * v + psi + alpha * entropy
        return {"q_hat": q_hat, "v": v, "alpha": alpha, "psi_out": entropy, "phi": phi}

    def humps(self, low: float, high: float, n: int) -> list[dict[str, float]]:
        """The local maxima of α(q̂) between two q̂, seen on n points in equal steps of ln q̂."""
        x = np.linspace(math.log(low), math.log(high), n)
        alpha = np.array([self.point(math.exp(a))["alpha"] for a in x])
        found = []
        for i in range(1, n - 1):
            if alpha[i - 1] < alpha[i] > alpha[i + 1]:
                best = minimize_scalar(
                    lambda a: -self.point(math.exp(a))["alpha"],
                    bounds=(x[i - 1], x[i + 1]),
                    method="bounded",
                    options={"xatol": 1e-7},
                )
                found.append(self.point(math.exp(best.x)))
        return found

    def perfect_takes_over(self, low: float, high: float) -> float:
        """α at which Φ equals −H, between two q̂ of a rising branch."""
        root = brentq(
            lambda x: self.point(math.exp(x))["phi"] + self.entropy, math.log(low), math.log(high)
        )
        return self.point(math.exp(root))["alpha"]


def two_class_channel(v: float) -> tuple[float, float]:
    """I and Ψ_out at residual variance v."""
    ratio = (1 - v) / v  # the variance of x = ω/√v
    density = np.exp(-(X**2) / (2 * ratio)) / math.sqrt(2 * math.pi * ratio) * X_STEP
    log_normal = -(X**2) / 2 - 0.5 * math.log(2 * math.pi)
    information = density @ np.exp(2 * log_normal - log_ndtr(X) - log_ndtr(-X)) / v
    chance = np.exp(log_ndtr(X))
    return float(information), float(2 * (density @ xlogy(chance, chance)))
