"""A user's own data at the shell: data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polyceptron.cli.printing import check_outputs, say
from polyceptron.cli.waiting import waiting


def data(
    table: Annotated[
        Path, typer.Argument(help="Samples: .csv, .tsv, .parquet, or .npz with X and y.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column of the labels (.npz: the array; default y).")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be given again.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page with pictures, and its numbers as .json beside it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers and sentences.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds and the resampling.")] = 0,
) -> None:
    """One page about your own data: what they are, how well a linear rule does, what more would do.

    Example: polyceptron data table.csv --target label --html report.html
    """
    from polyceptron.report.data import as_html, as_text, measure, read_table
    from polyceptron.report.data import as_json as numbers_of

    beside = None if html is None else html.with_suffix(".json")
    check_outputs(html, beside)
    found = read_table(table, target, drop or ())
    with waiting(f"reading {table.name}") as update:
        measured = measure(found, seed=seed, say=update)
    if html is not None and beside is not None:
        from polyceptron.files import write_text

        write_text(html, as_html(measured))
        write_text(beside, numbers_of(measured))
    sys.stdout.write(numbers_of(measured) if as_json else as_text(measured))
    if html is not None:
        say(f"page in {html}, numbers in {beside}")
