"""Linear discriminant analysis with a ridge: class means in the metric of the pooled covariance."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import DiscriminantAnalysis
from polyceptron.rows import Row, Status
from polyceptron.students.fitted_rule import FittedRule, RuleStudent, class_means
from polyceptron.theory.lda import lda_rows


@dataclass(frozen=True)
class DiscriminantStudent(RuleStudent):
    """Weights √d (nS/d + λ)⁻¹ n(μ̂_c − μ̂)/d, with S the pooled covariance within classes."""

    spec: DiscriminantAnalysis

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""
        return lda_rows(teacher, self.spec, alpha, tol)

    def fit(self, X: Array, y: Labels, n_classes: int, ridge: Any) -> FittedRule:
        """Return weights (d, k), offsets (k,) and the status of the fit to X (n, d), y (n,)."""
        n, d = X.shape
        means = class_means(X, y, n_classes)
        overall = X.mean(0)[:, None]
        within = X - means.T[y]
        scatter = within.T @ within / d
        W = np.linalg.solve(scatter + ridge * np.eye(d), means - overall) * n / d
        log_shares = np.log(np.maximum(np.bincount(y, minlength=n_classes), 1) / n)
        offsets = -0.5 * ((means + overall) * W).sum(0) + log_shares
        return math.sqrt(d) * W, offsets, Status.OK
