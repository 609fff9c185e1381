"""The paper's (k−1)×(k−1) matrix equations, by Monte Carlo at k = 3, land on the scalar solution.

Nothing of the package is used for the left-hand side but numpy: fields in the paper's coordinates
(last class subtracted), covariance I + 11ᵀ, a general overlap matrix, scores by a brute-force
Gaussian sum over teacher noise. A start far from symmetric must come back to q(I + 11ᵀ).

Empirical risk minimisation likewise, in an orthonormal basis B of 1⊥:

    m̂ = αE f sᵀ,  q̂ = αE f fᵀ,  V̂ = −αE ∂f,  f = V⁻¹(prox_V(ω) − ω)          (eq. SE)
    V = (λI + V̂)⁻¹,  m = V m̂,  q = V(m̂m̂ᵀ + q̂)V

with s the teacher's score, by which ∇Z*_y/Z*_y is a mean over the drawn teacher fields.
"""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from polyceptron.problem import ERM, Teacher
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.erm.fixed_point import erm_fixed_point

SIGMA = np.eye(2) + 1.0  # covariance of (w_1 − w_3, w_2 − w_3)


def score(omega, label, V):
    """∇ ln Z of the reduced channel at means ω (n, 2), by one-dimensional quadrature."""
    # Class 3 wins when both are negative; relabel so that the winner is subtracted instead.
    T = {2: np.eye(2), 0: np.array([[-1.0, 0], [-1, 1]]), 1: np.array([[1.0, -1], [0, -1]])}[label]
    a, S = omega @ T.T, T @ V @ T.T
    # P(both < 0) for N(a, S): condition the second on the first.
    nodes, weights = np.polynomial.legendre.leggauss(24)
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
    assert np.allclose(q, expected.matrices.q, atol=0.02)
    # Symmetry: q00 = q11 = 2 q01, and the test would see a wrong matrix.
    assert q[0, 0] == pytest.approx(2 * q[0, 1], abs=0.03)
    assert not np.allclose(q, expected.q * np.eye(2) * 2, atol=0.02)


B = np.linalg.qr(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]))[0]  # (3, 2)
PAIRS = (B[:, :, None] * B[:, None, :]).reshape(3, 4)


def softmax_pull(omega, y, V, start):
    """f = −∇ℓ(prox) (n, 2) by Newton from `start`, −Σ ∂f = Σ (V + H⁻¹)⁻¹ (2, 2), and prox."""
    z, inverse = start, np.linalg.inv(V)
    for _ in range(3):
        p = np.exp(z @ B.T)
        p /= p.sum(1, keepdims=True)
        gradient, mean = (p - np.eye(3)[y]) @ B, p @ B
        H = (p @ PAIRS).reshape(-1, 2, 2) - mean[:, :, None] * mean[:, None, :]
        step = np.linalg.solve(H + inverse, ((z - omega) @ inverse + gradient)[:, :, None])
        z = z - step[:, :, 0]
    return -gradient, np.linalg.solve(np.eye(2) + H @ V, H).sum(0), z


@pytest.mark.slow
def test_matrix_equations_of_cross_entropy_come_to_the_scalars():
    n, alpha, ridge, found = 2000, 2.0, 0.5, []
    for seed in range(8):  # batches, whose spread is the standard error
        z, noise = np.random.default_rng([2, seed]).standard_normal((2, n, 2))
        q, m, V = np.eye(2), np.array([[0.6, -0.2], [-0.2, 0.3]]), np.eye(2)
        field = np.zeros((n, 2))
        for _ in range(25):
            omega = z @ np.linalg.cholesky(q).T
            mean = omega @ np.linalg.solve(q, m)
            root = np.linalg.cholesky(np.eye(2) - m.T @ np.linalg.solve(q, m))
            y = ((mean + noise @ root.T) @ B.T).argmax(1)
            s = np.linalg.solve(root.T, noise.T).T  # teacher score, Σ⁻¹(u − mean)
            f, slope, field = softmax_pull(omega, y, V, field)
            m_hat, q_hat, V_hat = (alpha * a / n for a in (f.T @ s, f.T @ f, slope))
            V = np.linalg.inv(ridge * np.eye(2) + V_hat)
            m, q = V @ m_hat, V @ (m_hat @ m_hat.T + q_hat) @ V
        found.append((m, q, V))
    mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / math.sqrt(8)
    here, there = (
        erm_fixed_point(Teacher(3), ERM("cross-entropy", ridge), a) for a in (alpha, 1.1 * alpha)
    )
    for i, name in enumerate(("m", "q", "V")):
        z = (mean[i] - getattr(here, name) * np.eye(2)) / error[i]
        assert np.abs(z).max() < 5, name
    # Negative control: another α does not pass.
    assert np.abs((mean[1] - there.q * np.eye(2)) / error[1]).max() > 5
