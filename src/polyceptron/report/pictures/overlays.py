"""Tables drawn on the same axes one after another, as if they had been one.

Each time all of them are drawn anew together: colours stay apart, and the legend names what differs
between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyceptron.report.pictures.curves import curves_panel, curves_picture
from polyceptron.report.pictures.markup import as_mathtext
from polyceptron.report.pictures.matplotlib_figure import check_style, draw_panel, notebook_axes
from polyceptron.report.pictures.parts import Panel, Trace
from polyceptron.report.pictures.series import problem_words
from polyceptron.report.style import style as house_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def overlay(ax: Axes | None, table: pd.DataFrame, x: str, y: str, style: dict[str, Any]) -> Axes:
    """Draw the table on the axes, together with those that `overlay` has drawn there before.

    Without axes, on new ones of pyplot, with what all rows share as their title.
    """
    import pandas as pd

    check_style(style)
    new = ax is None
    ax = notebook_axes(curves_picture(table, x, y)) if ax is None else ax
    held = getattr(ax, "_polyceptron", {})  # goes with the axes, whenever they go
    calls, drawn = held.get((x, y), ([], []))
    if not all(_lives_on(ax, one) for one in drawn):
        calls, drawn = [], []  # the axes were cleared since
    calls = [*calls, (table, style)]
    together = pd.concat([one.assign(table=i) for i, (one, _) in enumerate(calls)])
    panel = curves_panel(together.reset_index(drop=True), x, y)
    for one in drawn:
        one.remove()
    looks = [{name: value for name, value in look.items() if name != "label"} for _, look in calls]
    with house_style():
        drawn = draw_panel(ax, _relabel(panel, [look.get("label") for _, look in calls]), looks)
        title = as_mathtext(problem_words(together))
        if new or ax.get_title(loc="left") == held.get("title"):
            ax.set_title(title, loc="left", fontsize=7)
        else:
            title = ""  # the user's own stays
    ax._polyceptron = {**held, (x, y): (calls, drawn), "title": title}  # type: ignore[attr-defined]
    return ax


def _lives_on(ax: Axes, artist: Any) -> bool:
    """Whether the axes still have what was drawn (of error bars, their symbols)."""
    return getattr(artist[0] if isinstance(artist, tuple) else artist, "axes", None) is ax


def _relabel(panel: Panel, labels: list[Any]) -> Panel:
    """The user's label instead of ours; before ours where a table has several lines."""
    traces: list[Trace] = []
    for trace in panel.traces:
        if (label := labels[trace.table]) is not None:
            own = [one for one in panel.traces if one.table == trace.table]
            named = [one for one in own if one.in_legend] or own[:1]
            if len(named) > 1:
                label = f"{label}, {trace.label}"
            trace = replace(trace, label=str(label), in_legend=trace in named)
        traces.append(trace)
    return replace(panel, traces=tuple(traces))
