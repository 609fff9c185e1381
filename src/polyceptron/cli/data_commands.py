"""Data at the shell: amp (drawn or a user's own), fit and data (a user's own)."""

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.options import option, setting
from polyceptron.cli.output import Output
from polyceptron.cli.side_files import Overwrite, check_unnamed, choose_weights_file, report_beside
from polyceptron.cli.tables import describe_teacher
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs, write_text, write_together
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

Data = Annotated[Path | None, option("Samples X (n, d): .npy, .npz (sparse), .zarr or .parquet.")]
Labels = Annotated[Path | None, option("Labels 0, 1, ... (n,) of the samples: .npy.")]
_OUT = "Weights (d, k), as .npy (default: weights.npy); their report is a .report.json beside them."
Out = Annotated[Path | None, option(_OUT)]
Standardise = Annotated[bool, option("Centre and scale features as read.", "--standardise")]
CheckpointFile = Annotated[Path | None, option("Keep the fit here, and go on from it.")]
Missing = Annotated[str, option("Missing values: refuse, fill (median, mode) or drop-rows.")]
Cluster = Annotated[str | None, option("A Dask scheduler whose workers read .zarr or .parquet.")]


def amp(
    alpha: options.Alpha = "1.5",
    classes: options.Classes = None,
    prior: options.Prior = None,
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    dimension: int = setting(1000, "Dimension d of the inputs.", "--dimension", "-d"),
    runs: int = setting(1, "Independent instances for each alpha."),
    seed: int = setting(0, "Every instance follows from it."),
    variances: str = setting("shared", "shared (fast) or full (Algorithm 1)."),
    start: str = setting("uninformed", "uninformed or informed."),
    precision: str = setting("float64", "float64 or float32."),
    tol: float = setting(1e-8, "Converged when a step changes less."),
    max_iter: int = setting(200, "Most iterations."),
    trace: bool = setting(False, "Overlaps by iteration, beside state evolution.", "--trace"),
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
    """Run Bayes-optimal message passing on instances of a teacher, beside the theory.

    Prints a row for each instance (source amp), a summary with the mean and its standard error
    (source amp-summary) and the theory's prediction for infinite dimension (source theory).
    With --trace, one row for each iteration instead: the mean over the runs, and what state
    evolution predicts for that iteration.

    With --data and --labels it runs on your samples instead, which may be larger than memory, and
    writes weights and a report.

    Example: polyceptron amp --classes 3 --alpha 1.5 --runs 5
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
    teacher = options.read_population(classes, prior, model, noise, features)
    alphas = parse_numbers(alpha, "--alpha")
    check_outputs(csv, inputs=[features])
    if trace and len(alphas) != 1:
        raise InvalidInput(f"--trace takes one alpha, got {len(alphas)}")
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
    ridge: str = setting("0.1", "λ, 0 or more, or auto."),
    target: str | None = setting(None, "The column of the labels, where --data is a table."),
    missing: Missing = "refuse",
    standardise: Standardise = False,
    tol: float = setting(1e-8, "Relative distance to the minimiser."),
    checkpoint: CheckpointFile = None,
    cluster: Cluster = None,
    out: Out = None,
    overwrite: Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Fit a loss with a ridge to samples in files, which may be larger than memory.

    With --ridge auto the ridge is chosen on held-out samples. A table (--target) is encoded and
    standardised, and has an intercept.

    Example: polyceptron fit --data X.npy --labels y.npy --ridge 1 --out weights.npy
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
        raise InvalidInput("--cluster and --checkpoint need --labels and a ridge that is given")
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
        raise InvalidInput("--data and --labels go together: a file of samples, a file of labels")
    _check_weights_file(out, data, labels, settings.get("features"), settings["checkpoint"])
    if cluster is not None and data.suffix not in (".zarr", ".parquet"):
        raise InvalidInput(
            f"--cluster reads .zarr or .parquet in chunks where its workers are, got {data.name!r}"
        )
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
    say(f"weights in {out}, report in {beside}")
    if report["status"] == "interrupted":
        sys.exit(130)


def data(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="A .csv, .tsv, .parquet or .npz.")],
    target: str | None = setting(None, "The column of the labels (.npz: the array; default y)."),
    drop: list[str] | None = setting(None, "A column to leave out; may be given again."),
    keep: list[str] | None = setting(None, "One to use though it looks like dates or row numbers."),
    missing: Missing = "refuse",
    html: Path | None = setting(None, "A page; its numbers are in a .report.json beside it."),
    overwrite: Overwrite = False,
    as_json: bool = setting(False, "Print numbers and sentences.", "--json"),
    seed: int = setting(0, "Of the folds and the resampling.", min=0),
    twins: bool = setting(False, "Compare with Gaussian mixtures of their moments.", "--twins"),
) -> None:
    """One page about your own data: what they are, how well a linear rule does, what more would do.

    Example: polyceptron data table.csv --target label --html page.html
    """
    from polyceptron.pictures.matplotlib_figure import check_drawing
    from polyceptron.report.data.data_page import measure, report_html, report_json, report_text
    from polyceptron.report.data.reading import read_samples

    beside = None
    if html is not None:
        beside = report_beside(html)
        check_drawing()
        check_unnamed(beside, overwrite)
    check_outputs(html, beside, inputs=[table])
    found = read_samples(table, target, drop or (), keep or (), missing)
    with waiting(f"reading {table.name}") as update:
        measured = measure(found, seed=seed, twins=twins, progress=update)
    try:
        if html is not None and beside is not None:
            write_text(html, report_html(measured))
            write_text(beside, report_json(measured))
    finally:  # also where the page cannot be written
        if as_json:
            sys.stdout.write(report_json(measured, only_ascii=True))
        else:
            sys.stdout.write(report_text(measured))
    if html is not None:
        say(f"page in {html}, numbers in {beside}")


COMMANDS = (amp, fit, data)
