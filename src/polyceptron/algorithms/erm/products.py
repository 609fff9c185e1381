"""The two products with the data matrix, counted: z = XU/√d and Xᵀg/√d.

Everything an iterative solver does with the data is one of the two, and their cost is the time to
read X once. A single-precision copy halves that time where eight digits are not needed.
Directions are rows: U is (..., d), fields and residuals are (..., n).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
AnyArray = NDArray[Any]

_FEW = 3  # up to so many directions, one matrix-vector product each beats the matrix product
_SINGLE_RANGE = (1e-12, 1e12)  # entries whose products stay inside single precision


class Products:
    """X (n, d) in double precision, a single-precision copy on demand, and a count of passes."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.n_samples, self.dimension = X.shape
        self.scale = 1 / math.sqrt(self.dimension)
        self.passes = 0.0  # reads of X; one in single precision counts one half
        self._single: NDArray[np.float32] | None = None

    @cached_property
    def single_is_safe(self) -> bool:
        """Whether the entries of X can be squared in single precision."""
        largest = max(float(self.X.max()), -float(self.X.min()))  # np.abs would copy X
        return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]

    def fields(self, U: AnyArray) -> AnyArray:
        """(XUᵀ/√d)ᵀ: directions (..., d) to fields (..., n), in the precision of U."""
        return _rows_times(U * U.dtype.type(self.scale), self._matrix(U).T)

    def back(self, residual: AnyArray) -> AnyArray:
        """(Xᵀgᵀ/√d)ᵀ: residuals (..., n) to directions (..., d), in the residuals' precision."""
        product = _rows_times(residual, self._matrix(residual))
        product *= residual.dtype.type(self.scale)
        return product

    def _matrix(self, operand: AnyArray) -> AnyArray:
        if operand.dtype == np.float32:
            self.passes += 0.5
            if self._single is None:
                self._single = self.X.astype(np.float32)
            return self._single
        self.passes += 1
        return self.X


def _rows_times(rows: AnyArray, matrix: AnyArray) -> AnyArray:
    """rows @ matrix, by the faster of the two routes."""
    flat = rows.reshape(-1, rows.shape[-1])
    few = flat.shape[0] <= _FEW
    product = np.stack([row @ matrix for row in flat]) if few else flat @ matrix
    return product.reshape(*rows.shape[:-1], matrix.shape[1])


def difference_basis(n_classes: int) -> Array:
    """B (k, k−1): orthonormal columns orthogonal to (1, …, 1), so that W = UᵀBᵀ loses nothing.

    >>> bool(np.allclose(difference_basis(4).T @ difference_basis(4), np.eye(3)))
    True
    """
    basis = np.zeros((n_classes, n_classes - 1))
    for j in range(n_classes - 1):
        basis[: j + 1, j] = 1
        basis[j + 1, j] = -(j + 1)
        basis[:, j] /= math.sqrt((j + 1) * (j + 2))
    return basis
