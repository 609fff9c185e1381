"""The package's promises, checked, at the shell: verify."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import typer

from polyceptron.cli import options
from polyceptron.cli.waiting import waiting

if TYPE_CHECKING:
    from polyceptron.report.verify import Check


def verify(
    full: bool = typer.Option(False, "--full", help="More classes, dimensions, runs: minutes."),
    as_json: options.Json = False,
) -> None:
    """Check the package's promises on this machine; exit code 1 if anything is off.

    Published values, closed forms, identities, matrix equations, message passing, scikit-learn
    fits and stated error bars, each with what is allowed. Under two minutes on two cores.
    """
    from polyceptron.report.verify import GROUPS
    from polyceptron.report.verify import verify as run

    begin = time.perf_counter()
    names = list(GROUPS)
    with waiting("checking") as show:
        checks = run(
            full, lambda name: show(f"checking {name} ({names.index(name) + 1} of {len(names)})")
        )
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
    """Two lines a check: its name and verdict, then the two numbers and what is allowed."""
    from polyceptron.cli.printing import print_json

    if as_json:
        print_json(check.as_row() for check in checks)
        return
    for check in checks:
        typer.secho(f"{check.verdict:4}{check.check}", bold=check.verdict != "ok")
        difference, allowed = (f"{abs(x):.0e}" for x in (check.difference, check.allowed))
        sign = "≤" if check.verdict == "ok" else ">"
        typer.echo(
            f"    {check.ours:.7g} against {check.reference:.7g}, {check.source}: "
            f"{difference} {sign} {allowed}"
        )


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
