"""Links: everything on the page as a query string, and back.

A simulation in a link is written as `run=simulation:amp,dimension:300,…`, with what differs from
the page's own settings; who opens the link starts the same runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.controls import LONGEST_QUOTE
from polyceptron.report.explorer.settings import (
    MAX_KEPT,
    NAMES,
    PageSettings,
    check_simulation,
    make_settings,
)

MAX_QUERY = 6000  # characters of a link
MAX_FIELDS = 60  # names with values in a link
# What a simulation depends on, its method first.
SIMULATED = ["simulation"] + [
    name for name in NAMES if name not in ("simulation", "estimators", "points", "error_scale")
]


def to_query(settings: PageSettings, simulations: Iterable[PageSettings] = ()) -> str:
    """Return everything as a query string, with its question mark."""
    ours = _texts(settings)
    idle = settings.idle
    pairs = [(name, text) for name, text in ours.items() if name not in idle]
    for simulation in simulations:
        theirs = _texts(simulation)
        named = [name for name in SIMULATED if name == "simulation" or ours[name] != theirs[name]]
        pairs.append(("run", ",".join(f"{name}:{theirs[name]}" for name in named)))
    return "?" + urlencode(pairs, safe=",:")


def _texts(settings: PageSettings) -> dict[str, str]:
    """Return the values of all settings as text."""
    texts = {}
    for name in NAMES:
        value = getattr(settings, name)
        if isinstance(value, tuple):
            value = ",".join(value)
        texts[name] = str(value)
    return texts


def from_query(search: object) -> tuple[PageSettings, tuple[PageSettings, ...]]:
    """Return the settings and simulations that a query string describes, or raise InvalidInput."""
    if search is None or search in ("", "?"):
        return PageSettings(), ()
    if not isinstance(search, str) or len(search) > MAX_QUERY:
        raise InvalidInput(f"the link is longer than {MAX_QUERY} characters")
    pairs = _pairs(search)
    runs = [value for name, value in pairs if name == "run"]
    values = {name: value for name, value in pairs if name != "run"}
    if len(values) + len(runs) < len(pairs):
        raise InvalidInput("the link gives a setting twice")
    if len(runs) > MAX_KEPT:
        raise InvalidInput(
            f"the link asks for {len(runs)} simulations: at most {MAX_KEPT} are kept"
        )
    settings = make_settings(values)
    return settings, tuple(_simulation(settings, text) for text in runs)


def _pairs(search: str) -> list[tuple[str, str]]:
    """Return the names and values of a query string, or raise InvalidInput."""
    try:
        pairs = parse_qsl(
            search.removeprefix("?"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        pairs = []
    if not pairs:
        raise InvalidInput("the link cannot be read: it is not a list of name=value")
    return pairs


def _simulation(settings: PageSettings, text: str) -> PageSettings:
    """Return the settings of a simulation in a link, where they differ from the page's."""
    own: dict[str, object] = {}
    for item in text.split(","):
        name, _, value = item.partition(":")
        if name not in SIMULATED or name in own:
            raise InvalidInput(
                f"the link has a simulation that cannot be read: {text[:LONGEST_QUOTE]!r}"
            )
        own[name] = value
    simulation = settings.changed(**own)
    check_simulation(simulation)
    return simulation
