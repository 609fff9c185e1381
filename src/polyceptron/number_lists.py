"""Lists of numbers that a user writes as text.

| text | numbers |
| --- | --- |
| `0.5,1,2` | these |
| `start:stop:count` | `count` points, both ends included; evenly spaced, or as the caller says |
| `start:stop:count:log` | ... geometrically spaced |
| `start:stop:count:linear` | ... evenly spaced |
| `start:stop`, `start:stop:log` | the two ends (`parse_range`): the caller chooses points |
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from polyceptron.display import cut_text
from polyceptron.errors import InvalidInput

MAX_POINTS = 100_000  # of one range: a larger count is a slip of the finger
_MAX_QUOTED = 80  # characters of the user's text in a message


class Ends(NamedTuple):
    """The two ends of a range whose points somebody else chooses."""

    low: float
    high: float
    logarithmic: bool


@dataclass(frozen=True)
class _Range:
    """The parts of `start:stop:count[:log]`."""

    start: float
    stop: float
    count: int
    logarithmic: bool

    def points(self) -> list[float]:
        """Return the points of the range, both ends included."""
        if self.count == 1:
            return [self.start]
        fractions = [i / (self.count - 1) for i in range(self.count)]
        if self.logarithmic:
            ratio = self.stop / self.start
            return [self.start * ratio**fraction for fraction in fractions]
        length = self.stop - self.start
        return [self.start + length * fraction for fraction in fractions]


def parse_range(text: str, name: str) -> Ends | None:
    """Read 'start:stop' or 'start:stop:log'; return None where the text is something else.

    Parameters
    ----------
    text : str
        What the user wrote.
    name : str
        The option or field that it was written for; it stands in error messages.

    Examples
    --------
    >>> parse_range("0:5", "alpha")
    Ends(low=0.0, high=5.0, logarithmic=False)
    >>> parse_range("0:5:10", "alpha") is None
    True
    """
    parts = text.split(":")
    logarithmic = len(parts) == 3 and parts[2] == "log"
    if len(parts) != 2 and not logarithmic:
        return None
    low, high = parse_numbers(f"{parts[0]}:{parts[1]}:2", name)
    return Ends(low, high, logarithmic)


def parse_numbers(text: str, name: str, *, log: bool = False) -> list[float]:
    """Read numbers from '0.5,1,2' or from a range 'start:stop:count'.

    Parameters
    ----------
    text : str
        What the user wrote.
    name : str
        The option or field that it was written for; it stands in error messages.
    log : bool
        Space the points of a range geometrically, unless its fourth part says otherwise.

    Examples
    --------
    >>> parse_numbers("1:3:3", "alpha")
    [1.0, 2.0, 3.0]
    >>> parse_numbers("1:100:3:log", "alpha")
    [1.0, 10.0, 100.0]
    """
    given = repr(cut_text(text, _MAX_QUOTED))
    try:
        if ":" not in text:
            return _read_list(text)
        points = _read_range(text, log)
    except ValueError:
        raise InvalidInput(
            f"{name} takes numbers such as 0.5,1,2 or a range start:stop:count, got {given}"
        ) from None
    if not 1 <= points.count <= MAX_POINTS:
        raise InvalidInput(f"{name} must have 1 to {MAX_POINTS} points, got {given}")
    if points.count > 1 and points.stop <= points.start:
        raise InvalidInput(f"{name} must go upwards, got {given}")
    if points.logarithmic and points.start <= 0:
        raise InvalidInput(f"{name} must start above 0 to be logarithmic, got {given}")
    return points.points()


def _read_list(text: str) -> list[float]:
    """Read '0.5,1,2'; raise ValueError where it is not a list of finite numbers."""
    values = [_finite(part) for part in text.split(",") if part.strip()]
    if not values:
        raise ValueError("no number")
    return values


def _read_range(text: str, logarithmic: bool) -> _Range:
    """Read 'start:stop:count', or with ':log' or ':linear'; raise ValueError otherwise."""
    parts = text.split(":")
    if len(parts) == 4 and parts[3] in ("log", "linear"):
        logarithmic = parts.pop() == "log"
    if len(parts) != 3:
        raise ValueError("a range has three parts")
    start, stop, count = parts
    return _Range(_finite(start), _finite(stop), int(count), logarithmic)


def _finite(text: str) -> float:
    """Read a finite number; raise ValueError otherwise."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("not finite")
    return value
