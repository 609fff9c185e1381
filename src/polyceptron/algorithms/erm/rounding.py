"""What rounding can do to a computed gradient, so that a certificate holds for the true one.

A sum of m products x·y in floating point is off by about ε√m Σ|x||y|: the partial sums are rounded
m times, each time either way. (The worst case, ε m Σ|x||y|, needs every rounding to fall to the
same side.) Linear algebra adds in blocks: for long sums √m becomes √256 + √(m/256). With
a_μ = ‖x_μ‖/√d, Σ_j |x_j||u_j|/√d ≤ a_μ‖u‖, and s_μ a bound on the loss's curvature at z_μ,

    fields      δz_μ = ε (√d a_μ‖U‖ + c‖z_μ‖)
    residuals   δg_μ = s_μ δz_μ + cε‖g_μ‖
    gradient    δG   = ‖Xᵀδg/√d‖ + ε√n Σ_μ a_μ‖g_μ‖ + cελ‖U‖,

where ‖Xᵀδg/√d‖ ≤ Σ_μ a_μδg_μ, and ≤ ‖X/√d‖·‖δg‖, which is tighter but costs passes over X.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
_BLOCK = 256
_FEW = 8.0  # c: roundings of a handful of operations


def sum_rounding(length: int) -> float:
    """ε times the growth of rounding in a sum of so many products.

    >>> sum_rounding(100) == 10 * EPS
    True
    """
    if length <= _BLOCK:
        return EPS * math.sqrt(length)
    return EPS * (math.sqrt(_BLOCK) + math.sqrt(length / _BLOCK))


def gradient_rounding(
    design: Design,
    norm: Array,
    ridges: Array,
    field_size: Array,
    residual_size: Array,
    stiffness: Array | float,
    enough: Array,
) -> Array:
    """A bound (L,) on the rounding of the gradients of L problems.

    norm (L,) of U; ‖z_μ‖, ‖g_μ‖ and s_μ, each (L, n). Where the cheap bound is above `enough`
    (L,), the tighter one is taken if it helps.
    """
    a = design.row_norms
    field_error = sum_rounding(design.dimension) * a * norm[:, None] + _FEW * EPS * field_size
    residual_error = stiffness * field_error + _FEW * EPS * residual_size
    through = residual_error @ a
    rest = (sum_rounding(design.n_samples) + _FEW * EPS) * (residual_size @ a)
    rest += _FEW * EPS * ridges * norm
    if (through + rest > enough).any():
        tight = design.stretch * np.sqrt(np.einsum("ln,ln->l", residual_error, residual_error))
        through = np.minimum(through, tight)
    result: Array = through + rest
    return result
