"""What message passing accepts, and the sentences for what it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model.arrays import as_numbers
from polyceptron.model.teacher import check_classes, check_size
from polyceptron.numerics.denoise import project

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def check_amp_input(
    X: Any, y: Any, n_classes: int | None, teacher_weights: Any = None
) -> tuple[NDArray[Any], Labels, int, Array | None]:
    """X in its own floating type, not copied; labels; k; teacher weights less their common part."""
    X = as_numbers(X, "X")
    if X.ndim != 2 or 0 in X.shape:
        raise InvalidInput(f"X must be (n_samples, dimension) and not empty, got shape {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not np.isfinite(X.sum(dtype=float)):  # no temporary of the size of X
        raise InvalidInput("X must be finite, it has NaN, infinite or enormous entries")
    y, k = check_labels(y, len(X), n_classes)
    return X, y, k, check_truth(teacher_weights, X.shape[1], k)


def check_labels(y: Any, n: int, n_classes: int | None) -> tuple[Labels, int]:
    """Labels (n,) as integers 0..k−1, and k: the largest label plus one unless given."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise InvalidInput(
            f"y must have one label for each of the {n} samples, got shape {y.shape}"
        )
    with np.errstate(invalid="ignore"):  # NaN and infinity are not equal to what they become
        whole = y.astype(np.int64) if y.dtype.kind in "iuf" else None
    if whole is None or not np.array_equal(whole, y):
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got {y.dtype} values")
    k = check_classes(max(2, int(whole.max()) + 1) if n_classes is None else n_classes)
    if whole.min() < 0 or whole.max() >= k:
        raise InvalidInput(
            f"labels must be between 0 and {k - 1}, got {whole.min()} to {whole.max()}"
        )
    return whole, k


def check_truth(weights: Any, d: int, k: int) -> Array | None:
    """Teacher weights (d, k) without the part common to all classes, or None."""
    if weights is None:
        return None
    truth = as_numbers(weights, "teacher_weights").astype(float)
    if truth.shape != (d, k):
        raise InvalidInput(
            f"teacher_weights must be (dimension, classes) = ({d}, {k}), got {truth.shape}"
        )
    if not np.isfinite(truth).all():
        raise InvalidInput("teacher_weights must be finite")
    return project(truth)


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """One of a few words, or a sentence that lists them."""
    if value not in allowed:
        raise InvalidInput(f"unknown {name} {value!r}: allowed are {', '.join(map(repr, allowed))}")


def check_stopping(tol: Any, max_iter: Any, dtype: Any) -> tuple[float, int]:
    """The tolerance, which single precision cannot meet below 1e-5, and the most iterations."""
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not 0 < tol < 1:
        raise InvalidInput(f"tol must be a number between 0 and 1, got {tol!r}")
    floor = 1e-5 if dtype == np.float32 else 0.0
    return max(float(tol), floor), check_size(max_iter, "max_iter")
