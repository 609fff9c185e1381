"""Fits of drawn data as rows, for tests that compare several estimators on the same data."""

from collections.abc import Sequence
from typing import Any

import polyceptron as pc
from polyceptron.rows import Row
from polyceptron.students import student_of


def run_erm(
    teacher: Any,
    estimators: Sequence[pc.ERM],
    alpha: float,
    dimension: int,
    seed: int,
    **settings: Any,
) -> list[Row]:
    """Return one row for each estimator, all fitted to `teacher.sample(αd, d, seed)`."""
    first, *others = estimators
    return student_of(first).simulate(teacher, alpha, dimension, seed, also=others, **settings)
