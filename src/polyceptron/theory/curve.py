"""One door to the theory: rows of a learning curve for any estimator."""

from __future__ import annotations

import math
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, AnyTeacher, BayesOptimal
from polyceptron.model.checks import check_alphas
from polyceptron.model.law import Law
from polyceptron.rows import make_row
from polyceptron.theory.bayes_optimal import bayes_rows
from polyceptron.theory.erm import erm_rows


def curve_rows(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: Any,
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
) -> list[dict[str, Any]]:
    """Theory rows of `estimator` (BayesOptimal or ERM) at each α; `branch` is for the former.

    With `scores` those of the student's probabilities on fresh samples stand in each row too: test
    loss, Brier score and calibration error, where it has a scale.
    """
    if scores:
        plain = curve_rows(teacher, estimator, alpha, branch=branch, tol=tol)
        return [make_row(**row, **_scores(teacher, estimator, row)) for row in plain]
    if isinstance(estimator, BayesOptimal):
        return bayes_rows(teacher, alpha, branch, tol)
    if isinstance(estimator, ERM):
        return erm_rows(teacher, estimator, check_alphas(alpha), tol)
    raise InvalidInput(f"unknown estimator {estimator!r}: allowed are BayesOptimal() and ERM(...)")


def _scores(teacher: AnyTeacher, estimator: Any, row: dict[str, Any]) -> dict[str, float]:
    """The scores at a row's law; none without data, or where the fields have no scale."""
    from polyceptron.theory.fresh_scores import fresh_scores

    m, q, V = (float(row.get(name, math.nan)) for name in ("m", "q", "V"))
    hard = row.get("ridge") == 0 and row.get("training_error") == 0  # a direction only
    if hard or not (math.isfinite(q) and q > 0):
        return {}
    return fresh_scores(teacher, estimator, Law.of_overlaps(m, q, V))
