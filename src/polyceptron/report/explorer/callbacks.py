"""What happens when something on the page changes.

`sync` turns controls and address into one checked value, and whichever changes, the other follows;
`draw` draws what is there of that, again at every tick while work is under way. What runs in the
browser itself is in assets/explorer.js.
"""

import json
from collections.abc import Callable
from typing import Any
from zlib import crc32

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update, set_props

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import layout
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.page_content import caption, to_csv, wanted_content
from polyceptron.report.explorer.page_figures import without
from polyceptron.report.explorer.request_guard import TOKEN_FIELD, RequestGuard
from polyceptron.report.explorer.work_queue import Session, Sessions

TOKEN = State(TOKEN_FIELD["id"], TOKEN_FIELD["property"])
SLOTS = range(form.MAX_KEPT)
FIGURES = tuple(layout.HEIGHTS)
MOVED = ("alpha", "shown", *form.NUMBERS.values())  # by other settings


SYNCED: dict[str, Any] = {
    "search": Output("url", "search"),
    "values": {name: Output(f"control-{name}", "value") for name in form.NAMES},
    "settings": Output("settings", "data"),
    "message": Output("message", "children"),
    "dress": {
        f"{one}.{what}": Output(one, what)
        for one, parts in layout.dressing(form.PageSettings()).items()
        for what in parts
    },
}
SessionOf = Callable[[object], Session]


def _ends(kind: Any, names: str) -> list[Any]:
    """Inputs or outputs, each written as element.property."""
    return [kind(*name.split(".")) for name in names.split()]


def register(app: Dash, sessions: Sessions, guard: RequestGuard) -> None:
    """Attach everything to the page."""

    def session_of(token: object) -> Session:
        return sessions.get(guard.read_token(token))

    def attach(name: str, *ends: Any) -> None:
        in_browser: Any = app.clientside_callback
        in_browser(ClientsideFunction("explorer", name), *ends)

    for on_server in (_sync, _draw, _simulate, _download):
        on_server(app, sessions, session_of)
    held = ("settings", "data")
    plots = [Output(f"{name}-plot", "className") for name in FIGURES]
    attach("png", Output("png-done", "data"), Input("get-png", "n_clicks"), State(*held))
    attach("tidy", Output("page-tidied", "data"), Input(TOKEN_FIELD["id"], "data"))
    attach("link", Output("link", "value"), Input("url", "search"), State("address-key", "data"))
    attach("dim", *plots, Input(*held), Input("drawn", "data"))


def _sync(app: Dash, sessions: Sessions, session_of: SessionOf) -> None:
    @app.callback(
        output=SYNCED,
        inputs={
            "search": Input("url", "search"),
            "values": {name: Input(f"control-{name}", "value") for name in form.NAMES},
            "changed": Input("simulations-changed", "data"),
            "token": TOKEN,
        },
    )
    def sync(search: Any, values: dict[str, Any], changed: Any, token: Any) -> dict[str, Any]:
        touched = {one["prop_id"].rsplit(".", 1)[0] for one in ctx.triggered}
        by_address = not touched - {"url", ""}
        nothing: dict[str, Any] = dict.fromkeys(SYNCED, no_update)
        nothing |= {name: dict.fromkeys(SYNCED[name], no_update) for name in ("values", "dress")}
        before = layout.settings_of(values)  # what has just been chosen begins at its own number
        begun = {number for kind, number in form.NUMBERS.items() if f"control-{kind}" in touched}
        given = {name: value for name, value in before.items() if name not in begun}
        try:
            session = session_of(token)
            opened = _opened(search, sessions, session) if by_address else None
            settings, message = opened or (form.make_settings(given), "")
        except InvalidInput as error:
            return {**nothing, "message": _as_message(error)}
        address = form.to_query(settings, [one.settings for one in session.simulations])
        if touched == {"simulations-changed"}:
            return {**nothing, "search": address}
        plain, shown = settings.as_dict(), layout.shown_values(settings)
        if not by_address:
            moved = [name for name in MOVED if plain[name] != before[name]]
            shown = nothing["values"] | {n: shown[n] for n in moved if n not in settings.idle}
        return {
            "search": no_update if by_address else address,
            "values": shown,
            "settings": {
                "settings": plain,
                "stamp": session.next_stamp(),
                "caption": caption(settings),
            },
            "message": message,
            "dress": {
                f"{one}.{what}": value
                for one, parts in layout.dressing(settings).items()
                for what, value in parts.items()
            },
        }


def _opened(search: Any, sessions: Sessions, session: Session) -> tuple[form.PageSettings, str]:
    """What the address asks for, and a message if that cannot be shown.

    Its simulations start when the page opens; going back and forth later starts nothing.
    """
    (settings, simulations), message = form.from_query(""), ""
    try:
        settings, simulations = form.from_query(search)
    except InvalidInput as error:
        message = f"This link cannot be shown: {error}. Here are the defaults instead."
    if not session.link_is_read:
        session.link_is_read = True
        try:
            for one in simulations:
                sessions.start(session, one)
        except InvalidInput as error:
            message += _as_message(error)
    return settings, message


def _as_message(error: Exception) -> str:
    """The error message with a capital and a full stop."""
    text = str(error)
    return text[:1].upper() + text[1:] + "."


def _draw(app: Dash, sessions: Sessions, session_of: SessionOf) -> None:
    @app.callback(
        *(Output(name, "figure") for name in FIGURES),
        *_ends(Output, "status.children shown-note.children python.children"),
        *_ends(Output, "poll.max_intervals drawn.data"),
        *_ends(Input, "settings.data poll.n_intervals heartbeat.n_intervals"),
        *_ends(Input, "simulations-changed.data"),
        TOKEN,
        State("drawn", "data"),
    )
    def draw(
        held: Any, ticks: Any, _beats: Any, _changed: Any, token: Any, drawn: Any
    ) -> tuple[Any, ...]:
        nothing = (no_update,) * 8
        # One more tick with each answer: Dash drops an answer that the next question overtakes.
        ticks = ticks if isinstance(ticks, int) else 0
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
        if stamp < session.stamp:
            return nothing
        if content.mark == before.get("mark") and by_clock:
            return (*nothing[:6], ticks + content.busy, no_update)
        shown, slots = content.settings, [layout.slot_content(one) for one in content.simulations]
        ends = [shown.low, shown.high]
        if ends != before.get("ends"):
            set_props("control-alpha", dict(layout.alpha_slider(*ends)))
        known = before.get("slots")
        if not isinstance(known, list) or len(known) != form.MAX_KEPT:
            known = [layout.slot_content(None)] * form.MAX_KEPT
        for i in (i for i in SLOTS if slots[i] != known[i]):
            # At once: another callback would wait for the end of all looks, and they go on.
            for part, look in slots[i].items():
                set_props(f"{part}-{i}", look)
        # Before the rest: what changes meanwhile is seen at the next look.
        busy, stale, seen = content.busy, content.stale, before.get("figures")
        seen = seen if isinstance(seen, dict) else {}
        new: Any = {n: crc32(json.dumps(one).encode()) for n, one in content.figures.items()}
        new |= {name: seen.get(name) for name in stale}  # what stands there stays
        line, errors = content.status
        words: Any = [html.Span(className="spinner"), line] if content.missing else line
        return (
            *(no_update if new[f] == seen.get(f) else content.figures[f] for f in FIGURES),
            [html.Div(words), *(html.Div(error, className="trouble") for error in errors)],
            without(shown, content.curves, content.simulated),
            content.python,
            ticks + busy,
            {
                "mark": content.mark,
                "stamp": stamp,
                "stale": stale,
                "figures": new,
                "ends": ends,
                "slots": slots,
            },
        )


def _held(held: Any) -> tuple[form.PageSettings, int]:
    """The settings in the page's store, and the number under which they were asked for."""
    stamp = held.get("stamp") if isinstance(held, dict) else None
    if isinstance(stamp, bool) or not isinstance(stamp, int) or not 0 <= stamp < 2**53:
        raise InvalidInput("the page has no settings yet")
    return form.make_settings(held.get("settings")), stamp


def _simulate(app: Dash, sessions: Sessions, session_of: SessionOf) -> None:
    buttons = ["simulate", *(f"{act}-{i}" for act in ("cancel", "remove") for i in SLOTS)]

    @app.callback(
        *_ends(Output, "simulations-changed.data simulation-message.children"),
        *(Input(button, "n_clicks") for button in buttons),
        TOKEN,
        *_ends(State, "simulations-changed.data drawn.data"),
        *(State(f"control-{name}", "value") for name in form.NAMES),
        prevent_initial_call=True,
    )
    def simulate(*given: Any) -> tuple[Any, Any]:
        token, changed, drawn, *values = given[len(buttons) :]
        pressed = [one["prop_id"].rsplit(".", 1)[0] for one in ctx.triggered if one["value"]]
        if not pressed:
            return no_update, no_update  # a button appeared, nobody pressed it
        try:
            session = session_of(token)
            for button in pressed:
                act, _, slot = button.partition("-")
                if act == "simulate":
                    held = layout.settings_of(dict(zip(form.NAMES, values, strict=True)))
                    settings, ends = form.make_settings(held), (drawn or {}).get("ends")
                    ends = ends if isinstance(ends, list) and len(ends) == 2 else []
                    if settings.range_rule == form.FOLLOW and ends:
                        settings = settings.changed(range_rule="set", low=ends[0], high=ends[1])
                    sessions.start(session, settings)
                elif act == "cancel":
                    sessions.cancel(session, int(slot))
                else:
                    session.remove(int(slot))
        except InvalidInput as error:
            return no_update, _as_message(error)
        return (changed if isinstance(changed, int) else 0) + 1, ""


def _download(app: Dash, sessions: Sessions, session_of: SessionOf) -> None:
    @app.callback(
        Output("download", "data"),
        *_ends(Input, "get-csv.n_clicks get-python.n_clicks get-html.n_clicks"),
        State("settings", "data"),
        TOKEN,
        prevent_initial_call=True,
    )
    def download(_csv: Any, _python: Any, _html: Any, held: Any, token: Any) -> Any:
        try:
            content = wanted_content(sessions, session_of(token), _held(held)[0], wait=True)
        except InvalidInput:
            return no_update
        if ctx.triggered_id == "get-html":
            return {"filename": "polyceptron.html", "content": content.html, "type": "text/html"}
        if ctx.triggered_id == "get-python":
            name, text = "polyceptron_curve.py", content.python
            return {"filename": name, "content": text, "type": "text/x-python"}
        return {"filename": "polyceptron.csv", "content": to_csv(content.rows), "type": "text/csv"}
