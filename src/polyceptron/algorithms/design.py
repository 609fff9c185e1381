"""X (n, d) as the algorithms see it: products with a thin matrix on either side, and little else.

    fields(U)   (XUᵀ/√d)ᵀ    directions (..., d) to fields (..., n)
    back(F)     FX/√d        residuals (..., n) to directions (..., d)

Directions are rows. The precision of the small operand is that of the product, and `passes` counts
the reads of X, one in single precision being one half.

A kind of data is a subclass that says how rows are read; everything else follows from that, and may
be given anew where there is a faster way. `array_design` has numpy arrays and memory maps; another
kind (sparse matrices, arrays over several machines) is one file, and its name in `as_design`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput

Array = NDArray[np.float64]
AnyArray = NDArray[Any]
BLOCK_BYTES = 1 << 22  # stays in the cache
LARGEST = 1e150  # squares of larger entries overflow
_POWER = 8  # iterations for the largest singular value
_UNLUCKY = 0.01  # the chance that a random start misses it


class ColumnMoments(NamedTuple):
    """Mean, standard deviation and largest absolute value of each column, all (d,)."""

    mean: Array
    deviation: Array
    largest: Array


class Design(ABC):
    """X (n, d); see the module's docstring."""

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

    @property
    def single_is_quicker(self) -> bool:
        """Whether a product in single precision is cheaper, and safe for entries of this size."""
        return False

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, AnyArray]]:
        """Consecutive slices of the rows, each of about `n_bytes`, with what they hold."""
        n, d = self.shape
        step = max(16, n_bytes // max(1, d * self.dtype.itemsize))
        for first in range(0, n, step):
            rows = slice(first, min(first + step, n))
            yield rows, self.read_rows(rows)

    def fields(self, U: AnyArray) -> AnyArray:
        """(XUᵀ/√d)ᵀ: directions (..., d) to fields (..., n)."""
        self.count(U.dtype)
        small = (U * U.dtype.type(self.scale)).reshape(-1, self.dimension)
        return self.times_columns(small).reshape(*U.shape[:-1], self.n_samples)

    def back(self, F: AnyArray) -> AnyArray:
        """FX/√d: residuals (..., n) to directions (..., d)."""
        self.count(F.dtype)
        small = (F * F.dtype.type(self.scale)).reshape(-1, self.n_samples)
        return self.times_rows(small).reshape(*F.shape[:-1], self.dimension)

    def times_columns(self, small: AnyArray) -> AnyArray:
        """small Xᵀ, (m, d) to (m, n)."""
        out = np.empty((len(small), self.n_samples), small.dtype)
        for rows, block in self.blocks():
            out[:, rows] = small @ block.astype(small.dtype, copy=False).T
        return out

    def times_rows(self, small: AnyArray) -> AnyArray:
        """small X, (m, n) to (m, d)."""
        out = np.zeros((len(small), self.dimension))
        for rows, block in self.blocks():
            out += small[:, rows] @ block.astype(small.dtype, copy=False)
        return out.astype(small.dtype, copy=False)

    def fields_squared(self, C: Array) -> Array:
        """C(X²)ᵀ/d, (c, d) to (c, n): squares are taken by block, never of all X at once."""
        small = (C / self.dimension).astype(self.dtype)
        out = np.empty((len(C), self.n_samples))
        for rows, block in self.blocks():
            out[:, rows] = small @ np.square(block).T
        return out

    def back_squared(self, H: Array) -> Array:
        """HX²/d, (c, n) to (c, d)."""
        small = (H / self.dimension).astype(self.dtype)
        out = np.zeros((len(H), self.dimension))
        for rows, block in self.blocks():
            out += small[:, rows] @ np.square(block)
        return out

    def scaled_rows(self, rows: Any) -> Array:
        """Rows of X/√d, in double precision."""
        part = self.read_rows(rows)
        self.passes += len(part) / self.n_samples
        result: Array = part * np.float64(self.scale)
        return result

    def gram(self) -> Array:
        """XᵀX/d (d, d) if n ≥ d, else XXᵀ/d (n, n), in double precision."""
        n, d = self.shape
        self.count(np.float64)
        if n < d:
            A = self.scaled_rows(slice(0, n))
            return np.asarray(A @ A.T)
        out = np.zeros((d, d))
        for _, block in self.blocks(max(BLOCK_BYTES, 8 * d * d)):
            A = block * np.float64(self.scale)
            out += A.T @ A
        return out

    @cached_property
    def row_norms(self) -> Array:
        """‖x_μ‖/√d, (n,)."""
        out = np.empty(self.n_samples)
        for rows, block in self.blocks():
            out[rows] = np.einsum("ij,ij->i", block, block, dtype=np.float64)
        self.count(self.dtype)
        return np.sqrt(out) * self.scale

    @cached_property
    def stretch(self) -> float:
        """A number that ‖X/√d‖ is not above, in 99 of 100 draws of the random start.

        After q turns of XᵀX/d a unit vector x has the length ‖X/√d‖^{2q}|x·v| at least, with v the
        loudest direction; |x·v| is below 0.01/√d in one draw of a hundred.
        """
        v = np.random.default_rng(0).standard_normal(self.dimension)
        v /= np.linalg.norm(v)
        log_length = 0.0
        for _ in range(_POWER):
            v = self.back(self.fields(v[None]))[0]
            length = float(np.linalg.norm(v))
            if length == 0:
                return 0.0
            log_length += math.log(length)
            v /= length
        reach = log_length + math.log(math.sqrt(self.dimension) / _UNLUCKY)
        return min(math.exp(reach / (2 * _POWER)), float(np.linalg.norm(self.row_norms)))

    def column_moments(self) -> ColumnMoments:
        """In two passes and on a common unit: the squares of huge entries must not overflow."""
        largest = np.zeros(self.dimension)
        for _, block in self.blocks():
            np.maximum(largest, np.abs(block).max(0), out=largest)
        unit = np.maximum(largest, np.finfo(float).tiny)
        mean, square = np.zeros(self.dimension), np.zeros(self.dimension)
        for _, block in self.blocks():
            mean += (block / unit).sum(0)
        mean /= self.n_samples
        for _, block in self.blocks():
            square += ((block / unit - mean) ** 2).sum(0)
        self.passes += 3
        return ColumnMoments(mean * unit, np.sqrt(square / self.n_samples) * unit, largest)

    def check_entries(self) -> None:
        """Every entry finite and small enough to be squared, or a sentence that names its row."""
        for rows, block in self.blocks():
            with np.errstate(over="ignore", invalid="ignore"):
                # No temporary, and not finite if any entry is not.
                total = float(np.einsum("ij,ij->", block, block))
            if total < LARGEST**2:
                continue
            bad = ~(np.abs(block) < LARGEST).all(1)
            if bad.any():
                row = rows.start + int(bad.argmax())
                raise InvalidInput(
                    f"X must be finite with entries below {LARGEST:g} in size; row {row} has NaN, "
                    "infinite or enormous entries"
                )

    def count(self, dtype: Any) -> None:
        """One more read of X in this precision."""
        self.passes += np.dtype(dtype).itemsize / 8


def as_design(X: Any) -> Design:
    """The design that holds X, checked, or a sentence.

    >>> as_design([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    from polyceptron.algorithms.array_design import ArrayDesign

    design = X if isinstance(X, Design) else ArrayDesign.of(X)
    design.check_entries()
    return design
