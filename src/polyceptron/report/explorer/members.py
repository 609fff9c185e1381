"""What the page can offer: the registered priors, noises, spectra, students and penalties.

A registered name may have a number in it, such as the 1.2 of power:1.2:200. The page shows the name
as a choice and the number as a slider.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from polyceptron import problem as md
from polyceptron.errors import InvalidInput
from polyceptron.pictures.parts import LABELS

AnyRegistry = md.Registry[Any]


@dataclass(frozen=True)
class Member:
    """A registered name in words, how it is written, and the number in it that a slider moves.

    Attributes
    ----------
    words : str
        What the page calls it.
    form : str
        How it is written, with {} for the number.
    parameter : str
        What the number is; empty where there is none.
    first : float
        The number at which the slider begins.
    """

    words: str
    form: str
    parameter: str = ""
    first: float = 1.0

    def at(self, number: float) -> str:
        """Return the name as it is written with this number: power:1.5:200."""
        return self.form.format(f"{number:.6g}")


_NAMES_OF_NUMBERS = {"power": "exponent", "levels": "larger eigenvalue"}


def _members(registry: AnyRegistry) -> dict[str, Member]:
    """Return the members of a registry; the first number of an example is the slider's."""
    members = {}
    entries = [entry for entry in registry.entries if not entry.brackets]
    for entry, example in zip(entries, registry.examples(), strict=True):
        words = entry.label or entry.name
        numbers_text = example.name[len(entry.name) :]
        number = re.search(r"\d[\d.]*", numbers_text)
        if number is None:
            members[entry.name] = Member(words, entry.name)
            continue
        before = numbers_text[: number.start()]
        after = numbers_text[number.end() :]
        parameter = _NAMES_OF_NUMBERS.get(entry.name) or entry.parameters[-1]
        form = f"{entry.name}{before}{{}}{after}"
        members[entry.name] = Member(words, form, parameter, float(number[0]))
    return members


REGISTRIES: dict[str, AnyRegistry] = {
    "prior": md.PRIORS,
    "noise": md.CHANNELS,
    "features": md.FEATURES,
    "estimators": md.ESTIMATORS,
}
MEMBERS = {kind: _members(registry) for kind, registry in REGISTRIES.items()}
# The setting that has the number of what is chosen for another setting.
NUMBERS = {"prior": "density", "noise": "strength", "features": "shape"}
# The last number of a penalty is λ, one before it L₁.
PENALTY_FORMS = {
    entry.name: entry for entry in md.PENALTIES.entries if 1 <= len(entry.parameters) <= 2
}


def setting_of_number(student: Member) -> str:
    """Return the setting that has the number of a student: the rate of SGD, or that of its loss."""
    if student.parameter == "rate":
        return "rate"
    return "epsilon"


def _methods() -> dict[str, str]:
    """Return the estimator of each method of simulation; that of Bayes is message passing."""
    methods = {}
    for name in MEMBERS["estimators"]:
        if name == md.BayesOptimal.name:
            methods["amp"] = name
        else:
            methods[name] = name
    return methods


METHODS = _methods()


def _methods_of_unequal_classes() -> list[str]:
    """Return the methods that can be simulated where classes differ: minimisers of one loss."""
    methods = []
    for method, estimator in METHODS.items():
        member = MEMBERS["estimators"][estimator]
        if isinstance(md.make_estimator(member.at(member.first)), md.ERM):
            methods.append(method)
    return methods


UNEQUAL_METHODS = _methods_of_unequal_classes()


def member_words(kind: str) -> dict[str, str]:
    """Return what the page calls the members of a kind, by name."""
    return {name: member.words for name, member in MEMBERS[kind].items()}


def method_words() -> dict[str, str]:
    """Return what the page calls the methods of simulation, by name."""
    members = MEMBERS["estimators"]
    return {method: LABELS.get(method) or members[name].words for method, name in METHODS.items()}


def penalty_words() -> dict[str, str]:
    """Return what the page calls the penalties, by name."""
    return {name: entry.label or name for name, entry in PENALTY_FORMS.items()}


# How far a slider reaches from the first number of a member, where such members exist: five
# decades in all, more than any tutorial or figure uses.
FACTOR_BELOW = 500
FACTOR_ABOVE = 50
SLIDER_TRIALS = 41  # numbers tried between the ends


@lru_cache(maxsize=64)
def slider_ends(kind: str, name: str, n_classes: int) -> tuple[float, float]:
    """Return the least and the largest number of a member that its slider offers."""
    member = MEMBERS[kind][name]
    lowest = member.first / FACTOR_BELOW
    highest = member.first * FACTOR_ABOVE
    numbers = [float(number) for number in np.geomspace(lowest, highest, SLIDER_TRIALS)]
    if member.parameter:
        numbers = [number for number in numbers if _exists(kind, member.at(number), n_classes)]
    return numbers[0], numbers[-1]


def _exists(kind: str, name: str, n_classes: int) -> bool:
    """Return whether there is such a member, for labels of so many classes."""
    try:
        if kind == "noise":
            md.as_channel(name).guess(n_classes)
        else:
            REGISTRIES[kind].read(name)
    except InvalidInput:
        return False
    return True
