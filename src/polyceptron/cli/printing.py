"""Rows on standard output as a table or JSON, and in a CSV file; on standard error what goes on.

A table chooses its columns: every number in it is whole, and what the terminal has no room for is
named below it and is in --json and --csv.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from polyceptron.display import steps, waiting
from polyceptron.files import write_atomically
from polyceptron.rows import json_ready

GAP = "  "
HEADERS = {
    "generalisation_error": "error", "theory_generalisation_error": "theory error",
    "uncertainty": "±", "alpha_uncertainty": "±", "training_error": "train error",
    "training_loss": "train loss", "calibration_error": "calibration",
    "dimension": "d", "n_samples": "n",
}  # fmt: skip


class Output(NamedTuple):
    """Where rows go: to a table, as JSON, to a CSV file; and where they are drawn."""

    as_json: bool
    csv: Path | None = None
    plot: Path | None = None

    @property
    def in_words(self) -> bool:
        """Neither JSON nor a file is asked for."""
        return not self.as_json and self.csv is None

    def __call__(
        self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), **more: Any
    ) -> None:
        """A table of `columns` (`more` as for `print_table`), or JSON; and a file if asked."""
        if self.csv is not None:
            from polyceptron.rows import frame

            write_atomically(self.csv, lambda path: frame(rows).to_csv(path, index=False))
        if self.as_json:
            print_json(rows)
        elif self.csv is None:
            print_table(rows, columns, **more)
        else:
            say(f"{len(rows)} row{'s' * (len(rows) != 1)} in {self.csv}")

    def draw(self, picture: str, rows: Any) -> None:
        """The rows as a picture of `report.pictures.curves`, if one is asked for."""
        if self.plot is None:
            return
        from polyceptron.report.pictures import curves
        from polyceptron.report.pictures.matplotlib_figure import render_matplotlib, save_figure
        from polyceptron.rows import frame

        save_figure(render_matplotlib(getattr(curves, picture)(frame(rows))), self.plot)
        say(f"drawn in {self.plot}")


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """A list of objects; a number that is not finite is null."""
    sys.stdout.write(json.dumps([json_ready(row) for row in rows], indent=1) + "\n")


def print_table(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None = None,
    *,
    optional: Sequence[str] = (),
    below: str | None = None,
) -> None:
    """A table of the columns that at least one row has; `below` stands under its row, in words.

    `optional` names the columns that may be left out for want of room, the first of them first.
    """
    rows = list(rows)
    width = shutil.get_terminal_size().columns
    shown = [c for c in columns if any(row.get(c) is not None for row in rows)]
    cells = {c: [format_value(row.get(c), c) for row in rows] for c in shown}
    widths = {c: max(len(header(c)), *map(len, cells[c])) for c in shown}
    left_out = []
    for column in optional:
        if sum(widths[c] + len(GAP) for c in shown) > width + len(GAP) and column in shown:
            shown.remove(column)
            left_out.append(header(column))
    if title:
        echo(title)
    # Words to the left, numbers to the right.
    place = {c: str.rjust if all(map(_is_number, cells[c])) else str.ljust for c in shown}

    def line(texts: Mapping[str, str]) -> str:
        return GAP.join(place[c](texts[c], widths[c]) for c in shown).rstrip()

    typer.secho(line({c: header(c) for c in shown}), bold=True)
    typer.echo("─" * min(sum(widths[c] + len(GAP) for c in shown) - len(GAP), width))
    for i, row in enumerate(rows):
        typer.echo(line({c: cells[c][i] for c in shown}))
        if below is not None and row.get(below) is not None:
            indent = GAP + GAP
            wrap = textwrap.TextWrapper(width, indent, indent)
            typer.echo(wrap.fill(str(row[below])))
    if left_out:
        echo(f"not shown for want of room: {', '.join(left_out)} (--json has every column)")


def echo(text: str) -> None:
    """Words on standard output, broken between words where the terminal ends."""
    typer.echo(textwrap.fill(text, shutil.get_terminal_size().columns))


def header(column: str) -> str:
    """What stands over a column."""
    return HEADERS.get(column, column.replace("_", " "))


def format_value(value: Any, column: str = "") -> str:
    """A cell: six significant digits, four for a training sample's, two for an uncertainty."""
    if isinstance(value, float):
        digits = ".1e" if "uncertainty" in column else ".4g" if "training" in column else ".6g"
        return f"{value:{digits}}"
    return "" if value is None else str(value)


def _is_number(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(text + "\n")


def collect(
    parts: Iterable[list[dict[str, Any]]], n_parts: int, what: str
) -> tuple[list[dict[str, Any]], Callable[[], None]]:
    """The rows of all parts, with the time left shown; what there is by then if it is stopped.

    The function that is given ends a stopped command with exit code 130, and does nothing else.
    """
    rows: list[dict[str, Any]] = []
    done = 0

    def stopped() -> None:
        if done < n_parts:
            say(f"stopped: {done} of {n_parts} parts are done, and what they gave is kept")
            raise typer.Exit(130)

    with waiting(what):
        try:
            for part in steps(parts, n_parts):
                rows += part
                done += 1
        except KeyboardInterrupt:
            if not rows:
                raise
    return rows, stopped
