"""Check that a sparse matrix is what its format says, before compiled code relies on it.

When a sparse matrix is made or read from a file, scipy compares the lengths of its arrays and does
not look at the indices inside them. Compiled products trust these: an index outside of the matrix
is a read, or a write, outside of an array, which ends the process or changes other numbers. So
every sparse matrix that this library is given passes `check_sparse` first, which reads the indices
once and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.errors import InvalidInput
from polyceptron.files import machine_memory
from polyceptron.numerics import AnyArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_NUMBERS_PER_FEATURE = 4  # the weights of two classes and their gradient: what any fit holds


class SparseMatrix(Protocol):
    """A sparse matrix or array (n, d) of scipy, in any of its formats."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return (n, d)."""

    def tocsr(self) -> csr_array:
        """Return it in compressed rows; the same object if it is in these already."""


class _Compressed(Protocol):
    """Compressed rows or columns, or rows of blocks: where each begins, and its indices."""

    shape: tuple[int, int]
    data: AnyArray
    indptr: AnyArray
    indices: AnyArray


class _Coordinates(Protocol):
    """A list of entries with the row and column of each."""

    shape: tuple[int, int]
    data: AnyArray
    row: ArrayLike
    col: ArrayLike


class _Diagonals(Protocol):
    """A list of diagonals (m, ...) with the place of each."""

    shape: tuple[int, int]
    data: AnyArray
    offsets: ArrayLike


class _Lists(Protocol):
    """A list of columns and a list of entries for each row."""

    shape: tuple[int, int]
    data: Sequence[Sequence[float]]
    rows: Sequence[Sequence[int]]


def is_sparse(X: object) -> TypeGuard[SparseMatrix]:
    """Return whether X can do what every sparse matrix of scipy can."""
    return hasattr(X, "tocsr")


def compressed_rows(X: object, name: str = "X") -> csr_array:
    """Return X in compressed rows (CSR) with sound indices, or raise InvalidInput.

    Parameters
    ----------
    X : sparse matrix or array of shape (n, d)
        In any format of scipy. It is not changed, and is itself the result if it is in compressed
        rows already.
    name : str, default="X"
        What the error message calls it.

    Returns
    -------
    csr_matrix or csr_array of shape (n, d)
    """
    if not is_sparse(X):
        raise InvalidInput(f"{name} must be a sparse matrix of scipy, got a {type(X).__name__}")
    check_sparse(X, name)
    try:
        rows = X.tocsr()
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise _damaged(X, name, str(error)) from None
    if rows is not X:
        check_sparse(rows, name)
    if len(rows.data) > rows.indptr[-1]:  # scipy allows room for entries to come
        rows = rows.copy()
        rows.prune()
    return rows


def check_sparse(X: SparseMatrix, name: str = "X") -> None:
    """Raise unless all indices of a sparse matrix (n, d) lie inside it."""
    if len(X.shape) != 2:
        raise InvalidInput(f"{name} must be a matrix (n_samples, dimension), got shape {X.shape}")
    _check_size(X, name)
    check = _CHECKS.get(getattr(X, "format", ""))
    if check is None:
        return
    reason = check(X)
    if reason is not None:
        raise _damaged(X, name, reason)


def _check_size(X: SparseMatrix, name: str) -> None:
    """Raise if a few dense vectors of n or d numbers would fill half of the memory."""
    n, d = X.shape
    needed = 8 * (n + _NUMBERS_PER_FEATURE * d)
    allowed = machine_memory() / 2
    if needed > allowed:
        raise InvalidInput(
            f"{name} has the shape {X.shape}: its weights would take {needed / 1e9:.3g} GB, and "
            f"this machine's memory allows {allowed / 1e9:.3g} GB"
        )


def _damaged(X: SparseMatrix, name: str, reason: str) -> InvalidInput:
    """Return the error for a matrix that is not what its format says."""
    return InvalidInput(f"{name} is a damaged sparse matrix of shape {X.shape}: {reason}")


def _wrong_in_rows(X: _Compressed) -> str | None:
    """Return what is wrong with a matrix in compressed rows."""
    n, d = X.shape
    return _wrong_data(X, 1) or _wrong_pointers(X, n) or _wrong_indices(X, d)


def _wrong_in_columns(X: _Compressed) -> str | None:
    """Return what is wrong with a matrix in compressed columns."""
    n, d = X.shape
    return _wrong_data(X, 1) or _wrong_pointers(X, d) or _wrong_indices(X, n)


def _wrong_in_blocks(X: _Compressed) -> str | None:
    """Return what is wrong with a matrix in compressed rows of blocks (a, b)."""
    n, d = X.shape
    wrong = _wrong_data(X, 3)
    if wrong is not None:
        return wrong
    a, b = X.data.shape[1:]
    if a < 1 or b < 1 or n % a != 0 or d % b != 0:
        return f"blocks of {a} by {b} entries do not fill it"
    return _wrong_pointers(X, n // a) or _wrong_indices(X, d // b)


def _wrong_data(X: _Compressed, axes: int) -> str | None:
    """Return what is wrong with the number of axes of the data."""
    if np.ndim(X.data) != axes:
        return f"its data must have {axes} axes, got {np.ndim(X.data)}"
    return None


def _wrong_pointers(X: _Compressed, rows: int) -> str | None:
    """Return what is wrong with the places (rows + 1,) in the data where rows or columns begin."""
    begin = np.asarray(X.indptr)
    if begin.dtype.kind != "i" or begin.shape != (rows + 1,):
        return (
            f"its index pointer must hold {rows + 1} whole numbers, got {begin.dtype} values of "
            f"shape {begin.shape}"
        )
    if begin[0] != 0 or (begin[1:] < begin[:-1]).any():
        return "its index pointer must begin at 0 and never decrease"
    if begin[-1] > len(X.data):
        return f"its index pointer ends at {begin[-1]}, beyond the {len(X.data)} entries it has"
    return None


def _wrong_indices(X: _Compressed, count: int) -> str | None:
    """Return what is wrong with the column of each entry (or row, or block), out of `count`."""
    indices = np.asarray(X.indices)
    if indices.shape != (len(X.data),):
        return f"it has {len(X.data)} entries and indices of shape {indices.shape}"
    return _wrong_range(indices[: X.indptr[-1]], count, "indices")


def _wrong_in_coordinates(X: _Coordinates) -> str | None:
    """Return what is wrong with a list of entries with the row and column of each."""
    n, d = X.shape
    row = np.asarray(X.row)
    col = np.asarray(X.col)
    entries = np.shape(X.data)
    if len(entries) != 1 or row.shape != entries or col.shape != entries:
        return f"it has data of shape {entries}, rows {row.shape} and columns {col.shape}"
    return _wrong_range(row, n, "rows") or _wrong_range(col, d, "columns")


def _wrong_in_diagonals(X: _Diagonals) -> str | None:
    """Return what is wrong with a list of diagonals (m, ...) with the place of each."""
    n, d = X.shape
    offsets = np.asarray(X.offsets)
    if np.ndim(X.data) != 2 or offsets.shape != (len(X.data),):
        return f"it has data of shape {np.shape(X.data)} and offsets of shape {offsets.shape}"
    if np.unique(offsets).size < offsets.size:
        return "a diagonal is there twice"
    return _wrong_range(offsets, d, "offsets of diagonals", least=1 - n)


def _wrong_in_lists(X: _Lists) -> str | None:
    """Return what is wrong with a list of columns and a list of entries for each row.

    The columns themselves are looked at after the conversion to compressed rows, which copies them.
    """
    n, _ = X.shape
    if np.shape(X.rows) != (n,) or np.shape(X.data) != (n,):
        return f"it has lists of columns for {len(X.rows)} rows, and of entries for {len(X.data)}"
    for row, (columns, entries) in enumerate(zip(X.rows, X.data, strict=True)):
        if len(columns) != len(entries):
            return f"row {row} has {len(columns)} columns and {len(entries)} entries"
    return None


def _wrong_range(values: AnyArray, count: int, what: str, least: int = 0) -> str | None:
    """Return what is wrong with whole numbers that must be from `least` to `count` − 1."""
    if values.dtype.kind != "i":
        return f"its {what} must be whole numbers, got {values.dtype} values"
    if values.size == 0:
        return None
    low = int(values.min())
    high = int(values.max())
    if low < least or high >= count:
        return f"its {what} must be from {least} to {count - 1}, got {low} to {high}"
    return None


# Each takes the matrix of its own format.
_CHECKS: dict[str, Callable[..., str | None]] = {
    "csr": _wrong_in_rows,
    "csc": _wrong_in_columns,
    "bsr": _wrong_in_blocks,
    "coo": _wrong_in_coordinates,
    "dia": _wrong_in_diagonals,
    "lil": _wrong_in_lists,
}
