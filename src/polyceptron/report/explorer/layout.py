"""The page: the learning curves, the settings (at their left on a wide screen), and the rest.

On a narrow screen the settings are folded below the first figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.controls import (
    estimator_boxes,
    named,
    number,
    radio,
    slider,
    spectrum_figure,
)
from polyceptron.report.explorer.page_settings import PageSettings
from polyceptron.report.explorer.request_guard import TOKEN_FIELD
from polyceptron.report.explorer.simulation_card import GIGABYTES, simulation_card
from polyceptron.report.explorer.theory_queue import TIME_LIMIT

POLL = {True: 1200, False: 250}  # milliseconds between two looks at work, by whether it is slow
HEARTBEAT = 30_000  # and between two signs of life
HEIGHTS = {"learning": "460px", "order": "380px", "landscape": "380px"}


def page(
    token: str,
    key: str | None,
    settings: PageSettings,
    figures: Mapping[str, Any],
    drawn: dict[str, Any] | None,
) -> Any:
    """The whole page for one visitor, with the figures that are there already (`drawn` says so).

    `key` opens this server to those who have the link, if other machines can reach it.
    """
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id=TOKEN_FIELD["id"], data=token),
            dcc.Store(id="address-key", data=key),
            dcc.Store(id="settings"),
            dcc.Store(id="drawn", data=drawn),
            dcc.Store(id="followed-range"),
            dcc.Store(id="simulations-shown"),
            dcc.Store(id="simulations-changed", data=0),
            dcc.Store(id="png-done"),
            dcc.Store(id="page-tidied"),
            dcc.Interval(id="poll", interval=POLL[False], disabled=True),
            dcc.Interval(id="heartbeat", interval=HEARTBEAT),
            dcc.Download(id="download"),
            html.A("Skip to the settings", href="#settings-fold", className="skip"),
            html.Header(
                [
                    html.H1("polyceptron explorer"),
                    html.P(
                        "How well can a linear classifier learn a k-class rule from n = αd "
                        "examples? Exact curves for large d, and simulations beside them."
                    ),
                ]
            ),
            html.Main(
                [
                    html.Div(_first(figures), className="first"),
                    html.Details(
                        [html.Summary("Settings"), _controls(settings)],
                        id="settings-fold",
                        className="settings",
                        open=True,
                    ),
                    html.Div(_rest(settings, key, figures), className="rest"),
                ],
                className="columns",
            ),
        ],
        className="page",
    )


def _controls(settings: PageSettings) -> Any:
    return html.Section(
        [
            html.H2("Problem"),
            radio(settings, "model", "Model"),
            number(settings, "k", "Classes k"),
            radio(settings, "prior", "Weights of the teacher"),
            radio(settings, "noise", "Noise of the labels"),
            slider(settings, "level", "Level (logarithmic)"),
            radio(settings, "features", "Spectrum of the features"),
            spectrum_figure(settings),
            html.H2("Estimators"),
            estimator_boxes(settings),
            slider(settings, "ridge", "Ridge λ (logarithmic)"),
            radio(settings, "ridge_rule", "Ridge used"),
            html.H2("Axes"),
            radio(settings, "range_rule", "Range of α"),
            html.Div(
                [number(settings, "low", "α from"), number(settings, "high", "α to")],
                className="pair",
            ),
            number(settings, "points", "Points"),
            radio(settings, "scale", "α axis"),
            radio(settings, "error_scale", "Vertical axes"),
            html.P(
                f"A curve may take {TIME_LIMIT:.0f} s and {GIGABYTES} of memory, and is then "
                "stopped with a word.",
                className="hint",
            ),
        ],
        className="controls",
        **named("Settings"),
    )


def _first(figures: Mapping[str, Any]) -> list[Any]:
    return [
        html.Div(id="message", role="alert"),
        html.Div(id="status", role="status", className="status"),
        _graph("learning", "Learning curves", figures.get("learning"), figures.get("preview")),
    ]


def _rest(settings: PageSettings, key: str | None, figures: Mapping[str, Any]) -> list[Any]:
    order = _graph("order", "Order parameters", figures.get("order"))
    landscape = _graph("landscape", "Free-entropy landscape", figures.get("landscape"))
    return [
        html.Div(
            [
                html.Div(
                    [
                        order,
                        radio(settings, "shown", "Show"),
                        html.Div(id="shown-note", className="hint", role="status"),
                    ]
                ),
                html.Div([landscape, slider(settings, "alpha", "Chosen α")]),
            ],
            className="two",
        ),
        simulation_card(settings),
        _take_away(key),
    ]


def _take_away(key: str | None) -> Any:
    reach = (
        "It opens on this machine only, while the explorer runs."
        if key is None
        else "Whoever can reach this machine and has the link can compute here."
    )
    return html.Section(
        [
            html.H2("Share and download"),
            html.P(
                "The link holds every setting, and the simulations, which run again from their "
                f"seeds. {reach}",
                className="hint",
            ),
            html.Div(
                [
                    html.Label(
                        "Link for this machine" if key is None else "Link with its key",
                        htmlFor="link",
                    ),
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
    plot = html.Div(graph, id=f"{name}-plot", className="plot", style=style)
    return html.Section([html.H2(title, id=f"{name}-title"), plot], className="card figure")
