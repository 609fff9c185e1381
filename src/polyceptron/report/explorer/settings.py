"""What the page can show: one table of settings, from which controls, checks and links are made.

Whatever reaches the server from a browser, by a control or by a link, becomes a `PageSettings` or
ends in an error message; nothing behind this module checks a range again. What has no effect beside
the other settings is `idle`: it has its default, its control is hidden and links leave it out.

A link is a query string. A simulation in it is written as `run=simulation:amp,dimension:300,…`,
with what differs from the page's own settings; who opens the link starts the same runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlencode

import numpy as np

from polyceptron import problem as md
from polyceptron.errors import InvalidInput
from polyceptron.pictures.parts import LABELS


class Member(NamedTuple):
    """A registered name in words, how it is written, and the number in it that a slider moves."""

    words: str
    form: str  # with {} for the number
    parameter: str = ""  # what the number is, empty where there is none
    first: float = 1.0

    def at(self, number: float) -> str:
        """As it is written with this number: power:1.5:200."""
        return self.form.format(f"{number:.6g}")


def _members(registry: md.Registry[Any]) -> dict[str, Member]:
    """The members of a registry; the first number of an example is the slider's."""
    found, named = {}, {"power": "exponent", "levels": "larger eigenvalue"}
    entries = (entry for entry in registry.entries if not entry.brackets)
    for entry, example in zip(entries, registry.examples(), strict=True):
        name, rest, words = entry.name, example.name[len(entry.name) :], entry.label or entry.name
        found[name] = Member(words, name)
        if number := re.search(r"\d[\d.]*", rest):
            form = name + rest[: number.start()] + "{}" + rest[number.end() :]
            parameter = named.get(name) or entry.parameters[-1]
            found[name] = Member(words, form, parameter, float(number[0]))
    return found


REGISTRIES = dict[str, md.Registry[Any]](
    prior=md.PRIORS, noise=md.CHANNELS, features=md.FEATURES, estimators=md.ESTIMATORS
)
MEMBERS = {kind: _members(registry) for kind, registry in REGISTRIES.items()}
NUMBERS = {"prior": "density", "noise": "strength", "features": "shape"}  # the slider of a choice
# The estimators that can be simulated; runs of the first are message passing.
METHODS = {"amp" if name == md.BayesOptimal.name else name: name for name in MEMBERS["estimators"]}
# The last number of a penalty is λ, one before it L₁.
PENALTY_FORMS = {one.name: one for one in md.PENALTIES.entries if 1 <= len(one.parameters) <= 2}
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
    "recall": ("recall of each class", ""),
    "balanced-error": ("balanced error", "balanced_error"),
}
SCORES = ("test-loss", "calibration")  # of it: what takes longer
UNEQUAL_ONLY = ("recall", "balanced-error")
ALIKE_ONLY = ("overlaps", "correlation", "variance", "clean-error", "calibration")
RIDGE, OPTIMAL, FOLLOW = "ridge", "optimal", "follow"
SHARES = tuple(f"share{i}" for i in range(1, 7))  # sliders: more classes are alike
# What the page calls the choices of a setting.
MODELS = {
    "argmax": "argmax (k classes)",
    "perceptron": "perceptron (one vector)",
    "mixture": "Gaussian clusters",
}
RANGES = {FOLLOW: "follows transitions and α_s", "set": "as set here"}
AXIS = {"linear": "linear", "log": "logarithmic"}

MAX_QUERY = 6000  # characters of a link
MAX_ENTRIES = 12_000_000  # numbers in the data or in a d × d matrix: 96 MB, 0.45 GB in all
MAX_INSTANCES = 200  # fits of one simulation
MAX_KEPT = 12  # simulations of one page


@dataclass(frozen=True)
class Choice:
    """One of some names, or `several` of them, each with the words that the page has for it."""

    label: str
    words: Mapping[str, str]
    several: bool = False
    slider: ClassVar[str] = ""

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
    """A number from `low` to `high`; error messages call it by its `full` name.

    In a box, or on a `slider`, linear or logarithmic.
    """

    label: str
    full: str
    low: float
    high: float
    slider: str = ""
    whole: bool = False

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


def _one_of(default: Any, label: str, words: Mapping[str, str]) -> Any:
    kind = Choice(label, words, isinstance(default, tuple))
    return field(default=default, metadata={"kind": kind})


def _words(kind: str) -> dict[str, str]:
    return {name: one.words for name, one in MEMBERS[kind].items()}


def _number(
    default: float, label: str, full: str, low: float, high: float, slider: str = ""
) -> Any:
    kind = Number(label, full, low, high, slider, isinstance(default, int))
    return field(default=default, metadata={"kind": kind})


def _share(number: int) -> Any:
    return _number(1.0, f"Class {number}", f"the weight of class {number}", 0.01, 1, "linear")


@dataclass(frozen=True)
class PageSettings:
    """Everything on the page but the results."""

    model: str = _one_of("argmax", "Model", MODELS)
    k: int = _number(3, "Classes k", "the number of classes k", 2, 50)
    share1: float = _share(1)
    share2: float = _share(2)
    share3: float = _share(3)
    share4: float = _share(4)
    share5: float = _share(5)
    share6: float = _share(6)
    separation: float = _number(2.0, "Separation", "the distance of two means", 0.1, 10, "linear")
    prior: str = _one_of("rademacher", "Weights of the teacher", _words("prior"))
    density: float = _number(0.2, "Of the weights", "the number of the prior", 1e-6, 1e6, "log")
    noise: str = _one_of("none", "Noise of the labels", _words("noise"))
    strength: float = _number(0.25, "Of the noise", "the strength of the noise", 1e-6, 1e6, "log")
    features: str = _one_of("isotropic", "Spectrum of the features", _words("features"))
    shape: float = _number(1.2, "Of the spectrum", "the number of the spectrum", 1e-6, 1e6, "log")
    estimators: tuple[str, ...] = _one_of(
        ("bayes", "cross-entropy", "square"), "Draw", _words("estimators")
    )
    epsilon: float = _number(0.1, "Label smoothing ε", "the number of the loss", 1e-6, 0.99, "log")
    penalty: str = _one_of(
        RIDGE, "Penalty", {name: entry.label or name for name, entry in PENALTY_FORMS.items()}
    )
    l1: float = _number(0.1, "L₁ of the elastic net", "L₁", 1e-6, 1e4, "log")
    ridge: float = _number(0.1, "Ridge λ (logarithmic)", "the ridge λ", 1e-6, 1e4, "log")
    ridge_rule: str = _one_of(
        "fixed", "Ridge used", {"fixed": "the slider's", OPTIMAL: "optimal at each α"}
    )
    intercept: str = _one_of("none", "Intercepts", {"none": "none", "free": "fitted"})
    class_weight: str = _one_of("none", "Class weights", {"none": "none", "balanced": "balanced"})
    range_rule: str = _one_of(FOLLOW, "Range of α", RANGES)
    low: float = _number(0.1, "α from", "the smallest α", 0, 1000)
    high: float = _number(4.0, "α to", "the largest α", 0.01, 1000)
    scale: str = _one_of("linear", "α axis", AXIS)
    points: int = _number(30, "Points", "the number of points", 1, 200)
    alpha: float = _number(2.3, "Chosen α", "the chosen α", 0, 1000, "linear")
    error_scale: str = _one_of("linear", "Vertical axes", AXIS)
    shown: str = _one_of("overlaps", "Show", {name: words for name, (words, _) in SHOWN.items()})
    simulation: str = _one_of(
        "amp",
        "Method",
        {name: LABELS.get(name) or MEMBERS["estimators"][of].words for name, of in METHODS.items()},
    )
    dimension: int = _number(300, "Dimension d", "the dimension d", 10, 5000)
    places: int = _number(8, "Values of α", "the number of α values of a simulation", 1, 40)
    runs: int = _number(2, "Runs at each", "the number of runs", 1, 50)
    seed: int = _number(0, "Seed", "the seed", 0, 2**31 - 1)

    @property
    def teacher(self) -> md.Population:
        """What is to be learnt; the perceptron has two classes whatever k is."""
        return _population(
            self.model,
            self.k,
            self.shares,
            self.separation,
            *(self.written(kind) for kind in NUMBERS),
        )

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Of the classes, where they differ."""
        weights = [getattr(self, name) for name in SHARES[: self.k]]
        if self.model == "perceptron" or self.k > len(SHARES) or len(set(weights)) == 1:
            return None
        return tuple(weight / sum(weights) for weight in weights)

    def member(self, kind: str) -> Member:
        """What is chosen of this kind."""
        return MEMBERS[kind][getattr(self, kind)]

    def written(self, kind: str) -> str:
        """The same as it is written in a row: its name, and its number if any."""
        return self.member(kind).at(getattr(self, NUMBERS[kind]))

    @property
    def noisy(self) -> bool:
        """Whether labels are, by their noise or by what the features hide of the teacher."""
        channel = self.teacher.label_channel
        return channel is not None and not channel.noiseless

    @property
    def equal_classes(self) -> bool:
        """Whether classes are."""
        return self.teacher.symmetric

    @property
    def finite_prior(self) -> bool:
        """Whether there are transitions."""
        return self.equal_classes and self.teacher.prior.support is not None  # type: ignore[attr-defined]

    def estimator(self, name: str) -> md.Estimator:
        """The estimator of that name with the numbers, the penalty and the weights of the page."""
        one = md.make_estimator(MEMBERS["estimators"][name].at(self.epsilon))
        if one.takes_ridge and self.penalty == RIDGE:
            one = one.with_ridge(OPTIMAL if self.ridge_rule == OPTIMAL else self.ridge)
        elif one.takes_ridge:
            one = one.with_ridge(penalty=self.penalty_name)
        if self.equal_classes or not hasattr(one, "class_weight"):
            return one
        weights = None if self.class_weight == "none" else self.class_weight
        return replace(one, intercept=self.intercept != "none", class_weight=weights)  # type: ignore[type-var]

    @property
    def penalty_name(self) -> str:
        """The penalty as it is written in a row, L₁ before λ where it has both."""
        numbers = (self.l1, self.ridge)[-len(PENALTY_FORMS[self.penalty].parameters) :]
        return ":".join([self.penalty, *map(repr, numbers)])

    @property
    def student(self) -> md.Estimator:
        """The estimator that is simulated."""
        return self.estimator(METHODS[self.simulation])

    @property
    def idle(self) -> set[str]:
        """The settings that have no effect beside the others."""
        shared = self.model != "perceptron" and self.k <= len(SHARES)
        rest = {name for i, name in enumerate(SHARES) if not (shared and i < self.k)}
        rest |= {number for kind, number in NUMBERS.items() if not self.member(kind).parameter}
        rest |= {*NUMBERS, *NUMBERS.values()} if self.model == "mixture" else {"separation"}
        rest |= {"k"} if self.model == "perceptron" else set()
        used = [MEMBERS["estimators"][n] for n in (*self.estimators, METHODS[self.simulation])]
        rest |= set() if any(one.parameter for one in used) else {"epsilon"}
        if not any(md.make_estimator(one.at(one.first)).takes_ridge for one in used):
            rest |= {"penalty", "l1", "ridge", "ridge_rule"}
        rest |= {"l1"} if self.penalty == RIDGE else {"ridge_rule"}  # only a ridge is searched for
        rest |= {"ridge"} if self.ridge_rule == OPTIMAL and self.penalty == RIDGE else set()
        rest |= {"intercept", "class_weight"} if self.equal_classes else set()
        return rest | ({"low", "high"} if self.range_rule == FOLLOW else set())

    @property
    def titles(self) -> tuple[str, str, str]:
        """What the three figures are called."""
        order = self.shown in ("overlaps", "correlation", "variance")
        second = "Order parameters" if order else self.words("shown").capitalize()
        third = "Free-entropy landscape" if self.equal_classes else "Confusion matrix"
        return "Learning curves", second, third

    def words(self, name: str) -> str:
        """What the page calls the choice made for this setting."""
        kind, value = SETTINGS[name], getattr(self, name)
        return kind.words[value] if isinstance(kind, Choice) else str(value)

    def number_words(self, kind: str) -> str:
        """The number of what is chosen, with its name."""
        return f"{self.member(kind).parameter} {getattr(self, NUMBERS[kind]):.3g}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the browser's store."""
        return {**asdict(self), "estimators": list(self.estimators)}

    def changed(self, **values: Any) -> PageSettings:
        """These settings with other values, checked."""
        return make_settings({**self.as_dict(), **values})


@lru_cache(maxsize=64)
def _population(
    model: str, k: int, shares: tuple[float, ...] | None, separation: float, *rule: Any
) -> md.Population:
    if model == "mixture":
        return md.Mixture(shares or (1 / k,) * k, separation=separation)
    own: Any = {"shares": shares}
    return md.Perceptron(*rule) if model == "perceptron" else md.Teacher(k, *rule, **own)


SETTINGS: dict[str, Choice | Number] = {
    one.name: one.metadata["kind"] for one in fields(PageSettings)
}
NAMES = tuple(SETTINGS)
# What a simulation depends on, its method first.
SIMULATED = sorted(
    {*NAMES} - {"estimators", "points", "error_scale"},
    key=lambda n: (n != "simulation", NAMES.index(n)),
)


def make_settings(values: Mapping[str, Any]) -> PageSettings:
    """Settings from values of any type, missing ones at their defaults, or an error message."""
    if not isinstance(values, Mapping):
        raise InvalidInput("settings must be names with values")
    unknown = [name for name in values if name not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown setting {_brief(unknown[0])!r}")
    checked = {name: SETTINGS[name].read(name, value) for name, value in values.items()}
    if "range_rule" not in checked and ("low" in checked or "high" in checked):
        checked["range_rule"] = "set"  # who gives a range means it
    for kind, number in NUMBERS.items():  # and who gives none means the usual one
        if kind in checked and number not in checked:
            checked[number] = MEMBERS[kind][checked[kind]].first
    settings = PageSettings(**checked)  # a population may not exist with these numbers
    settings = replace(settings, **{name: getattr(PageSettings, name) for name in settings.idle})
    if settings.shown in (ALIKE_ONLY, UNEQUAL_ONLY)[settings.equal_classes]:
        settings = replace(settings, shown="overlaps" if settings.equal_classes else "recall")
    if settings.low >= settings.high:
        ends = f"{settings.low:g} to {settings.high:g}"
        raise InvalidInput(f"the range of α must go upwards, got {ends}")
    if settings.scale == "log" and settings.low <= 0:
        raise InvalidInput("a logarithmic α axis must start above 0")
    if settings.range_rule == FOLLOW:
        return settings
    return replace(settings, alpha=min(max(settings.alpha, settings.low), settings.high))


def _brief(value: Any) -> str:
    try:
        return str(value)[:40]
    except ValueError:  # Python does not write a whole number of thousands of digits
        return "a huge number"


@lru_cache(maxsize=64)
def slider_ends(kind: str, name: str, n_classes: int) -> tuple[float, float]:
    """Factors 500 and 50 about the first number of a member, or as far as there is such a one."""
    member = MEMBERS[kind][name]

    def exists(number: float) -> bool:
        try:
            one = REGISTRIES[kind].read(member.at(number))
            if kind == "noise":
                one.guess(n_classes)
        except InvalidInput:
            return False
        return True

    numbers = [float(x) for x in np.geomspace(member.first / 500, 50 * member.first, 41)]
    if member.parameter:
        numbers = [x for x in numbers if exists(x)]
    return numbers[0], numbers[-1]


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


def to_query(settings: PageSettings, simulations: Iterable[PageSettings] = ()) -> str:
    """Everything as a query string, with its question mark."""

    def texts(one: PageSettings) -> dict[str, str]:
        values = ((name, getattr(one, name)) for name in NAMES)
        return {n: ",".join(v) if isinstance(v, tuple) else str(v) for n, v in values}

    ours, idle = texts(settings), settings.idle
    pairs = [(name, text) for name, text in ours.items() if name not in idle]
    for theirs in map(texts, simulations):
        told = [n for n in SIMULATED if n == "simulation" or ours[n] != theirs[n]]
        pairs.append(("run", ",".join(f"{name}:{theirs[name]}" for name in told)))
    return "?" + urlencode(pairs, safe=",:")


def from_query(search: Any) -> tuple[PageSettings, tuple[PageSettings, ...]]:
    """The settings and simulations that a query string describes, or an error message."""
    if search is None or search in ("", "?"):
        return PageSettings(), ()
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
    return settings, tuple(simulations)
