"""Which ridge is best, and how the error depends on it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from polyceptron.checks import check_alpha, check_alphas
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher, check_population
from polyceptron.problem.specs import ERM, as_erm, as_estimator
from polyceptron.questions.calibration import TARGETS, ridge_for
from polyceptron.questions.curve_rows import bends, with_scores
from polyceptron.students import student_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.unequal_classes import population_point


@overload
def optimal_ridge(
    teacher: Any, estimator: Any, alpha: float, tol: float | None = None, *, target: str = "error"
) -> float: ...
@overload
def optimal_ridge(
    teacher: Any,
    estimator: Any,
    alpha: Sequence[float] | Array,
    tol: float | None = None,
    *,
    target: str = "error",
) -> list[float]: ...
def optimal_ridge(
    teacher: Any, estimator: Any, alpha: Any, tol: float | None = None, *, target: str = "error"
) -> Any:
    """The λ of least generalisation error at α; σ²/c² at every α for the square loss.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    estimator : ERM, Loss or str
        Its own ridge is not used.
    alpha : float or array_like
        n/d, one or several.
    tol : float, optional
        That of `erm_fixed_point` at each λ tried.
    target : {'error', 'test-loss', 'calibration'}
        What is to be least; 'error' or 'balanced-error' where classes are not alike.

    Returns
    -------
    float, or a list of them for several α

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> round(optimal_ridge(Teacher(3), "square", 2.0), 4)
    0.8617
    """
    spec = as_erm(estimator)
    check_population(teacher)
    if np.ndim(alpha):
        return [optimal_ridge(teacher, spec, a, tol, target=target) for a in check_alphas(alpha)]
    if check_alpha(alpha) == 0:
        raise InvalidInput("no ridge is best at alpha 0, where there are no data")
    if not spec.sees_equal_classes(teacher):
        spec = replace(spec, ridge="optimal", penalty=None)
        return population_point(teacher, spec, alpha, tol, target=target).ridge
    if target == "error":
        return erm_fixed_point(teacher, ERM(spec.loss, "optimal"), alpha, tol).ridge

    if target not in TARGETS:
        allowed = ", ".join(map(repr, TARGETS))
        raise InvalidInput(f"unknown target {target!r} of a ridge: allowed are {allowed}")
    return ridge_for(teacher, estimator, alpha, target)


def ridge_parts(
    teacher: AnyTeacher,
    estimator: Any,
    alphas: Iterable[float],
    ridges: Iterable[float],
    tol: float | None = None,
    *,
    target: str = "error",
    drawn: int = 0,
) -> Iterator[list[dict[str, Any]]]:
    """Rows of ε against λ at each α, one by one, the best ridge first (`is_best`).

    `target` is that of `optimal_ridge`; with one that is not the error rows have the scores too.
    A line through them that is `drawn` has up to so many ridges more, where it bends.
    """

    spec = as_estimator(estimator)
    if not spec.takes_ridge:
        raise InvalidInput(f"{spec.name} takes no ridge: there is nothing to compare")
    values = {float(spec.with_ridge(ridge).columns["ridge"]) for ridge in ridges}
    for alpha in (check_alpha(alpha) for alpha in alphas):
        if alpha == 0:
            raise InvalidInput("no ridge is best at alpha 0, where there are no data")
        best: Any = "optimal"
        if target != "error":
            best = optimal_ridge(teacher, estimator, alpha, tol, target=target)
        rows: list[dict[str, Any]] = []
        todo, most = [best, *sorted(values, reverse=True)], 1 + len(values) + drawn
        while todo:
            for ridge in todo:
                student = student_of(spec.with_ridge(ridge))
                part = student.rows(teacher, [alpha], tol=tol)
                if target != "error":
                    part = with_scores(teacher, student, part)
                part = [{**row, "is_best": not rows} for row in part]  # the first one
                rows += part
                yield part
            above = [row for row in rows if row["ridge"] > 0]
            todo = bends(above, log=True, x="ridge")[: most - len(rows)]
