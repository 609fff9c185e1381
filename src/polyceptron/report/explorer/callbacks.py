"""What happens when something on the page changes.

Dash calls a function (a callback) of the server whenever one of its inputs changes, and puts what
it returns into its outputs; `no_update` leaves one as it is. Inputs and outputs are properties of
elements of the page, written element.property.

- `sync` turns controls and address into one checked value, `PageSettings`, and whichever changes,
  the other follows. The value goes into the page's store `settings` with a number, its stamp.
- `draw` draws what there is of these settings. While work is under way the clock `poll` calls it
  again; `heartbeat` calls it seldom and always, so that the server knows that the page is open.
- `simulate` answers the buttons of simulations, `download` those of files.

What runs in the browser itself is in assets/explorer.js. The values of settings are checked in
`settings.py` (imported as `form`), what there is to draw is found in `page_content.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from zlib import crc32

from dash import ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update, set_props

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import layout
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.links import from_query, to_query
from polyceptron.report.explorer.members import NUMBERS
from polyceptron.report.explorer.page_content import PageContent, to_csv, wanted_content
from polyceptron.report.explorer.page_figures import without
from polyceptron.report.explorer.request_guard import TOKEN_FIELD, RequestGuard
from polyceptron.report.explorer.script import caption
from polyceptron.report.explorer.sessions import Session, Sessions

Json = Any
"""What the browser sends or gets: anything that is JSON, or `no_update`."""

FIGURES = tuple(layout.HEIGHTS)
# Settings that other settings may change.
MOVED = ("alpha", "shown", "simulation", *NUMBERS.values())
OLD_FIGURES = " The figures still show the previous settings."
LARGEST_STAMP = 2**53  # up to which JavaScript counts exactly


def _ends(kind: Callable[..., Json], names: str) -> list[Json]:
    """Return inputs or outputs, each written as element.property."""
    return [kind(*name.split(".")) for name in names.split()]


def _element_outputs() -> dict[str, Output]:
    """Return an output for each property that follows from settings."""
    return {
        f"{element}.{what}": Output(element, what)
        for element, properties in layout.element_properties(form.PageSettings()).items()
        for what in properties
    }


TOKEN = State(TOKEN_FIELD["id"], TOKEN_FIELD["property"])  # which page asks
# The outputs of `sync`, by name. Those of `draw` are in the order of `_drawing`.
SYNCED: dict[str, Json] = {
    "search": Output("url", "search"),
    "values": {name: Output(f"control-{name}", "value") for name in form.NAMES},
    "settings": Output("settings", "data"),
    "message": Output("message", "children"),
    "refused": Output("refused", "data"),
    "elements": _element_outputs(),
}
SLOT_BUTTONS = [f"{act}-{slot}" for act in ("cancel", "remove") for slot in range(form.MAX_KEPT)]
BUTTONS = ("simulate", *SLOT_BUTTONS)
DOWNLOADS = ("get-csv", "get-python", "get-html")


def register(app: Dash, sessions: Sessions, guard: RequestGuard) -> None:
    """Attach everything to the page."""
    here = PageCallbacks(sessions, guard)
    app.callback(
        output=SYNCED,
        inputs={
            "search": Input("url", "search"),
            "values": {name: Input(f"control-{name}", "value") for name in form.NAMES},
            "_changed": Input("simulations-changed", "data"),
            "token": TOKEN,
        },
    )(here.sync)
    app.callback(
        *(Output(name, "figure") for name in FIGURES),
        *_ends(Output, "status.children shown-note.children python.children"),
        *_ends(Output, "poll.max_intervals drawn.data"),
        *_ends(Input, "settings.data poll.n_intervals heartbeat.n_intervals"),
        *_ends(Input, "simulations-changed.data"),
        TOKEN,
        State("drawn", "data"),
    )(here.draw)
    app.callback(
        *_ends(Output, "simulations-changed.data simulation-message.children"),
        *(Input(button, "n_clicks") for button in BUTTONS),
        TOKEN,
        *_ends(State, "simulations-changed.data drawn.data"),
        *(State(f"control-{name}", "value") for name in form.NAMES),
        prevent_initial_call=True,
    )(here.simulate)
    app.callback(
        Output("download", "data"),
        *(Input(button, "n_clicks") for button in DOWNLOADS),
        State("settings", "data"),
        TOKEN,
        prevent_initial_call=True,
    )(here.download)
    _register_in_browser(app)


def _register_in_browser(app: Dash) -> None:
    """Attach what runs in the browser itself."""

    def attach(name: str, *ends: Json) -> None:
        """Let a function of the browser answer these inputs."""
        app.clientside_callback(ClientsideFunction("explorer", name), *ends)

    settings = ("settings", "data")
    class_names = [Output(f"{name}-plot", "className") for name in FIGURES]
    attach("png", Output("png-done", "data"), Input("get-png", "n_clicks"), State(*settings))
    attach("tidy", Output("page-tidied", "data"), Input(TOKEN_FIELD["id"], "data"))
    attach("link", Output("link", "value"), Input("url", "search"), State("address-key", "data"))
    attach(
        "copy",
        Output("copy-link", "children"),
        Input("copy-link", "n_clicks"),
        Input("link", "value"),
    )
    attach(
        "dim",
        *class_names,
        Output("status", "className"),
        Input(*settings),
        Input("drawn", "data"),
        Input("refused", "data"),
    )


@dataclass
class Drawn:
    """What a page shows, as its browser keeps it: so that only what has changed is sent.

    Attributes
    ----------
    mark : str
        That of the content: it changes whenever the content does.
    stamp : int
        The number of the settings: later ones have a higher one.
    stale : list of str
        Figures that still show other settings.
    figures : dict
        A checksum of each figure.
    ends : list of float
        The range of α.
    slots : list of dict
        What the place of each simulation shows.
    """

    mark: str = ""
    stamp: int = 0
    stale: list[str] = field(default_factory=list)
    figures: dict[str, int | None] = field(default_factory=dict)
    ends: list[float] = field(default_factory=list)
    slots: list[Json] = field(default_factory=list)

    @classmethod
    def read(cls, value: Json) -> Drawn:
        """Return what a browser sent; what has another type is taken as unknown.

        Types are checked at the top alone: this only decides what is sent to the same browser.
        """
        drawn = cls()
        if isinstance(value, dict):
            for part in fields(cls):
                sent = value.get(part.name)
                if isinstance(sent, type(getattr(drawn, part.name))):
                    setattr(drawn, part.name, sent)
        if len(drawn.slots) != form.MAX_KEPT:
            drawn.slots = [layout.slot_content(None)] * form.MAX_KEPT
        return drawn

    @classmethod
    def of(cls, content: PageContent, stamp: int, before: Drawn) -> Drawn:
        """Return what a page shows of this content; figures without any stay as they are."""
        figures: dict[str, int | None] = {
            name: crc32(json.dumps(figure).encode()) for name, figure in content.figures.items()
        }
        for name in content.stale:
            figures[name] = before.figures.get(name)
        return cls(
            content.mark,
            stamp,
            content.stale,
            figures,
            [content.settings.low, content.settings.high],
            [layout.slot_content(kept) for kept in content.simulations],
        )


class PageCallbacks:
    """What the server does when something on a page changes."""

    def __init__(self, sessions: Sessions, guard: RequestGuard) -> None:
        self._sessions = sessions
        self._guard = guard

    def _session_of(self, token: Json) -> Session:
        """Return the session of the page with this token."""
        return self._sessions.get(self._guard.read_token(token))

    def sync(self, search: Json, values: form.Values, _changed: Json, token: Json) -> Json:
        """Make settings of the controls or of the address; the other of the two follows."""
        touched = {name.rsplit(".", 1)[0] for name in _changed_inputs()}
        by_address = touched <= {"url", ""}  # "" is Dash's name for the call of a new page
        before = layout.settings_of(values)
        message = ""
        try:
            session = self._session_of(token)
            if by_address:
                settings, message = self._opened(search, session)
            else:
                settings = form.make_settings(_without_old_numbers(before, touched))
        except InvalidInput as error:
            return _nothing_but(message=_sentence(error) + OLD_FIGURES, refused=True)
        address = to_query(settings, [kept.settings for kept in session.simulations])
        if touched == {"simulations-changed"}:
            return _nothing_but(search=address)
        answer = _new_settings(settings, session.next_stamp())
        answer |= {"message": message, "refused": False}
        if by_address:
            return _nothing_but(**answer, values=layout.shown_values(settings))
        moved = {**_nothing()["values"], **_moved_values(settings, before)}
        return _nothing_but(**answer, search=address, values=moved)

    def _opened(self, search: Json, session: Session) -> tuple[form.PageSettings, str]:
        """Return what the address asks for, and a message if that cannot be shown.

        Its simulations start when the page opens; going back and forth later starts nothing.
        """
        settings, simulations = from_query("")
        message = ""
        try:
            settings, simulations = from_query(search)
        except InvalidInput as error:
            message = f"This link cannot be shown: {error}. Here are the defaults instead."
        if not session.link_is_read:
            session.link_is_read = True
            try:
                for simulation in simulations:
                    self._sessions.start(session, simulation)
            except InvalidInput as error:
                message += _sentence(error)
        return settings, message

    def draw(
        self, stored: Json, ticks: Json, _beats: Json, _changed: Json, token: Json, drawn: Json
    ) -> tuple[Json, ...]:
        """Draw what there is to see of the page's settings, if anything is new."""
        try:
            session = self._session_of(token)
            settings, stamp = _stored_settings(stored)
        except InvalidInput:
            return _drawing()
        if stamp < session.stamp:
            return _drawing()  # an answer to an older question must not overwrite a newer one
        session.stamp = stamp
        by_clock = ctx.triggered_id in ("poll", "heartbeat")
        content = wanted_content(self._sessions, session, settings, wait=not by_clock)
        if stamp < session.stamp:  # a newer question came while this one was answered
            return _drawing()
        before = Drawn.read(drawn)
        poll_limit = _poll_limit(ticks, content.busy)
        if by_clock and content.mark == before.mark:
            return _drawing(poll_limit=poll_limit)
        after = Drawn.of(content, stamp, before)
        _send_alpha(content.settings, settings, before)
        _send_slots(after, before)
        figures = [
            _figure_unless_same(content, name, before.figures, after.figures) for name in FIGURES
        ]
        return _drawing(
            figures,
            status=_status_lines(content),
            left_out=without(content.settings, content.curves, content.simulated),
            python=content.python,
            poll_limit=poll_limit,
            drawn=asdict(after),
        )

    def simulate(self, *given: Json) -> tuple[Json, Json]:
        """Start, cancel or remove simulations; return a new count of changes, and a message."""
        token, changed, drawn, *values = given[len(BUTTONS) :]
        pressed = [name.rsplit(".", 1)[0] for name, clicks in _changed_inputs().items() if clicks]
        if not pressed:
            return no_update, no_update  # a button appeared, nobody pressed it
        asked = dict(zip(form.NAMES, values, strict=True))
        try:
            session = self._session_of(token)
            for button in pressed:
                self._press(button, session, asked, Drawn.read(drawn))
        except InvalidInput as error:
            return no_update, _sentence(error)
        return _count(changed) + 1, ""

    def _press(self, button: str, session: Session, asked: form.Values, drawn: Drawn) -> None:
        """Do what a button says."""
        act, _, slot = button.partition("-")
        if act == "cancel":
            self._sessions.cancel(session, int(slot))
        elif act == "remove":
            session.remove(int(slot))
        else:
            settings = form.make_settings(layout.settings_of(asked))
            if settings.range_rule == form.FOLLOW and len(drawn.ends) == 2:
                low, high = drawn.ends
                settings = settings.changed(range_rule="set", low=low, high=high)
            self._sessions.start(session, settings)

    def download(self, *given: Json) -> Json:
        """Return a file: the table, the script, or a page of its own."""
        stored, token = given[len(DOWNLOADS) :]
        try:
            session = self._session_of(token)
            settings, _ = _stored_settings(stored)
            content = wanted_content(self._sessions, session, settings, wait=True)
        except InvalidInput:
            return no_update
        if ctx.triggered_id == "get-html":
            return _file("polyceptron.html", content.html, "text/html")
        if ctx.triggered_id == "get-python":
            return _file("polyceptron_curve.py", content.python, "text/x-python")
        return _file("polyceptron.csv", to_csv(content.rows), "text/csv")


def _changed_inputs() -> dict[str, Json]:
    """Return the inputs that have called a callback, element.property, with their values."""
    return {item["prop_id"]: item["value"] for item in ctx.triggered}


def _without_old_numbers(settings: form.Values, touched: set[str]) -> form.Values:
    """Leave out the numbers of what was just chosen: it begins at its own."""
    old = {number for kind, number in NUMBERS.items() if f"control-{kind}" in touched}
    return {name: value for name, value in settings.items() if name not in old}


def _nothing() -> dict[str, Json]:
    """Return an answer of `sync` that changes nothing."""
    nothing: dict[str, Json] = dict.fromkeys(SYNCED, no_update)
    for name in ("values", "elements"):
        nothing[name] = dict.fromkeys(SYNCED[name], no_update)
    return nothing


def _nothing_but(**parts: Json) -> dict[str, Json]:
    """Return an answer of `sync` that changes these parts."""
    return {**_nothing(), **parts}


def _new_settings(settings: form.PageSettings, stamp: int) -> dict[str, Json]:
    """Return what follows from settings: the page's store, and the look of its controls."""
    return {
        "settings": {
            "settings": settings.as_dict(),
            "stamp": stamp,
            "caption": caption(settings),
        },
        "elements": {
            f"{element}.{what}": value
            for element, properties in layout.element_properties(settings).items()
            for what, value in properties.items()
        },
    }


def _moved_values(settings: form.PageSettings, before: Mapping[str, Json]) -> form.Values:
    """Return the values of controls that the other settings have changed.

    An idle setting has no effect now and has its default in `settings`. Its control is hidden and
    keeps its value, for when it has an effect again.
    """
    plain = settings.as_dict()
    shown = layout.shown_values(settings)
    return {
        name: shown[name]
        for name in MOVED
        if plain[name] != before[name] and name not in settings.idle
    }


def _sentence(error: Exception) -> str:
    """Return the error message with a capital and a full stop."""
    text = str(error)
    return text[:1].upper() + text[1:] + "."


def _stored_settings(stored: Json) -> tuple[form.PageSettings, int]:
    """Return the settings in the page's store, and the number under which they were asked for."""
    stamp = None
    if isinstance(stored, dict):
        stamp = stored.get("stamp")
    if isinstance(stamp, bool) or not isinstance(stamp, int) or not 0 <= stamp < LARGEST_STAMP:
        raise InvalidInput("the page has no settings yet")
    return form.make_settings(stored.get("settings")), stamp


def _count(value: Json) -> int:
    """Return a whole number that the browser keeps; 0 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return 0


def _drawing(
    figures: Sequence[Json] = (no_update,) * len(FIGURES),
    *,
    status: Json = no_update,
    left_out: Json = no_update,
    python: Json = no_update,
    poll_limit: Json = no_update,
    drawn: Json = no_update,
) -> tuple[Json, ...]:
    """Return the outputs of `draw` in the order of `register`; without a value nothing changes."""
    return (*figures, status, left_out, python, poll_limit, drawn)


def _poll_limit(ticks: Json, busy: bool) -> int:
    """Return at how many ticks the clock stops: one more than now while work is under way.

    One with each answer and not several: Dash drops an answer if the next tick comes before it.
    """
    if busy:
        return _count(ticks) + 1
    return _count(ticks)


def _send_alpha(drawn: form.PageSettings, asked: form.PageSettings, before: Drawn) -> None:
    """Let the slider of α have the ends of its axis, and α stay between them."""
    if [drawn.low, drawn.high] != before.ends:
        set_props("control-alpha", dict(layout.alpha_slider(drawn.low, drawn.high)))
    if drawn.alpha != asked.alpha:
        set_props("control-alpha", {"value": drawn.alpha})


def _send_slots(after: Drawn, before: Drawn) -> None:
    """Show what is new of the simulations.

    At once, by `set_props`: Dash would keep another callback waiting until `draw` is no longer
    called, and it is called as long as work is under way.
    """
    for number, content in enumerate(after.slots):
        if content != before.slots[number]:
            for part, properties in content.items():
                set_props(f"{part}-{number}", properties)


def _figure_unless_same(
    content: PageContent,
    name: str,
    before: Mapping[str, int | None],
    after: Mapping[str, int | None],
) -> Json:
    """Return a figure, or nothing where the page has it already."""
    if after[name] == before.get(name):
        return no_update
    return content.figures[name]


def _status_lines(content: PageContent) -> list[Json]:
    """Return what is being done, or that all is ready; then each trouble."""
    line, errors = content.status
    words: list[Json] = [line]
    if content.missing:
        words.insert(0, html.Span(className="spinner"))
    return [html.Div(words), *(html.Div(error, className="trouble") for error in errors)]


def _file(name: str, content: str, kind: str) -> dict[str, str]:
    """Return a file for the browser to keep."""
    return {"filename": name, "content": content, "type": kind}
