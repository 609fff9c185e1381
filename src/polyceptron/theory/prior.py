"""What the prior adds: the overlap of the reduced teacher row at signal-to-noise q̂.

One row u = Pw in R^r is seen as γ = q̂u* + √q̂ ξ. With ⟨·⟩ the posterior,

    v(q̂) = 1 − F(q̂) = E tr Cov⟨u⟩ / r,            ψ(q̂) = E ln Z_w(γ, q̂) − r q̂/2 = −(r/2) ∫_0^q̂ v,

so that the free entropy is Φ = (r/2) q̂ v + ψ + αΨ_out, with no large terms that cancel, and v
keeps its digits when q → 1 (a sum of positive terms, never 1 − q).

Gaussian: closed form. Finite, r ≤ 2: the trapezoidal rule on y = γ/√q̂, whose density is the mixture
Σ_c p_c N(y; √q̂ u_c). Finite, r ≥ 3: randomised quasi-Monte Carlo over k − 1 classes, the last one
integrated exactly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, xlogy

from polyceptron.errors import ComputationFailed
from polyceptron.model import AnyTeacher, FinitePrior, GaussianPrior, Perceptron
from polyceptron.numerics.denoise import reduced_support
from polyceptron.numerics.qmc import uniform_replicates

Array = NDArray[Any]


def prior_variance(teacher: AnyTeacher, q_hat: Array, log2_points: int = 8) -> Array:
    """v at the signal-to-noise ratios q̂ (p,), 0 ≤ q̂: shape (p, replicates)."""
    q_hat = np.atleast_1d(np.asarray(q_hat, dtype=float))
    if isinstance(teacher.prior, GaussianPrior):
        return 1 / (1 + q_hat)[:, None]
    if teacher.reduced_rank <= 2:
        points, log_p = reduced_points(teacher)
        return np.array([[_grid_variance(points, log_p, value)] for value in q_hat])
    return np.stack([_qmc_variance(teacher, value, log2_points) for value in q_hat])


def prior_entropy(teacher: AnyTeacher) -> float:
    """H(u): the entropy of one reduced teacher row; infinite for a Gaussian prior.

    Φ tends to −H at perfect learning. u forgets the common part of w, which is recovered from u
    unless w is constant over classes, so configurations merge only there.
    """
    prior = teacher.prior
    if isinstance(prior, GaussianPrior):
        return math.inf
    p = np.array(prior.probabilities)
    if isinstance(teacher, Perceptron):
        return float(-xlogy(p, p).sum())
    if len(p) ** teacher.n_classes <= 10_000:
        log_p = reduced_support(prior, teacher.n_classes)[1]
        return float(-(np.exp(log_p) * log_p).sum())
    return _large_entropy(prior, teacher.n_classes)


def _large_entropy(prior: FinitePrior, k: int) -> float:
    """k H(w) less what merging loses: rows w and w + c·1 share one u.

    Rows merge along chains of equal shape; for many classes this is a tiny correction, computed
    over the shapes that shift inside the support: those whose values all stay in it.
    """
    values, p = np.array(prior.values), np.array(prior.probabilities)
    total = -k * float(xlogy(p, p).sum())
    shifts = {round(float(b - a), 9) for a in values for b in values if b > a}
    # A set of values A (as support of the row) merges with A + c when both are in the support.
    # Only constant rows merge for two values: all-a with all-b.
    if len(values) == 2:
        a, b = k * math.log(p[0]), k * math.log(p[1])
        both = np.logaddexp(a, b)
        merged = math.exp(both) * both - math.exp(a) * a - math.exp(b) * b
        return total - merged
    bound = sum(
        float(p[np.isin(np.round(values + c, 9), np.round(values, 9))].sum()) ** k for c in shifts
    )
    if bound * k * math.log(1 / p.min()) > 1e-9:
        raise ComputationFailed(
            f"the entropy of a row of {k} classes with {len(values)} equally spaced values is not "
            "implemented at this size; use fewer classes or values"
        )
    return total


@lru_cache(maxsize=64)
def reduced_points(teacher: AnyTeacher) -> tuple[Array, Array]:
    """The values of u in r orthonormal coordinates (c, r) and their log-probabilities (c,)."""
    prior = teacher.prior
    assert isinstance(prior, FinitePrior)
    if isinstance(teacher, Perceptron):
        return np.array(prior.values)[:, None], np.log(prior.probabilities)
    points, log_p = reduced_support(prior, teacher.n_classes)
    basis = np.array([[1.0, -1.0]]) / math.sqrt(2)
    if teacher.n_classes == 3:
        basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    return points @ basis.T, log_p


def _grid_variance(points: Array, log_p: Array, q_hat: float) -> float:
    """v for r = 1 or 2, with a step that resolves the posterior's switches."""
    c, r = points.shape
    centres = math.sqrt(q_hat) * points
    distances = np.sqrt(((points[:, None] - points) ** 2).sum(-1)) + 1e9 * np.eye(c)
    step = min(0.3, 0.6 / (float(distances.min(1).max()) * math.sqrt(q_hat) + 1e-300))
    weights = np.exp(log_p) * (step / math.sqrt(2 * math.pi)) ** r
    tables = []
    for i in range(r):
        low, high = centres[:, i].min() - 8.8, centres[:, i].max() + 8.8
        axis = np.arange(math.ceil((high - low) / step) + 1) * step + low
        tables.append(np.exp(-0.5 * (axis[:, None] - centres[:, i]) ** 2))
    # Σ_c p_c N(y; √q̂ u_c) h(u_c) on the whole grid is a matrix product of the axes' tables.
    left, right = tables[0] * weights, tables[1].T if r == 2 else np.ones((c, 1))
    variance = 0.0
    block = max(1, 2_000_000 // right.shape[1])  # bounds the memory, whatever the spacing
    for start in range(0, len(left), block):
        rows = left[start : start + block]
        total = np.maximum(rows @ right, 1e-300)
        second = (rows * (points**2).sum(-1)) @ right
        first = sum(((rows * points[:, i]) @ right) ** 2 for i in range(r))
        variance += float((second - first / total).sum())
    return variance / r


def _qmc_variance(teacher: AnyTeacher, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for r ≥ 3: sample k − 1 classes, integrate the last one exactly.

    Not seeing the common part of w is seeing y_h = √q̂ w_h + ξ_h + c with an unknown shift c. Given
    c the classes are independent, each with density f(y − c), mean μ(y − c) and variance of w. By
    symmetry v is the variance of u_1 = w_1 − w̄ (times k/r): the other classes are sampled and give
    weights on a grid of c; the integrals over c, for all y_1 at once, are matrix products.
    """
    prior = teacher.prior
    assert isinstance(prior, FinitePrior)
    k = teacher.n_classes
    values, p = np.array(prior.values), np.array(prior.probabilities)
    s = math.sqrt(q_hat)
    y = _other_fields(teacher, log2_points, s)
    replicates, n, _ = y.shape
    y = y.reshape(-1, k - 1)
    width = s * (values.max() - values.min())
    step = min(0.5, 0.75 / math.sqrt(k))
    reach = width + 7
    if p.max() ** (k - 1) < 1e-7:
        # No shift by a difference of values can pass unnoticed: only the local peak matters.
        reach = min(reach, 8 / math.sqrt((k - 1) * _location_information(values, p, s)))
    c = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    first_step = min(0.3, 0.6 / (s * float(np.diff(values).max()) + 1e-300))
    low, high = s * values.min() - 8, s * values.max() + 8
    y_first = np.arange(math.floor(low / first_step), math.ceil(high / first_step) + 1) * first_step
    f, mu, var = _scalar_posterior(y_first - c[:, None], values, p, s)
    mu = mu * (1 - 1 / k)
    var = var * (1 - 1 / k) ** 2
    kernels = np.hstack([f, f * mu, f * (mu**2 + var)])
    first_weight = _scalar_posterior(y_first, values, p, s)[0] * first_step
    columns = np.exp(-s * values[:, None] * c)
    result = np.empty(len(y))
    chunk = max(1, 40_000 // (k * c.size))
    m = y_first.size
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        # f(y − c) ∝ Σ_i [p_i exp(s v_i y − s²v_i²/2)]·[exp(−s v_i c)]: no exponential of the table.
        rows = p * np.exp(s * y[part, :, None] * values - 0.5 * q_hat * values**2)
        total, first, second = ((rows * values**j) @ columns for j in range(3))
        mean = first / total
        shift = mean.sum(1) / k
        spread = (second / total - mean**2).sum(1) / k**2
        log_w = np.log(total).sum(1) - 0.5 * (k - 1) * c**2 + y[part].sum(1)[:, None] * c
        w = np.exp(log_w - log_w.max(-1, keepdims=True))
        plain = w @ kernels
        shifted = (w * shift) @ kernels[:, : 2 * m]
        squared = (w * (shift**2 + spread)) @ kernels[:, :m]
        Z = np.maximum(plain[:, :m], 1e-300)
        u_mean = (plain[:, m : 2 * m] - shifted[:, :m]) / Z
        u_second = (plain[:, 2 * m :] - 2 * shifted[:, m:] + squared) / Z
        result[part] = np.maximum(u_second - u_mean**2, 0.0) @ first_weight
    return result.reshape(replicates, n).mean(-1) * k / (k - 1)


def _location_information(values: Array, p: Array, s: float) -> float:
    """J = E (d ln f/dy)², how sharply one field y locates the common shift."""
    y = np.linspace(s * values.min() - 8, s * values.max() + 8, 400)
    f, mean, _ = _scalar_posterior(y, values, p, s)
    return float((f * (y - s * mean) ** 2).sum() * (y[1] - y[0]))


def _scalar_posterior(y: Array, values: Array, p: Array, s: float) -> tuple[Array, Array, Array]:
    """Density f(y) = Σ p_i N(y; s v_i, 1), and the posterior mean and variance of the value."""
    parts = [a * np.exp(-0.5 * (y - s * v) ** 2) for v, a in zip(values, p, strict=True)]
    total = np.maximum(sum(parts), 1e-300)
    mean = sum(w * v for w, v in zip(parts, values, strict=True)) / total
    variance = sum(w * (v - mean) ** 2 for w, v in zip(parts, values, strict=True)) / total
    return total / math.sqrt(2 * math.pi), mean, variance


def _other_fields(teacher: AnyTeacher, log2_points: int, s: float) -> Array:
    """Fields s·w_h + ξ_h of k − 1 classes, values sorted: (replicates, points, k − 1)."""
    rows, noise = _teacher_rows(teacher, log2_points)
    return s * rows + noise


@lru_cache(maxsize=4)
def _teacher_rows(teacher: AnyTeacher, log2_points: int) -> tuple[Array, Array]:
    """k − 1 entries of a teacher row, sorted by counts of each value, and noise of the same shape.

    Counts come by inverse CDF (the classes are exchangeable), one coordinate for each value.
    """
    from scipy.stats import binom

    prior = teacher.prior
    assert isinstance(prior, FinitePrior)
    k, m = teacher.n_classes - 1, len(prior.values)
    uniforms = uniform_replicates(k + m - 1, log2_points, seed=1000 + k)
    left = np.full(uniforms.shape[:-1], k)
    mass = 1.0
    index = np.zeros((*uniforms.shape[:-1], k), dtype=int)
    for i in range(m - 1):
        share = min(1.0, prior.probabilities[i] / mass)
        left = left - np.asarray(binom.ppf(uniforms[..., i], left, share), dtype=int)
        mass -= prior.probabilities[i]
        index += np.arange(k) >= k - left[..., None]
    return np.array(prior.values)[index], ndtri(uniforms[..., m - 1 :])
