"""Return whether a sparse matrix is what its format says, before compiled code relies on it.

When a sparse matrix is made or read from a file, scipy compares the lengths of its arrays and does
not look at the indices inside them. Compiled products trust these: an index outside of the matrix
is a read, or a write, outside of an array, which ends the process or changes other numbers. So
every sparse matrix that this library is given passes `check_sparse` first, which reads the indices
once and changes nothing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import machine_memory

_NUMBERS_PER_FEATURE = 4  # the weights of two classes and their gradient: what any fit holds


def compressed_rows(X: Any, name: str = "X") -> Any:
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


def check_sparse(X: Any, name: str = "X") -> None:
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


def _check_size(X: Any, name: str) -> None:
    """Raise if a few dense vectors of n or d numbers would fill half of the memory."""
    n, d = X.shape
    needed = 8 * (n + _NUMBERS_PER_FEATURE * d)
    allowed = machine_memory() / 2
    if needed > allowed:
        raise InvalidInput(
            f"{name} has the shape {X.shape}: its weights would take {needed / 1e9:.3g} GB, and "
            f"this machine's memory allows {allowed / 1e9:.3g} GB"
        )


def _damaged(X: Any, name: str, reason: str) -> InvalidInput:
    return InvalidInput(f"{name} is a damaged sparse matrix of shape {X.shape}: {reason}")


def _wrong_in_rows(X: Any) -> str | None:
    """Return what is wrong with a matrix in compressed rows."""
    n, d = X.shape
    return _wrong_data(X, 1) or _wrong_pointers(X, n) or _wrong_indices(X, d)


def _wrong_in_columns(X: Any) -> str | None:
    """Return what is wrong with a matrix in compressed columns."""
    n, d = X.shape
    return _wrong_data(X, 1) or _wrong_pointers(X, d) or _wrong_indices(X, n)


def _wrong_in_blocks(X: Any) -> str | None:
    """Return what is wrong with a matrix in compressed rows of blocks (a, b)."""
    n, d = X.shape
    wrong = _wrong_data(X, 3)
    if wrong is not None:
        return wrong
    a, b = X.data.shape[1:]
    if a < 1 or b < 1 or n % a != 0 or d % b != 0:
        return f"blocks of {a} by {b} entries do not fill it"
    return _wrong_pointers(X, n // a) or _wrong_indices(X, d // b)


def _wrong_data(X: Any, axes: int) -> str | None:
    if np.ndim(X.data) != axes:
        return f"its data must have {axes} axes, got {np.ndim(X.data)}"
    return None


def _wrong_pointers(X: Any, rows: int) -> str | None:
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


def _wrong_indices(X: Any, count: int) -> str | None:
    """Return what is wrong with the column of each entry (or row, or block), out of `count`."""
    indices = np.asarray(X.indices)
    if indices.shape != (len(X.data),):
        return f"it has {len(X.data)} entries and indices of shape {indices.shape}"
    return _wrong_range(indices[: X.indptr[-1]], count, "indices")


def _wrong_in_coordinates(X: Any) -> str | None:
    """Return what is wrong with a list of entries with the row and column of each."""
    n, d = X.shape
    row = np.asarray(X.row)
    col = np.asarray(X.col)
    entries = np.shape(X.data)
    if len(entries) != 1 or row.shape != entries or col.shape != entries:
        return f"it has data of shape {entries}, rows {row.shape} and columns {col.shape}"
    return _wrong_range(row, n, "rows") or _wrong_range(col, d, "columns")


def _wrong_in_diagonals(X: Any) -> str | None:
    """Return what is wrong with a list of diagonals (m, ...) with the place of each."""
    n, d = X.shape
    offsets = np.asarray(X.offsets)
    if np.ndim(X.data) != 2 or offsets.shape != (len(X.data),):
        return f"it has data of shape {np.shape(X.data)} and offsets of shape {offsets.shape}"
    if np.unique(offsets).size < offsets.size:
        return "a diagonal is there twice"
    return _wrong_range(offsets, d, "offsets of diagonals", least=1 - n)


def _wrong_in_lists(X: Any) -> str | None:
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


def _wrong_range(values: Any, count: int, what: str, least: int = 0) -> str | None:
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


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "csr": _wrong_in_rows,
    "csc": _wrong_in_columns,
    "bsr": _wrong_in_blocks,
    "coo": _wrong_in_coordinates,
    "dia": _wrong_in_diagonals,
    "lil": _wrong_in_lists,
}
