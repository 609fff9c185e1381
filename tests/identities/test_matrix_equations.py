"""The paper's (k−1)×(k−1) matrix equations, by Monte Carlo at k = 3, land on the scalar solution.

Nothing of the package is used for the left-hand side but numpy: fields in the paper's coordinates
(last class subtracted), covariance I + 11ᵀ, a general overlap matrix, scores by a brute-force
Gaussian sum over teacher noise. A start far from symmetric must come back to q(I + 11ᵀ).
"""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from polyceptron.model import Teacher
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points

SIGMA = np.eye(2) + 1.0  # covariance of (w_1 − w_3, w_2 − w_3)


def score(omega, label, V):
    """∇ ln Z of the reduced channel at means ω (n, 2), by one-dimensional quadrature."""
    # Class 3 wins when both are negative; relabel so that the winner is subtracted instead.
    T = {2: np.eye(2), 0: np.array([[-1.0, 0], [-1, 1]]), 1: np.array([[1.0, -1], [0, -1]])}[label]
    a, S = omega @ T.T, T @ V @ T.T
    # P(both < 0) for N(a, S): condition the second on the first.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    s1 = math.sqrt(S[0, 0])
    slope, s2 = S[0, 1] / S[0, 0], math.sqrt(S[1, 1] - S[0, 1] ** 2 / S[0, 0])

    def log_z(m):
        top = -m[:, :1] / s1  # integrate the standardised first coordinate from −∞ to here
        low = np.minimum(top - 9, -9)
        t = low + (top - low) * 0.5 * (nodes + 1)
        g = log_ndtr(-(m[:, 1:] + slope * s1 * t) / s2) - 0.5 * t**2
        f = np.exp(g) @ weights * 0.5 * (top - low)[:, 0]
        return np.log(np.maximum(f, 1e-300))

    step = 1e-4
    gradient = np.stack(
        [(log_z(a + step * e) - log_z(a - step * e)) / (2 * step) for e in np.eye(2)], -1
    )
    return gradient @ T


def channel_step(q, alpha, z, xi):
    """q̂ = α E f fᵀ with ω ~ N(0, q) and labels from the teacher given ω."""
    omega = z @ np.linalg.cholesky(q).T
    V = SIGMA - q
    fields = omega + xi @ np.linalg.cholesky(V).T
    label = np.argmax(np.hstack([fields, np.zeros((len(fields), 1))]), 1)
    total = np.zeros((2, 2))
    for l in range(3):
        f = score(omega[label == l], l, V)
        total += f.T @ f
    return alpha * total / len(z)


@pytest.mark.slow
def test_matrix_equations_come_to_the_symmetric_point():
    rng = np.random.default_rng(0)
    z, xi = rng.standard_normal((2, 24_000, 2))
    alpha = 1.5
    q = np.array([[0.9, -0.2], [-0.2, 0.3]])  # far from q(I + 11ᵀ)
    precision = np.linalg.inv(SIGMA)
    for _ in range(10):
        q_hat = channel_step(q, alpha, z, xi)
        # Gaussian prior: posterior covariance (Σ^{-1} + q̂)^{-1}.
        q = SIGMA - np.linalg.inv(precision + q_hat)
    expected = fixed_points(Teacher(3), alpha)[0]
    assert np.allclose(q, expected.overlap_matrix, atol=0.02)
    # Symmetry: q00 = q11 = 2 q01, and the test would see a wrong matrix.
    assert q[0, 0] == pytest.approx(2 * q[0, 1], abs=0.03)
    assert not np.allclose(q, expected.q * np.eye(2) * 2, atol=0.02)
