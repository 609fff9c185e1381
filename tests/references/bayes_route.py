"""Bayes-optimal students by draws and plain sums: nothing of the package but the question.

Chances of a label are integrals over the field of that label alone,

    Z_l(ω) = ∫ φ(t) Π_{h≠l} Φ((ω_l − ω_h + s t)/s) dt,      s² = v + Δ,

or, where the residual fields are correlated, a sum over a plane of contrasts. The law of ω and the
information I = E Σ_l ‖∇Z_l‖²/Z_l are averages over scrambled points; six replicates give the bar.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import qmc
from scipy.stats import t as student

REPLICATES = 6
LOG2 = 12  # of draws in a replicate
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()
SMALLEST = 1e-290


def bar_of(values: Any) -> Any:
    """99 of 100 means of replicates (R, …) are this near."""
    t = float(student.ppf(0.995, len(values) - 1)) / math.sqrt(len(values))
    return t * np.std(values, axis=0, ddof=1)


def normals(size: int, log2: int, seed: int) -> Any:
    """Scrambled normal points (n, size)."""
    u = qmc.Sobol(size, rng=np.random.default_rng(seed)).random_base2(log2)
    return ndtri(np.clip(u, 1e-12, 1 - 1e-12))


def alike_chances(omega: Any, variance: float) -> tuple[Any, Any]:
    """Z (n, k) and ∇Z (n, k, k) of fields that have `variance` each, around ω (n, k)."""
    s = math.sqrt(variance)
    k = omega.shape[1]
    Z = np.empty_like(omega)
    slopes = np.zeros((*omega.shape, k))
    for label in range(k):
        others = [h for h in range(k) if h != label]
        a = (omega[:, label, None] - omega[:, others]) / s  # (n, k−1)
        at = NODES[:, None, None] + a
        factors = ndtr(at)
        densities = np.exp(-0.5 * at * at) / math.sqrt(2 * math.pi)
        Z[:, label] = NODE_WEIGHTS @ factors.prod(2)
        for i, h in enumerate(others):
            rest = np.delete(factors, i, axis=2).prod(2)
            slope = NODE_WEIGHTS @ (densities[:, :, i] * rest) / s
            slopes[:, label, h] = -slope
            slopes[:, label, label] += slope
    return Z, slopes


def with_flips(Z: Any, slopes: Any, rate: float) -> tuple[Any, Any]:
    """Chances and slopes of labels of which a share is another class."""
    k = Z.shape[1]
    keep = 1 - rate * k / (k - 1)
    return keep * Z + rate / (k - 1), keep * slopes


def information_of(Z: Any, slopes: Any) -> float:
    """E Σ_l ‖∇Z_l‖²/Z_l on class differences, for each of k − 1."""
    k = Z.shape[1]
    return float(((slopes**2).sum(2) / np.maximum(Z, SMALLEST)).sum(1).mean()) / (k - 1)


def error_of(Z: Any) -> float:
    """The error of the label of largest chance."""
    return float(1 - Z.max(1).mean())


def prior_overlap(values: Any, p: Any, k: int, q_hat: float, x: Any) -> float:
    """q = E‖⟨u⟩‖²/r of a finite prior's row u on class differences, from normal points x (n, k)."""
    rows = np.array(list(itertools.product(range(len(values)), repeat=k)))
    weight = p[rows].prod(1)
    u = values[rows] @ helmert(k).T  # (rows, r)
    xi = x[:, : k - 1]
    q = 0.0
    for own, share in zip(u, weight, strict=True):
        y = q_hat * own + math.sqrt(q_hat) * xi
        log_w = np.log(weight) + y @ u.T - 0.5 * q_hat * (u**2).sum(1)
        posterior = np.exp(log_w - log_w.max(1, keepdims=True))
        posterior /= posterior.sum(1, keepdims=True)
        q += share * float(((posterior @ u) ** 2).sum(1).mean()) / (k - 1)
    return q


def point_of_many(
    k: int, prior: tuple[Any, Any] | None, noise: tuple[str, float], q_hat: float, seed: int
) -> dict[str, tuple[float, float]]:
    """α, q and the error at q̂, with bars; a prior of None is Gaussian."""
    rows = []
    for i in range(REPLICATES):
        q = q_hat / (1 + q_hat)
        if prior is not None:
            q = prior_overlap(*prior, k, q_hat, normals(k, LOG2 - 2, seed + 50 + i))
        omega = math.sqrt(q) * normals(k, LOG2, seed + i)
        variance = 1 - q + (noise[1] if noise[0] == "gaussian" else 0.0)
        Z, slopes = alike_chances(omega, variance)
        if noise[0] == "flips":
            Z, slopes = with_flips(Z, slopes, noise[1])
        rows.append([q_hat / information_of(Z, slopes), q, error_of(Z)])
    mean, bar = np.mean(rows, axis=0), bar_of(rows)
    return {name: (float(mean[i]), float(bar[i])) for i, name in enumerate(("alpha", "q", "error"))}


def correlated_chances(mean: Any, C: Any, noise: float, T: Any) -> Any:
    """Z (n, k) of two or three classes: fields on class differences are N(mean (n, r), C)."""
    k = T.shape[0]
    C = C + noise * np.eye(k - 1)
    Z = np.empty((len(mean), k))
    nodes, weights = np.polynomial.legendre.leggauss(48)
    for label in range(k):
        gaps = np.array([T[label] - T[h] for h in range(k) if h != label])  # (k−1, r)
        centre, S = mean @ gaps.T, gaps @ C @ gaps.T
        if k == 2:
            Z[:, label] = ndtr(centre[:, 0] / math.sqrt(S[0, 0]))
            continue
        # P(a > 0, b > 0): a in panels of u = Φ, b given a.
        sd = math.sqrt(S[0, 0])
        low = -np.clip(centre[:, 0] / sd, -9, 9)
        span = np.maximum(9 - low, 0.0)
        x = low[:, None] + span[:, None] * (nodes + 1) / 2
        slope = S[1, 0] / sd
        rest = math.sqrt(S[1, 1] - slope**2)
        inner = ndtr((centre[:, 1, None] + slope * x) / rest)
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        Z[:, label] = span / 2 * ((density * inner) @ weights)
    return Z


def biased_answer(
    k: int, biases: Any, alpha: float, noise: tuple[str, float], seed: int
) -> dict[str, tuple[float, float]]:
    """The error and the trace of Q of a biased teacher's Bayes-optimal student, with bars."""
    T = helmert(k).T
    r = k - 1
    shift = np.asarray(biases) @ T
    extra = noise[1] if noise[0] == "gaussian" else 0.0
    rows = []

    def chances(omega: Any, C: Any) -> Any:
        Z = correlated_chances(omega + shift, C, extra, T)
        if noise[0] == "flips":
            Z = with_flips(Z, 0.0, noise[1])[0]
        return Z

    for i in range(REPLICATES):
        x = normals(r, LOG2 - 2, seed + i)
        C = np.eye(r) / (1 + alpha)
        for _ in range(200):
            root = np.linalg.cholesky(np.eye(r) - C)
            omega = x @ root.T
            step = 1e-4 * math.sqrt(float(np.trace(C)) + extra)
            Z = chances(omega, C)
            slopes = np.stack(
                [
                    (chances(omega + step * e, C) - chances(omega - step * e, C)) / (2 * step)
                    for e in np.eye(r)
                ],
                axis=2,
            )
            pulled = slopes[:, :, :, None] * slopes[:, :, None, :]
            Q_hat = alpha * (pulled / np.maximum(Z, 1e-30)[:, :, None, None]).sum(1).mean(0)
            new = np.linalg.inv(np.eye(r) + Q_hat)
            moved = float(np.abs(new - C).max())
            C = (new + C + (new + C).T) / 4
            if moved < 1e-7 * float(np.trace(C)):
                break
        fresh = normals(r, LOG2 + 2, seed + 101 + i) @ np.linalg.cholesky(np.eye(r) - C).T
        rows.append([error_of(chances(fresh, C)), r - float(np.trace(C))])
    mean, bar = np.mean(rows, axis=0), bar_of(rows)
    return {name: (float(mean[i]), float(bar[i])) for i, name in enumerate(("error", "trace of Q"))}


def separable(X: Any, y: Any, k: int, intercept: bool) -> bool:
    """Whether a linear program finds weights without a mistake."""
    n = len(X)
    if intercept:
        X = np.hstack([X, np.ones((n, 1))])
    rows = []
    for h in range(k):
        apart = np.flatnonzero(y != h)
        part = np.zeros((len(apart), k, X.shape[1]))
        part[np.arange(len(apart)), y[apart]] = -X[apart]
        part[:, h] += X[apart]
        rows.append(part.reshape(len(apart), -1))
    A = np.concatenate(rows)
    A = np.hstack([A, np.ones((len(A), 1))])
    cost = np.append(np.zeros(A.shape[1] - 1), -1.0)
    bounds = [(-1, 1)] * (A.shape[1] - 1) + [(0, 1)]
    return bool(-linprog(cost, A, np.zeros(len(A)), bounds=bounds).fun > 1e-9)


def share_separable(
    sample: Callable[[int, int, int], Any], n: int, d: int, k: int, runs: int, seed: int
) -> float:
    """The share of drawn data sets of n samples that are separable, with an intercept."""
    found = []
    for i in range(runs):
        X, y = sample(n, d, seed + i)
        found.append(separable(X, y, k, True))
    return float(np.mean(found))


def half_separable(
    sample: Callable[[int, int, int], Any], alpha: float, d: int, k: int, seed: int
) -> tuple[float, float]:
    """n/d at which half of the data sets are separable, near `alpha`, with a bar.

    The share is taken for Φ((n₅₀ − n)/w); n₅₀ of a likelihood that is within e^−3.3 of the largest
    at any w is not excluded.
    """
    ratios = alpha * np.array([0.86, 0.94, 1.0, 1.06, 1.14])
    runs = 24
    shares = [
        share_separable(sample, round(a * d), d, k, runs, seed + 1000 * i)
        for i, a in enumerate(ratios)
    ]
    hits = np.array(shares) * runs
    half = alpha * np.linspace(0.6, 1.4, 801)[:, None, None]
    width = alpha * np.geomspace(0.01, 0.4, 40)[:, None]
    drawn = np.array([round(a * d) / d for a in ratios])
    chance = np.clip(ndtr((half - drawn) / width), 1e-12, 1 - 1e-12)
    likelihood = (hits * np.log(chance) + (runs - hits) * np.log1p(-chance)).sum(2).max(1)
    allowed = half[likelihood > likelihood.max() - 3.3, 0, 0]
    best = float(half[likelihood.argmax(), 0, 0])
    return best, float(max(allowed.max() - best, best - allowed.min()))
