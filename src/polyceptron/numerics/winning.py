"""Which class has the largest utility, for any noise: one integral over the winning level C.

    Z_l(ω) = ∫ dC h(C − ω_l) ∏_j F(C − ω_j)        (all classes, with h = F′/F)

The integrand is log-concave. Its mode and width come from Newton's method; the substitution
C = C₀ + w(e^{2au} − 1)/2a stretches the right side, where it falls as an exponential, and the
trapezoidal rule in u converges geometrically. Score and Hessian are averages under the same
weights, as in `orthant_quadrature`, with A_j = h(C − ω_j).

The chance that one class wins, and its slopes, from the gaps to the others: absolute accuracy.

Class 1 leads the others by `gaps` g_h in the mean and every class has independent Gaussian noise of
standard deviation s. With a_h = g_h/(√2 s),

    Z = P(x_h ≤ a_h for all h),   x standard normal with correlations 1/2
    k = 2: Φ(a)      k = 3: a bivariate orthant      any k: one integral a sample

For averages over Gaussian fields, whose weights never magnify a small Z; tails that must keep their
relative accuracy are in `numerics.orthant`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from polyceptron.numerics import Array
from polyceptron.numerics.gumbel import UtilityTable
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.numerics.orthant_closed import corner_cdf
from polyceptron.numerics.orthant_quadrature import Quadrature

Labels = NDArray[np.int64]
_NEWTON = 30
_SKEW = (
    1 / 9
)  # a Gumbel density has 1/6: a little less reaches further left; normal noise dilutes it
_U_STEP = 0.36
_U = np.arange(-25, 36) * _U_STEP


def integrate_utilities(omega: Array, label: Labels, table: UtilityTable) -> Quadrature:
    """ln Z (n,) and the averages behind its derivatives, ω (n, k) in units of 1/β."""
    n, k = omega.shape
    competitors = np.arange(k - 1)
    competitors = competitors + (competitors >= label[:, None])
    own = omega[np.arange(n), label]
    fields = np.column_stack([own, np.take_along_axis(omega, competitors, 1)])  # the label's first
    level, width = _mode(fields, table)
    skew = _SKEW / (1 + table.s**2) ** 1.5
    C = level[:, None] + width[:, None] * (np.expm1(2 * skew * _U) / (2 * skew))
    found = table(C[:, :, None] - fields[:, None, :])
    with np.errstate(divide="ignore"):
        log_f = found.log_cdf.sum(-1) + np.log(found.hazard[..., 0]) + 2 * skew * _U
    peak = log_f.max(1, keepdims=True)
    p = np.exp(log_f - peak)
    total = p.sum(1, keepdims=True)
    p /= total
    log_z = (peak + np.log(total))[:, 0] + np.log(width * _U_STEP)
    A, slope = found.hazard[..., 1:], found.slope[..., 1:]
    mean = np.matmul(p[:, None, :], A)
    return Quadrature(np.minimum(log_z, 0.0), p, A, slope, mean, competitors)


def _mode(omega: Array, table: UtilityTable) -> tuple[Array, Array]:
    """Where ln F′(C − ω₁) + Σ_{j>1} ln F(C − ω_j) is largest (n,), and its width there (n,)."""
    top = omega.max(1)
    low, high = top + table.y[0] + 1e-9, omega[:, 0] + table.y[-1]
    C = np.minimum(top + np.log(np.exp(omega - top[:, None]).sum(1)) + min(table.s, 1.0), high)
    scale = math.hypot(1.0, table.s)
    for _ in range(_NEWTON):
        found = table(C[:, None] - omega)
        own = np.clip(C - omega[:, 0], table.y[0], table.y[-1])
        pull = table.log_density(own, 1) + found.hazard[:, 1:].sum(1)
        bend = found.slope[:, 1:].sum(1) - table.log_density(own, 2)
        stiff = np.maximum(bend, 0.02 / scale**2)
        step = np.clip(pull / stiff, -2 * scale, 2 * scale)
        C = np.clip(C + step, low, high)
        if np.max(np.abs(step) * np.sqrt(stiff), initial=0.0) < 0.2:
            break
    return C, 1 / np.sqrt(stiff)


_SQRT3 = math.sqrt(3)
_SEEN = 6.7  # beyond it Φ differs from 0 or 1 by less than 1e-11


class Winning(NamedTuple):
    """Z (n,) and its slopes ∂Z/∂g_h (k−1, n)."""

    z: Array
    slopes: Array


def winning_chance(gaps: Array, s: float, order: int = 14) -> Winning:
    """Z and its slopes at gaps (k−1, n), the smallest first where k = 3.

    From k = 4 on `order` nodes leave 1e-7 of an average over fields at k = 20, and less below.

    >>> bool(abs(winning_chance(np.zeros((2, 1)), 1.0).z[0] - 1 / 3) < 1e-12)
    True
    """
    scale = 1 / (math.sqrt(2) * s)
    if len(gaps) == 1:
        a = gaps * scale
        return Winning(ndtr(a[0]), np.exp(-0.5 * a * a) * (scale / math.sqrt(2 * math.pi)))
    if len(gaps) == 2:
        z, slopes = half_correlated(gaps[0] * scale, gaps[1] * scale)
        slopes *= scale
        return Winning(z, slopes)
    omega = np.concatenate([np.zeros((1, gaps.shape[1])), -gaps]).T
    orthant = argmax_orthant(omega, np.zeros(len(omega), dtype=np.int64), s * s, order=order)
    z = np.exp(orthant.log_z)
    return Winning(z, -(orthant.score[:, 1:].T) * z)


def half_correlated(a: Array, b: Array) -> tuple[Array, Array]:
    """P(x ≤ a, y ≤ b) (n,) of standard normals with correlation 1/2, a ≤ b, and its slopes (2, n).

    Absolute accuracy 1e-11. Far from the corner (b large) only a matters, and nothing there needs
    Owen's function.
    """
    z, slopes = ndtr(a), np.zeros((2, a.size))
    np.exp(-0.5 * a * a, out=slopes[0])
    near = np.flatnonzero((b < _SEEN) & (a > -_SEEN))
    if near.size:
        h, g = (np.where(x == 0, 1e-200, x) for x in (a[near], b[near]))  # keeps 0/0 out
        first, second = (2 * g - h) / _SQRT3, (2 * h - g) / _SQRT3
        slopes[0, near] *= ndtr(first)
        slopes[1, near] = np.exp(-0.5 * g * g) * ndtr(second)
        z[near] = corner_cdf(h, g, first, second)
    slopes /= math.sqrt(2 * math.pi)
    return z, slopes
