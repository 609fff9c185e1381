"""How results show themselves: one line at a prompt, a small table in a notebook, no arrays."""

from __future__ import annotations

import html
from typing import Any


class ShortDisplay:
    """`__repr__` and `_repr_html_` from `_facts`, a dict of plain values."""

    def _facts(self) -> dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_shown(value)}" for name, value in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td>{html.escape(_shown(value, quote=False))}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def _shown(value: Any, *, quote: bool = True) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return repr(str(value)) if quote and isinstance(value, str) else str(value)
