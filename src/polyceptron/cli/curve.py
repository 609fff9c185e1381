"""Learning curves at the shell: curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, emit, say
from polyceptron.cli.waiting import waiting
from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers

COLUMNS = (
    "estimator", "ridge", "alpha", "branch", "q", "generalisation_error", "uncertainty",
    "clean_error", "training_error", "training_loss", "test_loss", "brier", "calibration_error",
    "free_entropy", "status",
)  # fmt: skip
# Left out in this order where a terminal has no room.
OPTIONAL = (
    "free_entropy", "training_loss", "training_error", "q", "clean_error", "status", "brier",
)  # fmt: skip


def curve(
    alpha: options.Alpha,
    classes: options.Classes = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.Estimators = ["bayes"],  # noqa: B006  # typer copies it
    ridge: Annotated[
        list[str],
        typer.Option("--ridge", help="A number, a list, 0, or optimal (the default); repeatable."),
    ] = [],  # noqa: B006
    branch: Annotated[
        str, typer.Option(help="Bayes-optimal branch: optimal, amp, informed, unstable, all.")
    ] = "optimal",
    scores: Annotated[
        bool, typer.Option("--scores", help="Test loss, Brier score, calibration error.")
    ] = False,
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw to a .pdf, .png or .svg file.")
    ] = None,
) -> None:
    """Learning curve: the exact error of one or several estimators against α = n/d.

    Example: polyceptron curve -k 3 -a 0.5:5:10 -e bayes -e cross-entropy
    """
    teacher = options.build_teacher(model, classes, prior, noise, features)
    alphas = parse_numbers(alpha, "--alpha")
    check_outputs(csv)
    if plot is not None:
        from polyceptron.report.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    estimators = options.build_estimators(estimator, ridge)

    from polyceptron.theory import curve_rows

    rows = []
    with waiting("computing") as show:
        for one in estimators:
            show(f"computing {one.name} at {len(alphas)} value{'s' * (len(alphas) > 1)} of α")
            rows += curve_rows(teacher, one, alphas, branch=branch, tol=tol, scores=scores)
    if not rows:
        raise InvalidInput(f"there is no {branch} branch at any of these alpha")
    # What is the same in every row goes to the title, so that numbers keep their digits.
    shared = [c for c in ("estimator", "branch") if len({row.get(c) for row in rows}) == 1]
    title = ", ".join(
        [options.describe_teacher(teacher), *(str(rows[0][c]) for c in shared if rows[0].get(c))]
    )
    columns = [c for c in COLUMNS if c not in shared]
    emit(rows, columns, optional=OPTIONAL, as_json=as_json, csv=csv, title=title)
    if plot is not None:
        from polyceptron.report.learning_curves import LearningCurve
        from polyceptron.rows import frame

        LearningCurve(frame(rows)).save(plot)
        say(f"drawn in {plot}")
