"""The theory at the shell: curve, transitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from polyceptron.cli.common import check_outputs, emit, print_table, working
from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers

CURVE_COLUMNS = (
    "estimator",
    "ridge",
    "alpha",
    "branch",
    "q",
    "generalisation_error",
    "uncertainty",
    "training_error",
    "training_loss",
    "free_entropy",
    "status",
)

CLASSES = typer.Option(None, "--classes", "-k", help="Number of classes k, 2 or more.")
PRIOR = typer.Option(
    "gaussian", "--prior", help="gaussian, rademacher or 'finite[value:probability;...]'."
)
MODEL = typer.Option("argmax", "--model", help="argmax, or perceptron (one vector, two classes).")
JSON = typer.Option(False, "--json", help="Print rows as JSON.")
CSV = typer.Option(None, "--csv", help="Write rows to this CSV file.")


def build_teacher(model: str, classes: int | None, prior: str) -> Any:
    """The teacher that the options describe; the perceptron needs no --classes."""
    from polyceptron.model import make_teacher

    if classes is None:
        if model != "perceptron":
            raise InvalidInput("--classes is missing: how many classes, 2 or more?")
        classes = 2
    return make_teacher(model, classes, prior)


def build_estimators(names: list[str], ridges: list[str]) -> list[Any]:
    """Every estimator named, at every ridge given ("optimal" or a number; default optimal)."""
    from polyceptron.model import make_estimator

    values: list[float | str] = []
    for text in ridges:
        values += [text] if text == "optimal" else list(parse_numbers(text, "--ridge", log=True))
    estimators = []
    for name in names:
        if name in ("bayes", "max-margin", "max_margin"):
            if name != "bayes" and values and len(names) == 1:
                raise InvalidInput("max-margin takes no ridge: it is the limit of ridge 0")
            estimators.append(make_estimator(name))
        else:
            estimators += [make_estimator(name, ridge) for ridge in values or ["optimal"]]
    return estimators


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(curve)
    app.command()(transitions)


def curve(
    alpha: str = typer.Option(..., "--alpha", "-a", help="0.5,1,2 or start:stop:count[:log]."),
    classes: int | None = CLASSES,
    prior: str = PRIOR,
    model: str = MODEL,
    estimator: list[str] = typer.Option(
        ["bayes"], "--estimator", "-e", help="bayes, cross-entropy, square, max-margin; repeatable."
    ),
    ridge: list[str] = typer.Option(
        [], "--ridge", help="A number, a list, 0, or 'optimal' (the default); repeatable."
    ),
    branch: str = typer.Option(
        "optimal", "--branch", help="Bayes-optimal branch: optimal, amp, informed, unstable, all."
    ),
    tol: float | None = typer.Option(None, "--tol", help="Wanted uncertainty of the error."),
    as_json: bool = JSON,
    csv: Path | None = CSV,
    plot: Path | None = typer.Option(None, "--plot", help="Draw to a .pdf, .png or .svg file."),
) -> None:
    """Learning curve: the exact error of one or several estimators against α = n/d."""
    teacher = build_teacher(model, classes, prior)
    alphas = parse_numbers(alpha, "--alpha")
    check_outputs(csv)
    if plot is not None:
        from polyceptron.report.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    estimators = build_estimators(estimator, ridge)

    from polyceptron.theory import curve_rows

    with working("computing"):
        rows = [
            row
            for one in estimators
            for row in curve_rows(teacher, one, alphas, branch=branch, tol=tol)
        ]
    if not rows:
        raise InvalidInput(f"there is no {branch} branch at any of these alpha")
    # What is the same in every row goes to the title, so that numbers keep their digits.
    shared = [c for c in ("estimator", "branch") if len({row.get(c) for row in rows}) == 1]
    title = ", ".join(
        [teacher.model, f"k = {teacher.n_classes}", f"{teacher.prior.name} weights"]
        + [str(rows[0][c]) for c in shared if rows[0].get(c)]
    )
    hidden = {*shared, "q", "training_error", "training_loss", "free_entropy"}
    columns = [c for c in CURVE_COLUMNS if c not in (hidden if len(estimator) > 1 else shared)]
    emit(rows, columns, as_json=as_json, csv=csv, title=title)
    if plot is not None:
        from polyceptron.report.learning_curves import LearningCurve
        from polyceptron.rows import frame

        LearningCurve(frame(rows)).save(plot)
        typer.echo(f"drawn in {plot}", err=True)


def transitions(
    classes: int | None = CLASSES,
    prior: str = typer.Option("rademacher", "--prior", help="As in curve."),
    model: str = MODEL,
    tol: float | None = typer.Option(None, "--tol", help="Wanted uncertainty of both."),
    as_json: bool = JSON,
    csv: Path | None = CSV,
) -> None:
    """Phase transitions: where perfect learning becomes possible, and where it becomes easy."""
    teacher = build_teacher(model, classes, prior)
    check_outputs(csv)

    from polyceptron.theory import transitions as compute

    with working("computing"):
        found = compute(teacher, tol)
    if as_json:
        import json

        typer.echo(json.dumps([found.as_dict()], indent=1))
        return
    if csv is not None:
        import pandas as pd

        from polyceptron.files import write_atomically

        write_atomically(
            csv, lambda path: pd.DataFrame([found.as_dict()]).to_csv(path, index=False)
        )
        return
    if found.alpha_it is None or found.alpha_algo is None:
        typer.echo(f"none: with a {teacher.prior.name} prior the error decays smoothly")
        return
    rows = [
        {
            "transition": name,
            "alpha": value,
            "uncertainty": error,
            "meaning": meaning,
        }
        for name, value, error, meaning in (
            ("alpha_IT", found.alpha_it, found.alpha_it_uncertainty, "perfect learning possible"),
            (
                "alpha_algo",
                found.alpha_algo,
                found.alpha_algo_uncertainty,
                "and easy (AMP does it)",
            ),
        )
    ]
    title = (
        f"{teacher.model}, k = {teacher.n_classes}, {teacher.prior.name} weights ({found.status})"
    )
    print_table(rows, ("transition", "alpha", "uncertainty", "meaning"), title)
    typer.echo(f"hard phase: {found.alpha_it:.6g} < α < {found.alpha_algo:.6g}")
