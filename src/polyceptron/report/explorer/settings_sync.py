"""The address of the page: every setting, and the simulations shown, as a query string.

A simulation is written as `run=simulation:amp,dimension:300,…`, with what differs from the page's
own settings; who opens the link starts the same runs from the same seeds.

Controls and address of the page as one: whichever changes, the other follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from dash import Dash, Input, Output, State, ctx, no_update

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.curve_tasks import followed_range
from polyceptron.report.explorer.export import caption
from polyceptron.report.explorer.layout import (
    alpha_range,
    control_id,
    level_words,
    noise_range,
    settings_of,
    shown_values,
)
from polyceptron.report.explorer.page_figures import spectrum_picture
from polyceptron.report.explorer.server import TOKEN_FIELD
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.settings import (
    NAMES,
    NO_NOISE,
    SPECTRA,
    PageSettings,
    first_level,
    make_settings,
)
from polyceptron.report.explorer.simulation_runs import MAX_KEPT, check_simulation

MAX_QUERY = 6000
RUN = "run"
SIMULATED = (  # the settings that a simulation depends on
    "simulation", "model", "k", "prior", "noise", "level", "features", "ridge", "ridge_rule", "low",
    "high", "scale", "alpha", "dimension", "places", "runs", "seed",
    "shown",
)  # fmt: skip


class Link(NamedTuple):
    """What a link asks for."""

    settings: PageSettings
    simulations: tuple[PageSettings, ...] = ()


def to_query(settings: PageSettings, simulations: Iterable[PageSettings] = ()) -> str:
    """Everything as a query string, with its question mark."""
    values = {**asdict(settings), "estimators": ",".join(settings.estimators)}
    pairs = [(name, _text(value)) for name, value in values.items()]
    pairs += [(RUN, _run_text(settings, one)) for one in simulations]
    return "?" + urlencode(pairs, safe=",:")


def from_query(search: Any) -> Link:
    """The settings and simulations that a query string describes, or a sentence."""
    if search is None or search in ("", "?"):
        return Link(PageSettings())
    if not isinstance(search, str) or len(search) > MAX_QUERY:
        raise InvalidInput(f"the link is longer than {MAX_QUERY} characters")
    try:
        pairs = parse_qsl(
            search.removeprefix("?"), keep_blank_values=True, errors="strict", max_num_fields=60
        )
    except ValueError:
        raise InvalidInput("the link cannot be read: it is not a list of name=value") from None
    runs = [value for name, value in pairs if name == RUN]
    values = {name: value for name, value in pairs if name != RUN}
    if len(values) + len(runs) < len(pairs):
        raise InvalidInput("the link gives a setting twice")
    if not pairs:
        raise InvalidInput("the link cannot be read: it is not a list of name=value")
    if len(runs) > MAX_KEPT:
        raise InvalidInput(
            f"the link asks for {len(runs)} simulations: at most {MAX_KEPT} are kept"
        )
    settings = make_settings(values)
    return Link(settings, tuple(_run(settings, text) for text in runs))


def _run_text(page: PageSettings, simulation: PageSettings) -> str:
    ours, theirs = asdict(page), asdict(simulation)
    told = [name for name in SIMULATED if name == "simulation" or ours[name] != theirs[name]]
    return ",".join(f"{name}:{_text(theirs[name])}" for name in told)


def _run(page: PageSettings, text: str) -> PageSettings:
    values: dict[str, Any] = {}
    for item in text.split(","):
        name, _, value = item.partition(":")
        if name not in SIMULATED or name in values:
            raise InvalidInput(f"the link has a simulation that cannot be read: {text[:40]!r}")
        values[name] = value
    simulation = make_settings({**page.as_dict(), **values})
    check_simulation(simulation)
    return simulation


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


ENDS = ("min", "max", "step")
OUTPUT: dict[str, Any] = {
    "search": Output("url", "search"),
    "values": {name: Output(control_id(name), "value") for name in NAMES},
    "settings": Output("settings", "data"),
    "message": Output("message", "children"),
    "range": {end: Output(control_id("alpha"), end) for end in ENDS},
    "alpha_text": Output("alpha-value", "children"),
    "level_range": {end: Output(control_id("level"), end) for end in ENDS},
    "level_text": Output("level-value", "children"),
    "level_disabled": Output(control_id("level"), "disabled"),
    "spectrum": Output("spectrum-picture", "src"),
    "spectrum_alt": Output("spectrum-picture", "alt"),
    "spectrum_text": Output("spectrum-words", "children"),
    "ridge_text": Output("ridge-value", "children"),
    "k_disabled": Output(control_id("k"), "disabled"),
    "ridge_disabled": Output(control_id("ridge"), "disabled"),
}


def register_sync(app: Dash, sessions: Sessions, session_of: Any) -> None:
    """Attach it to the page; `session_of` finds the session of a token."""

    @app.callback(
        output=OUTPUT,
        inputs={
            "search": Input("url", "search"),
            "values": {name: Input(control_id(name), "value") for name in NAMES},
            "followed": Input("followed-range", "data"),
            "changed": Input("simulations-changed", "data"),
            "token": State(TOKEN_FIELD["id"], TOKEN_FIELD["property"]),
        },
    )
    def sync(
        search: Any, values: dict[str, Any], followed: Any, changed: Any, token: Any
    ) -> dict[str, Any]:
        touched = {one["prop_id"].rsplit(".", 1)[0] for one in ctx.triggered}
        by_address = not touched - {"url", ""} or not ctx.triggered
        try:
            session = session_of(token)
            if by_address:
                link, message = _opened(search)
                message += _start_simulations(sessions, session, link)
                settings = link.settings
            else:
                settings, message = make_settings(_levelled(settings_of(values), touched)), ""
                settings = _ranged(settings, touched, followed, session)
        except InvalidInput as error:
            return {**_nothing(), "message": sentence(error)}
        if touched == {"simulations-changed"}:
            return {**_nothing(), "search": _address(settings, session), "message": no_update}
        shown: dict[str, Any] = shown_values(settings)
        if not by_address:
            given = settings_of(values)
            moved = ("alpha", "low", "high", "range_rule", "prior")
            shown = dict.fromkeys(NAMES, no_update) | {
                name: shown[name] for name in moved if shown[name] != given[name]
            }
            if settings.level != given["level"]:
                shown["level"] = shown_values(settings)["level"]
            if settings.prior != given["prior"]:
                message = "Correlated features go with Gaussian weights here."
        optimal = settings.ridge_rule == "optimal"
        picture, words = spectrum_picture(SPECTRA[settings.features])
        return {
            "search": no_update if by_address else _address(settings, session),
            "values": shown,
            "settings": {
                "settings": settings.as_dict(),
                "stamp": session.next_stamp(),
                "caption": caption(settings),
            },
            "message": message,
            "range": alpha_range(settings),
            "alpha_text": f"{settings.alpha:.4g}",
            "level_range": noise_range(settings),
            "level_text": level_words(settings),
            "level_disabled": settings.noise == NO_NOISE,
            "spectrum": picture,
            "spectrum_alt": words,
            "spectrum_text": words,
            "ridge_text": "optimal" if optimal else f"{settings.ridge:.4g}",
            "k_disabled": settings.model == "perceptron",
            "ridge_disabled": optimal,
        }


def _nothing() -> dict[str, Any]:
    return {
        name: dict.fromkeys(one, no_update) if isinstance(one, dict) else no_update
        for name, one in OUTPUT.items()
    }


def _levelled(values: dict[str, Any], touched: set[str]) -> dict[str, Any]:
    """The values with a level that the noise just chosen can have."""
    if control_id("noise") not in touched:
        return values
    return {**values, "level": first_level(str(values["noise"]))}


def _opened(search: Any) -> tuple[Link, str]:
    """What the address asks for, and a message if that cannot be shown."""
    try:
        return from_query(search), ""
    except InvalidInput as error:
        words = f"This link cannot be shown: {error}. Here are the defaults instead."
        return Link(PageSettings()), words


def _start_simulations(sessions: Sessions, session: Session, link: Link) -> str:
    """Start what the link shows, when the page opens; going back and forth later starts nothing."""
    if session.link_is_read:
        return ""
    session.link_is_read = True
    try:
        for settings in link.simulations:
            sessions.start(session, settings)
    except InvalidInput as error:
        return sentence(error)
    return ""


def _ranged(
    settings: PageSettings, touched: set[str], followed: Any, session: Session
) -> PageSettings:
    """The range of α as somebody has just set it, or as what it follows asks."""
    if touched & {control_id("low"), control_id("high")}:
        return replace(settings, range_rule="set")
    if settings.range_rule != "follow":
        return settings
    if not (settings.finite_prior or settings.noisy):
        low, high = followed_range(settings, {}, {})
        return make_settings({**settings.as_dict(), "low": low, "high": high})
    if touched != {"followed-range"}:
        return settings
    if not isinstance(followed, dict) or followed.get("stamp") != session.stamp:
        return settings  # that of another problem
    ends = followed.get("range")
    if not isinstance(ends, list) or len(ends) != 2:
        raise InvalidInput("a range of α has two ends")
    low, high = ends
    return make_settings({**settings.as_dict(), "low": low, "high": high})


def _address(settings: PageSettings, session: Session) -> str:
    return to_query(settings, [one.settings for one in session.simulations.all])


def sentence(error: Exception) -> str:
    """The reason as a sentence."""
    text = str(error)
    return text[:1].upper() + text[1:] + "."
