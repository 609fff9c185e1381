"""Lists of numbers written as text, the same at the shell and in sweep files."""

from __future__ import annotations

import math

from polyceptron.errors import InvalidInput

MAX_POINTS = 100_000


def cut_text(text: str, length: int) -> str:
    """The text, or its beginning if it is longer: what was given is quoted, not printed in full.

    >>> cut_text("0.5,1,2", 5)
    '0.5,…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def parse_range(text: str, name: str) -> tuple[float, float, bool] | None:
    """The ends of 'start:stop' or 'start:stop:log' and whether it is logarithmic; else None.

    Without a count it has as many points as a smooth line needs.

    >>> parse_range("0:5", "alpha"), parse_range("0:5:10", "alpha")
    ((0.0, 5.0, False), None)
    """
    parts = text.split(":")
    log = len(parts) == 3 and parts[-1] == "log"
    if len(parts) - log != 2:
        return None
    low, high = parse_numbers(f"{parts[0]}:{parts[1]}:2", name)
    return low, high, log


def parse_numbers(text: str, name: str, *, log: bool = False) -> list[float]:
    """Numbers from '0.5,1,2' or 'start:stop:count', evenly spaced (geometrically if `log`).

    A fourth part, ':log' or ':linear', overrides the spacing.

    >>> parse_numbers("1:3:3", "alpha")
    [1.0, 2.0, 3.0]
    """
    got = repr(cut_text(text, 80))
    form = f"{name} takes numbers such as 0.5,1,2 or a range start:stop:count, got {got}"
    if ":" not in text:
        try:
            values = [float(part) for part in text.split(",") if part.strip()]
        except ValueError:
            raise InvalidInput(form) from None
        if not values or not all(math.isfinite(value) for value in values):
            raise InvalidInput(form)
        return values
    parts = text.split(":")
    if len(parts) == 4 and parts[3] in ("log", "linear"):
        log = parts.pop() == "log"
    try:
        start, stop, count = float(parts[0]), float(parts[1]), int(parts[2])
        if len(parts) != 3 or not (math.isfinite(start) and math.isfinite(stop)):
            raise ValueError
    except (ValueError, IndexError):
        raise InvalidInput(form) from None
    if not 1 <= count <= MAX_POINTS:
        raise InvalidInput(f"{name} must have 1 to {MAX_POINTS} points, got {got}")
    if count > 1 and stop <= start:
        raise InvalidInput(f"{name} must go upwards, got {got}")
    if log and start <= 0:
        raise InvalidInput(f"{name} must start above 0 to be logarithmic, got {got}")
    if count == 1:
        return [start]
    steps = [i / (count - 1) for i in range(count)]
    if log:
        return [start * (stop / start) ** s for s in steps]
    return [start + (stop - start) * s for s in steps]
