"""The page: controls on the left (above, on a narrow screen), figures on the right.

Every control is a native form element with a label, so that a keyboard and a screen reader work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.state import LIMITS, NAMES, State
from polyceptron.report.style import LABELS

POLL = 250  # milliseconds between two looks at running work
HEIGHTS = {"learning": "460px", "order": "380px", "landscape": "380px"}
RIDGE_RANGE: dict[str, Any] = {
    "min": math.log10(LIMITS["ridge"].low),
    "max": math.log10(LIMITS["ridge"].high),
    "step": 0.01,
}
WORDS = {
    "model": {"argmax": "argmax (k classes)", "perceptron": "perceptron (one vector)"},
    "prior": {"gaussian": "Gaussian", "rademacher": "Rademacher ±1", "ternary": "ternary −1, 0, 1"},
    "ridge_rule": {"fixed": "the slider's", "optimal": "optimal at each α"},
    "scale": {"linear": "linear", "log": "logarithmic"},
    "error_scale": {"linear": "linear", "log": "logarithmic"},
    "shown": {
        "overlaps": "overlaps m, q",
        "correlation": "correlation m/√q",
        "variance": "variance V",
        "training-error": "training error",
        "training-loss": "training loss",
    },
    "simulation": {
        "amp": "AMP",
        "cross-entropy": "cross-entropy",
        "square": "square loss",
        "max-margin": "max-margin",
    },
}


def control_id(name: str) -> str:
    """The id of the control of a setting."""
    return f"control-{name}"


def named(words: str) -> dict[str, Any]:
    """The name of an element for those who cannot see it."""
    return {"aria-label": words}


def page(session: str, state: State, figures: Mapping[str, Any], mark: str | None) -> Any:
    """The whole page for one visitor, with the figures that are there already (`mark` says so)."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="session", data=session),
            dcc.Store(id="state"),
            dcc.Store(id="drawn", data=mark),
            dcc.Store(id="jobs-changed", data=0),
            dcc.Store(id="png-done"),
            dcc.Store(id="groups-named"),
            dcc.Interval(id="poll", interval=POLL, disabled=True),
            dcc.Download(id="download"),
            html.A("Skip to the figures", href="#figures", className="skip"),
            html.Header(
                [
                    html.H1("polyceptron explorer"),
                    html.P(
                        "How well can a linear classifier learn a k-class rule from n = αd "
                        "examples? Exact curves for large d, and simulations beside them."
                    ),
                ]
            ),
            html.Div(
                [
                    _controls(state),
                    html.Main(_figures(state, figures), id="figures", tabIndex="-1"),
                ],
                className="columns",
            ),
        ],
        className="page",
    )


def _controls(state: State) -> Any:
    return html.Section(
        [
            html.H2("Problem"),
            _radio(state, "model", "Model"),
            _number(state, "k", "Classes k"),
            _radio(state, "prior", "Weights of the teacher"),
            html.H2("Estimators"),
            _fieldset("Draw", _checklist(state), control_id("estimators")),
            _range(state, "ridge", "Ridge λ (logarithmic)"),
            _radio(state, "ridge_rule", "Ridge used"),
            html.H2("Axes"),
            html.Div(
                [_number(state, "low", "α from"), _number(state, "high", "α to")], className="pair"
            ),
            _number(state, "points", "Points"),
            _radio(state, "scale", "α axis"),
            _radio(state, "error_scale", "Vertical axes"),
        ],
        className="controls",
        **named("Settings"),
    )


def _figures(state: State, figures: Mapping[str, Any]) -> list[Any]:
    return [
        html.Div(id="message", role="alert"),
        html.Div(id="status", role="status", className="status"),
        _graph("learning", "Learning curves", figures.get("learning"), figures.get("preview")),
        html.Div(
            [
                html.Div(
                    [
                        _graph("order", "Order parameters", figures.get("order")),
                        _radio(state, "shown", "Show"),
                    ],
                ),
                html.Div(
                    [
                        _graph("landscape", "Free-entropy landscape", figures.get("landscape")),
                        _range(state, "alpha", "Chosen α"),
                    ],
                ),
            ],
            className="two",
        ),
        _simulations(state),
        _take_away(),
    ]


def _simulations(state: State) -> Any:
    return html.Section(
        [
            html.H2("Simulations"),
            html.P(
                "Draw data from the teacher, fit, and put the measured errors on the figure: "
                "symbols are means over the runs, bars their standard errors.",
                className="hint",
            ),
            _radio(state, "simulation", "Method"),
            html.Div(
                [
                    _number(state, "dimension", "Dimension d"),
                    _number(state, "places", "Values of α"),
                    _number(state, "runs", "Runs at each"),
                    _number(state, "seed", "Seed"),
                ],
                className="row",
            ),
            html.Button("Add simulation", id="simulate", className="main"),
            html.Div(id="simulation-message", role="alert"),
            html.Ul(id="jobs", className="jobs", **named("Simulations")),
        ],
        className="card",
    )


def _take_away() -> Any:
    return html.Section(
        [
            html.H2("Share and download"),
            html.P(
                "The address of this page holds every setting (simulations run again from their "
                "seed). Copy it to share what you see.",
                className="hint",
            ),
            html.Div(
                [
                    html.Label("Link", htmlFor="link"),
                    dcc.Input(id="link", type="text", readOnly=True, className="link"),
                ],
                className="field",
            ),
            html.Div(
                [
                    html.Button("Download CSV", id="get-csv"),
                    html.Button("Download PNG", id="get-png"),
                    html.Button("Download Python", id="get-python"),
                ],
                className="buttons",
            ),
            html.Details(
                [
                    html.Summary("Python lines for these curves"),
                    html.Pre(id="python", tabIndex="0", **named("Python lines")),
                ]
            ),
        ],
        className="card",
    )


def _graph(name: str, title: str, figure: Any, preview: str | None = None) -> Any:
    graph = dcc.Graph(
        id=name,
        figure=figure,
        style={"height": HEIGHTS[name]},
        responsive=True,
        config={
            "displaylogo": False,
            # Named one by one: plotly's own choice has a button that uploads the chart.
            "modeBarButtons": [
                ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
            ],
            "plotlyServerURL": "",
            "toImageButtonOptions": {
                "format": "png",
                "filename": f"polyceptron-{name}",
                "scale": 2,
            },
        },
    )
    style = {"minHeight": HEIGHTS[name]}
    if preview:  # seen until the live figure is drawn in its place; see explorer.css
        style["backgroundImage"] = f"url({preview})"
    plot = html.Div(graph, className="plot", style=style)
    return html.Section([html.H2(title, id=f"{name}-title"), plot], className="card figure")


def _number(state: State, name: str, label: str) -> Any:
    limit = LIMITS[name]
    return html.Div(
        [
            html.Label(label, htmlFor=control_id(name)),
            dcc.Input(
                id=control_id(name),
                type="number",
                value=shown_values(state)[name],
                min=limit.low,
                max=limit.high,
                step=1 if limit.whole else "any",
                debounce=0.4,
            ),
        ],
        className="field",
    )


def _range(state: State, name: str, label: str) -> Any:
    return html.Div(
        [
            html.Div(
                [
                    html.Label(label, htmlFor=control_id(name)),
                    html.Output(id=f"{name}-value", htmlFor=control_id(name)),
                ],
                className="range-label",
            ),
            dcc.Input(
                id=control_id(name),
                type="range",
                value=shown_values(state)[name],
                debounce=0.15,
                **(alpha_range(state) if name == "alpha" else RIDGE_RANGE),
            ),
        ],
        className="field",
    )


def alpha_range(state: State) -> dict[str, Any]:
    """The ends and the step of the slider of the chosen α."""
    step = float(f"{(state.high - state.low) / 400:.3g}")
    return {"min": state.low, "max": state.high, "step": step}


def _radio(state: State, name: str, label: str) -> Any:
    options = [{"label": words, "value": value} for value, words in WORDS[name].items()]
    radios = dcc.RadioItems(
        id=control_id(name), options=options, value=shown_values(state)[name], className="choices"
    )
    return _fieldset(label, radios, control_id(name))


def _checklist(state: State) -> Any:
    names = ("bayes", "cross-entropy", "square", "max-margin")
    return dcc.Checklist(
        id=control_id("estimators"),
        options=[{"label": LABELS[name], "value": name} for name in names],
        value=list(state.estimators),
        className="choices",
    )


def _fieldset(legend: str, content: Any, name: str) -> Any:
    return html.Fieldset([html.Legend(legend), content], id=f"{name}-group")


def shown_values(state: State) -> dict[str, Any]:
    """The value of each control for this state; the ridge's slider is logarithmic."""
    values = state.as_dict()
    values["ridge"] = round(math.log10(state.ridge), 6)
    return {name: values[name] for name in NAMES}


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that the controls' values mean: the inverse of `shown_values`."""
    settings = dict(values)
    for name in ("ridge", "alpha"):
        try:
            number = float(settings[name])
            settings[name] = float(f"{10**number if name == 'ridge' else number:.6g}")
        except (TypeError, ValueError, OverflowError):
            pass  # `make_state` has the sentence
    return settings
