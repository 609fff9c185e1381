"""A file of samples, and everything that the report states of it, as numbers.

`read_samples` turns a file into features and labels, or an error message about what is wrong with
it; `measure` turns those into numbers, which are kept. Errors and probabilities are those of
samples that a fit has not seen: five folds, and inside each training set growing parts of it.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyceptron.algorithms.separation import separation
from polyceptron.errors import InvalidInput
from polyceptron.files import check_archive, check_readable
from polyceptron.model import Teacher
from polyceptron.numerics import Array
from polyceptron.report.measured_curve import fit_power_law, measure_errors
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points

_KINDS = (".csv", ".tsv", ".parquet", ".npz")
_SHOWN = 8  # names of columns in a message
_FOLDS = 5
_MOST = 10_000  # samples that are used; of more, so many are drawn


@dataclass(frozen=True)
class Table:
    """Features X (n, d) and labels y (n,)."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    source: str


def read_samples(path: Path, target: str | None, drop: Sequence[str] = ()) -> Table:
    """Samples from CSV, TSV, Parquet or .npz; `target` names the labels."""
    check_readable(path, "table")
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InvalidInput(
            f"cannot read {path.name!r}: a table is a file that ends in {', '.join(_KINDS)}"
        )
    target = target or ("y" if kind == ".npz" else None)
    frame = _from_arrays(path, target) if kind == ".npz" and target else _from_columns(path, kind)
    if frame.empty:
        raise InvalidInput(f"{path.name!r} has no rows")
    names = [repr(str(name)) for name in frame.columns]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there are {', '.join(names[:_SHOWN])}{more}"
    if target is None:
        raise InvalidInput(f"name the column of the labels with --target; {there}")
    missing = [name for name in (target, *drop) if name not in frame.columns]
    if missing:
        raise InvalidInput(f"there is no column {missing[0]!r}: {there}")
    y = _labels(frame[target], target)
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise InvalidInput("there are no features: every column is the target or dropped")
    columns = [_numbers(features[name], str(name)) for name in features.columns]
    return Table(np.column_stack(columns), y, path.name)


def first_line(error: Exception) -> str:
    """Of an error message, or the name of its kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _from_columns(path: Path, kind: str) -> pd.DataFrame:
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        frame = pd.read_csv(path, sep="\t" if kind == ".tsv" else ",")
        return pd.read_csv(path, sep=";") if frame.shape[1] == 1 and kind == ".csv" else frame
    except ImportError:
        text = "reading Parquet needs pyarrow: install it, or polyceptron[export]"
        raise InvalidInput(text) from None
    except (ValueError, OSError) as error:  # those of parsing and decoding are ValueErrors
        word = "Parquet" if kind == ".parquet" else "a table"
        raise InvalidInput(f"cannot read {path.name!r} as {word}: {first_line(error)}") from None


def _from_arrays(path: Path, target: str) -> pd.DataFrame:
    """The array `X`, or the only matrix of the file, and the labels `target`."""
    check_archive(path, "table", share=1 / 8)  # it is copied several times
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"cannot read {path.name!r} as .npz: {first_line(error)}") from None
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    chosen = "X" if "X" in matrices else matrices[0] if len(matrices) == 1 else None
    if target not in arrays or chosen is None:
        raise InvalidInput(
            f"an .npz file needs a matrix 'X' and labels {target!r} (or --target); "
            f"{path.name!r} has {', '.join(arrays) or 'nothing'}"
        )
    X, y = arrays[chosen], arrays[target]
    if y.shape != X.shape[:1]:
        raise InvalidInput(f"{target!r} has the shape {y.shape} for {X.shape[0]} rows of {chosen}")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return frame.assign(**{target: y})


def _check_complete(column: pd.Series[Any], what: str, cure: str) -> None:
    if column.isna().any():
        row = int(column.isna().to_numpy().argmax())
        raise InvalidInput(
            f"{what} has {int(column.isna().sum())} missing values, the first in data row "
            f"{row + 1}: {cure}"
        )


def _labels(column: pd.Series[Any], name: str) -> NDArray[Any]:
    _check_complete(column, f"the target {name!r}", "drop those rows first")
    y = column.to_numpy()
    values, counts = np.unique(y.astype(str), return_counts=True)
    if values.size < 2:
        raise InvalidInput(
            f"the target {name!r} has one class only, {str(values[0])!r}: there is nothing to learn"
        )
    if y.dtype.kind == "f" and values.size > max(20, 0.1 * y.size):
        raise InvalidInput(
            f"the target {name!r} has {values.size} different values in {y.size} rows: that is a "
            "number to predict, not a class; group it into classes first"
        )
    rare = int(counts.min())
    if rare < 3:
        which = str(values[int(counts.argmin())])
        raise InvalidInput(
            f"class {which!r} of {name!r} has {rare} sample{'s' * (rare > 1)}: at least 3 are "
            "needed, to learn from some and test on others"
        )
    return y if y.dtype.kind in "iufb" else y.astype(str)


def _numbers(column: pd.Series[Any], name: str) -> NDArray[np.float64]:
    cure = f"fill them, drop those rows, or leave the column out with --drop {name}"
    _check_complete(column, f"column {name!r}", cure)
    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
        example = str(column.iloc[0])[:30]
        raise InvalidInput(
            f"column {name!r} holds text such as {example!r}: turn it into numbers first (one "
            f"column a value, as pandas.get_dummies does), or leave it out with --drop {name}"
        )
    values = column.to_numpy()
    if values.dtype.kind not in "biuf":
        raise InvalidInput(f"column {name!r} holds {values.dtype} values, not real numbers")
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InvalidInput(f"column {name!r} is infinite in data row {row + 1}")
    return numbers


@dataclass(frozen=True)
class Measured:
    """`numbers`, each by its name, and `tables`: rows of the curves behind them."""

    source: str
    numbers: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]


def measure(
    table: Table, *, seed: int = 0, progress: Callable[[str], None] = lambda text: None
) -> Measured:
    """All numbers of the report; `progress` is told what is being done."""
    X, y, drawn = table.X, table.y, table.y.size
    if drawn > _MOST:
        from sklearn.model_selection import train_test_split

        X, _, y, _ = train_test_split(X, y, train_size=_MOST, stratify=y, random_state=seed)
    varying = X.std(0) > 0
    if not varying.any():
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    X = X[:, varying]
    A = (X - X.mean(0)) / X.std(0)
    classes, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    numbers: dict[str, Any] = {
        "n": int(y.size), "n_in_file": drawn, "d": int(A.shape[1]),
        "constant_features": int((~varying).sum()), "k": int(classes.size),
        "largest_class": str(classes[counts.argmax()]),
        "largest_share": float(counts.max() / y.size),
        "smallest_class": str(classes[counts.argmin()]),
        "smallest_share": float(counts.min() / y.size), "even_share": 1 / classes.size,
        "samples_per_feature": y.size / A.shape[1],
    }  # fmt: skip
    tables = {"classes": _rows(**{"class": classes.astype(str), "samples": counts})}
    numbers |= _shape_of_features(A, tables)
    progress("can the classes be separated?")
    kind = "undecided"
    if A.size * classes.size <= 2e7:  # else it takes too long
        kind = separation(np.hstack([A, np.ones((len(A), 1))]), index, n_classes=classes.size).kind
    known = {"separable": True, "quasi": False, "overlapping": False}
    numbers |= {"separable": known.get(kind), "separation": kind}
    progress("choosing the ridge")
    numbers |= _ridge(A, index, tables)
    progress("measuring the learning curve")
    numbers |= _learning_curve(A, index, numbers, tables, seed, progress)
    progress("what the theory predicts")
    alpha = numbers["training_size"] / numbers["d"]  # and the lowest error if all of it held
    ideal = fixed_points(Teacher(numbers["k"]), alpha, branch="optimal")[0].generalisation_error
    numbers |= {"alpha": alpha, "idealised_error": float(ideal)}
    return Measured(table.source, numbers, tables)


def _shape_of_features(A: Array, tables: dict[str, Any]) -> dict[str, Any]:
    """Effective dimension (Σs)²/Σs², eigenvalues above those of noise, and kurtosis."""
    n, d = A.shape
    gram = A.T @ A / n if d <= n else A @ A.T / n
    squares = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
    edge = (1 + math.sqrt(d / n)) ** 2  # of independent features
    kurtosis = (A**4).mean(0) - 3
    distinct = np.array([np.unique(column).size for column in A.T])
    top = squares[:50]
    tables["eigenvalues"] = _rows(rank=np.arange(1, len(top) + 1), eigenvalue=top)
    return {
        "effective_dimension": float(squares.sum() ** 2 / (squares**2).sum()),
        "largest_eigenvalue": float(squares[0]), "noise_edge": edge,
        "loud_directions": int((squares > edge).sum()),
        "loud_variance": float(squares[squares > edge].sum() / squares.sum()),
        "median_excess_kurtosis": float(np.median(kurtosis)),
        "few_valued_features": int((distinct <= 10).sum()),
    }  # fmt: skip


def _ridge(A: Array, y: NDArray[np.int64], tables: dict[str, Any]) -> dict[str, Any]:
    from polyceptron.algorithms.erm_classifier import ERMClassifier

    fit = ERMClassifier(scaling="standard").fit(A, y)
    names = ("ridge", "score", "standard_error")
    tables["ridge"] = _rows(**{name: fit.path_[name] for name in names})
    best = int(fit.path_["score"].argmin())
    return {
        "ridge": fit.ridge_, "ridge_method": fit.method_, "ridges_tried": len(tables["ridge"]),
        "C": (2 if np.unique(y).size == 2 else 1) / (fit.ridge_ * A.shape[1]),
        "log_loss": float(fit.path_["score"][best]),
        "log_loss_se": float(fit.path_["standard_error"][best]),
    }  # fmt: skip


def _learning_curve(
    A: Array,
    y: NDArray[np.int64],
    numbers: dict[str, Any],
    tables: dict[str, Any],
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Held-out errors at growing training sizes, the forecast, and the calibration at the last."""
    from polyceptron.algorithms.erm_classifier import ERMClassifier

    n, k = numbers["n"], numbers["k"]
    folds = min(_FOLDS, int(np.bincount(y).min()))
    whole = n - math.ceil(n / folds)
    sizes = np.geomspace(max(4 * k, whole / 10), whole, 5).astype(int)
    sizes = sizes[sizes <= whole]
    found = measure_errors(
        ERMClassifier(scaling="standard"), A, y, sizes, folds, seed, chances=True, progress=progress
    )
    sizes, wrong = found.sizes, found.wrong
    ahead = np.array([n, 2 * n, 10 * n])
    law = fit_power_law(sizes, wrong, 0.5 / n, seed)
    values, (low, high) = law(ahead), law.band(ahead)
    low, high = np.minimum(low, values), np.maximum(high, values)
    error = wrong.mean(1)
    spread = _binomial(error, n)
    tables["learning_curve"] = _rows(n=sizes, error=error, standard_error=spread)
    tables["forecast"] = _rows(n_samples=ahead, value=values, low=low, high=high)
    said: dict[str, Any] = {
        "folds": folds, "training_size": int(sizes[-1]), "error": float(error[-1]),
        "error_se": float(spread[-1]), "first_size": int(sizes[0]),
        "first_error": float(error[0]), "guess_error": 1 - numbers["largest_share"],
        "forecast_floor": law.c, "forecast_exponent": law.b,
    }  # fmt: skip
    for name, future in zip(("now", "double", "tenfold"), tables["forecast"], strict=True):
        said[f"error_{name}"] = future["value"]
        said[f"error_{name}_low"], said[f"error_{name}_high"] = future["low"], future["high"]
        said[f"n_{name}"] = future["n_samples"]
    return said | _calibration(found.chances, wrong[-1], tables)


def _calibration(chances: Array, wrong: Array, tables: dict[str, Any]) -> dict[str, Any]:
    """How often the class is right that a fit is so sure of, in bins of equal size."""
    sure, hit = chances.max(1), 1 - wrong
    bins = np.array_split(np.argsort(sure), min(8, max(1, wrong.size // 10)))
    count = np.array([part.size for part in bins])
    stated, accuracy = (np.array([x[part].mean() for part in bins]) for x in (sure, hit))
    tables["calibration"] = _rows(
        confidence=stated, accuracy=accuracy, standard_error=_binomial(accuracy, count),
        samples=count,
    )  # fmt: skip
    noise = np.sqrt(2 / math.pi * stated * (1 - stated) / count)  # of chance alone, on average
    gap = float(sure.mean() - hit.mean())
    return {
        "confidence": float(sure.mean()), "accuracy": float(hit.mean()), "confidence_gap": gap,
        "accuracy_se": float(_binomial(hit.mean(), wrong.size)),
        "calibration_error": float(np.abs(stated - accuracy) @ count) / wrong.size,
        "calibration_noise": float(noise @ count) / wrong.size,
    }  # fmt: skip


def _binomial(share: Any, n: Any) -> Array:
    """The standard error of a share of n samples, that of one sample at least."""
    return np.asarray(np.sqrt(np.maximum(share * (1 - share), 1 / n) / n))


def _rows(**columns: NDArray[Any]) -> list[dict[str, Any]]:
    """Columns as rows of plain Python values."""
    plain = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]
