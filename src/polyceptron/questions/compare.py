"""Theory beside simulations of it.

At each α, n = αd samples in dimension d are drawn `runs` times and every estimator is fitted to
them; beside the mean ε̄ of its errors stands the theory's ε for d → ∞, with

    z = (ε̄ − ε) / √(standard error² + uncertainty²),

that of Student's law: as unlikely under a normal law as t is under one of so few runs. A finite d
shifts ε̄ by a bias of order 1/d, which a z of many runs will show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from polyceptron.checks import check_alphas, check_size
from polyceptron.errors import InvalidInput
from polyceptron.numerics.averages import Average, deviation
from polyceptron.pictures.curves import overlay
from polyceptron.pictures.matplotlib_figure import Axes
from polyceptron.problem import plain_estimators
from polyceptron.problem.populations import check_population
from polyceptron.questions.curve import ERROR, LearningCurve, learning_curve
from polyceptron.rows import Row, Status, frame
from polyceptron.students import Student, student_of
from polyceptron.students.seeds import instance_seeds


@dataclass(frozen=True, repr=False)
class Comparison:
    """`frame`, a row for each estimator and α, by rising α; in `rows` all that it was made from.

    `plot` and `save` draw theory as smooth lines, which they compute, and means of the runs as
    symbols with their standard errors.
    """

    frame: pd.DataFrame
    rows: pd.DataFrame
    teacher: Any
    students: Sequence[Student]

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Draw error against α; without `ax`, on a new figure of pyplot."""
        return overlay(ax, self._drawn(), "alpha", ERROR, style)

    def save(self, path: str | Path) -> None:
        """Draw to a file; its ending is the format: pdf, png or svg."""
        LearningCurve(self._drawn()).save(path)

    def _drawn(self) -> pd.DataFrame:
        low, high = float(self.frame["alpha"].min()), float(self.frame["alpha"].max())
        if low == high:
            return self.rows
        ends = f"{low!r}:{high!r}" + ":log" * (high > 100 * low)
        lines = [
            learning_curve(self.teacher, one, ends, branch=_branch_of(one)) for one in self.students
        ]
        runs = self.rows[self.rows["source"] != "theory"]
        return pd.concat([*(one.frame for one in lines), runs])

    def __repr__(self) -> str:
        shown = self.frame.drop(columns=["dimension", "uncertainty"])
        return shown.to_string(index=False, float_format="{:.4g}".format, na_rep="")

    def _repr_html_(self) -> str:
        return self.frame.to_html(index=False, border=0, float_format="{:.4g}".format)


def compare(
    teacher: Any,
    estimators: Any = None,
    *,
    alpha: Any = (1.0, 2.0, 4.0),
    dimension: int = 200,
    runs: int = 10,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """The error of each estimator on drawn data beside its theory.

    Parameters
    ----------
    teacher : Teacher or another population
    estimators : Estimator, its name, or a list of them
        By default each that is registered. Message passing stands beside the branch it reaches.
    alpha : float or array_like
        n/d.
    dimension : int
    runs : int
        Data sets at each α, the same for every estimator.
    seed : int
        With teacher, α and dimension it tells the data, whatever else is compared.
    progress : callable, optional
        Is told what is being done.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import polyceptron as pc
    >>> found = compare(pc.Teacher(3), "square", alpha=[2, 1], dimension=50, runs=4)
    >>> found.frame["alpha"].tolist(), bool(found.frame["z"].abs().max() < 5)
    ([1.0, 2.0], True)
    """
    given = estimators if isinstance(estimators, list | tuple) else [estimators]
    if estimators is None:
        given = plain_estimators()
    students = [student_of(one) for one in given]
    if not students:
        raise InvalidInput("at least one estimator is needed, for example 'bayes'")
    runs, dimension = check_size(runs, "runs"), check_size(dimension, "dimension")
    check_population(teacher)
    summary: list[Row] = []
    rows: list[Row] = []
    for a in sorted(set(check_alphas(alpha))):
        seeds = instance_seeds(seed, teacher.columns, a, dimension, runs)
        for student in students:
            progress(f"{student.spec.name} at α = {a:g}")
            (theory,) = student.rows(teacher, [a], branch=_branch_of(student))
            fitted = student
            if student.spec.columns.get("ridge") == "optimal":
                fitted = student_of(student.spec.with_ridge(theory["ridge"]))
            found = [row for one in seeds for row in fitted.simulate(teacher, a, dimension, one)]
            summary.append(_line(theory, found))
            rows += [theory, *found]
    return Comparison(pd.DataFrame(summary), frame(rows), teacher, students)


def _branch_of(student: Student) -> str:
    """Return the branch of the theory that a simulation of the student reaches."""
    return "amp" if student.spec.branches else "optimal"


def _line(theory: Row, found: list[Row]) -> Row:
    mean = Average.of(row.get(ERROR) for row in found)
    expected, unsure = theory.get(ERROR), theory.get("uncertainty")
    worse = [row["status"] for row in (theory, *found) if row.get("status", Status.OK) != Status.OK]
    z = deviation(mean.mean, mean.standard_error, expected, unsure, count=mean.count)
    return {
        **{name: theory.get(name) for name in ("estimator", "ridge", "alpha")},
        "dimension": found[0].get("dimension"),
        "runs": mean.count,
        "error": mean.mean,
        "standard_error": mean.standard_error,
        "theory": expected,
        "uncertainty": unsure,
        "z": z,
        "status": str(worse[0]) if worse else str(Status.OK),
    }
