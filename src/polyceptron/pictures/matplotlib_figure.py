"""Pictures by matplotlib: for files, for notebooks, and on axes that a user already has."""

import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_atomically
from polyceptron.pictures.parts import (
    SHEET,
    Axis,
    Legend,
    Mark,
    Note,
    Panel,
    Picture,
    Trace,
    as_mathtext,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # it loads slowly
    Axes = Figure = Any

MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "star": "*",
    "cross": "P",
    "x": "x",
    "": None,
}
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (4, 2)), "dot": ":", "dashdot": "-."}
Style = Mapping[str, Any]

SIZE_OF_LABELS = 7.0  # points, of marks and titles
SIZE_OF_NOTES = 6.5  # points
SIZE_OF_NOTES_IN_INSET = 5.5  # points
ROOM_ABOVE_AXES = 3.0  # points, below a title
ROOM_FOR_LABELS_OF_MARKS = 14.0  # points, below a title


def render_matplotlib(picture: Picture) -> Figure:
    """Return the panels on a new figure that pyplot knows nothing of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(picture.width, picture.height))
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(picture.panels), 1, squeeze=False)[:, 0]
        for ax, panel in zip(axes, picture.panels, strict=True):
            draw_panel(ax, panel)
    return figure


def notebook_axes(picture: Picture) -> Axes:
    """Return axes of a new figure that pyplot knows, so that a notebook or a window shows it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with style():
        _, ax = plt.subplots(figsize=(picture.width, picture.height))
        interactive = plt.isinteractive()
    mpl.interactive(interactive)  # a notebook's backend turns it on when it loads, inside the style
    return ax


def plot_panel(panel: Panel, ax: Axes | None, own: Style) -> Axes:
    """Draw on the axes, or on new ones of pyplot; `own` are a user's keywords for the lines."""
    check_style(own)
    if ax is None:
        ax = notebook_axes(Picture((panel,)))
    with style():
        draw_panel(ax, panel, [own])
    return ax


def draw_panel(
    ax: Axes, panel: Panel, styles: Sequence[Style] = (), note_size: float = SIZE_OF_NOTES
) -> list[Any]:
    """Draw the panel on the axes and return the artists of its traces, marks and notes.

    Limits that a user has set, and labels that stand there, are left alone.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
    panel : Panel
    styles : sequence of mapping
        `styles[i]` overrides the look of table i.
    note_size : float
        Points.
    """
    own = dict(enumerate(styles))
    artists = [_draw_trace(ax, trace, own.get(trace.table, {})) for trace in panel.traces]
    for mark in panel.marks:
        artists += _draw_mark(ax, mark)
    artists += [_draw_note(ax, note, note_size) for note in panel.notes]
    _set_x_axis(ax, panel.x)
    _set_y_axis(ax, panel.y)
    if panel.title and not ax.get_title(loc="left"):
        room = ROOM_ABOVE_AXES
        if any(mark.label for mark in panel.marks):
            room = ROOM_FOR_LABELS_OF_MARKS
        title = as_mathtext(panel.title)
        ax.set_title(title, loc="left", pad=room, fontsize=SIZE_OF_LABELS)
    if panel.inset is not None:
        _draw_inset(ax, panel.inset)
    if panel.legend is not None and ax.get_legend_handles_labels()[0]:
        _draw_legend(ax, panel.legend)
    return artists


def _draw_mark(ax: Axes, mark: Mark) -> list[Any]:
    """Draw a vertical line, and its label above the axes, where no curve passes."""
    line = ax.axvline(
        mark.x, zorder=0, color=mark.colour, linestyle=DASHES[mark.dash], linewidth=0.9
    )
    if not mark.label:
        return [line]
    label = ax.text(
        mark.x,
        1.015,
        as_mathtext(mark.label),
        transform=ax.get_xaxis_transform(),
        ha=mark.side,
        va="bottom",
        fontsize=SIZE_OF_LABELS,
    )
    return [line, label]


def _draw_note(ax: Axes, note: Note, size: float) -> Any:
    """Write words at a point."""
    horizontal, vertical = note.anchor.replace("middle", "center").split()
    words = as_mathtext(note.text)
    return ax.text(
        note.x, note.y, words, ha=horizontal, va=vertical, color=note.colour, fontsize=size
    )


def _draw_inset(ax: Axes, inset: Panel) -> None:
    """Draw a panel within the axes, with smaller text, and labels close to its axes."""
    small = ax.inset_axes(inset.box)
    small.tick_params(labelsize=SIZE_OF_NOTES_IN_INSET, pad=1.5, length=2)
    small.patch.set_alpha(0)
    small.set_xlabel(as_mathtext(inset.x.label), fontsize=SIZE_OF_NOTES, labelpad=1)
    small.set_ylabel(as_mathtext(inset.y.label), fontsize=SIZE_OF_NOTES, labelpad=1)
    draw_panel(small, inset, note_size=SIZE_OF_NOTES_IN_INSET)


def _draw_legend(ax: Axes, legend: Legend) -> None:
    """Draw the legend inside the axes, or to the right of them; error bars are left out of it."""
    place: dict[str, Any] = {"loc": legend.place}
    if legend.place == "outside":
        place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0)}
    if legend.corner is not None:
        place["bbox_to_anchor"] = legend.corner
    handles, labels = ax.get_legend_handles_labels()
    drawn = ax.legend(
        [_without_bars(handle) for handle in handles],
        labels,
        title=as_mathtext(legend.title) or None,
        alignment="left",
        ncols=legend.columns,
        columnspacing=1.0,
        frameon=True,
        framealpha=0.9,
        edgecolor="none",
        borderpad=0.2,
        **place,
    )
    drawn.set_zorder(5)


def _without_bars(handle: Any) -> Any:
    """Return the symbol of error bars, whose bars would be invisible or cross the entry."""
    if isinstance(handle, tuple) and handle[0] is not None:
        return handle[0]
    return handle


def _draw_trace(ax: Axes, trace: Trace, own: Style) -> Any:
    """Draw one trace. Keywords of the user's, under any of their names, go before ours."""
    label = "_"  # matplotlib leaves it out of a legend
    if trace.in_legend and trace.label:
        label = as_mathtext(trace.label)
    if trace.kind == "band":
        return _draw_band(ax, trace, label)
    settings = _line_settings(trace) | {"label": label} | _users_settings(trace, own)
    face = settings["color"]
    if trace.hollow:
        face = "white"
    settings.setdefault("markerfacecolor", face)
    if trace.y_error:
        return ax.errorbar(trace.x, trace.y, trace.y_error, elinewidth=0.8, **settings)
    return ax.plot(trace.x, trace.y, **settings)[0]


def _draw_band(ax: Axes, trace: Trace, label: str) -> Any:
    middle = np.array(trace.y)
    half = np.array(trace.y_error)
    return ax.fill_between(
        trace.x,
        middle - half,
        middle + half,
        label=label,
        color=trace.colour,
        alpha=0.25,
        linewidth=0,
    )


def _line_settings(trace: Trace) -> dict[str, Any]:
    """Return our keywords of matplotlib's `plot` for a line or for symbols."""
    is_line = trace.kind == "line"
    marker = trace.marker or ("" if is_line else "circle")
    return {
        "color": trace.colour,
        "linestyle": DASHES[trace.dash] if is_line else "none",
        "linewidth": SHEET["lines.linewidth"] * trace.width,
        "marker": MARKERS[marker],
        "markersize": SHEET["lines.markersize"] * trace.size,
        "markeredgewidth": 0.8,
        "zorder": 2 if is_line else 3,
    }


def _users_settings(trace: Trace, own: Style) -> dict[str, Any]:
    """Return the user's keywords: a line takes no symbols from them, symbols no line."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    hidden = "linestyle"
    if trace.kind == "line":
        hidden = "" if trace.marker else "marker"
    given = cbook.normalize_kwargs(dict(own), Line2D)
    return {name: value for name, value in given.items() if name != hidden}


def check_style(own: Style) -> None:
    """Raise unless matplotlib takes these keywords for a line."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    try:
        Line2D([], [], **cbook.normalize_kwargs(dict(own), Line2D))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(f"matplotlib refuses the style of this plot: {error}") from None


def _set_x_axis(ax: Axes, axis: Axis) -> None:
    """Set label, scale and limits; a limit that the picture leaves open stays free."""
    if axis.scale != "linear":
        ax.set_xscale(axis.scale)
    if not ax.get_xlabel():
        ax.set_xlabel(as_mathtext(axis.label))
    if ax.get_autoscalex_on() and _has_limits(axis):
        ax.set_xlim(axis.low, axis.high, auto=None)
    if axis.ticks:
        _set_ticks(ax.xaxis, axis.ticks)


def _set_y_axis(ax: Axes, axis: Axis) -> None:
    """Set label, scale and limits; a limit that the picture leaves open stays free."""
    if axis.scale != "linear":
        ax.set_yscale(axis.scale)
    if not ax.get_ylabel():
        ax.set_ylabel(as_mathtext(axis.label))
    if ax.get_autoscaley_on() and _has_limits(axis):
        if axis.low is not None and axis.high is None:
            ax.update_datalim([(0.0, axis.low)], updatex=False)  # in sight when more is drawn
        ax.set_ylim(axis.low, axis.high, auto=None)
    if axis.ticks:
        _set_ticks(ax.yaxis, axis.ticks)


def _has_limits(axis: Axis) -> bool:
    return axis.low is not None or axis.high is not None


def _set_ticks(line: Any, ticks: Sequence[float]) -> None:
    """Put plain numbers at these places of an axis, and none between."""
    from matplotlib.ticker import FixedLocator, NullFormatter, ScalarFormatter

    line.set_major_locator(FixedLocator(ticks))
    line.set_major_formatter(ScalarFormatter())
    line.set_minor_formatter(NullFormatter())


def check_figure_path(path: str | Path) -> Path:
    """Return the path, if its ending is one we can draw and its folder is writable."""
    target = check_writable(path)
    if target.suffix.lower() not in (".pdf", ".png", ".svg"):
        raise InvalidInput(f"a plot ends in .pdf, .png or .svg, got {str(path)!r}")
    check_drawing()
    return target


def check_drawing() -> None:
    """Raise if matplotlib does not start, as with an MPLBACKEND it does not know.

    Call it before long work whose result is to be drawn.
    """
    try:
        importlib.import_module("matplotlib")
    except (ImportError, ValueError, OSError) as error:
        raise InvalidInput(f"cannot draw: matplotlib does not start: {error}") from None


def svg_text(picture: Picture) -> str:
    """Return the picture as SVG text, for a page."""
    buffer = io.StringIO()
    figure = render_matplotlib(picture)
    with style():
        figure.canvas.print_figure(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in one piece: a reader never sees half of it.

    The same figure gives the same bytes.
    """
    target = check_figure_path(path)
    kind = target.suffix.lstrip(".").lower()
    metadata: dict[str, str | None] = {}
    if kind == "pdf":
        metadata = {"Creator": "polyceptron", "CreationDate": None}
    elif kind == "svg":
        metadata = {"Date": None}

    def write_picture(place: Path) -> None:
        """Write the picture to a place, drawn in memory first."""
        drawn = io.BytesIO()  # on a full disk matplotlib would fail inside its own clean-up
        try:
            with style():
                figure.savefig(drawn, format=kind, metadata=metadata)
        except (ValueError, RuntimeError) as error:  # as with a SOURCE_DATE_EPOCH that is no number
            raise InvalidInput(f"cannot draw {str(target)!r}: {error}") from error
        place.write_bytes(drawn.getvalue())

    write_atomically(target, write_picture)
