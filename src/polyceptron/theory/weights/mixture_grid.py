"""Finite priors with one or two class differences: a mixture of Gaussians on a grid.

y = γ/√q̂ has the density Σ_c p_c N(y; √q̂ u_c) over the points u_c that a row can take, and

    v = (1/r) ∫ dy [ Σ_c w_c(y)‖u_c‖² − ‖Σ_c w_c(y) u_c‖²/Σ_c w_c(y) ],    w_c = p_c N(y; √q̂ u_c).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher
from polyceptron.model.differences import difference_basis
from polyceptron.model.priors.row import reduced_support

Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def reduced_points(teacher: AnyTeacher) -> tuple[Array, Array]:
    """The values of u in r orthonormal coordinates (c, r) and their log-probabilities (c,)."""
    support = teacher.prior.support
    if support is None:
        raise TypeError(f"the prior {teacher.prior.name} has no finite support")
    if not teacher.common_shift:
        return support[0][:, None], np.log(support[1])
    points, log_p = reduced_support(teacher.prior, teacher.n_classes)
    return points @ difference_basis(teacher.n_classes), log_p


def point_variance(teacher: AnyTeacher, q_hat: float) -> float:
    """v at q̂ for r = 1 or 2, with a step that resolves the posterior's switches."""
    points, log_p = reduced_points(teacher)
    c, r = points.shape
    centres = math.sqrt(q_hat) * points
    # Half-way between rows δ apart the switch has poles at iπ/(√q̂ δ): error exp(−2π²/0.6).
    step = min(0.3, 0.6 / (_widest_switch(teacher) * math.sqrt(q_hat) + 1e-300))
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


def _widest_switch(teacher: AnyTeacher) -> float:
    """The largest distance of two rows that differ in one class, from a value to the next."""
    assert teacher.prior.support is not None
    gap = float(np.diff(teacher.prior.support[0]).max())
    return gap * math.sqrt(1 - 1 / teacher.n_classes) if teacher.common_shift else gap
