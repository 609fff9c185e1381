"""X (n, d) as the algorithms see it: products with a thin matrix on either side, and little else.

    fields(U)          (XUᵀ/√d)ᵀ    directions (..., d) to fields (..., n)
    back(F)            FX/√d        residuals (..., n) to directions (..., d)
    through(U, inner)  both, with F = inner.rows(rows)(fields): one read where reading is dear

Directions are rows. The precision of the small operand is that of the product. `passes` counts the
reads of X, one in single precision being one half. The first read finds what cannot be used.

A kind of data is a subclass of `Design` with `read_rows`, or with its own way to work on blocks of
rows (`each_block`); everything else follows from that, and may be given anew where there is a
faster way (`stored_designs`). What is done to one block (b, d) are plain functions, so that they
can be sent to where a block is. Another precision than its own is made in parts that stay in the
cache. Small data get one thread (`threads_for`): threads of the linear algebra wait for each other
by spinning, and on scikit-learn's digits two of them took five times as long as one.
"""

import hashlib
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, wraps
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from polyceptron.data.watching import SILENT, Watch
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray, Array, P, T, one_blas_thread, thread_count

Form = Callable[[AnyArray], AnyArray]
"""A function of the entries of rows (b, d), such as their squares."""

Inner = Callable[[AnyArray], tuple[AnyArray, Any]]
"""Fields (..., b) to residuals (..., b), and whatever else is wanted of the samples."""

Extra_co = TypeVar("Extra_co", covariant=True)

Rows = slice | NDArray[np.int64] | NDArray[np.bool_]
"""Rows of X: a slice, their numbers (m,), or a mask (n,)."""


class SampleFunction(Protocol[Extra_co]):
    """A function of the fields of all samples, which gives the same function of some of them."""

    def __call__(self, fields: AnyArray, /) -> tuple[AnyArray, Extra_co]:
        """Return residuals (..., n) from fields (..., n), and what else is wanted."""

    def rows(self, rows: slice, /) -> Callable[[AnyArray], tuple[AnyArray, Extra_co]]:
        """Return the function for the fields (..., b) of these rows."""


# Bytes of a block of rows that stays in the cache of a processor.
BLOCK_BYTES = 1 << 22

# Entries up to this size can be squared and summed without overflow.
LARGEST = 1e150

# Fields (classes, n) of at least so many classes, and with more numbers than this, are not held at
# once between the two products of `through`, which are then made block by block.
MOST_FIELDS_AT_ONCE = 1 << 20
MANY_CLASSES = 20

# In single precision, for up to so many directions and blocks with at least so many entries, BLAS
# is two to four times as fast with one vector at a time.
MOST_SINGLE_VECTORS = 4
LEAST_ENTRIES_FOR_VECTORS = 1 << 20


def fields_of(block: AnyArray, small: AnyArray, form: Form | None = None) -> AnyArray:
    """Return small form(block)ᵀ, (m, d) to (m, b), in the precision of `small`."""
    vectors = form is None and _by_vectors(block, small)
    if form is None and block.dtype == small.dtype and not vectors:
        return np.asarray(small @ block.T)
    out = np.empty((len(small), len(block)), small.dtype)
    for rows, part in _parts(block, small.dtype):
        if vectors:
            for u, z in zip(small, out, strict=True):
                z[rows] = part @ u
        else:
            out[:, rows] = small @ _formed(part, form).T
    return out


def back_of(block: AnyArray, small: AnyArray, form: Form | None = None) -> AnyArray:
    """Return small form(block), (m, b) to (m, d); parts are added in double precision."""
    vectors = form is None and _by_vectors(block, small)
    if form is None and block.dtype == small.dtype and not vectors:
        # On one thread F @ X is the faster form; on several it waits for the slowest at every
        # block, and a busy machine makes it wait for long.
        if thread_count() == 1:
            return np.asarray(small @ block)
        return np.asarray((block.T @ small.T).T)
    out = np.zeros((len(small), block.shape[1]))
    for rows, part in _parts(block, small.dtype):
        if vectors:
            for f, g in zip(small, out, strict=True):
                g += f[rows] @ part
        else:
            out += small[:, rows] @ _formed(part, form)
    if form is not None:
        return out
    return out.astype(small.dtype, copy=False)


def _formed(part: AnyArray, form: Form | None) -> AnyArray:
    """Return form(part), or the part itself."""
    if form is None:
        return part
    return form(part)


def _by_vectors(block: AnyArray, small: AnyArray) -> bool:
    """Return whether products with one row of `small` at a time are faster."""
    few = 1 < len(small) <= MOST_SINGLE_VECTORS
    return small.dtype == np.float32 and few and block.size >= LEAST_ENTRIES_FOR_VECTORS


def through_of(
    block: AnyArray,
    small: AnyArray,
    shape: tuple[int, ...],
    inner: Callable[[AnyArray], tuple[AnyArray, T]],
) -> tuple[AnyArray, T]:
    """Return f block (m, d) with f = inner(small blockᵀ), and what else `inner` gave.

    `inner` sees the fields (*shape, b), where the product of `shape` is m.
    """
    block = block.astype(small.dtype, copy=False)  # once for both products
    f, rest = inner(fields_of(block, small).reshape(*shape, len(block)))
    return back_of(block, f.reshape(-1, len(block))), rest


class FirstLook(NamedTuple):
    """What the first read of X finds in a block of rows.

    Attributes
    ----------
    shape : tuple of int
        That of the block, (b, d) unless something is wrong.
    squares : ndarray of shape (b,)
        The sum of squares of each row.
    bad_row : int or None
        The first row with an entry that cannot be used.
    hashes : ndarray of uint64 of shape (b,) or None
        The hash of each row, where it was asked for.
    """

    shape: tuple[int, ...]
    squares: Array
    bad_row: int | None
    hashes: NDArray[np.uint64] | None


def look_at(block: AnyArray, keys: NDArray[np.uint64] | None) -> FirstLook:
    """Look at a block for the first time; hash its rows if keys (d,) are given."""
    if block.ndim != 2:
        return FirstLook(block.shape, np.zeros(0), None, None)
    hashes = None
    if keys is not None and block.shape[1] == len(keys):
        hashes = row_hashes(block, keys)
    sums = _square_sums(block)
    if sums.size and not float(sums.max()) < LARGEST**2:
        bad = ~usable(block).all(1)
        if bad.any():
            return FirstLook(block.shape, sums, int(bad.argmax()), hashes)
    return FirstLook(block.shape, sums, None, hashes)


def _square_sums(block: AnyArray) -> Array:
    """Return the sum of squares of each row, (b, d) to (b,)."""
    sums = np.empty(len(block))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        sums[:] = np.einsum("ij,ij->i", block, block)
        if block.dtype == np.float32 and not np.isfinite(sums).all():  # of larger range
            for rows, part in _parts(block, np.float64):
                sums[rows] = np.einsum("ij,ij->i", part, part)
    return sums


def hash_keys(dimension: int) -> NDArray[np.uint64]:
    """Return the numbers (d, 2) with which the halves of a row's entries are multiplied."""
    return np.random.default_rng(0).integers(0, 2**64, (dimension, 2), dtype=np.uint64)


def row_hashes(block: AnyArray, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return Σ_j (low_j key_j0 + high_j key_j1) mod 2^64 of each row, (b, d) to (b,).

    low_j and high_j are the halves of the bits of x_j; an entry in single precision has the first
    alone. Whole numbers are added, so that nothing is rounded and the hash is the same however rows
    are cut into blocks. Halves, as the sign bits of two whole entries would cancel.
    """
    words = halves_of(block)
    return np.einsum("ijh,jh->i", words, keys[:, : words.shape[-1]])


def halves_of(entries: AnyArray) -> NDArray[np.uint32]:
    """Return the bits of numbers (...) in single or double precision in words of 32, (..., h)."""
    words = np.ascontiguousarray(entries).view(np.uint32)
    return words.reshape(*entries.shape, entries.dtype.itemsize // 4)


def digest(values: AnyArray) -> str:
    """Return a hash of an array's numbers, in their order: 32 hexadecimal digits."""
    return hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest()


def usable(entries: AnyArray) -> NDArray[np.bool_]:
    """Return which entries are finite and can be squared, in the same shape."""
    if entries.dtype == np.float32:  # none is too large
        return np.isfinite(entries)
    return np.abs(entries) < LARGEST


def _parts(block: AnyArray, dtype: DTypeLike) -> Iterator[tuple[slice, AnyArray]]:
    """Yield slices of rows that stay in the cache, and the rows in this precision.

    All rows at once where they are not contiguous.
    """
    n, d = block.shape
    same = block.dtype == dtype
    n_bytes = BLOCK_BYTES
    if not same:
        n_bytes = BLOCK_BYTES // 4  # the last part and the next are both in memory
    step = max(16, n_bytes // max(1, d * np.dtype(dtype).itemsize))
    if same and not block.flags.c_contiguous:
        step = n
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        yield rows, block[rows].astype(dtype, copy=False)


def threads_for(X: object) -> AbstractContextManager[object]:
    """Return a context with one thread of linear algebra if X (n, d) is small."""
    small = math.prod(getattr(X, "shape", ())) <= 1_000_000  # what has none is a list, and small
    if small:
        return one_blas_thread()
    return nullcontext()


def threads_of_data(fit: Callable[P, T]) -> Callable[P, T]:
    """Make a method `fit(self, X, ...)` use one thread where X is small.

    Underflow inside it is meant: squares of small entries and chances of far classes are 0.
    """

    @wraps(fit)
    def fitted(*args: P.args, **options: P.kwargs) -> T:
        """Fit in the context that suits the size of X."""
        X = args[1] if len(args) > 1 else options.get("X")
        with threads_for(X), np.errstate(under="ignore"):
            return fit(*args, **options)

    return fitted


_COPY_MB = os.environ.get("POLYCEPTRON_COPY_MB", "")
COPY_BYTES = (int(_COPY_MB) if _COPY_MB.isdigit() else 256) << 20
"""Of arrays in memory that may be copied where that is quicker; POLYCEPTRON_COPY_MB=0 for none."""


class ColumnMoments(NamedTuple):
    """Mean, standard deviation and largest absolute value of each column, all (d,)."""

    mean: Array
    deviation: Array
    largest: Array


class FirstRead(NamedTuple):
    """The norms ‖x_μ‖/√d of all rows (n,), and their hashes (n,) where they were made."""

    norms: Array
    hashes: NDArray[np.uint64] | None


class Design(ABC):
    """X (n, d), known by its products with thin matrices.

    Attributes
    ----------
    shape, n_samples, dimension
        (n, d), n and d.
    dtype : numpy.dtype
        Precision of the entries.
    scale : float
        1/√d.
    passes : float
        Reads of X so far; one in single precision counts one half.
    watch : Watch
        Is told of every pass.
    """

    watch: Watch = SILENT

    def __init__(self, shape: tuple[int, int], dtype: DTypeLike) -> None:
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
    def read_rows(self, rows: Rows) -> AnyArray:
        """Return rows of X picked by a slice or an index array, dense (m, d), as precise as X."""

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Yield slices of about `n_bytes` and the rows there, which the next may overwrite."""
        for rows in self.slices(n_bytes):
            yield rows, self.read_rows(rows)

    def slices(self, n_bytes: int) -> Iterator[slice]:
        """Yield slices of the rows, each of about so many bytes."""
        step = max(16, n_bytes // max(1, self.dimension * self.dtype.itemsize))
        for begin in range(0, self.n_samples, step):
            yield slice(begin, min(begin + step, self.n_samples))

    def each_block(
        self,
        work: Callable[..., T],
        shared: tuple[object, ...] = (),
        parts: Callable[[slice], tuple[object, ...]] | None = None,
        n_bytes: int = BLOCK_BYTES,
    ) -> Iterator[tuple[slice, T]]:
        """Yield slices of rows and work(block, *shared, *parts(rows)), in the order of the rows.

        Parameters
        ----------
        work : callable
            What is done to one block (b, d).
        shared : tuple
            Arguments that all blocks share.
        parts : callable or None
            Arguments of one block, from its slice of the rows.
        n_bytes : int
            Size of a block, where the kind of data leaves the choice.
        """
        for rows, block in self.blocks(n_bytes):
            own: tuple[object, ...] = ()
            if parts is not None:
                own = parts(rows)
            yield rows, work(block, *shared, *own)

    @cached_property
    def row_norms(self) -> Array:
        """‖x_μ‖/√d, (n,); the first read of X, which finds what cannot be used."""
        return self._make_row_norms()

    def _make_row_norms(self) -> Array:
        """Return the norms of all rows, (n,), from the first read."""
        return self._first_read.norms

    @cached_property
    def content(self) -> str:
        """A hash of all entries of X, the same however its rows are read.

        Where reading is dear it is made in the first read, else in a read of its own.
        """
        return self._make_content()

    def _make_content(self) -> str:
        """Return the hash of all entries from those of the rows."""
        hashes = self._first_read.hashes
        if hashes is None:
            hashes = self._hash_rows()
        return digest(hashes)

    @cached_property
    def _first_read(self) -> FirstRead:
        """The norms of all rows, and their hashes where reading is dear."""
        norms = np.empty(self.n_samples)
        keys = None
        hashes = None
        if self.reading_is_dear:
            keys = hash_keys(self.dimension)
            hashes = np.empty(self.n_samples, np.uint64)
        for rows, look in self.each_block(look_at, (keys,)):
            expected = (rows.stop - rows.start, self.dimension)
            if tuple(look.shape) != expected:
                raise InvalidInput(
                    f"rows {rows.start} to {rows.stop - 1} of X have the shape "
                    f"{tuple(look.shape)}, not {expected}"
                )
            if look.bad_row is not None:
                raise too_large(rows.start + look.bad_row, rows)
            norms[rows] = look.squares
            if hashes is not None and look.hashes is not None:
                hashes[rows] = look.hashes
        self.count(self.dtype)
        return FirstRead(np.sqrt(norms) * self.scale, hashes)

    def _hash_rows(self) -> NDArray[np.uint64]:
        """Return the hash of each row, (n,)."""
        hashes = np.empty(self.n_samples, np.uint64)
        for rows, part in self.each_block(row_hashes, (hash_keys(self.dimension),)):
            hashes[rows] = part
        self.count(self.dtype)
        return hashes

    def check_entries(self) -> None:
        """Raise InvalidInput with the first row that has an entry which cannot be squared."""
        _ = self.row_norms

    def count(self, dtype: DTypeLike) -> None:
        """Count one more read of X in this precision."""
        self.passes += np.dtype(dtype).itemsize / 8
        self.watch.read(self.passes)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[Watch]:
        """Tell `watch` of every pass for a while."""
        before = self.watch
        self.watch = watch
        try:
            yield watch
        finally:
            self.watch = before

    reading_is_dear = False  # one read for two products is worth more than products at once
    rows_are_cheap = False  # blocks are at hand as they are: products may be made by block

    @property
    def may_be_copied(self) -> bool:
        """Return whether X in double precision is small enough for a copy in memory."""
        return 8 * self.n_samples * self.dimension <= COPY_BYTES

    @property
    def single_is_quicker(self) -> bool:
        """Return whether a product in single precision is cheaper, and safe for such entries."""
        return self.dtype == np.float32 and self.squares_are_safe

    @property
    def squares_are_safe(self) -> bool:
        """Return whether squares of the entries stay inside single precision."""
        largest = float(self.row_norms.max())  # within a factor √d of the largest entry
        return 1e-12 < largest < 1e12 * self.scale

    def fields(self, U: AnyArray) -> AnyArray:
        """Return (XUᵀ/√d)ᵀ: directions (..., d) to fields (..., n)."""
        self.count(U.dtype)
        small = (U * U.dtype.type(self.scale)).reshape(-1, self.dimension)
        return self.times_columns(small).reshape(*U.shape[:-1], self.n_samples)

    def back(self, F: AnyArray) -> AnyArray:
        """Return FX/√d: residuals (..., n) to directions (..., d)."""
        self.count(F.dtype)
        small = (F * F.dtype.type(self.scale)).reshape(-1, self.n_samples)
        return self.times_rows(small).reshape(*F.shape[:-1], self.dimension)

    def through(self, U: AnyArray, inner: SampleFunction[T]) -> tuple[AnyArray, list[T]]:
        """Return FX/√d (..., d) with F = inner(XUᵀ/√d), and what else `inner` gave, by block.

        `inner` maps fields (..., n) to residuals (..., n) and something else; `inner.rows(rows)` is
        the same for a slice of the samples.
        """
        shape = U.shape[:-1]
        n_fields = math.prod(shape) * self.n_samples
        wide = shape[-1] >= MANY_CLASSES and n_fields > MOST_FIELDS_AT_ONCE
        by_block = self.reading_is_dear or (wide and self.rows_are_cheap)
        if not by_block:
            F, extra = inner(self.fields(U))
            return self.back(F), [extra]
        small = (U * U.dtype.type(self.scale)).reshape(-1, self.dimension)
        out = np.zeros(small.shape)
        self.count(U.dtype)
        extras: list[T] = []
        most_bytes = MOST_FIELDS_AT_ONCE * self.dimension * self.dtype.itemsize // len(small)
        results = self.each_block(
            through_of,
            (small, shape),
            lambda rows: (inner.rows(rows),),
            min(BLOCK_BYTES, most_bytes),
        )
        for _, (part, extra) in results:
            out += part
            extras.append(extra)
        return (out * self.scale).astype(U.dtype, copy=False).reshape(U.shape), extras

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return small Xᵀ, (m, d) to (m, n)."""
        return self._by_row(small, small.dtype)

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return small X, (m, n) to (m, d)."""
        return self._total(small).astype(small.dtype, copy=False)

    def fields_squared(self, C: Array) -> Array:
        """Return C(X²)ᵀ/d, (c, d) to (c, n); squares are taken by block, never of all X at once."""
        return self._by_row((C / self.dimension).astype(self.dtype), np.float64, np.square)

    def back_squared(self, H: Array) -> Array:
        """Return HX²/d, (c, n) to (c, d)."""
        return self._total((H / self.dimension).astype(self.dtype), np.square)

    def _by_row(self, small: AnyArray, dtype: DTypeLike, form: Form | None = None) -> AnyArray:
        """Return small form(X)ᵀ, (m, d) to (m, n)."""
        out = np.empty((len(small), self.n_samples), dtype)
        for rows, part in self.each_block(fields_of, (small, form)):
            out[:, rows] = part
        return out

    def _total(self, small: AnyArray, form: Form | None = None) -> Array:
        """Return small form(X), (m, n) to (m, d), in double precision."""
        out = np.zeros((len(small), self.dimension))
        for _, part in self.each_block(back_of, (), lambda rows: (small[:, rows], form)):
            out += part
        return out

    def scaled_rows(self, rows: Rows, dtype: DTypeLike = np.float64) -> AnyArray:
        """Return rows of X/√d, in double precision or this one."""
        part = self.read_rows(rows)
        self.passes += len(part) / self.n_samples
        return np.multiply(part, self.scale, dtype=dtype)

    def gram(self) -> Array:
        """Return XᵀX/d (d, d) if n ≥ d, else XXᵀ/d (n, n), in double precision."""
        n, d = self.shape
        scale = np.float64(self.scale)

        def gram_of(block: AnyArray) -> AnyArray:
            """Return the part of XᵀX/d (d, d) that one block (b, d) adds."""
            rows = block * scale
            return np.asarray(rows.T @ rows)

        self.count(np.float64)
        size = max(BLOCK_BYTES, 8 * min(n, d) ** 2)  # of a block: no larger than the answer
        if n < d:
            wide = np.empty((n, n))
            for rows, block in self.blocks(size):
                wide[rows] = self.times_columns(block * scale**2)
            return wide
        out = np.zeros((d, d))
        for rows, part in self.each_block(gram_of, (), None, size):
            out += part
            height = rows.stop - rows.start
            self.watch.step(-(-rows.stop // height), -(-n // height), math.inf, 0.0)
        return out

    @cached_property
    def column_squares(self) -> Array:
        """Σ_μ x_jμ²/d of every feature, (d,)."""
        self.count(self.dtype)
        return self._make_column_squares()

    def _make_column_squares(self) -> Array:
        """Return the sums of squares of all features, (d,)."""
        return self.back_squared(np.ones((1, self.n_samples)))[0]

    @cached_property
    def stretch(self) -> float:
        """A number that ‖X/√d‖ is not above, in 99 of 100 draws of the random start.

        After q = 8 turns of XᵀX/d a unit vector x has the length ‖X/√d‖^{2q}|x·v| at least, with v
        the loudest direction; |x·v| is below 0.01/√d in one draw of a hundred.
        """
        v = np.random.default_rng(0).standard_normal(self.dimension)
        v /= np.linalg.norm(v)
        reach = math.log(math.sqrt(self.dimension) / 0.01)
        for _ in range(8):
            v = self.back(self.fields(v[None]))[0]
            length = float(np.linalg.norm(v))
            if length == 0:
                return 0.0
            reach += math.log(length)
            v /= length
        return min(math.exp(reach / 16), float(np.linalg.norm(self.row_norms)))

    def largest(self) -> Array:
        """Return the largest absolute value of each column, (d,)."""
        by_block = [part for _, part in self.each_block(lambda block: np.abs(block).max(0))]
        return np.max(by_block, axis=0).astype(float)

    def column_moments(self, weights: Array | None = None) -> ColumnMoments:
        """Return mean, deviation and largest size of each column, with weights (n,) of the samples.

        Entries are in units in which the squares of huge ones do not overflow. The first row is
        subtracted before sums are taken, so that a column of equal entries has the deviation 0.
        """
        first = np.asarray(self.read_rows(slice(0, 1))[0], dtype=float)
        w = weights_or_ones(weights, self.n_samples)
        largest = self.largest()
        unit = np.maximum(largest, np.finfo(float).tiny)
        mean = self._total(w[None], lambda x: (x - first) / unit)[0] / w.sum()
        square = self._total(w[None], lambda x: np.square((x - first) / unit - mean))[0] / w.sum()
        self.passes += 3
        return ColumnMoments(first + mean * unit, np.sqrt(square) * unit, largest)


def weights_or_ones(weights: Array | None, n: int) -> Array:
    """Return weights (n,) of samples, ones where none are given."""
    if weights is None:
        return np.ones(n)
    return weights


def too_large(row: int, block: slice | None = None) -> InvalidInput:
    """Return the error for entries that cannot be squared, with the rows of their block."""
    where = ""
    if block is not None:
        where = f" (in the block of rows {block.start} to {block.stop - 1})"
    return InvalidInput(
        f"X must be finite with entries below {LARGEST:g} in size; row {row} has NaN, infinite or "
        f"enormous entries{where}"
    )
