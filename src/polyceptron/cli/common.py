"""What the commands share: reading number lists, printing tables, JSON and CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polyceptron.files import check_writable, write_atomically
from polyceptron.rows import json_ready

HEADERS = {  # short enough for a table of 80 columns
    "generalisation_error": "error",
    "uncertainty": "±",
    "training_error": "train error",
    "training_loss": "train loss",
}


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
    """A cell: six significant digits, four beside them, two for an uncertainty."""
    if value is None:
        return ""
    if isinstance(value, float):
        digits = ".1e" if "uncertainty" in column else ".4g" if "training" in column else ".6g"
        return f"{value:{digits}}"
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
