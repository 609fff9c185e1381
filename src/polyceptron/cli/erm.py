"""Empirical risk minimisation: ridge, asymptotics, plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from polyceptron.cli.common import check_outputs, emit, print_table, working
from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers
from polyceptron.rows import json_ready


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command()(ridge)
    app.command()(asymptotics)
    app.command()(plan)


def ridge(
    classes: int = typer.Option(3, "--classes", "-k", help="Number of classes."),
    prior: str = typer.Option("gaussian", help="Prior of the teacher's weights."),
    model: str = typer.Option("argmax", help="argmax or perceptron."),
    estimator: str = typer.Option(
        "cross-entropy", "--estimator", "-e", help="cross-entropy or square."
    ),
    alpha: str = typer.Option(
        ..., "--alpha", "-a", help="n/d: numbers 2,5,10 or a range start:stop:count."
    ),
    ridges: str = typer.Option("1e-4:10:40", "--ridge", help="λ: numbers or a range (log-spaced)."),
    tol: float | None = typer.Option(None, help="Tolerance on the error."),
    as_json: bool = typer.Option(False, "--json", help="Print rows as JSON."),
    csv: Path | None = typer.Option(None, help="Write rows to a CSV file."),
    plot: Path | None = typer.Option(None, help="Draw the curves (pdf, png, svg)."),
) -> None:
    """Error against the ridge, with the optimum of each α marked."""
    from polyceptron.model import make_teacher
    from polyceptron.theory.erm import ridge_rows

    check_outputs(csv)
    if plot is not None:
        from polyceptron.report.pictures.matplotlib_figure import check_figure_path

        check_figure_path(plot)
    teacher = make_teacher(model, classes, prior)
    alphas = parse_numbers(alpha, "--alpha")
    values = parse_numbers(ridges, "--ridge", log=True)
    with working("solving"):
        rows = ridge_rows(teacher, estimator, alphas, values, tol)
    if plot is not None:
        _plot_ridges(rows, plot)
    if not as_json and csv is None:
        shown = [{**row, "best": "*" if row["is_best"] else ""} for row in rows]
        print_table(
            shown, ("alpha", "ridge", "generalisation_error", "uncertainty", "best", "status")
        )
    else:
        emit(rows, (), as_json=as_json, csv=csv)


def asymptotics(
    classes: int = typer.Option(3, "--classes", "-k", help="Number of classes."),
    prior: str = typer.Option("gaussian", help="Prior of the teacher's weights."),
    model: str = typer.Option("argmax", help="argmax or perceptron."),
    estimator: str = typer.Option(
        "cross-entropy", "--estimator", "-e", help="bayes, cross-entropy, square or max-margin."
    ),
    ridges: str = typer.Option("0", "--ridge", help="λ, 0, or optimal."),
    alpha_max: float | None = typer.Option(None, help="Largest α (1e6 for k <= 3, else 1e4)."),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """The decay of the error at large α: exponent and constant, with uncertainties."""
    from polyceptron.model import make_estimator, make_teacher
    from polyceptron.theory.asymptotics import asymptotics as find

    teacher = make_teacher(model, classes, prior)
    chosen = make_estimator(estimator, _ridge(ridges))
    with working("solving at large alpha"):
        found = find(teacher, chosen, alpha_max)
    row: dict[str, Any] = {
        "model": teacher.model,
        "n_classes": teacher.n_classes,
        "prior": teacher.prior.name,
        "estimator": chosen.name,
        "ridge": getattr(chosen, "ridge", None),
        "exponent": found.exponent,
        "exponent_uncertainty": found.exponent_uncertainty,
        "constant": found.constant,
        "constant_uncertainty": found.constant_uncertainty,
        "exact_exponent": found.exact_exponent,
        "exact_constant": found.exact_constant,
        "alpha_max": float(found.alpha[-1]),
        "status": str(found.status),
    }
    if as_json:
        row["alpha"] = [float(x) for x in found.alpha]
        row["generalisation_error"] = [float(x) for x in found.generalisation_error]
        row["uncertainty"] = [float(x) for x in found.uncertainty]
        sys.stdout.write(json.dumps([json_ready(row)], indent=1) + "\n")
    else:
        print_table([row], tuple(row), "generalisation error ≈ constant · alpha^(−exponent)")


def plan(
    classes: int = typer.Option(3, "--classes", "-k", help="Number of classes."),
    error: float = typer.Option(..., help="Target generalisation error."),
    prior: str = typer.Option("gaussian", help="Prior of the teacher's weights."),
    model: str = typer.Option("argmax", help="argmax or perceptron."),
    estimator: list[str] = typer.Option(
        [],
        "--estimator",
        "-e",
        help="bayes, cross-entropy, square, max-margin; repeat for several (default: all).",
    ),
    ridges: str = typer.Option("optimal", "--ridge", help="λ, 0, or optimal."),
    dimension: int | None = typer.Option(None, "--dimension", "-d", help="d, to get n = αd too."),
    as_json: bool = typer.Option(False, "--json", help="Print rows as JSON."),
    csv: Path | None = typer.Option(None, help="Write rows to a CSV file."),
) -> None:
    """How much data reaches a given error, per estimator, and with which ridge."""
    from polyceptron.model import ERM, BayesOptimal, make_estimator, make_teacher
    from polyceptron.theory.planner import check_target
    from polyceptron.theory.planner import plan as find

    check_outputs(csv)
    teacher = make_teacher(model, classes, prior)
    check_target(error, teacher.n_classes)
    names = estimator or ["bayes", "cross-entropy", "square", "max-margin"]
    specs: list[BayesOptimal | ERM] = []
    for name in names:
        ridgeless = name in ("bayes", "max-margin", "max_margin")
        if ridgeless and estimator and ridges not in ("optimal", "0"):
            raise InvalidInput(f"{name} takes no ridge, got --ridge {ridges}")
        specs.append(make_estimator(name, 0.0 if ridgeless else _ridge(ridges)))
    rows = []
    for spec in specs:
        with working(f"planning with {spec.name}"):
            found = find(teacher, error, spec, dimension)
        row = dict(found.row)
        if spec.name in ("bayes", "max-margin"):
            row.pop("ridge", None)
        rows.append({**row, "alpha_uncertainty": found.alpha_uncertainty})
    if as_json or csv is not None:
        emit(rows, (), as_json=as_json, csv=csv)
    else:
        title = None if dimension is None else f"dimension {dimension}"
        columns = ("estimator", "alpha", "alpha_uncertainty", "ridge", "n_samples", "status")
        print_table(rows, columns, title)


def _ridge(text: str) -> float | str:
    if text == "optimal":
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(
            f"--ridge takes a number of 0 or more, or optimal, got {text!r}"
        ) from None


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
