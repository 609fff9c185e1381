"""Pictures for the page: figures of plotly as plain dictionaries, without importing it."""

from __future__ import annotations

import math
from typing import Any

from polyceptron.report.pictures.parts import (
    Axis,
    Numbers,
    Panel,
    Picture,
    Trace,
    as_html,
)

INK, GRID = "#222222", "#e3e3e3"
MARKERS = {"triangle": "triangle-up"}  # where plotly has another name
_SHIFT = {"right": -3, "left": 3}  # of a label beside its vertical, in pixels
Box = tuple[float, float, float, float]


def render_plotly(picture: Picture) -> dict[str, Any]:
    """The figure: `data` and `layout`, ready for JSON (a gap is null)."""
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "template": None,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 56, "r": 14, "t": 14, "b": 48},
        # At the foot of the container, where its rows push the plot up instead of covering it.
        "legend": {
            "orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0,
            "font": {"size": 12},
        },
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": INK}},
        "shapes": [],
        "annotations": [],
    }  # fmt: skip
    height = 1 / len(picture.panels)
    for i, panel in enumerate(picture.panels):
        gap = 0.12 * height if len(picture.panels) > 1 else 0.0
        box = (0.0, 1 - (i + 1) * height + gap, 1.0, height - gap)
        _add_panel(data, layout, panel, box)
        if panel.inset is not None:
            left, bottom, width, tall = panel.inset.box
            inner = (left, box[1] + bottom * box[3], width, tall * box[3])
            _add_panel(data, layout, panel.inset, inner)
    titles = [panel.title for panel in picture.panels if panel.title]
    if len(titles) == 1:
        layout["title"] = {"text": as_html(titles[0]), "font": {"size": 13}, "x": 0.02, "y": 0.97}
        layout["margin"]["t"] = 34
    return {"data": data, "layout": layout}


def _add_panel(data: list[dict[str, Any]], layout: dict[str, Any], panel: Panel, box: Box) -> None:
    number = sum(name.startswith("xaxis") for name in layout) + 1
    suffix = "" if number == 1 else str(number)
    left, bottom, width, height = box
    layout[f"xaxis{suffix}"] = _axis(panel.x)
    layout[f"yaxis{suffix}"] = _axis(panel.y)
    if box != (0.0, 0.0, 1.0, 1.0):
        layout[f"xaxis{suffix}"] |= {"domain": [left, left + width], "anchor": f"y{suffix}"}
        layout[f"yaxis{suffix}"] |= {"domain": [bottom, bottom + height], "anchor": f"x{suffix}"}
    axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"} if suffix else {}
    for trace in panel.traces:
        data += [one | axes for one in _traces(trace)]
    vertical = {"xref": f"x{suffix}", "yref": f"y{suffix} domain" if suffix else "paper"}
    span = {"y0": 0, "y1": 1, "layer": "below"}
    for shade in panel.shades:
        layout["shapes"].append(
            {"type": "rect", **vertical, "x0": shade.low, "x1": shade.high, **span,
             "fillcolor": shade.colour, "opacity": 0.6, "line": {"width": 0}}
        )  # fmt: skip
    for mark in panel.marks:
        stroke = {"color": mark.colour, "dash": mark.dash, "width": 1.5}
        line = {"type": "line", **vertical, "x0": mark.x, "x1": mark.x, **span, "line": stroke}
        layout["shapes"].append(line)
        if mark.label:
            words = _words_at(_place(mark.x, panel.x.scale), 1, mark.label, f"{mark.side} top")
            aside = {"xshift": _SHIFT.get(mark.side, 0), "bgcolor": "rgba(255,255,255,0.75)"}
            layout["annotations"].append(words | aside | vertical)
    for note in panel.notes:
        x, y = _place(note.x, panel.x.scale), _place(note.y, panel.y.scale)
        where = {"xref": f"x{suffix}", "yref": f"y{suffix}"}
        layout["annotations"].append(_words_at(x, y, note.text, note.anchor, note.colour) | where)


def _axis(axis: Axis) -> dict[str, Any]:
    look: dict[str, Any] = {
        "gridcolor": GRID, "linecolor": INK, "zeroline": False, "ticks": "outside",
        "automargin": True, "title": {"text": as_html(axis.label)}, "type": axis.scale,
    }  # fmt: skip
    if axis.low is not None and axis.high is not None:
        look["range"] = [_place(axis.low, axis.scale), _place(axis.high, axis.scale)]
    elif axis.low is not None and axis.low <= 0 and axis.scale == "linear":
        look["rangemode"] = "tozero"
    if axis.scale == "log":
        look |= {"exponentformat": "power", "dtick": "D2"}  # 1, 2, 5 in each decade
    if axis.ticks:
        look |= {"tickmode": "array", "tickvals": list(axis.ticks)}
    return look


def _traces(trace: Trace) -> list[dict[str, Any]]:
    """The trace; a band is its lower edge and, filled down to it, the upper one."""
    label = as_html(trace.label)
    entry: dict[str, Any] = {
        "type": "scatter",
        "name": label,
        "showlegend": trace.in_legend and bool(label),
    }
    if trace.kind == "band":
        edges = []
        for sign, fill in ((-1, {}), (1, {"fill": "tonexty", "fillcolor": trace.colour + "40"})):
            y = [a + sign * b for a, b in zip(trace.y, trace.y_error, strict=True)]
            edge = {"x": _nulls(trace.x), "y": _nulls(tuple(y)), "mode": "lines", **fill}
            edges.append(entry | edge | {"line": {"width": 0}, "hoverinfo": "skip"})
        return [edges[0] | {"showlegend": False}, edges[1]]
    symbol = MARKERS.get(trace.marker, trace.marker) or "circle"
    mode = "markers" if trace.kind == "symbols" else "lines+markers" if trace.marker else "lines"
    entry |= {"mode": mode, "x": _nulls(trace.x), "y": _nulls(trace.y)}
    if "lines" in mode:
        entry["line"] = {"color": trace.colour, "dash": trace.dash, "width": 2 * trace.width}
    if "markers" in mode:
        shape = symbol + ("-open" if trace.hollow else "")
        entry["marker"] = {"color": trace.colour, "symbol": shape, "size": 8 * trace.size}
    if trace.y_error:
        bars = {"type": "data", "array": _nulls(trace.y_error), "thickness": 1.5}
        entry["error_y"] = bars | {"color": trace.colour}
    if trace.customdata:
        entry["customdata"] = [_nulls(row) for row in trace.customdata]
    words = trace.hover or "<br>%{x:.4g}<br>%{y:.6g}"
    words = f"<b>{label}</b>{words}" if label else words.removeprefix("<br>")
    return [entry | {"hovertemplate": f"{words}<extra></extra>"}]


def _words_at(x: float, y: float, text: str, anchor: str, colour: str = INK) -> dict[str, Any]:
    across, up = anchor.split()
    return {
        "x": x, "y": y, "text": as_html(text), "showarrow": False, "xanchor": across,
        "yanchor": up, "font": {"size": 12, "color": colour},
    }  # fmt: skip


def _place(value: float, scale: str) -> float:
    """Where plotly wants ranges and annotations of a logarithmic axis."""
    return math.log10(value) if scale == "log" else value


def _nulls(values: Numbers | tuple[Any, ...]) -> list[Any]:
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
