"""What the page can show: one table of settings, from which controls, checks and links are made.

Each field of `PageSettings` carries what it may be and what the page calls it: a `Choice` or a
`Number`. Whatever reaches the server from a browser, by a control or by a link, becomes a
`PageSettings` or ends in an error message; nothing behind this module checks a range again. The
names of losses, priors, noises and spectra are those of the model's registries.

A link is every setting as a query string. A simulation in it is written as
`run=simulation:amp,dimension:300,…`, with what differs from the page's own settings; who opens the
link starts the same runs from the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from polyceptron.errors import InvalidInput
from polyceptron.model import (
    CHANNELS,
    ESTIMATORS,
    FEATURES,
    PENALTIES,
    PRIORS,
    AnyTeacher,
    Estimator,
    Perceptron,
    Teacher,
    make_estimator,
)
from polyceptron.report.pictures.parts import label_of

# The estimators that can be simulated, by what their runs are called.
METHODS = {
    "amp" if make_estimator(name).source == "amp" else name: name for name in ESTIMATORS.names
}
NO_NOISE, ISOTROPIC, RIDGE = "none", "isotropic", "ridge"
NOISES = {entry.name: entry for entry in CHANNELS.entries if len(entry.parameters) <= 1}
# The last number of a penalty is λ, one before it L₁.
PENALTY_FORMS = {
    entry.name: entry for entry in PENALTIES.entries if 1 <= len(entry.parameters) <= 2
}
# Spectra as they are shown here, by their kind.
SPECTRA = {
    entry.name: spectrum.name
    for entry, spectrum in zip(FEATURES.entries, FEATURES.examples(), strict=True)
}
# What can be shown: in words, and its column where it stands in a row.
SHOWN = {
    "overlaps": ("overlaps m, q", ""),
    "correlation": ("correlation m/√q", ""),
    "variance": ("variance V", "V"),
    "training-error": ("training error", "training_error"),
    "training-loss": ("training loss", "training_loss"),
    "clean-error": ("error against the noiseless rule", ""),
    "test-loss": ("test loss", "test_loss"),
    "calibration": ("calibration error", "calibration_error"),
}
SCORES = ("test-loss", "calibration")  # of it: what takes longer
# What the page calls the choices of a setting.
MODELS = {"argmax": "argmax (k classes)", "perceptron": "perceptron (one vector)"}
RIDGE_RULES = {"fixed": "the slider's", "optimal": "optimal at each α"}
RANGES = {"follow": "follows transitions and α_s", "set": "as set here"}
AXIS = {"linear": "linear", "log": "logarithmic"}

MAX_QUERY = 6000  # characters of a link
MAX_ENTRIES = 12_000_000  # numbers in the data or in a d × d matrix: 96 MB, 0.45 GB in all
MAX_INSTANCES = 200  # fits of one simulation
MAX_KEPT = 12  # simulations of one page


@dataclass(frozen=True)
class Choice:
    """One of some names, or `several` of them, each with the words that the page has for it.

    `simulated`: whether a simulation depends on it.
    """

    label: str
    words: Mapping[str, str]
    several: bool = False
    simulated: bool = True

    def read(self, name: str, value: Any) -> Any:
        """The value if it is one of the names, or an error message."""
        given = [value]
        if self.several:
            listed = value is None or isinstance(value, list | tuple)
            given = list(value or ()) if listed else str(value).split(",")
        for one in given:
            if not isinstance(one, str) or one not in self.words:
                allowed = f"{'among' if self.several else 'one of'} {', '.join(self.words)}"
                raise InvalidInput(f"{name} must be {allowed}, got {_brief(one)!r}")
        if not given:
            raise InvalidInput("choose at least one estimator")
        return tuple(one for one in self.words if one in given) if self.several else value


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`; error messages call it by its `full` name."""

    label: str
    full: str
    low: float
    high: float
    whole: bool = False
    simulated: bool = True

    def read(self, _name: str, value: Any) -> Any:
        """The value as a number if it is one within the limits, or an error message."""
        kind = "a whole number" if self.whole else "a number"
        high = f"{self.high:g}" if self.high < 1e6 else f"{self.high:.0f}"
        wanted = f"{self.full} must be {kind} from {self.low:g} to {high}"
        if value is None or value == "":
            raise InvalidInput(wanted)  # also what a browser sends for a number out of range
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        inside = self.low <= number <= self.high and not isinstance(value, bool)
        if not inside or (self.whole and number != int(number)):
            raise InvalidInput(f"{wanted}, got {_brief(value)}")
        return int(number) if self.whole else number


def _one_of(default: Any, label: str, words: Mapping[str, str], **more: bool) -> Any:
    return field(default=default, metadata={"kind": Choice(label, words, **more)})


def _number(default: float, label: str, full: str, low: float, high: float, **more: bool) -> Any:
    whole = isinstance(default, int)
    return field(default=default, metadata={"kind": Number(label, full, low, high, whole, **more)})


@dataclass(frozen=True)
class PageSettings:
    """Everything on the page but the results."""

    model: str = _one_of("argmax", "Model", MODELS)
    k: int = _number(3, "Classes k", "the number of classes k", 2, 50)
    prior: str = _one_of(
        "rademacher", "Weights of the teacher",
        {prior.name: PRIORS.label(prior.name) for prior in PRIORS.examples()},
    )  # fmt: skip
    noise: str = _one_of(
        NO_NOISE, "Noise of the labels", {name: entry.label for name, entry in NOISES.items()}
    )
    strength: float = _number(0.25, "Strength (log scale)", "the strength of the noise", 1e-6, 1e6)
    features: str = _one_of(
        ISOTROPIC, "Spectrum of the features",
        {kind: name.replace(",", ", ") for kind, name in SPECTRA.items()},
    )  # fmt: skip
    estimators: tuple[str, ...] = _one_of(
        ("bayes", "cross-entropy", "square"), "Draw",
        {name: label_of(name) for name in METHODS.values()}, several=True, simulated=False,
    )  # fmt: skip
    penalty: str = _one_of(
        RIDGE, "Penalty", {name: entry.label or name for name, entry in PENALTY_FORMS.items()}
    )
    l1: float = _number(0.1, "L₁ of the elastic net", "L₁", 0, 1e4)
    ridge: float = _number(0.1, "Ridge λ (logarithmic)", "the ridge λ", 1e-6, 1e4)
    ridge_rule: str = _one_of("fixed", "Ridge used", RIDGE_RULES)
    range_rule: str = _one_of("follow", "Range of α", RANGES, simulated=False)
    low: float = _number(0.1, "α from", "the smallest α", 0, 1000)
    high: float = _number(4.0, "α to", "the largest α", 0.01, 1000)
    scale: str = _one_of("linear", "α axis", AXIS)
    points: int = _number(30, "Points", "the number of points", 2, 200, simulated=False)
    alpha: float = _number(2.3, "Chosen α", "the chosen α", 0, 1000)
    error_scale: str = _one_of("linear", "Vertical axes", AXIS, simulated=False)
    shown: str = _one_of("overlaps", "Show", {name: words for name, (words, _) in SHOWN.items()})
    simulation: str = _one_of("amp", "Method", {name: label_of(name) for name in METHODS})
    dimension: int = _number(300, "Dimension d", "the dimension d", 10, 5000)
    places: int = _number(8, "Values of α", "the number of α values of a simulation", 1, 40)
    runs: int = _number(2, "Runs at each", "the number of runs", 1, 50)
    seed: int = _number(0, "Seed", "the seed", 0, 2**31 - 1)

    @property
    def teacher(self) -> AnyTeacher:
        """The rule to be learnt; the perceptron has two classes whatever k is."""
        rest: Any = (self.prior, self.noise_name, self.spectrum)
        return Perceptron(*rest) if self.model == "perceptron" else Teacher(self.k, *rest)

    @property
    def spectrum(self) -> str:
        """The spectrum of the features as it is written in a row."""
        return SPECTRA[self.features]

    @property
    def noise_name(self) -> str:
        """The noise of the labels as it is written in a row: its kind, and its number if any."""
        return f"{self.noise}:{self.strength!r}" if NOISES[self.noise].parameters else self.noise

    @property
    def strength_words(self) -> str:
        """The strength of the noise with its name."""
        name = "".join(NOISES[self.noise].parameters)
        return f"{name} {self.strength:.3g}" if name else "none"

    @property
    def noisy(self) -> bool:
        """Whether labels are, by their noise or by what the features hide of the teacher."""
        return not self.teacher.channel.noiseless

    @property
    def correlated(self) -> bool:
        """Whether features are."""
        return self.features != ISOTROPIC

    @property
    def finite_prior(self) -> bool:
        """Whether there are transitions."""
        return self.teacher.prior.support is not None

    def estimator(self, name: str) -> Estimator:
        """The estimator of that name with the penalty of the page."""
        one = make_estimator(name)
        if not one.takes_ridge:
            return one
        if self.penalty != RIDGE:
            return one.with_ridge(penalty=self.penalty_name)
        return one.with_ridge("optimal" if self.ridge_rule == "optimal" else self.ridge)

    @property
    def penalty_name(self) -> str:
        """The penalty as it is written in a row, L₁ before λ where it has both."""
        numbers = (self.l1, self.ridge)[-len(PENALTY_FORMS[self.penalty].parameters) :]
        return ":".join([self.penalty, *map(repr, numbers)])

    @property
    def student(self) -> Estimator:
        """The estimator that is simulated."""
        return self.estimator(METHODS[self.simulation])

    def words(self, name: str) -> str:
        """What the page calls the choice made for this setting."""
        kind, value = SETTINGS[name], getattr(self, name)
        return kind.words[value] if isinstance(kind, Choice) else str(value)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the browser's store."""
        return {**asdict(self), "estimators": list(self.estimators)}

    def changed(self, **values: Any) -> PageSettings:
        """These settings with other values, checked."""
        return make_settings({**self.as_dict(), **values})


SETTINGS: dict[str, Choice | Number] = {
    one.name: one.metadata["kind"] for one in fields(PageSettings)
}
NAMES = tuple(SETTINGS)
# What a simulation depends on, its method first.
SIMULATED = sorted((n for n in NAMES if SETTINGS[n].simulated), key=lambda n: n != "simulation")


def make_settings(values: Mapping[str, Any]) -> PageSettings:
    """Settings from values of any type, missing ones at their defaults, or an error message.

    >>> make_settings({"k": "4"}).k
    4
    """
    if not isinstance(values, Mapping):
        raise InvalidInput("settings must be names with values")
    unknown = [name for name in values if name not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown setting {_brief(unknown[0])!r}")
    checked = {name: SETTINGS[name].read(name, value) for name, value in values.items()}
    if "range_rule" not in checked and ("low" in checked or "high" in checked):
        checked["range_rule"] = "set"  # who gives a range means it
    settings = PageSettings(**checked)
    if settings.penalty != RIDGE:  # only a ridge is searched for
        settings = replace(settings, ridge_rule="fixed")
    if settings.low >= settings.high:
        ends = f"{settings.low:g} to {settings.high:g}"
        raise InvalidInput(f"the range of α must go upwards, got {ends}")
    if settings.scale == "log" and settings.low <= 0:
        raise InvalidInput("a logarithmic α axis must start above 0")
    _ = settings.teacher.channel  # a noise may not exist at this strength, k and features
    return replace(settings, alpha=min(max(settings.alpha, settings.low), settings.high))


def _brief(value: Any) -> str:
    try:
        return str(value)[:40]
    except ValueError:  # Python does not write a whole number of thousands of digits
        return "a huge number"


def first_strength(kind: str) -> float:
    """The strength at which a kind of noise is first shown."""
    return NOISES[kind].example[0] if kind in NOISES and NOISES[kind].parameters else 1.0


def strength_range(kind: str, n_classes: int) -> tuple[float, float]:
    """The ends of the slider: factors 500 and 50, or as far as there is such a noise.

    >>> strength_range("flips", 3)[1] < 2 / 3
    True
    """

    def exists(log_strength: float) -> bool:
        try:
            CHANNELS.read(f"{kind}:{math.exp(log_strength)!r}").guess(n_classes)
        except InvalidInput:
            return False
        return True

    first = first_strength(kind)
    low, high = math.log(first), math.log(50 * first)
    if NOISES[kind].parameters and not exists(high):
        for _ in range(12):  # between a strength that exists and one that does not
            middle = 0.5 * (low + high)
            low, high = (middle, high) if exists(middle) else (low, middle)
        high = low
    return first / 500, math.exp(high)


def check_simulation(settings: PageSettings) -> None:
    """An error message if the simulation that the page describes is too large to run here."""
    d, low, high = settings.dimension, settings.low, settings.high
    size, fits = max(high, 1.0), settings.places * settings.runs
    if size * d**2 > MAX_ENTRIES:
        raise InvalidInput(
            f"α = {high:g} in dimension {d} is too much data for this page: choose a dimension of "
            f"at most {int(math.sqrt(MAX_ENTRIES / size))}, or a smaller largest α"
        )
    if fits > MAX_INSTANCES:
        many = f"{settings.places} values of α with {settings.runs} runs each are {fits} fits"
        raise InvalidInput(f"{many}: at most {MAX_INSTANCES} are allowed here")
    if round(max(low, 1e-9) * d) < 1 and settings.places > 1:
        raise InvalidInput(
            f"α = {low:g} in dimension {d} leaves no sample to learn from: raise the smallest α or "
            "the dimension"
        )


class Link(NamedTuple):
    """What a link asks for."""

    settings: PageSettings
    simulations: tuple[PageSettings, ...] = ()


def to_query(settings: PageSettings, simulations: Iterable[PageSettings] = ()) -> str:
    """Everything as a query string, with its question mark."""

    def texts(one: PageSettings) -> dict[str, str]:
        values = ((name, getattr(one, name)) for name in NAMES)
        return {n: ",".join(v) if isinstance(v, tuple) else str(v) for n, v in values}

    ours = texts(settings)
    pairs = list(ours.items())
    for theirs in map(texts, simulations):
        told = [n for n in SIMULATED if n == "simulation" or ours[n] != theirs[n]]
        pairs.append(("run", ",".join(f"{name}:{theirs[name]}" for name in told)))
    return "?" + urlencode(pairs, safe=",:")


def from_query(search: Any) -> Link:
    """The settings and simulations that a query string describes, or an error message."""
    if search is None or search in ("", "?"):
        return Link(PageSettings())
    if not isinstance(search, str) or len(search) > MAX_QUERY:
        raise InvalidInput(f"the link is longer than {MAX_QUERY} characters")
    try:
        pairs = parse_qsl(
            search.removeprefix("?"), keep_blank_values=True, errors="strict", max_num_fields=60
        )
    except ValueError:
        pairs = []
    if not pairs:
        raise InvalidInput("the link cannot be read: it is not a list of name=value")
    runs = [value for name, value in pairs if name == "run"]
    values = {name: value for name, value in pairs if name != "run"}
    if len(values) + len(runs) < len(pairs):
        raise InvalidInput("the link gives a setting twice")
    if len(runs) > MAX_KEPT:
        many = f"the link asks for {len(runs)} simulations"
        raise InvalidInput(f"{many}: at most {MAX_KEPT} are kept")
    settings, simulations = make_settings(values), list[PageSettings]()
    for text in runs:
        own: dict[str, Any] = {}
        for item in text.split(","):
            name, _, value = item.partition(":")
            if name not in SIMULATED or name in own:
                raise InvalidInput(f"the link has a simulation that cannot be read: {text[:40]!r}")
            own[name] = value
        simulations.append(settings.changed(**own))
        check_simulation(simulations[-1])
    return Link(settings, tuple(simulations))
