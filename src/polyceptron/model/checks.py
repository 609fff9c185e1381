"""The ranges of numbers that a caller may give, each with its sentence, in one place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput

MAX_CLASSES = 1000
MIN_ALPHA, MAX_ALPHA = 1e-12, 1e8
MIN_RIDGE, MAX_RIDGE = 1e-100, 1e100
DEFAULT_RIDGE = 0.1  # wherever a ridge is not given: theory, fits, message passing, the explorer


def check_classes(n_classes: Any) -> int:
    """The number of classes as an int, or a sentence."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer):
        raise InvalidInput(f"the number of classes must be a whole number, got {n_classes!r}")
    if not 2 <= n_classes <= MAX_CLASSES:
        raise InvalidInput(
            f"the number of classes must be between 2 and {MAX_CLASSES}, got {n_classes}"
        )
    return int(n_classes)


def check_size(value: Any, name: str) -> int:
    """A positive whole number, or a sentence that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} must be a whole number of 1 or more, got {value!r}")
    return int(value)


def check_alpha(alpha: Any) -> float:
    """One sample ratio: 0, or from 1e-12 to 1e8."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        value = math.nan
    if value != 0 and not MIN_ALPHA <= value <= MAX_ALPHA:
        raise InvalidInput(
            f"alpha must be 0, or from {MIN_ALPHA:g} to {MAX_ALPHA:g}, got {alpha!r}"
        )
    return value


def check_alphas(alpha: Any) -> list[float]:
    """One sample ratio or several, as a list."""
    try:
        values = np.atleast_1d(np.asarray(alpha, dtype=float)).ravel().tolist()
    except (TypeError, ValueError):
        raise InvalidInput(f"alpha must be numbers of 0 or more, got {alpha!r}") from None
    if not values:
        raise InvalidInput("alpha must have at least one value")
    return [check_alpha(value) for value in values]


def check_ridge(ridge: Any, *, optimal: bool = False) -> float | str:
    """λ: 0, or from 1e-100 to 1e100; or the word 'optimal' where that is allowed."""
    if optimal and isinstance(ridge, str) and ridge == "optimal":
        return ridge
    words = "a number of 0 or more, or 'optimal'" if optimal else "a number of 0 or more"
    try:
        value = float(ridge)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(ridge, bool) or not math.isfinite(value) or value < 0:
        raise InvalidInput(f"the ridge must be {words}, got {ridge!r}")
    if value != 0 and not MIN_RIDGE <= value <= MAX_RIDGE:
        raise InvalidInput(
            f"the ridge must be 0, or from {MIN_RIDGE:g} to {MAX_RIDGE:g}, got {ridge!r}"
        )
    return value


def check_tolerance(tol: Any, default: float) -> float:
    """A tolerance between 0 and 1, or the default for None."""
    if tol is None:
        return default
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not 0 < tol < 1:
        raise InvalidInput(f"the tolerance must be a number between 0 and 1, got {tol!r}")
    return float(tol)
