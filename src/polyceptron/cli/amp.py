"""Message passing at the shell: amp."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli.common import check_outputs, emit, working
from polyceptron.errors import InvalidInput
from polyceptron.files import write_atomically
from polyceptron.ranges import parse_numbers

# What fits a terminal of 80 columns; JSON and CSV have everything.
COLUMNS = ("source", "alpha", "m", "q", "generalisation_error", "uncertainty", "status")
TRACE_COLUMNS = (
    "iteration", "m", "q", "theory_q", "generalisation_error", "theory_generalisation_error",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add this module's commands."""

    @app.command()
    def amp(
        classes: Annotated[int, typer.Option("--classes", "-k", help="Number of classes k.")] = 3,
        prior: Annotated[
            str, typer.Option(help="gaussian, rademacher or finite[value:probability;...].")
        ] = "gaussian",
        alpha: Annotated[
            str,
            typer.Option("--alpha", "-a", help="n/d: 1.5, a list 1,2 or a range start:stop:count."),
        ] = "1.5",
        dimension: Annotated[
            int, typer.Option("--dimension", "-d", help="Dimension d of the inputs.")
        ] = 1000,
        runs: Annotated[int, typer.Option(help="Independent instances for each alpha.")] = 1,
        seed: Annotated[int, typer.Option(help="Every instance follows from it.")] = 0,
        model: Annotated[str, typer.Option(help="argmax or perceptron.")] = "argmax",
        variances: Annotated[str, typer.Option(help="shared (fast) or full (Algorithm 1).")] = (
            "shared"
        ),
        start: Annotated[str, typer.Option(help="uninformed or informed.")] = "uninformed",
        precision: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
        tol: Annotated[float, typer.Option(help="Converged when a step changes less.")] = 1e-8,
        max_iter: Annotated[int, typer.Option(help="Most iterations.")] = 200,
        trace: Annotated[
            bool, typer.Option("--trace", help="Overlaps by iteration, beside state evolution.")
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON.")] = False,
        csv: Annotated[Path | None, typer.Option(help="Write the rows to this CSV file.")] = None,
    ) -> None:
        """Run Bayes-optimal message passing on instances of a teacher, beside the theory.

        Prints a row for each instance (source amp), a summary with the mean and its standard error
        (source amp-summary) and the theory's prediction for infinite dimension (source theory).
        With --trace, one row for each iteration instead: the mean over the runs, and what state
        evolution predicts for that iteration.
        """
        from polyceptron.experiments.amp_report import amp_rows, trace_rows
        from polyceptron.model import make_teacher

        teacher = make_teacher(model, classes, prior)
        alphas = parse_numbers(alpha, "--alpha")
        check_outputs(csv)
        if trace and len(alphas) != 1:
            raise InvalidInput(f"--trace takes one alpha, got {len(alphas)}")
        settings: dict[str, Any] = {
            "runs": runs, "seed": seed, "start": start, "variances": variances, "tol": tol,
            "max_iter": max_iter, "dtype": precision,
        }  # fmt: skip
        with working("message passing"):
            if trace:
                rows = trace_rows(teacher, alphas[0], dimension, **settings)
            else:
                rows = [
                    row
                    for value in alphas
                    for row in amp_rows(teacher, value, dimension, **settings)
                ]
        if not trace:
            emit(rows, COLUMNS, as_json=as_json, csv=csv)
            return
        if csv is not None:
            write_trace(csv, rows)
        if as_json or csv is None:
            emit(rows, TRACE_COLUMNS, as_json=as_json)


def write_trace(path: Path, rows: list[dict[str, Any]]) -> None:
    """The trace has columns of its own (iteration, theory_q, ...), so all of them are written."""
    import pandas as pd

    write_atomically(path, lambda part: pd.DataFrame(rows).to_csv(part, index=False))
