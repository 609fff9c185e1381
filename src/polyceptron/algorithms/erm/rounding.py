"""What rounding can do to a computed gradient, so that a certificate holds for the true one.

A sum of m products x·y in floating point is off by about ε√m Σ|x||y|: the partial sums are rounded
m times, each time either way. (The worst case, ε m Σ|x||y|, needs every rounding to fall to the
same side.) Linear algebra adds in blocks: for long sums √m becomes √256 + √(m/256). With
a_μ = ‖x_μ‖/√d, and Σ_j |x_j||u_j|/√d ≤ a_μ‖u‖, fields and gradient are off by

    δz_μ = ε(√d a_μ‖U‖ + c‖z_μ‖ + c)             δG = ε√n Σ_μ a_μ‖g_μ‖ + cελ‖U‖

where c stands for a handful of operations, among them those of g itself: the softmax of a field off
by ε is off by the factor 1 + ε. The fields' rounding counts by the least of three:

    Σ_μ a_μ s_μ δz_μ,    ‖X/√d‖ (Σ_μ s_μ²δz_μ²)^½,    ½(λL Σ_μ δz_μ²)^½.

The first two send it through Xᵀ/√d, with s_μ the loss's curvature at z_μ. The third holds for a
loss of curvature L at most, whose gradient is cocoercive: with D the distance to the minimiser, Δg
the difference of the residuals there and here, and G the gradient with the fields' error in it,
‖G‖D ≥ λD² + Σ(‖Δg‖²/L − ‖Δg‖δz) ≥ λD² − LΣδz²/4, so that D ≤ ‖G‖/λ + ½(LΣδz²/λ)^½.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import Design

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)
_BLOCK = 256
_FEW = 8.0  # c


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
    fields: Array,
    residuals: Array,
    stiffness: Array | float,
    smoothness: float | None,
    enough: Array,
) -> Array:
    """A bound (L,) on what rounding hides of the gradients of L problems, for distances ‖G‖/λ.

    norm (L,) of U; ‖z_μ‖, ‖g_μ‖ and s_μ, each (L, n); smoothness: L, if it is known. Where bounds
    that cost nothing are above `enough` (L,), ‖X/√d‖ is found out.
    """
    a = design.row_norms
    off = sum_rounding(design.dimension) * a * norm[:, None] + _FEW * EPS * (fields + 1)
    bent = stiffness * off
    through = bent @ a
    if smoothness is not None:
        squares = np.einsum("ln,ln->l", off, off)
        through = np.minimum(through, 0.5 * np.sqrt(ridges * smoothness * squares))
    rest = sum_rounding(design.n_samples) * (residuals @ a) + _FEW * EPS * ridges * norm
    if (through + rest > enough).any():
        through = np.minimum(through, design.stretch * np.sqrt(np.einsum("ln,ln->l", bent, bent)))
    result: Array = through + rest
    return result
