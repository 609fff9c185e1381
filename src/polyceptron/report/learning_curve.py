"""Learning curves as an object: a tidy table, and a plot that is a function of that table."""

from __future__ import annotations

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
    with style():
        if ax is None:
            _, ax = new_figure()
        keys = [c for c in ("source", "n_classes", "estimator", "ridge", "branch") if c in table]
        varying = {c for c in keys if table[c].nunique(dropna=False) > 1}
        used: dict[str, int] = {}
        for values, group in table.groupby(keys, dropna=False, sort=False):
            given = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
            name = str(given["estimator"])
            repeat = used[name] = used.get(name, -1) + 1
            colour = COLOURS.get(name) if repeat == 0 else CYCLE[repeat % len(CYCLE)]
            order = group.sort_values("alpha")
            line = given.get("source", "theory") == "theory"
            ax.plot(
                order["alpha"],
                order["generalisation_error"],
                color=colour,
                marker=None if line and len(order) > 1 else "o",
                linestyle=_dashes(given) if line else "none",
                label=_label(given, varying),
            )
        ax.set_xlabel(ALPHA)
        ax.set_ylabel(ERROR)
        ax.set_ylim(bottom=0)
        ax.legend()
    return ax


def _dashes(given: dict[str, Any]) -> str:
    return {"amp": "--", "unstable": ":", "informed": "-."}.get(str(given.get("branch")), "-")


def _label(given: dict[str, Any], varying: set[str]) -> str:
    parts = [LABELS.get(str(given["estimator"]), str(given["estimator"]))]
    ridge = given.get("ridge")
    if ridge is not None and ridge == ridge and "ridge" in varying:
        parts.append(rf"$\lambda={ridge:.3g}$")
    if "n_classes" in varying:
        parts.append(f"k={given['n_classes']}")
    if "branch" in varying and isinstance(given.get("branch"), str):
        parts.append(f"({given['branch']})")
    return " ".join(parts)


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
    with style():
        write_atomically(
            target, lambda temporary: figure.savefig(temporary, format=kind, metadata=metadata)
        )


def merge_curves(curves: Sequence[LearningCurve]) -> LearningCurve:
    """Several curves as one table, to draw them together."""
    import pandas as pd

    return LearningCurve(pd.concat([curve.frame for curve in curves], ignore_index=True))
