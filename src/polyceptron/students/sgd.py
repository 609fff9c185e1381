"""One-pass SGD: its theory is a differential equation, its simulation one loop over the samples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.numerics import Array
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.problem.specs import SGD, Estimator, Probabilities
from polyceptron.rows import Row, Status, make_row
from polyceptron.students.base import Student
from polyceptron.students.measuring import measured, n_samples
from polyceptron.theory.one_pass.path import largest_stable_rate
from polyceptron.theory.one_pass.rows import best_rate, one_pass_rows


@dataclass(frozen=True)
class SGDStudent(Student):
    """One pass over the samples in their order, from weights 0."""

    spec: SGD

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""
        return one_pass_rows(teacher, self.spec, alpha, tol)

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder) -> Probabilities | None:
        """Return the class probabilities as a function of the fields (n, k), if there are any."""
        return self.spec.probabilities(teacher, order)

    def simulate(
        self,
        teacher: AnyTeacher,
        alpha: float,
        dimension: int,
        seed: int,
        *,
        also: Sequence[Estimator] = (),
        test_samples: int | None = None,
        **settings: Any,
    ) -> list[Row]:
        """Run every specification once over one drawn data set; return a row for each."""
        check_teacher(teacher)
        n = n_samples(alpha, dimension)
        X, y, truth = teacher.sample(n, dimension, seed)
        specs = [self.spec, *cast(Sequence[SGD], also)]
        rows = []
        for student in map(SGDStudent, specs):
            rule = student._rule_for(teacher, alpha)
            weights = weights_after_one_pass(X, y, rule, teacher.n_classes)
            status = Status.OK
            last_rate = rule.rate_at(alpha) / rule.batch
            if last_rate > largest_stable_rate(teacher, rule.loss):
                status = Status.RATE_TOO_LARGE
            chances = rule.probabilities(teacher, None)
            row = make_row(
                source="erm",
                **teacher.columns,
                **student.spec.columns,
                alpha=float(alpha),
                rate=rule.rate,
                status=status,
                dimension=dimension,
                n_samples=n,
                seed=seed,
                **measured(weights, truth, teacher, seed, test_samples, chances),
            )
            rows.append(row)
        return rows

    def _rule_for(self, teacher: AnyTeacher, alpha: float) -> SGD:
        """Return the rule with its rate as a number; 'optimal' is the theory's best at this α."""
        if isinstance(self.spec.rate, str):
            return self.spec.with_rate(best_rate(teacher, self.spec, float(alpha)).parameter)
        return self.spec


def weights_after_one_pass(X: Array, y: Labels, rule: SGD, n_classes: int) -> Array:
    """Return the weights (d, k) after one pass over X (n, d), y (n,) from weights 0.

    The rate follows the number of samples seen before the step, α = n_seen/d. The last batch may
    be smaller than the others, and counts by its share.
    """
    d = X.shape[1]
    weights = np.zeros((d, n_classes))
    for start in range(0, len(X), rule.batch):
        inputs = X[start : start + rule.batch]
        fields = inputs @ weights / math.sqrt(d)
        gradient = rule.loss.gradient(fields, y[start : start + rule.batch])
        step = rule.rate_at(start / d) / (rule.batch * math.sqrt(d))
        weights -= step * (inputs.T @ gradient)
    return weights
