"""The designs of each kind of data; `open_design` chooses the one that holds the X that was given.

Numpy arrays are neither copied nor scaled, but where eight digits are not needed a copy in single
precision (of X up to `COPY_BYTES`) makes fits 1.2 to 2.1 times as fast. Sparse matrices are never
centred, which would fill them. Memory maps are read from their file, block by block: pages of a map
would count as this process's memory, and a file cut short under a map would end the program.

Features that are scaled, and samples that are weighted, without a copy of X:

    A = (X − 1mᵀ) diag(1/s),  a constant column behind it if asked:   A uᵀ = X(u/s)ᵀ − m·(u/s)

is a design over any other: a sparse matrix stays sparse, an array is not copied (`ScaledDesign`), a
file stays on disk and a Dask array on its cluster (`BlockwiseDesign`).
"""

from __future__ import annotations

import logging
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from io import FileIO
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from polyceptron.checks import as_numbers
from polyceptron.data import design as designs
from polyceptron.data.sparse_checks import SparseMatrix, compressed_rows, is_sparse
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import AnyArray, Array, T

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class DaskTask(Protocol):
    """One piece of work or data that Dask knows by its key."""

    key: object


class DaskArray(Protocol):
    """A Dask array (n, d) in chunks: what a design asks of it."""

    shape: tuple[int, int]
    dtype: np.dtype[np.generic]
    chunks: tuple[tuple[int, ...], ...]

    def __getitem__(self, rows: designs.Rows, /) -> DaskArray:
        """Return some rows."""

    def astype(self, dtype: DTypeLike, /) -> DaskArray:
        """Return the array in another precision."""

    def to_delayed(self, optimize_graph: bool = ...) -> NDArray[np.object_]:
        """Return an array of `DaskTask`, one for each chunk."""


class DaskFrame(Protocol):
    """A Dask dataframe of n rows and d columns."""

    def to_dask_array(self, lengths: bool = ...) -> DaskArray:
        """Return its array (n, d); its chunks have known lengths if these are asked for."""


DataMatrix = ArrayLike | SparseMatrix | DaskArray | DaskFrame | designs.Design
"""X (n, d) in any of the kinds of data that `open_design` takes."""


class _Matrix(Protocol):
    """A matrix of any library, which knows its precision and can be converted."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Return the type of the entries."""

    def astype(self: _M, dtype: type[np.float64], /) -> _M:
        """Return the matrix in double precision."""


_M = TypeVar("_M", bound=_Matrix)


class ArrayDesign(designs.Design):
    """An array (n, d) in memory, of whatever numpy reads as numbers; floats are not converted."""

    rows_are_cheap = True

    def __init__(self, X: object) -> None:
        self._X = _floats(as_numbers(X, "X"))
        super().__init__(self._X.shape, self._X.dtype)

    def read_rows(self, rows: designs.Rows) -> AnyArray:
        """Return rows of the array, (m, d)."""
        return np.asarray(self._X[rows])

    @cached_property
    def _single(self) -> AnyArray:
        """A copy of X in single precision."""
        return self._X.astype(np.float32)

    @property
    def single_is_quicker(self) -> bool:
        """Return whether the entries can be squared in single precision, and X be copied to it."""
        small = self.dtype == np.float32 or self._X.nbytes <= designs.COPY_BYTES
        return small and self.squares_are_safe

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return small Xᵀ, (m, d) to (m, n), by one product where precisions agree."""
        return designs.fields_of(self._in(small.dtype), small)

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return small X, (m, n) to (m, d), by one product where precisions agree."""
        return designs.back_of(self._in(small.dtype), small)

    def gram(self) -> Array:
        """Return XᵀX/d (d, d) if n ≥ d, else XXᵀ/d (n, n), by one product of doubles."""
        if self.dtype != np.float64:
            return super().gram()
        self.count(np.float64)
        X = self._X
        if len(X) >= self.dimension:
            return np.asarray(X.T @ X) * self.scale**2
        return np.asarray(X @ X.T) * self.scale**2

    def _make_column_squares(self) -> Array:
        """Return Σ_μ x_jμ²/d of every feature, (d,), without a copy of X² where X is of doubles."""
        if self.dtype != np.float64:
            return super()._make_column_squares()
        return np.einsum("ij,ij->j", self._X, self._X) * self.scale**2

    def _in(self, dtype: DTypeLike) -> AnyArray:
        """Return X in this precision; doubles of a single-precision X are made part by part."""
        if dtype == np.float32 and self.dtype != np.float32:
            return self._single
        return np.asarray(self._X)


def _floats(X: _M) -> _M:
    """Return a matrix of any library in single or double precision, or raise InvalidInput."""
    if X.dtype.kind not in "biuf":
        raise InvalidInput(f"X must hold real numbers, got {X.dtype} entries")
    if X.dtype in (np.float32, np.float64):
        return X
    return X.astype(np.float64)


class SparseDesign(designs.Design):
    """A matrix in compressed rows; other formats are converted once."""

    def __init__(self, X: SparseMatrix) -> None:
        rows = _floats(compressed_rows(X))
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        super().__init__(rows.shape, rows.dtype)
        self._X = rows

    def read_rows(self, rows: designs.Rows) -> AnyArray:
        """Return rows of the matrix, dense (m, d)."""
        return np.asarray(self._X[rows].toarray())

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return small Xᵀ, (m, d) to (m, n), from the entries that are stored."""
        return np.asarray((self._X @ small.T).T.astype(small.dtype, copy=False))

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return small X, (m, n) to (m, d), from the entries that are stored."""
        return np.asarray((self._X.T @ small.T).T.astype(small.dtype, copy=False))

    @cached_property
    def _squares(self) -> csr_array:
        """X with every entry squared."""
        return self._X.multiply(self._X).tocsr()

    def fields_squared(self, C: Array) -> Array:
        """Return C(X²)ᵀ/d, (c, d) to (c, n), from squares that are kept."""
        return np.asarray((self._squares @ (C / self.dimension).T).T, dtype=np.float64)

    def back_squared(self, H: Array) -> Array:
        """Return HX²/d, (c, n) to (c, d), from squares that are kept."""
        return np.asarray((self._squares.T @ (H / self.dimension).T).T, dtype=np.float64)

    def _make_row_norms(self) -> Array:
        """Return the norms of all rows, (n,), from the entries that are stored."""
        return np.sqrt(np.asarray(self._squares.sum(1, dtype=np.float64)).ravel()) * self.scale

    def _make_content(self) -> str:
        """Return the hash of all entries; there is no need of a look at dense rows."""
        return designs.digest(self._hash_rows())

    def _hash_rows(self) -> NDArray[np.uint64]:
        """Return the hashes (n,) that the dense rows would have: an entry of 0 adds nothing."""
        words = designs.halves_of(self._X.data)
        keys = designs.hash_keys(self.dimension)[self._X.indices, : words.shape[-1]]
        terms = (words * keys).sum(-1, dtype=np.uint64)
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        return sums[self._X.indptr[1:]] - sums[self._X.indptr[:-1]]

    def column_moments(self, weights: Array | None = None) -> designs.ColumnMoments:
        """Return mean, deviation and largest size of each column; zeros are not visited."""
        w = designs.weights_or_ones(weights, self.n_samples)
        X = self._X
        total = w.sum()
        row = np.repeat(np.arange(self.n_samples), np.diff(X.indptr))
        largest = np.asarray(abs(X).max(0).todense(), dtype=float).ravel()
        unit = np.maximum(largest, np.finfo(float).tiny)
        part = X.data / unit[X.indices]
        share = w[row]
        mean = np.bincount(X.indices, share * part, self.dimension) / total
        filled = np.bincount(X.indices, share, self.dimension)
        off = np.bincount(X.indices, share * (part - mean[X.indices]) ** 2, self.dimension)
        square = off + np.maximum(total - filled, 0.0) * mean**2
        return designs.ColumnMoments(mean * unit, np.sqrt(square / total) * unit, largest)

    def check_entries(self) -> None:
        """Raise InvalidInput with the first row that has an entry which cannot be squared."""
        bad = ~designs.usable(self._X.data)
        if bad.any():
            row = int(np.searchsorted(self._X.indptr, int(bad.argmax()), side="right")) - 1
            raise designs.too_large(row)


class FileDesign(designs.Design):
    """The rows of a memory map, read from its file; from the map itself where that has none."""

    reading_is_dear = True

    @classmethod
    def of(cls, X: np.memmap[tuple[int, int], np.dtype[np.generic]]) -> FileDesign:
        """Return the design of a memory map (n, d), or raise InvalidInput."""
        if X.ndim == 2 and X.dtype not in (np.float32, np.float64):
            raise InvalidInput(
                f"X is a memory map of {X.dtype} entries, rows 0 to {len(X) - 1}: in double "
                "precision it would be a copy in memory; save it as float32 or float64"
            )
        contiguous = X.ndim != 2 or (X.strides[1] == X.itemsize and X.strides[0] >= 0)
        if X.size and X.shape[1:] != (1,) and not contiguous:
            raise InvalidInput(
                f"X is a memory map stored by columns (rows 0 to {len(X) - 1} are scattered over "
                "all of the file): save it by rows, as numpy.ascontiguousarray makes it"
            )
        return cls(X)

    def __init__(self, X: np.memmap[tuple[int, int], np.dtype[np.generic]]) -> None:
        super().__init__(X.shape, X.dtype)
        self._X = X
        self._name = str(X.filename or "")
        self._file: FileIO | None = None
        self._row_bytes = self.dimension * self.dtype.itemsize
        if X.strides == (self._row_bytes, X.itemsize) and X.mode in ("r", "r+", "w+"):
            self._open()

    def __del__(self) -> None:
        file: FileIO | None = getattr(self, "_file", None)  # none where __init__ has raised
        if file is not None:
            file.close()

    def _open(self) -> None:
        """Find the map's file, unless it has none or another file has taken its name."""
        mapped: mmap.mmap = vars(self._X)["_mmap"]
        base = np.frombuffer(mapped, np.uint8).ctypes.data
        before = int(self._X.__array_interface__["data"][0]) - base
        pages = int(self._X.offset) // mmap.ALLOCATIONGRANULARITY
        self._first = pages * mmap.ALLOCATIONGRANULARITY + before
        try:
            self._file = open(self._name, "rb", buffering=0)  # noqa: SIM115  # as long as X
        except OSError:
            return
        held = (os.fstat(self._file.fileno()).st_size - self._first) // self._row_bytes
        if held < self.n_samples:
            raise self._missing(max(held, 0), self.n_samples, "the file is cut short")
        if self._read(slice(0, 1)).tobytes() != self._X[:1].tobytes():
            self._file.close()
            self._file = None

    def read_rows(self, rows: designs.Rows) -> AnyArray:
        """Return rows read from the file, (m, d)."""
        if self._file is None:
            return np.array(self._X[rows])
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, last, _ = rows.indices(self.n_samples)
            return self._read(slice(first, max(first, last)))
        picked = np.arange(self.n_samples)[rows]
        out = np.empty((len(picked), self.dimension), self.dtype)
        for i, row in enumerate(picked.tolist()):
            self._read(slice(row, row + 1), out[i : i + 1])
        return out

    def blocks(self, n_bytes: int = designs.BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Yield slices of rows and the rows there, all read into one buffer."""
        buffer = np.empty((next(self.slices(n_bytes)).stop, self.dimension), self.dtype)
        for rows in self.slices(n_bytes):
            yield rows, self._read(rows, buffer[: rows.stop - rows.start])

    def _read(self, rows: slice, into: AnyArray | None = None) -> AnyArray:
        """Return these rows, read into an array of their shape."""
        if self._file is None:
            return np.array(self._X[rows])
        if into is None:
            into = np.empty((rows.stop - rows.start, self.dimension), self.dtype)
        view = into.reshape(-1).view(np.uint8).data
        done = 0
        try:
            self._file.seek(self._first + rows.start * self._row_bytes)
            while done < len(view):
                got = self._file.readinto(view[done:])
                if not got:
                    raise self._missing(rows.start, rows.stop, "the file is cut short")
                done += got
        except OSError as error:
            raise self._missing(rows.start, rows.stop, error.strerror or str(error)) from None
        return into

    def _missing(self, first: int, last: int, why: str) -> InvalidInput:
        """Return the error for rows that cannot be read."""
        return InvalidInput(
            f"rows {first} to {last - 1} of X cannot be read from {self._name!r}: {why}"
        )


# Shifts m up to so many times the scale s lose no more than a digit and a half in the products.
MOST_SCALES_OF_SHIFT = 30.0


@dataclass(frozen=True)
class ScaleRows:
    """(x − shift)/scale of the features that are `kept` (d,), and a column that is `constant`."""

    shift: Array
    scale: Array
    kept: NDArray[np.bool_]
    constant: float | None = None

    @property
    def dimension(self) -> int:
        """The number of columns of the rows that are made."""
        return int(self.kept.sum()) + (self.constant is not None)

    def __call__(self, block: AnyArray) -> AnyArray:
        """Return the scaled rows (b, dimension) of a block (b, d)."""
        if not self.kept.all():
            block = block[:, self.kept]
        out = np.empty((len(block), self.dimension))
        part = out[:, : block.shape[1]]
        np.subtract(block, self.shift[self.kept], out=part)
        part /= self.scale[self.kept]
        if self.constant is not None:
            out[:, -1] = self.constant
        return out


class BlockwiseDesign(designs.Design):
    """The rows of `base` under a map (b, d) to (b, dimension), made block by block."""

    reading_is_dear = True

    def __init__(self, base: designs.Design, map: designs.Form, dimension: int) -> None:
        super().__init__((base.n_samples, dimension), np.float64)
        self.base = base
        self._map = map

    @property
    def rescaled(self) -> ScaleRows | None:
        """The map, where it scales every feature of `base` and adds none."""
        rows = self._map
        if not isinstance(rows, ScaleRows) or not rows.kept.all() or rows.constant is not None:
            return None
        return rows

    def _make_content(self) -> str:
        """Return the hash of `base`: the map's own numbers may be rounded differently."""
        return self.base.content

    def column_moments(self, weights: Array | None = None) -> designs.ColumnMoments:
        """Return mean, deviation and largest size of each column, of `base` where it can."""
        by = self.rescaled
        if by is None:
            return super().column_moments(weights)
        mean, deviation, largest = self.base.column_moments(weights)
        most = (largest + np.abs(by.shift)) / by.scale
        return designs.ColumnMoments((mean - by.shift) / by.scale, deviation / by.scale, most)

    def read_rows(self, rows: designs.Rows) -> AnyArray:
        """Return rows of `base` under the map, (m, dimension)."""
        return self._map(self.base.read_rows(rows))

    def blocks(self, n_bytes: int = designs.BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Yield slices of rows, and the blocks of `base` there under the map."""
        return ((rows, self._map(block)) for rows, block in self.base.blocks(n_bytes))

    def each_block(
        self,
        work: Callable[..., T],
        shared: tuple[object, ...] = (),
        parts: Callable[[slice], tuple[object, ...]] | None = None,
        n_bytes: int = designs.BLOCK_BYTES,
    ) -> Iterator[tuple[slice, T]]:
        """Yield slices of rows and the work done on the blocks of `base` there under the map."""
        made = self._map  # the design itself stays here

        def work_on_mapped(block: AnyArray, *more: object) -> T:
            """Do the work on a block (b, d) under the map."""
            return work(made(block), *more)

        return self.base.each_block(work_on_mapped, shared, parts, n_bytes)


def scaled(
    base: designs.Design,
    shift: Array | None,
    scale: Array,
    kept: NDArray[np.bool_] | None = None,
    constant: float | None = None,
    near: bool | None = None,
) -> designs.Design:
    """Return the design of (x − shift)/scale of some features, and a column that is constant.

    Parameters
    ----------
    base : Design
        X (n, d).
    shift, scale : ndarray of shape (d,)
        None for no shift.
    kept : ndarray of bool of shape (d,), optional
        The features; all if not given.
    constant : float, optional
        The entries of a further column.
    near : bool, optional
        Whether no shift is far beyond the deviation of its feature, if that is known. Features that
        are scaled already are then scaled once for both, and arrays may be copied.
    """
    if shift is None:
        shift = np.zeros(base.dimension)
    if kept is None:
        kept = np.full(base.dimension, True)
    rows = ScaleRows(shift, scale, kept, constant)
    may_copy = near is not None
    if near is None:
        near = isinstance(base, SparseDesign) or _is_near(shift, scale)
    elif isinstance(base, BlockwiseDesign) and base.rescaled is not None:
        near = near and isinstance(base, ScaledDesign)
        rows = _scaled_twice(base.rescaled, rows)
        base = base.base
    return _design_of(base, rows, near, may_copy)


def _design_of(base: designs.Design, rows: ScaleRows, near: bool, may_copy: bool) -> designs.Design:
    """Return the quickest design of scaled rows that is accurate enough."""
    if base.reading_is_dear:
        return BlockwiseDesign(base, rows, rows.dimension)
    if near and rows.kept.all():
        return ScaledDesign(base, rows)
    if may_copy and base.may_be_copied:
        return ArrayDesign(rows(base.read_rows(slice(None))))
    return BlockwiseDesign(base, rows, rows.dimension)


def _is_near(shift: Array, scale: Array) -> bool:
    """Return whether products with X itself lose few digits to the shift."""
    return bool((np.abs(shift) <= MOST_SCALES_OF_SHIFT * scale).all())


def _scaled_twice(first: ScaleRows, second: ScaleRows) -> ScaleRows:
    """Return what scales features at once as both do one after the other."""
    shift = first.shift + first.scale * second.shift
    return replace(second, shift=shift, scale=first.scale * second.scale)


class ScaledDesign(BlockwiseDesign):
    """Every feature of `base`, scaled, by products with `base` itself."""

    reading_is_dear = False

    def __init__(self, base: designs.Design, rows: ScaleRows) -> None:
        super().__init__(base, rows, rows.dimension)
        self._width = base.dimension
        self._by = rows
        self.rows_are_cheap = base.rows_are_cheap

    @property
    def single_is_quicker(self) -> bool:
        """Return whether it is for `base`, and safe for the scaled entries."""
        return self.base.single_is_quicker and self.squares_are_safe

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return small Aᵀ, (m, dimension) to (m, n), by a product with X."""
        part = small[:, : self._width] / self._by.scale
        out = self.base.times_columns(part.astype(small.dtype, copy=False)).astype(np.float64)
        out -= (part @ self._by.shift)[:, None]
        if self._by.constant is not None:
            out += self._by.constant * small[:, self._width :]
        return out.astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return small A, (m, n) to (m, dimension), by a product with X."""
        total = small.sum(1, keepdims=True, dtype=np.float64)
        out = (self.base.times_rows(small) - total * self._by.shift) / self._by.scale
        if self._by.constant is not None:
            out = np.hstack([out, self._by.constant * total])
        return out.astype(small.dtype, copy=False)


class DaskDesign(designs.Design):
    """A Dask array (n, d), or dataframe, in chunks of whole rows: each is one block.

    Work is sent to where the rows are: the cluster of a `distributed.Client` if there is one, else
    threads of this process. Chunks that are not kept (`X.persist()`) are read again for each pass.
    Dask repeats what a lost worker had; sums are taken here, in the order of the rows.
    """

    reading_is_dear = True

    def __init__(self, X: DaskArray | DaskFrame) -> None:
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array(lengths=True)
        if getattr(X, "ndim", 0) != 2 or not hasattr(X, "chunks"):
            raise InvalidInput(
                f"X must be a matrix (n_samples, dimension), got a Dask {type(X).__name__} with "
                f"{getattr(X, 'ndim', 'no')} axes"
            )
        if np.isnan(X.chunks[0]).any() or np.isnan(X.chunks[1]).any():
            raise InvalidInput(
                "X is a Dask array with chunks of unknown numbers of rows: call "
                "X.compute_chunk_sizes() first, or to_dask_array(lengths=True) on a dataframe"
            )
        if len(X.chunks[1]) > 1:
            widths = ", ".join(map(str, X.chunks[1][:3]))
            raise InvalidInput(
                f"X is a Dask array with chunks along its columns ({widths}, ... of "
                f"{X.shape[1]}; the first block of rows is 0 to {X.chunks[0][0] - 1}): chunks must "
                "hold whole rows, as X.rechunk({1: -1}) makes them"
            )
        self._X = X = _floats(X)
        super().__init__(X.shape, X.dtype)
        self._chunks = X.to_delayed(optimize_graph=True).ravel()
        ends = np.cumsum(X.chunks[0]).tolist()
        self._rows = [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def read_rows(self, rows: designs.Rows) -> AnyArray:
        """Return rows computed by Dask, (m, d)."""
        return np.asarray(self._wait([self._X[rows]])[0])

    def blocks(self, n_bytes: int = designs.BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Yield the rows of each chunk, and the chunk; `n_bytes` has no effect."""
        for rows, chunk in zip(self._rows, self._chunks, strict=True):
            yield rows, np.asarray(self._wait([chunk])[0])

    def each_block(
        self,
        work: Callable[..., T],
        shared: tuple[object, ...] = (),
        parts: Callable[[slice], tuple[object, ...]] | None = None,
        n_bytes: int = 0,
    ) -> Iterator[tuple[slice, T]]:
        """Yield slices of rows and the work done where each chunk is; `n_bytes` has no effect."""
        dask = import_module("dask")

        def send(argument: object) -> DaskTask:
            """Send an argument to Dask as one key, whatever it is made of."""
            task: DaskTask = dask.delayed(argument, pure=False, traverse=False)
            return task

        given = [send(item) for item in shared]
        do = dask.delayed(work, pure=False)
        for begin in range(0, len(self._rows), MOST_BLOCKS_AT_ONCE):
            numbers = range(begin, min(begin + MOST_BLOCKS_AT_ONCE, len(self._rows)))
            tasks = []
            places = self._places()
            for i in numbers:
                own: tuple[object, ...] = ()
                if parts is not None:
                    own = parts(self._rows[i])
                with dask.annotate(**_at(places.get(str(self._chunks[i].key)))):
                    tasks.append(do(self._chunks[i], *given, *map(send, own)))
            for i, result in zip(numbers, self._wait(tasks), strict=True):
                yield self._rows[i], result

    def _places(self) -> dict[str, list[str]]:
        """Return the workers that hold each persisted chunk: else Dask sends rows to idle ones."""
        cluster = sys.modules.get("distributed")
        if cluster is None:
            return {}
        futures = cluster.futures_of(self._X)
        if not futures:
            return {}
        try:
            found = futures[0].client.who_has(futures)
        except Exception as error:  # of whatever kind: the work itself will raise it
            logging.getLogger(__name__).debug("asking who holds the blocks: %s", error)
            return {}
        return {str(key): list(held) for key, held in found.items() if held}

    def _wait(self, tasks: Sequence[object]) -> list[Any]:
        """Return the results, or raise a sentence about what kept Dask from them."""
        dask = import_module("dask")
        try:
            return list(dask.compute(*tasks))
        except (InvalidInput, ComputationFailed):
            raise
        except Exception as error:
            name = type(error).__name__
            logging.getLogger(__name__).debug("computing on blocks: %s", error)
            if name == "KilledWorker":
                raise ComputationFailed(
                    "several workers of the cluster died while working on one block of X (killed, "
                    "or out of memory?): use smaller chunks of rows"
                ) from None
            if name.endswith("CancelledError") or name in ("CommClosedError", "TimeoutError"):
                raise ComputationFailed(
                    "lost the Dask scheduler; with a checkpoint the same call goes on from there "
                    "when a scheduler is back"
                ) from None
            self._raise_if_unreadable(f"{name}: {error}")
            raise

    def _raise_if_unreadable(self, reason: str) -> None:
        """Raise with the first chunk that cannot be read, if there is one."""
        dask = import_module("dask")
        for rows, chunk in zip(self._rows, self._chunks, strict=True):
            try:
                dask.compute(dask.delayed(np.shape)(chunk))
            except Exception:
                raise InvalidInput(
                    f"rows {rows.start} to {rows.stop - 1} of X cannot be read: {reason}"
                ) from None


MOST_BLOCKS_AT_ONCE = 512  # sent to Dask together: their results are in memory at once


def _at(workers: list[str] | None) -> dict[str, object]:
    """Return what tells Dask to work where rows are, if that is known."""
    if not workers:
        return {}
    return {"workers": workers, "allow_other_workers": True}


def _is_dask(X: object) -> TypeGuard[DaskArray | DaskFrame]:
    """Return whether X is a collection of Dask."""
    return hasattr(X, "__dask_graph__")


def open_design(X: object) -> designs.Design:
    """Return the design that holds X (n, d), of any kind in `DataMatrix`; nothing is read yet."""
    if isinstance(X, designs.Design):
        return X
    if isinstance(X, np.memmap):
        return FileDesign.of(X)
    if _is_dask(X):
        return DaskDesign(X)
    if is_sparse(X):
        return SparseDesign(X)
    return ArrayDesign(X)
