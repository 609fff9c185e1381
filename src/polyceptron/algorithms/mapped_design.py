"""Features that are scaled, and samples that are weighted, without a copy of X.

    A = (X − 1mᵀ) diag(1/s),  a constant column behind it if asked:   A uᵀ = X(u/s)ᵀ − m·(u/s)

is a design of its own over any other: a sparse matrix stays sparse, a file stays on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.algorithms.design import AnyArray, Array, Design


class ScaledDesign(Design):
    """(x − shift)/scale of every feature of `base`, and behind them a column that is `constant`."""

    def __init__(
        self, base: Design, shift: Array, scale: Array, constant: float | None = None
    ) -> None:
        self._width = base.dimension
        super().__init__((base.n_samples, self._width + (constant is not None)), np.float64)
        self._base, self._shift, self._scale = base, shift, scale
        self._constant = constant

    def read_rows(self, rows: Any) -> AnyArray:
        part = (self._base.read_rows(rows) - self._shift) / self._scale
        if self._constant is None:
            return np.asarray(part)
        return np.hstack([part, np.full((len(part), 1), self._constant)])

    def times_columns(self, small: AnyArray) -> AnyArray:
        scaled = small[:, : self._width] / self._scale
        out = self._base.times_columns(scaled) - (scaled @ self._shift)[:, None]
        if self._constant is not None:
            out += self._constant * small[:, self._width :]
        return out.astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        small_ = small.astype(np.float64, copy=False)
        total = small_.sum(1, keepdims=True)
        out = (self._base.times_rows(small_) - total * self._shift) / self._scale
        if self._constant is not None:
            out = np.hstack([out, self._constant * total])
        return out.astype(small.dtype, copy=False)


class WeightedRows(Design):
    """Rows of `base` times factors (n,): a sum of squares over them is a weighted sum."""

    def __init__(self, base: Design, factors: Array) -> None:
        super().__init__(base.shape, np.float64)
        self._base, self._factors = base, factors

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._base.read_rows(rows) * self._factors[rows][:, None])

    def times_columns(self, small: AnyArray) -> AnyArray:
        out = self._base.times_columns(small) * self._factors
        return out.astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        return self._base.times_rows((small * self._factors).astype(small.dtype, copy=False))
