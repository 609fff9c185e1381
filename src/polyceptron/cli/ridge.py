"""The choice of the ridge at the shell: ridge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, emit
from polyceptron.cli.waiting import waiting
from polyceptron.ranges import parse_numbers

COLUMNS = ("alpha", "ridge", "best", "generalisation_error", "uncertainty", "clean_error", "status")


def ridge(
    alpha: options.Alpha,
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    estimator: options.OneLoss = "cross-entropy",
    ridges: Annotated[
        str, typer.Option("--ridge", help="λ: numbers or a range (log-spaced).")
    ] = "1e-4:10:40",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves (pdf, png, svg).")] = None,
) -> None:
    """Error against the ridge, with the optimum of each α marked.

    Example: polyceptron ridge --classes 3 --alpha 2,5
    """
    from polyceptron.theory.erm import ridge_rows

    check_outputs(csv)
    if plot is not None:
        from polyceptron.report.learning_curve import check_figure_path

        check_figure_path(plot)
    teacher = options.build_teacher(model, classes, prior, noise, default=3)
    alphas = parse_numbers(alpha, "--alpha")
    values = parse_numbers(ridges, "--ridge", log=True)
    with waiting(f"solving at {len(values)} ridges and the best one"):
        rows = ridge_rows(teacher, estimator, alphas, values, tol)
    if plot is not None:
        _plot_ridges(rows, plot)
    shown = rows
    if not as_json and csv is None:
        shown = [{**row, "best": "*" if row["is_best"] else ""} for row in rows]
    title = f"{options.describe_teacher(teacher)}, {estimator}"
    emit(shown, COLUMNS, optional=("clean_error",), as_json=as_json, csv=csv, title=title)


def _plot_ridges(rows: list[dict[str, Any]], path: Path) -> None:
    """Curves ε(λ), one for each α, the optimum as a point."""
    from matplotlib.figure import Figure

    from polyceptron.files import write_atomically

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.add_subplot()
    for value in dict.fromkeys(row["alpha"] for row in rows):
        line = sorted(
            (row["ridge"], row["generalisation_error"]) for row in rows if row["alpha"] == value
        )
        (drawn,) = axes.plot(*zip(*line, strict=True), label=f"α = {value:g}")
        best = next(row for row in rows if row["alpha"] == value and row["is_best"])
        axes.plot(best["ridge"], best["generalisation_error"], "o", color=drawn.get_color())
    axes.set(xscale="log", xlabel="ridge λ", ylabel="generalisation error")
    axes.legend(frameon=False)
    write_atomically(path, lambda temporary: figure.savefig(temporary))
