"""Discriminant analysis with a ridge: least squares with that ridge, where classes are equal.

Its answers are those of the square loss on one-hot labels, so that the rows are those of
`erm_rows` for this loss. Training error and loss are those of another objective, and left out.
"""

from collections.abc import Iterable

from polyceptron.problem import ERM, AnyTeacher
from polyceptron.problem.populations import check_teacher
from polyceptron.problem.specs.rules import DiscriminantAnalysis
from polyceptron.rows import Row
from polyceptron.theory.erm.rows import erm_rows


def lda_rows(
    teacher: AnyTeacher,
    estimator: DiscriminantAnalysis,
    alphas: Iterable[float],
    tol: float | None = None,
) -> list[Row]:
    """Return one row of discriminant analysis for each α.

    Parameters
    ----------
    teacher : Teacher or Perceptron
        Its classes are equal.
    estimator : DiscriminantAnalysis
    alphas : sequence of float
        n/d.
    tol : float, optional
        Of the error.
    """
    check_teacher(teacher)
    rows = []
    for row in erm_rows(teacher, ERM("square", estimator.ridge), list(alphas), tol):
        kept = {name: value for name, value in row.items() if not name.startswith("training_")}
        rows.append({**kept, "estimator": estimator.name})
    return rows
