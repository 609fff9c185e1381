"""What is done to one block of rows of X (b, d): products with thin matrices, sums, largest values.

These are plain functions, so that they can be sent to where a block is. For a few directions a
matrix product spends its time packing the block; matrix-vector products over rows that stay in the
cache read it from memory once. Another precision than the block's own is made in such parts too.

One thread for small data: products with a few columns are too short to share.

Threads of the linear algebra wait for each other by spinning: on scikit-learn's digits two of them
took five times as long as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.threads import thread_count

Inner = Callable[[AnyArray], tuple[AnyArray, Any]]
"""Fields (..., b) to residuals (..., b), and whatever else is wanted of the samples."""

BLOCK_BYTES = 1 << 22  # stays in the cache
LARGEST = 1e150  # squares of larger entries overflow
_FEW = 4  # up to so many directions, matrix-vector products by part win


def fields_of(block: AnyArray, small: AnyArray) -> AnyArray:
    """small blockᵀ, (m, d) to (m, b), in the precision of `small`."""
    few = len(small) <= _FEW
    if not few and block.dtype == small.dtype:
        return np.asarray(small @ block.T)
    out = np.empty((len(small), len(block)), small.dtype)
    for rows, part in _parts(block, small.dtype):
        if few:
            for u, z in zip(small, out, strict=True):
                z[rows] = part @ u
        else:
            out[:, rows] = small @ part.T
    return out


def back_of(block: AnyArray, small: AnyArray) -> AnyArray:
    """small block, (m, b) to (m, d); parts are added in double precision."""
    few = len(small) <= _FEW
    if not few and block.dtype == small.dtype:
        # On one thread F @ X is the faster form; on several it waits for the slowest at every
        # block, and a busy machine makes it wait for long.
        return np.asarray(small @ block if thread_count() == 1 else (block.T @ small.T).T)
    out = np.zeros((len(small), block.shape[1]))
    for rows, part in _parts(block, small.dtype):
        if few:
            for f, g in zip(small, out, strict=True):
                g += f[rows] @ part
        else:
            out += small[:, rows] @ part
    return out.astype(small.dtype, copy=False)


def through_of(
    block: AnyArray, small: AnyArray, shape: tuple[int, ...], inner: Inner
) -> tuple[AnyArray, Any]:
    """f block with f = inner(small blockᵀ), fields in the given leading shape; and what else."""
    f, rest = inner(fields_of(block, small).reshape(*shape, len(block)))
    return back_of(block, f.reshape(-1, len(block))), rest


class AsItIs:
    """F = fields, of any rows."""

    def rows(self, rows: slice) -> Inner:
        return self

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, None]:
        return fields, None


def fields_squared_of(block: AnyArray, small: AnyArray) -> Array:
    """small (block²)ᵀ, (c, d) to (c, b)."""
    out = np.empty((len(small), len(block)))
    for rows, part in _parts(block, block.dtype):
        out[:, rows] = small @ np.square(part).T
    return out


def back_squared_of(block: AnyArray, small: AnyArray) -> Array:
    """small block², (c, b) to (c, d)."""
    out = np.zeros((len(small), block.shape[1]))
    for rows, part in _parts(block, block.dtype):
        out += small[:, rows] @ np.square(part)
    return out


def through_squared_of(
    block: AnyArray, small: AnyArray, small_squared: AnyArray, inner: Callable[..., Any]
) -> tuple[AnyArray, Array, Any]:
    """f block and h block² with f, h = inner(fields, fields of squares); and what else it gave."""
    f, h, rest = inner(fields_of(block, small), fields_squared_of(block, small_squared))
    h = np.asarray(h, dtype=block.dtype)
    return back_of(block, np.asarray(f, dtype=small.dtype)), back_squared_of(block, h), rest


def square_sums(block: AnyArray) -> tuple[tuple[int, ...], Array, int | None]:
    """The block's shape, the sum of squares of each row (b,), and the first row not to be used."""
    if block.ndim != 2:
        return block.shape, np.zeros(0), None
    sums = np.empty(len(block))
    with np.errstate(over="ignore", invalid="ignore"):
        sums[:] = np.einsum("ij,ij->i", block, block)
        if block.dtype == np.float32 and not np.isfinite(sums).all():  # of larger range
            for rows, part in _parts(block, np.float64):
                sums[rows] = np.einsum("ij,ij->i", part, part)
    if sums.size and not float(sums.max()) < LARGEST**2:
        bad = ~usable(block).all(1)
        if bad.any():
            return block.shape, sums, int(bad.argmax())
    return block.shape, sums, None


def usable(entries: AnyArray) -> NDArray[np.bool_]:
    """Which entries are finite and can be squared, of the same shape."""
    if entries.dtype == np.float32:  # none is too large
        return np.isfinite(entries)
    return np.abs(entries) < LARGEST


def largest_of(block: AnyArray) -> AnyArray:
    """The largest absolute value of each column, (d,)."""
    return np.asarray(np.abs(block).max(0))


def sum_of(block: AnyArray, unit: Array, weights: Array) -> Array:
    """Σ w x/unit of each column, (d,)."""
    out = np.zeros(block.shape[1])
    for rows, part in _parts(block, np.float64):
        out += weights[rows] @ (part / unit)
    return out


def spread_of(block: AnyArray, unit: Array, mean: Array, weights: Array) -> Array:
    """Σ w (x/unit − mean)² of each column, (d,)."""
    out = np.zeros(block.shape[1])
    for rows, part in _parts(block, np.float64):
        off = part / unit
        off -= mean
        out += weights[rows] @ np.square(off, out=off)
    return out


def gram_of(block: AnyArray, scale: float) -> Array:
    """blockᵀblock·scale², (d, d), in double precision."""
    A = block * np.float64(scale)
    return np.asarray(A.T @ A)


def _parts(block: AnyArray, dtype: Any) -> Iterator[tuple[slice, AnyArray]]:
    """Rows that stay in the cache, in this precision; all at once where rows are not contiguous."""
    n, d = block.shape
    same = block.dtype == dtype
    share = BLOCK_BYTES if same else BLOCK_BYTES // 4  # the last part and the next are both held
    step = max(16, share // max(1, d * np.dtype(dtype).itemsize))
    if same and not block.flags.c_contiguous:
        step = n
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        yield rows, block[rows].astype(dtype, copy=False)


P = ParamSpec("P")
T = TypeVar("T")

_SMALL = 1_000_000  # numbers in X


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  # loads the BLAS that is to be limited
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


def threads_for(X: Any) -> AbstractContextManager[Any]:
    """A limit of one thread while X (n, d) is small."""
    shape: tuple[Any, ...] = getattr(X, "shape", ())  # what has none is a list, and small
    rows, columns = shape if len(shape) == 2 else (0, 0)
    return _controller().limit(limits=1) if rows * columns <= _SMALL else nullcontext()


def short_products(fit: Callable[P, T]) -> Callable[P, T]:
    """A method `fit(self, X, ...)` that uses as many threads as X is worth."""

    @wraps(fit)
    def fitted(*args: P.args, **options: P.kwargs) -> T:
        with threads_for(args[1] if len(args) > 1 else options.get("X")):
            return fit(*args, **options)

    return fitted
