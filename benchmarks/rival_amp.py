"""The paper's way with message passing at k = 3: adaptive quadratures, sample by sample.

Algorithm 1 with a 2×2 matrix for every sample and coordinate. For each sample three integrals

    J_l = ∫_{−∞}^a Dx x^l Φ((b − ρx)/√(1−ρ²)),   l = 0, 1, 2                      (eq. amp_int_00)

go to `scipy.integrate.quad`; the remaining derivatives are elementary. Written from the equations,
independently of the library, so that it is also a check on it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

Array = NDArray[np.float64]
BASIS = np.array(
    [
        [1 / math.sqrt(2), 1 / math.sqrt(6)],
        [-1 / math.sqrt(2), 1 / math.sqrt(6)],
        [0.0, -2 / math.sqrt(6)],
    ]
)


def cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def pdf(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def channel(omega: Array, V: Array, label: int) -> tuple[Array, Array]:
    """f (2,) and ∂f (2, 2) at ω (2,), V (2, 2), in the coordinates of BASIS."""
    competitors = [h for h in range(3) if h != label]
    D = BASIS[label] - BASIS[competitors]  # rows: z_label − z_h in these coordinates
    S = D @ V @ D.T
    s = np.sqrt(np.diag(S))
    a, b = D @ omega / s
    rho = S[0, 1] / (s[0] * s[1])
    width = math.sqrt(1 - rho * rho)

    def integrand(x: float, power: int) -> float:
        return x**power * pdf(x) * cdf((b - rho * x) / width)

    Z, J1, J2 = (quad(integrand, -math.inf, a, args=(power,))[0] for power in range(3))
    c = (a - rho * b) / width
    Z_b = pdf(b) * cdf(c)
    Z_a = -J1 - rho * Z_b
    Z_ab = pdf(a) * pdf((b - rho * a) / width) / width
    Z_bb = -b * Z_b - rho * Z_ab
    Z_aa = J2 - Z - 2 * rho * Z_ab - rho * rho * Z_bb
    gradient = np.array([Z_a, Z_b]) / Z
    hessian = np.array([[Z_aa, Z_ab], [Z_ab, Z_bb]]) / Z - np.outer(gradient, gradient)
    J = D / s[:, None]
    return J.T @ gradient, J.T @ hessian @ J


class RivalAMP:
    """State of the iteration for a Gaussian prior; `step()` advances it by one."""

    def __init__(self, X: Array, y: NDArray[np.int64]) -> None:
        n, d = X.shape
        self.X, self.X2, self.y = X, X**2, y
        self.w, self.C = np.zeros((d, 2)), np.broadcast_to(np.eye(2), (d, 2, 2)).copy()
        self.f = np.zeros((n, 2))

    def step(self) -> float:
        """One iteration; the largest change of a weight."""
        n, d = self.X.shape
        V = np.einsum("nd,dij->nij", self.X2, self.C, optimize=True) / d
        omega = self.X @ self.w / math.sqrt(d) - np.einsum("nij,nj->ni", V, self.f)
        df = np.empty((n, 2, 2))
        for i in range(n):
            self.f[i], df[i] = channel(omega[i], V[i], self.y[i])
        Lambda = -np.einsum("nd,nij->dij", self.X2, df, optimize=True) / d
        gamma = self.X.T @ self.f / math.sqrt(d) + np.einsum("dij,dj->di", Lambda, self.w)
        self.C = np.linalg.inv(np.eye(2) + Lambda)
        old, self.w = self.w, np.einsum("dij,dj->di", self.C, gamma)
        return float(np.abs(self.w - old).max())

    @property
    def weights(self) -> Array:
        """(d, 3), rows sum to zero."""
        return self.w @ BASIS.T
