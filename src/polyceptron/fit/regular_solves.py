"""Linear equations whose matrix may be singular to rounding.

Where one sample carries nearly all the variance of the features, the Hessian of a fit without it
is singular to rounding, and its leverage is 1. Nothing is then known of the curvature along some
directions: the matrix is solved with its own rounding on the diagonal, which leaves a direction of
descent.
"""

from __future__ import annotations

import numpy as np

from polyceptron.numerics import Array

ROUNDINGS_ADDED = 10  # of a sum of m products, to the diagonal of a singular matrix


def solved(matrix: Array, right: Array, size: float | None = None) -> Array:
    """Return x of Mx = b, with the rounding of M added to its diagonal if M is singular.

    Parameters
    ----------
    matrix : (…, m, m)
    right : (…, m, q)
    size : float, optional
        Of the terms that M is a sum of; by default its largest entry on the diagonal.

    Returns
    -------
    (…, m, q)

    Examples
    --------
    >>> solved(np.eye(2), np.array([[1.0], [2.0]])).ravel().tolist()
    [1.0, 2.0]
    >>> bool(np.isfinite(solved(np.zeros((2, 2)), np.ones((2, 1)), size=1.0)).all())
    True
    """
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.solve(matrix + _rounding(matrix, size), right))


def _rounding(matrix: Array, size: float | None) -> Array:
    """Return the rounding of matrices as a multiple of the identity, (…, m, m)."""
    m = matrix.shape[-1]
    largest = np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)).max(axis=-1)
    if size is not None:
        largest = np.maximum(largest, size)
    rounding = ROUNDINGS_ADDED * m * np.finfo(matrix.dtype).eps * largest
    return np.asarray(rounding)[..., None, None] * np.eye(m)
