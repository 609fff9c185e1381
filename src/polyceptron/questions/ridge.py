"""Which ridge is best, and how the error depends on it.

    optimal_ridge   λ of least error, test loss or calibration error at α
    ridge_parts     rows of the error at several λ and α, for a table or a picture

The square loss has the same best ridge at every α, σ²/c² with c and σ² the signal and the noise of
its labels. Others are minimised over ln λ (`theory/erm/best_ridge.py`, `score_ridge`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from polyceptron.checks import check_alpha, check_alphas
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.populations import AnyTeacher, check_population
from polyceptron.problem.specs import ERM, Estimator, as_erm, as_estimator
from polyceptron.questions.drawn_curve import bends
from polyceptron.questions.score_ridge import TARGETS, ridge_for
from polyceptron.questions.student_scores import with_scores
from polyceptron.rows import Row
from polyceptron.students import student_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.unequal_classes import population_point

NO_DATA = "no ridge is best at alpha 0, where there are no data"


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
    """Return the λ of least generalisation error at α, or of another target.

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
        What is to be least; 'error' or 'balanced-error' where classes are not equal.

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
    if np.ndim(alpha) > 0:
        return [optimal_ridge(teacher, spec, a, tol, target=target) for a in check_alphas(alpha)]
    if check_alpha(alpha) == 0:
        raise InvalidInput(NO_DATA)
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
) -> Iterator[list[Row]]:
    """Yield the rows of ε against λ at each α, the best ridge first (`is_best`).

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : Estimator, Loss or str
        One that takes a ridge.
    alphas, ridges : iterable of float
    tol : float, optional
        The wanted uncertainty of the error.
    target : str
        That of `optimal_ridge`; rows of one that is not the error have the scores too.
    drawn : int
        Add up to this many ridges, where a line through the rows would look broken.
    """
    spec = as_estimator(estimator)
    if not spec.takes_ridge:
        raise InvalidInput(f"{spec.name} takes no ridge: there is nothing to compare")
    values = {float(spec.with_ridge(ridge).columns["ridge"]) for ridge in ridges}
    for given_alpha in alphas:
        alpha = check_alpha(given_alpha)
        if alpha == 0:
            raise InvalidInput(NO_DATA)
        best: float | str = "optimal"
        if target != "error":
            best = optimal_ridge(teacher, estimator, alpha, tol, target=target)
        rows: list[Row] = []
        to_solve = [best, *sorted(values, reverse=True)]
        most = len(to_solve) + drawn
        while to_solve:
            for ridge in to_solve:
                new = _rows_at_ridge(teacher, spec.with_ridge(ridge), alpha, tol, target)
                is_best = not rows  # the first that is solved
                new = [{**row, "is_best": is_best} for row in new]
                rows += new
                yield new
            with_logarithm = [row for row in rows if row["ridge"] > 0]
            middles = bends(with_logarithm, log=True, x="ridge")
            to_solve = list[float | str](middles[: most - len(rows)])


def _rows_at_ridge(
    teacher: AnyTeacher, spec: Estimator, alpha: float, tol: float | None, target: str
) -> list[Row]:
    """Return the rows at one ridge and α, with scores where the target is one of them."""
    student = student_of(spec)
    rows = student.rows(teacher, [alpha], tol=tol)
    if target == "error":
        return rows
    return with_scores(teacher, student, rows)
