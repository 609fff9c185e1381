"""Memory maps as designs: rows are read from the file, block by block, into one small buffer.

Pages of a map that were looked at count as this process's memory until the system wants them back,
and a file that is cut short under a map ends the program. Reading does neither: a block that is
not there is a sentence. Both products of an iteration are made while the block is at hand.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from polyceptron.algorithms.block_products import BLOCK_BYTES, AnyArray
from polyceptron.algorithms.design import Design
from polyceptron.errors import InvalidInput


def open_map(X: Any) -> Design:
    """The design of a memory map (n, d), or a sentence."""
    if X.ndim == 2 and X.dtype not in (np.float32, np.float64):
        raise InvalidInput(
            f"X is a memory map of {X.dtype} entries, rows 0 to {len(X) - 1}: in double precision "
            "it would be a copy in memory; save it as float32 or float64"
        )
    if X.ndim == 2 and X.size and not _rows_are_contiguous(X):
        raise InvalidInput(
            f"X is a memory map stored by columns (rows 0 to {len(X) - 1} are scattered over all "
            "of the file): save it by rows, as numpy.ascontiguousarray makes it"
        )
    return FileDesign(X)


def _rows_are_contiguous(X: AnyArray) -> bool:
    return (X.strides[1] == X.itemsize and X.strides[0] >= 0) or X.shape[1] == 1


class FileDesign(Design):
    """The rows of a memory map, read from its file; from the map itself where that has none."""

    reading_is_dear = True

    def __init__(self, X: Any) -> None:
        super().__init__(X.shape, X.dtype)
        self._X, self._name = X, str(getattr(X, "filename", None) or "")
        self._file: int | None = None
        self._row_bytes = self.dimension * self.dtype.itemsize
        if X.strides == (self._row_bytes, X.itemsize) and X.mode in ("r", "r+", "w+"):
            self._open()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

    def _open(self) -> None:
        """Find the map's file, unless it has none or another file has taken its name."""
        self._first = _position(self._X)
        try:
            self._file = os.open(self._name, os.O_RDONLY)
            size = os.fstat(self._file).st_size
        except OSError:
            return
        held = (size - self._first) // self._row_bytes
        if held < self.n_samples:
            raise self._missing(max(held, 0), self.n_samples, "the file is cut short")
        if self._read(0, 1, None).tobytes() != self._X[:1].tobytes():
            os.close(self._file)
            self._file = None

    def read_rows(self, rows: Any) -> AnyArray:
        if isinstance(rows, slice):
            first, last, step = rows.indices(self.n_samples)
            if step == 1 and self._file is not None:
                return self._read(first, max(first, last), None)
        picked = np.arange(self.n_samples)[rows]
        if self._file is None:
            return np.array(self._X[picked])
        out = np.empty((len(picked), self.dimension), self.dtype)
        for i, row in enumerate(picked):
            self._read(int(row), int(row) + 1, out[i : i + 1])
        return out

    def blocks(
        self, n_bytes: int = BLOCK_BYTES, first: int = 0
    ) -> Iterator[tuple[slice, AnyArray]]:
        if self._file is None:
            yield from super().blocks(n_bytes, first)
            return
        n, d = self.shape
        step = min(n, max(16, n_bytes // max(1, d * self.dtype.itemsize)))
        buffer = np.empty((step, d), self.dtype)
        for begin in range(first, n, step):
            end = min(begin + step, n)
            yield slice(begin, end), self._read(begin, end, buffer[: end - begin])

    def _read(self, first: int, last: int, into: AnyArray | None) -> AnyArray:
        """Rows first to last − 1, read into an array (last − first, d)."""
        if into is None:
            into = np.empty((last - first, self.dimension), self.dtype)
        view, done = memoryview(into.reshape(-1)).cast("B"), 0  # type: ignore[arg-type]
        start = self._first + first * self._row_bytes
        while done < len(view):
            try:
                got = os.preadv(self._file, [view[done:]], start + done)  # type: ignore[arg-type]
            except OSError as error:
                raise self._missing(first, last, error.strerror or str(error)) from None
            if got == 0:
                raise self._missing(first, last, "the file is cut short")
            done += got
        return into

    def _missing(self, first: int, last: int, why: str) -> InvalidInput:
        return InvalidInput(
            f"rows {first} to {last - 1} of X cannot be read from {self._name!r}: {why}"
        )


def _position(X: Any) -> int:
    """Where in its file a map, or a slice of its rows, begins."""
    base = np.frombuffer(X._mmap, np.uint8).ctypes.data
    return int(X.offset) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY + (
        int(X.__array_interface__["data"][0]) - base
    )
