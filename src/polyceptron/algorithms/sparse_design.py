"""Sparse matrices of scipy as designs: a product costs their non-zero entries.

What needs rows as they are reads them dense in blocks of a few megabytes. Centring would fill X, so
it is never done: see `mapped_design`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from polyceptron.algorithms.block_products import usable
from polyceptron.algorithms.design import (
    AnyArray,
    Array,
    ColumnMoments,
    Design,
    weights_or_ones,
)
from polyceptron.algorithms.row_blocks import too_large
from polyceptron.errors import InvalidInput


class SparseDesign(Design):
    """A matrix in compressed rows; other formats are converted once."""

    def __init__(self, X: Any) -> None:
        if X.dtype.kind not in "biuf":
            raise InvalidInput(f"X must hold real numbers, got {X.dtype} entries")
        rows = X.tocsr()
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        super().__init__(rows.shape, rows.dtype)
        self._X = rows

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._X[rows].toarray())

    def times_columns(self, small: AnyArray) -> AnyArray:
        return np.asarray((self._X @ small.T).T.astype(small.dtype, copy=False))

    def times_rows(self, small: AnyArray) -> AnyArray:
        return np.asarray((self._X.T @ small.T).T.astype(small.dtype, copy=False))

    @cached_property
    def _squares(self) -> Any:
        return self._X.multiply(self._X).tocsr()

    def fields_squared(self, C: Array) -> Array:
        return np.asarray((self._squares @ (C / self.dimension).T).T, dtype=np.float64)

    def back_squared(self, H: Array) -> Array:
        return np.asarray((self._squares.T @ (H / self.dimension).T).T, dtype=np.float64)

    @cached_property
    def row_norms(self) -> Array:  # type: ignore[override]
        """‖x_μ‖/√d, (n,)."""
        squares = np.asarray(self._squares.sum(1, dtype=np.float64)).ravel()
        result: Array = np.sqrt(squares) * self.scale
        return result

    def column_moments(self, weights: Array | None = None) -> ColumnMoments:
        w = weights_or_ones(weights, self.n_samples)
        X = self._X
        total, row = w.sum(), np.repeat(np.arange(self.n_samples), np.diff(X.indptr))
        largest = np.asarray(abs(X).max(0).todense(), dtype=float).ravel()
        unit = np.maximum(largest, np.finfo(float).tiny)
        part, share = X.data / unit[X.indices], w[row]
        mean = np.bincount(X.indices, share * part, self.dimension) / total
        filled = np.bincount(X.indices, share, self.dimension)
        off = np.bincount(X.indices, share * (part - mean[X.indices]) ** 2, self.dimension)
        square = off + np.maximum(total - filled, 0.0) * mean**2
        return ColumnMoments(mean * unit, np.sqrt(square / total) * unit, largest)

    def check_entries(self) -> None:
        """As for any design; only the entries that are stored are looked at."""
        bad = ~usable(self._X.data)
        if bad.any():
            row = int(np.searchsorted(self._X.indptr, int(bad.argmax()), side="right")) - 1
            raise too_large(row)
