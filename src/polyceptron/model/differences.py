"""The space 1⊥ of class differences, which is all that labels show."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def project(w: Any) -> Array:
    """Pw: the part of the last axis orthogonal to (1, …, 1)."""
    w = np.asarray(w, dtype=float)
    result: Array = w - w.mean(-1, keepdims=True)
    return result


@lru_cache(maxsize=64)
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
    basis.flags.writeable = False
    return basis
