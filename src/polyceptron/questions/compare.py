"""Theory beside simulations of it.

At each α, n = αd samples in dimension d are drawn `runs` times and every estimator is fitted to
them; beside the mean ε̄ of its errors stands the theory's ε for d → ∞, with

    z = (ε̄ − ε) / √(standard error² + uncertainty²),

which, for few runs, follows Student's t distribution; the table has the z that is as unlikely under
a normal distribution. A finite d shifts ε̄ by a bias of order 1/d, which a z of many runs will show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from polyceptron.checks import check_alphas, check_size
from polyceptron.errors import InvalidInput
from polyceptron.numerics.averages import Average, deviation
from polyceptron.pictures.matplotlib_figure import Axes
from polyceptron.pictures.overlay import overlay
from polyceptron.problem import plain_estimators
from polyceptron.problem.populations import check_population
from polyceptron.questions.curve import ERROR, LearningCurve, learning_curve
from polyceptron.rows import Row, Status, frame
from polyceptron.students import Student, student_of
from polyceptron.students.seeds import instance_seeds


@dataclass(frozen=True, repr=False)
class Comparison:
    """Mean errors of simulations beside the theory's.

    Attributes
    ----------
    frame : pandas.DataFrame
        One row for each estimator and α, by rising α.
    rows : pandas.DataFrame
        The rows of theory and of every run that `frame` was made from.
    teacher, students
        What was compared. `plot` and `save` compute the theory as smooth lines and draw means of
        the runs as symbols with their standard errors.
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
        """Return the rows to draw: runs as they are, and theory on a grid for a smooth line."""
        low = float(self.frame["alpha"].min())
        high = float(self.frame["alpha"].max())
        if low == high:
            return self.rows
        ends = f"{low!r}:{high!r}"
        if high > 100 * low:
            ends += ":log"
        lines = []
        for student in self.students:
            curve = learning_curve(self.teacher, student, ends, branch=_branch_of(student))
            lines.append(curve.frame)
        runs = self.rows[self.rows["source"] != "theory"]
        return pd.concat([*lines, runs])

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
    """Compare the error of each estimator on drawn data with its theory.

    Parameters
    ----------
    teacher : Teacher or another population
    estimators : Estimator, its name, or a list of them
        By default those of the paper. Message passing is compared with the branch that it reaches.
    alpha : float or array_like
        n/d.
    dimension : int
    runs : int
        Data sets at each α, the same for every estimator.
    seed : int
        With teacher, α and dimension it fixes the data, whatever else is compared.
    progress : callable, optional
        It is called with a text that says what is being done.

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
    if estimators is None:
        estimators = plain_estimators()
    elif not isinstance(estimators, list | tuple):
        estimators = [estimators]
    students = [student_of(estimator) for estimator in estimators]
    if not students:
        raise InvalidInput("at least one estimator is needed, for example 'bayes'")
    runs = check_size(runs, "runs")
    dimension = check_size(dimension, "dimension")
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
            simulated: list[Row] = []
            for instance_seed in seeds:
                simulated += fitted.simulate(teacher, a, dimension, instance_seed)
            summary.append(_summary(theory, simulated))
            rows += [theory, *simulated]
    return Comparison(pd.DataFrame(summary), frame(rows), teacher, students)


def _branch_of(student: Student) -> str:
    """Return the branch of the theory that a simulation of the student reaches."""
    if student.spec.branches:
        return "amp"
    return "optimal"


def _summary(theory: Row, simulated: list[Row]) -> Row:
    """Return the row of one estimator at one α: the mean over runs beside the theory."""
    mean = Average.of(row.get(ERROR) for row in simulated)
    expected = theory.get(ERROR)
    uncertainty = theory.get("uncertainty")
    statuses = [row.get("status", Status.OK) for row in (theory, *simulated)]
    not_ok = [status for status in statuses if status != Status.OK]
    first_status = (*not_ok, Status.OK)[0]
    return {
        "estimator": theory.get("estimator"),
        "ridge": theory.get("ridge"),
        "alpha": theory.get("alpha"),
        "dimension": simulated[0].get("dimension"),
        "runs": mean.count,
        "error": mean.mean,
        "standard_error": mean.standard_error,
        "theory": expected,
        "uncertainty": uncertainty,
        "z": deviation(mean.mean, mean.standard_error, expected, uncertainty, count=mean.count),
        "status": str(first_status),
    }
