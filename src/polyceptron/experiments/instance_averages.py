"""Means over instances, in one place.

    mean            x̄ = Σ xᵢ / n
    standard error  √( Σ (xᵢ − x̄)² / (n (n − 1)) ),  of x̄; it needs two numbers

One value at a time (Welford's recurrence), so that a million rows need no memory and no two large
sums are subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass
class Average:
    """Mean and standard error of the numbers added so far.

    A value that is no finite number (None, NaN, ±∞) has no place in a mean: it is counted in
    `missing`.

    >>> found = Average()
    >>> for value in (1.0, 2.0, None, 6.0):
    ...     found.add(value)
    >>> found.count, found.missing, found.mean, round(found.standard_error, 6)
    (3, 1, 3.0, 1.527525)
    """

    count: int = 0
    missing: int = 0
    _mean: float = 0.0
    _squares: float = 0.0  # Σ (xᵢ − x̄)²

    def add(self, value: float | None) -> None:
        """Take one more value."""
        if value is None or not math.isfinite(value):
            self.missing += 1
            return
        self.count += 1
        step = float(value) - self._mean
        self._mean += step / self.count
        self._squares += step * (float(value) - self._mean)

    @property
    def mean(self) -> float | None:
        """The mean; None of no number."""
        return self._mean if self.count else None

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean; None of fewer than two numbers."""
        if self.count < 2:
            return None
        return math.sqrt(self._squares / (self.count - 1) / self.count)


def average(values: Iterable[float | None]) -> Average:
    """The average of a list.

    >>> average([0.25, 0.75]).mean
    0.5
    """
    found = Average()
    for value in values:
        found.add(value)
    return found


def deviation(
    mean: float | None,
    standard_error: float | None,
    expected: float | None,
    uncertainty: float | None = None,
) -> float | None:
    """z = (mean − expected) / √(standard_error² + uncertainty²); None where it means nothing.

    >>> deviation(5.0, 0.75, 2.5, 1.0)
    2.0
    """
    if mean is None or not standard_error or expected is None or not math.isfinite(expected):
        return None
    return (mean - expected) / math.hypot(standard_error, uncertainty or 0.0)
