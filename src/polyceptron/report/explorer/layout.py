"""The page: the learning curves, the settings (at their left on a wide screen), and the rest.

Controls are made from the table of settings, native and with labels, so that a keyboard and a
screen reader work; the control of the setting NAME is control-NAME. On a narrow screen the settings
are folded below the first figure.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from dash import dcc, html

from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer import work_queue as work
from polyceptron.report.explorer.page_figures import spectrum_words
from polyceptron.report.explorer.request_guard import TOKEN_FIELD

Controls = Callable[..., list[Any]]  # those of some settings, by their names
SLIDERS = {name: kind.slider for name, kind in form.SETTINGS.items() if kind.slider}
HEIGHTS = {"learning": "460px", "order": "380px", "landscape": "380px"}
GIGABYTES = f"{work.MEMORY_LIMIT / 1e9:.1f} GB"
SECONDS = {kind: f"{seconds:.0f} s" for kind, (seconds, _) in work.LIMITS.items()}


def shown_values(settings: form.PageSettings) -> dict[str, Any]:
    """The value of each control for these settings; logarithmic sliders have logarithms."""
    values = settings.as_dict()
    logs = [name for name, slider in SLIDERS.items() if slider == "log"]
    return values | {name: round(math.log10(values[name]), 6) for name in logs}


def settings_of(values: dict[str, Any]) -> dict[str, Any]:
    """The settings that the controls' values mean: the inverse of `shown_values`."""
    settings = dict(values)
    for name, slider in SLIDERS.items():
        try:
            value = float(settings[name])
            settings[name] = float(f"{10**value if slider == 'log' else value:.6g}")
        except (KeyError, TypeError, ValueError, OverflowError):
            pass  # `make_settings` has the error message
    return settings


def alpha_slider(low: float, high: float) -> dict[str, float]:
    """The ends of the slider of α: those of its range."""
    return {"min": low, "max": high, "step": float(f"{(high - low) / 400:.3g}")}


def dressing(settings: form.PageSettings) -> dict[str, dict[str, Any]]:
    """What follows from settings besides the values of controls: properties by id of an element."""
    idle, k = settings.idle, settings.teacher.n_classes
    found: dict[str, dict[str, Any]] = {f"field-{n}": {"hidden": n in idle} for n in form.NAMES}
    ends = {n: (form.SETTINGS[n].low, form.SETTINGS[n].high) for n in SLIDERS}  # type: ignore[union-attr]
    words = {name: f"{getattr(settings, name):.4g}" for name in SLIDERS}
    for kind, number in form.NUMBERS.items():
        ends[number] = form.slider_ends(kind, getattr(settings, kind), k)
        words[number] = settings.number_words(kind)
    shares = settings.shares or (1 / k,) * k
    words |= {n: f"{100 * share:.3g} %" for n, share in zip(form.SHARES, shares, strict=False)}
    for name, slider in SLIDERS.items():
        low, high = (math.log10(x) for x in ends[name]) if slider == "log" else ends[name]
        if name != "alpha":
            low, high = math.ceil(100 * low - 1e-6) / 100, math.floor(100 * high + 1e-6) / 100
            found[f"control-{name}"] = {"min": low, "max": high, "step": 0.01}
        found[f"{name}-value"] = {"children": words[name]}
    no = (form.ALIKE_ONLY, form.UNEQUAL_ONLY)[settings.equal_classes]
    options = [{"label": words, "value": n} for n, (words, _) in form.SHOWN.items() if n not in no]
    spectrum, (_, first, second) = spectrum_words(settings.written("features")), settings.titles
    return found | {
        "control-shown": {"options": options},
        "shares": {"hidden": set(form.SHARES) <= idle},
        "spectrum": {"hidden": "features" in idle, "children": spectrum},
        "order-title": {"children": first},
        "landscape-title": {"children": second},
    }


def page(token: str, key: str | None) -> Any:
    """The whole page for one visitor; `key` is that of a server which other machines can reach."""
    known = {TOKEN_FIELD["id"]: token, "address-key": key, "simulations-changed": 0}
    # A null would be news to those who listen: these have no value at first.
    unknown = ("settings", "drawn", "png-done", "page-tidied")
    intro = (
        "How well can a linear classifier learn a k-class rule from n = αd examples? Exact curves "
        "for large d, and simulations beside them."
    )
    settings = form.PageSettings()
    values, dress = shown_values(settings), dressing(settings)
    dress["control-alpha"] = alpha_slider(settings.low, settings.high)

    def some(*names: str) -> list[Any]:
        return [_control(values, dress, name) for name in names]

    first = _div(
        "first",
        html.Div(id="message", role="alert"),
        html.Div(id="status", role="status", className="status"),
        _graph("learning", "Learning curves"),
    )
    controls = [html.Summary("Settings"), _controls(some, dress)]
    fold = html.Details(controls, id="settings-fold", className="settings", open=True)
    note = html.Div(id="shown-note", className="hint", role="status")
    order = [_graph("order", **dress["order-title"]), *some("shown"), note]
    landscape = [_graph("landscape", **dress["landscape-title"]), *some("alpha")]
    two = _div("two", html.Div(order), html.Div(landscape))
    rest = _div("rest", two, _simulation_card(some), _take_away(key))
    return _div(
        "page",
        dcc.Location(id="url", refresh=False),
        *(dcc.Store(id=name, data=data) for name, data in known.items()),
        *(dcc.Store(id=name) for name in unknown),
        dcc.Interval(id="poll", interval=500, max_intervals=0),  # ms between two looks at work
        dcc.Interval(id="heartbeat", interval=30_000),  # and between two signs of life
        dcc.Download(id="download"),
        html.A("Skip to the settings", href="#settings-fold", className="skip"),
        html.Header([html.H1("polyceptron explorer"), html.P(intro)]),
        html.Main([first, fold, rest], className="columns"),
    )


def _control(values: Mapping[str, Any], dress: Mapping[str, Any], name: str) -> Any:
    """Radio buttons or check boxes for a choice; for a number a box, or a slider with its value."""
    kind, this, value = form.SETTINGS[name], f"control-{name}", values[name]
    place, own = {"id": f"field-{name}", **dress[f"field-{name}"]}, dress.get(this, {})
    if isinstance(kind, form.Choice):
        options = [{"label": words, "value": one} for one, words in kind.words.items()]
        make: Any = dcc.Checklist if kind.several else dcc.RadioItems
        choices = make(id=this, value=value, className="choices", **{"options": options, **own})
        return html.Fieldset([html.Legend(kind.label), choices], **place)
    label = html.Label(kind.label, htmlFor=this)
    if name in SLIDERS:
        words = html.Output(id=f"{name}-value", htmlFor=this, **dress[f"{name}-value"])
        slider = dcc.Input(id=this, type="range", value=value, debounce=0.15, **own)
        return html.Div([_div("range-label", label, words), slider], className="field", **place)
    box = dcc.Input(
        id=this,
        type="number",
        value=value,
        min=kind.low,
        max=kind.high,
        step=1 if kind.whole else "any",
        debounce=0.4,
    )
    return html.Div([label, box], className="field", **place)


def _div(name: str, *inside: Any) -> Any:
    return html.Div(list(inside), className=name)


def _named(words: str) -> dict[str, Any]:
    return {"aria-label": words}  # for those who cannot see it


def _card(title: str, *inside: Any) -> Any:
    return html.Section([html.H2(title), *inside], className="card")


def _hint(words: str) -> Any:
    return html.P(words, className="hint")


def _controls(some: Controls, dress: Mapping[str, Any]) -> Any:
    shares = [_hint("Shares of the classes"), *some(*form.SHARES)]
    inside = [
        html.H2("Problem"),
        *some("model", "k"),
        html.Div(shares, id="shares", **dress["shares"]),
        *some("separation", "prior", "density", "noise", "strength", "features", "shape"),
        html.P(id="spectrum", className="hint", **dress["spectrum"]),
        html.H2("Estimators"),
        *some("estimators", "epsilon", "penalty", "l1", "ridge", "ridge_rule"),
        *some("intercept", "class_weight"),
        html.H2("Axes"),
        *some("range_rule"),
        _div("pair", *some("low", "high")),
        *some("points", "scale", "error_scale"),
        _hint(
            f"A curve may take {SECONDS[work.SLOW]} and {GIGABYTES} of memory; it is then stopped "
            "with a word, and its points stay."
        ),
    ]
    return html.Section(inside, className="controls", **_named("Settings"))


def _simulation_card(some: Controls) -> Any:
    """Method, size and seed; below, a place for each simulation that can be kept."""
    slots = []  # their buttons are never drawn again, so that no press is lost
    for i in range(form.MAX_KEPT):
        whose: dict[str, Any] = {"aria-describedby": f"name-{i}"}
        inside = [
            html.Span(id=f"name-{i}", className="simulation-name"),
            html.Progress(id=f"progress-{i}", value="0", max="1", **_named("progress")),
            html.Span(id=f"words-{i}"),
            html.Button("Cancel", id=f"cancel-{i}", **whose),
            html.Button("Remove", id=f"remove-{i}", **whose),
        ]
        slots.append(html.Li(inside, id=f"slot-{i}", hidden=True))
    return _card(
        "Simulations",
        _hint(
            "Draw data from the teacher, fit, and put the measured errors on the figure: symbols "
            "are means over the runs, bars their standard errors. A simulation may have "
            f"{form.MAX_INSTANCES} fits, {SECONDS[work.SIMULATION]} and {GIGABYTES} of memory; "
            f"{work.MAX_RUNNING} run at a time and others wait."
        ),
        *some("simulation"),
        _div("row", *some("dimension", "places", "runs", "seed")),
        html.Button("Add simulation", id="simulate", className="main"),
        html.Div(id="simulation-message", role="alert"),
        html.Ul(slots, id="simulations", className="simulations", **_named("Simulations")),
    )


def slot_content(one: work.Simulation | None) -> dict[str, dict[str, Any]]:
    """What the place of a simulation shows: properties of its parts."""
    if one is None:
        return {"slot": {"hidden": True}}
    settings, done = one.settings, len(one.result)
    name = f"{settings.words('simulation')}, k = {settings.teacher.n_classes}"
    name += f", d = {settings.dimension}"
    name += f", {settings.words('noise')}" * (settings.noise != "none")
    name += f", {settings.words('features')}" * (settings.features != "isotropic")
    name += f", {settings.penalty_name}" * ("penalty" in settings.student.columns)
    words = f"{done} of {one.total}" + f", {one.status}" * (one.status != "running")
    words += f": {one.reason}" * bool(one.reason)
    return {
        "name": {"children": name},
        "progress": {"value": str(done), "max": str(one.total)},
        "words": {"children": words},
        "slot": {"hidden": False},
        "cancel": {"hidden": one.complete},
        "remove": {"hidden": not one.complete},
    }


def _take_away(key: str | None) -> Any:
    reach, label = "It opens on this machine only, while the explorer runs.", "for this machine"
    if key is not None:
        reach = "Whoever can reach this machine and has the link can compute here."
        label = "with its key"
    told = "The link holds every setting, and the simulations, which run again from their seeds."
    link = dcc.Input(id="link", type="text", readOnly=True, className="link")
    downloads = {"csv": "CSV", "png": "PNG", "python": "Python", "html": "page (HTML)"}
    buttons = (html.Button(f"Download {words}", id=f"get-{n}") for n, words in downloads.items())
    lines = html.Pre(id="python", tabIndex="0", **_named("Python lines"))
    return _card(
        "Share and download",
        _hint(f"{told} {reach}"),
        _div("field", html.Label(f"Link {label}", htmlFor="link"), link),
        _div("buttons", *buttons),
        html.Details([html.Summary("Python lines for these curves"), lines]),
    )


def _graph(name: str, children: str) -> Any:
    # Plotly's own choice of tools has a button that uploads the chart.
    tools = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
    config: Any = {"displaylogo": False, "modeBarButtons": [tools], "plotlyServerURL": ""}
    image = {"format": "png", "filename": f"polyceptron-{name}", "scale": 2}
    config["toImageButtonOptions"] = image
    graph = dcc.Graph(id=name, responsive=True, config=config, style={"height": HEIGHTS[name]})
    plot = html.Div(graph, id=f"{name}-plot", className="plot stale")
    return html.Section([html.H2(children, id=f"{name}-title"), plot], className="card figure")
