"""Pictures by matplotlib: for files, for notebooks, and on axes that a user already has."""

import importlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_atomically
from polyceptron.pictures.parts import SHEET, Axis, Panel, Picture, Trace, as_mathtext, style

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


def render_matplotlib(picture: Picture) -> Figure:
    """The panels on a new figure that pyplot knows nothing of."""
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
    """Axes of a new figure that pyplot knows, so that a notebook or a window shows it."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with style():
        ax = plt.subplots(figsize=(picture.width, picture.height))[1]
        interactive = plt.isinteractive()
    mpl.interactive(interactive)  # a notebook's backend turns it on when it loads, inside the style
    return ax


def plot_panel(panel: Panel, ax: Axes | None, own: Style) -> Axes:
    """Draw on the axes, or on new ones of pyplot; `own` are a user's keywords for the lines."""
    check_style(own)
    ax = notebook_axes(Picture((panel,))) if ax is None else ax
    with style():
        draw_panel(ax, panel, [own])
    return ax


def draw_panel(
    ax: Axes, panel: Panel, styles: Sequence[Style] = (), note_size: float = 6.5
) -> list[Any]:
    """Draw on the axes and return what was drawn; `styles[i]` overrides the look of table i.

    Limits that a user has set, and labels that stand there, are left alone.
    """
    own = dict(enumerate(styles))
    drawn = [_draw(ax, trace, own.get(trace.table, {})) for trace in panel.traces]
    for mark in panel.marks:
        line = {"color": mark.colour, "linestyle": DASHES[mark.dash], "linewidth": 0.9}
        drawn.append(ax.axvline(mark.x, zorder=0, **line))
        if mark.label:  # above the axes, where no curve passes
            place: dict[str, Any] = {"ha": mark.side, "va": "bottom", "fontsize": 7}
            across = ax.get_xaxis_transform()
            drawn.append(ax.text(mark.x, 1.015, as_mathtext(mark.label), transform=across, **place))
    for note in panel.notes:
        ha, va = note.anchor.replace("middle", "center").split()
        look: dict[str, Any] = {"ha": ha, "va": va, "color": note.colour, "fontsize": note_size}
        drawn.append(ax.text(note.x, note.y, as_mathtext(note.text), **look))
    for axis, name in ((panel.x, "x"), (panel.y, "y")):
        _set_axis(ax, name, axis)
    if panel.title and not ax.get_title(loc="left"):
        room = 14 if any(mark.label for mark in panel.marks) else 3
        ax.set_title(as_mathtext(panel.title), loc="left", pad=room, fontsize=7)
    if panel.inset is not None:  # with smaller text, and labels close to its axes
        small = ax.inset_axes(panel.inset.box)
        small.tick_params(labelsize=5.5, pad=1.5, length=2)
        small.patch.set_alpha(0)
        small.set_xlabel(as_mathtext(panel.inset.x.label), fontsize=6.5, labelpad=1)
        small.set_ylabel(as_mathtext(panel.inset.y.label), fontsize=6.5, labelpad=1)
        draw_panel(small, panel.inset, note_size=5.5)
    if panel.legend is not None and ax.get_legend_handles_labels()[0]:
        outside = panel.legend.place == "outside"
        place = {"loc": "upper left" if outside else panel.legend.place}
        if outside or panel.legend.corner:
            place["bbox_to_anchor"] = panel.legend.corner or (1.02, 1.0)
        legend = ax.legend(
            title=as_mathtext(panel.legend.title) or None,
            alignment="left",
            ncols=panel.legend.columns,
            columnspacing=1.0,
            frameon=True,
            framealpha=0.9,
            edgecolor="none",
            borderpad=0.2,
            **place,
        )
        legend.set_zorder(5)
    return drawn


def _draw(ax: Axes, trace: Trace, own: Style) -> Any:
    """One trace. Keywords of the user's, under any of their names, go before ours."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    label = (trace.in_legend and as_mathtext(trace.label)) or "_"
    if trace.kind == "band":
        y, half = np.array(trace.y), np.array(trace.y_error)
        look: dict[str, Any] = {"color": trace.colour, "alpha": 0.25, "linewidth": 0}
        return ax.fill_between(trace.x, y - half, y + half, label=label, **look)
    is_line = trace.kind == "line"
    marker = trace.marker or ("" if is_line else "circle")
    settings: dict[str, Any] = {
        "color": trace.colour,
        "linestyle": DASHES[trace.dash] if is_line else "none",
        "linewidth": SHEET["lines.linewidth"] * trace.width,
        "marker": MARKERS[marker],
        "markersize": SHEET["lines.markersize"] * trace.size,
        "markeredgewidth": 0.8,
        "label": label,
        "zorder": 2 if is_line else 3,
    }
    hidden = () if is_line and trace.marker else ("marker",) if is_line else ("linestyle",)
    given = cbook.normalize_kwargs(dict(own), Line2D).items()
    settings |= {name: value for name, value in given if name not in hidden}
    settings.setdefault("markerfacecolor", "white" if trace.hollow else settings["color"])
    if trace.y_error:
        return ax.errorbar(trace.x, trace.y, trace.y_error, elinewidth=0.8, **settings)
    return ax.plot(trace.x, trace.y, **settings)[0]


def check_style(own: Style) -> None:
    """Raise unless matplotlib takes these keywords for a line."""
    from matplotlib import cbook
    from matplotlib.lines import Line2D

    try:
        Line2D([], [], **cbook.normalize_kwargs(dict(own), Line2D))
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInput(f"matplotlib refuses the style of this plot: {error}") from None


def _set_axis(ax: Axes, name: str, axis: Axis) -> None:
    """Label, scale and limits; a limit that the picture leaves open stays free for more data."""
    from matplotlib.ticker import FixedLocator, NullFormatter, ScalarFormatter

    if axis.scale != "linear":
        getattr(ax, f"set_{name}scale")(axis.scale)
    if not getattr(ax, f"get_{name}label")():
        getattr(ax, f"set_{name}label")(as_mathtext(axis.label))
    if getattr(ax, f"get_autoscale{name}_on")() and (axis.low, axis.high) != (None, None):
        if name == "y" and axis.low is not None and axis.high is None:
            ax.update_datalim([(0.0, axis.low)], updatex=False)  # in sight when more is drawn
        getattr(ax, f"set_{name}lim")(axis.low, axis.high, auto=None)
    if axis.ticks:
        line = getattr(ax, f"{name}axis")
        line.set_major_locator(FixedLocator(axis.ticks))
        line.set_major_formatter(ScalarFormatter())
        line.set_minor_formatter(NullFormatter())


def check_figure_path(path: str | Path) -> Path:
    """The path, if its ending is one we can draw and its folder is writable."""
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
    """The picture as text, for a page."""
    buffer, figure = io.StringIO(), render_matplotlib(picture)
    with style():
        figure.canvas.print_figure(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def save_figure(figure: Any, path: str | Path) -> None:
    """Write a figure in one piece; a reader never sees half of it, and twice gives the same."""
    target = check_figure_path(path)
    kind = target.suffix.lstrip(".").lower()
    metadata: dict[str, str | None] = {}
    if kind == "pdf":
        metadata = {"Creator": "polyceptron", "CreationDate": None}
    elif kind == "svg":
        metadata = {"Date": None}

    def write_picture(place: Path) -> None:
        drawn = io.BytesIO()  # on a full disk matplotlib would fail inside its own clean-up
        with style():
            figure.savefig(drawn, format=kind, metadata=metadata)
        place.write_bytes(drawn.getvalue())

    write_atomically(target, write_picture)
