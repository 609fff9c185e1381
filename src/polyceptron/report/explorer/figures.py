"""Plotly figures as plain dictionaries, each a function of rows.

Theory is drawn as lines and simulations as symbols with standard errors, in the colours of the
paper's figures; transitions are labelled verticals and the hard phase is a band between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from polyceptron.report.explorer.compute import Row
from polyceptron.report.explorer.state import State
from polyceptron.report.explorer.traces import Simulated, branches, derived, line, symbols
from polyceptron.report.style import COLOURS, LABELS

Figure = dict[str, Any]
INK, GRID, BAND, QUIET = "#222222", "#e3e3e3", "#f6e3b4", "#5c5c5c"
BRANCHES = {"amp": ("AMP", COLOURS["amp"], "dash"), "unstable": ("barrier", "#7a7a7a", "dot")}
SHOWN = {
    "correlation": "correlation m/√q",
    "variance": "variance V",
    "training-error": "training error",
    "training-loss": "training loss",
}


def learning_figure(
    state: State,
    curves: Mapping[str, Sequence[Row]],
    transitions: Mapping[str, Any] | None,
    simulations: Sequence[Simulated] = (),
) -> Figure:
    """Generalisation error against α."""
    traces = []
    for name, rows in curves.items():
        for branch, part in branches(rows, transitions):
            label, colour, dash = BRANCHES.get(branch, (LABELS[name], COLOURS[name], "solid"))
            traces.append(line(part, "generalisation_error", label, colour, dash))
    for one in simulations:
        traces.append(symbols(one, "generalisation_error"))
    layout = _layout("sample complexity α = n/d", "generalisation error ε", state, state.scale)
    _vertical(layout, state)
    _mark_transitions(layout, state, transitions)
    return {"data": traces, "layout": layout}


def order_figure(
    state: State,
    curves: Mapping[str, Sequence[Row]],
    transitions: Mapping[str, Any] | None = None,
    simulations: Sequence[Simulated] = (),
) -> Figure:
    """Order parameters (or what the page asks for) against α."""
    traces: list[dict[str, Any]] = []
    both = state.shown == "overlaps"
    for name, rows in curves.items():
        for branch, part in branches(rows, transitions):
            label, colour, dash = BRANCHES.get(branch, (LABELS[name], COLOURS[name], "solid"))
            if both and name != "bayes":
                traces.append(line(part, "q", label, colour, dash, "q "))
                traces.append(line(part, "m", label, colour, "dashdot", "m "))
                traces[-1]["showlegend"] = False
            elif both:
                traces.append(line(part, "q", label, colour, dash, "q = m "))
            else:
                part = [derived(row, state.shown) for row in part]
                if any(row["shown"] is not None for row in part):
                    traces.append(line(part, "shown", label, colour, dash))
    for one in simulations:
        if both:
            traces.append(symbols(one, "q", "q "))
            traces.append(symbols(one, "m", "m ", hollow=True))
            traces[-1]["showlegend"] = False
        else:
            rows = [derived(row, state.shown) for row in one.rows]
            if any(row["shown"] is not None for row in rows):
                traces.append(symbols(Simulated(one.state, rows, 0), "shown"))
    title = "q (solid), m (dash-dotted)" if both else SHOWN[state.shown]
    layout = _layout("sample complexity α = n/d", title, state, state.scale)
    _vertical(layout, state)
    return {"data": traces, "layout": layout}


def landscape_figure(state: State, found: Mapping[str, Any] | None, phase: str) -> Figure:
    """Free entropy against the overlap at the chosen α, with its extrema."""
    layout = _layout("overlap q", "free entropy Φ", state, "linear")
    layout["xaxis"]["range"] = [-0.03, 1.03]
    if found is None:
        return {"data": [], "layout": layout}
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"Φ at α = {found['alpha']:.4g}",
            "x": found["q"],
            "y": found["free_entropy"],
            "line": {"color": INK, "width": 2},
            "hovertemplate": "q %{x:.4f}<br>Φ %{y:.5f}<extra></extra>",
        }
    ]
    looks = {
        "optimal": ("best: Bayes-optimal", "star", COLOURS["bayes"], 15),
        "amp": ("reached by AMP", "circle", COLOURS["amp"], 10),
        "informed": ("perfect learning", "diamond-open", COLOURS["cross-entropy"], 11),
        "unstable": ("barrier", "circle-open", "#7a7a7a", 10),
    }
    for point in found["extrema"]:
        label, symbol, colour, size = looks[point["branch"]]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label,
                "x": [point["q"]],
                "y": [point["free_entropy"]],
                "marker": {"symbol": symbol, "color": colour, "size": size, "line": {"width": 2}},
                "customdata": [[point["generalisation_error"], point["uncertainty"]]],
                "hovertemplate": f"{label}<br>q %{{x:.6f}}<br>Φ %{{y:.6f}}<br>"
                "ε %{customdata[0]:.6g} ± %{customdata[1]:.1g}<extra></extra>",
            }
        )
    heights = [value for value in found["free_entropy"] if value is not None]
    start, top = found["free_entropy"][0], max(heights)
    # A Gaussian prior sends Φ to −∞ at q = 1: keep the extrema in sight.
    depth = max(3 * (top - start), top - min(p["free_entropy"] for p in found["extrema"]), 0.02)
    low = max(min(heights), top - 1.15 * depth)
    layout["yaxis"]["range"] = [low - 0.08 * (top - low), top + 0.12 * (top - low)]
    if phase:
        layout["title"] = {"text": phase, "font": {"size": 13}, "x": 0.02, "y": 0.97}
        layout["margin"]["t"] = 34
    return {"data": traces, "layout": layout}


def phase_words(state: State, transitions: Mapping[str, Any] | None) -> str:
    """Where the chosen α lies, in a few words."""
    if not state.finite_prior:
        return "no transition: the error decays smoothly"
    if not transitions or transitions.get("alpha_it") is None:
        return ""
    if state.alpha < transitions["alpha_it"]:
        return "perfect learning is impossible here"
    if state.alpha < transitions["alpha_algo"]:
        return "hard phase: perfect learning is best, AMP stays behind"
    return "easy phase: AMP learns perfectly"


def _layout(x_title: str, y_title: str, state: State, scale: str) -> Figure:
    axis = {
        "gridcolor": GRID,
        "linecolor": INK,
        "zeroline": False,
        "ticks": "outside",
        "automargin": True,
    }
    return {
        "template": None,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 56, "r": 14, "t": 14, "b": 48},
        "xaxis": {**axis, "title": {"text": x_title}, "type": scale},
        "yaxis": {**axis, "title": {"text": y_title}, "type": "linear"},
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
        # Zooming survives new results, not a new problem.
        "uirevision": f"{state.model}{state.k}{state.prior}{state.low}{state.high}{state.scale}"
        f"{state.error_scale}{state.shown}",
    }


def _vertical(layout: Figure, state: State) -> None:
    """The vertical axis as the page asks for it."""
    layout["yaxis"]["type"] = state.error_scale
    if state.error_scale == "linear":
        layout["yaxis"]["rangemode"] = "tozero"
    else:
        layout["yaxis"] |= {"exponentformat": "power", "dtick": "D2"}  # 1, 2, 5 in each decade


def _mark_transitions(layout: Figure, state: State, transitions: Mapping[str, Any] | None) -> None:
    """Verticals at the transitions with their names, the hard phase between, and the chosen α."""

    def vertical(x: float, colour: str, dash: str) -> dict[str, Any]:
        stroke = {"color": colour, "dash": dash, "width": 1.5}
        return {
            "type": "line", "xref": "x", "yref": "paper",
            "x0": x, "x1": x, "y0": 0, "y1": 1, "line": stroke, "layer": "below",
        }  # fmt: skip

    shapes = [vertical(state.alpha, "#9a9a9a", "dot")]
    notes = []
    if transitions and transitions.get("alpha_it") is not None:
        it, algo = transitions["alpha_it"], transitions["alpha_algo"]
        if it < state.high and algo > state.low:
            band = {
                "type": "rect", "xref": "x", "yref": "paper",
                "x0": max(it, state.low), "x1": min(algo, state.high), "y0": 0, "y1": 1,
                "fillcolor": BAND, "opacity": 0.6, "line": {"width": 0}, "layer": "below",
            }  # fmt: skip
            shapes.insert(0, band)
        for value, name, side in (
            (it, "α<sub>IT</sub>", "right"),
            (algo, "α<sub>algo</sub>", "left"),
        ):
            if state.low <= value <= state.high:
                shapes.append(vertical(value, QUIET, "dash"))
                notes.append(_label_at(value, f"{name} = {value:.4g}", side, state.scale))
    layout["shapes"], layout["annotations"] = shapes, notes


def _label_at(x: float, text: str, side: str, scale: str) -> dict[str, Any]:
    return {
        "x": math.log10(x) if scale == "log" else x,
        "y": 1,
        "xref": "x",
        "yref": "paper",
        "text": text,
        "showarrow": False,
        "xanchor": side,
        "yanchor": "top",
        "xshift": -3 if side == "right" else 3,
        "font": {"size": 12, "color": INK},
        "bgcolor": "rgba(255,255,255,0.75)",
    }
