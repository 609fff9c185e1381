"""The controls of the page: native, with labels, so that a keyboard and a screen reader work.

The part of the page where simulations are asked for and listed.

The page: the learning curves, the settings (at their left on a wide screen), and the rest.

On a narrow screen the settings are folded below the first figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.page_figures import spectrum_picture
from polyceptron.report.explorer.server import TOKEN_FIELD
from polyceptron.report.explorer.settings import (
    CHOICES,
    ESTIMATORS,
    LIMITS,
    NAMES,
    NO_NOISE,
    SPECTRA,
    PageSettings,
    level_range,
    noise_parameter,
    words_for,
)
from polyceptron.report.explorer.simulation_runs import MAX_INSTANCES, MAX_KEPT
from polyceptron.report.explorer.simulations import MAX_RUNNING, Simulation
from polyceptron.report.explorer.simulations import TIME_LIMIT as SIMULATION_SECONDS
from polyceptron.report.explorer.theory_queue import TIME_LIMIT
from polyceptron.report.explorer.worker_main import MEMORY_LIMIT
from polyceptron.report.pictures.style import LABELS

LOGARITHMIC = ("ridge", "level")
RIDGE_RANGE: dict[str, Any] = {
    "min": math.log10(LIMITS["ridge"].low),
    "max": math.log10(LIMITS["ridge"].high),
    "step": 0.01,
}


def control_id(name: str) -> str:
    """The id of the control of a setting."""
    return f"control-{name}"


def named(words: str) -> dict[str, Any]:
    """The name of an element for those who cannot see it."""
    return {"aria-label": words}


def number(settings: PageSettings, name: str, label: str) -> Any:
    """A box for a number within its limits."""
    limit = LIMITS[name]
    return html.Div(
        [
            html.Label(label, htmlFor=control_id(name)),
            dcc.Input(
                id=control_id(name),
                type="number",
                value=shown_values(settings)[name],
                min=limit.low,
                max=limit.high,
                step=1 if limit.whole else "any",
                debounce=0.4,
            ),
        ],
        className="field",
    )


def slider(settings: PageSettings, name: str, label: str) -> Any:
    """A slider with its value beside its label."""
    ranges = {"alpha": alpha_range, "level": noise_range}
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
                value=shown_values(settings)[name],
                debounce=0.15,
                **(ranges[name](settings) if name in ranges else RIDGE_RANGE),
            ),
        ],
        className="field",
    )


def alpha_range(settings: PageSettings) -> dict[str, Any]:
    """The ends and the step of the slider of the chosen α."""
    step = float(f"{(settings.high - settings.low) / 400:.3g}")
    return {"min": settings.low, "max": settings.high, "step": step}


def noise_range(settings: PageSettings) -> dict[str, Any]:
    """The ends and the step of the slider of the noise, which is logarithmic."""
    low, high = level_range(settings.noise, settings.teacher.n_classes)
    return {"min": round(math.log10(low), 2), "max": math.floor(100 * math.log10(high)) / 100,
            "step": 0.01}  # fmt: skip


def level_words(settings: PageSettings) -> str:
    """The level of the noise with its name."""
    name = noise_parameter(settings.noise)
    return f"{name} {settings.level:.3g}" if name else "none"


def radio(settings: PageSettings, name: str, label: str) -> Any:
    """One of the choices of a setting."""
    radios = dcc.RadioItems(
        id=control_id(name),
        options=[{"label": words_for(name, one), "value": one} for one in CHOICES[name]],
        value=shown_values(settings)[name],
        className="choices",
    )
    return _fieldset(label, radios, control_id(name))


def spectrum_figure(settings: PageSettings) -> Any:
    """A small picture of the chosen spectrum with its range in words."""
    address, words = spectrum_picture(SPECTRA[settings.features])
    return html.Figure(
        [
            html.Img(id="spectrum-picture", src=address, alt=words, style={"maxWidth": "100%"}),
            html.Figcaption(words, id="spectrum-words", className="hint"),
        ],
        style={"margin": "0"},
    )


def estimator_boxes(settings: PageSettings) -> Any:
    """Which estimators are drawn."""
    boxes = dcc.Checklist(
        id=control_id("estimators"),
        options=[{"label": words_for("estimators", one), "value": one} for one in ESTIMATORS],
        value=list(settings.estimators),
        className="choices",
    )
    return _fieldset("Draw", boxes, control_id("estimators"))


def _fieldset(legend: str, content: Any, name: str) -> Any:
    return html.Fieldset([html.Legend(legend), content], id=f"{name}-group")


def shown_values(settings: PageSettings) -> dict[str, Any]:
    """The value of each control for these settings; the sliders of LOGARITHMIC are so."""
    values = settings.as_dict()
    values |= {name: round(math.log10(values[name]), 6) for name in LOGARITHMIC}
    return {name: values[name] for name in NAMES}


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that the controls' values mean: the inverse of `shown_values`."""
    settings = dict(values)
    for name in (*LOGARITHMIC, "alpha"):
        try:
            value = float(settings[name])
            settings[name] = float(f"{10**value if name in LOGARITHMIC else value:.6g}")
        except (TypeError, ValueError, OverflowError):
            pass  # `make_settings` has the sentence
    return settings


GIGABYTES = f"{MEMORY_LIMIT / 1e9:.1f} GB"


def simulation_card(settings: PageSettings) -> Any:
    """Method, size and seed; below, a place for each simulation that can be kept."""
    return html.Section(
        [
            html.H2("Simulations"),
            html.P(
                "Draw data from the teacher, fit, and put the measured errors on the figure: "
                "symbols are means over the runs, bars their standard errors. A simulation may "
                f"have {MAX_INSTANCES} fits, {SIMULATION_SECONDS:.0f} s and {GIGABYTES} of memory; "
                f"{MAX_RUNNING} run at a time and others wait.",
                className="hint",
            ),
            radio(settings, "simulation", "Method"),
            html.Div(
                [
                    number(settings, "dimension", "Dimension d"),
                    number(settings, "places", "Values of α"),
                    number(settings, "runs", "Runs at each"),
                    number(settings, "seed", "Seed"),
                ],
                className="row",
            ),
            html.Button("Add simulation", id="simulate", className="main"),
            html.Div(id="simulation-message", role="alert"),
            html.Ul(
                [_slot(i) for i in range(MAX_KEPT)],
                id="simulations",
                className="simulations",
                **named("Simulations"),
            ),
        ],
        className="card",
    )


def _slot(i: int) -> Any:
    """The place of one simulation: its buttons are never drawn again, so that no press is lost."""
    whose: dict[str, Any] = {"aria-describedby": f"name-{i}"}
    return html.Li(
        [
            html.Span(id=f"name-{i}", className="simulation-name"),
            html.Progress(id=f"progress-{i}", value="0", max="1", **named("progress")),
            html.Span(id=f"words-{i}"),
            html.Button("Cancel", id=f"cancel-{i}", **whose),
            html.Button("Remove", id=f"remove-{i}", **whose),
        ],
        id=f"slot-{i}",
        hidden=True,
    )


def slot_content(one: Simulation | None) -> dict[str, Any]:
    """What the place of a simulation on the page shows."""
    if one is None:
        return {
            "name": "", "progress": "0", "total": "1", "words": "", "idle": True,
            "no_cancel": True, "no_remove": True,
        }  # fmt: skip
    settings, done = one.settings, len(one.rows)
    words = f"{done} of {one.total}" + ("" if one.running else f", {one.status}")
    return {
        "name": f"{LABELS.get(settings.simulation, settings.simulation)}, "
        f"k = {settings.teacher.n_classes}, d = {settings.dimension}"
        + f", {settings.noise_name}" * (settings.noise != NO_NOISE)
        + f", {settings.features}" * settings.correlated,
        "progress": str(done),
        "total": str(one.total),
        "words": words + (f": {one.reason}" if one.reason else ""),
        "idle": False,
        "no_cancel": not one.going_on,
        "no_remove": one.going_on,
    }


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
