"""The few lines that run in the browser itself.

What happens when something on the page changes.

`sync` turns controls and address into one checked value; `draw` asks for the theory of that and
draws what is there, and again at every tick while work is under way; `simulate` starts and stops
simulations; `download` hands out files. Each is told the page's token, which the server's guard has
checked before it comes here.
"""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, ctx, html, no_update, set_props

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.export import python_lines, to_csv
from polyceptron.report.explorer.layout import POLL, control_id, settings_of, slot_content
from polyceptron.report.explorer.page_content import mark_of, wanted_content
from polyceptron.report.explorer.server import TOKEN_FIELD, RequestGuard
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.settings import NAMES, PageSettings, make_settings
from polyceptron.report.explorer.settings_sync import register_sync, sentence
from polyceptron.report.explorer.simulation_runs import MAX_KEPT
from polyceptron.report.explorer.simulations import Simulation

PNG = """
async function (clicks, settings) {
    if (clicks) {
        const graph = document.querySelector('#learning .js-plotly-plot');
        const title = {text: settings.caption, font: {size: 14}, x: 0.02, xanchor: 'left'};
        const layout = {...graph.layout, title, margin: {...graph.layout.margin, t: 48}};
        await window.Plotly.downloadImage({data: graph.data, layout}, {
            format: 'png', width: 900, height: 620, scale: 2, filename: 'polyceptron-learning'
        });
    }
    return clicks || 0;
}
"""
AT_START = """
function (token) {
    // Groups of radio buttons and check boxes are lists of options to Dash; here they are what they
    // look like, named by their legends.
    const tidy = () => document.querySelectorAll('fieldset [role="listbox"]').forEach((list) => {
        list.setAttribute('role', list.querySelector('[type="radio"]') ? 'radiogroup' : 'group');
        list.setAttribute('aria-label', list.closest('fieldset').querySelector('legend').innerText);
    });
    const plain = () => document.querySelectorAll('fieldset label').forEach((label) => {
        label.removeAttribute('role');
        label.removeAttribute('aria-selected');
    });
    const both = () => { tidy(); plain(); };
    both();
    new MutationObserver(both).observe(document.body, {
        subtree: true, childList: true, attributeFilter: ['aria-selected']
    });
    // Dash restores the text cursor of every input that it updates; a slider has none.
    const restore = HTMLInputElement.prototype.setSelectionRange;
    HTMLInputElement.prototype.setSelectionRange = function (...range) {
        return this.type === 'range' ? undefined : restore.apply(this, range);
    };
    // The settings are folded on a narrow screen, where the figure comes first.
    const wide = window.matchMedia('(min-width: 901px)');
    const fold = () => { document.querySelector('#settings-fold').open = wide.matches; };
    fold();
    wide.addEventListener('change', fold);
    return '';
}
"""
LINK = """
function (search, key) {
    const query = key ? '?token=' + key + (search ? '&' + search.slice(1) : '') : search;
    return window.location.origin + window.location.pathname + query;
}
"""
# What was drawn for other settings is dimmed until its successor is there.
DIM = """
function (settings, drawn) {
    const all = !drawn || (settings && settings.stamp !== drawn.stamp);
    return ['learning', 'order', 'landscape'].map((name) =>
        (all || drawn.stale.includes(name)) ? 'plot stale' : 'plot');
}
"""
# The slots of the simulations keep their buttons; only texts change, and what is hidden.
SLOTS_SCRIPT = """
function (slots) {
    const fields = ['name', 'progress', 'total', 'words', 'idle', 'no_cancel', 'no_remove'];
    return fields.flatMap((field) => slots.map((slot) => slot[field]));
}
"""


TOKEN = State(TOKEN_FIELD["id"], TOKEN_FIELD["property"])
SLOTS = range(MAX_KEPT)
FIGURES = ("learning", "order", "landscape")


def register(app: Dash, sessions: Sessions, guard: RequestGuard) -> None:
    """Attach everything to the page."""

    def session_of(token: object) -> Session:
        return sessions.get(*guard.read_token(token))

    register_sync(app, sessions, session_of)
    _draw(app, sessions, session_of)
    _simulate(app, sessions, session_of)
    _download(app, sessions, session_of)
    _in_browser(app)


def _in_browser(app: Dash) -> None:
    attach: Any = app.clientside_callback
    pressed, held = Input("get-png", "n_clicks"), State("settings", "data")
    attach(PNG, Output("png-done", "data"), pressed, held)
    attach(AT_START, Output("page-tidied", "data"), Input(TOKEN_FIELD["id"], "data"))
    attach(
        LINK,
        Output("link", "value"),
        Input("url", "search"),
        State("address-key", "data"),
    )
    attach(
        DIM,
        *(Output(f"{name}-plot", "className") for name in FIGURES),
        Input("settings", "data"),
        Input("drawn", "data"),
    )
    fields = (  # in the order of the script
        ("name", "children"), ("progress", "value"), ("progress", "max"), ("words", "children"),
        ("slot", "hidden"), ("cancel", "hidden"), ("remove", "hidden"),
    )  # fmt: skip
    attach(
        SLOTS_SCRIPT,
        *(Output(f"{name}-{i}", what) for name, what in fields for i in SLOTS),
        Input("simulations-shown", "data"),
        prevent_initial_call=True,
    )


def _draw(app: Dash, sessions: Sessions, session_of: Any) -> None:
    @app.callback(
        Output("learning", "figure"),
        Output("order", "figure"),
        Output("landscape", "figure"),
        Output("status", "children"),
        Output("shown-note", "children"),
        Output("simulations-shown", "data"),
        Output("python", "children"),
        Output("poll", "disabled"),
        Output("poll", "interval"),
        Output("drawn", "data"),
        Input("settings", "data"),
        Input("poll", "n_intervals"),
        Input("heartbeat", "n_intervals"),
        Input("simulations-changed", "data"),
        TOKEN,
        State("drawn", "data"),
    )
    def draw(
        held: Any, _ticks: Any, _beats: Any, _changed: Any, token: Any, drawn: Any
    ) -> tuple[Any, ...]:
        nothing = (no_update,) * 10
        try:
            session = session_of(token)
            settings, stamp = _held(held)
        except InvalidInput:
            return nothing
        if stamp < session.stamp:
            return nothing  # an answer to an older question must not overwrite a newer one
        session.stamp = stamp
        by_clock = ctx.triggered_id in ("poll", "heartbeat")
        before = drawn if isinstance(drawn, dict) else {}
        content = wanted_content(sessions, session, settings, wait=not by_clock)
        if content.mark == before.get("mark") and by_clock and content.slow:
            sessions.theory.wait_for_news(POLL[True] / 1500)
            content = wanted_content(sessions, session, settings, wait=False)
        if stamp < session.stamp:
            return nothing
        if content.mark == before.get("mark") and by_clock:
            return (*nothing[:7], not content.busy, no_update, no_update)
        errors = [html.Div(error, className="trouble") for error in content.errors]
        if content.moved is not None:
            # Beside the outputs, as `sync` and `draw` would be a circle.
            ends = (content.moved.low, content.moved.high)
            set_props("followed-range", {"data": {"range": ends, "stamp": stamp}})
        stale, figures, seen = content.stale, content.figures, before.get("figures") or {}
        marks = {
            name: seen.get(name) if name in stale else mark_of(figures[name]) for name in FIGURES
        }
        return (
            *(no_update if marks[name] == seen.get(name) else figures[name] for name in FIGURES),
            [html.Div(content.status), *errors],
            content.note,
            [slot_content(one) for one in content.simulations],
            python_lines(settings, _shown(content.simulations)),
            not content.busy,
            POLL[content.slow],
            {"mark": content.mark, "stamp": stamp, "stale": stale, "figures": marks},
        )


def _held(held: Any) -> tuple[PageSettings, int]:
    """The settings in the page's store, and the number under which they were asked for."""
    stamp = held.get("stamp") if isinstance(held, dict) else None
    if isinstance(stamp, bool) or not isinstance(stamp, int) or not 0 <= stamp < 2**53:
        raise InvalidInput("the page has no settings yet")
    return make_settings(held.get("settings")), stamp


def _shown(simulations: list[Simulation | None]) -> list[PageSettings]:
    return [one.settings for one in simulations if one is not None and one.rows]


def _simulate(app: Dash, sessions: Sessions, session_of: Any) -> None:
    buttons = ["simulate", *(f"{act}-{i}" for act in ("cancel", "remove") for i in SLOTS)]

    @app.callback(
        Output("simulations-changed", "data"),
        Output("simulation-message", "children"),
        *(Input(button, "n_clicks") for button in buttons),
        TOKEN,
        State("simulations-changed", "data"),
        *(State(control_id(name), "value") for name in NAMES),
        prevent_initial_call=True,
    )
    def simulate(*given: Any) -> tuple[Any, Any]:
        token, changed, *values = given[len(buttons) :]
        pressed = [one["prop_id"].rsplit(".", 1)[0] for one in ctx.triggered if one["value"]]
        if not pressed:
            return no_update, no_update  # a button appeared, nobody pressed it
        try:
            session = session_of(token)
            for button in pressed:
                act, _, slot = button.partition("-")
                if act == "simulate":
                    settings = settings_of(dict(zip(NAMES, values, strict=True)))
                    sessions.start(session, make_settings(settings))
                elif act == "cancel":
                    session.simulations.cancel(int(slot))
                else:
                    session.simulations.remove(int(slot))
        except InvalidInput as error:
            return no_update, sentence(error)
        return (changed if isinstance(changed, int) else 0) + 1, ""


def _download(app: Dash, sessions: Sessions, session_of: Any) -> None:
    @app.callback(
        Output("download", "data"),
        Input("get-csv", "n_clicks"),
        Input("get-python", "n_clicks"),
        State("settings", "data"),
        TOKEN,
        prevent_initial_call=True,
    )
    def download(_csv: Any, _python: Any, held: Any, token: Any) -> Any:
        try:
            session = session_of(token)
            settings, _ = _held(held)
        except InvalidInput:
            return no_update
        content = wanted_content(sessions, session, settings, wait=True)
        if ctx.triggered_id == "get-csv":
            return _file("polyceptron.csv", to_csv(content.rows), "text/csv")
        lines = python_lines(settings, _shown(content.simulations))
        return _file("polyceptron_curve.py", lines, "text/x-python")


def _file(name: str, content: str, kind: str) -> dict[str, Any]:
    return {"filename": name, "content": content, "type": kind, "base64": False}
