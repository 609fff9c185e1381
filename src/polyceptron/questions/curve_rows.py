"""Rows of a learning curve: the theory of any estimator at given values of α = n/d.

    curve_rows     one list of rows, for one list of α
    curve_parts    the same part by part, each as soon as it is computed

Both ask the student of the estimator (`students/`) and add the scores of its probabilities
(`student_scores`) if they are wanted. `drawn_curve` chooses values of α for a smooth line.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from polyceptron.checks import check_alphas
from polyceptron.problem import AnyTeacher
from polyceptron.problem.populations import check_population
from polyceptron.questions.student_scores import with_scores
from polyceptron.rows import Row
from polyceptron.students import student_of


def curve_rows(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: Any,
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
) -> list[Row]:
    """Return the theory rows of an estimator at each α, in the order given.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : Estimator, Student, Loss or str
    alpha : float or array_like
        n/d, one or several.
    branch, tol, scores
        As in `curve_parts`.

    Returns
    -------
    list of Row
        One row for each α; one for each α and branch with `branch="all"`.
    """
    parts = [check_alphas(alpha)]
    return next(curve_parts(teacher, estimator, parts, branch=branch, tol=tol, scores=scores))


def curve_parts(
    teacher: AnyTeacher,
    estimator: Any,
    parts: Iterable[Iterable[float]],
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
    searched: float = math.inf,
) -> Iterator[list[Row]]:
    """Yield the rows of each part of a curve as soon as they are known.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : Estimator, Student, Loss or str
    parts : iterable of iterables of float
        The values of α of each part. The next part is asked for after the rows of the one before
        were yielded, so it may depend on them.
    branch : {'optimal', 'amp', 'informed', 'unstable', 'all'}
        Which fixed points of the Bayes-optimal theory.
    tol : float, optional
        The wanted uncertainty of the error.
    scores : bool
        Whether each row has test loss, Brier score and calibration error too.
    searched : float
        A best ridge is searched for in this many parts and interpolated in the others.
    """
    check_population(teacher)
    student = student_of(estimator)
    for rows in student.parts(teacher, parts, branch=branch, tol=tol, searched=searched):
        if scores:
            yield with_scores(teacher, student, rows)
        else:
            yield rows
