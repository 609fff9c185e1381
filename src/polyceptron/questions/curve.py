"""Learning curves as objects: a tidy table, and a plot that is a function of that table.

`learning_curve` computes the theory's rows (`curve_rows` at given α, `drawn_curve` on a range) and
wraps them in a `LearningCurve`, which shows itself as a short table (`curve_text`): what all rows
share in a line, then what differs. pandas is imported when the table is asked for, since its import
takes longer than a curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from polyceptron.errors import InvalidInput
from polyceptron.number_lists import parse_numbers, parse_range
from polyceptron.pictures.curves import curves_picture
from polyceptron.pictures.matplotlib_figure import Axes, render_matplotlib, save_figure
from polyceptron.pictures.overlay import overlay
from polyceptron.pictures.parts import as_plain
from polyceptron.pictures.tables import problem_words, read_table
from polyceptron.problem.populations import AnyTeacher, check_population
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.questions.drawn_curve import drawn_rows
from polyceptron.rows import Row, average_instances, error_column, frame
from polyceptron.students import Student, student_of

if TYPE_CHECKING:
    import pandas as pd

ERROR = "generalisation_error"
N_ROWS_SHOWN = 12
# Columns that are shown where they differ between rows, and those named in the first line if not.
COLUMNS_OF_THE_PROBLEM = (
    "source",
    "model",
    "n_classes",
    "prior",
    "estimator",
    "ridge",
    "branch",
    "dimension",
)
# An uncertainty of the theory holds in 99 of 100 cases; a mean over runs has a standard error.
HEADERS_OF_ERRORS = {"uncertainty": "± 99 %", error_column(ERROR): "std. error"}
COLUMNS_OF_THE_STUDENT = ("estimator", "ridge", "branch")
DEFAULT_RANGE = "0:6"
RANGE_BEYOND_LAST_JUMP = 1.4  # by default a curve goes on to so many times the α of its last jump


def curve_text(table: pd.DataFrame, *, html: bool = False) -> str:
    """Return a short table: what all rows share in a line, then α, the error and what differs.

    Parameters
    ----------
    table : pandas.DataFrame
        Rows of theory or experiments; instances are averaged.
    html : bool
        Whether the text is HTML, for a notebook.
    """
    import pandas as pd

    means = average_instances(table)
    different = [
        name
        for name in COLUMNS_OF_THE_PROBLEM
        if name in means and means[name].nunique(dropna=False) > 1
    ]
    shown = pd.DataFrame({name: means[name] for name in [*different, "alpha"] if name in means})
    if ERROR in means:
        shown["error"] = means[ERROR].map("{:.6g}".format)
    for column, header in HEADERS_OF_ERRORS.items():
        if column in means and means[column].notna().any():
            shown[header] = means[column].map("{:.1e}".format, na_action="ignore").fillna("")
    if "status" in means and (means["status"] != "ok").any():
        shown["status"] = means["status"]
    head = _first_line(means, different)
    if html:
        cells = shown.to_html(index=False, max_rows=N_ROWS_SHOWN, border=0)
        return f"<p>{escape(head)}</p>{cells}"
    return f"{head}\n{shown.to_string(index=False, max_rows=N_ROWS_SHOWN)}"


def _first_line(means: pd.DataFrame, different: Sequence[str]) -> str:
    """Return what all rows share, and how many there are."""
    words = []
    for name in COLUMNS_OF_THE_STUDENT:
        if name in means and name not in different:
            words += [str(value) for value in means[name].dropna().head(1)]
    problem = as_plain(problem_words(means))
    if problem:
        words.append(problem)
    count = f"{len(means)} points"
    if len(means) == 1:
        count = "1 point"
    if not words:
        return count
    return f"{', '.join(words)}: {count}"


class LearningCurve:
    """Rows of theory, of experiments or of both; `plot` draws them.

    Parameters
    ----------
    rows : pandas.DataFrame or sequence of dict
        A tidy table, or its rows: one for each α, estimator and instance.

    Attributes
    ----------
    frame : pandas.DataFrame
        The tidy table.

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

    def __init__(self, rows: pd.DataFrame | Sequence[Row]) -> None:
        self._rows = rows

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The tidy table."""
        if isinstance(self._rows, Sequence):
            return frame(self._rows)
        return self._rows

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the rows of a store, or of a table in CSV."""
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
    """Return the exact error of one estimator, or of each in a list, at every α.

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
     alpha    error  ± 99 %
       1.0  0.39051 ...
       5.0  0.15415 ...
    """
    check_population(teacher)
    estimators = [estimator]
    if isinstance(estimator, list | tuple):
        estimators = list(estimator)
    if not estimators:
        raise InvalidInput("at least one estimator is needed, for example BayesOptimal()")
    students = [student_of(given) for given in estimators]
    if alpha is None:
        alpha = _default_range(teacher, students)
    ends = None
    if isinstance(alpha, str):
        ends = parse_range(alpha, "alpha")
        if ends is None:
            alpha = parse_numbers(alpha, "alpha")
    asked: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    rows: list[Row] = []
    for student in students:
        if ends is None:
            rows += curve_rows(teacher, student, alpha, **asked)
        else:
            low, high, log = ends
            rows += drawn_rows(teacher, student, low, high, log=log, **asked)
    return LearningCurve(rows)


def _default_range(teacher: AnyTeacher, students: Sequence[Student]) -> str:
    """Return the range of α of a curve for which none is given."""
    jumps = [jump.alpha for student in students for jump in student.jumps(teacher)]
    if not jumps:
        return DEFAULT_RANGE
    return f"0:{RANGE_BEYOND_LAST_JUMP * max(jumps):.2g}"
