"""The choice of the ridge at the shell: ridge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, emit
from polyceptron.cli.waiting import waiting
from polyceptron.ranges import parse_numbers

COLUMNS = (
    "alpha",
    "ridge",
    "best",
    "generalisation_error",
    "uncertainty",
    "clean_error",
    "test_loss",
    "calibration_error",
    "status",
)
OPTIONAL = ("clean_error", "test_loss", "calibration_error")


def ridge(
    alpha: options.Alpha,
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.OneLoss = "cross-entropy",
    ridges: Annotated[
        str, typer.Option("--ridge", help="λ: numbers or a range (log-spaced).")
    ] = "1e-4:10:40",
    target: Annotated[
        str, typer.Option(help="What the best ridge makes least: error, test-loss or calibration.")
    ] = "error",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves (pdf, png, svg).")] = None,
) -> None:
    """Error against the ridge, with the optimum of each α marked.

    The best ridge for the test loss or the calibration is another one: see --target.

    Example: polyceptron ridge --classes 3 --alpha 2,5
    """
    from polyceptron.theory.erm import ridge_rows

    check_outputs(csv)
    if plot is not None:
        from polyceptron.report.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    alphas = parse_numbers(alpha, "--alpha")
    values = parse_numbers(ridges, "--ridge", log=True)
    with waiting(f"solving at {len(values)} ridges and the best one"):
        rows = ridge_rows(teacher, estimator, alphas, values, tol, target=target)
    if plot is not None:
        from polyceptron.report.pictures.curves import ridge_picture
        from polyceptron.report.pictures.matplotlib_figure import render_matplotlib, save_figure
        from polyceptron.rows import frame

        save_figure(render_matplotlib(ridge_picture(frame(rows))), plot)
    shown = rows
    if not as_json and csv is None:
        shown = [{**row, "best": "*" if row["is_best"] else ""} for row in rows]
    title = f"{options.describe_teacher(teacher)}, {estimator}"
    emit(shown, COLUMNS, optional=OPTIONAL, as_json=as_json, csv=csv, title=title)
