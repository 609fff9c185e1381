"""Kinds of settings: a choice among names, or a number between two limits, each with its words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from polyceptron.errors import InvalidInput

LONGEST_QUOTE = 40  # characters of a wrong value that a message repeats


@dataclass(frozen=True)
class Choice:
    """One of some names, or `several` of them, each with the words that the page has for it."""

    label: str
    words: Mapping[str, str]
    several: bool = False
    slider: ClassVar[str] = ""

    def read(self, name: str, value: object) -> str | tuple[str, ...]:
        """Return the value if it is one of the names, or raise InvalidInput."""
        if not self.several:
            return self._known(name, value, "one of")
        chosen = [self._known(name, part, "among") for part in _parts(value)]
        if not chosen:
            raise InvalidInput("choose at least one estimator")
        return tuple(known for known in self.words if known in chosen)

    def _known(self, name: str, value: object, relation: str) -> str:
        """Return the value if it is a name, or raise InvalidInput."""
        if not isinstance(value, str) or value not in self.words:
            allowed = ", ".join(self.words)
            raise InvalidInput(f"{name} must be {relation} {allowed}, got {quoted(value)!r}")
        return value


def _parts(value: object) -> list[object]:
    """Return the names in a list, or in a text with commas."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return list(str(value).split(","))


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, in a box or on a slider.

    Attributes
    ----------
    label : str
        What the page calls it.
    full : str
        What messages call it.
    low, high : float
        Its limits.
    slider : str
        "linear" or "log"; empty for a box.
    whole : bool
        Whether it is a whole number.
    """

    label: str
    full: str
    low: float
    high: float
    slider: str = ""
    whole: bool = False

    def read(self, _name: str, value: object) -> float:
        """Return the value as a number within the limits, or raise InvalidInput."""
        if value is None or value == "":
            raise InvalidInput(self.allowed)
        number = _as_float(value)
        inside = self.low <= number <= self.high and not isinstance(value, bool)
        if not inside or (self.whole and number != int(number)):
            raise InvalidInput(f"{self.allowed}, got {quoted(value)}")
        if self.whole:
            return int(number)
        return number

    @property
    def allowed(self) -> str:
        """Return what is allowed, as a sentence."""
        kind = "a number"
        if self.whole:
            kind = "a whole number"
        high = f"{self.high:g}"
        if self.high >= 1e6:  # digits, not an exponent
            high = f"{self.high:.0f}"
        return f"{self.full} must be {kind} from {self.low:g} to {high}"


def _as_float(value: object) -> float:
    """Return the number that a value stands for; NaN for what is no number."""
    if not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def quoted(value: object) -> str:
    """Return the beginning of a value, for a message."""
    try:
        return str(value)[:LONGEST_QUOTE]
    except ValueError:  # Python does not write a whole number of thousands of digits
        return "a huge number"
