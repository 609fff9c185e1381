"""Experiments at the shell: sweep, results, merge."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from polyceptron.experiments import Plan, SweepReport, SweepSpec

_SUMMARY = {  # columns of a table, and how they are shown
    "ridge": ("ridge", ".6g"), "alpha": ("alpha", ".6g"), "dimension": ("d", "d"),
    "branch": ("branch", "s"), "instances": ("runs", "d"), "mean": ("mean", ".6g"),
    "standard_error": ("s.e.", ".1e"), "theory": ("theory", ".6g"), "deviation": ("z", "+.1f"),
    "not_converged": ("not conv.", "d"), "failed": ("failed", "d"),
}  # fmt: skip

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="A store made by sweep.")]


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(sweep)
    app.command()(results)
    app.command()(merge)


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The sweep: a TOML file.")],
    store: Annotated[Path, typer.Option(help="The store, made if missing; a run resumes there.")],
    workers: Annotated[
        int | None, typer.Option(help="Processes on this machine (default: all processors).")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://host:port.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the grid, its cost and what is stored; stop.")
    ] = False,
) -> None:
    """Compute a grid of theory, message passing and ERM rows; run again to resume.

    Example: polyceptron sweep spec.toml --store runs.sqlite --workers 4
    """
    from polyceptron.experiments import SweepStopped, load_spec, run_sweep

    loaded = load_spec(spec)
    if dry_run:
        _show_plan(_plan(loaded, store), workers)
        return
    try:
        report = run_sweep(loaded, store, workers=workers, cluster=cluster, progress=True)
    except SweepStopped as stopped:
        done = stopped.report
        _say(
            f"stopped: {done.already + done.computed - done.failed} of {done.rows} rows are stored"
        )
        _say(f"resume with: {_command(spec, store, workers, cluster)}")
        raise typer.Exit(128 + stopped.signal_number) from None
    _show_report(report, store)
    if report.failed:
        raise typer.Exit(1)


def results(
    store: StoreArgument,
    csv: Annotated[Path | None, typer.Option(help="Write the rows to a CSV file.")] = None,
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What a store holds: means with theory beside them, or every row in a file.

    Example: polyceptron results runs.sqlite --csv rows.csv
    """
    from polyceptron.cli.common import check_outputs, emit
    from polyceptron.experiments import Store, load_spec, results_frame
    from polyceptron.experiments import summary as summarise
    from polyceptron.experiments.results import (
        SUMMARY_COLUMNS,
        check_parquet,
        write_csv,
        write_parquet,
    )
    from polyceptron.experiments.results import failures as list_failures

    check_outputs(csv, parquet)
    if parquet is not None:
        check_parquet()
    loaded = load_spec(spec) if spec else None
    with Store(store) as opened:
        if failures:
            names = ("source", "estimator", "n_classes", "ridge", "alpha", "dimension", "seed")
            listed = list_failures(opened)
            if listed or json:
                emit(listed, (*names, "reason"), as_json=json)
            else:
                _say(f"no row failed in {store}")
            return
        lines = summarise(opened, quantity=quantity, spec=loaded)
        if csv is None and parquet is None:
            if json:
                emit(lines, SUMMARY_COLUMNS, as_json=True)
            else:
                typer.echo(f"{quantity} in {store}: {len(opened)} rows")
                _show_summary(lines)
            return
        if summary:
            import pandas as pd

            table = pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))
        else:
            table = results_frame(opened, loaded)
    if csv is not None:
        write_csv(table, csv)
        _say(f"{len(table)} rows in {csv}")
    if parquet is not None:
        write_parquet(table, parquet)
        _say(f"{len(table)} rows in {parquet}")


def merge(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE...", help="Stores to copy from.")],
    into: Annotated[Path, typer.Option(help="The store to copy into, made if missing.")],
) -> None:
    """Put the results of several stores into one.

    Example: polyceptron merge laptop.sqlite cluster.sqlite --into all.sqlite
    """
    from polyceptron.experiments import merge_stores

    report = merge_stores(into, sources)
    differing = (
        f", {report.differing} of them with other numbers (kept)" if report.differing else ""
    )
    _say(f"{report.added} rows added to {into}, {report.already} were there already{differing}")


def _plan(spec: SweepSpec, store: Path) -> Plan:
    from polyceptron.experiments import Store, make_plan

    if not store.exists():
        return make_plan(spec)
    with Store(store) as opened:
        return make_plan(spec, opened)


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


def _show_plan(plan: Plan, workers: int | None) -> None:
    from polyceptron.cli.common import print_table
    from polyceptron.experiments.cost import describe_seconds
    from polyceptron.experiments.engine import available_workers

    parts = [
        {
            "source": source,
            "estimator": estimator,
            "dimension": dimension,
            "rows": part.rows,
            "stored": part.stored,
            "to_do": part.rows - part.stored,
            "one_core": describe_seconds(part.seconds),
        }
        for (source, estimator, dimension), part in plan.parts.items()
    ]
    columns = ("source", "estimator", "dimension", "rows", "stored", "to_do", "one_core")
    print_table(parts, columns, "the grid")
    count = workers or available_workers()
    typer.echo(
        f"{plan.rows} rows, {plan.stored} stored, {plan.to_do} to compute in "
        f"{plan.tasks_to_do} tasks: about {describe_seconds(plan.seconds)} on one core, "
        f"{describe_seconds(plan.seconds / count)} on {count}; largest instance "
        f"{plan.largest_bytes / 1e6:.3g} MB"
    )


def _show_report(report: SweepReport, store: Path) -> None:
    from polyceptron.experiments.cost import describe_seconds

    _say(
        f"{report.rows} rows: {report.already} were stored, {report.computed - report.failed} "
        f"computed in {describe_seconds(report.seconds)}, {report.failed} failed"
    )
    if report.failed:
        _say(f"reasons: polyceptron results {shlex.quote(str(store))} --failures")
        _say("the same command tries the failed rows again")


def _command(spec: Path, store: Path, workers: int | None, cluster: str | None) -> str:
    parts = ["polyceptron", "sweep", str(spec), "--store", str(store)]
    parts += ["--workers", str(workers)] if workers else []
    parts += ["--cluster", cluster] if cluster else []
    return shlex.join(parts)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
