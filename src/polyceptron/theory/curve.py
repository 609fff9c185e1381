"""One door to the theory: rows of a learning curve for any estimator."""

from __future__ import annotations

from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, AnyTeacher, BayesOptimal
from polyceptron.model.checks import check_alphas
from polyceptron.theory.bayes_optimal import bayes_rows
from polyceptron.theory.erm import erm_rows


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
    if isinstance(estimator, ERM):
        return erm_rows(teacher, estimator, check_alphas(alpha), tol)
    raise InvalidInput(f"unknown estimator {estimator!r}: allowed are BayesOptimal() and ERM(...)")
