"""Everything that the report states of a table, as numbers.

`measure` turns samples into numbers, which are kept. Errors and probabilities are those of samples
that a fit has not seen: five folds, and inside each training set growing parts of it. What fills
missing values and encodes categories is fitted to the same parts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyceptron.algorithms.separation import separation
from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, BayesOptimal, Teacher
from polyceptron.numerics import Array
from polyceptron.report.data.reading import Table
from polyceptron.report.measured_curve import MeasuredErrors, forecast, measure_errors
from polyceptron.report.predicted import fit_model
from polyceptron.report.twins import twin_report
from polyceptron.theory.generalisation import error_floor

_FOLDS = 5
_SIZES = 6  # points of the learning curve
_MOST = 10_000  # samples that are used; of more, so many are drawn
_WEIGHTS = 8  # largest ones that are shown
_WIDE = 2000  # features up to which a teacher of their spectrum is fitted
_95 = 1.959964


@dataclass(frozen=True)
class Measured:
    """`numbers`, each by its name, and `tables`: rows of the curves behind them."""

    source: str
    numbers: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]


def measure(
    table: Table,
    *,
    seed: int = 0,
    twins: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Measured:
    """All numbers of the report, and of Gaussian twins if asked; `progress` is told of steps."""
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline

    from polyceptron.algorithms.erm_classifier import ERMClassifier

    drawn = table.y.size
    if drawn > _MOST:
        X, _, y, _ = train_test_split(
            table.X, table.y, train_size=_MOST, stratify=table.y, random_state=seed
        )
        table = replace(table, X=X, y=y)
    encoded: pd.DataFrame = table.encoder().fit_transform(table.X)
    encoded = encoded.loc[:, encoded.std() > 0]
    if encoded.shape[1] == 0:
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    A = encoded.to_numpy()
    A = (A - A.mean(0)) / A.std(0)
    n, d = A.shape
    classes, index, counts = np.unique(table.y, return_inverse=True, return_counts=True)
    numbers: dict[str, Any] = {
        "n": n, "n_in_file": drawn, "d": d, "k": int(classes.size),
        "left_out": ", ".join(f"{name} ({why})" for name, why in table.left_out.items()),
        "encoded": ", ".join(table.categories), "dropped_rows": table.dropped_rows,
        "filled": ", ".join(f"{name} ({count})" for name, count in table.filled.items()),
        "largest_class": str(classes[counts.argmax()]),
        "largest_share": float(counts.max() / n),
        "smallest_class": str(classes[counts.argmin()]),
        "smallest_share": float(counts.min() / n), "even_share": 1 / classes.size,
        "samples_per_feature": n / d,
    }  # fmt: skip
    tables: dict[str, Any] = {}
    numbers |= _shape_of_features(A, tables)
    progress("can the classes be separated?")
    kind = "undecided"
    if A.size * classes.size <= 2e7:  # else it takes too long
        kind = separation(np.hstack([A, np.ones((n, 1))]), index, n_classes=classes.size).kind
    known = {"separable": True, "quasi": False, "overlapping": False}
    numbers |= {"separable": known.get(kind), "separation": kind}
    progress("choosing the ridge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a ridge at an end is seen in the picture
        numbers |= _ridge_and_weights(
            ERMClassifier().fit(encoded, table.y), encoded, table.y, tables
        )
    progress("measuring the learning curve")
    folds = min(_FOLDS, int(counts.min()))
    whole = n - math.ceil(n / folds)
    sizes = np.geomspace(max(4 * classes.size, whole / 10), whole, _SIZES).astype(int)
    found = measure_errors(
        make_pipeline(table.encoder(), ERMClassifier()), table.X, table.y, sizes[sizes <= whole],
        folds, seed, chances=True, progress=progress,
    )  # fmt: skip
    numbers |= _learning_curve(found, numbers, tables, seed)
    numbers |= _by_class(found, table.y, classes, tables)
    numbers |= _calibration(found.chances, found.wrong[-1], tables)
    progress("what the theory predicts")
    numbers |= {"alpha": numbers["training_size"] / d, "noise_floor": None}
    if d <= _WIDE:
        k, last = classes.size, found.sizes[-1:] / d
        fit = fit_model(A, table.y, Teacher(k), BayesOptimal(), last, found.errors[-1:], 0.5 / n)
        floor = float(error_floor(fit.teacher.channel, k))
        numbers |= {"noise": fit.noise, "noise_floor": floor}
    numbers["twins"] = ""
    if twins:
        compared = twin_report(
            A, index, ERM(ridge=numbers["ridge"]), random_state=seed, progress=progress
        )
        numbers["twins"] = " ".join([compared.sentence, *compared.caveats])
        tables["twins"] = compared.frame.to_dict("records")
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


def _ridge_and_weights(
    fit: Any, X: pd.DataFrame, y: NDArray[Any], tables: dict[str, Any]
) -> dict[str, Any]:
    tables["ridge"] = _rows(**fit.path_)
    scores = getattr(fit, "scaling_scores_", {fit.scaling_: (math.nan, 0.0)})
    other = {"standard": "global", "global": "standard"}[fit.scaling_]
    said = {
        "ridge": fit.ridge_, "ridge_method": fit.method_, "ridges_tried": len(tables["ridge"]),
        "C": (2 if fit.classes_.size == 2 else 1) / (fit.ridge_ * X.shape[1]),
        "scaling": fit.scaling_, "scaling_score": scores[fit.scaling_][0],
        "other_score": scores.get(other, (math.nan, 0.0))[0],
    }  # fmt: skip
    tables["weights"] = []
    try:
        tests = fit.feature_tests(X, y)
    except InvalidInput as error:
        return said | {"untested": str(error), "features_that_matter": None}
    scale = X.std(ddof=0)
    for column in tests.columns[tests.columns.str.startswith("weight_")]:
        weight, name = tests[column] * scale, column.removeprefix("weight_")
        half = _95 * tests[f"standard_error_{name}"] * scale
        tables["weights"] += _rows(
            feature=tests.index, **{"class": name}, weight=weight, low=weight - half,
            high=weight + half, q_value=tests["q_value"],
        )  # fmt: skip
    shown = [row for row in tables["weights"] if row["weight"] == row["weight"]]
    tables["weights"] = sorted(shown, key=lambda row: -abs(row["weight"]))[:_WEIGHTS]
    return said | {"untested": "", "features_that_matter": int((tests["q_value"] < 0.1).sum())}


def _learning_curve(
    found: MeasuredErrors, numbers: dict[str, Any], tables: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Held-out error and log-loss at growing training sizes, and their forecasts."""
    n = numbers["n"]
    ahead = np.array([n, 2 * n, 10 * n])
    said: dict[str, Any] = {
        "folds": int(found.fold.max()) + 1, "training_size": int(found.sizes[-1]),
        "first_size": int(found.sizes[0]), "guess_error": 1 - numbers["largest_share"],
    }  # fmt: skip
    for name, each in (("error", found.wrong), ("log_loss", found.losses)):
        law = forecast(found.sizes, each, 0.5 / n, n, fold=found.fold, seed=seed)
        mean, low, high = each.mean(1), *law.band(ahead)
        spread = _binomial(mean, n) if name == "error" else each.std(1) / math.sqrt(n)
        curve = np.unique(np.geomspace(found.sizes[0], 10 * n, 100))
        tables[f"{name}_curve"] = _rows(n=found.sizes, value=mean, standard_error=spread)
        tables[f"{name}_law"] = _rows(n=curve, value=law(curve))
        tables[f"{name}_forecast"] = _rows(n_samples=ahead, value=law(ahead), low=low, high=high)
        said |= {name: float(mean[-1]), f"{name}_se": float(spread[-1]), f"first_{name}": mean[0]}
        for when, future in zip(
            ("now", "double", "tenfold"), tables[f"{name}_forecast"], strict=True
        ):
            said |= {f"{name}_{when}": future["value"], f"n_{when}": future["n_samples"]}
            said |= {f"{name}_{when}_{end}": future[end] for end in ("low", "high")}
        said |= {f"{name}_by_{law_name}": share for law_name, share in law.weights.items()}
    return said


def _by_class(
    found: MeasuredErrors, y: NDArray[Any], classes: NDArray[Any], tables: dict[str, Any]
) -> dict[str, Any]:
    """Recall and confusion of held-out samples at the largest size."""
    from sklearn.metrics import confusion_matrix

    confusion = confusion_matrix(y[found.index], classes[found.chances.argmax(1)], labels=classes)
    samples = confusion.sum(1)
    recall = confusion.diagonal() / samples
    names = classes.astype(str)
    tables["classes"] = _rows(
        **{"class": names}, samples=samples, recall=recall,
        standard_error=_binomial(recall, samples),
        **{f"named {name}": column for name, column in zip(names, confusion.T, strict=True)},
    )  # fmt: skip
    worst = int(recall.argmin())
    wrong = confusion[worst] * (np.arange(classes.size) != worst)
    return {
        "balanced_error": float(1 - recall.mean()), "worst_class": names[worst],
        "balanced_error_se": float(np.linalg.norm(_binomial(recall, samples)) / classes.size),
        "worst_recall": float(recall[worst]), "mistaken_for": names[int(wrong.argmax())],
        "mistaken_share": float(wrong.max() / samples[worst]),
    }  # fmt: skip


def _calibration(chances: Array, wrong: Array, tables: dict[str, Any]) -> dict[str, Any]:
    """How often the class is right that a fit is so sure of, in bins of equal size."""
    sure, hit = chances.max(1), 1 - wrong
    bins = np.array_split(np.argsort(sure), min(8, max(1, wrong.size // 10)))
    parts = [(part.size, sure[part].mean(), hit[part].mean()) for part in bins]
    count, stated, accuracy = (np.array(column) for column in zip(*parts, strict=True))
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


def _rows(**columns: Any) -> list[Any]:
    """Columns as rows of plain Python values."""
    return pd.DataFrame(columns).to_dict("records")
