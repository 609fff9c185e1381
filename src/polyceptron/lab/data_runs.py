"""Fits to samples in files, and message passing on several drawn instances.

| ending | X, opened and not read |
| --- | --- |
| .npy | a memory map, read block by block |
| .npz | a sparse matrix, as `scipy.sparse.save_npz` writes it |
| .zarr, .parquet | a Dask array, in chunks of rows |

With `standardise`, features are centred and scaled as they are read; the weights are those of the
features as they are in the file, with what centring adds to the fields as offset.

Means over runs differ from theory (d = ∞) by chance, of order 1/√(d·runs), and by a bias of order
1/d that no number of runs removes.
"""

import math
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import check_size
from polyceptron.data.checks import check_labels
from polyceptron.data.design import Design
from polyceptron.data.labels import class_labels, label_values
from polyceptron.data.sparse_checks import SparseMatrix, check_sparse
from polyceptron.data.stored_designs import (
    DaskArray,
    DaskFrame,
    DataMatrix,
    open_design,
    scaled,
)
from polyceptron.errors import InvalidInput
from polyceptron.files import check_archive, check_readable, read_npy_header
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.message_passing.result import AMPResult
from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.averages import Average
from polyceptron.problem import AnyTeacher, BayesOptimal
from polyceptron.progress import steps
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.rows import Row, Status, average_instances, frame
from polyceptron.students.bayes import run_amp
from polyceptron.students.measuring import check_seed
from polyceptron.students.seeds import seed_of
from polyceptron.theory.dynamics import state_evolution
from polyceptron.version import VERSION

_REPORTED = (
    "residual",
    "damping",
    "ridge",
    "distance_bound",
    "training_loss",
    "training_error",
    "matrix_passes",
)
_INDEX_ARRAYS = ("shape", "indices", "indptr", "row", "col", "coords", "offsets")
ENDINGS = (".npy", ".npz", ".zarr", ".parquet")


class _Fitted(Protocol):
    """The result of message passing or of a certified fit."""

    @property
    def weights(self) -> Array:
        """Return the weights (d, k)."""

    @property
    def status(self) -> Status:
        """Return how the fit ended."""

    @property
    def n_iter(self) -> int:
        """Return the number of iterations."""


def open_samples(path: str | Path) -> DataMatrix:
    """Open the samples X (n, d) of a file, as message passing and fits take them."""
    place = Path(path)
    ending = place.suffix
    if ending not in ENDINGS:
        raise InvalidInput(
            f"cannot tell how to read {str(path)!r}: its name must end in {', '.join(ENDINGS)}"
        )
    if ending == ".npy":
        return _open_array(place, "samples")
    if ending == ".npz":
        return _open_sparse(place)
    try:
        if ending == ".zarr":
            array: DaskArray = import_module("dask.array").from_zarr(str(place))
            return array
        table: DaskFrame = import_module("dask.dataframe").read_parquet(str(place))
        return table
    except ImportError as error:
        needed = f"pip install 'polyceptron[cluster]', and {ending[1:]}'s own package"
        raise InvalidInput(f"reading {ending} needs Dask: {needed} ({error})") from None
    except Exception as error:
        raise InvalidInput(f"cannot read {str(path)!r} as {ending[1:]}: {error}") from None


def _open_sparse(path: Path) -> SparseMatrix:
    """Read a sparse matrix (n, d) whose indices all lie inside it."""
    types = check_archive(path, "samples")
    for name in _INDEX_ARRAYS:
        if name in types and types[name].kind not in "iu":  # scipy would round them
            raise InvalidInput(
                f"{str(path)!r} is a damaged sparse matrix: its array {name!r} must hold whole "
                f"numbers, got {types[name]} values"
            )
    try:
        X: SparseMatrix = import_module("scipy.sparse").load_npz(path)
    except Exception as error:
        raise InvalidInput(
            f"{str(path)!r} is no sparse matrix of scipy, or a damaged one: {error}"
        ) from None
    check_sparse(X, repr(str(path)))
    return X


def _open_array(path: Path, what: str) -> AnyArray:
    """Map the array of a .npy file into memory; raise where the file is shorter than it says."""
    check_readable(path, what)
    try:
        with path.open("rb") as file:
            shape, dtype = read_npy_header(file)
            held = path.stat().st_size - file.tell()
        rows = 1
        if shape:
            rows = shape[0]
        bytes_of_row = math.prod(shape[1:]) * dtype.itemsize
        whole = held // max(bytes_of_row, 1)
        if whole < rows and not dtype.hasobject:
            raise InvalidInput(
                f"the {what} {str(path)!r} are cut short: of {rows} rows, {whole} to {rows - 1} "
                "are missing"
            )
        array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except InvalidInput:
        raise
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput(f"{str(path)!r} is no array of numpy: {error}") from None


def read_labels(path: Path) -> AnyArray:
    """Read labels (n,), numbers or text, of a .npy file."""
    if path.suffix != ".npy":
        raise InvalidInput(f"labels must be in a .npy file, got {str(path)!r}")
    return label_values(np.array(_open_array(path, "labels")), name=_named(path))


def _named(labels: Path) -> str:
    """Return how a message names the file of the labels."""
    return f"the file of labels {str(labels)!r}"


def fit_of_files(
    fit: Callable[..., _Fitted], data: Path, labels: Path, *, standardise: bool, **more: Any
) -> dict[str, Any]:
    """Run message passing or a certified fit on files.

    Parameters
    ----------
    fit : callable
        Takes X, y and `more`; it returns an object with weights (d, k), a status and n_iter.
    data, labels : path
        The files of X (n, d) and y (n,).
    standardise : bool
        Centre and scale the features as they are read.

    Returns
    -------
    dict
        weights (d, k) and offset (k,) for the features as they are in the file, and a report.
    """
    y = read_labels(labels)
    classes = None
    if y.dtype.kind in "Ub":
        classes, y = np.unique(class_labels(y, name=_named(labels)), return_inverse=True)
    design = open_design(open_samples(data))
    check_labels(y, design.n_samples, more.get("n_classes"))  # before anything of X is read
    begin = time.monotonic()
    n, d = design.shape
    X: Design = design
    shift = np.zeros(d)
    scale = np.ones(d)
    if standardise:
        design.check_entries()
        shift, deviation, largest = design.column_moments()
        scale = np.where(deviation > 10 * np.finfo(float).eps * largest, deviation, 1.0)
        X = scaled(design, shift, scale)
    found = fit(X, y, **more)
    weights = found.weights / scale[:, None]
    offset = -(shift @ weights) / math.sqrt(d)
    passes = design.passes
    if X is not design:
        passes += X.passes
    report = {
        "data": str(data),
        "labels": str(labels),
        "n_samples": n,
        "dimension": d,
        "n_classes": weights.shape[1],
        "precision": str(design.dtype),
        "standardise": standardise,
        "status": str(found.status),
        "n_iter": found.n_iter,
        "passes": passes,
        "seconds": time.monotonic() - begin,
        "version": VERSION,
        "weights": weights,
        "offset": offset.tolist(),
    }
    if classes is not None:
        report["classes"] = classes.tolist()
    for name in _REPORTED:
        if hasattr(found, name):
            report[name] = getattr(found, name)
    return report


def chosen_fit(
    X: ArrayLike,
    y: AnyArray,
    loss: str,
    ridge: float | str,
    *,
    standardise: bool,
    tol: float,
    source: str,
) -> dict[str, Any]:
    """Fit samples in memory; return the report of `fit_of_files` with names of classes, features.

    The ridge may be 'auto', chosen on held-out samples.
    """
    begin = time.monotonic()
    scaling = "none"
    if standardise:
        scaling = "standard"
    model = ERMClassifier(loss, ridge, scaling=scaling, fit_intercept=standardise, tol=tol)
    weights, offset = model.fit(X, y)._class_weights
    d, k = weights.shape
    status = Status.TOLERANCE_NOT_MET
    if math.isfinite(model.certificate_):
        status = Status.OK
    return {
        "data": source,
        "n_samples": len(y),
        "dimension": d,
        "n_classes": k,
        "standardise": standardise,
        "status": str(status),
        "n_iter": model.n_iter_,
        "seconds": time.monotonic() - begin,
        "version": VERSION,
        "weights": weights * math.sqrt(d),
        "offset": offset.tolist(),
        "ridge": model.ridge_,
        "classes": model.classes_.tolist(),
        "distance_bound": model.certificate_,
        "features": list(getattr(model, "feature_names_in_", [])),
    }


def run_many(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[tuple[Row, AMPResult]]:
    """Run message passing on `runs` instances; instance i depends on the seed and i alone."""
    check_size(runs, "runs")
    seeds = [seed_of([check_seed(seed), i]) for i in range(runs)]
    return [
        run_amp(teacher, alpha, dimension, seed_of_run, **settings) for seed_of_run in steps(seeds)
    ]


def amp_rows(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[Row]:
    """Return a row for each run, then their means (source amp-summary), then theory's row."""
    results = run_many(teacher, alpha, dimension, runs=runs, seed=seed, **settings)
    rows = [row for row, _ in results]
    (theory,) = curve_rows(teacher, BayesOptimal(), [alpha], branch=rows[0]["branch"])
    (mean,) = average_instances(frame(rows)).to_dict("records")
    beside = {f"theory_{name}": theory[name] for name in ("q", "m", "generalisation_error")}
    summary = {str(name): value for name, value in mean.items() if value == value}  # not NaN
    return [*rows, summary | {"source": "amp-summary"} | beside, theory]


def trace_rows(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[Row]:
    """Return one row for each iteration: the mean over the runs, and theory's prediction.

    A run that has converged counts with its last iteration from then on.
    """
    results = run_many(teacher, alpha, dimension, runs=runs, seed=seed, **settings)
    traces = [result.trace for _, result in results]
    length = max(map(len, traces))
    theory = state_evolution(teacher, alpha, length - 1, settings.get("start", "uninformed"))
    predicted = {"q": theory.q, "generalisation_error": theory.generalisation_error}
    rows = []
    for t in range(length):
        entries = [trace[min(t, len(trace) - 1)] for trace in traces]
        row: Row = {"source": "amp-trace", "iteration": t}
        for name in ("m", "q", "generalisation_error"):
            found = Average.of(entry[name] for entry in entries)
            row |= {name: found.mean, f"{name}_standard_error": found.standard_error}
        row |= {f"theory_{name}": float(values[t]) for name, values in predicted.items()}
        row |= {name: max(entry[name] for entry in entries) for name in ("residual", "damping")}
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows
