"""One-vs-rest: each class against all others by a binary loss; the largest field wins."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.fit.erm import fit_erm
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import OneVsRest
from polyceptron.rows import Row, Status
from polyceptron.students.fitted_rule import FittedRule, RuleStudent
from polyceptron.theory.one_vs_rest import one_vs_rest_rows


@dataclass(frozen=True)
class OneVsRestStudent(RuleStudent):
    """k binary fits with intercepts."""

    spec: OneVsRest

    def rows(
        self,
        teacher: AnyTeacher,
        alpha: Any,
        *,
        branch: str = "optimal",
        tol: float | None = None,
    ) -> list[Row]:
        """Return one row of theory for each α, in the order given."""
        return one_vs_rest_rows(teacher, self.spec, alpha, tol)

    def fit(self, X: Array, y: Labels, n_classes: int, ridge: Any) -> FittedRule:
        """Fit each class against the rest.

        Two classes with fields (−h/2, h/2) have half the squared weights of h, so the ridge is
        doubled.
        """
        status = Status.OK
        weights = []
        offsets = []
        for c in range(n_classes):
            one_of_two = (y == c).astype(int)
            fit = fit_erm(X, one_of_two, self.spec.loss, 2 * ridge, intercept=True, n_classes=2)
            weights.append(fit.weights[:, 1] - fit.weights[:, 0])
            offsets.append(fit.intercepts[1] - fit.intercepts[0])
            if fit.status != Status.OK:
                status = fit.status
        return np.stack(weights, 1), np.array(offsets), status
