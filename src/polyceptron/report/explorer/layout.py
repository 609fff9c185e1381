"""The page: controls on the left (above, on a narrow screen), figures on the right.

Every control is a native form element with a label, so that a keyboard and a screen reader work.
"""

from __future__ import annotations

import math
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.state import LIMITS, NAMES, State
from polyceptron.report.style import LABELS

TITLE = "polyceptron explorer"
POLL = 400  # milliseconds between two looks at running work
GRAPHS = ("learning", "order", "landscape")
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


def page(session: str) -> Any:
    """The whole page for one visitor."""
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="session", data=session),
            dcc.Store(id="state"),
            dcc.Store(id="drawn"),
            dcc.Store(id="jobs-changed", data=0),
            dcc.Store(id="png-done"),
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
                [_controls(), html.Main(_figures(), id="figures", tabIndex="-1")],
                className="columns",
            ),
        ],
        className="page",
    )


def _controls() -> Any:
    return html.Section(
        [
            html.H2("Problem"),
            _radio("model", "Model"),
            _number("k", "Classes k"),
            _radio("prior", "Weights of the teacher"),
            html.H2("Estimators"),
            _fieldset("Draw", _checklist(), control_id("estimators")),
            _range("ridge", "Ridge λ", math.log10(LIMITS["ridge"].low), 4, -1, 0.01),
            _radio("ridge_rule", "Ridge used"),
            html.H2("Axes"),
            html.Div([_number("low", "α from"), _number("high", "α to")], className="pair"),
            _number("points", "Points"),
            _radio("scale", "α axis"),
            _radio("error_scale", "Error axis"),
        ],
        className="controls",
        **named("Settings"),
    )


def _figures() -> list[Any]:
    return [
        html.Div(id="message", role="alert"),
        html.Div(id="status", role="status", className="status"),
        _graph("learning", "Learning curves", "tall"),
        html.Div(
            [
                html.Div(
                    [_graph("order", "Order parameters", "short"), _radio("shown", "Show")],
                ),
                html.Div(
                    [
                        _graph("landscape", "Free-entropy landscape", "short"),
                        _range("alpha", "Chosen α", 0, 4, 2.3, 0.01),
                    ],
                ),
            ],
            className="two",
        ),
        _simulations(),
        _take_away(),
    ]


def _simulations() -> Any:
    return html.Section(
        [
            html.H2("Simulations"),
            html.P(
                "Draw data from the teacher, fit, and put the measured errors on the figure: "
                "symbols are means over the runs, bars their standard errors.",
                className="hint",
            ),
            _radio("simulation", "Method"),
            html.Div(
                [
                    _number("dimension", "Dimension d"),
                    _number("places", "Values of α"),
                    _number("runs", "Runs at each"),
                    _number("seed", "Seed"),
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


def _graph(name: str, title: str, size: str) -> Any:
    graph = dcc.Graph(
        id=name,
        className=f"graph {size}",
        responsive=True,
        config={
            "displaylogo": False,
            "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
            "toImageButtonOptions": {
                "format": "png",
                "filename": f"polyceptron-{name}",
                "scale": 2,
            },
        },
    )
    return html.Section([html.H2(title, id=f"{name}-title"), graph], className="card figure")


def _number(name: str, label: str) -> Any:
    limit = LIMITS[name]
    return html.Div(
        [
            html.Label(label, htmlFor=control_id(name)),
            dcc.Input(
                id=control_id(name),
                type="number",
                value=getattr(State(), name),
                min=limit.low,
                max=limit.high,
                step=1 if limit.whole else "any",
                debounce=0.4,
            ),
        ],
        className="field",
    )


def _range(name: str, label: str, low: float, high: float, value: float, step: float) -> Any:
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
                min=low,
                max=high,
                step=step,
                value=value,
                debounce=0.15,
            ),
        ],
        className="field",
    )


def _radio(name: str, label: str) -> Any:
    options = [{"label": words, "value": value} for value, words in WORDS[name].items()]
    radios = dcc.RadioItems(
        id=control_id(name), options=options, value=getattr(State(), name), className="choices"
    )
    return _fieldset(label, radios, control_id(name))


def _checklist() -> Any:
    names = ("bayes", "cross-entropy", "square", "max-margin")
    return dcc.Checklist(
        id=control_id("estimators"),
        options=[{"label": LABELS[name], "value": name} for name in names],
        value=list(State().estimators),
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
