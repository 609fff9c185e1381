"""Many classes: what curves, transitions and points of each student cost from 4 to 100 classes.

Every number is processor time with the caches of that k empty; tables that come with the package
are read anew. The first time of a process (imports, the tables' own reading) is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from polyceptron.problem import ERM, Teacher
from polyceptron.sides import generalisation
from polyceptron.sides.fields import sums, winner
from polyceptron.sides.weights.sign_table import sign_table
from polyceptron.theory.bayes.channel_table import argmax_table, channel_table
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.erm.fixed_point import erm_fixed_point

CLASSES = (4, 7, 10, 20, 50, 100)
CACHES = (
    *(curve_of, channel_table, argmax_table, sign_table, generalisation._ratio),
    *(winner.winning_levels, sums._searched_windows, sums._averages),
)


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, exponent, note."""
    return [
        growth(
            "Bayes curve, Gaussian weights, 100 points to 1e-4",
            lambda k: fixed_points(
                Teacher(k), np.geomspace(0.1, 30 * k, 100), 1e-4, branch="optimal"
            ),
            "aim 1 s",
        ),
        growth(
            "Bayes curve, ±1 weights, 100 points to 1e-3",
            lambda k: fixed_points(
                Teacher(k, "rademacher"), np.linspace(0.1, 0.5 * k, 100), 1e-3, branch="optimal"
            ),
            "no aim",
        ),
        growth(
            "transitions of ±1 weights to 1e-3",
            lambda k: transitions(Teacher(k, "rademacher"), 1e-3),
            "aim 3 s for k ≤ 20, 20 s for k ≤ 100",
        ),
        growth(
            "cross-entropy, a point at α = 10, λ = 0.01 to 1e-4",
            lambda k: erm_fixed_point(Teacher(k), ERM("cross-entropy", 0.01), 10.0, 1e-4),
            "aim 0.2 s at k = 10, 0.3 s at k = 20, 2 s at k = 100",
        ),
        growth(
            "max-margin, a point at α = 10 to 1e-4",
            lambda k: erm_fixed_point(Teacher(k), ERM("max-margin"), 10.0, 1e-4),
            "no aim",
        ),
    ]


def growth(name: str, work: Callable[[int], Any], aim: str) -> dict[str, Any]:
    """The slope of ln(seconds) against ln(k), and the time of the largest k."""
    work(5)
    seconds = [min(_cold(work, k) for _ in range(3)) for k in CLASSES]
    each = ", ".join(f"{k}: {t:.2g}" for k, t in zip(CLASSES, seconds, strict=True))
    return {
        "name": f"growth: {name}, in k ({CLASSES[0]} to {CLASSES[-1]})",
        "ours_seconds": seconds[-1],
        "rival_seconds": None,
        "ratio": None,
        "exponent": float(np.polyfit(np.log(CLASSES), np.log(seconds), 1)[0]),
        "note": f"limit: 1; {aim}; seconds at k = {each}",
    }


def _cold(work: Callable[[int], Any], k: int) -> float:
    for cache in CACHES:
        cache.cache_clear()
    begin = time.process_time()
    work(k)
    return time.process_time() - begin


if __name__ == "__main__":
    for row in bench():
        print(row)
