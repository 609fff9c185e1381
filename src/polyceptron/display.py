"""Short text for people: results in a few digits, durations, and quotations cut to a length."""

import html
import re
from dataclasses import fields, is_dataclass

# Numbers whose names end so are sizes of errors: two digits say all that they can say.
_NAMES_OF_ERROR_SIZES = ("uncertainty", "residual", "bound")

Fact = str | bool | int | float


class ShortDisplay:
    """Mixin for a dataclass declared with `repr=False`: show its numbers, words and flags only.

    Arrays and nested objects are left out, both in `repr` and in the table of a notebook.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Answer(ShortDisplay):
    ...     error: float
    ...     error_uncertainty: float
    ...     curve: list
    >>> Answer(1 / 3, 1 / 3e6, [1, 2])
    Answer(error=0.3333333, error_uncertainty=3.3e-07)
    """

    def _facts(self) -> dict[str, Fact]:
        """Return the fields that are a number, a word or a flag, by name."""
        if not is_dataclass(self):
            raise TypeError(f"ShortDisplay is for dataclasses, got {type(self).__name__}")
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Fact)}

    def __repr__(self) -> str:
        facts = []
        for name, value in self._facts().items():
            shown = repr(str(value)) if isinstance(value, str) else _as_text(name, value)
            facts.append(f"{name}={shown}")
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td>{html.escape(_as_text(name, value))}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def _as_text(name: str, value: Fact) -> str:
    """Return the value of the field `name`: two digits of an error's size, seven of a number."""
    if not isinstance(value, float):
        return str(value)
    if name.endswith(_NAMES_OF_ERROR_SIZES) and value != 0:
        return f"{value:.1e}"
    return f"{value:.7g}"


def describe_seconds(seconds: float) -> str:
    """Return a duration in the unit that people would use for it.

    Examples
    --------
    >>> [describe_seconds(s) for s in (0.4, 40, 5400, 200_000)]
    ['0.4 s', '40 s', '90 min', '2.3 days']
    """
    minute, hour, day = 60, 3600, 86400
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * minute:
        return f"{seconds:.0f} s"
    if seconds < 2 * hour:
        return f"{seconds / minute:.0f} min"
    if seconds < 2 * day:
        return f"{seconds / hour:.1f} h"
    if seconds < 100 * day:
        return f"{seconds / day:.1f} days"
    return f"{seconds / day:,.0f} days"


# Control characters but tabs and line feeds: some begin a command to the terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    r"""Return the text with control characters written as escapes: names may come from others.

    Examples
    --------
    >>> visible("class \x1b[31mred")
    'class \\x1b[31mred'
    """
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def cut_text(text: str, length: int) -> str:
    """Return the text, cut to `length` characters if it is longer: messages quote what was given.

    Examples
    --------
    >>> cut_text("0.5,1,2", 5)
    '0.5,…'
    """
    if len(text) <= length:
        return text
    return f"{text[: length - 1]}…"
