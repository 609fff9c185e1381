"""Tables drawn on the same axes one after another, as if they had been one.

Each time all of them are drawn anew together: colours stay apart, and the legend names what differs
between them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.matplotlib_figure import draw_panel
from polyceptron.report.pictures.parts import Panel, Trace
from polyceptron.report.style import style as house_style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def overlay(ax: Axes, table: pd.DataFrame, x: str, y: str, style: dict[str, Any]) -> Axes:
    """Draw the table on the axes, together with those that `overlay` has drawn there before."""
    import pandas as pd

    held = getattr(ax, "_polyceptron", {})  # goes with the axes, whenever they go
    before = held.get((x, y), [])
    if any(getattr(one[0] if isinstance(one, tuple) else one, "axes", None) is not ax
           for *_, drawn in before for one in drawn):  # fmt: skip
        before = []  # the axes were cleared since
    calls = [*((one, look) for one, look, _ in before), (table, style)]
    together = pd.concat([one.assign(table=i) for i, (one, _) in enumerate(calls)])
    panel = curves_panel(together.reset_index(drop=True), x, y)
    for *_, drawn in before:
        for one in drawn:
            one.remove()
    looks = [{name: value for name, value in look.items() if name != "label"} for _, look in calls]
    with house_style():
        drawn = draw_panel(ax, _relabel(panel, [look.get("label") for _, look in calls]), looks)
    entries = [(*call, drawn if i == 0 else []) for i, call in enumerate(calls)]
    ax._polyceptron = {**held, (x, y): entries}  # type: ignore[attr-defined]
    return ax


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
