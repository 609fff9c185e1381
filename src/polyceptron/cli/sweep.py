"""Experiments at the shell: sweep, merge."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyceptron.cli.printing import echo, print_table, say
from polyceptron.cli.waiting import waiting

if TYPE_CHECKING:
    from polyceptron.experiments import SweepPlan, SweepReport, SweepSpec


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
        with waiting("planning"):
            plan = _plan(loaded, store)
        _show_plan(plan, workers)
        return
    try:
        report = run_sweep(loaded, store, workers=workers, cluster=cluster, progress=True)
    except SweepStopped as stopped:
        done = stopped.report
        say(f"stopped: {done.already + done.computed - done.failed} of {done.rows} rows are stored")
        say(f"resume with: {_command(spec, store, workers, cluster)}")
        raise typer.Exit(128 + stopped.signal_number) from None
    _show_report(report, store)
    if report.failed:
        raise typer.Exit(1)


def merge(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE", help="Stores to copy from.")],
    into: Annotated[Path, typer.Option(help="The store to copy into, made if missing.")],
) -> None:
    """Put the results of several stores into one.

    Example: polyceptron merge laptop.sqlite cluster.sqlite --into all.sqlite
    """
    from polyceptron.experiments import merge_stores

    with waiting(f"merging into {into}"):
        report = merge_stores(into, sources)
    differing = (
        f", {report.differing} of them with other numbers (kept)" if report.differing else ""
    )
    say(f"{report.added} rows added to {into}, {report.already} were there already{differing}")
    if report.damaged:
        say(f"not copied, as changed after being written: {named(report.damaged, 'row')}")
        raise typer.Exit(1)


def named(keys: Sequence[str], what: str) -> str:
    """'3 rows (a, b, c)', not more than five of them."""
    shown = ", ".join(keys[:5]) + (", ..." if len(keys) > 5 else "")
    return f"{len(keys)} {what}{'s' if len(keys) > 1 else ''} ({shown})"


def _plan(spec: SweepSpec, store: Path) -> SweepPlan:
    from polyceptron.experiments import Store, make_plan
    from polyceptron.files import check_writable

    check_writable(store)
    if not store.exists():
        return make_plan(spec)
    with Store(store) as opened:
        return make_plan(spec, opened)


def _show_plan(plan: SweepPlan, workers: int | None) -> None:
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
    print_table(parts, columns, "the grid", optional=("stored", "dimension"))
    count = workers or available_workers()
    echo(
        f"{plan.rows} rows, {plan.stored} stored, {plan.to_do} to compute in "
        f"{plan.tasks_to_do} tasks: about {describe_seconds(plan.seconds)} on one core, "
        f"{describe_seconds(plan.seconds / count)} on {count}; largest instance "
        f"{plan.largest_bytes / 1e6:.3g} MB"
    )


def _show_report(report: SweepReport, store: Path) -> None:
    from polyceptron.experiments.cost import describe_seconds

    say(
        f"{report.rows} rows: {report.already} were stored, {report.computed - report.failed} "
        f"computed in {describe_seconds(report.seconds)}, {report.failed} failed"
    )
    if report.damaged:
        say(
            f"computed again, as changed after being written: {named(report.damaged, 'stored row')}"
        )
    if report.failed:
        say(f"reasons: polyceptron results {shlex.quote(str(store))} --failures")
        say("the same command tries the failed rows again")


def _command(spec: Path, store: Path, workers: int | None, cluster: str | None) -> str:
    parts = ["polyceptron", "sweep", str(spec), "--store", str(store)]
    parts += ["--workers", str(workers)] if workers else []
    parts += ["--cluster", cluster] if cluster else []
    return shlex.join(parts)
