"""How much data at the shell: plan."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, emit
from polyceptron.cli.waiting import waiting
from polyceptron.errors import InvalidInput

NEEDED = ("estimator", "branch", "alpha", "alpha_uncertainty", "ridge", "n_samples", "status")
REACHED = (
    "estimator", "branch", "ridge", "generalisation_error", "uncertainty", "clean_error", "status",
)  # fmt: skip


def plan(
    error: Annotated[float | None, typer.Option(help="The generalisation error to reach.")] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-n", help="Instead: the error that n samples give.")
    ] = None,
    dimension: Annotated[
        int | None, typer.Option("--dimension", "-d", help="d, to turn α into n = αd.")
    ] = None,
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.Estimators = [],  # noqa: B006  # typer copies it
    ridge: options.OneRidge = "optimal",
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """How much data reaches a given error, per estimator; or which error given data reach.

    Where the best error jumps over the target, the α at which it is possible (branch optimal) and
    the α at which message passing gets there (branch amp) both have a row.

    Examples: polyceptron plan --classes 3 --error 0.1 --dimension 1000

    polyceptron plan --classes 3 --samples 5000 --dimension 1000
    """
    from polyceptron.model import takes_ridge

    check_outputs(csv)
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    given = estimator or list(options.registered_names()["estimators"])
    specs = [
        options.build_estimator(name, ridge if estimator or takes_ridge(name) else "0")
        for name in given
    ]
    problem = options.describe_teacher(teacher)
    if error is not None and samples is not None:
        raise InvalidInput("give either --error, or --samples with --dimension, not both")
    if error is None:
        if samples is None:
            raise InvalidInput("--error is missing: which error is to be reached?")
        if dimension is None:
            raise InvalidInput("--samples needs --dimension: alpha is n/d")
        rows = _errors(teacher, specs, samples, dimension)
        title = (
            f"{problem}, n = {samples}, d = {dimension}: the error at α = {samples / dimension:g}"
        )
        emit(rows, REACHED, optional=("clean_error",), as_json=as_json, csv=csv, title=title)
        return
    rows = _needs(teacher, specs, error, dimension)
    title = f"{problem}: the data for an error of {error:g}"
    title += "" if dimension is None else f", d = {dimension}"
    emit(rows, NEEDED, optional=("status",), as_json=as_json, csv=csv, title=title)


def _needs(
    teacher: Any, specs: list[Any], error: float, dimension: int | None
) -> list[dict[str, Any]]:
    """One row for each estimator, at the smallest α that reaches the error."""
    from polyceptron.theory.planner import check_target
    from polyceptron.theory.planner import plan as find

    check_target(error, teacher.n_classes)
    rows: list[dict[str, Any]] = []
    missed: list[InvalidInput] = []
    with waiting("planning") as show:
        for spec in specs:
            show(f"planning with {spec.name}")
            try:
                found = find(teacher, error, spec, dimension)
            except InvalidInput as reason:
                missed.append(reason)
                rows.append({"estimator": spec.name, "status": "out of reach"})
                continue
            answers = [found]
            if found.algorithm is not None and found.algorithm.alpha != found.alpha:
                answers.append(found.algorithm)
            rows += [
                {**one.row, "alpha_uncertainty": one.alpha_uncertainty, "at_jump": one.at_jump}
                for one in answers
            ]
    if len(missed) == len(specs):
        raise missed[0]
    return rows


def _errors(teacher: Any, specs: list[Any], samples: int, dimension: int) -> list[dict[str, Any]]:
    """One row for each estimator at α = n/d; both branches of the Bayes-optimal one."""
    from polyceptron.model.checks import check_size
    from polyceptron.theory import curve_rows

    n, d = check_size(samples, "samples"), check_size(dimension, "dimension")
    rows: list[dict[str, Any]] = []
    with waiting("computing") as show:
        for spec in specs:
            show(f"computing {spec.name} at α = {n / d:g}")
            found = curve_rows(teacher, spec, [n / d])
            if any(row.get("branch") for row in found):
                reached = curve_rows(teacher, spec, [n / d], branch="amp")
                found += [row for row in reached if row["q"] != found[0]["q"]]
            rows += [{**row, "dimension": d, "n_samples": n} for row in found]
    return rows
