"""What the page can show: one table of settings, from which controls, checks and links are made.

Whatever reaches the server from a browser, by a control or by a link, becomes a `PageSettings` or
ends in an error message; nothing behind this module checks a range again. What has no effect beside
the other settings is `idle`: it has its default, its control is hidden and links leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, cast

from polyceptron import problem as md
from polyceptron.checks import DEFAULT_RIDGE
from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.controls import Choice, Number, quoted
from polyceptron.report.explorer.members import (
    MEMBERS,
    METHODS,
    NUMBERS,
    PENALTY_FORMS,
    UNEQUAL_METHODS,
    Member,
    member_words,
    method_words,
    penalty_words,
    setting_of_number,
)

Values = dict[str, Any]
"""Values of settings by name, of whatever type a browser sends."""


@dataclass(frozen=True)
class Quantity:
    """What the second figure can show: its words, and its column where it stands in a row."""

    words: str
    column: str = ""


SHOWN = {
    "overlaps": Quantity("overlaps m, q"),
    "correlation": Quantity("correlation m/√q"),
    "variance": Quantity("variance V", "V"),
    "training-error": Quantity("training error", "training_error"),
    "training-loss": Quantity("training loss", "training_loss"),
    "clean-error": Quantity("error against the noiseless rule"),
    "test-loss": Quantity("test loss", "test_loss"),
    "calibration": Quantity("calibration error", "calibration_error"),
    "recall": Quantity("recall of each class"),
    "balanced-error": Quantity("balanced error", "balanced_error"),
}
ORDER_PARAMETERS = ("overlaps", "correlation", "variance")
SCORES = ("test-loss", "calibration")  # these take longer to compute
UNEQUAL_ONLY = ("recall", "balanced-error")
EQUAL_ONLY = (*ORDER_PARAMETERS, "clean-error", "calibration")
RIDGE = "ridge"
OPTIMAL = "optimal"
FOLLOW = "follow"
SHARES = tuple(f"share{i}" for i in range(1, 7))  # sliders; more classes have equal shares
MODELS = {
    "argmax": "argmax (k classes)",
    "perceptron": "perceptron (one vector)",
    "mixture": "Gaussian clusters",
}
RANGES = {FOLLOW: "chosen to show the transitions", "set": "as set here"}
AXIS = {"linear": "linear", "log": "logarithmic"}
RIDGE_RULES = {"fixed": "fixed", OPTIMAL: "best at each α"}

MAX_ENTRIES = 12_000_000  # numbers in the data or in a d × d matrix: 96 MB, 0.45 GB in all
MAX_INSTANCES = 200  # fits of one simulation
MAX_KEPT = 12  # simulations of one page


def _one_of(default: str, label: str, words: Mapping[str, str]) -> str:
    """Declare a setting that is one of some names."""
    return field(default=default, metadata={"kind": Choice(label, words)})


def _some_of(default: tuple[str, ...], label: str, words: Mapping[str, str]) -> tuple[str, ...]:
    """Declare a setting that is several of some names."""
    kind = Choice(label, words, several=True)
    return field(default=default, metadata={"kind": kind})


def _number(
    default: float, label: str, full: str, low: float, high: float, slider: str = ""
) -> float:
    """Declare a setting that is a number."""
    kind = Number(label, full, low, high, slider)
    return field(default=default, metadata={"kind": kind})


def _whole(default: int, label: str, full: str, low: int, high: int) -> int:
    """Declare a setting that is a whole number."""
    kind = Number(label, full, low, high, whole=True)
    return field(default=default, metadata={"kind": kind})


def _share(number: int) -> float:
    """Declare the weight of a class; shares are weights divided by their sum."""
    return _number(1.0, f"Class {number}", f"the weight of class {number}", 0.01, 1, "linear")


@dataclass(frozen=True)
class PageSettings:
    """Everything on the page but the results."""

    model: str = _one_of("argmax", "Model", MODELS)
    k: int = _whole(3, "Classes k", "the number of classes k", 2, 50)
    share1: float = _share(1)
    share2: float = _share(2)
    share3: float = _share(3)
    share4: float = _share(4)
    share5: float = _share(5)
    share6: float = _share(6)
    separation: float = _number(2.0, "Separation", "the distance of two means", 0.1, 10, "linear")
    prior: str = _one_of("rademacher", "Weights of the teacher", member_words("prior"))
    density: float = _number(0.2, "Of the weights", "the number of the prior", 1e-6, 1e6, "log")
    noise: str = _one_of("none", "Noise of the labels", member_words("noise"))
    strength: float = _number(0.25, "Of the noise", "the strength of the noise", 1e-6, 1e6, "log")
    features: str = _one_of("isotropic", "Spectrum of the features", member_words("features"))
    shape: float = _number(1.2, "Of the spectrum", "the number of the spectrum", 1e-6, 1e6, "log")
    estimators: tuple[str, ...] = _some_of(
        ("bayes", "cross-entropy", "square"), "Draw", member_words("estimators")
    )
    epsilon: float = _number(0.1, "Label smoothing ε", "the number of the loss", 1e-6, 0.99, "log")
    rate: float = _number(1.0, "Rate η of SGD", "the rate of one-pass SGD", 1e-6, 1e4, "log")
    penalty: str = _one_of(RIDGE, "Penalty", penalty_words())
    l1: float = _number(0.1, "L₁ of the elastic net", "L₁", 1e-6, 1e4, "log")
    ridge_rule: str = _one_of("fixed", "Choice of the ridge", RIDGE_RULES)
    ridge: float = _number(DEFAULT_RIDGE, "Ridge λ (logarithmic)", "the ridge λ", 1e-6, 1e4, "log")
    intercept: str = _one_of("none", "Intercepts", {"none": "none", "free": "fitted"})
    class_weight: str = _one_of("none", "Class weights", {"none": "none", "balanced": "balanced"})
    range_rule: str = _one_of(FOLLOW, "Range of α", RANGES)
    low: float = _number(0.1, "α from", "the smallest α", 0, 1000)
    high: float = _number(4.0, "α to", "the largest α", 0.01, 1000)
    scale: str = _one_of("linear", "α axis", AXIS)
    points: int = _whole(30, "Points", "the number of points", 1, 200)
    alpha: float = _number(2.3, "Chosen α", "the chosen α", 0, 1000, "linear")
    error_scale: str = _one_of("linear", "Vertical axes", AXIS)
    shown: str = _one_of("overlaps", "Show", {name: one.words for name, one in SHOWN.items()})
    simulation: str = _one_of("amp", "Method", method_words())
    dimension: int = _whole(300, "Dimension d", "the dimension d", 10, 5000)
    places: int = _whole(8, "Values of α", "the number of α values of a simulation", 1, 40)
    runs: int = _whole(2, "Runs at each", "the number of runs", 1, 50)
    seed: int = _whole(0, "Seed", "the seed", 0, 2**31 - 1)

    @property
    def teacher(self) -> md.AnyTeacher:
        """Return what is to be learnt; the perceptron has two classes whatever k is."""
        prior, noise, features = (self.written(kind) for kind in NUMBERS)
        return _population(self.model, self.k, self.shares, self.separation, prior, noise, features)

    @property
    def has_shares(self) -> bool:
        """Return whether there is a slider for the share of each class."""
        return self.model != "perceptron" and self.k <= len(SHARES)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The shares of the classes, None where they are equal."""
        weights = [getattr(self, name) for name in SHARES[: self.k]]
        if not self.has_shares or len(set(weights)) == 1:
            return None
        return tuple(weight / sum(weights) for weight in weights)

    def member(self, kind: str) -> Member:
        """Return what is chosen of this kind."""
        return MEMBERS[kind][getattr(self, kind)]

    def written(self, kind: str) -> str:
        """Return what is chosen of this kind as a row has it: its name, and its number if any."""
        return self.member(kind).at(getattr(self, NUMBERS[kind]))

    @property
    def noisy(self) -> bool:
        """Return whether labels are noisy, also by what the features hide of the teacher."""
        channel = self.teacher.label_channel
        return channel is not None and not channel.noiseless

    @property
    def equal_classes(self) -> bool:
        """Return whether all classes are alike."""
        return self.teacher.symmetric

    @property
    def finite_prior(self) -> bool:
        """Return whether the prior has finitely many values, so that there may be transitions."""
        return self.equal_classes and self.teacher.prior.support is not None

    def estimator(self, name: str) -> md.Estimator:
        """Return the estimator of that name with the numbers, penalty and weights of the page."""
        member = MEMBERS["estimators"][name]
        spec = md.make_estimator(member.at(getattr(self, setting_of_number(member))))
        if spec.takes_ridge and self.penalty != RIDGE:
            spec = spec.with_ridge(penalty=self.penalty_name)
        elif spec.takes_ridge:
            spec = spec.with_ridge(self._ridge)
        if self.equal_classes or not isinstance(spec, md.ERM):
            return spec
        weights = None
        if self.class_weight != "none":
            weights = self.class_weight
        return replace(spec, intercept=self.intercept != "none", class_weight=weights)

    @property
    def _ridge(self) -> float | str:
        """The ridge λ, or the word 'optimal'."""
        if self.ridge_rule == OPTIMAL:
            return OPTIMAL
        return self.ridge

    @property
    def penalty_name(self) -> str:
        """The penalty as it is written in a row, L₁ before λ where it has both."""
        numbers = [self.l1, self.ridge][-len(PENALTY_FORMS[self.penalty].parameters) :]
        return ":".join([self.penalty, *map(repr, numbers)])

    @property
    def student(self) -> md.Estimator:
        """The estimator that is simulated."""
        return self.estimator(METHODS[self.simulation])

    @property
    def idle(self) -> set[str]:
        """The settings that have no effect beside the others."""
        return self.idle_beside([*self.estimators, METHODS[self.simulation]])

    def idle_beside(self, students: Sequence[str]) -> set[str]:
        """Return the settings that have no effect on these estimators, by name."""
        return self._idle_of_problem | self._idle_of_students(students) | self._idle_of_range

    @property
    def _idle_of_problem(self) -> set[str]:
        idle = set(SHARES)
        if self.has_shares:
            idle = set(SHARES[self.k :])
        if self.model == "perceptron":
            idle.add("k")
        if self.model == "mixture":
            return idle | {*NUMBERS, *NUMBERS.values()}
        without_number = {
            number for kind, number in NUMBERS.items() if not self.member(kind).parameter
        }
        return idle | without_number | {"separation"}

    def _idle_of_students(self, students: Sequence[str]) -> set[str]:
        idle = set()
        members = [MEMBERS["estimators"][name] for name in students]
        numbers_in_use = {setting_of_number(member) for member in members if member.parameter}
        idle |= {"epsilon", "rate"} - numbers_in_use
        specs = [md.make_estimator(member.at(member.first)) for member in members]
        if not any(spec.takes_ridge for spec in specs):
            idle |= {"penalty", "l1", "ridge", "ridge_rule"}
        elif self.penalty != RIDGE:
            idle.add("ridge_rule")  # only a ridge is searched for
        else:
            idle.add("l1")
            if self.ridge_rule == OPTIMAL:
                idle.add("ridge")
        if self.equal_classes:
            idle |= {"intercept", "class_weight"}
        return idle

    @property
    def _idle_of_range(self) -> set[str]:
        if self.range_rule == FOLLOW:
            return {"low", "high"}
        return set()

    @property
    def shown_options(self) -> list[str]:
        """Return what the second figure can show of these classes."""
        if self.equal_classes:
            return [name for name in SHOWN if name not in UNEQUAL_ONLY]
        return [name for name in SHOWN if name not in EQUAL_ONLY]

    @property
    def methods(self) -> list[str]:
        """The methods that can be simulated with these classes."""
        if self.equal_classes:
            return list(METHODS)
        return UNEQUAL_METHODS

    @property
    def titles(self) -> tuple[str, str, str]:
        """Return what the three figures are called."""
        second = self.words("shown").capitalize()
        if self.shown in ORDER_PARAMETERS:
            second = "Order parameters"
        third = "Confusion matrix"
        if self.equal_classes:
            third = "Free-entropy landscape"
        return "Learning curves", second, third

    def words(self, name: str) -> str:
        """Return what the page calls the choice made for this setting."""
        kind = SETTINGS[name]
        value = getattr(self, name)
        if isinstance(kind, Choice):
            return kind.words[value]
        return str(value)

    def number_words(self, kind: str) -> str:
        """Return the number of what is chosen, with its name."""
        return f"{self.member(kind).parameter} {getattr(self, NUMBERS[kind]):.3g}"

    def as_dict(self) -> Values:
        """Return plain values, for the browser's store."""
        return {**asdict(self), "estimators": list(self.estimators)}

    def changed(self, **values: object) -> PageSettings:
        """Return these settings with other values, checked."""
        return make_settings({**self.as_dict(), **values})


@lru_cache(maxsize=64)
def _population(
    model: str,
    k: int,
    shares: tuple[float, ...] | None,
    separation: float,
    prior: str,
    noise: str,
    features: str,
) -> md.AnyTeacher:
    """Return the population that the page describes."""
    if model == "mixture":
        clusters = md.Mixture(shares or (1 / k,) * k, separation=separation)
        return cast("md.AnyTeacher", clusters)
    if model == "perceptron":
        return md.Perceptron(prior, noise, features)
    return md.Teacher(k, prior, noise, features, shares=shares)


SETTINGS: dict[str, Choice | Number] = {
    setting.name: setting.metadata["kind"] for setting in fields(PageSettings)
}
NAMES = tuple(SETTINGS)
DEFAULTS = PageSettings().as_dict()


def make_settings(values: object) -> PageSettings:
    """Return settings from values of any type, missing ones at their defaults.

    Raises InvalidInput, with what is allowed, for anything else.
    """
    if not isinstance(values, Mapping):
        raise InvalidInput("settings must be names with values")
    settings = _with_what_works(PageSettings(**_checked(values)))
    # What has no effect gets its default; that a population may not exist shows here.
    defaults: Values = {name: getattr(PageSettings, name) for name in settings.idle}
    settings = replace(settings, **defaults)
    _check_range(settings)
    if settings.range_rule == FOLLOW:
        return settings
    return replace(settings, alpha=min(max(settings.alpha, settings.low), settings.high))


def _checked(values: Mapping[str, object]) -> Values:
    """Return the values, each checked by itself, with what they imply for others."""
    unknown = [name for name in values if name not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown setting {quoted(unknown[0])!r}")
    checked: Values = {name: SETTINGS[name].read(name, value) for name, value in values.items()}
    if "range_rule" not in checked and ("low" in checked or "high" in checked):
        checked["range_rule"] = "set"  # who gives a range means it
    for kind, number in NUMBERS.items():  # and who gives no number means the usual one
        if kind in checked and number not in checked:
            checked[number] = MEMBERS[kind][checked[kind]].first
    return checked


def _with_what_works(settings: PageSettings) -> PageSettings:
    """Return the settings with a quantity and a method that there are for such classes."""
    if settings.shown not in settings.shown_options:
        first = "overlaps"
        if not settings.equal_classes:
            first = "recall"
        settings = replace(settings, shown=first)
    if settings.simulation not in settings.methods:
        settings = replace(settings, simulation=settings.methods[0])
    return settings


def _check_range(settings: PageSettings) -> None:
    """Raise unless the range of α can be drawn on its axis."""
    if settings.low >= settings.high:
        ends = f"{settings.low:g} to {settings.high:g}"
        raise InvalidInput(f"the range of α must go upwards, got {ends}")
    if settings.scale == "log" and settings.low <= 0:
        raise InvalidInput("a logarithmic α axis must start above 0")


def check_simulation(settings: PageSettings) -> None:
    """Raise if the simulation that the page describes is too large to run here."""
    d = settings.dimension
    largest_alpha = max(settings.high, 1.0)
    fits = settings.places * settings.runs
    if largest_alpha * d**2 > MAX_ENTRIES:
        raise InvalidInput(
            f"α = {settings.high:g} in dimension {d} is too much data for this page: choose a "
            f"dimension of at most {int(math.sqrt(MAX_ENTRIES / largest_alpha))}, or a smaller "
            "largest α"
        )
    if fits > MAX_INSTANCES:
        raise InvalidInput(
            f"{settings.places} values of α with {settings.runs} runs each are {fits} fits: at "
            f"most {MAX_INSTANCES} are allowed here"
        )
    if round(max(settings.low, 1e-9) * d) < 1 and settings.places > 1:
        raise InvalidInput(
            f"α = {settings.low:g} in dimension {d} leaves no sample to learn from: raise the "
            "smallest α or the dimension"
        )
