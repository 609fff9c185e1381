"""Identities that tie the pieces of the theory together.

By finite differences:

    dΦ/dα = Ψ_out along a branch          (free entropy against the channel's entropy)
    dΨ_out/dq = (r/2) I                   (stationarity of Φ in q, with q̂ = αI)
    q̂ = αI(q)                             (the fixed point solves its equation)
    d min_W(…)/dλ = ‖Ŵ‖²/2                (envelope theorem: training loss against norm)

By Monte Carlo, the paper's matrix equations at k = 3 must land on the scalar solution. Nothing is
assumed symmetric: overlaps are general 2×2 matrices in an orthonormal basis B of 1⊥, the start is
lopsided, fields and labels are drawn, and expectations are sample means.

    Bayes (eq. SE_BO)   q̂ = αE f fᵀ,  q = q̂(I + q̂)⁻¹,  f = ∇ ln Z_y(ω, I − q)
    ERM (eq. SE)        m̂ = αE f sᵀ,  q̂ = αE f fᵀ,  V̂ = −αE ∂f,  f = V⁻¹(prox_V(ω) − ω),
                        V = (λI + V̂)⁻¹,  m = V m̂,  q = V(m̂m̂ᵀ + q̂)V

with s the teacher's score, by which ∇Z*_y/Z*_y is a mean over the drawn teacher fields. Batches of
samples are independent: their spread is the standard error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, owens_t

from polyceptron.model import ERM, Channel, CrossEntropy, Teacher, as_channel, as_prior
from polyceptron.numerics import Array
from polyceptron.report.verify.check import Check, sampled_check
from polyceptron.theory.bayes_optimal.fixed_points import FixedPoint, fixed_points
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.fields.information import channel_moments, known_entropy


def entropy_identities(full: bool) -> Iterator[Check]:
    """Derivatives of the free entropy at fixed points of k = 2 and 3: priors and noises."""
    cases = [
        (3, "gaussian", "none", 2.0),
        (3, "rademacher", "none", 2.6),
        (3, "gaussian", "flips:0.1", 2.0),
    ]
    if full:
        cases += [
            (2, "gaussian", "none", 0.5),
            (2, "rademacher", "none", 2.2),
            (3, "gaussian", "none", 30.0),
            (2, "rademacher", "softmax:2", 2.0),
        ]
    for k, prior, noise, alpha in cases:
        teacher = Teacher(k, as_prior(prior), as_channel(noise))
        name = f"k = {k}, {prior}{'' if noise == 'none' else ', ' + noise}, α = {alpha:g}"
        here = _amp_branch(teacher, [alpha])[0]
        moments = channel_moments(teacher.noise, here.q, here.v, k)
        entropy = known_entropy(teacher.noise, k) + float(moments.excess[0, 0])
        step = 1e-3 * alpha
        around = [alpha + i * step for i in (-1, 1, -2, 2)]
        low, high, lower, higher = (p.free_entropy for p in _amp_branch(teacher, around))
        slope = (8 * (high - low) - (higher - lower)) / (12 * step)
        yield Check(f"dΦ/dα, {name}", slope, entropy, "Ψ_out", 1e-7)
        information = float(moments.information[0, 0])
        slope, half = _entropy_slope(teacher.noise, here, k), 0.5 * (k - 1) * information
        yield Check(f"dΨ_out/dq, {name}", slope, half, "(r/2) I", 1e-7)
        q_hat = alpha * information
        yield Check(f"q̂ of the fixed point, {name}", here.q_hat, q_hat, "αI(q)", 1e-8 * q_hat)


def _amp_branch(teacher: Teacher, alphas: list[float]) -> list[FixedPoint]:
    """The fixed points that message passing reaches."""
    return [p for p in fixed_points(teacher, alphas) if p.branch == "amp"]


def _entropy_slope(noise: Channel, point: FixedPoint, k: int) -> float:
    """dΨ_out/dq at v = 1 − q, by a five-point difference."""
    h = 1e-3 * point.v
    shifts = np.array([-2, -1, 1, 2]) * h
    entropy = channel_moments(noise, point.q + shifts, point.v - shifts, k).excess[:, 0]
    return float((entropy[0] - 8 * entropy[1] + 8 * entropy[2] - entropy[3]) / (12 * h))


def risk_identity(full: bool) -> Iterator[Check]:
    """d[α · training loss + (λ/2) r q]/dλ = r q/2 for cross-entropy, whose weights sum to 0."""
    cases = [(3, 2.0, 0.1)] + ([(2, 5.0, 0.01), (3, 0.5, 1.0), (3, 10.0, 0.01)] if full else [])
    for k, alpha, ridge in cases:
        step = 0.02 * ridge

        def risk(value: float, k: int = k, alpha: float = alpha) -> float:
            point = erm_fixed_point(Teacher(k), ERM(CrossEntropy(), value), alpha, tol=1e-9)
            return alpha * point.training_loss + 0.5 * value * (k - 1) * point.q

        slope = (
            8 * (risk(ridge + step) - risk(ridge - step))
            - (risk(ridge + 2 * step) - risk(ridge - 2 * step))
        ) / (12 * step)
        q = erm_fixed_point(Teacher(k), ERM(CrossEntropy(), ridge), alpha, tol=1e-9).q
        name = f"d risk/dλ, cross-entropy, k = {k}, α = {alpha:g}, λ = {ridge:g}"
        yield Check(name, slope, 0.5 * (k - 1) * q, "‖Ŵ‖²/2d", 1e-5 * q)


B = np.linalg.qr(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]))[0]  # (3, 2)
PAPER = np.array([[1.0, 0, -1], [0, 1, -1]]) @ B  # to the paper's coordinates, last class less
PAIRS = (B[:, :, None] * B[:, None, :]).reshape(3, 4)
LOPSIDED = np.array([[0.6, -0.2], [-0.2, 0.3]])
BATCHES = 8


def bayes_matrix(full: bool) -> Iterator[Check]:
    """q₀₀ = 2q and q₀₁ = q in the paper's coordinates."""
    n = 40_000 if full else 8_000
    for alpha in (1.5, 5.0) if full else (1.5,):
        found = []
        for seed in range(BATCHES):
            z, noise = np.random.default_rng([1, seed]).standard_normal((2, n, 2))
            q = LOPSIDED
            for _ in range(25):
                omega = z @ np.linalg.cholesky(q).T
                fields = omega + noise @ np.linalg.cholesky(np.eye(2) - q).T
                f = _score(omega, (fields @ B.T).argmax(1), np.eye(2) - q)
                q_hat = alpha * f.T @ f / n
                q = np.eye(2) - np.linalg.inv(np.eye(2) + q_hat)
            found.append(PAPER @ q @ PAPER.T)
        scalar = fixed_points(Teacher(3), alpha)[0].q
        source = f"2×2 matrices, {BATCHES * n:,} samples"
        for name, ours, i, j in (("q₀₀", 2 * scalar, 0, 0), ("q₀₁", scalar, 0, 1)):
            values = [matrix[i, j] for matrix in found]
            yield sampled_check(f"Bayes {name}, k = 3, α = {alpha:g}", ours, values, source)


def _score(omega: Array, y: NDArray[np.int64], V: Array) -> Array:
    """∇ ln P(label y) at mean ω (n, 2) and covariance V: a bivariate orthant probability."""
    score = np.empty_like(omega)
    for l in range(3):
        A = np.stack([B[l] - B[h] for h in range(3) if h != l])  # both differences positive
        S = A @ V @ A.T
        s = np.sqrt(np.diag(S))
        rho = S[0, 1] / (s[0] * s[1])
        rest = np.sqrt(1 - rho**2)
        h, k = (omega[y == l] @ A.T / s).T
        both = 0.5 * (ndtr(h) + ndtr(k)) - 0.5 * (h * k < 0)
        both -= owens_t(h, (k - rho * h) / (h * rest)) + owens_t(k, (h - rho * k) / (k * rest))
        density = np.stack([h, k], 1) ** 2 / -2 - 0.5 * np.log(2 * np.pi)
        other = log_ndtr(np.stack([(k - rho * h) / rest, (h - rho * k) / rest], 1))
        score[y == l] = np.exp(density + other - np.log(np.maximum(both, 1e-300))[:, None]) / s @ A
    return score


def erm_matrix(full: bool) -> Iterator[Check]:
    """m, q and V of cross-entropy: the diagonals, and nothing off them."""
    n, alpha, ridge = 40_000 if full else 8_000, 2.0, 0.5
    found = []
    for seed in range(BATCHES):
        z, noise = np.random.default_rng([2, seed]).standard_normal((2, n, 2))
        q: Array = np.eye(2)
        m, V, field = LOPSIDED, q, np.zeros((n, 2))
        for _ in range(25):
            omega = z @ np.linalg.cholesky(q).T
            mean = omega @ np.linalg.solve(q, m)
            root = np.linalg.cholesky(np.eye(2) - m.T @ np.linalg.solve(q, m))
            y = ((mean + noise @ root.T) @ B.T).argmax(1)
            s = np.linalg.solve(root.T, noise.T).T  # teacher score, Σ⁻¹(u − mean)
            f, slope, field = _softmax_denoiser(omega, y, V, field)
            m_hat, q_hat, V_hat = (alpha * a / n for a in (f.T @ s, f.T @ f, slope))
            V = np.asarray(np.linalg.inv(ridge * np.eye(2) + V_hat), dtype=float)
            m, q = V @ m_hat, V @ (m_hat @ m_hat.T + q_hat) @ V
        found.append((m, q, V))
    scalar = erm_fixed_point(Teacher(3), ERM(CrossEntropy(), ridge), alpha)
    source = f"2×2 matrices, {BATCHES * n:,} samples"
    for i, (name, ours) in enumerate((("m", scalar.m), ("q", scalar.q), ("V", scalar.V))):
        values = [np.trace(each[i]) / 2 for each in found]
        yield sampled_check(f"ERM {name}, k = 3, α = 2, λ = 0.5", ours, values, source)
        across = [each[i][0, 1] for each in found]
        yield sampled_check(f"ERM {name} off the diagonal", 0.0, across, source)


def _softmax_denoiser(
    omega: Array, y: NDArray[np.int64], V: Array, start: Array
) -> tuple[Array, Array, Array]:
    """f = −∇ℓ(prox) (n, 2) by Newton from `start`, −Σ ∂f = Σ (V + H⁻¹)⁻¹ (2, 2), and prox."""
    z, inverse = start, np.linalg.inv(V)
    for _ in range(5):
        p = np.exp(z @ B.T)
        p /= p.sum(1, keepdims=True)
        gradient = (p - np.eye(3)[y]) @ B
        mean = p @ B
        H = (p @ PAIRS).reshape(-1, 2, 2) - mean[:, :, None] * mean[:, None, :]
        step = np.linalg.solve(H + inverse, ((z - omega) @ inverse + gradient)[:, :, None])
        z = z - step[:, :, 0]
    curvature = np.linalg.solve(np.eye(2) + H @ V, H).sum(0)
    return -gradient, curvature, z
