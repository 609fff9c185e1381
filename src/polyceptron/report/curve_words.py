"""A learning curve as a short table, for a terminal and for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from polyceptron.report.instance_means import average_instances
from polyceptron.report.pictures.markup import as_plain
from polyceptron.report.pictures.series import problem_words

if TYPE_CHECKING:
    import pandas as pd

ERROR = "generalisation_error"
_ROWS = 12
_FACTS = ("source", "model", "n_classes", "prior", "estimator", "ridge", "branch", "dimension")


def curve_text(table: pd.DataFrame) -> str:
    """What all rows share in a line, then α and the error in a few columns."""
    head, shown = _short(table)
    return f"{head}\n{shown.to_string(index=False, max_rows=_ROWS)}"


def curve_html(table: pd.DataFrame) -> str:
    """The same as an HTML table."""
    head, shown = _short(table)
    return f"<p>{escape(head)}</p>" + shown.to_html(index=False, max_rows=_ROWS, border=0)


def _short(table: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """One line of what all rows share, and the few columns that differ, with α and the error."""
    import pandas as pd

    means = average_instances(table)
    vary = [name for name in _FACTS if name in means and means[name].nunique(dropna=False) > 1]
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
    return f"{', '.join(words)}: {len(means)} points".removeprefix(": "), shown
