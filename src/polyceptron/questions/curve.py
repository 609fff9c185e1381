"""Learning curves as objects: a tidy table, and a plot that is a function of that table.

In a terminal and a notebook it is a short table: what all rows share in a line, then what differs.

Theory beside simulations of it (`compare`): at each α, n = αd samples in dimension d are drawn
`runs` times and every estimator is fitted to them; beside the mean ε̄ of its errors stands the
theory's ε for d → ∞, with

    z = (ε̄ − ε) / √(standard error² + uncertainty²),

that of Student's law: as unlikely under a normal law as t is under one of so few runs. A finite d
shifts ε̄ by a bias of order 1/d, which a z of many runs will show.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

import pandas as pd

from polyceptron.display import parse_numbers, parse_range
from polyceptron.errors import InvalidInput
from polyceptron.lab.results import Average, deviation
from polyceptron.lab.tasks import instance_seeds
from polyceptron.problem import as_estimator, plain_estimators
from polyceptron.checks import check_alphas, check_size
from polyceptron.problem.populations import check_population
from polyceptron.pictures.curves import curves_picture, overlay, problem_words, read_table
from polyceptron.pictures.matplotlib_figure import Axes, render_matplotlib, save_figure
from polyceptron.pictures.parts import as_plain
from polyceptron.rows import Row, Status, average_instances, frame
from polyceptron.questions.curve_rows import curve_rows, drawn_rows

ERROR = "generalisation_error"
_ROWS = 12


def curve_text(table: pd.DataFrame, *, html: bool = False) -> str:
    """What all rows share in a line, then α, the error and the few columns that differ."""
    means = average_instances(table)
    facts = ("source", "model", "n_classes", "prior", "estimator", "ridge", "branch", "dimension")
    vary = [name for name in facts if name in means and means[name].nunique(dropna=False) > 1]
    same = [name for name in ("estimator", "ridge", "branch") if name in means and name not in vary]
    words = [
        str(means[name].iloc[0]) for name in same if len(means) and pd.notna(means[name].iloc[0])
    ]
    words += [word for word in [as_plain(problem_words(means))] if word]
    shown = pd.DataFrame({name: means[name] for name in [*vary, "alpha"] if name in means})
    if ERROR in means:
        shown["error"] = means[ERROR].map("{:.6g}".format)
    if "uncertainty" in means:
        shown["±"] = means["uncertainty"].map("{:.1e}".format)
    if "status" in means and (means["status"] != "ok").any():
        shown["status"] = means["status"]
    head = f"{', '.join(words)}: {len(means)} point{'s' * (len(means) != 1)}".removeprefix(": ")
    if html:
        return f"<p>{escape(head)}</p>" + shown.to_html(index=False, max_rows=_ROWS, border=0)
    return f"{head}\n{shown.to_string(index=False, max_rows=_ROWS)}"


@dataclass(frozen=True, repr=False)
class LearningCurve:
    """Rows of theory, of experiments or of both; `plot` draws them.

    Parameters
    ----------
    frame : pandas.DataFrame
        A tidy table, one row for each α, estimator and instance.

    Examples
    --------
    A store of experiments on the theory:

        ax = pc.learning_curve(pc.Teacher(3), pc.ERM("square", 1.0), [0.5, 1, 2, 4]).plot()
        pc.LearningCurve.read("runs.sqlite").plot(ax)

    >>> import polyceptron as pc
    >>> theory = pc.learning_curve(pc.Teacher(3), pc.ERM("square", 1.0), alpha=[1, 2])
    >>> theory.plot(color="black").get_lines()[0].get_color()
    'black'
    """

    frame: pd.DataFrame

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The rows of a store, or of a table in CSV."""
        return cls(read_table(path))

    def plot(
        self, ax: Axes | None = None, *, x: str = "alpha", y: str = ERROR, **style: Any
    ) -> Axes:
        """Draw column `y` against `x`: theory as lines, experiments as symbols with their errors.

        Without `ax`, on a new figure of pyplot, which a notebook shows. On axes that already have
        curves, all are drawn anew together, so that colours stay apart and the legend names k, λ
        and whatever else differs. `style` is what matplotlib's `plot` takes: `color`, `linewidth`,
        `marker`, `label`, …
        """
        return overlay(ax, self.frame, x, y, style)

    def save(self, path: str | Path, *, x: str = "alpha", y: str = ERROR) -> None:
        """Draw to a file; its ending is the format: pdf, png or svg."""
        save_figure(render_matplotlib(curves_picture(self.frame, x, y)), path)

    def __repr__(self) -> str:
        return curve_text(self.frame)

    def _repr_html_(self) -> str:
        return curve_text(self.frame, html=True)


def learning_curve(
    teacher: Any,
    estimator: Any = "bayes",
    alpha: Any = None,
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
) -> LearningCurve:
    """The exact error of one estimator, or of each in a list, at every α.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : Estimator, its name, or a list of them
        For example `BayesOptimal()`, `ERM("square", 1.0)` or "cross-entropy".
    alpha : float, array_like or str, optional
        Samples per dimension, n/d. A range such as "0:5" or "0.1:100:log" has as many points as a
        smooth line needs, close together where it bends, on both sides of a jump; by default it
        goes from 0 to 6, or to 1.4 times the last jump. "0.5:5:10" are ten even values.
    branch : {'optimal', 'amp', 'informed', 'unstable', 'all'}
        Which fixed points of the Bayes-optimal theory.
    tol : float, optional
        The wanted uncertainty of the error.
    scores : bool
        Whether test loss, Brier score and calibration error are wanted too.

    Returns
    -------
    LearningCurve

    Examples
    --------
    >>> import polyceptron as pc
    >>> print(pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), alpha=[1, 5]))
    bayes, optimal, k = 3, gaussian weights: 2 points
     alpha    error       ±
       1.0  0.39051 ...
       5.0  0.15415 ...
    """
    check_population(teacher)
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise InvalidInput("at least one estimator is needed, for example BayesOptimal()")
    asked: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    if alpha is None:
        jumps = [jump.alpha for one in estimators for jump in as_estimator(one).jumps(teacher)]
        alpha = f"0:{1.4 * max(jumps):.2g}" if jumps else "0:6"
    if isinstance(alpha, str) and (ends := parse_range(alpha, "alpha")):
        low, high, log = ends
        parts = [drawn_rows(teacher, one, low, high, log=log, **asked) for one in estimators]
    else:
        numbers = parse_numbers(alpha, "alpha") if isinstance(alpha, str) else alpha
        parts = [curve_rows(teacher, one, numbers, **asked) for one in estimators]
    return LearningCurve(frame(row for part in parts for row in part))


@dataclass(frozen=True, repr=False)
class Comparison:
    """`frame`, a row for each estimator and α, by rising α; in `rows` all that it was made from.

    `plot` and `save` draw theory as smooth lines, which they compute, and means of the runs as
    symbols with their standard errors.
    """

    frame: pd.DataFrame
    rows: pd.DataFrame
    teacher: Any
    students: Sequence[Any]

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
            learning_curve(self.teacher, one, ends, branch="amp" if one.branches else "optimal")
            for one in self.students
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
    students = plain_estimators() if estimators is None else [as_estimator(one) for one in given]
    if not students:
        raise InvalidInput("at least one estimator is needed, for example 'bayes'")
    runs, dimension = check_size(runs, "runs"), check_size(dimension, "dimension")
    check_population(teacher)
    summary: list[Row] = []
    rows: list[Row] = []
    for a in sorted(set(check_alphas(alpha))):
        seeds = instance_seeds(seed, teacher.columns, a, dimension, runs)
        for student in students:
            progress(f"{student.name} at α = {a:g}")
            (theory,) = student.rows(teacher, [a], branch="amp" if student.branches else "optimal")
            if student.columns.get("ridge") == "optimal":
                student = student.with_ridge(theory["ridge"])
            found = [row for one in seeds for row in student.simulate(teacher, a, dimension, one)]
            summary.append(_line(theory, found))
            rows += [theory, *found]
    return Comparison(pd.DataFrame(summary), frame(rows), teacher, students)


def _line(theory: Row, found: list[Row]) -> Row:
    mean = Average.of(row.get(ERROR) for row in found)
    expected, unsure = theory.get(ERROR), theory.get("uncertainty")
    worse = [row["status"] for row in (theory, *found) if row.get("status", Status.OK) != Status.OK]
    z = deviation(mean.mean, mean.standard_error, expected, unsure, count=mean.count)
    return {
        **{name: theory.get(name) for name in ("estimator", "ridge", "alpha")},
        "dimension": found[0].get("dimension"), "runs": mean.count, "error": mean.mean,
        "standard_error": mean.standard_error, "theory": expected, "uncertainty": unsure, "z": z,
        "status": str(worse[0]) if worse else str(Status.OK),
    }  # fmt: skip
