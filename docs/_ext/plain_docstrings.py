"""Docstrings are written to be read in a terminal; here they become reStructuredText.

Stars, bars and trailing underscores of formulas are escaped, `names` become code, and indented
formulas keep their lines. A heading underlined with dashes opens a list of definitions: the term is
`name : type`, and the indented lines below it are its meaning.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx


def convert(lines: list[str]) -> list[str]:
    """The same docstring as reStructuredText; doctest examples are left as they are."""
    result: list[str] = []
    state = "text"  # or "example", "formula", "definitions"
    for i, line in enumerate(lines):
        text = line.strip()
        if not text:
            state = "formula" if state == "formula" else "text"
            result.append("")
        elif text.startswith(">>>") or state == "example":
            state = "example"
            result.append(line)
        elif set(text) == {"-"}:  # the underline of a heading: what follows are definitions
            state = "definitions"
            result[-1:] = [f".. rubric:: {result[-1].strip()}", ""]
        elif state == "definitions":
            result += definition(line, lines[i + 1 : i + 2])
        elif line.startswith(" ") and (state == "formula" or not "".join(lines[i - 1 : i]).strip()):
            result += [] if state == "formula" else ["::", ""]
            state = "formula"
            result.append(line)
        else:
            state = "text"
            result.append(escape_line(line))
    return result


def definition(line: str, following: list[str]) -> list[str]:
    """Return a line of a list of definitions: a term with its type, or a line of its meaning."""
    text = line.strip()
    if line.startswith(" "):
        return [f"    {escape_line(text)}"]
    name, colon, kind = text.partition(" : ")
    term = escape_line(name)
    if colon:
        term = ", ".join(f"``{part}``" for part in name.split(", "))
        term += f" : *{escape_line(kind).replace('``', '')}*"
    has_meaning = "".join(following).startswith(" ")
    if has_meaning:
        return [term]
    return [term, "    \\"]  # a term needs a body: an escaped space, which shows nothing


def escape_line(line: str) -> str:
    """Markup characters of RST escaped, outside `code`, which becomes ``code``."""
    parts = re.split(r"(`+[^`]+`+)", line)
    for i, part in enumerate(parts):
        if part.startswith("`"):
            parts[i] = f"``{part.strip('`')}``"
        else:
            part = re.sub(r"([*|\\])", r"\\\1", part)
            parts[i] = re.sub(r"_(?=\W|$)", r"\\_", part)
    return "".join(parts)


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = convert(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process)
    return {"version": "1", "parallel_read_safe": True}
