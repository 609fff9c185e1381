"""Features that are scaled, and samples that are weighted, without a copy of X.

    A = (X − 1mᵀ) diag(1/s),  a constant column behind it if asked:   A uᵀ = X(u/s)ᵀ − m·(u/s)

is a design of its own over any other: a sparse matrix stays sparse and an array is not copied
(`ScaledDesign`), a file stays on disk and a Dask array on its cluster (`BlockwiseDesign`), where
each block is scaled as it is read; that loses no digits where m is large against s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.block_products import BLOCK_BYTES
from polyceptron.algorithms.design import AnyArray, Array, Design

Map = Callable[[AnyArray], AnyArray]  # of rows (b, d) to rows (b, d')
_NEAR = 30.0  # times s: no more than a digit and a half of m is lost in the products


@dataclass(frozen=True)
class ScaleRows:
    """(x − shift)/scale of the features that are `kept` (d,), and a column that is `constant`."""

    shift: Array
    scale: Array
    kept: NDArray[np.bool_]
    constant: float | None = None

    @property
    def dimension(self) -> int:
        """The number of columns it makes."""
        return int(self.kept.sum()) + (self.constant is not None)

    def __call__(self, block: AnyArray) -> AnyArray:
        kept = slice(None) if self.kept.all() else self.kept
        out = np.empty((len(block), self.dimension))
        part = out if self.constant is None else out[:, :-1]
        np.subtract(block[:, kept], self.shift[kept], out=part)
        part /= self.scale[kept]
        if self.constant is not None:
            out[:, -1] = self.constant
        return out


@dataclass(frozen=True)
class _Then:
    """work(map(block), ...), to be done where the block is."""

    map: Map
    work: Callable[..., Any]

    def __call__(self, block: AnyArray, *more: Any) -> Any:
        return self.work(self.map(block), *more)


@dataclass(frozen=True)
class _Weighted:
    """work(block times the factors that come behind what is shared, ...), where the block is."""

    work: Callable[..., Any]
    shared: int

    def __call__(self, block: AnyArray, *more: Any) -> Any:
        given, (factors, *own) = more[: self.shared], more[self.shared :]
        return self.work(block * factors[:, None], *given, *own)


class BlockwiseDesign(Design):
    """The rows of `base` under a map (b, d) to (b, dimension), made block by block."""

    reading_is_dear = True

    def __init__(self, base: Design, map: Map, dimension: int) -> None:
        super().__init__((base.n_samples, dimension), np.float64)
        self._base, self._map = base, map

    def read_rows(self, rows: Any) -> AnyArray:
        return self._map(self._base.read_rows(rows))

    def blocks(
        self, n_bytes: int = BLOCK_BYTES, first: int = 0
    ) -> Iterator[tuple[slice, AnyArray]]:
        for rows, block in self._base.blocks(n_bytes, first):
            yield rows, self._map(block)

    def each_block(
        self,
        work: Callable[..., Any],
        shared: tuple[Any, ...] = (),
        parts: Callable[[slice], tuple[Any, ...]] | None = None,
        n_bytes: int = BLOCK_BYTES,
        first: int = 0,
    ) -> Iterator[tuple[slice, Any]]:
        return self._base.each_block(_Then(self._map, work), shared, parts, n_bytes, first)


def scaled(
    base: Design,
    shift: Array,
    scale: Array,
    kept: NDArray[np.bool_] | None = None,
    constant: float | None = None,
) -> Design:
    """(x − shift)/scale of the features `kept` (d,), or all, and a column that is `constant`."""
    near = not base.reading_is_dear and bool((np.abs(shift) <= _NEAR * scale).all())
    if near and (kept is None or kept.all()):
        return ScaledDesign(base, shift, scale, constant)
    rows = ScaleRows(
        shift, scale, np.full(base.dimension, True) if kept is None else kept, constant
    )
    return BlockwiseDesign(base, rows, rows.dimension)


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

    @property
    def single_is_quicker(self) -> bool:
        """Whether it is for the features as they are."""
        return self._base.single_is_quicker and self._single_is_safe

    def times_columns(self, small: AnyArray) -> AnyArray:
        scaled = small[:, : self._width] / self._scale
        out = self._base.times_columns(scaled.astype(small.dtype, copy=False)).astype(np.float64)
        out -= (scaled @ self._shift)[:, None]
        if self._constant is not None:
            out += self._constant * small[:, self._width :]
        return out.astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        total = small.sum(1, keepdims=True, dtype=np.float64)
        out = (self._base.times_rows(small) - total * self._shift) / self._scale
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

    def each_block(
        self,
        work: Callable[..., Any],
        shared: tuple[Any, ...] = (),
        parts: Callable[[slice], tuple[Any, ...]] | None = None,
        n_bytes: int = BLOCK_BYTES,
        first: int = 0,
    ) -> Iterator[tuple[slice, Any]]:
        def own(rows: slice) -> tuple[Any, ...]:
            return (self._factors[rows], *(parts(rows) if parts is not None else ()))

        return self._base.each_block(_Weighted(work, len(shared)), shared, own, n_bytes, first)

    def times_columns(self, small: AnyArray) -> AnyArray:
        out = self._base.times_columns(small) * self._factors
        return out.astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        return self._base.times_rows((small * self._factors).astype(small.dtype, copy=False))
