"""What `results` and `merge` print and write of a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from polyceptron.experiments import Store, SweepSpec

_SUMMARY = {  # columns of a table, and how they are shown
    "ridge": ("ridge", ".6g"), "alpha": ("alpha", ".6g"), "dimension": ("d", "d"),
    "branch": ("branch", "s"), "instances": ("runs", "d"), "mean": ("mean", ".6g"),
    "standard_error": ("s.e.", ".1e"), "theory": ("theory", ".6g"), "deviation": ("z", "+.1f"),
    "not_converged": ("not conv.", "d"), "failed": ("failed", "d"),
}  # fmt: skip


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
    from polyceptron.cli.common import emit
    from polyceptron.experiments.results import failures

    names = ("source", "estimator", "n_classes", "ridge", "alpha", "dimension", "seed")
    listed = failures(store)
    if listed or as_json:
        emit(listed, (*names, "reason"), as_json=as_json)
    else:
        say(f"no row failed in {store.path}")


def print_summary(store: Store, quantity: str, spec: SweepSpec | None, *, as_json: bool) -> None:
    """Means over instances with theory beside them."""
    from polyceptron.cli.common import emit
    from polyceptron.experiments.results import SUMMARY_COLUMNS, summary

    lines = summary(store, quantity=quantity, spec=spec)
    if as_json:
        emit(lines, SUMMARY_COLUMNS, as_json=True)
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


def named(keys: Sequence[str], what: str) -> str:
    """'3 rows (a, b, c)', not more than five of them."""
    shown = ", ".join(keys[:5]) + (", ..." if len(keys) > 5 else "")
    return f"{len(keys)} {what}{'s' if len(keys) > 1 else ''} ({shown})"


def _show_summary(lines: list[dict[str, Any]]) -> None:
    """One table for each problem and estimator, so that all of it fits in 80 columns."""
    from itertools import groupby

    from polyceptron.cli.common import print_table

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
        print_table(shown, columns, title)


def _heading(line: dict[str, Any]) -> str:
    parts = [line["model"], f"k = {line['n_classes']}", line["prior"], line["estimator"]]
    parts += [line["source"], f"{line['start']} start" if line.get("start") else ""]
    return ", ".join(part for part in parts if part)


def say(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(text + "\n")
