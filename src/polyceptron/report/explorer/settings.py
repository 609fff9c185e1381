"""Every choice that the page offers: its name, its words, and what it stands for.

The names of losses come from the model's registry; nothing else in the explorer lists a loss, a
prior or an estimator, so that a new one appears on the page by a line here.

What the page shows, as one checked value.

Everything that reaches the server from a browser, by a control or by a link, becomes `PageSettings`
here or ends in a sentence; nothing behind this module needs to check a range again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

from polyceptron.errors import InvalidInput
from polyceptron.model import (
    CHANNELS,
    FEATURES,
    LOSSES,
    PRIORS,
    AnyTeacher,
    Estimator,
    Perceptron,
    Teacher,
    make_estimator,
    takes_ridge,
)
from polyceptron.report.pictures.style import LABELS

BAYES, AMP = "bayes", "amp"
LOSS_NAMES: tuple[str, ...] = LOSSES.names
ESTIMATORS = (BAYES, *LOSS_NAMES)
SIMULATIONS = (AMP, *LOSS_NAMES)
FIRST_DRAWN = (BAYES, "cross-entropy", "square")  # when the page opens
PRIOR_NAMES: tuple[str, ...] = tuple(prior.name for prior in PRIORS.examples())
NO_NOISE = "none"
NOISES = tuple(entry for entry in CHANNELS.entries if len(entry.parameters) <= 1)
ISOTROPIC = "isotropic"
# Spectra as they are shown here, by their kind.
SPECTRA = {
    entry.name: spectrum.name
    for entry, spectrum in zip(FEATURES.entries, FEATURES.examples(), strict=True)
}
_BY_COST = (BAYES, "square", "max-margin")  # tables and closed forms; any other loss is slower

WORDS: dict[str, dict[str, str]] = {
    "model": {"argmax": "argmax (k classes)", "perceptron": "perceptron (one vector)"},
    "prior": {name: PRIORS.label(name) for name in PRIOR_NAMES},
    "noise": {entry.name: entry.label for entry in NOISES},
    "features": {kind: name.replace(",", ", ") for kind, name in SPECTRA.items()},
    "estimators": dict.fromkeys(ESTIMATORS, ""),
    "ridge_rule": {"fixed": "the slider's", "optimal": "optimal at each α"},
    "range_rule": {"follow": "follows transitions and α_s", "set": "as set here"},
    "scale": {"linear": "linear", "log": "logarithmic"},
    "error_scale": {"linear": "linear", "log": "logarithmic"},
    "shown": {
        "overlaps": "overlaps m, q",
        "correlation": "correlation m/√q",
        "variance": "variance V",
        "training-error": "training error",
        "training-loss": "training loss",
        "clean-error": "error against the noiseless rule",
        "test-loss": "test loss",
        "calibration": "calibration error",
    },
    "simulation": dict.fromkeys(SIMULATIONS, ""),
}
SCORES = ("test-loss", "calibration")  # of those shown: what takes longer
# The columns of those that stand in a row.
COLUMNS = {
    "variance": "V", "training-error": "training_error", "training-loss": "training_loss",
    "test-loss": "test_loss", "calibration": "calibration_error",
}  # fmt: skip
CHOICES: dict[str, tuple[str, ...]] = {
    setting: tuple(words) for setting, words in WORDS.items() if setting != "estimators"
}


def words_for(setting: str, name: str) -> str:
    """What the page calls a choice; a name without words of its own is its own word."""
    return WORDS[setting].get(name) or LABELS.get(name, name)


def noise_name(kind: str, level: float) -> str:
    """The noise as it is written everywhere else: its kind, and the level if it has one."""
    return f"{kind}:{level!r}" if noise_parameter(kind) else kind


def noise_parameter(kind: str) -> str:
    """What the level of this kind of noise is called; nothing if it has none."""
    return next(("".join(entry.parameters) for entry in NOISES if entry.name == kind), "")


def first_level(kind: str) -> float:
    """The level at which a kind of noise is first shown."""
    return next((entry.example[0] for entry in NOISES if entry.name == kind and entry.example), 1.0)


@lru_cache(maxsize=64)
def level_range(kind: str, n_classes: int) -> tuple[float, float]:
    """The ends of the slider: factors 500 and 50, or as far as there is such a noise.

    >>> level_range("flips", 3)[1] < 2 / 3
    True
    """
    first = first_level(kind)
    if not noise_parameter(kind):
        return first / 500, first * 50
    low, high = math.log(first), math.log(50 * first)
    if not _is_noise(kind, math.exp(high), n_classes):
        for _ in range(12):  # between a level that is one and a level that is none
            middle = 0.5 * (low + high)
            is_one = _is_noise(kind, math.exp(middle), n_classes)
            low, high = (middle, high) if is_one else (low, middle)
        high = low
    return first / 500, math.exp(high)


def _is_noise(kind: str, level: float, n_classes: int) -> bool:
    try:
        CHANNELS.read(noise_name(kind, level)).guess(n_classes)
    except InvalidInput:
        return False
    return True


def quick_first(names: tuple[str, ...]) -> list[str]:
    """The estimators in the order of their cost."""
    return sorted(names, key=lambda name: _BY_COST.index(name) if name in _BY_COST else 9)


def is_tabled(name: str) -> bool:
    """Whether the curve of an estimator is quick for few classes."""
    return name in _BY_COST


def is_closed_form(name: str) -> bool:
    """Whether the curve of an estimator is quick for any number of classes."""
    return name == "square"


GAUSSIAN = "gaussian"


class Limit(NamedTuple):
    """The range of a number, and what to call it."""

    words: str
    low: float
    high: float
    whole: bool


LIMITS = {
    "k": Limit("the number of classes k", 2, 50, True),
    "level": Limit("the level of the noise", 1e-6, 1e6, False),
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
class PageSettings:
    """Everything on the page but the results."""

    model: str = "argmax"
    k: int = 3
    prior: str = "rademacher"
    noise: str = NO_NOISE
    level: float = 0.25
    features: str = ISOTROPIC
    estimators: tuple[str, ...] = FIRST_DRAWN
    ridge: float = 0.1
    ridge_rule: str = "fixed"
    range_rule: str = "follow"
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
        noise: Any = self.noise_name
        features: Any = SPECTRA[self.features]
        if self.model == "perceptron":
            return Perceptron(prior, noise, features)
        return Teacher(self.k, prior, noise, features)

    @property
    def noise_name(self) -> str:
        """The noise of the labels, as it is written in a row."""
        return noise_name(self.noise, self.level)

    @property
    def noisy(self) -> bool:
        """Whether labels are, by their noise or by what the features hide of the teacher."""
        return not self.teacher.channel.noiseless

    @property
    def correlated(self) -> bool:
        """Whether features are."""
        return self.features != ISOTROPIC

    def estimator(self, name: str) -> Estimator:
        """The estimator of that name at the ridge of the page."""
        if not takes_ridge(name):
            return make_estimator(name)
        return make_estimator(name, "optimal" if self.ridge_rule == "optimal" else self.ridge)

    @property
    def finite_prior(self) -> bool:
        """Whether there are transitions."""
        return self.teacher.prior.support is not None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the browser's store."""
        return {**asdict(self), "estimators": list(self.estimators)}


NAMES = tuple(field.name for field in fields(PageSettings))


def make_settings(values: Mapping[str, Any]) -> PageSettings:
    """Settings from values of any type, missing ones at their defaults, or a sentence.

    >>> make_settings({"k": "4"}).k
    4
    """
    if not isinstance(values, Mapping):
        raise InvalidInput("settings must be names with values")
    unknown = [name for name in values if name not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown setting {_brief(unknown[0])!r}")
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name == "estimators":
            checked[name] = _estimators(value)
        elif name in CHOICES:
            if not isinstance(value, str) or value not in CHOICES[name]:
                allowed = ", ".join(CHOICES[name])
                raise InvalidInput(f"{name} must be one of {allowed}, got {_brief(value)!r}")
            checked[name] = value
        else:
            checked[name] = _number(value, LIMITS[name])
    if "range_rule" not in checked and ("low" in checked or "high" in checked):
        checked["range_rule"] = "set"  # who gives a range means it
    settings = PageSettings(**checked)
    if settings.correlated:  # the only weights whose Bayes-optimal theory is known there
        settings = replace(settings, prior=GAUSSIAN)
    if settings.low >= settings.high:
        raise InvalidInput(
            f"the range of α must go upwards, got {settings.low:g} to {settings.high:g}"
        )
    if settings.scale == "log" and settings.low <= 0:
        raise InvalidInput("a logarithmic α axis must start above 0")
    _ = settings.teacher.channel  # a noise may not exist at this level, k and features
    return replace(settings, alpha=min(max(settings.alpha, settings.low), settings.high))


def _estimators(value: Any) -> tuple[str, ...]:
    if value is None or isinstance(value, list | tuple):
        names = list(value or ())
    else:
        names = str(value).split(",")
    for name in names:
        if not isinstance(name, str) or name not in ESTIMATORS:
            raise InvalidInput(
                f"estimators must be among {', '.join(ESTIMATORS)}, got {_brief(name)!r}"
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
        raise InvalidInput(f"{sentence}, got {_brief(value)}")
    if limit.whole:
        if number != int(number):
            raise InvalidInput(f"{sentence}, got {_brief(value)}")
        return int(number)
    return number


def _brief(value: Any) -> str:
    try:
        return str(value)[:40]
    except ValueError:  # Python does not write a whole number of thousands of digits
        return "a huge number"
