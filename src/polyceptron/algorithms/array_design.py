"""Numpy arrays and memory maps as designs: X is neither copied nor scaled.

For a few directions a matrix product spends its time packing X; matrix-vector products over blocks
of rows that stay in the cache read X from memory once. Where eight digits are not needed, a copy in
single precision halves that time; a memory map gets none, since its copy would fill the memory that
the map saves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from polyceptron.algorithms.design import BLOCK_BYTES, AnyArray, Design
from polyceptron.model.arrays import as_numbers
from polyceptron.numerics.threads import thread_count

_FEW = 4  # up to so many directions, matrix-vector products by block win
_SINGLE_RANGE = (1e-12, 1e12)  # entries whose products stay inside single precision


class ArrayDesign(Design):
    """An array (n, d) of single or double precision."""

    def __init__(self, X: AnyArray, *, mapped: bool = False) -> None:
        super().__init__(X.shape, X.dtype)  # type: ignore[arg-type]  # two axes, checked there
        self._X, self._mapped = X, mapped
        self._cut: dict[int, list[slice]] = {}

    @classmethod
    def of(cls, X: Any) -> ArrayDesign:
        """From whatever numpy can read as numbers; only other types than its own are converted."""
        array = as_numbers(X, "X")
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        return cls(array, mapped=isinstance(X, np.memmap))

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._X[rows])

    @cached_property
    def _single(self) -> AnyArray:
        return self._X.astype(np.float32)

    @cached_property
    def single_is_quicker(self) -> bool:  # type: ignore[override]
        """Whether the entries can be squared in single precision, and X is in memory."""
        if self._mapped and self.dtype == np.float64:
            return False
        largest = max(float(self._X.max()), -float(self._X.min()))  # np.abs would copy X
        return _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]

    def times_columns(self, small: AnyArray) -> AnyArray:
        X = self._in(small.dtype)
        if X is None:
            return super().times_columns(small)
        if len(small) > _FEW:
            return np.asarray(small @ X.T)
        out = np.empty((len(small), self.n_samples), X.dtype)
        for rows in self._slices(X):
            block = X[rows]
            for u, z in zip(small, out, strict=True):
                z[rows] = block @ u
        return out

    def times_rows(self, small: AnyArray) -> AnyArray:
        X = self._in(small.dtype)
        if X is None:
            return super().times_rows(small)
        if len(small) > _FEW:
            # On one thread F @ X is the faster form; on several it waits for the slowest at every
            # block, and a busy machine makes it wait for long.
            return np.asarray(small @ X if thread_count() == 1 else (X.T @ small.T).T)
        out = np.zeros((len(small), self.dimension))
        for rows in self._slices(X):
            block = X[rows]
            for f, g in zip(small, out, strict=True):
                g += f[rows] @ block
        return out.astype(small.dtype, copy=False)

    def _in(self, dtype: Any) -> AnyArray | None:
        """X in this precision; None for doubles of a single-precision X, made block by block."""
        if dtype == self.dtype:
            return self._X
        return self._single if dtype == np.float32 else None

    def _slices(self, X: AnyArray) -> list[slice]:
        """Rows that stay in the cache, where rows are contiguous."""
        if X.itemsize not in self._cut:
            n = self.n_samples
            step = max(16, BLOCK_BYTES // (self.dimension * X.itemsize))
            step = step if X.flags.c_contiguous else n
            self._cut[X.itemsize] = [slice(i, min(i + step, n)) for i in range(0, n, step)]
        return self._cut[X.itemsize]
