"""A panel for the page: a figure of plotly as plain dictionaries, without importing it.

The page draws lines, symbols and cells on one pair of axes; bands and insets are for paper.
"""

import math
from collections.abc import Sequence
from typing import Any

from polyceptron.pictures.parts import Axis, Mark, Note, Panel, Shade, Trace, as_html

INK = "#222222"
GRID = "#e3e3e3"
MARKERS = {"triangle": "triangle-up"}  # where plotly has another name
PIXELS_BESIDE_A_MARK = 3
PIXELS_OF_A_LINE_OF_TEXT = 18
PIXELS_OF_A_SYMBOL = 8
PIXELS_OF_A_LINE = 2
_LAYOUT: dict[str, Any] = {
    "template": None,
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
    "paper_bgcolor": "#ffffff",
    "plot_bgcolor": "#ffffff",
    # At the foot of the container, where its rows push the plot up instead of covering it.
    "legend": {
        "orientation": "h",
        "yref": "container",
        "y": 0,
        "yanchor": "bottom",
        "x": 0,
        "font": {"size": 12},
    },
    "hovermode": "closest",
    "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": INK}},
}
_UPRIGHT = {"xref": "x", "yref": "paper"}  # from the foot of the axes to their top

Json = dict[str, Any]


def render_plotly(panel: Panel) -> Json:
    """Return the figure: `data` and `layout`, ready for JSON, where a gap is null."""
    layout = _LAYOUT | {"margin": {"l": 56, "r": 14, "t": 14, "b": 48}}
    if panel.title:
        layout["title"] = {"text": as_html(panel.title), "font": {"size": 13}, "x": 0.02, "y": 0.97}
        layout["margin"]["t"] = 34
    layout["shapes"] = [
        *(_shape_of_shade(shade) for shade in panel.shades),
        *(_shape_of_mark(mark) for mark in panel.marks),
    ]
    layout["annotations"] = [
        *_labels_of_marks(panel.marks, panel.x.scale),
        *(_label_of_shade(shade, panel.x.scale) for shade in panel.shades),
        *(_annotation_of_note(note) for note in panel.notes),
    ]
    layout["xaxis"] = _axis(panel.x)
    layout["yaxis"] = _axis(panel.y)
    return {"data": [_trace(trace) for trace in panel.traces], "layout": layout}


def _shape_of_shade(shade: Shade) -> Json:
    return _UPRIGHT | {
        "type": "rect",
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "x0": shade.low,
        "x1": shade.high,
        "fillcolor": shade.colour,
        "opacity": 0.6,
        "line": {"width": 0},
    }


def _shape_of_mark(mark: Mark) -> Json:
    return _UPRIGHT | {
        "type": "line",
        "y0": 0,
        "y1": 1,
        "layer": "below",
        "x0": mark.x,
        "x1": mark.x,
        "line": {"color": mark.colour, "dash": mark.dash, "width": 1.5},
    }


def _labels_of_marks(marks: Sequence[Mark], scale: str) -> list[Json]:
    """Return the labels beside their lines, each below the last one on the same side."""
    labels: list[Json] = []
    for mark in marks:
        if not mark.label:
            continue
        n_above = sum(label["xanchor"] == mark.side for label in labels)
        shift = {"right": -PIXELS_BESIDE_A_MARK, "left": PIXELS_BESIDE_A_MARK}
        label = _UPRIGHT | {
            "x": _position(mark.x, scale),
            "y": 1,
            "text": as_html(mark.label),
            "showarrow": False,
            "xanchor": mark.side,
            "yanchor": "top",
            "font": {"size": 12, "color": INK},
            "bgcolor": "rgba(255,255,255,0.75)",
            "xshift": shift.get(mark.side, 0),
            "yshift": -PIXELS_OF_A_LINE_OF_TEXT * n_above,
        }
        labels.append(label)
    return labels


def _label_of_shade(shade: Shade, scale: str) -> Json:
    """Return the name of a region, on its own ground where a line would cross it."""
    middle = (_position(shade.low, scale) + _position(shade.high, scale)) / 2
    return _UPRIGHT | {
        "x": middle,
        "y": 1,
        "text": as_html(shade.label),
        "textangle": -90,
        "showarrow": False,
        "xanchor": "center",
        "yanchor": "top",
        "bgcolor": shade.colour,
    }


def _annotation_of_note(note: Note) -> Json:
    horizontal, vertical = note.anchor.split()
    return {
        "x": note.x,
        "y": note.y,
        "text": as_html(note.text),
        "showarrow": False,
        "xanchor": horizontal,
        "yanchor": vertical,
        "font": {"size": 12, "color": note.colour},
    }


def _axis(axis: Axis) -> Json:
    look: Json = {
        "gridcolor": GRID,
        "linecolor": INK,
        "zeroline": False,
        "ticks": "outside",
        "automargin": True,
        "title": {"text": as_html(axis.label)},
        "type": axis.scale,
    }
    if axis.low is not None and axis.high is not None:
        look["range"] = [_position(axis.low, axis.scale), _position(axis.high, axis.scale)]
    elif axis.low is not None and axis.low <= 0 and axis.scale == "linear":
        look["rangemode"] = "tozero"
    if axis.words:
        look |= {"tickvals": list(axis.ticks), "ticktext": list(axis.words), "showgrid": False}
    if axis.scale == "log":
        look |= {"exponentformat": "power", "dtick": "D2"}  # 1, 2, 5 in each decade
    return look


def _trace(trace: Trace) -> Json:
    if trace.kind == "cells":
        return _heatmap(trace)
    return _scatter(trace)


def _heatmap(trace: Trace) -> Json:
    """Return cells coloured from white to the trace's colour, with their numbers."""
    values, texts = zip(*trace.customdata, strict=True)
    return {
        "type": "heatmap",
        "x": list(trace.x),
        "y": list(trace.y),
        "z": list(values),
        "hovertext": list(texts),
        "hovertemplate": "%{hovertext}<br>%{z:.4f}<extra></extra>",
        "text": ["" if v is None else f"{v:.2f}" for v in values],
        "texttemplate": "%{text}",
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "#ffffff"], [1, trace.colour]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
    }


def _scatter(trace: Trace) -> Json:
    """Return a line, symbols, or a line with symbols."""
    label = as_html(trace.label)
    mode = _mode(trace)
    entry: Json = {
        "type": "scatter",
        "name": label,
        "showlegend": trace.in_legend and bool(label),
        "mode": mode,
        "x": _nulls(trace.x),
        "y": _nulls(trace.y),
        "hovertemplate": f"{_hover_text(trace, label)}<extra></extra>",
    }
    if "lines" in mode:
        width = PIXELS_OF_A_LINE * trace.width
        entry["line"] = {"color": trace.colour, "dash": trace.dash, "width": width}
    if "markers" in mode:
        size = PIXELS_OF_A_SYMBOL * trace.size
        entry["marker"] = {"color": trace.colour, "symbol": _symbol(trace), "size": size}
    if trace.y_error:
        bars = {"type": "data", "array": _nulls(trace.y_error), "thickness": 1.5}
        entry["error_y"] = bars | {"color": trace.colour}
    if trace.customdata:
        entry["customdata"] = [_nulls(row) for row in trace.customdata]
    return entry


def _mode(trace: Trace) -> str:
    """Return plotly's word for what is drawn: lines, symbols or both."""
    if trace.kind == "symbols":
        return "markers"
    if trace.marker:
        return "lines+markers"
    return "lines"


def _hover_text(trace: Trace, label: str) -> str:
    """Return the text shown beside the mouse: the label, where there is one, above the numbers."""
    numbers = trace.hover or "<br>%{x:.4g}<br>%{y:.6g}"
    if label:
        return f"<b>{label}</b>{numbers}"
    return numbers.removeprefix("<br>")


def _symbol(trace: Trace) -> str:
    """Return plotly's name of a symbol."""
    symbol = MARKERS.get(trace.marker, trace.marker) or "circle"
    if trace.hollow:
        return f"{symbol}-open"
    return symbol


def _position(value: float, scale: str) -> float:
    """Return where plotly wants ranges and annotations: at log10 of a value on such an axis."""
    if scale == "log":
        return math.log10(value)
    return value


def _nulls(values: Sequence[object]) -> list[object]:
    """Return the values for JSON, None for what is not finite."""
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
