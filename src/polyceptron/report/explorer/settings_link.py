"""The address of the page: every setting, and the simulations shown, as a query string.

A simulation is written as `run=simulation:amp,dimension:300,…`, with what differs from the page's
own settings; who opens the link starts the same runs from the same seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.page_settings import PageSettings, make_settings
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
