"""A file of samples as features and labels, or one error message with all that is wrong with it.

Every column gets a role: numbers are used as they are, text of few values is encoded, and columns
that would mislead (constant ones, dates, those that only number the rows, text that differs from
row to row) are named and left out, unless they are asked for. Filling and encoding are
transformers of scikit-learn, which whoever fits a classifier fits with it, on its own rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyceptron.data.checks import check_choice
from polyceptron.data.labels import class_labels
from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable
from polyceptron.report.data.columns import (
    CATEGORY,
    NUMBER,
    column_role,
    column_values,
    read_percentages,
)
from polyceptron.report.data.table_files import KINDS, read_frame

MISSING = ("refuse", "fill", "drop-rows")
MOST_NAMES_SHOWN = 8  # columns or classes named in a message
FEWEST_SAMPLES_OF_A_CLASS = 3
# A target of floats is a number to predict, not a class, if it has more different values than the
# larger of these: a count, and a share of the rows.
MOST_NUMERIC_CLASSES = 20
MOST_NUMERIC_CLASSES_SHARE = 0.1


@dataclass(frozen=True)
class Table:
    """Features and labels of a file, and what was done to it.

    Attributes
    ----------
    X : pandas.DataFrame (n, columns)
    y : array (n,)
    source : str
        The name of the file.
    categories : tuple of str
        Columns to be encoded.
    left_out : dict
        The reason for each column that is not used.
    filled : dict
        How many values of each column are missing and to be filled.
    dropped_rows : int
        Rows left out because they had missing values.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    source: str
    categories: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    dropped_rows: int = 0

    def encoder(self) -> Any:
        """Return a transformer that fills missing values and encodes categories as numbers."""
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder

        numbers = [name for name in self.X.columns if name not in self.categories]
        encode = make_pipeline(
            SimpleImputer(strategy="most_frequent"),
            OneHotEncoder(drop="first", handle_unknown="ignore", sparse_output=False),
        )
        fill = SimpleImputer(strategy="median", keep_empty_features=True)
        made = make_column_transformer(
            (fill, numbers), (encode, list(self.categories)), verbose_feature_names_out=False
        )
        return made.set_output(transform="pandas")


def read_samples(
    path: Path,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: str = "refuse",
) -> Table:
    """Read samples from CSV, TSV, Parquet or .npz.

    Parameters
    ----------
    path : Path
    target : str or None
        The column, or the array, of the labels; by default 'y' in an .npz file.
    drop, keep : sequence of str
        Columns that are not looked at, and columns that are used whatever they look like.
    missing : {'refuse', 'fill', 'drop-rows'}
        Whether missing values are refused, filled (by the median, or the most frequent value), or
        their rows dropped.

    Returns
    -------
    Table
    """
    check_readable(path, "table")
    check_choice("missing", missing, MISSING)
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InvalidInput(
            f"cannot read {path.name!r}: a table is a file that ends in {', '.join(KINDS)}"
        )
    if not target and kind == ".npz":
        target = "y"
    frame = read_frame(path, target)
    target = _check_names(frame, path, target, (*drop, *keep))
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise InvalidInput("there are no features: every column is the target or dropped")
    if kind == ".csv":
        read_percentages(features)
    roles = {str(name): column_role(features[name], name in keep) for name in features}
    left_out = {name: role for name, role in roles.items() if role not in (NUMBER, CATEGORY)}
    used = features.drop(columns=list(left_out))
    kept_rows = np.full(len(frame), True)
    if missing == "drop-rows":
        kept_rows = used.notna().all(axis=1).to_numpy()
    used = used[kept_rows]
    if used.empty and len(used.columns):
        raise InvalidInput("every row has missing values: give --missing fill, or --drop")
    labels = frame[target][kept_rows]
    if kind in (".csv", ".tsv") and labels.dtype == object:  # pandas may read a part as numbers
        labels = labels.map(str, na_action="ignore")
    holes = {str(name): int(count) for name, count in used.isna().sum().items() if count}
    X = {str(name): column_values(used[name], roles[str(name)]) for name in used}
    complaints = [
        *_repeated_names(frame.attrs.get("names", {})),
        *_wrong_labels(labels, target),
        *(_missing_values(used, holes) if missing == "refuse" else []),
        *_infinite_values(X),
        *_nothing_left(X, left_out),
    ]
    if complaints:
        raise InvalidInput("; ".join(complaints))
    y = labels.to_numpy()
    if y.dtype.kind not in "iufb":
        y = y.astype(str)
    categories = tuple(name for name in X if roles[name] == CATEGORY)
    n_dropped = int((~kept_rows).sum())
    return Table(pd.DataFrame(X), y, path.name, categories, left_out, holes, n_dropped)


def _check_names(frame: pd.DataFrame, path: Path, target: str | None, others: Sequence[str]) -> str:
    """Return the target if it and all other columns that were named are there."""
    if frame.empty:
        raise InvalidInput(f"{path.name!r} has no rows")
    frame.columns = frame.columns.astype(str)
    shown = ", ".join(map(repr, frame.columns[:MOST_NAMES_SHOWN]))
    n_more = frame.shape[1] - MOST_NAMES_SHOWN
    if n_more > 0:
        shown += f" and {n_more} more"
    if target is None:
        raise InvalidInput(f"name the column of the labels with --target; there are {shown}")
    absent = [repr(name) for name in (target, *others) if name not in frame.columns]
    if absent:
        raise InvalidInput(f"there is no column {', '.join(absent)}: there are {shown}")
    return target


def _repeated_names(counts: Mapping[str, int]) -> list[str]:
    return [
        f"{name!r} is the name of {count} columns" for name, count in counts.items() if count > 1
    ]


def _missing_values(used: pd.DataFrame, holes: Mapping[str, int]) -> list[str]:
    """Say which columns have missing values, and what to do about it."""
    complaints = []
    for name, count in holes.items():
        first_row = int(used[name].isna().to_numpy().argmax()) + 1
        values = "value" if count == 1 else "values"
        complaints.append(
            f"column {name!r} has {count} missing {values}, the first in data row {first_row}"
        )
    if complaints:
        complaints.append("give --missing fill or --missing drop-rows")
    return complaints


def _infinite_values(X: Mapping[str, NDArray[Any]]) -> list[str]:
    complaints = []
    for name, values in X.items():
        if values.dtype.kind == "f" and np.isinf(values).any():
            row = int(np.isinf(values).argmax()) + 1
            complaints.append(f"column {name!r} is infinite in data row {row}")
    return complaints


def _nothing_left(X: Mapping[str, NDArray[Any]], left_out: Mapping[str, str]) -> list[str]:
    if X:
        return []
    reasons = ", ".join(f"{name!r} ({reason})" for name, reason in left_out.items())
    return [f"no column is left to learn from: {reasons}; --keep uses one all the same"]


def _wrong_labels(column: pd.Series[Any], name: str) -> list[str]:
    """Return all that is wrong with the target."""
    blank = (column.isna() | column.astype(str).str.strip().eq("")).to_numpy()
    if blank.any():
        return [
            f"the target {name!r} has {blank.sum()} missing values, the first in data row "
            f"{blank.argmax() + 1}: drop those rows first"
        ]
    y = column.to_numpy()
    most = max(MOST_NUMERIC_CLASSES, MOST_NUMERIC_CLASSES_SHARE * y.size)
    if y.dtype.kind == "f" and np.unique(y).size > most:
        return [
            f"the target {name!r} has {np.unique(y).size} different values in {y.size} rows: that "
            "is a number to predict, not a class; group it into classes first"
        ]
    try:
        class_labels(y, name=f"the target {name!r}")
    except InvalidInput as error:
        return [str(error)]
    return _rare_classes(y, name)


def _rare_classes(y: NDArray[Any], name: str) -> list[str]:
    """Say which classes have too few samples to learn from some and test on others."""
    values, counts = np.unique(y.astype(str), return_counts=True)
    complaints: list[str] = []
    for value, count in zip(values, counts, strict=True):
        if count < FEWEST_SAMPLES_OF_A_CLASS and len(complaints) < MOST_NAMES_SHOWN:
            samples = "sample" if count == 1 else "samples"
            complaints.append(
                f"class {str(value)!r} of {name!r} has {count} {samples}: at least "
                f"{FEWEST_SAMPLES_OF_A_CLASS} are needed, to learn from some and test on others"
            )
    return complaints
