"""Every choice that the page offers: its name, its words, and what it stands for.

The names of losses come from the model's registry; nothing else in the explorer lists a loss, a
prior or an estimator, so that a new one appears on the page by a line here.
"""

from __future__ import annotations

import math
from functools import lru_cache

from polyceptron.errors import InvalidInput
from polyceptron.model import CHANNELS, FEATURES, LOSSES, PRIORS
from polyceptron.report.style import LABELS

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
