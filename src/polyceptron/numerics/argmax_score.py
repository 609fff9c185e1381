"""The argmax channel's score by a table: `orthant.py` in a third of the time.

For four classes and more, label l and unit variance,

    Z_l(ω) = ∫Dt ∏_{h≠l} Φ(x_h),    x_h = t + ω_l − ω_h,
    ∂_h ln Z = −⟨r(x_h)⟩,           r = φ/Φ = (ln Φ)′,
    −tr ∂² ln Z = 2⟨Σ r x⟩ + ⟨Σ r²⟩ − ⟨S²⟩ + ⟨S⟩² + Σ⟨r⟩²,      S = Σ_h r(x_h)

with ⟨·⟩ the average over t under the normalised integrand; the last line is the sum of all second
derivatives with r′ = −r(x + r). The nodes are those of `orthant.py`. What takes the time there is
ln Φ and r at every node: here they are read off a table of even spacing h by

    r(x + δ) = r + δr′,    ln Φ(x + δ) = ln Φ + δr + δ²r′/2,    |δ| ≤ h/2,

with errors of at most δ²|r″|/2 ≤ 6e-7 and less, far below those of the few nodes
(tests/unit/numerics/test_argmax_score.py). Labels that are less probable than the table reaches are
left to `orthant.py`.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from polyceptron.numerics import Array, for_chunks
from polyceptron.numerics.orthant import (
    LARGEST_SKEW,
    SMALLEST_SKEW,
    Labels,
    argmax_orthant,
    hermite_rule,
)
from polyceptron.numerics.special import mills_ratio, mills_slope

CHUNK_NUMBERS = (
    25_000  # in each large array of a chunk: a quarter of a megabyte, which a cache holds
)
SPACING = 1 / 256  # h of the table
LOWEST = -38.0  # x of the table's first row: Φ is 3e-316 there
HIGHEST = 9.0  # and of its last: Φ is 1 − 1e-19
MAX_NEWTON_STEPS = 20  # to the mode of an integrand: half a width is close enough

X = np.arange(LOWEST, HIGHEST + SPACING / 2, SPACING)
LOG_CDF = log_ndtr(X)
MILLS = mills_ratio(X)  # r
BEND = mills_slope(X, MILLS)  # −r′ = r(x + r)


class Score(NamedTuple):
    """ln Z_y (n,), ∇ ln Z_y (n, k) and −tr ∂² ln Z_y (n,)."""

    log_z: Array
    score: Array
    curvature: Array


class Shares(NamedTuple):
    """The nodes T (t, n) of the integral and the logarithms of their weights, with ln φ."""

    nodes: Array
    log_weight: Array


def argmax_score(omega: Array, label: Labels, s: float, order: int) -> Score:
    """Return ln Z, score and curvature of k ≥ 4 classes at fields ω (n, k) of deviation s.

    Parameters
    ----------
    omega : ndarray (n, k)
    label : ndarray of int (n,)
    s : float
        √v, the same for every field.
    order : int
        Nodes of the integral.
    """
    n, k = omega.shape
    log_z = np.empty(n)
    score = np.empty((n, k))
    curvature = np.empty(n)

    def work(rows: slice) -> None:
        """Fill in ln Z, the score and its curvature of some rows."""
        found = _scores(omega[rows] / s, label[rows], order)
        log_z[rows] = found.log_z
        score[rows] = found.score / s
        curvature[rows] = found.curvature / s**2

    for_chunks(work, n, max(16, CHUNK_NUMBERS // (order * k)))
    return Score(log_z, score, curvature)


def _scores(omega: Array, label: Labels, order: int) -> Score:
    """Return the scores at unit variance."""
    samples = np.arange(len(omega))
    fields = np.ascontiguousarray(omega.T)
    gaps = fields[label, samples] - fields  # (k, n), 0 in the label's own row
    gaps[label, samples] = np.inf  # Φ = 1 and r = 0: it does not compete with itself
    rule = _nodes(gaps, order)
    x = gaps[:, None, :] + rule.nodes  # (k, t, n)
    deepest = gaps.min(0) + rule.nodes.min(0)
    np.clip(x, LOWEST, HIGHEST, out=x)
    log_cdf, r = _from_table(x)
    p, log_z = _normalised(log_cdf.sum(0) + rule.log_weight)
    mean = np.einsum("tn,ctn->cn", p, r)
    total = r.sum(0)
    mean_total = mean.sum(0)
    x *= 2
    x += r
    bends = np.einsum("ctn,ctn->tn", r, x) - total**2
    curvature = np.einsum("tn,tn->n", p, bends) + mean_total**2 + (mean**2).sum(0)
    score = -mean
    score[label, samples] = mean_total
    found = Score(np.minimum(log_z, 0.0), score.T, np.maximum(curvature, 0.0))
    beyond = np.flatnonzero(deepest < LOWEST)
    if beyond.size:
        exact = argmax_orthant(omega[beyond], label[beyond], order=order)
        found.log_z[beyond] = exact.log_z
        found.score[beyond] = exact.score
        found.curvature[beyond] = exact.curvature
    return found


def _from_table(x: Array) -> tuple[Array, Array]:
    """Return ln Φ and r at x, between the ends of the table."""
    offset = x - LOWEST
    offset *= 1 / SPACING
    offset += 0.5
    row = offset.astype(np.intp)
    offset -= row
    offset -= 0.5
    offset *= SPACING
    r = MILLS.take(row)
    turn = BEND.take(row)
    turn *= offset
    log_cdf = LOG_CDF.take(row)
    middle = r - 0.5 * turn
    middle *= offset
    log_cdf += middle
    r -= turn
    return log_cdf, r


def _normalised(log_f: Array) -> tuple[Array, Array]:
    """Return f/Σf (t, n) and ln Σf (n,) of ln f (t, n)."""
    top = log_f.max(0)
    p = np.exp(log_f - top)
    total = p.sum(0)
    p /= total
    return p, np.log(total) + top


def _nodes(gaps: Array, order: int) -> Shares:
    """Return the nodes of `orthant.py`, which follow mode, width and skew of the integrand."""
    mode, width, skew = _mode(gaps)
    skew = np.clip(skew, SMALLEST_SKEW, LARGEST_SKEW)
    u, log_weight = hermite_rule(order)
    stretch = 2 * skew * (u[:, None] + 2 * skew)
    nodes = mode + (width / (2 * skew)) * np.expm1(stretch)
    outer = (0.5 * u**2 + log_weight)[:, None]
    return Shares(nodes, stretch + outer - 0.5 * nodes**2 + np.log(width))


def _mode(gaps: Array) -> tuple[Array, Array, Array]:
    """Return mode, width and skew, (n,) each, of −t²/2 + Σ_h ln Φ(a_h + t), to half a width."""
    t = np.maximum(0.0, -0.5 * gaps.min(0))
    width = t
    skew = t
    for _ in range(MAX_NEWTON_STEPS):
        x = np.clip(gaps + t, LOWEST, HIGHEST)
        row = ((x - LOWEST) * (1 / SPACING) + 0.5).astype(np.intp)
        r = MILLS.take(row)
        bend = BEND.take(row)
        stiffness = 1 + bend.sum(0)
        width = 1 / np.sqrt(stiffness)
        step = (r.sum(0) - t) / stiffness
        t = t + step
        if (np.abs(step) < 0.5 * width).all():
            skew = (bend * (x + 2 * r) - r).sum(0) * width**3 / 6
            break
    return t, width, skew
