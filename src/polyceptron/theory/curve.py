"""One door to the theory: rows of a learning curve for any estimator."""

from __future__ import annotations

from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher, BayesOptimal
from polyceptron.theory.bayes_optimal import bayes_rows


def curve_rows(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: Any,
    *,
    branch: str = "optimal",
    tol: float | None = None,
) -> list[dict[str, Any]]:
    """Theory rows of `estimator` (BayesOptimal or ERM) at each α; `branch` is for the former."""
    if isinstance(estimator, BayesOptimal):
        return bayes_rows(teacher, alpha, branch, tol)
    from polyceptron.model import ERM

    if isinstance(estimator, ERM):
        from polyceptron.theory.bayes_optimal import check_alpha
        from polyceptron.theory.erm import erm_rows

        return erm_rows(teacher, estimator, check_alpha(alpha), tol)
    raise InvalidInput(f"unknown estimator {estimator!r}: allowed are BayesOptimal() and ERM(...)")
