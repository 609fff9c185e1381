"""The nearest class mean (Hebb's rule): fields μ̂_c·x − ‖μ̂_c‖²/2."""

import math
from dataclasses import dataclass
from typing import Any

from polyceptron.data.checks import Labels
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import ClassMeans
from polyceptron.rows import Row, Status
from polyceptron.students.fitted_rule import FittedRule, RuleStudent, class_means
from polyceptron.theory.class_means import class_means_rows


@dataclass(frozen=True)
class ClassMeansStudent(RuleStudent):
    """Weights √d μ̂_c."""

    spec: ClassMeans

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""
        return class_means_rows(teacher, self.spec, alpha, tol)

    def fit(self, X: Array, y: Labels, n_classes: int, ridge: Any) -> FittedRule:
        """Return weights (d, k), offsets (k,) and the status of the fit to X (n, d), y (n,)."""
        d = X.shape[1]
        weights = math.sqrt(d) * class_means(X, y, n_classes)
        return weights, -0.5 * (weights**2).sum(0) / d, Status.OK
