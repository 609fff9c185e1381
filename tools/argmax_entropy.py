"""Makes theory/fields/argmax_entropy.json: Ψ(τ) = E Σ_l Z_l ln Z_l of the argmax channel, any k.

    python tools/argmax_entropy.py > src/polyceptron/theory/fields/argmax_entropy.json    (minutes)

Student fields are g_h ~ N(0, 1), the rest of the teacher's fields has variance τ = v/q. By symmetry
class 1 is the label. In units of √τ and measured from the best competitor, its field is at x and

    Z(x) = ∫ φ(C − x) ∏_h Φ(C + δ_h) dC,      δ_h ≥ 0 the competitors' gaps.

The m best competitors are integrated over (order statistics, a tensor rule). The N = k − 1 − m
others are independent below the last of them. Z is a product over them, so with any few of them
known and the rest averaged Z is again one integral over C, and the mean of Z ln Z over all N is

    E f = f_∅ + N (E f_1 − f_∅) + ½N(N−1) (E f_2 − 2 E f_1 + f_∅) + …

with f_1, f_2 = Z ln Z when one or two of them are known. What one competitor tells about the label
is nearly independent of what another tells: the third term is a per mille of the second, the fourth
is left out. Nothing is left out for k ≤ m + 3. The cost does not depend on k.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp, xlogy

from polyceptron.numerics import AnyArray
from polyceptron.numerics.panels import legendre_rule

CLASSES = (2, 3, 4, 5, 7, 10, 15, 24, 42, 80, 160, 320, 580, 840, 1000)
N_ANGLES = 14


_ALMOST_ONE = 1 - 1e-15


def levels(n_classes: int) -> tuple[AnyArray, float]:
    """The teacher's winning level C in units of √v, and its step: ∏Φ steepens slowly with k."""
    step = 0.5 / (1 + 0.4 * math.log(max(n_classes, 4) / 4))
    return np.arange(math.floor(-7.5 / step), math.ceil(9.5 / step)) * step, step


def channel_entropy(
    n_classes: int,
    tau: float,
    best: int = 2,
    n_gaps: int = 20,
    n_bath: int = 32,
    n_pairs: int = 14,
    step: float = 0.5,
) -> tuple[float, float]:
    """Ψ(τ), and the part of it that pairs of the others contribute: what more would add less.

    `best` competitors are integrated over, with `n_gaps` nodes each but for the first (steps of
    `step` standard deviations); `n_bath` and `n_pairs` are those of one and of two of the others.
    """
    k, root = n_classes, math.sqrt(tau)
    best = min(best, k - 1)
    fields, log_cdf, weight = _best_others(k, tau, best, n_gaps, step)
    rest = k - 1 - best
    x_step = min(0.3, 0.5 / root)
    low, high = max(-10.0, -18 / root), min(8.5, 10 / root)
    x = np.arange(math.floor(low / x_step), math.ceil(high / x_step) + 1) * x_step
    C, C_step = levels(k)
    kernel = C_step * np.exp(-0.5 * (C[:, None] - x) ** 2) / math.sqrt(2 * math.pi)
    total = np.zeros(2)
    chunk = max(1, 1_000_000 // (n_pairs * (n_pairs + 1) // 2 * x.size))
    for start in range(0, len(weight), chunk):
        part = slice(start, start + chunk)
        g, w = fields[part], weight[part]
        density = np.exp(-0.5 * (g[:, :1] + root * x) ** 2) * (root * x_step)
        density *= w[:, None] / math.sqrt(2 * math.pi)
        others = log_ndtr((g[:, :1] - g[:, 1:])[:, :, None] / root + C).sum(1)
        values, synergy = _averaged(
            others, g[:, 0], log_cdf[part], root, rest, kernel, C, x, n_bath, n_pairs
        )
        total += (density * values).sum(), (density * synergy).sum()
    return k * float(total.sum()), k * float(total[1])


def _averaged(
    others: AnyArray,
    first: AnyArray,
    log_cdf: AnyArray,
    root: float,
    rest: int,
    kernel: AnyArray,
    C: AnyArray,
    x: AnyArray,
    n_bath: int,
    n_pairs: int,
) -> tuple[AnyArray, AnyArray | float]:
    """E Z ln Z over the rest (n, x), ln ∏Φ of the known ones (n, C): all but pairs, pairs."""
    level = log_ndtr(C)
    synergy: AnyArray | float = 0.0
    if rest:
        size = layer(log_cdf, root)
        log_u, w = layered_rule(n_bath, size)
        miss = _missed(first, log_cdf, root, log_u, C)
        mean = np.einsum("nbc,nb->nc", miss, w)
        others = others + rest * np.log1p(-mean)
    Z = ndtr(x / math.sqrt(2)) + (np.exp(level) * np.expm1(others)) @ kernel
    Z = np.maximum(Z, 1e-300)
    value = xlogy(Z, Z)
    if not rest:
        return value, synergy
    P = np.exp(level + others)[:, None, :]
    known = (1 - mean)[:, None, :]

    def told(excess: AnyArray) -> AnyArray:
        excess = np.maximum(excess, -_ALMOST_ONE)
        return (1 + excess) * np.log1p(excess)

    one = (P * (mean[:, None, :] - miss) / known) @ kernel / Z[:, None, :]
    value = value + rest * Z * np.einsum("nbx,nb->nx", told(one), w)
    if rest > 1:
        log_u, w = layered_rule(n_pairs, size)
        miss = _missed(first, log_cdf, root, log_u, C)
        eta = (np.einsum("nbc,nb->nc", miss, w)[:, None, :] - miss) / known
        one = (P * eta) @ kernel / Z[:, None, :]
        i, j = np.triu_indices(n_pairs)
        both = w[:, i] * w[:, j] * np.where(i == j, 1, 2)
        two = (P * eta[:, i] * eta[:, j]) @ kernel / Z[:, None, :] + one[:, i] + one[:, j]
        extra = np.einsum("nbx,nb->nx", told(two), both)
        extra -= 2 * np.einsum("nbx,nb->nx", told(one), w)
        synergy = 0.5 * rest * (rest - 1) * Z * extra
    return value, synergy


def _missed(
    first: AnyArray, log_cdf: AnyArray, root: float, log_u: AnyArray, C: AnyArray
) -> AnyArray:
    """1 − Φ(C + δ) for competitors at quantile u below the last known one, (n, nodes, C)."""
    delta = (first[:, None] - ndtri_exp(log_cdf[:, None] + log_u)) / root
    return ndtr(-(delta[:, :, None] + C))


def _best_others(
    k: int, tau: float, best: int, n_gaps: int, step: float
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Nodes of the `best` highest of k − 1 normals (n, best), ln Φ of the last, weights."""
    grid = np.linspace(-12, 12, 4801)
    # As τ → 0 the label must sit beside the best competitor: its density is one more factor φ.
    log_p = -0.5 * grid**2 * (1 + 1 / (1 + 3 * tau)) + (k - 2) * log_ndtr(grid)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = float(p @ grid)
    spread = step * math.sqrt(float(p @ grid**2) - mean**2)
    g = mean + spread * np.arange(-math.ceil(8 / step), math.ceil(24 / step))
    weight = spread * (k - 1) * np.exp(-0.5 * g**2 + (k - 2) * log_ndtr(g))
    weight = weight / math.sqrt(2 * math.pi)
    log_cdf, fields = log_ndtr(g), g[:, None]
    for j in range(2, best + 1):
        log_u, w = layered_rule(n_gaps, (k - j) * layer(log_cdf, math.sqrt(tau)))
        log_cdf = (log_cdf[:, None] + log_u / (k - j)).ravel()
        weight = (weight[:, None] * w).ravel()
        fields = np.column_stack([np.repeat(fields, n_gaps, axis=0), ndtri_exp(log_cdf)])
    keep = weight > 1e-13 * weight.max()
    return fields[keep], log_cdf[keep], weight[keep]


def layered_rule(n: int, size: AnyArray) -> tuple[AnyArray, AnyArray]:
    """ln u and weights (s, n) of rules on 0 < u < 1 with layers of width `size` (s,) at u = 1.

    Towards u = 0, where a normal quantile is singular, the nodes go as the cube.
    """
    nodes, weights = legendre_rule(n)
    r = 1 - nodes
    size = np.asarray(size, float)[:, None]
    rate = np.log1p(1 / size)
    u = (1 + size) * -np.expm1(-rate * r**3)
    w = 3 * r**2 * weights * rate * (1 - u + size)
    return np.log(u), w / w.sum(1, keepdims=True)


def layer(log_cdf: AnyArray, root: float) -> AnyArray:
    """Width in u of what lies within √τ of a competitor at ln Φ, or within a tail's length (n,)."""
    g = ndtri_exp(log_cdf)
    hazard = np.exp(-0.5 * g**2 - log_cdf) / math.sqrt(2 * math.pi)
    return 2 / (1 / -np.expm1(log_cdf) + 1 / (hazard * root))


def angles(n: int = N_ANGLES) -> AnyArray:
    """The n angles at which Ψ is needed for n even Chebyshev coefficients."""
    x = np.cos((2 * np.arange(n) + 1) * math.pi / (4 * n))
    return 0.5 * math.pi * (1 - x)


def coefficients(values: AnyArray) -> AnyArray:
    """Even Chebyshev coefficients (n,) of G from its values at `angles(n)`."""
    n = len(values)
    phase = (2 * np.arange(n) + 1) * math.pi / (4 * n)
    table = np.cos(2 * np.arange(n)[:, None] * phase) * (2 / n)
    table[0] /= 2
    result: AnyArray = table @ values
    return result


def direct(n_classes: int, theta: float) -> float:
    """G = Ψ/sin θ at one angle, computed anew; small angles have narrow layers and more nodes."""
    found, _ = channel_entropy(
        n_classes, math.tan(theta) ** 2, best=2, n_gaps=30 if theta < 0.1 else 20, step=0.6
    )
    return found / math.sin(theta)


def make() -> dict[str, Any]:
    """All coefficients, computed anew."""
    rows = [
        coefficients(np.array([direct(k, float(theta)) for theta in angles()])).tolist()
        for k in CLASSES
    ]
    return {"classes": list(CLASSES), "coefficients": rows}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make(), indent=1) + "\n")
