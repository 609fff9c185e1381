"""What rounding hides of a computed gradient, so that a certificate holds for the true one.

A sum of m products x·y in floating point is off by about ε√m Σ|x||y|, since the partial sums are
rounded m times, each time either way. Linear algebra adds in blocks: for long sums √m becomes
√256 + √(m/256). With a_μ = ‖x_μ‖/√d, and Σ_j |x_j||u_j|/√d ≤ a_μ‖u‖, fields and gradient are off by

    δz_μ = ε(√d a_μ‖U‖ + c‖z_μ‖ + c)             δG = ε√n Σ_μ a_μ‖g_μ‖ + cελ‖U‖

where c stands for a handful of operations, among them those of g itself: the softmax of a field off
by ε is off by the factor 1 + ε. The fields' rounding counts by the least of three:

    Σ_μ a_μ s_μ δz_μ,    ‖X/√d‖ (Σ_μ s_μ²δz_μ²)^½,    ½(λL Σ_μ δz_μ²)^½.

The first two send it through Xᵀ/√d, with s_μ the loss's curvature at z_μ. The third holds for a
loss of curvature L at most, whose gradient is cocoercive: with D the distance to the minimiser, Δg
the difference of the residuals there and here, and G the gradient with the fields' error in it,
‖G‖D ≥ λD² + Σ(‖Δg‖²/L − ‖Δg‖δz) ≥ λD² − LΣδz²/4, so that D ≤ ‖G‖/λ + ½(LΣδz²/λ)^½.
"""

import math

import numpy as np

from polyceptron.data.design import Design
from polyceptron.numerics import Array

EPS = float(np.finfo(float).eps)
# c above: roundings of the few operations that make a field or a pull out of sums.
OPERATIONS_BESIDE_SUMS = 8.0
BLOCK_OF_LINEAR_ALGEBRA = 256  # products that are added one after another


def sum_rounding(length: int) -> float:
    """Return ε times the growth of rounding in a sum of so many products.

    >>> sum_rounding(100) == 10 * EPS
    True
    """
    if length <= BLOCK_OF_LINEAR_ALGEBRA:
        return EPS * math.sqrt(length)
    n_blocks = length / BLOCK_OF_LINEAR_ALGEBRA
    return EPS * (math.sqrt(BLOCK_OF_LINEAR_ALGEBRA) + math.sqrt(n_blocks))


def gradient_rounding(
    design: Design,
    norm: Array,
    ridges: Array,
    fields: Array,
    residuals: Array,
    stiffness: Array | float,
    smoothness: float | None,
    enough: Array,
    unit: float,
) -> Array:
    """Return a bound (L,) on what rounding hides of the gradients, for distances ‖G‖/λ.

    Parameters
    ----------
    norm : array (L,)
        ‖U‖.
    ridges : array (L,)
    fields, residuals, stiffness : array (L, n)
        ‖z_μ‖, ‖g_μ‖ and s_μ.
    smoothness : float or None
        L, if it is known.
    enough : array (L,)
        Where bounds that cost nothing are above it, ‖X/√d‖ is computed.
    unit : float
        Unit of rounding, in ε of doubles.
    """
    field_error, gradient_error = roundings(design, norm, ridges, fields, residuals, unit)
    bent = stiffness * field_error
    through = bent @ design.row_norms
    if smoothness is not None:
        squares = ridges * smoothness * np.einsum("ln,ln->l", field_error, field_error)
        through = np.minimum(through, 0.5 * np.sqrt(squares))
    if (through + gradient_error > enough).any():
        length = np.sqrt(np.einsum("ln,ln->l", bent, bent))
        through = np.minimum(through, design.stretch * length)
    return np.asarray(through + gradient_error)


def roundings(
    design: Design, norm: Array, ridges: Array, fields: Array, residuals: Array, unit: float
) -> tuple[Array, Array]:
    """Return δz_μ (L, n) and δG (L,); the arguments are those of `gradient_rounding`."""
    row_norms = design.row_norms
    few = OPERATIONS_BESIDE_SUMS * EPS
    field_error = sum_rounding(design.dimension) * row_norms * norm[:, None] + few * (fields + 1)
    gradient_error = sum_rounding(design.n_samples) * (residuals @ row_norms) + few * ridges * norm
    return unit * field_error, unit * gradient_error
