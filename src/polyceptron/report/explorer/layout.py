"""The page: the learning curves, the settings (at their left on a wide screen), and the rest.

Controls are made from the table of settings, native and with labels, so that a keyboard and a
screen reader work; `shown_values` and `settings_of` go between settings and the values of controls,
`dressing` is what else on the page follows from settings. On a narrow screen the settings are
folded below the first figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer.page_figures import spectrum_picture
from polyceptron.report.explorer.server import TOKEN_FIELD
from polyceptron.report.explorer.settings import (
    MAX_INSTANCES,
    MAX_KEPT,
    NO_NOISE,
    SETTINGS,
    SPECTRA,
    Choice,
    Number,
    PageSettings,
    strength_range,
    strength_words,
    words_for,
)
from polyceptron.report.explorer.work_queue import (
    LIMITS,
    MAX_RUNNING,
    MEMORY_LIMIT,
    SIMULATION,
    SLOW,
    Simulation,
)

LOGARITHMIC = ("ridge", "strength")
SLIDERS = (*LOGARITHMIC, "alpha")
POLL = {True: 1200, False: 250}  # milliseconds between two looks at work, by whether it is slow
HEARTBEAT = 30_000  # and between two signs of life
HEIGHTS = {"learning": "460px", "order": "380px", "landscape": "380px"}
GIGABYTES = f"{MEMORY_LIMIT / 1e9:.1f} GB"
# What changes in the place of a simulation, in the order of `slot_content`.
SLOT_PARTS = (
    ("name", "children"), ("progress", "value"), ("progress", "max"), ("words", "children"),
    ("slot", "hidden"), ("cancel", "hidden"), ("remove", "hidden"),
)  # fmt: skip


def control_id(name: str) -> str:
    """The id of the control of a setting."""
    return f"control-{name}"


def shown_values(settings: PageSettings) -> dict[str, Any]:
    """The value of each control for these settings; the sliders of LOGARITHMIC are so."""
    values = settings.as_dict()
    return values | {name: round(math.log10(values[name]), 6) for name in LOGARITHMIC}


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that the controls' values mean: the inverse of `shown_values`."""
    settings = dict(values)
    for name in SLIDERS:
        try:
            value = float(settings[name])
            settings[name] = float(f"{10**value if name in LOGARITHMIC else value:.6g}")
        except (TypeError, ValueError, OverflowError):
            pass  # `make_settings` has the error message
    return settings


def dressing(settings: PageSettings) -> dict[str, dict[str, Any]]:
    """What follows from settings besides the controls' values: properties by the id of an element.

    The ends of sliders, their values in words, which controls rest, the picture of the spectrum.
    """
    low, high = strength_range(settings.noise, settings.teacher.n_classes)
    limit, optimal = SETTINGS["ridge"], settings.ridge_rule == "optimal"
    assert isinstance(limit, Number)
    picture, words = spectrum_picture(SPECTRA[settings.features])
    return {
        control_id("alpha"): {
            "min": settings.low,
            "max": settings.high,
            "step": float(f"{(settings.high - settings.low) / 400:.3g}"),
        },
        control_id("strength"): {
            "min": round(math.log10(low), 2),
            "max": math.floor(100 * math.log10(high)) / 100,
            "step": 0.01,
            "disabled": settings.noise == NO_NOISE,
        },
        control_id("ridge"): {
            "min": math.log10(limit.low),
            "max": math.log10(limit.high),
            "step": 0.01,
            "disabled": optimal,
        },
        control_id("k"): {"disabled": settings.model == "perceptron"},
        "alpha-value": {"children": f"{settings.alpha:.4g}"},
        "strength-value": {"children": strength_words(settings)},
        "ridge-value": {"children": "optimal" if optimal else f"{settings.ridge:.4g}"},
        "spectrum-picture": {"src": picture, "alt": words},
        "spectrum-words": {"children": words},
    }


def page(
    token: str,
    key: str | None,
    settings: PageSettings,
    figures: Mapping[str, Any],
    drawn: dict[str, Any] | None,
) -> Any:
    """The whole page for one visitor, with the figures that are there already, as `drawn` tells.

    `key` opens this server to those who have the link, if other machines can reach it.
    """
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id=TOKEN_FIELD["id"], data=token),
            dcc.Store(id="address-key", data=key),
            dcc.Store(id="drawn", data=drawn),
            dcc.Store(id="simulations-changed", data=0),
            *(
                dcc.Store(id=name)
                for name in (
                    "settings", "followed-range", "simulations-shown", "png-done", "page-tidied",
                )
            ),
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
                    html.Div(
                        [
                            html.Div(id="message", role="alert"),
                            html.Div(id="status", role="status", className="status"),
                            _graph("learning", "Learning curves", figures),
                        ],
                        className="first",
                    ),
                    html.Details(
                        [html.Summary("Settings"), _controls(settings)],
                        id="settings-fold",
                        className="settings",
                        open=True,
                    ),
                    html.Div(
                        [
                            _smaller_figures(settings, figures),
                            _simulation_card(settings),
                            _take_away(key),
                        ],
                        className="rest",
                    ),
                ],
                className="columns",
            ),
        ],
        className="page",
    )  # fmt: skip


def _control(settings: PageSettings, name: str) -> Any:
    """Radio buttons or check boxes for a choice; for a number a box, or a slider with its value."""
    kind, this = SETTINGS[name], control_id(name)
    value, dress = shown_values(settings)[name], dressing(settings)
    if isinstance(kind, Choice):
        options = [{"label": words, "value": one} for one, words in kind.words.items()]
        make = dcc.Checklist if kind.several else dcc.RadioItems
        choices = make(id=this, options=options, value=value, className="choices")
        return html.Fieldset([html.Legend(kind.label), choices], id=f"{this}-group")
    label = html.Label(kind.label, htmlFor=this)
    if name in SLIDERS:
        words = html.Output(id=f"{name}-value", htmlFor=this, **dress[f"{name}-value"])
        head = html.Div([label, words], className="range-label")
        slider = dcc.Input(id=this, type="range", value=value, debounce=0.15, **dress[this])
        return html.Div([head, slider], className="field")
    box = dcc.Input(
        id=this, type="number", value=value, min=kind.low, max=kind.high,
        step=1 if kind.whole else "any", debounce=0.4, **dress.get(this, {}),
    )  # fmt: skip
    return html.Div([label, box], className="field")


def _named(words: str) -> dict[str, Any]:
    """The name of an element for those who cannot see it."""
    return {"aria-label": words}


def _hint(words: str) -> Any:
    return html.P(words, className="hint")


def _controls(settings: PageSettings) -> Any:
    def some(*names: str) -> list[Any]:
        return [_control(settings, name) for name in names]

    dress = dressing(settings)
    spectrum = [
        html.Img(id="spectrum-picture", style={"maxWidth": "100%"}, **dress["spectrum-picture"]),
        html.Figcaption(id="spectrum-words", className="hint", **dress["spectrum-words"]),
    ]
    return html.Section(
        [
            html.H2("Problem"),
            *some("model", "k", "prior", "noise", "strength", "features"),
            html.Figure(spectrum, style={"margin": "0"}),
            html.H2("Estimators"),
            *some("estimators", "ridge", "ridge_rule"),
            html.H2("Axes"),
            *some("range_rule"),
            html.Div(some("low", "high"), className="pair"),
            *some("points", "scale", "error_scale"),
            _hint(
                f"A curve may take {LIMITS[SLOW][0]:.0f} s and {GIGABYTES} of memory, and is then "
                "stopped with a word."
            ),
        ],
        className="controls",
        **_named("Settings"),
    )


def _smaller_figures(settings: PageSettings, figures: Mapping[str, Any]) -> Any:
    order = [
        _graph("order", "Order parameters", figures),
        _control(settings, "shown"),
        html.Div(id="shown-note", className="hint", role="status"),
    ]
    landscape = [
        _graph("landscape", "Free-entropy landscape", figures),
        _control(settings, "alpha"),
    ]
    return html.Div([html.Div(order), html.Div(landscape)], className="two")


def _simulation_card(settings: PageSettings) -> Any:
    """Method, size and seed; below, a place for each simulation that can be kept."""
    sizes = [_control(settings, name) for name in ("dimension", "places", "runs", "seed")]
    slots = [_slot(i) for i in range(MAX_KEPT)]
    return html.Section(
        [
            html.H2("Simulations"),
            _hint(
                "Draw data from the teacher, fit, and put the measured errors on the figure: "
                "symbols are means over the runs, bars their standard errors. A simulation may "
                f"have {MAX_INSTANCES} fits, {LIMITS[SIMULATION][0]:.0f} s and {GIGABYTES} of "
                f"memory; {MAX_RUNNING} run at a time and others wait."
            ),
            _control(settings, "simulation"),
            html.Div(sizes, className="row"),
            html.Button("Add simulation", id="simulate", className="main"),
            html.Div(id="simulation-message", role="alert"),
            html.Ul(slots, id="simulations", className="simulations", **_named("Simulations")),
        ],
        className="card",
    )


def _slot(i: int) -> Any:
    """The place of one simulation: its buttons are never drawn again, so that no press is lost."""
    whose: dict[str, Any] = {"aria-describedby": f"name-{i}"}
    return html.Li(
        [
            html.Span(id=f"name-{i}", className="simulation-name"),
            html.Progress(id=f"progress-{i}", value="0", max="1", **_named("progress")),
            html.Span(id=f"words-{i}"),
            html.Button("Cancel", id=f"cancel-{i}", **whose),
            html.Button("Remove", id=f"remove-{i}", **whose),
        ],
        id=f"slot-{i}",
        hidden=True,
    )


def slot_content(one: Simulation | None) -> list[Any]:
    """What the place of a simulation shows, in the order of SLOT_PARTS."""
    if one is None:
        return ["", "0", "1", "", True, True, True]
    settings, done = one.settings, len(one.result)
    name = (
        f"{words_for('simulation', settings.simulation)}, k = {settings.teacher.n_classes}, "
        f"d = {settings.dimension}"
        + f", {settings.noise_name}" * (settings.noise != NO_NOISE)
        + f", {settings.features}" * settings.correlated
    )
    words = f"{done} of {one.total}" + ("" if one.status == "running" else f", {one.status}")
    words += f": {one.reason}" if one.reason else ""
    return [name, str(done), str(one.total), words, False, one.complete, not one.complete]


def _take_away(key: str | None) -> Any:
    reach, label = (
        ("It opens on this machine only, while the explorer runs.", "Link for this machine")
        if key is None
        else ("Whoever can reach this machine and has the link can compute here.",
              "Link with its key")
    )  # fmt: skip
    link = dcc.Input(id="link", type="text", readOnly=True, className="link")
    buttons = [
        html.Button(f"Download {kind}", id=f"get-{kind.lower()}")
        for kind in ("CSV", "PNG", "Python")
    ]
    lines = html.Pre(id="python", tabIndex="0", **_named("Python lines"))
    return html.Section(
        [
            html.H2("Share and download"),
            _hint(
                "The link holds every setting, and the simulations, which run again from their "
                f"seeds. {reach}"
            ),
            html.Div([html.Label(label, htmlFor="link"), link], className="field"),
            html.Div(buttons, className="buttons"),
            html.Details([html.Summary("Python lines for these curves"), lines]),
        ],
        className="card",
    )


def _graph(name: str, title: str, figures: Mapping[str, Any]) -> Any:
    tools = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
    graph = dcc.Graph(
        id=name,
        figure=figures.get(name),
        style={"height": HEIGHTS[name]},
        responsive=True,
        config={
            "displaylogo": False,
            "modeBarButtons": [tools],  # plotly's own choice has a button that uploads the chart
            "plotlyServerURL": "",
            "toImageButtonOptions": {
                "format": "png",
                "filename": f"polyceptron-{name}",
                "scale": 2,
            },
        },
    )
    style = {"minHeight": HEIGHTS[name]}
    if name == "learning" and "preview" in figures:  # until the live figure is drawn in its place
        style["backgroundImage"] = f"url({figures['preview']})"  # see explorer.css
    plot = html.Div(graph, id=f"{name}-plot", className="plot", style=style)
    return html.Section([html.H2(title, id=f"{name}-title"), plot], className="card figure")
