"""Trust at the shell: verify."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from polyceptron.report.verify import Check


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(verify)


def verify(
    full: bool = typer.Option(False, "--full", help="More classes, dimensions, runs: minutes."),
    as_json: bool = typer.Option(False, "--json", help="Print rows as JSON."),
) -> None:
    """Check the package's promises on this machine; exit code 1 if anything is off.

    Published values, closed forms, identities, matrix equations, message passing, scikit-learn
    fits and stated error bars, each with what is allowed. Under two minutes on two cores.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from polyceptron.report.verify import GROUPS
    from polyceptron.report.verify import verify as run

    begin = time.perf_counter()
    console = Console(stderr=True)
    bar = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn())
    with Progress(*bar, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=len(GROUPS), completed=-1)
        checks = run(full, lambda name: shown.update(task, advance=1, description=name))
    off = [check for check in checks if check.verdict != "ok"]
    _show(checks, as_json)
    seconds = time.perf_counter() - begin
    sys.stderr.write(
        f"{len(checks)} checks, {len(off)} off, {seconds:.0f} s ({_machine()})\n"
        + "".join(f"off: {check.check}: {check.note or check.source}\n" for check in off)
    )
    if off:
        raise typer.Exit(1)


def _show(checks: list[Check], as_json: bool) -> None:
    import json

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from polyceptron.cli.common import format_value
    from polyceptron.report.verify.check import COLUMNS
    from polyceptron.rows import json_ready

    rows = [check.as_row() for check in checks]
    if as_json:
        sys.stdout.write(json.dumps([json_ready(row) for row in rows], indent=1) + "\n")
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in COLUMNS:
        words = name in ("check", "source")
        table.add_column(name, justify="left" if words else "right", no_wrap=not words)
    for row in rows:
        cells = [format_value(row[name]) for name in COLUMNS[:4]]
        table.add_row(*cells, f"{row['difference']:.0e}", f"{row['allowed']:.0e}", row["verdict"])
    Console().print(table)


def _machine() -> str:
    """The versions that the numbers depend on."""
    import platform

    import numpy
    import scipy
    import sklearn

    from polyceptron.rows import VERSION

    return (
        f"polyceptron {VERSION}, python {platform.python_version()}, numpy {numpy.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
