"""What a store holds at the shell: results."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, print_json, print_table, say
from polyceptron.cli.sweep import named
from polyceptron.cli.waiting import waiting

if TYPE_CHECKING:
    from polyceptron.experiments import Store, SweepSpec

_SUMMARY = {  # columns of a table, and how they are shown
    "ridge": ("ridge", ".6g"), "alpha": ("alpha", ".6g"), "dimension": ("d", "d"),
    "branch": ("branch", "s"), "instances": ("runs", "d"), "mean": ("mean", ".6g"),
    "standard_error": ("s.e.", ".1e"), "theory": ("theory", ".6g"), "deviation": ("z", "+.1f"),
    "not_converged": ("not conv.", "d"), "failed": ("failed", "d"),
}  # fmt: skip
_OPTIONAL = ("branch", "d", "ridge")


def results(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by sweep.")],
    csv: options.Csv = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the rows to a Parquet file.")] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Means over instances instead of rows (the default).")
    ] = False,
    quantity: Annotated[
        str, typer.Option(help="Column to average: generalisation_error, m, q, ...")
    ] = "generalisation_error",
    spec: Annotated[Path | None, typer.Option(help="Only the rows of this sweep file.")] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="List the rows that failed, with their reasons.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """What a store holds: means with theory beside them, or every row in a file.

    Example: polyceptron results runs.sqlite --csv rows.csv
    """
    from polyceptron.experiments import Store, load_spec
    from polyceptron.experiments.results import check_parquet

    check_outputs(csv, parquet)
    check_distinct(store, spec, csv, parquet)
    if parquet is not None:
        check_parquet()
    loaded = load_spec(spec) if spec else None
    with Store(store) as opened, waiting(f"reading {store}"):
        damaged = opened.damaged()
        if failures:
            list_failures(opened, as_json=as_json)
        elif csv is None and parquet is None:
            print_summary(opened, quantity, loaded, as_json=as_json)
        else:
            write_tables(opened, quantity if summary else None, loaded, csv, parquet)
    if damaged:
        say(
            f"left out, as changed after being written: {named(damaged, 'row')} of {store}; run "
            "the sweep again to compute what is missing, or merge the rest into a new store"
        )
        raise typer.Exit(1)


def check_distinct(*paths: Path | None) -> None:
    """An output must not replace an input, nor another output."""
    from polyceptron.errors import InvalidInput

    seen: dict[Path, Path] = {}
    for path in paths:
        if path is not None:
            other = seen.setdefault(Path(os.path.realpath(path)), path)
            if other is not path:
                raise InvalidInput(f"{str(path)!r} and {str(other)!r} are the same file")


def list_failures(store: Store, *, as_json: bool) -> None:
    """The rows that failed, with their reasons."""
    from polyceptron.experiments.results import failures

    names = ("source", "estimator", "n_classes", "noise", "ridge", "alpha", "dimension", "seed")
    listed = failures(store)
    if as_json:
        print_json(listed)
    elif listed:
        print_table(listed, names, optional=("seed", "noise", "n_classes"), below="reason")
    else:
        say(f"no row failed in {store.path}")


def print_summary(store: Store, quantity: str, spec: SweepSpec | None, *, as_json: bool) -> None:
    """Means over instances with theory beside them."""
    from polyceptron.experiments.results import summary

    lines = summary(store, quantity=quantity, spec=spec)
    if as_json:
        print_json(lines)
    else:
        typer.echo(f"{quantity} in {store.path}: {len(store)} rows")
        _show_summary(lines)


def write_tables(
    store: Store,
    quantity: str | None,
    spec: SweepSpec | None,
    csv: Path | None,
    parquet: Path | None,
) -> None:
    """Every row, or the means of a quantity."""
    from polyceptron.experiments.results import summary_frame, write_csv, write_parquet
    from polyceptron.experiments.tasks import sweep_keys

    if quantity is not None:
        table = summary_frame(store, quantity=quantity, spec=spec)
    else:
        table = store.frame(sweep_keys(spec) if spec else None)
    for path, write in ((csv, write_csv), (parquet, write_parquet)):
        if path is not None:
            write(table, path)
            say(f"{len(table)} rows in {path}")


def _show_summary(lines: list[dict[str, Any]]) -> None:
    """One table for each problem and estimator, so that all of it fits in 80 columns."""
    for title, group in groupby(lines, key=_heading):
        shown = [
            {
                short: None if line.get(name) is None else format(line[name], style)
                for name, (short, style) in _SUMMARY.items()
            }
            for line in group
        ]
        columns = [short for short, _ in _SUMMARY.values()]
        for count in ("not conv.", "failed"):
            if all(line[count] == "0" for line in shown):
                columns.remove(count)
        if len({line["branch"] for line in shown}) == 1 and shown[0]["branch"]:
            columns.remove("branch")
            title += f", branch {shown[0]['branch']}"
        typer.echo()
        print_table(shown, columns, title, optional=_OPTIONAL)


def _heading(line: dict[str, Any]) -> str:
    noise = "" if line["noise"] == "none" else f"noise {line['noise']}"
    features = f"features {line['features']}" if line.get("features") else ""
    parts = [line["model"], f"k = {line['n_classes']}", line["prior"], noise, features]
    parts.append(line["estimator"])
    parts += [line["source"], f"{line['start']} start" if line.get("start") else ""]
    return ", ".join(part for part in parts if part)
