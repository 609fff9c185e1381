"""How results and durations are shown: one line at a prompt, a small table in a notebook."""

from __future__ import annotations

import html
from dataclasses import fields
from typing import Any

_ROUGH = ("uncertainty", "residual", "bound")  # names of which two digits say everything


class ShortDisplay:
    """`__repr__` and `_repr_html_` from `_facts`, a dict of plain values.

    A dataclass declared with `repr=False` shows its numbers, words and flags, no arrays and nothing
    that is None.
    """

    def _facts(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {n: v for n, v in values.items() if isinstance(v, str | bool | int | float)}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_shown(name, v)}" for name, v in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td>{html.escape(_shown(name, value, quote=False))}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def _shown(name: str, value: Any, *, quote: bool = True) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if name.endswith(_ROUGH) and value else f"{value:.7g}"
    return repr(str(value)) if quote and isinstance(value, str) else str(value)


def describe_seconds(seconds: float) -> str:
    """A duration for people.

    >>> [describe_seconds(s) for s in (0.4, 40, 5400, 200_000)]
    ['0.4 s', '40 s', '90 min', '2.3 days']
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
