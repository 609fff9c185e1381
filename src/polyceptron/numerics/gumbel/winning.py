"""Which class has the largest utility: one integral over the winning level C,

    Z_l(ω) = ∫ dC h(C − ω_l) ∏_j F(C − ω_j)        (all classes, with h = F′/F)

whose integrand is log-concave. Its mode and width come from Newton's method. The substitution
C = C₀ + w(e^{2au} − 1)/2a stretches the right side, where it falls as an exponential, and the
trapezoidal rule in u converges geometrically. Score and curvature are averages under the same
weights, as in `numerics.orthant`, with A_j = h(C − ω_j). Fields ω are in units of 1/β.
"""

import math

import numpy as np

from polyceptron.numerics import Array, special
from polyceptron.numerics.gumbel.utility import UtilityTable
from polyceptron.numerics.orthant import Labels, Quadrature, other_classes

# The skew a at s = 0. A Gumbel density has 1/6: a little less reaches further left.
SKEW_WITHOUT_NOISE = 1 / 9
# Nodes u of the trapezoidal rule, and fewer for a chance to 1e-8.
U_STEP = 0.36
U_NODES = np.linspace(-25, 35, 61) * U_STEP
COARSE_U_STEP = 0.65
COARSE_U_NODES = np.linspace(-9, 14, 24) * COARSE_U_STEP
MAX_NEWTON_STEPS = 30  # to the mode of the integrand: a fifth of its width is close enough


def integrate_utilities(omega: Array, label: Labels, table: UtilityTable) -> Quadrature:
    """Return ln Z (n,) of each label and the averages behind its derivatives, at ω (n, k)."""
    n, k = omega.shape
    competitors = other_classes(label, k)
    own = omega[np.arange(n), label]
    label_first = np.column_stack([own, np.take_along_axis(omega, competitors, 1)])
    skew, width, C = _levels(label_first, table, U_NODES)
    found = table(C[:, :, None] - label_first[:, None, :])
    with np.errstate(divide="ignore"):
        log_f = found.log_cdf.sum(-1) + np.log(found.hazard[..., 0]) + 2 * skew * U_NODES
    p, log_total = special.normalised(log_f)
    log_z = log_total + np.log(width * U_STEP)
    return Quadrature(
        np.minimum(log_z, 0.0), p, found.hazard[..., 1:], found.slope[..., 1:], competitors
    )


def winning_utilities(omega: Array, table: UtilityTable) -> Array:
    """Return Z of every class at once, (n, k) at ω (n, k), to absolute accuracy."""
    rows = np.arange(len(omega))
    leader = omega.argmax(1)
    leader_first = omega.copy()
    leader_first[rows, 0] = omega[rows, leader]
    leader_first[rows, leader] = omega[:, 0]
    skew, _, C = _levels(leader_first, table, U_NODES)
    found = table(C[:, :, None] - omega[:, None, :])
    weight = np.exp(found.log_cdf.sum(-1) + 2 * skew * U_NODES)
    chances = np.einsum("nt,ntk->nk", weight, found.hazard)
    return np.asarray(chances / chances.sum(1, keepdims=True))


def winning_label(fields: Array, table: UtilityTable) -> tuple[Array, Array]:
    """Return Z (n,) of the first class at fields (n, k), and −∂Z/∂ω_h (n, k−1) of the others.

    Both have an absolute accuracy of about 1e-8.
    """
    skew, width, C = _levels(fields, table, COARSE_U_NODES)
    log_cdf, hazard = table.first(C[:, :, None] - fields[:, None, :], 2)
    weight = np.exp(log_cdf.sum(-1) + 2 * skew * COARSE_U_NODES) * hazard[..., 0]
    weight *= (width * COARSE_U_STEP)[:, None]
    return weight.sum(1), np.matmul(weight[:, None, :], hazard[..., 1:])[:, 0]


def _levels(omega: Array, table: UtilityTable, u: Array) -> tuple[float, Array, Array]:
    """Return the skew a of the substitution, its widths w (n,), and levels C (n, t) at u (t,)."""
    mode, width = _mode(omega, table)
    skew = SKEW_WITHOUT_NOISE / (1 + table.s**2) ** 1.5
    C = mode[:, None] + width[:, None] * (np.expm1(2 * skew * u) / (2 * skew))
    return skew, width, C


def _mode(omega: Array, table: UtilityTable) -> tuple[Array, Array]:
    """Return where ln F′(C − ω₁) + Σ_{j>1} ln F(C − ω_j) is largest (n,), and its width (n,)."""
    top = omega.max(1)
    low = top + table.y[0] + 1e-9
    high = omega[:, 0] + table.y[-1]
    log_sum = top + np.log(np.exp(omega - top[:, None]).sum(1))
    C = np.minimum(log_sum + min(table.s, 1.0), high)
    scale = math.hypot(1.0, table.s)
    for _ in range(MAX_NEWTON_STEPS):
        found = table(C[:, None] - omega)
        own = np.clip(C - omega[:, 0], table.y[0], table.y[-1])
        slope = table.log_density(own, 1) + found.hazard[:, 1:].sum(1)
        bend = found.slope[:, 1:].sum(1) - table.log_density(own, 2)
        stiffness = np.maximum(bend, 0.02 / scale**2)
        step = np.clip(slope / stiffness, -2 * scale, 2 * scale)
        C = np.clip(C + step, low, high)
        if np.max(np.abs(step) * np.sqrt(stiffness), initial=0.0) < 0.2:
            break
    return C, 1 / np.sqrt(stiffness)
