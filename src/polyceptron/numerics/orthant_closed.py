"""The argmax channel in closed form for k = 2 and 3, fields independent.

Fields z_h ~ N(ω_h, v_h); class l wins with probability P(z_l − z_h > 0 for all h ≠ l). With

    δ_h = ω_l − ω_h,    s_h² = v_l + v_h,    ρ = corr(z_l − z_h, z_l − z_j)

this is Φ(δ/s) for k = 2 and a bivariate orthant (`numerics.bivariate`) for k = 3. Derivatives in
ω follow by the chain rule: those of the losers are −∂_δ, the winner's is their sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from polyceptron.numerics.bivariate import bivariate_orthant
from polyceptron.numerics.mills import mills_ratio, mills_slope

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
_OTHERS = {2: np.array([[1], [0]]), 3: np.array([[1, 2], [0, 2], [0, 1]])}


class Differences(NamedTuple):
    """ln Z (n,), ∂_δ ln Z (k−1 arrays (n,)), −∂²_δ: its diagonal, and the k = 3 cross term."""

    log_z: Array
    slopes: tuple[Array, ...]
    diagonal: tuple[Array, ...]
    cross: Array | None


def others(label: Labels, k: int) -> Labels:
    """The losing classes (n, k−1) of each label (n,)."""
    result: Labels = _OTHERS[k][label]
    return result


def isotropic(omega: Array, label: Labels, variance: float | Array) -> Differences:
    """ω (n, k) and one variance, a number or (n,)."""
    s = np.sqrt(2 * np.asarray(variance, dtype=float))
    delta = _deltas(omega, label)
    return _closed(delta, (s,) * len(delta), 0.5)


def per_class(omega: Array, label: Labels, variance: Array) -> Differences:
    """ω (n, k) and a variance for each class (n, k)."""
    rows, losers = np.arange(len(label)), others(label, omega.shape[-1])
    v_l = variance[rows, label]
    s = tuple(np.sqrt(v_l + variance[rows, h]) for h in losers.T)
    rho: float | Array = v_l / (s[0] * s[-1]) if len(s) == 2 else 0.0
    return _closed(_deltas(omega, label), s, rho)


def score(parts: Differences, label: Labels) -> Array:
    """∇_ω ln Z (n, k)."""
    k = len(parts.slopes) + 1
    rows, losers = np.arange(len(label)), others(label, k)
    out = np.empty((len(label), k))
    for h, slope in zip(losers.T, parts.slopes, strict=True):
        out[rows, h] = -slope
    out[rows, label] = sum(parts.slopes)
    return out


def curvature(parts: Differences) -> Array:
    """−tr ∂²_ω ln Z (n,): each difference counts twice, the cross term twice once."""
    total: Array = 2 * sum(parts.diagonal[1:], parts.diagonal[0])
    return total if parts.cross is None else total + 2 * parts.cross


def hessian(parts: Differences, label: Labels) -> Array:
    """∂²_ω ln Z (n, k, k); rows and columns sum to zero."""
    k = len(parts.slopes) + 1
    rows, losers = np.arange(len(label)), others(label, k)
    out = np.zeros((len(label), k, k))
    for h, diagonal in zip(losers.T, parts.diagonal, strict=True):
        out[rows, h, h] = -diagonal
    if parts.cross is not None:
        first, second = losers.T
        out[rows, first, second] = out[rows, second, first] = -parts.cross
    border = -out.sum(-1)
    for h in losers.T:
        out[rows, label, h] = out[rows, h, label] = border[rows, h]
    out[rows, label, label] = -border.sum(-1)
    return out


def _deltas(omega: Array, label: Labels) -> tuple[Array, ...]:
    rows, losers = np.arange(len(label)), others(label, omega.shape[-1])
    winner = omega[rows, label]
    return tuple(winner - omega[rows, h] for h in losers.T)


def _closed(delta: tuple[Array, ...], s: tuple[Array, ...], rho: float | Array) -> Differences:
    if len(delta) == 1:
        a = delta[0] / s[0]
        r = mills_ratio(a)
        return Differences(log_ndtr(a), (r / s[0],), (mills_slope(a, r) / s[0] ** 2,), None)
    a, b = delta[0] / s[0], delta[1] / s[1]
    z = bivariate_orthant(a, b, rho)
    aa, bb, ab = z.curvatures(a, b, rho)
    return Differences(
        z.log_z,
        (z.slope_a / s[0], z.slope_b / s[1]),
        (aa / s[0] ** 2, bb / s[1] ** 2),
        ab / (s[0] * s[1]),
    )
