"""Finer and finer levels of a rule, until the error bar meets the tolerance.

Both kinds of fixed points are refined in this way: a generator yields the answer on one level after
the other, with its error bar, and `first_within` stops it. Random points go to the level that will
do by what is known of their convergence (`doublings_needed`).
"""

import math
from collections.abc import Iterator
from typing import Protocol, TypeVar

from polyceptron.progress import steps

POINTS_RATE = 0.85  # the error of N quasi-random points falls as N^(−rate), or faster


class HasUncertainty(Protocol):
    """An answer with its error bar."""

    @property
    def uncertainty(self) -> float:
        """The error bar of the answer."""
        ...


Answer = TypeVar("Answer", bound=HasUncertainty)


def first_within(levels: Iterator[Answer], tol: float) -> Answer:
    """Return the answer on the first level whose bar meets the tolerance, else on the last."""
    answer = None
    for answer in steps(levels, 3, growth=2):  # as many are usual, each twice the one before
        if answer.uncertainty <= tol:
            break
    if answer is None:
        raise ArithmeticError("a rule without levels")
    return answer


def doublings_needed(ratio: float, rate: float) -> int:
    """Return how often the number N of points must be doubled to lower a bar by a ratio.

    Parameters
    ----------
    ratio : float
        Of the bar to what is wanted.
    rate : float
        The bar falls as N^(−rate).

    Examples
    --------
    >>> doublings_needed(3.9, 1.0), doublings_needed(0.5, 1.0)
    (2, 0)
    """
    return math.ceil(math.log2(max(ratio, 1.0)) / rate)
