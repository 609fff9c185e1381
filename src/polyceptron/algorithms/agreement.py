"""P(argmax s = argmax t) of two centred, jointly Gaussian field vectors with any covariances.

For any number of classes; three have a closed integral (`three_class_agreement`). Let σ² be the
least eigenvalue of the joint covariance of the class differences. Then s = g + σξ and t = g' + σξ'
with independent noise ξ, ξ', so that given g and g'

    P(argmax s = argmax t | g, g') = Σ_l Z_l(g, σ²) Z_l(g', σ²)

with the argmax probabilities Z of isotropic noise, each one integral on a grid that all classes
share. Quasi-Monte Carlo averages this smooth function over (g, g'), minus the same function for
the class-symmetric part of the covariances, whose mean is known; replicates show the error. Where
σ² vanishes (perfect recovery of a rule, or weights of deficient rank) a line in field space is
integrated instead: on it each class wins on one interval, for the student and for the teacher.

P(argmax s ≠ y) of student fields s and a label y drawn at teacher fields t by any channel.

s and t are centred and jointly Gaussian. Where s has independent noise of variance ν in every
direction once t is known, s = g + √ν ξ, and given g and t

    P(argmax s = y | g, t) = Σ_l Z_l(g, ν) P(y = l | t)

with the noiseless Z and the channel's own probabilities: a smooth function that quasi-Monte Carlo
averages. Where it has none (the student is the teacher) the argmax of s itself is taken.

P(argmax s = argmax t) of two centred, jointly Gaussian field vectors of three classes.

Each class contributes an orthant probability of two student and two teacher differences. With the
cross-correlations multiplied by τ it is a product of two wedges at τ = 0, and by Plackett's
identity its derivative in τ is elementary:

    ∂P/∂c_ij = (1/4 + arcsin(ρ_ij)/2π) / (2π √(1 − c_ij²)),

with ρ_ij the correlation of the other two differences given that these two vanish. One integral
over τ, with its possible singularity at τ = 1, is a task for the tanh-sinh rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from scipy.special import ndtr, ndtri

from polyceptron.model.channels import Channel
from polyceptron.model.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import from_replicates, uniform_replicates
from polyceptron.theory.generalisation import generalisation_error

_REPLICATES = 16
_LOG2_POINTS = (7, 13)  # first and largest number of points of a replicate
_MEMORY = 400_000  # numbers in the largest temporary
FLAT = 1e-7  # least noise per class direction (of 1) that the smooth integrand resolves
_STEP = 0.5  # of the trapezoidal rule: 9 digits up to k = 10, 7 at k = 50
_GRID = np.arange(-5.5, 7.6, _STEP)


def sampled_error(
    student: Array, teacher: Array, cross: Array, tol: float, seed: int
) -> tuple[float, float]:
    """ε and its uncertainty from the k×k covariances of s, of t, and between them; any k."""
    k = student.shape[0]
    basis = difference_basis(k)
    S, T, C = (basis.T @ part @ basis for part in (student, teacher, cross))
    a, b = (math.sqrt((k - 1) / np.trace(part)) if part.any() else 1.0 for part in (S, T))
    joint = np.block([[a * a * S, a * b * C], [a * b * C.T, b * b * T]])
    noise = float(np.linalg.eigvalsh(joint)[0]) * (1 - 1e-6)
    rho = float(np.trace(C)) * a * b / (k - 1)
    if noise > FLAT and 0 < rho < 1:
        known = 1 - float(generalisation_error(rho, k))
        lift = np.kron(np.eye(2), basis) @ common_first(joint, noise) / math.sqrt(noise)
        twin = basis * math.sqrt(rho / (1 - rho))
        integrand = partial(_smooth_agreement, lift=lift, twin=twin)
    else:
        known = 0.0
        integrand = partial(_line_agreement, factors=_factors(student, teacher, cross))
    value, uncertainty = sample_until(integrand, 2 * k - 2, tol, seed)
    return min(1.0, max(0.0, 1 - known - value)), uncertainty


def sample_until(
    integrand: Callable[[Array], Array], dimension: int, tol: float, seed: int
) -> tuple[float, float]:
    """The mean of a function of normal points (n, dim), and its uncertainty, within tol if it can.

    The number of points doubles until then.
    """
    for log2_points in range(*_LOG2_POINTS):
        samples = _normal_points(dimension, log2_points, seed)
        found = from_replicates(np.array([integrand(points).mean() for points in samples]))
        if found.uncertainty <= tol:
            break
    return float(found.value), float(found.uncertainty)


def common_first(joint: Array, noise: float) -> Array:
    """L (2r, 2r) with LLᵀ = joint − noise·I, whose first r columns carry what s and t share.

    With class-symmetric covariances the first r columns are √ρ(I, I) and the others are zero.
    """
    r = joint.shape[0] // 2
    turn = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2), np.eye(r))
    G = turn @ joint @ turn - noise * np.eye(2 * r)
    shared = root(G[:r, :r])
    mixed = G[r:, :r] @ np.linalg.pinv(shared, rcond=1e-12, hermitian=True)
    rest = root(G[r:, r:] - mixed @ mixed.T)
    L = np.block([[shared, np.zeros((r, r))], [mixed, rest]])
    result: Array = turn @ L
    return result


def _smooth_agreement(points: Array, lift: Array, twin: Array) -> Array:
    """Σ_l Z_l(g)Z_l(g') − Σ_l Z_l(g₀)² at fields in units of the noise, (n,).

    (g, g') = lift·point has the given covariances, g₀ = twin·point their class-symmetric part,
    whose mean is known: the difference of the two fluctuates far less.
    """
    k, r = twin.shape
    chunk = max(1, _MEMORY // (k * _GRID.size))
    parts = []
    for start in range(0, len(points), chunk):
        part = points[start : start + chunk]
        fields = part @ lift.T
        both = win_probabilities(fields[:, :k]) * win_probabilities(fields[:, k:])
        symmetric = win_probabilities(part[:, :r] @ twin.T)
        parts.append((both - symmetric**2).sum(1))
    return np.concatenate(parts)


def win_probabilities(fields: Array) -> Array:
    """P(class l has the largest field + unit noise), all l at once: (n, k) to (n, k).

    The winning value has density Σ_l φ(x − g_l) ∏_{h≠l} Φ(x − g_h) and lies around the largest
    field, which the trapezoidal rule covers.
    """
    shifted = fields - fields.max(1, keepdims=True)
    x = _GRID - shifted[:, :, None]
    below = ndtr(x)
    product = below.prod(1)
    ratio = np.exp(-0.5 * x * x) / below
    chances = np.einsum("nx,nkx->nk", product, ratio)
    result: Array = chances / chances.sum(1, keepdims=True)
    return result


def _factors(student: Array, teacher: Array, cross: Array) -> tuple[Array, Array, Array]:
    """A, B, C (k, k−1) with t = Aξ and s = Bξ + Cη for independent standard normal ξ, η."""
    basis = difference_basis(teacher.shape[0])
    A = root(basis.T @ teacher @ basis)
    B = basis.T @ cross @ basis @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    return basis @ A, basis @ B, basis @ root(basis.T @ student @ basis - B @ B.T)


def root(covariance: Array) -> Array:
    """The symmetric square root of a covariance, rounding below 0 cut off."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    result: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return result


@lru_cache(maxsize=8)
def _normal_points(dimension: int, log2_points: int, seed: int) -> tuple[Array, ...]:
    """Independent scramblings of a Sobol sequence, mapped to normal numbers (points, dim)."""
    return tuple(ndtri(uniform_replicates(dimension, log2_points, seed, _REPLICATES)))


def _line_agreement(points: Array, factors: tuple[Array, Array, Array]) -> Array:
    """P(argmax s = argmax t | all but the first coordinate of ξ), for points (n, 2k−2)."""
    A, B, C = factors
    r = A.shape[1]
    xi, eta = points[:, 1:r], points[:, r:]
    low_t, high_t = _winning(xi @ A[:, 1:].T, A[:, 0])
    low_s, high_s = _winning(xi @ B[:, 1:].T + eta @ C.T, B[:, 0])
    both = ndtr(np.minimum(high_s, high_t)) - ndtr(np.maximum(low_s, low_t))
    result: Array = np.maximum(both, 0.0).sum(1)
    return result


def _winning(level: Array, slope: Array) -> tuple[Array, Array]:
    """The interval of c on which level_l + slope_l·c is the largest, for every l: two (n, k)."""
    n, k = level.shape
    low, high = np.full((n, k), -np.inf), np.full((n, k), np.inf)
    for l in range(k):
        gain = slope[l] - slope
        lead = level[:, l, None] - level
        for h in range(k):
            if h == l:
                continue
            if gain[h] > 0:
                np.maximum(low[:, l], -lead[:, h] / gain[h], out=low[:, l])
            elif gain[h] < 0:
                np.minimum(high[:, l], -lead[:, h] / gain[h], out=high[:, l])
            else:  # parallel: the higher one wins, the first of equals
                wins = lead[:, h] > 0 if h < l else lead[:, h] >= 0
                low[~wins, l] = np.inf
    return low, high


def drawn_label_error(
    student: Array, teacher: Array, cross: Array, channel: Channel, tol: float, seed: int
) -> tuple[float, float]:
    """ε and its uncertainty from the k×k covariances of s, of t, and between them; any k.

    Those of t are in the units in which the channel draws labels.
    """
    k = student.shape[0]
    basis = difference_basis(k)
    S, T, C = (basis.T @ part @ basis for part in (student, teacher, cross))
    # t = Aξ and s = Bξ + rest·η + √ν noise, for independent standard normal ξ, η.
    A = root(T)
    B = C @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    rest = S - B @ B.T
    noise = float(np.linalg.eigvalsh(rest)[0]) * (1 - 1e-6)
    noise = noise if noise > FLAT * float(np.trace(S)) else 0.0
    own = np.hstack([B, root(rest - noise * np.eye(k - 1))])
    integrand = partial(
        _agreement, teacher=basis @ A, student=basis @ own, noise=noise, channel=channel
    )
    value, uncertainty = sample_until(integrand, 2 * k - 2, tol, seed)
    return min(1.0, max(0.0, 1 - value)), uncertainty


def _agreement(
    points: Array, teacher: Array, student: Array, noise: float, channel: Channel
) -> Array:
    """P(argmax s = y | g, t) at points (n, 2k−2): t from their first half, g from all of them."""
    chances = channel.chances(points[:, : teacher.shape[1]] @ teacher.T)
    g = points @ student.T
    if noise == 0:
        return np.asarray(np.take_along_axis(chances, g.argmax(1)[:, None], 1)[:, 0])
    result: Array = (win_probabilities(g / math.sqrt(noise)) * chances).sum(1)
    return result


def three_class_agreement(student: Array, teacher: Array, cross: Array) -> tuple[float, float]:
    """Agreement and its uncertainty from the 3×3 covariances of s, of t, and between them."""
    coarse, fine = (
        sum(_class_share(l, student, teacher, cross, step) for l in range(3))
        for step in (1 / 8, 1 / 16)
    )
    return fine, abs(fine - coarse) + 1e-14


def _class_share(label: int, student: Array, teacher: Array, cross: Array, step: float) -> float:
    """P(label wins both), by Plackett's identity along τ in [0, 1]."""
    D = np.delete(np.eye(3)[label] - np.eye(3), label, axis=0)  # rows e_l − e_h
    S, T, C = D @ student @ D.T, D @ teacher @ D.T, D @ cross @ D.T
    s, t = np.sqrt(np.diag(S)), np.sqrt(np.diag(T))
    a, b = S[0, 1] / (s[0] * s[1]), T[0, 1] / (t[0] * t[1])
    c = np.clip(C / np.outer(s, t), -1.0, 1.0)
    wedges = _wedge(a) * _wedge(b)
    tau, weight = _tanh_sinh(step)
    slope = np.zeros_like(tau)
    for i in range(2):
        for j in range(2):
            r = tau * c[i, j]
            free = np.maximum(1 - r * r, 1e-30)
            # Given x_i = y_j = 0, with the others' correlations p, q to x_i and u, v to y_j.
            p, u = a, tau * c[1 - i, j]
            q, v = tau * c[i, 1 - j], b
            vx = 1 - (p * p - 2 * r * p * u + u * u) / free
            vy = 1 - (q * q - 2 * r * q * v + v * v) / free
            xy = tau * c[1 - i, 1 - j] - (p * q - r * (p * v + u * q) + u * v) / free
            spread = np.sqrt(np.maximum(vx, 1e-150)) * np.sqrt(np.maximum(vy, 1e-150))
            rho = np.clip(xy / spread, -1.0, 1.0)
            slope += (
                c[i, j] * (0.25 + np.arcsin(rho) / (2 * math.pi)) / (2 * math.pi * np.sqrt(free))
            )
    return float(wedges + weight @ slope)


def _wedge(correlation: float) -> float:
    """P(x > 0, y > 0) of two unit Gaussians."""
    return 0.25 + math.asin(min(1.0, max(-1.0, correlation))) / (2 * math.pi)


@lru_cache(maxsize=4)
def _tanh_sinh(step: float) -> tuple[Array, Array]:
    """Nodes and weights on [0, 1] that also serve integrands with a root in the denominator."""
    x = np.arange(-3.6, 3.6 + step / 2, step)
    tau = 1 / (1 + np.exp(-math.pi * np.sinh(x)))
    weight = step * math.pi * np.cosh(x) * tau * (1 - tau)
    return tau, weight
