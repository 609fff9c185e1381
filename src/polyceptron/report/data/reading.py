"""A file of samples as features and labels, or one error message with all that is wrong with it.

Every column gets a role: numbers are used as they are, text of few values is encoded, and columns
that would mislead (constant ones, dates, those that only number the rows, text that differs from
row to row) are named and left out, unless they are asked for. Filling and encoding are
transformers of scikit-learn, which whoever fits a classifier fits with it, on its own rows.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyceptron.data.checks import check_choice
from polyceptron.data.labels import class_labels, label_values
from polyceptron.errors import InvalidInput
from polyceptron.files import check_archive, check_readable

_KINDS = (".csv", ".tsv", ".parquet", ".npz")
MISSING = ("refuse", "fill", "drop-rows")
_SHOWN = 8  # names of columns in a message
_VALUES = 30  # different values up to which text is a category


@dataclass(frozen=True)
class Table:
    """Features as a frame (n, columns), labels y (n,), and what was done to the file.

    `categories` are to be encoded, `left_out` has a reason for each column; `filled` counts missing
    values of each column to fill, `dropped_rows` rows that had some.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    source: str
    categories: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    dropped_rows: int = 0

    def encoder(self) -> Any:
        """Fills missing values and encodes categories: a frame of numbers (n, d)."""
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
    """Samples from CSV, TSV, Parquet or .npz; `target` names the labels.

    Columns to `drop` are not looked at, those to `keep` are used whatever they look like. Missing
    values are refused, filled (the median, or the most frequent value) or their rows dropped.
    """
    check_readable(path, "table")
    check_choice("missing", missing, MISSING)
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InvalidInput(
            f"cannot read {path.name!r}: a table is a file that ends in {', '.join(_KINDS)}"
        )
    target = target or ("y" if kind == ".npz" else None)
    frame = _from_arrays(path, target) if kind == ".npz" and target else _from_columns(path, kind)
    if frame.empty:
        raise InvalidInput(f"{path.name!r} has no rows")
    frame.columns = frame.columns.astype(str)
    more = f" and {frame.shape[1] - _SHOWN} more" if frame.shape[1] > _SHOWN else ""
    there = f"there are {', '.join(map(repr, frame.columns[:_SHOWN]))}{more}"
    if target is None:
        raise InvalidInput(f"name the column of the labels with --target; {there}")
    absent = [repr(name) for name in (target, *drop, *keep) if name not in frame.columns]
    if absent:
        raise InvalidInput(f"there is no column {', '.join(absent)}: {there}")
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise InvalidInput("there are no features: every column is the target or dropped")
    for name in features.select_dtypes(exclude=["number", "bool"]) if kind == ".csv" else ():
        numbers = pd.to_numeric(features[name].astype(str).str.rstrip(" %"), errors="coerce")
        if numbers.notna().sum() == features[name].notna().sum():
            features[name] = numbers
    roles = {str(name): _role(features[name], name in keep) for name in features}
    left_out = {name: role for name, role in roles.items() if role not in ("number", "category")}
    used = features.drop(columns=list(left_out))
    whole = used.notna().all(axis=1) | (missing != "drop-rows")
    frame, used = frame[whole], used[whole]
    if frame.empty:
        raise InvalidInput("every row has missing values: give --missing fill, or --drop")
    holes = {str(name): int(count) for name, count in used.isna().sum().items() if count}
    names = {name: count for name, count in frame.attrs.get("names", {}).items() if count > 1}
    wrong = [f"{name!r} is the name of {count} columns" for name, count in names.items()]
    labels = frame[target]
    if kind in (".csv", ".tsv") and labels.dtype == object:  # pandas may read a part as numbers
        labels = labels.map(str, na_action="ignore")
    wrong += _wrong_labels(labels, target)
    if missing == "refuse":
        wrong += [
            f"column {name!r} has {count} missing value{'s' * (count > 1)}, the first in data row "
            f"{int(used[name].isna().to_numpy().argmax()) + 1}"
            for name, count in holes.items()
        ]
        wrong += ["give --missing fill or --missing drop-rows"] if holes else []
    X = {name: _values(used[name], roles[name]) for name in roles if name not in left_out}
    for name, values in X.items():
        if values.dtype.kind == "f" and np.isinf(values).any():
            row = int(np.isinf(values).argmax())
            wrong.append(f"column {name!r} is infinite in data row {row + 1}")
    if not X:
        reasons = ", ".join(f"{name!r} ({reason})" for name, reason in left_out.items())
        wrong.append(f"no column is left to learn from: {reasons}; --keep uses one all the same")
    if wrong:
        raise InvalidInput("; ".join(wrong))
    y = labels.to_numpy()
    return Table(
        pd.DataFrame(X),
        y if y.dtype.kind in "iufb" else y.astype(str),
        path.name,
        tuple(name for name in X if roles[name] == "category"),
        left_out,
        holes,
        int((~whole).sum()),
    )


def _role(column: pd.Series[Any], keep: bool) -> str:
    """'number', 'category', or why the column is left out."""
    seen = column.dropna()
    distinct = seen.nunique()
    numeric = pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)
    if distinct <= 1:
        return "number" if keep and numeric else "constant" if distinct else "no values"
    if numeric:
        if np.asarray(seen).dtype.kind == "c":
            return "complex numbers"
        counts = distinct == len(column) >= 10 and (seen % 1 == 0).all()
        index = counts and seen.max() - seen.min() == len(column) - 1
        return "it numbers the rows" if index and not keep else "number"
    if _dates(seen) is not None:
        return "number" if keep else "dates"
    if distinct > _VALUES and not keep:
        words = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
        if words.sum() < len(seen) / 2:
            text = f"{column[words].iloc[0]!r} in data row {words.argmax() + 1}"
            return f"text in {words.sum()} of {len(column)} rows, {text}"
        return f"text of {distinct} values"
    return "category"


def _dates(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Days since 1970 where all values are dates."""
    if not pd.api.types.is_datetime64_any_dtype(column):
        if not column.astype(str).str.contains(r"\d[-/.:]\d").all():
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            both = [
                pd.to_datetime(column, errors="coerce", utc=True, dayfirst=first)
                for first in (False, True)
            ]
        column = both[int(both[0].isna().any())]
        if column.isna().any():
            return None
    days: pd.Series[Any] = (column - column.dt.normalize().min()) / pd.Timedelta(days=1)
    return days


def _values(column: pd.Series[Any], role: str) -> NDArray[Any]:
    """Numbers as doubles, categories as text with None where there is nothing."""
    if role == "category":
        return np.array([None if pd.isna(v) else str(v) for v in column], dtype=object)
    if not (pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)):
        seen = column.dropna()
        days = _dates(seen)
        column = (seen if days is None else days).reindex(column.index)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _wrong_labels(column: pd.Series[Any], name: str) -> list[str]:
    """All that is wrong with the target."""
    blank = column.isna() | column.astype(str).str.strip().eq("")
    if (missing := blank.to_numpy()).any():
        return [
            f"the target {name!r} has {missing.sum()} missing values, the first in data row "
            f"{missing.argmax() + 1}: drop those rows first"
        ]
    y = column.to_numpy()
    if y.dtype.kind == "f" and np.unique(y).size > max(20, 0.1 * y.size):
        return [
            f"the target {name!r} has {np.unique(y).size} different values in {y.size} rows: that "
            "is a number to predict, not a class; group it into classes first"
        ]
    try:
        class_labels(y, name=f"the target {name!r}")
    except InvalidInput as error:
        return [str(error)]
    values, counts = np.unique(y.astype(str), return_counts=True)
    few = counts < 3
    return [
        f"class {str(value)!r} of {name!r} has {count} sample{'s' if count > 1 else ''}: at least "
        "3 are needed, to learn from some and test on others"
        for value, count in zip(values[few][:_SHOWN], counts[few], strict=False)
    ]


def _unreadable(path: Path, kind: str, error: Exception) -> InvalidInput:
    """With the first line of the error message, or the name of its kind."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    line += "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
    return InvalidInput(f"cannot read {path.name!r} as {kind}: {line}")


def _from_columns(path: Path, kind: str) -> pd.DataFrame:
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        sep = "\t" if kind == ".tsv" else ","
        frame = pd.read_csv(path, sep=sep)
        if frame.shape[1] == 1 and kind == ".csv":
            sep, frame = ";", pd.read_csv(path, sep=";")
            numbers = pd.read_csv(path, sep=";", decimal=",").select_dtypes("number")
            frame[numbers.columns] = numbers  # also where all have a comma for the point
        names = pd.read_csv(path, sep=sep, header=None, nrows=1, dtype=str).iloc[0]
        frame.attrs["names"] = names.value_counts().to_dict()
        return frame
    except ImportError:
        text = "reading Parquet needs pyarrow: install it, or polyceptron[export]"
        raise InvalidInput(text) from None
    except (ValueError, OSError) as error:  # those of parsing and decoding are ValueErrors
        raise _unreadable(path, "Parquet" if kind == ".parquet" else "a table", error) from None


def _from_arrays(path: Path, target: str) -> pd.DataFrame:
    """The array `X`, or the only matrix of the file, and the labels `target`."""
    check_archive(path, "table", share=1 / 8)  # it is copied several times
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, ".npz", error) from None
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    chosen = "X" if "X" in matrices else matrices[0] if len(matrices) == 1 else None
    if target not in arrays or chosen is None:
        raise InvalidInput(
            f"an .npz file needs a matrix 'X' and labels {target!r} (or --target); "
            f"{path.name!r} has {', '.join(arrays) or 'nothing'}"
        )
    X, y = arrays[chosen], arrays[target]
    if y.dtype.kind != "f":  # of floats, `_wrong_labels` tells how many are missing
        label_values(y, name=f"the target {target!r}")
    if y.shape != X.shape[:1]:
        raise InvalidInput(f"{target!r} has the shape {y.shape} for {X.shape[0]} rows of {chosen}")
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(**{target: y})
