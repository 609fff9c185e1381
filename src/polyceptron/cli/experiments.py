"""Experiments at the shell: sweep, results, merge."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from polyceptron.experiments import Plan, SweepReport, SweepSpec

_SHORT = {
    "source": "source", "model": "model", "n_classes": "k", "prior": "prior",
    "estimator": "estimator", "ridge": "ridge", "alpha": "alpha", "dimension": "d",
    "start": "start", "branch": "branch", "instances": "runs", "mean": "mean",
    "standard_error": "s.e.", "theory": "theory", "deviation": "z", "not_converged": "not conv.",
    "failed": "failed",
}  # fmt: skip
_PROBLEM = ("source", "model", "k", "prior", "estimator", "ridge", "d", "start", "branch")

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
                _show_summary(lines, f"{quantity} in {store}")
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


def _show_summary(lines: list[dict[str, Any]], title: str) -> None:
    """A table for 80 columns: what all lines share stands below it, counts of zero are left out."""
    from polyceptron.cli.common import print_table

    shown = [{short: line.get(name) for name, short in _SHORT.items()} for line in lines]
    for line in shown:
        for column, digits in (("s.e.", ".1e"), ("z", "+.1f")):
            line[column] = None if line[column] is None else format(line[column], digits)
    same: dict[str, Any] = {}
    for column in _SHORT.values():
        values = {line[column] for line in shown}
        if values <= {0} and column in ("not conv.", "failed"):
            same[column] = None
        elif len(values) == 1 and column in _PROBLEM:
            same[column] = values.pop()
    print_table(shown, [column for column in _SHORT.values() if column not in same], title)
    common = ", ".join(f"{name} {value}" for name, value in same.items() if value is not None)
    if common:
        typer.echo(f"the same everywhere: {common}")


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
