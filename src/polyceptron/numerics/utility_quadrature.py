"""Which class has the largest utility, for any noise: one integral over the winning level C.

    Z_l(ω) = ∫ dC h(C − ω_l) ∏_j F(C − ω_j)        (all classes, with h = F′/F)

The integrand is log-concave. Its mode and width come from Newton's method; the substitution
C = C₀ + w(e^{2au} − 1)/2a stretches the right side, where it falls as an exponential, and the
trapezoidal rule in u converges geometrically. Score and Hessian are averages under the same
weights, as in `orthant_quadrature`, with A_j = h(C − ω_j).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics.gumbel import UtilityTable
from polyceptron.numerics.orthant_quadrature import Quadrature

Array = NDArray[np.float64]
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
    losers = np.arange(k - 1)
    losers = losers + (losers >= label[:, None])
    own = omega[np.arange(n), label]
    fields = np.column_stack([own, np.take_along_axis(omega, losers, 1)])  # the label's first
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
    return Quadrature(np.minimum(log_z, 0.0), p, A, slope, mean, losers)


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
