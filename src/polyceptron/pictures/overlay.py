"""Tables drawn on the same axes one after another, as if they had been one.

`overlay` remembers on the axes which tables it has drawn there. Each further call draws them all
anew, so that colours stay apart and the legend names whatever differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from polyceptron.pictures import matplotlib_figure as mpl
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import curves_panel, curves_picture
from polyceptron.pictures.tables import problem_words

if TYPE_CHECKING:
    import pandas as pd

ATTRIBUTE = "_polyceptron"  # of the axes: what was drawn goes when they go
SIZE_OF_TITLE = 7  # points


@dataclass
class DrawnTables:
    """The tables that were drawn on axes for one pair of columns, and the artists of them."""

    tables: list[pd.DataFrame] = field(default_factory=list)
    styles: list[mpl.Style] = field(default_factory=list)
    artists: list[Any] = field(default_factory=list)

    def still_on(self, ax: mpl.Axes) -> bool:
        """Return whether the artists are there; not if the user has cleared the axes."""
        return all(_axes_of(artist) is ax for artist in self.artists)

    def together(self) -> pd.DataFrame:
        """Return all tables as one, with a column `table` of their places."""
        import pandas as pd

        numbered = [table.assign(table=i) for i, table in enumerate(self.tables)]
        return pd.concat(numbered).reset_index(drop=True)


@dataclass
class AxesMemory:
    """What `overlay` has drawn on axes, for each pair of columns, and the title that it wrote."""

    drawn: dict[tuple[str, str], DrawnTables] = field(default_factory=dict)
    title: str = ""


def overlay(
    ax: mpl.Axes | None, table: pd.DataFrame, x: str, y: str, style: dict[str, Any]
) -> mpl.Axes:
    """Draw the table on the axes, together with those that `overlay` has drawn there before.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        None makes new axes of pyplot, with what all rows share as their title.
    table : pandas.DataFrame
    x, y : str
        Columns of the table.
    style : dict
        Keywords of matplotlib's `plot` for the lines of this table.
    """
    mpl.check_style(style)
    is_new = ax is None
    if ax is None:
        ax = mpl.notebook_axes(curves_picture(table, x, y))
    memory = vars(ax).get(ATTRIBUTE, AxesMemory())
    before = memory.drawn.get((x, y), DrawnTables())
    if not before.still_on(ax):
        before = DrawnTables()
    now = DrawnTables([*before.tables, table], [*before.styles, style])
    together = now.together()
    panel = curves_panel(together, x, y)  # raises before anything is removed
    for artist in before.artists:
        artist.remove()
    panel = replace(panel, traces=_with_own_labels(panel, now.styles))
    looks = [_without_label(own) for own in now.styles]
    with pic.style():
        now.artists = mpl.draw_panel(ax, panel, looks)
        title = pic.as_mathtext(problem_words(together))
        if is_new or ax.get_title(loc="left") == memory.title:
            ax.set_title(title, loc="left", fontsize=SIZE_OF_TITLE)
        else:
            title = ""  # the user's own title stays
    vars(ax)[ATTRIBUTE] = AxesMemory({**memory.drawn, (x, y): now}, title)
    return ax


def _axes_of(artist: Any) -> mpl.Axes | None:
    """Return the axes of an artist, or of the symbols of error bars, which come as a tuple."""
    if isinstance(artist, tuple):
        artist = artist[0]
    axes: mpl.Axes | None = artist.axes
    return axes


def _without_label(style: mpl.Style) -> dict[str, Any]:
    return {name: value for name, value in style.items() if name != "label"}


def _with_own_labels(panel: pic.Panel, styles: list[mpl.Style]) -> tuple[pic.Trace, ...]:
    """Return the traces with the user's labels, before ours where a table has several lines."""
    traces = []
    for trace in panel.traces:
        label = styles[trace.table].get("label")
        if label is not None:
            of_table = [other for other in panel.traces if other.table == trace.table]
            named = [other for other in of_table if other.in_legend] or of_table[:1]
            words = str(label)
            if len(named) > 1:
                words = f"{label}, {trace.label}"
            trace = replace(trace, label=words, in_legend=trace in named)
        traces.append(trace)
    return tuple(traces)
