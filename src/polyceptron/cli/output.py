"""Where the rows of a command go: to a table, as JSON, to a CSV file, and into a picture.

Rows go to standard output or to a file; standard error tells what goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from polyceptron.cli.tables import print_json, print_table
from polyceptron.errors import InvalidInput
from polyceptron.files import write_atomically
from polyceptron.progress import say, steps, waiting
from polyceptron.rows import Row, frame, without_formulas

if TYPE_CHECKING:
    from polyceptron.pictures.parts import Picture


class Output(NamedTuple):
    """Where rows go, as --json, --csv and --plot say.

    Parameters
    ----------
    as_json : bool
        Print JSON in place of a table.
    csv, plot : path, optional
        The files for every column and for the picture.
    """

    as_json: bool
    csv: Path | None = None
    plot: Path | None = None

    @property
    def in_words(self) -> bool:
        """Whether neither JSON nor a file is asked for."""
        return not self.as_json and self.csv is None

    def __call__(
        self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), **more: Any
    ) -> None:
        """Print a table of `columns` (`more` as for `print_table`) or JSON; write a file if asked.

        Rows whose file cannot be written are printed as JSON, so that they are not lost.
        """
        if self.csv is not None:
            try:
                table = without_formulas(frame(rows))
                write_atomically(self.csv, lambda path: table.to_csv(path, index=False))
            except (InvalidInput, OSError):
                print_json(rows)
                raise
        if self.as_json:
            print_json(rows)
        elif self.csv is None:
            print_table(rows, columns, **more)
        elif len(rows) == 1:
            say(f"wrote 1 row to {self.csv}")
        else:
            say(f"wrote {len(rows)} rows to {self.csv}")

    def draw_curves(self, rows: Iterable[Row]) -> None:
        """Draw learning curves, if a picture is asked for."""
        if self.plot is not None:
            from polyceptron.pictures.curves import curves_picture

            self._save(curves_picture(frame(rows)), self.plot)

    def draw_ridges(self, rows: Iterable[Row]) -> None:
        """Draw the error against the ridge, if a picture is asked for."""
        if self.plot is not None:
            from polyceptron.pictures.curves import ridge_picture

            self._save(ridge_picture(frame(rows)), self.plot)

    def _save(self, picture: Picture, path: Path) -> None:
        from polyceptron.pictures.matplotlib_figure import render_matplotlib, save_figure

        save_figure(render_matplotlib(picture), path)
        say(f"drew {path}")


class Collected(NamedTuple):
    """The rows of the parts of a computation that were done before its end or before Ctrl-C."""

    rows: list[Row]
    parts_done: int
    parts: int

    def exit_if_stopped(self) -> None:
        """End a command that was stopped, with exit code 130; call it when its rows are printed."""
        if self.parts_done < self.parts:
            say(f"stopped after {self.parts_done} of {self.parts} parts: their results are kept")
            raise typer.Exit(130)


def collect(parts: Iterable[list[Row]], n_parts: int, what: str) -> Collected:
    """Compute the parts one after another, with the time left shown.

    A first Ctrl-C ends the computation and keeps the rows that there are.

    Parameters
    ----------
    parts : iterable of lists of rows
        Computes a part when it is asked for it.
    n_parts : int
        How many there will be.
    what : str
        Says what is computed, as 'planning'.
    """
    rows: list[Row] = []
    done = 0
    with waiting(what):
        try:
            for part in steps(parts, n_parts):
                rows += part
                done += 1
        except KeyboardInterrupt:
            if not rows:
                raise
    return Collected(rows, done, n_parts)
