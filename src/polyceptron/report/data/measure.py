"""Samples to numbers: everything that the report says is computed here, and kept.

Errors and probabilities are those of samples that a fit has not seen: five folds, and inside each
training set growing parts of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.separation import is_separable
from polyceptron.errors import InvalidInput
from polyceptron.model import Teacher
from polyceptron.numerics import Array
from polyceptron.report.data.table import Table
from polyceptron.report.measured_curve import fit_power_law, measure_errors
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points

_FOLDS = 5
_SIZES = 5
_BINS = 8
_MOST = 10_000  # samples that are used; of more, so many are drawn
_PROVABLE = 2e7  # n·d·k up to which separability is found out
_FEW_VALUES = 10


@dataclass(frozen=True)
class Measured:
    """`numbers`, each by its name, and `tables`: rows of the curves behind them."""

    source: str
    numbers: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]


def measure(
    table: Table, *, seed: int = 0, say: Callable[[str], None] = lambda text: None
) -> Measured:
    """All numbers of the report; `say` hears what is being done."""
    X, y, drawn = _drawn(table, seed)
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
    say("can the classes be separated?")
    numbers |= _separability(A, index, classes.size)
    say("choosing the ridge")
    numbers |= _ridge(A, index, tables)
    say("measuring the learning curve")
    numbers |= _learning_curve(A, index, numbers, tables, seed, say)
    say("what the theory would say")
    numbers |= _idealised(numbers)
    return Measured(table.source, numbers, tables)


def _drawn(table: Table, seed: int) -> tuple[Array, NDArray[Any], int]:
    """At most so many samples, and how many there are."""
    n = table.y.size
    if n <= _MOST:
        return table.X, table.y, n
    from sklearn.model_selection import train_test_split

    kept, _ = train_test_split(np.arange(n), train_size=_MOST, stratify=table.y, random_state=seed)
    return table.X[kept], table.y[kept], n


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
        "few_valued_features": int((distinct <= _FEW_VALUES).sum()),
    }  # fmt: skip


def _separability(A: Array, y: NDArray[np.int64], k: int) -> dict[str, Any]:
    if A.size * k > _PROVABLE:
        return {"separable": None}
    found = is_separable(np.hstack([A, np.ones((len(A), 1))]), y, n_classes=k)
    return {"separable": found.separable}


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
    A: Array, y: NDArray[np.int64], numbers: dict[str, Any], tables: dict[str, Any], seed: int,
    say: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """Held-out errors at growing training sizes, the forecast, and the calibration at the last."""
    from polyceptron.algorithms.erm_classifier import ERMClassifier

    n, k = numbers["n"], numbers["k"]
    folds = min(_FOLDS, int(np.bincount(y).min()))
    whole = n - math.ceil(n / folds)
    sizes = np.geomspace(max(4 * k, whole / 10), whole, _SIZES).astype(int)
    sizes = sizes[sizes <= whole]
    found = measure_errors(
        ERMClassifier(scaling="standard"), A, y, sizes, folds, seed, chances=True, say=say
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
    bins = np.array_split(np.argsort(sure), min(_BINS, max(1, wrong.size // 10)))
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


def _idealised(numbers: dict[str, Any]) -> dict[str, Any]:
    """The lowest possible error if the theory's assumptions held for k, n and d."""
    alpha = numbers["training_size"] / numbers["d"]
    point = fixed_points(Teacher(numbers["k"]), alpha, branch="optimal")[0]
    return {"alpha": alpha, "idealised_error": float(point.generalisation_error)}


def _binomial(share: Any, n: Any) -> Array:
    """The standard error of a share of n samples, that of one sample at least."""
    return np.asarray(np.sqrt(np.maximum(share * (1 - share), 1 / n) / n))


def _rows(**columns: NDArray[Any]) -> list[dict[str, Any]]:
    """Columns as rows of plain Python values."""
    plain = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*plain, strict=True)]
