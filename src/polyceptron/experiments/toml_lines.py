"""Where each field of a TOML file stands, so that an error can name its line.

`tomllib` gives values without positions. This scanner follows headers and `key =` lines only; it
skips comments, strings and the inside of multi-line arrays, and never interprets a value.
"""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[{1,2})\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")
_STRING = re.compile(
    r'"""(?:.|\n)*?"""|\'\'\'(?:.|\n)*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
)


def field_lines(text: str) -> dict[Path, int]:
    """The line (from 1) of every table and key, by path: ('grid', 0, 'alpha').

    >>> field_lines("[sweep]\\nseed = 1\\n[[grid]]\\nalpha = [1,\\n 2]\\n")[("grid", 0, "alpha")]
    4
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth = 0
    blanked = _blank_strings(text).splitlines()
    for number, (raw, clean) in enumerate(zip(text.splitlines(), blanked, strict=True), start=1):
        header = _HEADER.match(clean) if depth == 0 else None
        key = _KEY.match(raw) if depth == 0 and "=" in clean else None
        if header:
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault((*table, *_parts(key[1])), number)
        depth += sum(clean.count(c) for c in "[{") - sum(clean.count(c) for c in "]}")
    return lines


def nearest_line(lines: dict[Path, int], path: Path) -> int | None:
    """The line of the path, or of the closest table around it."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _blank_strings(text: str) -> str:
    """Strings and comments become spaces, so that brackets and = inside them do not count."""
    return _STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
