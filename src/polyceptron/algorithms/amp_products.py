"""The two products of an iteration, XUᵀ/√d and FX/√d, without a copy of X.

Directions are rows: U is (r, d), F is (r, n). The scale 1/√d and the precision of X are put on the
small operand. For a few directions a matrix product spends its time packing X; matrix-vector
products over blocks of rows that stay in the cache read X from memory once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics.threads import thread_count

Array = NDArray[np.float64]
Data = NDArray[Any]
_FEW = 4  # up to so many directions, matrix-vector products by block win
_BLOCK_BYTES = 1 << 20
_SQUARE_BYTES = 1 << 22


def fields(X: Data, U: Array) -> Array:
    """(XUᵀ/√d)ᵀ, shape (r, n)."""
    n, d = X.shape
    small = (U / math.sqrt(d)).astype(X.dtype)
    if len(U) > _FEW:
        return np.asarray((X @ small.T).T, dtype=float)
    out = np.empty((len(U), n), X.dtype)
    for rows in _blocks(X):
        block = X[rows]
        for u, z in zip(small, out, strict=True):
            z[rows] = block @ u
    return out.astype(float, copy=False)


def back(X: Data, F: Array) -> Array:
    """FX/√d, shape (r, d)."""
    d = X.shape[1]
    small = (F / math.sqrt(d)).astype(X.dtype)
    if len(F) > _FEW:
        # On one thread F @ X is the faster form; on several it waits for the slowest at every
        # block, and a busy machine makes it wait for long.
        product = small @ X if thread_count() == 1 else (X.T @ small.T).T
        return np.asarray(product, dtype=float)
    out = np.zeros((len(F), d))
    for rows in _blocks(X):
        block = X[rows]
        for f, g in zip(small, out, strict=True):
            g += f[rows] @ block
    return out


def inner(a: Array, b: Array) -> float:
    """Σ ab: for arrays this small, waking the threads of a BLAS product costs more than adding."""
    return float((a * b).sum())


def fields_squared(X: Data, C: Array) -> Array:
    """C(X²)ᵀ/d, (c, d) to (c, n): squares are taken by block, never of all X at once."""
    d = X.shape[1]
    small = (C / d).astype(X.dtype)
    out = np.empty((len(C), len(X)))
    for rows in blocks(X, _SQUARE_BYTES):
        out[:, rows] = small @ np.square(X[rows]).T
    return out


def back_squared(X: Data, H: Array) -> Array:
    """HX²/d, (c, n) to (c, d)."""
    d = X.shape[1]
    small = (H / d).astype(X.dtype)
    out = np.zeros((len(H), d))
    for rows in blocks(X, _SQUARE_BYTES):
        out += small[:, rows] @ np.square(X[rows])
    return out


def blocks(X: Data, n_bytes: int = _BLOCK_BYTES) -> list[slice]:
    """Slices of the rows of X, each of about `n_bytes`."""
    n, d = X.shape
    step = max(16, n_bytes // max(1, d * X.itemsize))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _blocks(X: Data) -> list[slice]:
    return blocks(X) if X.flags.c_contiguous else [slice(0, len(X))]
