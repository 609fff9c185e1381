"""The theory against itself, and against finite instances.

Identities, by finite differences:

    dΦ/dα = Ψ_out along a branch          (free entropy against the channel's entropy)
    dΨ_out/dq = (r/2) I                   (stationarity of Φ in q, with q̂ = αI)
    q̂ = αI(q)                             (the fixed point solves its equation)
    d min_W(…)/dλ = ‖Ŵ‖²/2                (envelope theorem: training loss against norm)

By Monte Carlo, the paper's matrix equations at k = 3 must land on the scalar solution. Nothing is
assumed symmetric: overlaps are general 2×2 matrices in an orthonormal basis B of 1⊥, the start is
asymmetric, fields and labels are drawn, and expectations are sample means.

    Bayes (eq. SE_BO)   q̂ = αE f fᵀ,  q = q̂(I + q̂)⁻¹,  f = ∇ ln Z_y(ω, I − q)
    ERM (eq. SE)        m̂ = αE f sᵀ,  q̂ = αE f fᵀ,  V̂ = −αE ∂f,  f = V⁻¹(prox_V(ω) − ω),
                        V = (λI + V̂)⁻¹,  m = V m̂,  q = V(m̂m̂ᵀ + q̂)V

with s the teacher's score, by which ∇Z*_y/Z*_y is a mean over the drawn teacher fields. Batches of
samples are independent: their spread is the standard error.

Message passing and scikit-learn's fits are allowed four standard errors of the mean over the runs,
plus 4/d for what is lost by d being finite.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, owens_t

from polyceptron.algorithms.overlaps import exact_generalisation_error, overlaps
from polyceptron.experiments.simulate import run_amp
from polyceptron.model import AnyTeacher, Teacher
from polyceptron.numerics import Array
from polyceptron.report.verify.references import Check, erm_point, sampled_check
from polyceptron.theory.bayes_optimal.channel_table import channel_table
from polyceptron.theory.bayes_optimal.fixed_points import FixedPoint, fixed_points
from polyceptron.theory.generalisation import generalisation_error
from polyceptron.theory.loop import state_evolution


def entropy_identities(full: bool) -> Iterator[Check]:
    """Derivatives of the free entropy at fixed points of k = 2 and 3: priors and noises."""
    cases = [(3, "gaussian", "none", 2.0), (3, "rademacher", "none", 2.6)]
    cases += [(3, "gaussian", "flips:0.1", 2.0)]
    if full:
        cases += [(2, "gaussian", "none", 0.5), (2, "rademacher", "none", 2.2)]
        cases += [(3, "gaussian", "none", 30.0), (2, "rademacher", "softmax:2", 2.0)]
    for k, prior, noise, alpha in cases:
        teacher = Teacher(k, prior, noise)
        name = f"k = {k}, {prior}{'' if noise == 'none' else ', ' + noise}, α = {alpha:g}"
        here = _amp_branch(teacher, [alpha])[0]
        found = channel_table(teacher.channel, k)(np.array([here.v]))
        information, entropy = (float(part[0]) for part in found)
        step = 1e-3 * alpha
        around = [alpha + i * step for i in (-2, -1, 1, 2)]
        slope = _slope(step, *(p.free_entropy for p in _amp_branch(teacher, around)))
        yield Check(f"dΦ/dα, {name}", slope, entropy, "Ψ_out", 1e-7)
        shifts, half = 1e-3 * here.v * np.array([-2, -1, 1, 2]), 0.5 * (k - 1) * information
        slope = _slope(1e-3 * here.v, *channel_table(teacher.channel, k)(here.v - shifts)[1])
        yield Check(f"dΨ_out/dq, {name}", slope, half, "(r/2) I", 1e-7)
        q_hat = alpha * information
        yield Check(f"q̂ of the fixed point, {name}", here.q_hat, q_hat, "αI(q)", 1e-8 * q_hat)


def _amp_branch(teacher: AnyTeacher, alphas: list[float]) -> list[FixedPoint]:
    """The fixed points that message passing reaches."""
    return [p for p in fixed_points(teacher, alphas) if p.branch == "amp"]


def _slope(h: float, far: float, near: float, after: float, beyond: float) -> float:
    """The derivative from values at −2h, −h, h and 2h."""
    return float((far - 8 * near + 8 * after - beyond) / (12 * h))


def risk_identity(full: bool) -> Iterator[Check]:
    """d[α · training loss + (λ/2) r q]/dλ = r q/2 for cross-entropy, whose weights sum to 0."""
    cases = [(3, 2.0, 0.1)] + ([(2, 5.0, 0.01), (3, 0.5, 1.0), (3, 10.0, 0.01)] if full else [])
    for k, alpha, ridge in cases:
        h = 0.02 * ridge
        points = [
            erm_point("cross-entropy", k, ridge + i * h, alpha, tol=1e-9) for i in (-2, -1, 0, 1, 2)
        ]
        risks = [
            alpha * p.training_loss + 0.5 * (ridge + i * h) * (k - 1) * p.q
            for i, p in enumerate(points, -2)
        ]
        slope, q = _slope(h, *risks[:2], *risks[3:]), points[2].q
        name = f"d risk/dλ, cross-entropy, k = {k}, α = {alpha:g}, λ = {ridge:g}"
        yield Check(name, slope, 0.5 * (k - 1) * q, "‖Ŵ‖²/2d", 1e-5 * q)


B = np.linalg.qr(np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]))[0]  # (3, 2)
PAPER = np.array([[1.0, 0, -1], [0, 1, -1]]) @ B  # to the paper's coordinates, last class less
PAIRS = (B[:, :, None] * B[:, None, :]).reshape(3, 4)
START = np.array([[0.6, -0.2], [-0.2, 0.3]])
BATCHES = 8


def bayes_matrix(full: bool) -> Iterator[Check]:
    """q₀₀ = 2q and q₀₁ = q in the paper's coordinates."""
    n = 40_000 if full else 8_000
    for alpha in (1.5, 5.0) if full else (1.5,):
        found = []
        for seed in range(BATCHES):
            z, noise = np.random.default_rng([1, seed]).standard_normal((2, n, 2))
            q = START
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
        m, V, field = START, q, np.zeros((n, 2))
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
    scalar = erm_point("cross-entropy", 3, ridge, alpha)
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


STEPS = 8


def message_passing(full: bool) -> Iterator[Check]:
    """The error that message passing reaches, and its overlap step by step."""
    cases = [(3, "gaussian", 1.5), (3, "rademacher", 2.0)]
    cases += [(2, "gaussian", 1.0), (5, "gaussian", 2.0), (3, "rademacher", 3.2)] if full else []
    d, runs = (2000, 20) if full else (1000, 10)
    for k, prior, alpha in cases:
        teacher = Teacher(k, prior)
        errors, paths = _runs(teacher, alpha, d, range(runs))
        name, source = f"k = {k}, {prior}, α = {alpha:g}, d = {d}", f"{runs} runs of AMP"
        (theory,) = _amp_branch(teacher, [alpha])
        slack = 4 / d + 4 * theory.uncertainty
        ours = theory.generalisation_error
        yield sampled_check(f"error, {name}", ours, errors, source, slack=slack)
        expected = state_evolution(teacher, alpha, STEPS).q
        lines = []
        for t in range(1, STEPS + 1):
            seen, after = [path[t] for path in paths], f"q after {t} iterations, {name}"
            lines.append(sampled_check(after, float(expected[t]), seen, source, slack=8 / d))
        yield max(lines, key=lambda line: abs(line.difference) / line.allowed)


def noisy_message_passing(full: bool) -> Iterator[Check]:
    """Message passing that knows the noise, and against it the theory of another noise."""
    d, runs = (1500, 12) if full else (800, 8)
    noiseless = fixed_points(Teacher(3), 2.0)[0].generalisation_error
    for noise in ("flips:0.1", "gaussian:0.5"):
        teacher = Teacher(3, noise=noise)
        errors, _ = _runs(teacher, 2.0, d, range(200, 200 + runs))
        theory = fixed_points(teacher, 2.0)[0].generalisation_error
        source = f"{runs} runs of AMP, d = {d}"
        yield sampled_check(f"error, k = 3, {noise}, α = 2", theory, errors, source, slack=4 / d)
        # A control that must fail: the noiseless theory is not what noisy labels give.
        wrong = sampled_check("", noiseless, errors, source, slack=4 / d).verdict == "off"
        yield Check(f"no noise is told from {noise}", float(wrong), 1.0, "the same runs", 0.5)


def _runs(
    teacher: AnyTeacher, alpha: float, d: int, seeds: range
) -> tuple[list[float], list[list[float]]]:
    """The final error of each run and its q at 0, …, STEPS (a run that has ended stays there)."""
    errors, paths = [], []
    for seed in seeds:
        row, found = run_amp(teacher, alpha, d, seed, tol=1e-6)
        errors.append(row["generalisation_error"])
        path = [entry["q"] for entry in found.trace]
        paths.append((path + path[-1:] * STEPS)[: STEPS + 1])
    return errors, paths


def scikit_learn(full: bool) -> Iterator[Check]:
    """Fresh fits of scikit-learn's own estimators: error and squared norm q."""
    d, runs = (1000, 16) if full else (500, 12)
    cases = [("cross-entropy", 2.0, 0.1), ("square", 2.0, 1.0), ("max-margin", 1.5, 0.0)]
    cases += [("cross-entropy", 5.0, 0.01), ("square", 0.5, 0.1)] if full else []
    for loss, alpha, ridge in cases:
        theory = erm_point(loss, 3, ridge, alpha)
        errors, norms = [], []
        for seed in range(runs):
            data = Teacher(3).sample(round(alpha * d), d, 100 + seed)
            weights = _fit(loss, ridge, data.X / math.sqrt(d), data.y)
            errors.append(exact_generalisation_error(weights, data.weights).value)
            norms.append(overlaps(weights, data.weights).q)
        name = f"{loss}, k = 3, α = {alpha:g}" + (f", λ = {ridge:g}" if ridge else "")
        source = f"{runs} scikit-learn fits, d = {d}"
        error = theory.generalisation_error
        yield sampled_check(f"error, {name}", error, errors, source, slack=4 / d)
        yield sampled_check(f"q, {name}", theory.q, norms, source, slack=4 / d * theory.q)


def _fit(loss: str, ridge: float, A: Array, y: NDArray[np.int64]) -> Array:
    """Weights (d, k) in the package's scaling, by an estimator that is not ours."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    own: dict[str, Any] = {"fit_intercept": False, "max_iter": 100_000}
    model, target = {
        "cross-entropy": (LogisticRegression(C=1 / (ridge or 1), tol=1e-8, **own), y),
        "square": (Ridge(alpha=ridge, **own), np.eye(3)[y]),
        # Crammer and Singer's machine, with a cost that forbids violations.
        "max-margin": (LinearSVC(C=1e4, multi_class="crammer_singer", tol=1e-5, **own), y),
    }[loss]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit(A, target).coef_.T, dtype=float)


def monte_carlo_errors(full: bool) -> Iterator[Check]:
    """ε(ρ) for k classes against labels drawn from correlated fields."""
    rng = np.random.default_rng(20)
    n = 2_000_000 if full else 400_000
    for k, rho in ((3, 0.7), (5, 0.9), (10, 0.5)):
        wrong = 0
        for _ in range(10):
            teacher, noise = rng.standard_normal((2, n // 10, k))
            student = rho * teacher + math.sqrt(1 - rho**2) * noise
            wrong += int((student.argmax(1) != teacher.argmax(1)).sum())
        rate = wrong / n
        allowed = 4 * math.sqrt(rate * (1 - rate) / n)
        ours = generalisation_error(rho, k)
        yield Check(f"ε(ρ = {rho:g}), k = {k}", ours, rate, f"{n:,} random labels", allowed)
