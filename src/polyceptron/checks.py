"""The ranges of numbers that a caller may give, each with its error message; class differences."""

import math
from functools import lru_cache
from typing import SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray, Array

MAX_CLASSES = 1000
MIN_ALPHA = 1e-12
MAX_ALPHA = 1e8
MIN_RIDGE = 1e-100
MAX_RIDGE = 1e100
DEFAULT_RIDGE = 0.1  # wherever a ridge is not given: theory, fits, message passing, the explorer


def check_classes(n_classes: object) -> int:
    """Return the number of classes as an int, or raise InvalidInput."""
    if isinstance(n_classes, int | np.integer) and not isinstance(n_classes, bool):
        k = int(n_classes)
        if 2 <= k <= MAX_CLASSES:
            return k
    allowed = f"a whole number between 2 and {MAX_CLASSES}"
    raise InvalidInput(f"the number of classes must be {allowed}, got {n_classes!r}")


def check_size(value: object, name: str) -> int:
    """Return a positive whole number as an int, or raise InvalidInput that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} must be a whole number of 1 or more, got {value!r}")
    return int(value)


def _as_float(value: object) -> float:
    """Return the value as a float, NaN where it is no number."""
    if not isinstance(value, float | str | bytes | SupportsFloat | SupportsIndex):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def check_alpha(alpha: object) -> float:
    """Return one sample ratio as a float: 0, or from 1e-12 to 1e8; else raise InvalidInput."""
    value = _as_float(alpha)
    if value != 0 and not MIN_ALPHA <= value <= MAX_ALPHA:
        raise InvalidInput(
            f"alpha must be 0, or from {MIN_ALPHA:g} to {MAX_ALPHA:g}, got {alpha!r}"
        )
    return value


def check_alphas(alpha: object) -> list[float]:
    """Return one sample ratio or several as a list, or raise InvalidInput."""
    try:
        values = np.asarray(alpha, dtype=float).ravel().tolist()
    except (TypeError, ValueError):
        raise InvalidInput(f"alpha must be numbers of 0 or more, got {alpha!r}") from None
    if not values:
        raise InvalidInput("alpha must have at least one value")
    return [check_alpha(value) for value in values]


def check_ridge(ridge: object, *, optimal: bool = False) -> float | str:
    """Return λ: 0, or from 1e-100 to 1e100; or the word 'optimal' where that is allowed."""
    if optimal and isinstance(ridge, str) and ridge == "optimal":
        return ridge
    words = "a number of 0 or more, or 'optimal'" if optimal else "a number of 0 or more"
    value = _as_float(ridge)
    if isinstance(ridge, bool) or not math.isfinite(value) or value < 0:
        raise InvalidInput(f"the ridge must be {words}, got {ridge!r}")
    if value != 0 and not MIN_RIDGE <= value <= MAX_RIDGE:
        raise InvalidInput(
            f"the ridge must be 0, or from {MIN_RIDGE:g} to {MAX_RIDGE:g}, got {ridge!r}"
        )
    return value


def check_tolerance(tol: object, default: float) -> float:
    """Return a tolerance between 0 and 1, the default for None, or raise InvalidInput."""
    if tol is None:
        return default
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not 0 < tol < 1:
        raise InvalidInput(f"the tolerance must be a number between 0 and 1, got {tol!r}")
    return float(tol)


def as_numbers(values: object, name: str) -> AnyArray:
    """Return an array of real numbers; numpy would drop imaginary parts and masks silently."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        ragged = "ragged or non-numeric " if isinstance(values, list | tuple) else ""
        raise InvalidInput(
            f"{name} must be an array of numbers, got a {ragged}{type(values).__name__}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must hold real numbers, got {array.dtype} entries")
    if np.ma.is_masked(values):
        raise InvalidInput(f"{name} has masked entries: fill or drop them first")
    return array


def project(w: ArrayLike) -> Array:
    """Return Pw (..., k), the part of the last axis orthogonal to (1, …, 1)."""
    vectors = np.asarray(w, dtype=float)
    return np.asarray(vectors - vectors.mean(-1, keepdims=True))


@lru_cache(maxsize=64)
def difference_basis(n_classes: int) -> Array:
    """Return B (k, k−1): orthonormal columns orthogonal to (1, …, 1), so that W = UᵀBᵀ is exact."""
    from scipy.linalg import helmert

    basis = np.ascontiguousarray(helmert(n_classes).T)
    basis.flags.writeable = False
    return basis


@lru_cache(maxsize=256)
def class_gaps(n_classes: int, label: int) -> Array:
    """Return A (k−1, k−1), from class differences to the field of `label` less each other."""
    T = difference_basis(n_classes)
    return np.asarray(T[label] - np.delete(T, label, 0))
