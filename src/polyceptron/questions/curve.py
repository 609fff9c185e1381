"""Learning curves as objects: a tidy table, and a plot that is a function of that table.

In a terminal and a notebook it is a short table: what all rows share in a line, then what differs.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Self

import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.number_lists import parse_numbers, parse_range
from polyceptron.pictures.curves import curves_picture, overlay, problem_words, read_table
from polyceptron.pictures.matplotlib_figure import Axes, render_matplotlib, save_figure
from polyceptron.pictures.parts import as_plain
from polyceptron.problem.populations import check_population
from polyceptron.questions.curve_rows import curve_rows, drawn_rows
from polyceptron.rows import average_instances, frame
from polyceptron.students import student_of

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
        jumps = [jump.alpha for one in estimators for jump in student_of(one).jumps(teacher)]
        alpha = f"0:{1.4 * max(jumps):.2g}" if jumps else "0:6"
    if isinstance(alpha, str) and (ends := parse_range(alpha, "alpha")):
        low, high, log = ends
        parts = [drawn_rows(teacher, one, low, high, log=log, **asked) for one in estimators]
    else:
        numbers = parse_numbers(alpha, "alpha") if isinstance(alpha, str) else alpha
        parts = [curve_rows(teacher, one, numbers, **asked) for one in estimators]
    return LearningCurve(frame(row for part in parts for row in part))
