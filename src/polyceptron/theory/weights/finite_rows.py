"""What a row of a finite prior leaves unknown: a sum over points, or over sampled classes.

One or two class differences: y = γ/√q̂ has the density Σ_c p_c N(y; √q̂ u_c) over the points u_c that
a row can take, and on a grid of y

    v = (1/r) ∫ dy [ Σ_c w_c(y)‖u_c‖² − ‖Σ_c w_c(y) u_c‖²/Σ_c w_c(y) ],    w_c = p_c N(y; √q̂ u_c).

Three and more: not seeing the common part of a row is seeing y_h = √q̂ w_h + ξ_h + c with an unknown
shift c, given which the classes are independent. By symmetry v is the variance of u_1 = w_1 − w̄
(times k/r): the other classes are sampled (randomised quasi-Monte Carlo) by inverse CDF, one
coordinate a class, and give weights on a grid of c; the integrals over c, for all y_1 at once, are
matrix products.
"""

from __future__ import annotations

import math

import numpy as np

from polyceptron.model import AnyTeacher
from polyceptron.model.checks import difference_basis
from polyceptron.model.priors import Prior
from polyceptron.model.priors.base import reduced_support
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.theory.weights.shift import FieldTable, scalar_posterior


def point_variance(teacher: AnyTeacher, q_hat: float) -> float:
    """v at q̂ for r = 1 or 2, with a step that resolves the posterior's switches."""
    values, p = support_of(teacher.prior)
    points, log_p = values[:, None], np.log(p)
    if teacher.common_shift:
        points, log_p = reduced_support(teacher.prior, teacher.n_classes)
        points = points @ difference_basis(teacher.n_classes)  # r orthonormal coordinates
    c, r = points.shape
    centres = math.sqrt(q_hat) * points
    # Half-way between rows δ apart the switch has poles at iπ/(√q̂ δ): error exp(−2π²/0.6).
    gap = float(np.diff(values).max())
    gap *= math.sqrt(1 - 1 / teacher.n_classes) if teacher.common_shift else 1.0
    step = min(0.3, 0.6 / (gap * math.sqrt(q_hat) + 1e-300))
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


_LARGEST_EXPONENT = 600.0  # of a product of exponentials that does not overflow


def finite_row_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for a finite prior."""
    values, p = support_of(prior)
    s = math.sqrt(q_hat)
    uniform = uniform_replicates(k - 1, log2_points, seed=1000 + k)
    y = FieldTable(prior, q_hat).quantile(uniform)
    replicates, n, _ = y.shape
    y = y.reshape(-1, k - 1)
    width = s * (values.max() - values.min())
    step = min(0.7, 1 / math.sqrt(k))
    reach = width + 7
    if p.max() ** (k - 1) < 1e-7:
        # No shift by a difference of values can pass unnoticed: only the local peak matters.
        place = np.linspace(s * values.min() - 8, s * values.max() + 8, 400)
        log_f, mean, _ = location_posterior(prior, q_hat, place)
        information = float((np.exp(log_f) * (place - s * mean) ** 2).sum() * (place[1] - place[0]))
        reach = min(reach, 8 / math.sqrt((k - 1) * information))  # J = E (d ln f/dy)²
    c = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    # Half-way between values δ apart the switch has poles at iπ/(sδ): error exp(−2π²/1.1).
    first_step = min(0.5, 1.1 / (s * float(np.diff(values).max()) + 1e-300))
    low, high = s * values.min() - 8, s * values.max() + 8
    y_first = np.arange(math.floor(low / first_step), math.ceil(high / first_step) + 1) * first_step
    log_f, mu, var = location_posterior(prior, q_hat, y_first - c[:, None])
    f, mu = np.exp(log_f), mu * (1 - 1 / k)
    var = var * (1 - 1 / k) ** 2
    kernels = np.hstack([f, f * mu, f * (mu**2 + var)])
    first_weight = np.exp(location_posterior(prior, q_hat, y_first)[0]) * first_step
    exponent = s * float(np.abs(values).max()) * (float(c[-1]) + float(np.abs(y).max()))
    columns = np.exp(np.minimum(-s * values[:, None] * c, _LARGEST_EXPONENT))
    result = np.empty(len(y))
    chunk = max(1, 40_000 // (k * c.size))
    m = y_first.size
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        if exponent < _LARGEST_EXPONENT:
            # f(y − c) ∝ Σ_i [p_i exp(s v_i y − s²v_i²/2)]·[exp(−s v_i c)]: no exponential of y − c.
            classes = p * np.exp(s * y[part, :, None] * values - 0.5 * q_hat * values**2)
            total, first, second = ((classes * values**j) @ columns for j in range(3))
            mean = first / total
            variance = second / total - mean**2
            log_w = np.log(total).sum(1) - 0.5 * (k - 1) * c**2 + y[part].sum(1)[:, None] * c
        else:
            log_f, mean, variance = location_posterior(prior, q_hat, y[part, :, None] - c)
            log_w = log_f.sum(1)
        shift, spread = mean.sum(1) / k, variance.sum(1) / k**2
        w = np.exp(log_w - log_w.max(-1, keepdims=True))
        plain = w @ kernels
        shifted = (w * shift) @ kernels[:, : 2 * m]
        squared = (w * (shift**2 + spread)) @ kernels[:, :m]
        Z = np.maximum(plain[:, :m], 1e-300)
        u_mean = (plain[:, m : 2 * m] - shifted[:, :m]) / Z
        u_second = (plain[:, 2 * m :] - 2 * shifted[:, m:] + squared) / Z
        result[part] = np.maximum(u_second - u_mean**2, 0.0) @ first_weight
    return result.reshape(replicates, n).mean(-1) * k / (k - 1)


def support_of(prior: Prior) -> tuple[Array, Array]:
    """Values and probabilities of a finite prior."""
    assert prior.support is not None, prior.name
    return prior.support


def location_posterior(prior: Prior, q_hat: float, y: Array) -> tuple[Array, Array, Array]:
    """ln f(y), f(y) = Σ p_i N(y; √q̂ v_i, 1), and the posterior mean and variance of the value."""
    log_f, apart, variance = scalar_posterior(prior, q_hat, y)
    return log_f, apart + math.sqrt(q_hat) / (1 + q_hat) * y, variance
