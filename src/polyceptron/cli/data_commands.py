"""Message passing at the shell: amp.

Certified fits to a user's files at the shell: fit.

A user's own data at the shell: data.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli import options as data_options
from polyceptron.cli.printing import check_outputs, emit, say, waiting
from polyceptron.errors import InvalidInput
from polyceptron.ranges import parse_numbers

COLUMNS = (
    "source", "alpha", "m", "q", "generalisation_error", "uncertainty", "clean_error", "status",
)  # fmt: skip
TRACE_COLUMNS = (
    "iteration", "m", "q", "theory_q", "generalisation_error", "theory_generalisation_error",
)  # fmt: skip


def amp(
    alpha: options.Alpha = "1.5",
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    dimension: Annotated[
        int, typer.Option("--dimension", "-d", help="Dimension d of the inputs.")
    ] = 1000,
    runs: Annotated[int, typer.Option(help="Independent instances for each alpha.")] = 1,
    seed: Annotated[int, typer.Option(help="Every instance follows from it.")] = 0,
    variances: Annotated[str, typer.Option(help="shared (fast) or full (Algorithm 1).")] = "shared",
    start: Annotated[str, typer.Option(help="uninformed or informed.")] = "uninformed",
    precision: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    tol: Annotated[float, typer.Option(help="Converged when a step changes less.")] = 1e-8,
    max_iter: Annotated[int, typer.Option(help="Most iterations.")] = 200,
    trace: Annotated[
        bool, typer.Option("--trace", help="Overlaps by iteration, beside state evolution.")
    ] = False,
    data: data_options.Data = None,
    labels: data_options.Labels = None,
    standardise: data_options.Standardise = False,
    checkpoint: data_options.CheckpointFile = None,
    cluster: data_options.Cluster = None,
    out: data_options.Out = Path("weights.npy"),
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Run Bayes-optimal message passing on instances of a teacher, beside the theory.

    Prints a row for each instance (source amp), a summary with the mean and its standard error
    (source amp-summary) and the theory's prediction for infinite dimension (source theory).
    With --trace, one row for each iteration instead: the mean over the runs, and what state
    evolution predicts for that iteration.

    With --data and --labels it runs on your samples instead, which may be larger than memory, and
    writes weights and a report.

    Example: polyceptron amp --classes 3 --alpha 1.5 --runs 5
    """
    from polyceptron.experiments.data_runs import amp_rows, trace_rows

    if data is not None or labels is not None:
        from polyceptron.experiments.data_runs import amp_of_files

        data_options.run_on_files(
            "message passing", amp_of_files, data, labels, out, as_json, cluster,
            standardise=standardise, prior=prior, noise=noise, model=model, features=features,
            n_classes=classes, variances=variances, tol=tol, max_iter=max_iter,
            checkpoint=checkpoint,
        )  # fmt: skip
        return
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    alphas = parse_numbers(alpha, "--alpha")
    check_outputs(csv)
    if trace and len(alphas) != 1:
        raise InvalidInput(f"--trace takes one alpha, got {len(alphas)}")
    settings: dict[str, Any] = {
        "runs": runs, "seed": seed, "start": start, "variances": variances, "tol": tol,
        "max_iter": max_iter, "dtype": precision,
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    with waiting("message passing") as show:
        for value in alphas:
            show(f"message passing in dimension {dimension} at α = {value:g}")
            found = (trace_rows if trace else amp_rows)(teacher, value, dimension, **settings)
            rows += found
    columns = TRACE_COLUMNS if trace else COLUMNS
    optional = ("m",) if trace else ("clean_error", "m", "alpha")
    title = f"{options.describe_teacher(teacher)}, d = {dimension}"
    emit(rows, columns, optional=optional, as_json=as_json, csv=csv, title=title)


def fit(
    data: data_options.Data = None,
    labels: data_options.Labels = None,
    estimator: options.OneLoss = "cross-entropy",
    ridge: Annotated[float, typer.Option(help="λ, 0 or more.")] = 0.1,
    standardise: data_options.Standardise = False,
    tol: Annotated[float, typer.Option(help="Relative distance to the minimiser.")] = 1e-8,
    checkpoint: data_options.CheckpointFile = None,
    cluster: data_options.Cluster = None,
    out: data_options.Out = Path("weights.npy"),
    as_json: options.Json = False,
) -> None:
    """Fit a loss with a ridge to samples in files, which may be larger than memory.

    Example: polyceptron fit --data X.npy --labels y.npy --ridge 1 --out weights.npy
    """
    from polyceptron.experiments.data_runs import fit_of_files

    data_options.run_on_files(
        estimator, fit_of_files, data, labels, out, as_json, cluster, standardise=standardise,
        loss=estimator, ridge=ridge, tol=tol, checkpoint=checkpoint,
    )  # fmt: skip


def data(
    table: Annotated[
        Path, typer.Argument(help="Samples: .csv, .tsv, .parquet, or .npz with X and y.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column of the labels (.npz: the array; default y).")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column to leave out; may be given again.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page with pictures, and its numbers as .json beside it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers and sentences.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the folds and the resampling.")] = 0,
) -> None:
    """One page about your own data: what they are, how well a linear rule does, what more would do.

    Example: polyceptron data table.csv --target label --html report.html
    """
    from polyceptron.report.data import (
        measure,
        read_samples,
        report_html,
        report_json,
        report_text,
    )

    beside = None if html is None else html.with_suffix(".json")
    check_outputs(html, beside)
    found = read_samples(table, target, drop or ())
    with waiting(f"reading {table.name}") as update:
        measured = measure(found, seed=seed, say=update)
    if html is not None and beside is not None:
        from polyceptron.files import write_text

        write_text(html, report_html(measured))
        write_text(beside, report_json(measured))
    sys.stdout.write(report_json(measured) if as_json else report_text(measured))
    if html is not None:
        say(f"page in {html}, numbers in {beside}")
