"""Numpy arrays as designs: X is neither copied nor scaled.

One exception: where eight digits are not needed, a copy of doubles in single precision, of half
their size, halves the time of a product. It is made of X up to `COPY_BYTES`, and makes fits 1.2 to
2.1 times as fast (n = 1000 to 10,000, d = 200 to 3000, λ = 1 to 1e-4).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from polyceptron.algorithms import block_products as products
from polyceptron.algorithms.block_products import AnyArray, Array
from polyceptron.algorithms.design import COPY_BYTES, Design
from polyceptron.model.arrays import as_numbers


class ArrayDesign(Design):
    """An array (n, d) of single or double precision, in memory."""

    def __init__(self, X: AnyArray) -> None:
        super().__init__(X.shape, X.dtype)  # type: ignore[arg-type]  # two axes, checked there
        self._X = X

    @classmethod
    def of(cls, X: Any) -> ArrayDesign:
        """From whatever numpy can read as numbers; only other types than its own are converted."""
        array = as_numbers(X, "X")
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        return cls(array)

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._X[rows])

    @cached_property
    def _single(self) -> AnyArray:
        return self._X.astype(np.float32)

    @property
    def single_is_quicker(self) -> bool:
        """Whether the entries can be squared in single precision, and X be copied to it."""
        small = self.dtype == np.float32 or self._X.nbytes <= COPY_BYTES
        return small and self._single_is_safe

    def times_columns(self, small: AnyArray) -> AnyArray:
        return products.fields_of(self._in(small.dtype), small)

    def times_rows(self, small: AnyArray) -> AnyArray:
        return products.back_of(self._in(small.dtype), small)

    def gram(self) -> Array:
        if self.dtype != np.float64 or self.watch.checkpoint is not None:
            return super().gram()
        self.count(np.float64)
        X = self._X
        result: Array = X.T @ X if len(X) >= self.dimension else X @ X.T
        result *= self.scale**2
        return result

    def _in(self, dtype: Any) -> AnyArray:
        """X in single precision if asked; doubles of a single-precision X are made part by part."""
        return self._single if dtype == np.float32 and self.dtype != np.float32 else self._X
