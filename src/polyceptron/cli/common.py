"""What the commands share: reading number lists, printing tables, JSON and CSV."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_atomically
from polyceptron.rows import json_ready

MAX_POINTS = 100_000
HEADERS = {  # short enough for a table of 80 columns
    "generalisation_error": "error",
    "uncertainty": "±",
    "training_error": "train error",
    "training_loss": "train loss",
}


def parse_numbers(text: str, name: str, *, log: bool = False) -> list[float]:
    """Numbers from '0.5,1,2' or 'start:stop:count', evenly spaced (geometrically if `log`).

    A fourth part, ':log' or ':linear', overrides the spacing.

    >>> parse_numbers("1:3:3", "alpha")
    [1.0, 2.0, 3.0]
    """
    form = f"--{name} takes numbers such as 0.5,1,2 or a range start:stop:count, got {text!r}"
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
        raise InvalidInput(f"--{name}: the count of a range must be 1 to {MAX_POINTS}, got {count}")
    if count > 1 and stop <= start:
        raise InvalidInput(f"--{name}: the range must go upwards, got {text!r}")
    if log and start <= 0:
        raise InvalidInput(f"--{name}: a logarithmic range must start above 0, got {text!r}")
    if count == 1:
        return [start]
    steps = [i / (count - 1) for i in range(count)]
    if log:
        return [start * (stop / start) ** s for s in steps]
    return [start + (stop - start) * s for s in steps]


def emit(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    as_json: bool = False,
    csv: Path | None = None,
    title: str | None = None,
) -> None:
    """Rows to the terminal as a table of `columns`, or as JSON, and to a CSV file if asked."""
    if csv is not None:
        from polyceptron.rows import frame

        write_atomically(csv, lambda path: frame(rows).to_csv(path, index=False))
    if as_json:
        sys.stdout.write(json.dumps([json_ready(row) for row in rows], indent=1) + "\n")
    elif csv is None:
        print_table(rows, columns, title)
    else:
        sys.stderr.write(f"{len(rows)} rows in {csv}\n")


def print_table(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str | None = None
) -> None:
    """A rich table of the columns that at least one row has."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    shown = [c for c in columns if any(row.get(c) is not None for row in rows)]
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in shown:
        table.add_column(HEADERS.get(column, column.replace("_", " ")), justify="right")
    for row in rows:
        table.add_row(*(format_value(row.get(c), c) for c in shown))
    Console().print(table)


def format_value(value: Any, column: str = "") -> str:
    """A cell: six significant digits, two for an uncertainty."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.1e}" if "uncertainty" in column else f"{value:.6g}"
    return str(value)


def check_outputs(*paths: Path | None) -> None:
    """Fail before the work, not after it, when an output cannot be written."""
    for path in paths:
        if path is not None:
            check_writable(path)


@contextmanager
def working(message: str) -> Iterator[None]:
    """A spinner on standard error while slow work runs, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(message):
            yield
    else:
        yield
