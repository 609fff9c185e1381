"""Mistakes in a sweep file as sentences: 'spec.toml, line 7, grid[1].alpha: what is wrong'."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from polyceptron.experiments.toml_lines import field_lines, nearest_line

MAX_SHOWN = 80  # characters of a wrong value that is quoted
MAX_SENTENCES = 20


def describe_errors(
    error: ValidationError, text: str, name: str, tables: dict[str, type[BaseModel]]
) -> str:
    """One line for each mistake; `tables` are the models by the name of their table, '' the top."""
    lines = field_lines(text)
    items = error.errors(include_url=False)
    sentences = [_describe(item, lines, name, tables) for item in items[:MAX_SENTENCES]]
    if len(items) > MAX_SENTENCES:
        sentences.append(f"{name}: and {len(items) - MAX_SENTENCES} more")
    return "\n".join(sentences)


def _describe(
    item: Any,
    lines: dict[tuple[str | int, ...], int],
    name: str,
    tables: dict[str, type[BaseModel]],
) -> str:
    path = tuple(item["loc"])
    line = nearest_line(lines, path)
    field = ""
    for part in path:
        field += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    what = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        model = tables.get(str(path[0]), tables[""]) if len(path) > 1 else tables[""]
        what = f"unknown field; allowed are {', '.join(model.model_fields)}"
    elif item["type"] == "missing":
        what = "this field is required"
    elif not isinstance(item["input"], dict) and "got" not in what:
        what = f"{what[:1].lower()}{what[1:]}, got {_quote(item['input'])}"
    place = f", line {line}" if line else ""
    return f"{name}{place}{', ' if field else ''}{field.lstrip('.')}: {what}"


def _quote(value: Any) -> str:
    """The value as it could be typed, cut where it would fill the screen."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists
        return "a value too long to show"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"
