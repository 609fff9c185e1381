"""Data at the shell: amp (drawn or a user's own), fit and data (a user's own)."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.inputs import read_population
from polyceptron.cli.options import ESTIMATOR, PROBLEM, RESULT, option, setting
from polyceptron.cli.output import Output
from polyceptron.cli.side_files import Overwrite, check_unnamed, choose_weights_file, report_beside
from polyceptron.cli.tables import describe_teacher
from polyceptron.display import visible
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs, write_together
from polyceptron.number_lists import parse_numbers
from polyceptron.progress import say, steps, waiting
from polyceptron.rows import Row, json_ready

COLUMNS = (
    "source",
    "alpha",
    "m",
    "q",
    "generalisation_error",
    "uncertainty",
    "generalisation_error_standard_error",
    "clean_error",
    "status",
)
TRACE_COLUMNS = (
    "iteration",
    "m",
    "q",
    "theory_q",
    "generalisation_error",
    "theory_generalisation_error",
)
REPORTED = ("n_samples", "dimension", "n_classes", "n_iter", "passes", "seconds", "status")

DATA = "Your own data"
ALGORITHM = "Algorithm"

Data = Annotated[
    Path | None,
    option(
        "File of the samples X (n, d): .npy, .npz (sparse), .zarr or .parquet.",
        metavar="FILE",
        panel=DATA,
    ),
]
Labels = Annotated[
    Path | None,
    option("File of the labels (n,), 0, 1, ... or names: .npy.", metavar="FILE", panel=DATA),
]
Standardise = Annotated[
    bool,
    option(
        "Centre each feature and scale it to variance 1 while reading.", "--standardise", panel=DATA
    ),
]
Missing = Annotated[
    str,
    option(
        "Treatment of missing values: refuse, fill (with the median or the most frequent value) or "
        "drop-rows.",
        metavar="NAME",
        panel=DATA,
    ),
]
Cluster = Annotated[
    str | None,
    option(
        "Dask scheduler whose workers read .zarr or .parquet, for example tcp://host:8786.",
        metavar="ADDRESS",
        panel=DATA,
    ),
]
Out = Annotated[
    Path | None,
    option(
        "File for the weights, an array (d, k) in .npy format. A report is written beside it, to a "
        "file ending in .report.json.",
        metavar="FILE",
        show_default="weights.npy",
        panel=RESULT,
    ),
]
CheckpointFile = Annotated[
    Path | None,
    option(
        "Save the state of the run to this file every minute. If the file exists, resume from it.",
        metavar="FILE",
        panel=RESULT,
    ),
]


def amp(
    alpha: options.Alpha = "1.5",
    classes: options.Classes = None,
    prior: options.Prior = None,
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    dimension: int = setting(
        1000, "Number of features d.", "--dimension", "-d", metavar="D", panel=PROBLEM
    ),
    runs: int = setting(
        1, "Number of independent data sets at each α.", metavar="N", panel=PROBLEM
    ),
    seed: int = setting(
        0,
        "Seed of the random numbers: the same seed draws the same data sets.",
        metavar="N",
        panel=PROBLEM,
    ),
    variances: str = setting(
        "shared",
        "Posterior variances: shared (one for all samples, which is fast) or full (one for each "
        "sample, as in Algorithm 1 of the paper).",
        "--amp-variances",
        metavar="NAME",
        panel=ALGORITHM,
    ),
    start: str = setting(
        "uninformed",
        "Starting point: uninformed (no knowledge of the teacher) or informed (the teacher's own "
        "weights).",
        metavar="NAME",
        panel=ALGORITHM,
    ),
    precision: str = setting(
        "float64",
        "Floating-point precision: float64, or float32, which halves the memory.",
        metavar="NAME",
        panel=ALGORITHM,
    ),
    tol: float = setting(
        1e-8,
        "Stop when an iteration changes the estimate by less than this.",
        metavar="NUMBER",
        panel=ALGORITHM,
    ),
    max_iter: int = setting(200, "Largest number of iterations.", metavar="N", panel=ALGORITHM),
    trace: bool = setting(
        False,
        "Print one row for each iteration: the mean over the runs, and the prediction of state "
        "evolution.",
        "--trace",
        panel=RESULT,
    ),
    data: Data = None,
    labels: Labels = None,
    standardise: Standardise = False,
    checkpoint: CheckpointFile = None,
    cluster: Cluster = None,
    out: Out = None,
    overwrite: Overwrite = False,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Run Bayes-optimal message passing on data that a teacher labels, and compare it with theory.

    The table has one row for each run (source amp), their mean with its standard error (source
    amp-summary), and the prediction of the theory for infinite d (source theory).

    With --data and --labels the algorithm runs on your own samples, which may be larger than
    memory. It then writes weights and a report.

    Examples: polyceptron amp --classes 3 --alpha 1.5 --runs 5

    polyceptron amp --data X.npy --labels y.npy --out weights.npy
    """
    from polyceptron.lab.data_runs import amp_rows, trace_rows
    from polyceptron.message_passing import posterior_mean

    settings: dict[str, Any] = {"variances": variances, "tol": tol, "max_iter": max_iter}
    if data is not None or labels is not None:
        chosen = choose_weights_file(out, overwrite)
        _run_on_files(
            "message passing",
            posterior_mean.amp,
            data,
            labels,
            chosen,
            as_json,
            cluster,
            standardise=standardise,
            prior=prior,
            noise=noise,
            model=model,
            features=features,
            n_classes=classes,
            checkpoint=checkpoint,
            **settings,
        )
        return
    teacher = read_population(classes, prior, model, noise, features)
    alphas = parse_numbers(alpha, "--alpha")
    check_outputs(csv, inputs=[features])
    if trace and len(alphas) != 1:
        raise InvalidInput(f"--trace takes one value of --alpha, got {len(alphas)}")
    settings |= {"runs": runs, "seed": seed, "start": start, "dtype": precision}
    rows: list[Row] = []
    with waiting("message passing") as show:
        for value in steps(alphas):
            show(f"message passing in dimension {dimension} at α = {value:g}")
            if trace:
                rows += trace_rows(teacher, value, dimension, **settings)
            else:
                rows += amp_rows(teacher, value, dimension, **settings)
    title = f"{describe_teacher(teacher)}, d = {dimension}"
    output = Output(as_json, csv)
    if trace:
        output(rows, TRACE_COLUMNS, optional=("m",), title=title)
    else:
        output(rows, COLUMNS, optional=("clean_error", "m", "alpha"), title=title)


def fit(
    data: Data = None,
    labels: Labels = None,
    estimator: options.OneLoss = "cross-entropy",
    ridge: str = setting(
        "0.1",
        "Ridge λ: a number such as 0.5, or auto to choose it on held-out samples.",
        metavar="NUMBER",
        panel=ESTIMATOR,
    ),
    target: str | None = setting(
        None,
        "Column of the labels, if --data is a table such as .csv. The other columns are encoded "
        "and standardised, and the fit has an intercept.",
        metavar="COLUMN",
        panel=DATA,
    ),
    missing: Missing = "refuse",
    standardise: Standardise = False,
    tol: float = setting(
        1e-8,
        "Stop when the weights are closer to the minimiser than this, relative to their norm.",
        metavar="NUMBER",
        panel=ESTIMATOR,
    ),
    checkpoint: CheckpointFile = None,
    cluster: Cluster = None,
    out: Out = None,
    overwrite: Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Fit a linear classifier with a ridge to your own samples, which may be larger than memory.

    Examples: polyceptron fit --data X.npy --labels y.npy --ridge 1 --out weights.npy

    polyceptron fit --data table.csv --target label --ridge auto
    """
    from polyceptron.fit.erm import fit_erm

    value = _read_ridge(ridge)
    weights_file = choose_weights_file(out, overwrite)
    is_table = data is not None and data.suffix in (".csv", ".tsv") and labels is None
    has_named_columns = is_table or target is not None
    if not has_named_columns and value != "auto":
        _run_on_files(
            estimator,
            fit_erm,
            data,
            labels,
            weights_file,
            as_json,
            cluster,
            ridge=value,
            checkpoint=checkpoint,
            standardise=standardise,
            loss=estimator,
            tol=tol,
        )
        return
    if cluster is not None or checkpoint is not None:
        raise InvalidInput("--cluster and --checkpoint need --labels and a number for --ridge")
    if data is None or (labels is None) != has_named_columns:
        raise InvalidInput("give --data with --labels, or a table as --data with --target")
    _check_weights_file(weights_file, data, labels)
    report = _fit_in_memory(
        data, labels, target, missing, loss=estimator, ridge=value, standardise=standardise, tol=tol
    )
    _keep_report(report, estimator, data, weights_file, as_json)


def _read_ridge(text: str) -> float | str:
    """Return the ridge of a fit: a number, or 'auto'."""
    if text == "auto":
        return text
    values = parse_numbers(text, "--ridge")
    if len(values) > 1:
        raise InvalidInput(f"--ridge takes auto or one number, got {text!r}")
    return values[0]


def _fit_in_memory(
    data: Path,
    labels: Path | None,
    target: str | None,
    missing: str,
    *,
    loss: str,
    ridge: float | str,
    standardise: bool,
    tol: float,
) -> dict[str, Any]:
    """Fit two files, or a table whose columns are encoded first, and return the report."""
    from polyceptron.data.labels import class_labels
    from polyceptron.data.stored_designs import open_design
    from polyceptron.lab.data_runs import chosen_fit, open_samples, read_labels
    from polyceptron.report.data.reading import read_samples

    with waiting(f"{loss}: fits of {data.name}"):
        X: Any
        if labels is not None:
            y = class_labels(read_labels(labels))
            X = open_design(open_samples(data))
        else:
            table = read_samples(data, target, missing=missing)
            X = table.encoder().fit_transform(table.X)
            y = table.y
            standardise = True
        return chosen_fit(X, y, loss, ridge, standardise=standardise, tol=tol, source=str(data))


def _run_on_files(
    name: str,
    run: Callable[..., Any],
    data: Path | None,
    labels: Path | None,
    out: Path,
    as_json: bool,
    cluster: str | None,
    **settings: Any,
) -> None:
    """Check where to write, fit with progress shown, write weights and report, print the report."""
    from polyceptron.lab.data_runs import fit_of_files
    from polyceptron.lab.engine import connect_cluster

    if data is None or labels is None:
        raise InvalidInput(
            "give both --data, the file of the samples, and --labels, the file of the labels"
        )
    _check_weights_file(out, data, labels, settings.get("features"), settings["checkpoint"])
    if cluster is not None and data.suffix not in (".zarr", ".parquet"):
        raise InvalidInput(f"the workers of --cluster read .zarr or .parquet, got {data.name!r}")
    with ExitStack() as stack:
        if cluster is not None:
            stack.callback(connect_cluster(cluster).close, timeout=2)
        show = stack.enter_context(waiting(f"{name}: the first pass over {data.name}"))
        report = fit_of_files(run, data, labels, callback=lambda now: show(str(now)), **settings)
    _keep_report(report, name, data, out, as_json)


def _check_weights_file(
    out: Path,
    data: Path,
    labels: Path | None,
    features: str | None = None,
    checkpoint: Path | None = None,
) -> None:
    """Raise unless weights and report can be written, and no input would be lost."""
    if out.suffix != ".npy":
        raise InvalidInput(f"weights are written as .npy, got --out {str(out)!r}")
    absent = []
    for what, path in (("the samples", data), ("the labels", labels)):
        if path is not None and not path.exists():
            absent.append(f"{what} {str(path)!r}")
    if absent:
        raise InvalidInput(f"cannot read {' and '.join(absent)}: there is no such file")
    check_outputs(out, report_beside(out), checkpoint, inputs=[data, labels, features])


def _keep_report(report: dict[str, Any], name: str, data: Path, out: Path, as_json: bool) -> None:
    """Write weights and report, print the report."""
    import numpy as np

    beside = report_beside(out)
    weights = report.pop("weights")
    content = {"made_by": "polyceptron", **json_ready(report)}
    text = json.dumps(content, indent=2) + "\n"
    write_together(
        {
            out: lambda place: np.save(place, weights, allow_pickle=False),
            beside: lambda place: place.write_text(text, encoding="utf-8"),
        }
    )
    for name_of in ("offset", "classes", "features"):
        report.pop(name_of, None)
    optional = ("n_classes", "passes", "dimension", "n_samples")
    Output(as_json)([report], REPORTED, optional=optional, title=f"{name} of {data.name}")
    say(f"wrote the weights to {out} and the report to {beside}")
    if report["status"] == "interrupted":
        sys.exit(130)


def data(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="Table of your samples: .csv, .tsv, .txt, .xlsx, .parquet, .feather or .npz.",
        ),
    ],
    target: str | None = setting(
        None,
        "Column of the labels; in a .npz file, the array of the labels.",
        metavar="COLUMN",
        show_default="y in a .npz file",
        panel=DATA,
    ),
    drop: list[str] | None = setting(
        None, "Column to leave out. Repeat the option for several.", metavar="COLUMN", panel=DATA
    ),
    keep: list[str] | None = setting(
        None,
        "Column to use even though it looks like dates or row numbers. Repeat the option for "
        "several.",
        metavar="COLUMN",
        panel=DATA,
    ),
    missing: Missing = "refuse",
    twins: bool = setting(
        False,
        "Compare with Gaussian mixtures that have the same class means and covariances.",
        "--twins",
    ),
    seed: int = setting(0, "Seed of the folds and of the resampling.", min=0, metavar="N"),
    html: Path | None = setting(
        None,
        "Write a page to this .html file, and its numbers beside it to a file ending in "
        ".report.json.",
        metavar="FILE",
        panel=RESULT,
    ),
    overwrite: Overwrite = False,
    as_json: bool = setting(
        False,
        "Print the numbers and sentences as JSON instead of the text.",
        "--json",
        panel=RESULT,
    ),
) -> None:
    """Describe your own data: how well a linear classifier does, and what more data would do.

    Example: polyceptron data table.csv --target label --html page.html
    """
    from polyceptron.pictures.matplotlib_figure import check_drawing
    from polyceptron.report.data.page import report_json
    from polyceptron.report.data.report import data_report

    beside = None
    if html is not None:
        beside = report_beside(html)
        check_drawing()
        check_unnamed(beside, overwrite)
    check_outputs(html, beside, inputs=[table])
    with waiting(f"reading {table.name}") as update:
        report = data_report(
            table,
            target,
            drop=drop or (),
            keep=keep or (),
            missing=missing,
            twins=twins,
            seed=seed,
            progress=update,
        )
    try:
        if html is not None and beside is not None:
            report.to_html(html)
            report.to_json(beside)
    finally:  # also where the page cannot be written
        if as_json:
            sys.stdout.write(report_json(report.measured, only_ascii=True))
        else:
            sys.stdout.write(visible(str(report)))
    if html is not None:
        say(f"wrote the page to {html} and the numbers to {beside}")


COMMANDS = (amp, fit, data)
