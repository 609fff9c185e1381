"""Plentiful data at the shell: asymptotics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.printing import check_outputs, echo, emit, print_json, print_table
from polyceptron.cli.waiting import waiting


def asymptotics(
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.OneEstimator = "cross-entropy",
    ridge: options.OneRidge = "0",
    alpha_max: Annotated[
        float | None, typer.Option(help="Largest α (1e6 for k <= 3, else 1e4).")
    ] = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """The decay of the error at large α: exponent and constant, with uncertainties.

    Example: polyceptron asymptotics --classes 3 --estimator bayes
    """
    from polyceptron.theory.asymptotics import asymptotics as find

    check_outputs(csv)
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    chosen = options.build_estimator(estimator, ridge)
    with waiting(f"solving for {chosen.name} at large α"):
        found = find(teacher, chosen, alpha_max)
    row: dict[str, Any] = {
        "model": teacher.model,
        "n_classes": teacher.n_classes,
        "prior": teacher.prior.name,
        "noise": teacher.noise.name,
        "features": teacher.features.name,
        "estimator": chosen.name,
        "ridge": getattr(chosen, "ridge", None),
        "exponent": found.exponent,
        "exponent_uncertainty": found.exponent_uncertainty,
        "constant": found.constant,
        "constant_uncertainty": found.constant_uncertainty,
        "exact_exponent": found.exact_exponent,
        "exact_constant": found.exact_constant,
        "floor": found.floor,
        "alpha_max": float(found.alpha[-1]),
        "status": str(found.status),
    }
    if as_json:
        curve = ("alpha", "generalisation_error", "uncertainty")
        print_json([row | {name: [float(x) for x in getattr(found, name)] for name in curve}])
    if csv is not None:
        emit([row], (), csv=csv)
    if as_json or csv is not None:
        return
    lines = [
        {
            "of": name,
            "measured": row[name],
            "uncertainty": row[f"{name}_uncertainty"],
            "exact": row[f"exact_{name}"],
        }
        for name in ("exponent", "constant")
    ]
    ridge_text = "" if row["ridge"] is None else f", ridge {row['ridge']}"
    title = f"{options.describe_teacher(teacher)}, {chosen.name}{ridge_text} ({found.status})"
    print_table(lines, ("of", "measured", "uncertainty", "exact"), title)
    floor = f"{found.floor:.6g} + " if found.floor > 0 else ""
    echo(f"error ≈ {floor}constant · α^(−exponent), measured up to α = {row['alpha_max']:g}")
