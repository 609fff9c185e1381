"""Mistakes in a sweep file as sentences: 'spec.toml, line 7, grid[1].alpha: what is wrong'."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from polyceptron.experiments.toml_lines import Path, field_lines, nearest_line
from polyceptron.ranges import cut_text

MAX_SHOWN = 80  # characters of a wrong value that is quoted
MAX_SENTENCES = 20
MAX_LENGTH = 400  # characters of one sentence


def describe_errors(error: ValidationError, text: str, name: str, model: type[BaseModel]) -> str:
    """One line for each mistake in the text of a file of this name that should fit the model."""
    lines = field_lines(text)
    items = error.errors(include_url=False)
    sentences = [_describe(item, lines, name, model) for item in items[:MAX_SENTENCES]]
    if len(items) > MAX_SENTENCES:
        sentences.append(f"{name}: and {len(items) - MAX_SENTENCES} more")
    return "\n".join(sentences)


def _describe(item: Any, lines: dict[Path, int], name: str, model: type[BaseModel]) -> str:
    path = tuple(item["loc"])
    line = nearest_line(lines, path)
    field = ""
    for part in path:
        field += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    what = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        what = f"unknown field; allowed are {', '.join(_allowed(path, model))}"
    elif item["type"] == "missing":
        what = "this field is required"
    elif not isinstance(item["input"], dict) and "got" not in what:
        what = f"{what[:1].lower()}{what[1:]}, got {_quote(item['input'])}"
    place = f", line {line}" if line else ""
    where = cut_text(f"{place}{', ' if field else ''}{field.lstrip('.')}", MAX_SHOWN)
    return f"{name}{where}: {cut_text(what, MAX_LENGTH)}"


def _allowed(path: Path, model: type[BaseModel]) -> list[str]:
    """The fields of the table that the path points into: the top, or one or a list of models."""
    if len(path) > 1:
        annotation: Any = model.model_fields[str(path[0])].annotation
        model = next(iter(get_args(annotation)), annotation)
    return list(model.model_fields)


def _quote(value: Any) -> str:
    """The value as it could be typed, cut where it would fill the screen."""
    try:
        return cut_text(repr(value), MAX_SHOWN)
    except (ValueError, RecursionError):  # an integer of thousands of digits, lists in lists
        return "a value too long to show"
