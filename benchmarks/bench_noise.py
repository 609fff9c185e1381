"""What noisy labels cost: curves and points with each noise against the noiseless ones."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from polyceptron.problem import ERM, Teacher
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.erm.fixed_point import erm_fixed_point

CACHED = type(lru_cache(len))
NOISES = ("gaussian:0.25", "flips:0.1", "softmax:0.1", "softmax:2", "softmax:5", "softmax:50")


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note; the rival is the same without noise."""
    return [row for k in (2, 3) for noise in NOISES for row in (curve(k, noise), point(k, noise))]


def curve(k: int, noise: str) -> dict[str, Any]:
    """A Bayes-optimal curve of 100 points, tables and all."""
    alphas = np.linspace(0.1, 10, 100)

    def work(name: str) -> Callable[[], Any]:
        return lambda: fixed_points(Teacher(k, noise=name), alphas)

    return compare(f"Bayes curve, k={k}, 100 points", noise, work)


def point(k: int, noise: str) -> dict[str, Any]:
    """Cross-entropy at five α, each from a cold start."""

    def work(name: str) -> Callable[[], Any]:
        teacher, estimator = Teacher(k, noise=name), ERM("cross-entropy", 0.3)
        return lambda: [erm_fixed_point(teacher, estimator, a) for a in (0.5, 1, 2, 4, 8)]

    return compare(f"cross-entropy theory, k={k}, 5 points", noise, work)


def compare(name: str, noise: str, work: Callable[[str], Callable[[], Any]]) -> dict[str, Any]:
    """The first run of each: what is kept between calls is paid for; the best of three of them."""
    both = work("none"), work(noise)
    for each in both:
        each()  # imports
    times = np.array([[first_run(each) for each in both] for _ in range(3)])
    rival, ours = (float(t) for t in times.min(0))
    return {
        "name": f"{name}: {noise} against no noise",
        "ours_seconds": ours,
        "rival_seconds": rival,
        "ratio": ours / rival,
        "note": "aim: at most 2 times the noiseless",
    }


def clear_caches() -> None:
    """Forget every curve and table that the package keeps."""
    for kept in gc.get_objects():
        if isinstance(kept, CACHED) and kept.__module__.startswith("polyceptron."):
            kept.cache_clear()


def first_run(work: Callable[[], Any]) -> float:
    """Processor time of one run without anything kept."""
    clear_caches()
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    for row in bench():
        print(row)
