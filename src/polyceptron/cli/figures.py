"""All figures at the shell: figures."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def figures(
    out: Path = typer.Option(
        Path("figures"), "--out", help="Folder for the figures; made if missing."
    ),
    only: list[str] = typer.Option([], "--only", help="A figure's name; repeatable. Default: all."),
    profile: str = typer.Option("quick", "--profile", help="quick (minutes) or paper (hours)."),
    workers: int | None = typer.Option(None, "--workers", min=1, help="Default: all processors."),
) -> None:
    """Compute and draw every figure, with the table and the specification behind each.

    A stopped run resumes: what is done is kept in OUT/store.sqlite and OUT/computed (delete both to
    start afresh). OUT/agreement.csv has the z of every symbol against its line.
    """
    from polyceptron.experiments.cost import describe_seconds
    from polyceptron.experiments.engine import available_workers
    from polyceptron.report.figures import (
        choose_figures,
        make_figures,
        read_agreement,
        verdict,
        work_ahead,
    )
    from polyceptron.report.figures.making import STORE, make_folder

    chosen = choose_figures(only)
    work = work_ahead(chosen, profile, make_folder(out) / STORE)
    count = workers or available_workers()
    sys.stderr.write(
        f"{len(chosen)} figures, profile {profile}: {work.rows} rows and {work.computations} other "
        f"computations, about {describe_seconds(work.seconds / count)} on {count} cores"
        + (f" ({work.stored} are there from an earlier run)\n" if work.stored else "\n")
    )
    try:
        written = make_figures(out, only, profile, workers=workers, progress=True)
    except KeyboardInterrupt as stop:
        sys.stderr.write("stopped: the same command goes on from here\n")
        raise typer.Exit(128 + getattr(stop, "signal_number", 2)) from None
    sys.stderr.write(f"{verdict(read_agreement(out))}\n")
    sys.stderr.write(f"{len(written)} files in {out}; open {out / 'index.html'}\n")
