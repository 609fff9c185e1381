"""What the page shows, as one value: checked, and written to and read from a link.

Everything that reaches the server from a browser, by a control or by a link, becomes a `State`
here or ends in a sentence; nothing behind this module needs to check a range again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher, Estimator, Perceptron, Teacher, make_estimator

MAX_QUERY = 2000
MAX_ENTRIES = 30_000_000  # n d, numbers of one instance of a simulation: 240 MB
MAX_INSTANCES = 200

ESTIMATORS = ("bayes", "cross-entropy", "square", "max-margin")
PRIORS = ("gaussian", "rademacher", "ternary")
CHOICES: dict[str, tuple[str, ...]] = {
    "model": ("argmax", "perceptron"),
    "prior": PRIORS,
    "ridge_rule": ("fixed", "optimal"),
    "scale": ("linear", "log"),
    "error_scale": ("linear", "log"),
    "shown": ("overlaps", "correlation", "variance", "training-error", "training-loss"),
    "simulation": ("amp", "cross-entropy", "square", "max-margin"),
}


class Limit(NamedTuple):
    """The range of a number, and what to call it."""

    words: str
    low: float
    high: float
    whole: bool


LIMITS = {
    "k": Limit("the number of classes k", 2, 50, True),
    "ridge": Limit("the ridge λ", 1e-6, 1e4, False),
    "low": Limit("the smallest α", 0, 1000, False),
    "high": Limit("the largest α", 0.01, 1000, False),
    "points": Limit("the number of points", 2, 200, True),
    "alpha": Limit("the chosen α", 0, 1000, False),
    "dimension": Limit("the dimension d", 10, 5000, True),
    "places": Limit("the number of α values of a simulation", 1, 40, True),
    "runs": Limit("the number of runs", 1, 50, True),
    "seed": Limit("the seed", 0, 2**31 - 1, True),
}


@dataclass(frozen=True)
class State:
    """Everything on the page but the results."""

    model: str = "argmax"
    k: int = 3
    prior: str = "rademacher"
    estimators: tuple[str, ...] = ("bayes", "cross-entropy", "square")
    ridge: float = 0.1
    ridge_rule: str = "fixed"
    low: float = 0.1
    high: float = 4.0
    scale: str = "linear"
    points: int = 30
    alpha: float = 2.3
    error_scale: str = "linear"
    shown: str = "overlaps"
    simulation: str = "amp"
    dimension: int = 300
    places: int = 8
    runs: int = 2
    seed: int = 0

    @property
    def teacher(self) -> AnyTeacher:
        """The rule to be learnt; the perceptron has two classes whatever k says."""
        prior: Any = self.prior
        if prior == "ternary":
            prior = ([-1, 0, 1], [0.25, 0.5, 0.25])
        return Perceptron(prior) if self.model == "perceptron" else Teacher(self.k, prior)

    def estimator(self, name: str) -> Estimator:
        """The estimator of that name at the ridge of the page."""
        if name in ("bayes", "max-margin"):
            return make_estimator(name)
        return make_estimator(name, "optimal" if self.ridge_rule == "optimal" else self.ridge)

    @property
    def finite_prior(self) -> bool:
        """Whether there are transitions."""
        return self.prior != "gaussian"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the browser's store."""
        return {**asdict(self), "estimators": list(self.estimators)}


NAMES = tuple(field.name for field in fields(State))


def make_state(values: Mapping[str, Any]) -> State:
    """A state from values of any type, missing ones at their defaults, or a sentence.

    >>> make_state({"k": "4"}).k
    4
    """
    if not isinstance(values, Mapping):
        raise InvalidInput("settings must be names with values")
    unknown = [name for name in values if name not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown setting {str(unknown[0])[:40]!r}")
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name == "estimators":
            checked[name] = _estimators(value)
        elif name in CHOICES:
            if value not in CHOICES[name]:
                allowed = ", ".join(CHOICES[name])
                raise InvalidInput(f"{name} must be one of {allowed}, got {str(value)[:40]!r}")
            checked[name] = value
        else:
            checked[name] = _number(value, LIMITS[name])
    state = State(**checked)
    if state.low >= state.high:
        raise InvalidInput(f"the range of α must go upwards, got {state.low:g} to {state.high:g}")
    if state.scale == "log" and state.low <= 0:
        raise InvalidInput("a logarithmic α axis must start above 0")
    return replace(state, alpha=min(max(state.alpha, state.low), state.high))


def check_simulation(state: State) -> None:
    """A sentence if the simulation that the page describes is too large to run here."""
    entries = state.high * state.dimension**2
    if entries > MAX_ENTRIES:
        allowed = int(math.sqrt(MAX_ENTRIES / state.high))
        raise InvalidInput(
            f"α = {state.high:g} in dimension {state.dimension} is too much data for this page: "
            f"choose a dimension of at most {allowed}, or a smaller largest α"
        )
    if state.places * state.runs > MAX_INSTANCES:
        raise InvalidInput(
            f"{state.places} values of α with {state.runs} runs each are "
            f"{state.places * state.runs} fits: at most {MAX_INSTANCES} are allowed here"
        )
    if round(max(state.low, 1e-9) * state.dimension) < 1 and state.places > 1:
        raise InvalidInput(
            f"α = {state.low:g} in dimension {state.dimension} leaves no sample to learn from: "
            f"raise the smallest α or the dimension"
        )


def to_query(state: State) -> str:
    """The whole state as a query string, with its question mark."""
    values = {**asdict(state), "estimators": ",".join(state.estimators)}
    return "?" + urlencode({name: _text(value) for name, value in values.items()}, safe=",")


def from_query(search: Any) -> State:
    """The state that a query string describes, or a sentence."""
    if search is None or search in ("", "?"):
        return State()
    if not isinstance(search, str) or len(search) > MAX_QUERY:
        raise InvalidInput(f"the link is longer than {MAX_QUERY} characters")
    try:
        pairs = parse_qsl(
            search.removeprefix("?"), keep_blank_values=True, errors="strict", max_num_fields=60
        )
    except ValueError:
        raise InvalidInput("the link cannot be read: it is not a list of name=value") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise InvalidInput("the link gives a setting twice")
    if not values:
        raise InvalidInput("the link cannot be read: it is not a list of name=value")
    return make_state(values)


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _estimators(value: Any) -> tuple[str, ...]:
    if value is None or isinstance(value, list | tuple):
        names = list(value or ())
    else:
        names = str(value).split(",")
    for name in names:
        if name not in ESTIMATORS:
            raise InvalidInput(
                f"estimators must be among {', '.join(ESTIMATORS)}, got {str(name)[:40]!r}"
            )
    if not names:
        raise InvalidInput("choose at least one estimator")
    return tuple(name for name in ESTIMATORS if name in names)


def _number(value: Any, limit: Limit) -> Any:
    kind = "a whole number" if limit.whole else "a number"
    high = f"{limit.high:g}" if limit.high < 1e6 else f"{limit.high:.0f}"
    sentence = f"{limit.words} must be {kind} from {limit.low:g} to {high}"
    if value is None or value == "":
        raise InvalidInput(sentence)  # also what a browser sends for a number out of range
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or not limit.low <= number <= limit.high:
        raise InvalidInput(f"{sentence}, got {str(value)[:40]}")
    if limit.whole:
        if number != int(number):
            raise InvalidInput(f"{sentence}, got {str(value)[:40]}")
        return int(number)
    return number
