"""Means of repeated runs, and how far one is from a prediction.

    mean            x̄ = Σ xᵢ / n
    standard error  s = √( Σ (xᵢ − x̄)² / (n (n − 1)) ),  of x̄; it needs two numbers
    z               the normal deviate as rare as t = (x̄ − theory) / √(s² + u²) is by Student's law

with u the uncertainty of the theory: the standard error of few instances is itself uncertain, and
t of four of them exceeds 3 in one of 17 cases. Its degrees of freedom are Welch's,
(n − 1)(1 + u²/s²)².
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri, stdtr


@dataclass(frozen=True)
class Average:
    """Mean (None of no number) and standard error (None of fewer than two) of finite numbers."""

    count: int
    mean: float | None
    standard_error: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self:
        """The average of these values; what is no finite number (None, NaN, ±∞) does not count."""
        given = np.array([math.nan if value is None else value for value in values], dtype=float)
        x = given[np.isfinite(given)]
        error = float(x.std(ddof=1)) / math.sqrt(x.size) if x.size > 1 else None
        return cls(x.size, float(x.mean()) if x.size else None, error)


def deviation(
    mean: float | None,
    standard_error: float | None,
    expected: float | None,
    uncertainty: float | None = None,
    *,
    count: int | None = None,
) -> float | None:
    """z of a mean of `count` numbers (None: its standard error is known); None without meaning."""
    if mean is None or not standard_error or expected is None or not math.isfinite(expected):
        return None
    t = (mean - expected) / math.hypot(standard_error, uncertainty or 0.0)
    if count is None:
        return t
    freedom = (count - 1) * (1 + ((uncertainty or 0.0) / standard_error) ** 2) ** 2
    tail = stdtr(min(freedom, 1e9), -abs(t))
    return math.copysign(-ndtri(tail) if tail > 0 else t, t)
