"""The page: settings at the left, figures in the middle, simulations and sharing at the right.

Controls are made from the table of settings (`settings.py`, imported as `form`), native and with
labels, so that a keyboard and a screen reader work. Settings stand in groups that fold. On a narrow
screen all of them are folded below the first figure.

Elements have ids: the setting NAME has the control control-NAME inside field-NAME, and a slider
its value in words in NAME-value. `callbacks.py` and assets/explorer.js find them by these ids. A
setting is idle if it has no effect beside the others: its field is hidden. A `dcc.Store` is a value
that the browser keeps for the page; a slider of kind 'log' moves log10 of its setting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer import work_queue as work
from polyceptron.report.explorer.controls import Choice, Number
from polyceptron.report.explorer.members import NUMBERS, slider_ends
from polyceptron.report.explorer.page_figures import BARRIER, spectrum_words
from polyceptron.report.explorer.request_guard import TOKEN_FIELD
from polyceptron.report.explorer.worker_process import MEMORY_LIMIT

Properties = dict[str, Any]
"""Properties of an element of the page, by name."""

SLIDERS = {
    name: kind for name, kind in form.SETTINGS.items() if isinstance(kind, Number) and kind.slider
}
# The choice that a number belongs to, such as noise for strength.
CHOICES_OF_NUMBERS = {number: choice for choice, number in NUMBERS.items()}
HEIGHTS = {"learning": "440px", "order": "360px", "landscape": "360px"}
GIGABYTES = f"{MEMORY_LIMIT / 1e9:.1f} GB"
STEPS_OF_ALPHA = 400  # of the slider of α: one for each pixel and a half of the figure
SLIDER_STEPS_PER_UNIT = 100  # of the other sliders, in their own coordinate
DIGITS_OF_SLIDERS = 6  # of a setting: what 10 to a rounded logarithm has more is rounding
SLIDER_DELAY_S = 0.15  # without a move, until a slider's value counts
BOX_DELAY_S = 0.4  # without a key, until the number in a box counts
MS_BETWEEN_LOOKS = 500  # at work that is under way
MS_BETWEEN_SIGNS_OF_LIFE = 30_000


def shown_values(settings: form.PageSettings) -> form.Values:
    """Return the value of each control for these settings; logarithmic sliders have logarithms."""
    values = settings.as_dict()
    for name, kind in SLIDERS.items():
        if kind.slider == "log":
            values[name] = round(math.log10(values[name]), DIGITS_OF_SLIDERS)
    return values


def settings_of(values: Mapping[str, Any]) -> form.Values:
    """Return the settings that the controls' values mean.

    The inverse of `shown_values`, to the digits of sliders.
    """
    settings = dict(values)
    for name, kind in SLIDERS.items():
        try:
            value = float(settings[name])
            if kind.slider == "log":
                value = 10**value
            settings[name] = float(f"{value:.{DIGITS_OF_SLIDERS}g}")
        except (KeyError, TypeError, ValueError, OverflowError):
            pass  # `make_settings` has the error message
    return settings


def alpha_slider(low: float, high: float) -> dict[str, float]:
    """Return the ends of the slider of α: those of its range."""
    return {"min": low, "max": high, "step": float(f"{(high - low) / STEPS_OF_ALPHA:.3g}")}


def element_properties(settings: form.PageSettings) -> dict[str, Properties]:
    """Return what follows from settings besides the values of controls, by id of an element.

    Such as {"field-strength": {"hidden": True}, "strength-value": {"children": "0.1"}, ...}.
    """
    idle = settings.idle
    found: dict[str, Properties] = {}
    for name in form.NAMES:
        found[f"field-{name}"] = {"hidden": name in idle}
    for name in SLIDERS:
        if name != "alpha":  # its range may follow what is found
            found[f"control-{name}"] = _slider_properties(settings, name)
        found[f"{name}-value"] = {"children": _slider_words(settings, name)}
    _, order_title, landscape_title = settings.titles
    return found | {
        "control-shown": {"options": _options(form.SETTINGS["shown"], settings.shown_options)},
        "control-simulation": {"options": _options(form.SETTINGS["simulation"], settings.methods)},
        "method": {"children": f"Method: {settings.words('simulation')}"},
        "shares": {"hidden": set(form.SHARES) <= idle},
        "spectrum": {
            "hidden": "features" in idle,
            "children": spectrum_words(settings.written("features")),
        },
        "order-title": {"children": order_title},
        "landscape-title": {"children": landscape_title},
        "landscape-note": {"hidden": not settings.equal_classes},
    }


def _slider_properties(settings: form.PageSettings, name: str) -> Properties:
    """Return the ends of a slider in its own coordinate, in steps of a hundredth."""
    kind = SLIDERS[name]
    low = kind.low
    high = kind.high
    choice = CHOICES_OF_NUMBERS.get(name)
    if choice is not None:
        n_classes = settings.teacher.n_classes
        low, high = slider_ends(choice, getattr(settings, choice), n_classes)
    if kind.slider == "log":
        low = math.log10(low)
        high = math.log10(high)
    # Inwards to whole steps; a rounding error (1e-6 of a step) is no reason to go one further.
    return {
        "min": math.ceil(SLIDER_STEPS_PER_UNIT * low - 1e-6) / SLIDER_STEPS_PER_UNIT,
        "max": math.floor(SLIDER_STEPS_PER_UNIT * high + 1e-6) / SLIDER_STEPS_PER_UNIT,
        "step": 1 / SLIDER_STEPS_PER_UNIT,
    }


def _slider_words(settings: form.PageSettings, name: str) -> str:
    """Return what stands beside a slider: its value in words."""
    if name in form.SHARES:
        return _share_words(settings, form.SHARES.index(name))
    if name in CHOICES_OF_NUMBERS:
        return settings.number_words(CHOICES_OF_NUMBERS[name])
    return f"{getattr(settings, name):.4g}"


def _share_words(settings: form.PageSettings, label: int) -> str:
    """Return the share of a class in per cent."""
    k = settings.teacher.n_classes
    shares = settings.shares or (1 / k,) * k
    if label >= len(shares):
        return ""
    return f"{100 * shares[label]:.3g} %"


def _options(kind: Choice | Number, names: list[str]) -> list[dict[str, str]]:
    """Return the options of a choice that are offered."""
    assert isinstance(kind, Choice)
    return [{"label": kind.words[name], "value": name} for name in names]


def page(token: str, key: str | None, *, is_local: bool = True) -> Component:
    """Return the whole page for one visitor.

    Parameters
    ----------
    token : str
        What this page must show with every request, so that others cannot ask in its name.
    key : str or None
        What the address must hold, so that only those who have it can open a page; None where
        nobody is asked for it. The visitor knows it as the token of the address.
    is_local : bool
        Whether this machine alone can reach the server.
    """
    maker = _ControlMaker.of(form.PageSettings())
    known = {TOKEN_FIELD["id"]: token, "address-key": key, "simulations-changed": 0}
    # These have no value at first: a null would call the callbacks that have them as inputs. The
    # key may be null, as no callback has it as an input.
    unknown = ("settings", "drawn", "refused", "png-done", "page-tidied")
    return _div(
        "page",
        dcc.Location(id="url", refresh=False),
        *(dcc.Store(id=name, data=data) for name, data in known.items()),
        *(dcc.Store(id=name) for name in unknown),
        dcc.Interval(id="poll", interval=MS_BETWEEN_LOOKS, max_intervals=0),
        dcc.Interval(id="heartbeat", interval=MS_BETWEEN_SIGNS_OF_LIFE),
        dcc.Download(id="download"),
        html.A("Skip to the settings", href="#settings-fold", className="skip"),
        _header(),
        html.Main(
            [
                _first_figure(),
                _settings(maker),
                _div("side", _simulation_card(maker), _sharing_card(key, is_local)),
                _other_figures(maker),
            ],
            className="columns",
        ),
    )


def _header() -> Component:
    """Return the title of the page and what it is for."""
    purpose = (
        "How well can a linear classifier learn a k-class rule from n = αd examples? Exact curves "
        "for large d, and simulations beside them."
    )
    return html.Header([html.H1("polyceptron explorer"), html.P(purpose)])


@dataclass(frozen=True)
class _ControlMaker:
    """Makes the control of a setting, with the value and the look that it has at first."""

    values: form.Values
    properties: dict[str, Properties]

    @classmethod
    def of(cls, settings: form.PageSettings) -> _ControlMaker:
        """Return the maker of a page that opens with these settings."""
        properties = element_properties(settings)
        properties["control-alpha"] = dict(alpha_slider(settings.low, settings.high))
        return cls(shown_values(settings), properties)

    def controls(self, *names: str) -> list[Component]:
        """Return the controls of these settings."""
        return [self.control(name) for name in names]

    def control(self, name: str) -> Component:
        """Return radio buttons or check boxes for a choice; a box or a slider for a number."""
        kind = form.SETTINGS[name]
        place = {"id": f"field-{name}", **self.properties[f"field-{name}"]}
        if isinstance(kind, Choice):
            choices = self._choices(name, kind)
            return html.Fieldset([html.Legend(kind.label), choices], **place)
        label = html.Label(kind.label, htmlFor=f"control-{name}")
        if kind.slider:
            return html.Div(self._slider(name, label), className="field", **place)
        return html.Div([label, self._box(name, kind)], className="field", **place)

    def choices(self, name: str) -> Component:
        """Return the radio buttons of a choice without a frame of their own."""
        kind = form.SETTINGS[name]
        assert isinstance(kind, Choice)
        place = {"id": f"field-{name}", **self.properties[f"field-{name}"]}
        legend = html.Legend(kind.label, className="unseen")
        return html.Fieldset([legend, self._choices(name, kind)], **place)

    def _choices(self, name: str, kind: Choice) -> Component:
        """Return radio buttons, or check boxes."""
        make: Any = dcc.RadioItems
        if kind.several:
            make = dcc.Checklist
        properties = {"options": _options(kind, list(kind.words))}
        properties |= self.properties.get(f"control-{name}", {})
        value = self.values[name]
        return make(id=f"control-{name}", value=value, className="choices", **properties)

    def _slider(self, name: str, label: Component) -> list[Component]:
        """Return a slider with its label and its value in words."""
        words = html.Output(
            id=f"{name}-value", htmlFor=f"control-{name}", **self.properties[f"{name}-value"]
        )
        slider = dcc.Input(
            id=f"control-{name}",
            type="range",
            value=self.values[name],
            debounce=SLIDER_DELAY_S,
            **self.properties[f"control-{name}"],
        )
        return [_div("range-label", label, words), slider]

    def _box(self, name: str, kind: Number) -> Component:
        """Return a box for a number.

        It holds text: an input for numbers keeps what was typed when the page gives it another
        value, and then does not tell when the same is typed again.
        """
        keyboard = "decimal"
        if kind.whole:
            keyboard = "numeric"
        return dcc.Input(
            id=f"control-{name}",
            type="text",
            inputMode=keyboard,
            autoComplete="off",
            value=str(self.values[name]),
            debounce=BOX_DELAY_S,
        )


def _div(name: str, *inside: Component) -> Component:
    """Return a part of the page with this class."""
    return html.Div(list(inside), className=name)


def _spoken(words: str) -> Properties:
    """Return the name of an element for those who cannot see it."""
    return {"aria-label": words}


def _card(title: str, *inside: Component) -> Component:
    """Return a framed part of the page with a title."""
    return html.Section([html.H2(title), *inside], className="card")


def _hint(words: str, **properties: Any) -> Component:
    """Return a sentence in a quiet colour."""
    return html.P(words, className="hint", **properties)


def _group(title: str, *inside: Component) -> Component:
    """Return a group of settings that folds."""
    return html.Details([html.Summary(html.H2(title)), *inside], className="group", open=True)


def _first_figure() -> Component:
    """Return the learning curves, with messages and the state of the work above them."""
    return _div(
        "first",
        html.Div(id="message", role="alert"),
        html.Div(id="status", role="status", className="status"),
        _graph("learning", "Learning curves"),
    )


def _other_figures(maker: _ControlMaker) -> Component:
    """Return the second and the third figure, each with what it shows."""
    note = html.Div(id="shown-note", className="hint", role="status")
    barrier = _hint(BARRIER, id="landscape-note", **maker.properties["landscape-note"])
    order_title = maker.properties["order-title"]["children"]
    landscape_title = maker.properties["landscape-title"]["children"]
    order = [_graph("order", order_title), *maker.controls("shown"), note]
    landscape = [_graph("landscape", landscape_title), *maker.controls("alpha"), barrier]
    return _div("two", html.Div(order), html.Div(landscape))


def _settings(maker: _ControlMaker) -> Component:
    """Return all settings in groups, which fold as a whole on a narrow screen."""
    shares = [html.Summary("Shares of the classes"), *maker.controls(*form.SHARES)]
    limit = work.LIMITS[work.SLOW]
    groups = [
        _group(
            "Problem",
            *maker.controls("model", "k"),
            html.Details(shares, id="shares", className="fold", **maker.properties["shares"]),
            *maker.controls("separation", "prior", "density", "noise", "strength"),
            *maker.controls("features", "shape"),
            html.P(id="spectrum", className="hint", **maker.properties["spectrum"]),
        ),
        _group(
            "Estimators",
            *maker.controls(
                "estimators", "epsilon", "rate", "penalty", "l1", "ridge_rule", "ridge"
            ),
            *maker.controls("intercept", "class_weight"),
        ),
        _group(
            "Axes",
            *maker.controls("range_rule"),
            _div("pair", *maker.controls("low", "high")),
            *maker.controls("points", "scale", "error_scale"),
        ),
        _hint(
            f"A curve is stopped after {limit.seconds:.0f} s, or when it needs more than "
            f"{GIGABYTES} of memory. The points that were computed stay."
        ),
    ]
    controls = html.Section(groups, className="controls", **_spoken("Settings"))
    return html.Details(
        [html.Summary("Settings"), controls], id="settings-fold", className="settings", open=True
    )


def _simulation_card(maker: _ControlMaker) -> Component:
    """Return method, size and seed; below, a place for each simulation that can be kept."""
    slots = [_slot(number) for number in range(form.MAX_KEPT)]
    limit = work.LIMITS[work.SIMULATION]
    about = _hint(
        "Draws data from the teacher, fits them, and puts the measured errors on the figure. "
        "Symbols are means over the runs; bars are their standard errors. A simulation may have "
        f"{form.MAX_INSTANCES} fits, {limit.seconds:.0f} s and {GIGABYTES} of memory. "
        f"{work.MAX_RUNNING} run at a time; the others wait."
    )
    return _card(
        "Simulations",
        html.Details([html.Summary("What a simulation does"), about], className="fold"),
        html.Details(
            [
                html.Summary(id="method", **maker.properties["method"]),
                maker.choices("simulation"),
            ],
            className="fold",
        ),
        _div("pair", *maker.controls("dimension", "places", "runs", "seed")),
        html.Button("Add simulation", id="simulate", className="main"),
        html.Div(id="simulation-message", role="alert"),
        html.Ul(slots, id="simulations", className="simulations", **_spoken("Simulations")),
    )


def _slot(number: int) -> Component:
    """Return the list item of a simulation; its buttons are made once, so that no press is lost."""
    whose: Properties = {"aria-describedby": f"name-{number}"}
    inside = [
        html.Span(id=f"name-{number}", className="simulation-name"),
        html.Progress(id=f"progress-{number}", value="0", max="1", **_spoken("progress")),
        html.Span(id=f"words-{number}"),
        html.Button("Cancel", id=f"cancel-{number}", **whose),
        html.Button("Remove", id=f"remove-{number}", **whose),
    ]
    return html.Li(inside, id=f"slot-{number}", hidden=True)


def slot_content(kept: work.Simulation | None) -> dict[str, Properties]:
    """Return what the list item of a simulation shows: properties of its parts."""
    if kept is None:
        return {"slot": {"hidden": True}}
    n_done = len(kept.rows)
    words = f"{n_done} of {kept.total}"
    if kept.status != "running":
        words += f", {kept.status}"
    if kept.reason:
        words += f": {kept.reason}"
    return {
        "name": {"children": _simulation_name(kept.settings)},
        "progress": {"value": str(n_done), "max": str(kept.total)},
        "words": {"children": words},
        "slot": {"hidden": False},
        "cancel": {"hidden": kept.complete},
        "remove": {"hidden": not kept.complete},
    }


def _simulation_name(settings: form.PageSettings) -> str:
    """Return method and problem of a simulation in a line."""
    parts = [
        settings.words("simulation"),
        f"k = {settings.teacher.n_classes}",
        f"d = {settings.dimension}",
    ]
    if settings.noise != "none":
        parts.append(settings.words("noise"))
    if settings.features != "isotropic":
        parts.append(settings.words("features"))
    if "penalty" in settings.student.columns:  # the columns of a row that describe it
        parts.append(settings.penalty_name)
    return ", ".join(parts)


def _sharing_card(key: str | None, is_local: bool) -> Component:
    """Return the link to this page, downloads, and the Python lines."""
    reach = "It opens on this machine only, while the explorer runs."
    label = "Link for this machine"
    if not is_local:
        reach = "Whoever can reach this machine and has the link can compute here."
        label = "Link with its key"
    if is_local and key is not None:
        reach += " Its token lets whoever has it compute here: give it to nobody else."
    link = dcc.Input(id="link", type="text", readOnly=True, className="link")
    copy_button = html.Button("Copy link", id="copy-link")
    downloads = {"csv": "CSV", "png": "PNG", "python": "Python", "html": "page (HTML)"}
    buttons = [
        html.Button(f"Download {words}", id=f"get-{kind}") for kind, words in downloads.items()
    ]
    lines = html.Pre(id="python", tabIndex="0", **_spoken("Python lines"))
    about = _hint(
        "The link holds every setting and the simulations, which run again from their seeds. "
        + reach
    )
    return _card(
        "Share and download",
        _div("field", html.Label(label, htmlFor="link"), _div("copy", link, copy_button)),
        _div("buttons", *buttons),
        html.Details([html.Summary("What the link holds"), about], className="fold"),
        html.Details([html.Summary("Python lines for these curves"), lines], className="fold"),
    )


def _graph(name: str, title: str) -> Component:
    """Return a figure with its title; of class stale (faded) until it is drawn."""
    # Plotly's own choice of tools has a button that uploads the chart.
    tools = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
    config: Any = {
        "displaylogo": False,
        "modeBarButtons": [tools],
        "plotlyServerURL": "",
        "toImageButtonOptions": {"format": "png", "filename": f"polyceptron-{name}", "scale": 2},
    }
    graph = dcc.Graph(id=name, responsive=True, config=config, style={"height": HEIGHTS[name]})
    plot = html.Div(graph, id=f"{name}-plot", className="plot stale")
    return html.Section([html.H2(title, id=f"{name}-title"), plot], className="card figure")
