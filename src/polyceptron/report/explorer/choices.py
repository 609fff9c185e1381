"""Every choice that the page offers: its name, its words, and what it stands for.

The names of losses come from the model's registry; nothing else in the explorer lists a loss, a
prior or an estimator, so that a new one appears on the page by a line here.
"""

from __future__ import annotations

from polyceptron.model import LOSSES, PRIORS
from polyceptron.report.style import LABELS

BAYES, AMP = "bayes", "amp"
LOSS_NAMES: tuple[str, ...] = LOSSES.names
ESTIMATORS = (BAYES, *LOSS_NAMES)
SIMULATIONS = (AMP, *LOSS_NAMES)
FIRST_DRAWN = (BAYES, "cross-entropy", "square")  # when the page opens
PRIOR_NAMES: tuple[str, ...] = tuple(prior.name for prior in PRIORS.examples())
_BY_COST = (BAYES, "square", "max-margin")  # tables and closed forms; any other loss is slower

WORDS: dict[str, dict[str, str]] = {
    "model": {"argmax": "argmax (k classes)", "perceptron": "perceptron (one vector)"},
    "prior": {name: PRIORS.label(name) for name in PRIOR_NAMES},
    "estimators": dict.fromkeys(ESTIMATORS, ""),
    "ridge_rule": {"fixed": "the slider's", "optimal": "optimal at each α"},
    "range_rule": {"follow": "follows the transitions", "set": "as set here"},
    "scale": {"linear": "linear", "log": "logarithmic"},
    "error_scale": {"linear": "linear", "log": "logarithmic"},
    "shown": {
        "overlaps": "overlaps m, q",
        "correlation": "correlation m/√q",
        "variance": "variance V",
        "training-error": "training error",
        "training-loss": "training loss",
    },
    "simulation": dict.fromkeys(SIMULATIONS, ""),
}
CHOICES: dict[str, tuple[str, ...]] = {
    setting: tuple(words) for setting, words in WORDS.items() if setting != "estimators"
}


def words_for(setting: str, name: str) -> str:
    """What the page calls a choice; a name without words of its own is its own word."""
    return WORDS[setting].get(name) or LABELS.get(name, name)


def takes_ridge(name: str) -> bool:
    """Whether an estimator has a ridge: a loss that is not a limit of ridge 0."""
    return name in LOSS_NAMES and not LOSSES.read(name).scale_free


def quick_first(names: tuple[str, ...]) -> list[str]:
    """The estimators in the order of their cost."""
    return sorted(names, key=lambda name: _BY_COST.index(name) if name in _BY_COST else 9)


def is_tabled(name: str) -> bool:
    """Whether the curve of an estimator is quick for few classes."""
    return name in _BY_COST


def is_closed_form(name: str) -> bool:
    """Whether the curve of an estimator is quick for any number of classes."""
    return name == "square"
