"""What the rules other than ERM share: how one is fitted to drawn data and measured.

Fields of a rule are Wᵀx/√d + b. Its error is the exact one of W without b: where classes are alike
the b of all classes have one limit.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.problem.specs import Estimator
from polyceptron.rows import Row, Status, make_row
from polyceptron.students.base import Student
from polyceptron.students.measuring import measured, n_samples

FittedRule = tuple[Array, Array, Status]  # weights (d, k), offsets b (k,), status


@dataclass(frozen=True)
class RuleStudent(Student):
    """A student whose weights are found by a rule of its own."""

    spec: Any

    @abstractmethod
    def fit(self, X: Array, y: Labels, n_classes: int, ridge: Any) -> FittedRule:
        """Return weights (d, k), offsets (k,) and the status of a fit to X (n, d), y (n,)."""

    def simulate(
        self,
        teacher: AnyTeacher,
        alpha: float,
        dimension: int,
        seed: int,
        *,
        also: Sequence[Estimator] = (),
        **settings: Any,
    ) -> list[Row]:
        check_teacher(teacher)
        n = n_samples(alpha, dimension)
        X, y, truth = teacher.sample(n, dimension, seed)
        rows = []
        for student in (self, *(replace(self, spec=spec) for spec in also)):
            columns = dict(student.spec.columns)
            if columns.get("ridge") == "optimal":
                columns["ridge"] = student.rows(teacher, [float(alpha)])[0]["ridge"]
            weights, b, status = student.fit(X, y, teacher.n_classes, columns.get("ridge"))
            fields = X @ weights / math.sqrt(dimension) + b
            row = make_row(
                source="erm",
                **teacher.columns,
                **columns,
                alpha=float(alpha),
                training_error=float(np.mean(fields.argmax(1) != y)),
                status=status,
                dimension=dimension,
                n_samples=n,
                seed=seed,
                **measured(weights, truth, teacher, seed, None, None),
            )
            rows.append(row)
        return rows


def class_means(X: Array, y: Labels, n_classes: int) -> Array:
    """Return the class means (d, k) of X (n, d); 0 for a class without samples."""
    counts = np.maximum(np.bincount(y, minlength=n_classes), 1)
    return np.asarray(X.T @ np.eye(n_classes)[y] / counts)
