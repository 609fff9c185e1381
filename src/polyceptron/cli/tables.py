"""Rows as text: tables that fit the terminal, JSON, and the words for titles.

A table that is too wide for the terminal leaves out whole columns, never digits, and names them
below (--json and --csv have every column).
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from polyceptron.cli.streams import shown_as
from polyceptron.display import visible
from polyceptron.rows import json_ready

if TYPE_CHECKING:
    from polyceptron.problem import Population

GAP = "  "  # between two columns
HEADERS = {  # of columns whose own names are too long, or not what people say
    "generalisation_error": "error",
    "theory_generalisation_error": "theory error",
    "uncertainty": "± 99 %",  # holds in 99 of 100 cases
    "alpha_uncertainty": "± 99 %",
    "mean_size_uncertainty": "± 99 %",
    "generalisation_error_standard_error": "std. error",
    "training_error": "train error",
    "training_loss": "train loss",
    "calibration_error": "calibration",
    "dimension": "d",
    "n_samples": "n",
}
_LOOKS_LIKE_A_NUMBER = re.compile(r"[-+.\de]*|-?inf|nan")
_MAX_IN_TITLE = 40  # characters of one setting; a longer one is "as given"


def print_json(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a list of objects; a number that is not finite is null."""
    sys.stdout.write(json.dumps([json_ready(row) for row in rows], indent=1) + "\n")


@dataclass
class _Table:
    """The cells of a table, and which of its columns are shown.

    `cells[column]` has a text for each row, `widths[column]` has room for these and the header.
    `numbers` are the columns that hold nothing else. `shown` has the columns that are printed, in
    order, and `left_out` those for which the terminal has no room.
    """

    cells: dict[str, list[str]]
    widths: dict[str, int]
    numbers: set[str]
    shown: list[str]
    left_out: list[str]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> _Table:
        """Return the table of these columns, without those that are empty in every row."""
        table = cls({}, {}, set(), [], [])
        for column in columns:
            cells = [visible(format_value(row.get(column), column)) for row in rows]
            if not any(cells):
                continue
            table.shown.append(column)
            table.cells[column] = cells
            table.widths[column] = max(len(text) for text in (header(column), *cells))
            if all(_LOOKS_LIKE_A_NUMBER.fullmatch(cell) for cell in cells):
                table.numbers.add(column)
        return table

    @property
    def width(self) -> int:
        """The width of the whole table."""
        gaps = len(GAP) * (len(self.shown) - 1)
        return sum(self.widths[column] for column in self.shown) + gaps

    def shrink_to(self, width: int, optional: Sequence[str]) -> None:
        """Leave out columns of `optional`, the first of them first, until the table fits."""
        for column in optional:
            if column in self.shown and self.width > width:
                self.shown.remove(column)
                self.left_out.append(column)

    def line(self, texts: Mapping[str, str]) -> str:
        """Return one line of the table: words to the left in a column, numbers to the right."""
        padded = []
        for column in self.shown:
            width = self.widths[column]
            if column in self.numbers:
                padded.append(texts[column].rjust(width))
            else:
                padded.append(texts[column].ljust(width))
        return GAP.join(padded).rstrip()

    def header_line(self) -> str:
        """Return the line with the names of the columns."""
        return self.line({column: header(column) for column in self.shown})

    def row_line(self, i: int) -> str:
        """Return the line of row `i`."""
        return self.line({column: self.cells[column][i] for column in self.shown})


def print_table(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None = None,
    *,
    optional: Sequence[str] = (),
    below: str | None = None,
) -> None:
    """Print a table of the columns that at least one row has.

    Parameters
    ----------
    rows : iterable of mappings
        A row may lack any of the columns.
    columns : sequence of str
        The columns, in order.
    title : str, optional
        Stands above the table.
    optional : sequence of str
        Columns that may be left out where the table is too wide, the first of them first.
    below : str, optional
        A column of sentences; each is printed under its row.
    """
    rows = list(rows)
    terminal_width = shutil.get_terminal_size().columns
    table = _Table.of(rows, columns)
    table.shrink_to(terminal_width, optional)
    if title:
        echo(title)
    typer.secho(table.header_line(), bold=True)
    typer.echo(shown_as("─") * min(table.width, terminal_width))
    indent = GAP + GAP
    sentences = textwrap.TextWrapper(terminal_width, indent, indent)
    for i, row in enumerate(rows):
        typer.echo(table.row_line(i))
        if below is not None and row.get(below) is not None:
            typer.echo(sentences.fill(visible(str(row[below]))))
    if table.left_out:
        names = ", ".join(header(column) for column in table.left_out)
        echo(f"too wide for the table: {names} (--json prints every column)")


def echo(text: str) -> None:
    """Print words on standard output, broken between words where the terminal ends."""
    typer.echo(textwrap.fill(shown_as(text), shutil.get_terminal_size().columns))


def header(column: str) -> str:
    """Return what stands over a column."""
    return shown_as(HEADERS.get(column, column.replace("_", " ")))


def uncertainty_column(column: str) -> str:
    """Return the column that has the uncertainty of the numbers in `column`."""
    if column == "generalisation_error":
        return "uncertainty"
    return f"{column}_uncertainty"


def format_value(value: Any, column: str = "") -> str:
    """Return the text of a cell, which is empty for an absent number (None or NaN).

    An uncertainty or a standard error has two digits, a number measured on training samples four,
    any other number six.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, float):
        return str(value)
    if "uncertainty" in column or "standard_error" in column:
        return f"{value:.1e}"
    if "training" in column:
        return f"{value:.4g}"
    return f"{value:.6g}"


def describe_teacher(teacher: Population, **more: Any) -> str:
    """Return the problem in words, for the title of a table; `more` is what all its rows share."""
    problem = dict(teacher.columns)
    if problem.get("prior"):
        problem["prior"] = f"{problem['prior']} weights"
    return describe_row(problem | more)


def describe_row(row: Mapping[str, Any]) -> str:
    """Return what a row is about, without its numbers, as 'argmax, k = 3, noise flips:0.1, bayes'.

    These are the problem, the estimator, the source, the start and the branch.
    """
    return ", ".join([*_words_of_problem(row), *_words_of_solution(row)])


def _words_of_problem(row: Mapping[str, Any]) -> list[str]:
    """Return the model, k, and what differs from independent features and noiseless labels."""
    words = [row["model"], f"k = {row['n_classes']}"]
    if row.get("prior"):
        words.append(row["prior"])
    if row.get("shares"):
        words.append(f"shares {_short_shares(row['shares'])}")
    for name in ("biases", "gram", "levels", "class_weight"):
        if row.get(name):
            words.append(f"{header(name)} {_or_as_given(row[name])}")
    if row.get("intercept"):
        words.append("with intercept")
    if row.get("noise", "none") != "none":
        words.append(f"noise {row['noise']}")
    if row.get("features") and row["features"] != "isotropic":
        words.append(f"features {_or_as_given(row['features'])}")
    return words


def _words_of_solution(row: Mapping[str, Any]) -> list[str]:
    """Return the estimator, the source, the start and the branch of a row, where it has them."""
    words = [row[name] for name in ("estimator", "source") if row.get(name)]
    if row.get("start"):
        words.append(f"{row['start']} start")
    if row.get("branch"):
        words.append(f"branch {row['branch']}")
    return words


def _short_shares(shares: str) -> str:
    """Return the shares of the classes, or a word for them where there are many."""
    are_equal = len(set(shares.split(","))) == 1
    if len(shares) > _MAX_IN_TITLE and are_equal:
        return "equal"
    return _or_as_given(shares)


def _or_as_given(text: str) -> str:
    """Return the text, or 'as given' where it is too long for a title."""
    if len(text) > _MAX_IN_TITLE:
        return "as given"
    return text
