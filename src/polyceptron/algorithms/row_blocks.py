"""X (n, d) as rows that are read in blocks, and how often that was done.

A kind of data says how rows are read (`read_rows`), or how work on blocks of rows is done
(`each_block`); `passes` counts the reads of X, one in single precision being one half, and `watch`
is told of every one. The first read finds what cannot be used.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from polyceptron.algorithms import block_products as products
from polyceptron.algorithms.block_products import BLOCK_BYTES, LARGEST, AnyArray, Array
from polyceptron.algorithms.watching import SILENT, Watch
from polyceptron.errors import InvalidInput


class RowBlocks(ABC):
    """The rows of X (n, d); see the module's docstring."""

    watch: Watch = SILENT
    """Is told of every pass."""

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        if len(shape) != 2 or 0 in shape:
            raise InvalidInput(
                f"X must be a matrix (n_samples, dimension) and not empty, got shape {shape}"
            )
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.n_samples, self.dimension = shape
        self.scale = 1 / math.sqrt(self.dimension)
        self.passes = 0.0

    @abstractmethod
    def read_rows(self, rows: Any) -> AnyArray:
        """Rows of X picked by a slice or an index array, dense (m, d), in its own precision."""

    def blocks(
        self, n_bytes: int = BLOCK_BYTES, first: int = 0
    ) -> Iterator[tuple[slice, AnyArray]]:
        """Consecutive slices of the rows from `first`, each of about `n_bytes`, and what they hold.

        `first` is where a block begins. A block may be overwritten by the next one.
        """
        n, d = self.shape
        step = max(16, n_bytes // max(1, d * self.dtype.itemsize))
        for begin in range(first, n, step):
            rows = slice(begin, min(begin + step, n))
            yield rows, self.read_rows(rows)

    def each_block(
        self,
        work: Callable[..., Any],
        shared: tuple[Any, ...] = (),
        parts: Callable[[slice], tuple[Any, ...]] | None = None,
        n_bytes: int = BLOCK_BYTES,
        first: int = 0,
    ) -> Iterator[tuple[slice, Any]]:
        """work(block, *shared, *parts(rows)) for the blocks of rows from `first`, in order."""
        for rows, block in self.blocks(n_bytes, first):
            yield rows, work(block, *shared, *(parts(rows) if parts is not None else ()))

    @cached_property
    def row_norms(self) -> Array:
        """‖x_μ‖/√d, (n,); the first read of X, which finds what cannot be used."""
        out = np.empty(self.n_samples)
        for rows, (shape, squares, bad) in self.each_block(products.square_sums):
            expected = (rows.stop - rows.start, self.dimension)
            if tuple(shape) != expected:
                raise InvalidInput(
                    f"rows {rows.start} to {rows.stop - 1} of X have the shape {tuple(shape)}, not "
                    f"{expected}"
                )
            if bad is not None:
                raise too_large(rows.start + bad, rows)
            out[rows] = squares
        self.count(self.dtype)
        return np.sqrt(out) * self.scale

    def check_entries(self) -> None:
        """Every entry finite and small enough to be squared, or a sentence that names its row."""
        _ = self.row_norms

    def count(self, dtype: Any) -> None:
        """One more read of X in this precision."""
        self.passes += np.dtype(dtype).itemsize / 8
        self.watch.read(self.passes)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[Watch]:
        """Tell `watch` of every pass for a while."""
        self.watch, before = watch, self.watch
        try:
            yield watch
        finally:
            self.watch = before


def too_large(row: int, block: slice | None = None) -> InvalidInput:
    """The sentence for entries that cannot be squared, with the rows of the block they are in."""
    where = "" if block is None else f" (in the block of rows {block.start} to {block.stop - 1})"
    return InvalidInput(
        f"X must be finite with entries below {LARGEST:g} in size; row {row} has NaN, infinite or "
        f"enormous entries{where}"
    )
