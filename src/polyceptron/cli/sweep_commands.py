"""Experiments at the shell: sweep, merge, results, plot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.options import option
from polyceptron.cli.printing import Output, echo, print_table, say
from polyceptron.display import describe_seconds, waiting
from polyceptron.files import check_outputs

if TYPE_CHECKING:
    from polyceptron.experiments.spec import SweepSpec


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The sweep: a TOML file.")],
    store: Annotated[Path, option("The store, made if missing; a run resumes there.")],
    workers: Annotated[
        int | None, option("Processes on this machine (default: all processors).")
    ] = None,
    cluster: Annotated[
        str | None, option("A Dask scheduler, tcp://host:port.", metavar="ADDRESS")
    ] = None,
    dry_run: Annotated[
        bool, option("Show the grid, its cost and what is stored; stop.", "--dry-run")
    ] = False,
) -> None:
    """Compute a grid of theory, message passing and ERM rows; run again to resume.

    Example: polyceptron sweep spec.toml --store runs.sqlite --workers 4
    """
    from polyceptron.experiments.spec import load_spec
    from polyceptron.experiments.sweep import SweepStopped, run_sweep

    check_outputs(store, inputs=[spec])
    loaded = load_spec(spec)
    if dry_run:
        _show_plan(loaded, store, workers)
        return
    try:
        report = run_sweep(loaded, store, workers=workers, cluster=cluster, progress=True)
    except SweepStopped as stopped:
        done = stopped.report
        say(f"stopped: {done.already + done.computed - done.failed} of {done.rows} rows are stored")
        command = ["polyceptron", "sweep", str(spec), "--store", str(store)]
        command += ["--workers", str(workers)] if workers else []
        command += ["--cluster", cluster] if cluster else []
        say(f"resume with: {shlex.join(command)}")
        raise typer.Exit(128 + stopped.signal_number) from None
    say(
        f"{report.rows} rows: {report.already} were stored, {report.computed - report.failed} "
        f"computed in {describe_seconds(report.seconds)}, {report.failed} failed"
    )
    if report.damaged:
        rows = named(report.damaged, "stored row")
        say(f"computed again, as changed after being written: {rows}")
    if report.failed:
        say(f"reasons: polyceptron results {shlex.quote(str(store))} --failures")
        say("the same command tries the failed rows again")
        raise typer.Exit(1)


def merge(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE", help="Stores to copy from.")],
    into: Annotated[Path, option("The store to copy into, made if missing.")],
) -> None:
    """Put the results of several stores into one.

    Example: polyceptron merge laptop.sqlite cluster.sqlite --into all.sqlite
    """
    from polyceptron.experiments.store import merge_stores

    with waiting(f"merging into {into}"):
        report = merge_stores(into, sources)
    other = f", {report.differing} of them with other numbers (kept)" if report.differing else ""
    say(f"{report.added} rows added to {into}, {report.already} were there already{other}")
    if report.damaged:
        say(f"not copied, as changed after being written: {named(report.damaged, 'row')}")
        raise typer.Exit(1)


def named(keys: Sequence[str], what: str) -> str:
    """'3 rows (a, b, c)', not more than five of them."""
    shown = ", ".join(keys[:5]) + (", ..." if len(keys) > 5 else "")
    return f"{len(keys)} {what}{'s' if len(keys) > 1 else ''} ({shown})"


def _show_plan(spec: SweepSpec, store: Path, workers: int | None) -> None:
    import joblib

    from polyceptron.experiments.store import Store
    from polyceptron.experiments.sweep import make_plan

    with waiting("planning"), Store(store) if store.exists() else nullcontext() as opened:
        plan = make_plan(spec, opened)
    columns = ("source", "estimator", "dimension", "rows", "stored", "to_do", "one_core")
    parts = []
    for place, (rows, stored, seconds) in plan.parts.items():
        work = rows, stored, rows - stored, describe_seconds(seconds)
        parts.append(dict(zip(columns, (*place, *work), strict=True)))
    print_table(parts, columns, "the grid", optional=("stored", "dimension"))
    count = workers or joblib.cpu_count()
    echo(
        f"{plan.rows} rows, {plan.stored} stored, {plan.to_do} to compute in "
        f"{plan.tasks_to_do} tasks: about {describe_seconds(plan.seconds)} on one core, "
        f"{describe_seconds(plan.seconds / count)} on {count}; largest instance "
        f"{plan.largest_bytes / 1e6:.3g} MB"
    )


_SUMMARY = {  # columns of a table, and how they are shown
    "ridge": ("ridge", ".6g"), "penalty": ("penalty", "s"), "alpha": ("alpha", ".6g"),
    "dimension": ("d", "d"), "instances": ("runs", "d"),
    "mean": ("mean", ".6g"), "standard_error": ("s.e.", ".1e"), "theory": ("theory", ".6g"),
    "deviation": ("z", "+.1f"), "not_converged": ("not conv.", "d"), "failed": ("failed", "d"),
}  # fmt: skip
_FAILED = ("source", "estimator", "n_classes", "noise", "ridge", "alpha", "dimension", "seed")


def results(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by sweep.")],
    csv: options.Csv = None,
    parquet: Annotated[Path | None, option("Write the rows to a Parquet file.")] = None,
    summary: Annotated[
        bool, option("Means over instances instead of rows (the default).", "--summary")
    ] = False,
    quantity: Annotated[
        str, option("Column to average: generalisation_error, m, q, ...")
    ] = "generalisation_error",
    spec: Annotated[Path | None, option("Only the rows of this sweep file.")] = None,
    failures: Annotated[
        bool, option("List the rows that failed, with their reasons.", "--failures")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """What a store holds: means with theory beside them, or every row in a file.

    Example: polyceptron results runs.sqlite --csv rows.csv
    """
    from polyceptron.experiments import results as found
    from polyceptron.experiments.spec import load_spec
    from polyceptron.experiments.store import BESIDE, Store
    from polyceptron.experiments.tasks import sweep_keys

    check_outputs(csv, parquet, inputs=[store, *(f"{store}{end}" for end in BESIDE), spec])
    sweep = load_spec(spec) if spec else None
    with Store(store) as opened, waiting(f"reading {store}"):
        damaged = opened.damaged()
        if failures:
            listed = found.failures(opened)
            if listed or as_json:
                hidden = ("seed", "noise", "n_classes")
                Output(as_json)(listed, _FAILED, optional=hidden, below="reason")
            else:
                say(f"no row failed in {opened.path}")
        elif csv is None and parquet is None:
            lines = found.summary(opened, quantity=quantity, spec=sweep)
            if as_json:
                Output(as_json)(lines)
            else:
                typer.echo(f"{quantity} in {store}: {len(opened)} rows")
                _show_summary(lines)
        else:
            keys = sweep_keys(sweep) if sweep else None
            table = opened.summary(quantity, sweep) if summary else opened.frame(keys)
            for path, write in ((csv, found.write_csv), (parquet, found.write_parquet)):
                if path is not None:
                    write(table, path)
                    say(f"{len(table)} rows in {path}")
    if damaged:
        say(
            f"left out, as changed after being written: {named(damaged, 'row')} of {store}; run "
            "the sweep again to compute what is missing, or merge the rest into a new store"
        )
        raise typer.Exit(1)


def _show_summary(lines: list[dict[str, Any]]) -> None:
    """One table for each problem and estimator, so that all of it fits in 80 columns."""
    for title, group in groupby(lines, key=options.describe_row):
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
        typer.echo()
        print_table(shown, columns, title, optional=("d", "ridge"))


def plot(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORE_OR_CSV", help="A sweep's store or a table in CSV; several together."
        ),
    ],
    out: Annotated[
        Path | None,
        option("A .pdf, .png or .svg file. Default: the first name, as .pdf here.", "--out", "-o"),
    ] = None,
    x: Annotated[str, option("Column across: alpha, ridge, n_classes, …")] = "alpha",
    y: Annotated[
        str, option("Column up: q, m, V, training_loss, free_entropy, …")
    ] = "generalisation_error",
    where: Annotated[
        list[str], option("Only such rows: ridge=1; repeatable.", metavar="COLUMN=VALUE")
    ] = [],
    log_x: Annotated[
        bool | None, option("Scale across. Default: as the values ask for.", "--log-x/--linear-x")
    ] = None,
    log_y: Annotated[bool, option("A logarithmic scale up.", "--log-y")] = False,
) -> None:
    """Draw any store or table: theory as lines, experiments as symbols with standard errors."""
    import pandas as pd

    from polyceptron.report.pictures import matplotlib_figure
    from polyceptron.report.pictures.curves import curves_picture, read_table, select_rows

    tables = [read_table(path).assign(table=i) for i, path in enumerate(sources)]
    table = select_rows(pd.concat(tables, ignore_index=True), where)
    target = Path(sources[0].stem + ".pdf") if out is None else out
    matplotlib_figure.check_figure_path(target)
    check_outputs(target, inputs=sources)
    picture = curves_picture(table, x, y, log_x=log_x, log_y=log_y)
    matplotlib_figure.save_figure(matplotlib_figure.render_matplotlib(picture), target)
    say(f"drawn in {target}")


COMMANDS = (sweep, results, merge, plot)
