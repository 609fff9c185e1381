"""Learning curves as an object: a tidy table, and a plot that is a function of that table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_atomically
from polyceptron.model import AnyTeacher
from polyceptron.report.style import ALPHA, COLOURS, CYCLE, ERROR, LABELS, new_figure, style
from polyceptron.rows import frame
from polyceptron.theory import curve_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FORMATS = ("pdf", "png", "svg")


@dataclass(frozen=True)
class LearningCurve:
    """Rows of theory in `frame`; `plot` draws them."""

    frame: pd.DataFrame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error against α, one line for each estimator, ridge and branch."""
        return plot_curves(self.frame, ax)

    def save(self, path: str | Path) -> None:
        """Draw to a file; the ending says how: pdf, png or svg."""
        save_figure(self.plot().get_figure(), path)


def learning_curve(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: Any,
    *,
    branch: str = "optimal",
    tol: float | None = None,
) -> LearningCurve:
    """The exact error of one estimator, or of each in a list, at every α.

    >>> import polyceptron as pc
    >>> curve = pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), alpha=[1, 5])
    >>> [round(e, 6) for e in curve.frame.generalisation_error]
    [0.39051, 0.15415]
    """
    estimators = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    if not estimators:
        raise InvalidInput("at least one estimator is needed, for example BayesOptimal()")
    rows = [
        row for one in estimators for row in curve_rows(teacher, one, alpha, branch=branch, tol=tol)
    ]
    return LearningCurve(frame(rows))


def plot_curves(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Theory rows as lines, rows of experiments as symbols with standard errors where given."""
    if table.empty:
        raise InvalidInput("there is nothing to draw: the table has no rows")
    with style():
        if ax is None:
            _, ax = new_figure()
        table = table.copy()
        table["line"] = _line_names(table)
        mixed = table["estimator"].nunique() > 1
        own = {COLOURS.get(estimator) for estimator in table["estimator"].unique()}
        used: set[str] = set()
        for name, group in table.groupby("line", sort=False):
            first = group.iloc[0]
            estimator = str(first["estimator"])
            colour = COLOURS.get(estimator, CYCLE[0])
            if colour in used:  # a second line of this estimator
                colour = next((c for c in CYCLE if c not in used | own), CYCLE[-1])
            used.add(colour)
            theory = first.get("source", "theory") == "theory"
            order = group.sort_values("alpha")
            ax.plot(
                order["alpha"],
                order["generalisation_error"],
                color=colour,
                marker=None if theory and len(order) > 1 else "o",
                linestyle=_dashes(first.get("branch"), estimator, mixed) if theory else "none",
                zorder=3 if estimator == "bayes" else 2,
                label=str(name),
            )
        ax.set_xlabel(ALPHA)
        ax.set_ylabel(ERROR)
        ax.set_ylim(bottom=0)
        ax.legend()
    return ax


def _dashes(branch: Any, estimator: str, mixed: bool) -> Any:
    """Dashes tell branches apart, and keep a curve that Bayes-optimal lies on visible under it."""
    styles = {"amp": "--", "unstable": ":", "informed": "-."}
    return styles.get(str(branch), (0, (3, 3)) if mixed and estimator == "bayes" else "-")


def _line_names(table: pd.DataFrame) -> pd.Series[str]:
    """The legend entry of each row; rows of one entry are one line.

    A ridge that moves with α (the best one) does not split a line; a ridge among several does.
    """
    names = table["estimator"].map(lambda e: LABELS.get(e, e)).astype(str)
    if table.get("n_classes", names).nunique() > 1:
        names = names + ", k = " + table["n_classes"].astype(str)
    if "branch" in table and table["branch"].nunique() > 1:
        names = names + table["branch"].map(lambda b: f" ({b})" if isinstance(b, str) else "")
    if "ridge" in table:
        keys = names + table.get("source", names)
        several = table.groupby([keys, "alpha"])["ridge"].transform("nunique") > 1
        moving = table.groupby(keys)["ridge"].transform("nunique") > 1
        for row in table.index[moving]:
            ridge = float(table["ridge"][row])
            names[row] += rf", $\lambda={ridge:.3g}$" if several[row] else ", best ridge"
    return names


def check_figure_path(path: str | Path) -> Path:
    """The path, if its ending is one we can draw and its folder is writable."""
    target = check_writable(path)
    if target.suffix.lstrip(".").lower() not in FORMATS:
        raise InvalidInput(f"a plot ends in .pdf, .png or .svg, got {str(path)!r}")
    return target


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in one piece; a reader never sees half of it."""
    target = check_figure_path(path)
    kind = target.suffix.lstrip(".").lower()
    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    # Subsetting a font logs its age as a warning, which means nothing to the reader of a plot.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    with style():
        write_atomically(
            target, lambda temporary: figure.savefig(temporary, format=kind, metadata=metadata)
        )


def merge_curves(curves: Sequence[LearningCurve]) -> LearningCurve:
    """Several curves as one table, to draw them together."""
    import pandas as pd

    return LearningCurve(pd.concat([curve.frame for curve in curves], ignore_index=True))
