"""A panel for the page: a figure of plotly as plain dictionaries, without importing it.

The page draws lines, symbols and cells on one pair of axes; bands and insets are for paper.
"""

import math
from typing import Any

from polyceptron.pictures.parts import Axis, Panel, Trace, as_html

INK, GRID = "#222222", "#e3e3e3"
MARKERS = {"triangle": "triangle-up"}  # where plotly has another name
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


def render_plotly(panel: Panel) -> dict[str, Any]:
    """The figure: `data` and `layout`, ready for JSON (a gap is null)."""
    layout = _LAYOUT | {"margin": {"l": 56, "r": 14, "t": 14, "b": 48}}
    if panel.title:
        layout["title"] = {"text": as_html(panel.title), "font": {"size": 13}, "x": 0.02, "y": 0.97}
        layout["margin"]["t"] = 34
    vertical = {"xref": "x", "yref": "paper"}
    span = {**vertical, "y0": 0, "y1": 1, "layer": "below"}
    shapes: list[dict[str, Any]] = [
        {
            "type": "rect",
            **span,
            "x0": shade.low,
            "x1": shade.high,
            "fillcolor": shade.colour,
            "opacity": 0.6,
            "line": {"width": 0},
        }
        for shade in panel.shades
    ]
    words: list[dict[str, Any]] = []
    for mark in panel.marks:
        stroke = {"color": mark.colour, "dash": mark.dash, "width": 1.5}
        shapes.append({"type": "line", **span, "x0": mark.x, "x1": mark.x, "line": stroke})
        if mark.label:  # 3 pixels beside it, 18 below the last of the same side
            below = sum(one["xanchor"] == mark.side for one in words)
            words.append(
                {
                    "x": _place(mark.x, panel.x.scale),
                    "y": 1,
                    "text": as_html(mark.label),
                    "showarrow": False,
                    "xanchor": mark.side,
                    "yanchor": "top",
                    "font": {"size": 12, "color": INK},
                    "bgcolor": "rgba(255,255,255,0.75)",
                    "xshift": {"right": -3, "left": 3}.get(mark.side, 0),
                    "yshift": -18 * below,
                    **vertical,
                }
            )
    for shade in panel.shades:  # its name, on its own ground where a line would cross it
        low, high = (_place(x, panel.x.scale) for x in (shade.low, shade.high))
        words.append(
            {
                "x": (low + high) / 2,
                "y": 1,
                "text": as_html(shade.label),
                "textangle": -90,
                "showarrow": False,
                "xanchor": "center",
                "yanchor": "top",
                "bgcolor": shade.colour,
                **vertical,
            }
        )
    for note in panel.notes:
        ha, va = note.anchor.split()
        words.append(
            {
                "x": note.x,
                "y": note.y,
                "text": as_html(note.text),
                "showarrow": False,
                "xanchor": ha,
                "yanchor": va,
                "font": {"size": 12, "color": note.colour},
            }
        )
    layout |= {"shapes": shapes, "annotations": words}
    layout |= {"xaxis": _axis(panel.x), "yaxis": _axis(panel.y)}
    return {"data": [_trace(trace) for trace in panel.traces], "layout": layout}


def _axis(axis: Axis) -> dict[str, Any]:
    look: dict[str, Any] = {
        "gridcolor": GRID,
        "linecolor": INK,
        "zeroline": False,
        "ticks": "outside",
        "automargin": True,
        "title": {"text": as_html(axis.label)},
        "type": axis.scale,
    }
    if axis.low is not None and axis.high is not None:
        look["range"] = [_place(axis.low, axis.scale), _place(axis.high, axis.scale)]
    elif axis.low is not None and axis.low <= 0 and axis.scale == "linear":
        look["rangemode"] = "tozero"
    if axis.words:
        look |= {"tickvals": list(axis.ticks), "ticktext": list(axis.words), "showgrid": False}
    if axis.scale == "log":
        look |= {"exponentformat": "power", "dtick": "D2"}  # 1, 2, 5 in each decade
    return look


def _trace(trace: Trace) -> dict[str, Any]:
    label = as_html(trace.label)
    words = trace.hover or "<br>%{x:.4g}<br>%{y:.6g}"
    words = f"<b>{label}</b>{words}" if label else words.removeprefix("<br>")
    if trace.kind == "cells":
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
    symbols = trace.kind == "symbols"
    entry: dict[str, Any] = {
        "type": "scatter",
        "name": label,
        "showlegend": trace.in_legend and bool(label),
        "mode": "markers" if symbols else "lines+markers" if trace.marker else "lines",
        "x": _nulls(trace.x),
        "y": _nulls(trace.y),
        "hovertemplate": f"{words}<extra></extra>",
    }
    if not symbols:
        entry["line"] = {"color": trace.colour, "dash": trace.dash, "width": 2 * trace.width}
    if "markers" in entry["mode"]:
        shape = (MARKERS.get(trace.marker, trace.marker) or "circle") + "-open" * trace.hollow
        entry["marker"] = {"color": trace.colour, "symbol": shape, "size": 8 * trace.size}
    if trace.y_error:
        bars = {"type": "data", "array": _nulls(trace.y_error), "thickness": 1.5}
        entry["error_y"] = bars | {"color": trace.colour}
    if trace.customdata:
        entry["customdata"] = [_nulls(row) for row in trace.customdata]
    return entry


def _place(value: float, scale: str) -> float:
    """Where plotly wants ranges and annotations of a logarithmic axis."""
    return math.log10(value) if scale == "log" else value


def _nulls(values: tuple[Any, ...]) -> list[Any]:
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in values]
