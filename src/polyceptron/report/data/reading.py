"""A table of samples as features and labels, or one error message with all that is wrong with it.

Every column gets a role: numbers are used as they are, text of few values is encoded, and columns
that would mislead (constant ones, dates, those that only number the rows, text that differs from
row to row) are named and left out, unless they are asked for. Text such as "$1,000" or "12 %" is
read as a number, "?" as a missing value, and the report says so. Filling and encoding are
transformers of scikit-learn, which are fitted together with a classifier, on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from polyceptron.data.checks import check_choice
from polyceptron.data.labels import class_labels
from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable
from polyceptron.report.data.columns import (
    CATEGORY,
    NUMBER,
    Column,
    column_role,
    column_values,
    mark_missing_words,
    read_written_numbers,
)
from polyceptron.report.data.table_files import TEXT_KINDS, kind_of_file, read_frame

MISSING = ("refuse", "fill", "drop-rows")
MOST_NAMES_SHOWN = 8  # columns or classes named in a message
FEWEST_SAMPLES_OF_A_CLASS = 3
# A target of numbers is one to predict, not a class, if it has more different values than these:
# fractions than the larger of a count and a share of the rows; whole numbers, most of a range.
MOST_NUMERIC_CLASSES = 20
MOST_NUMERIC_CLASSES_SHARE = 0.1
MOST_WHOLE_CLASSES = 30
SHARE_OF_A_DENSE_RANGE = 0.5


@dataclass(frozen=True)
class Table:
    """Features and labels of a table, and what was done to it.

    Attributes
    ----------
    X : pandas.DataFrame (n, columns)
    y : array (n,)
    source : str
        The name of the file, or "the table".
    target : str
        The column of the labels.
    categories : tuple of str
        Columns to be encoded.
    left_out : dict
        The reason for each column that is not used.
    filled : dict
        How many values of each column are missing and to be filled.
    dropped_rows : int
        Rows left out because they had missing values.
    understood : dict
        For each column of text that was read as numbers, or as missing values, an example of each.
    read_as : str
        What was assumed of a file of text; empty for UTF-8 with commas.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    source: str
    target: str = "target"
    categories: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    filled: dict[str, int] = field(default_factory=dict)
    dropped_rows: int = 0
    understood: dict[str, str] = field(default_factory=dict)
    read_as: str = ""

    def encoder(self) -> ColumnTransformer:
        """Return a transformer that fills missing values and encodes categories as numbers."""
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
    source: Path | pd.DataFrame,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: str = "refuse",
) -> Table:
    """Read samples from a file or a data frame.

    Parameters
    ----------
    source : Path or pandas.DataFrame
        A file of text (.csv, .tsv, .txt, each also with .gz), .xlsx, .parquet, .feather or .npz.
    target : str or None
        The column, or the array, of the labels; by default 'y' in an .npz file.
    drop, keep : sequence of str
        Columns that are not looked at, and columns that are used whatever they look like. A target
        that looks like a number to predict is kept as classes.
    missing : {'refuse', 'fill', 'drop-rows'}
        Whether missing values are refused, filled (by the median, or the most frequent value), or
        their rows dropped.

    Returns
    -------
    Table
    """
    check_choice("missing", missing, MISSING)
    given = _open(source, target)
    frame = given.frame
    target = _check_names(frame, given.name, given.target, (*drop, *keep))
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise InvalidInput("there are no features: every column is the target or dropped")
    columns = _sorted_columns(features, keep)
    is_kept = _kept_rows(columns.used, frame[target], missing)
    used = columns.used[is_kept]
    labels = frame[target][is_kept]
    if given.is_text and labels.dtype == object:  # pandas may read a part as numbers
        labels = labels.map(_bare_text, na_action="ignore")
    holes = _missing_counts(used)
    X = {str(name): column_values(used[name], columns.roles[str(name)]) for name in used}
    complaints = [
        *_repeated_names(frame.attrs.get("names", {})),
        *_wrong_labels(labels, target, keep),
        *_missing_values(used, holes, missing),
        *_infinite_values(X),
        *_nothing_left(X, columns.left_out),
    ]
    if complaints:
        raise InvalidInput("; ".join(complaints))
    return Table(
        X=pd.DataFrame(X),
        y=_plain_labels(labels),
        source=given.name,
        target=target,
        categories=tuple(name for name in X if columns.roles[name] == CATEGORY),
        left_out=columns.left_out,
        filled=holes,
        dropped_rows=int((~is_kept).sum()),
        understood={name: text for name, text in columns.understood.items() if name in X},
        read_as=frame.attrs.get("read_as", ""),
    )


class _Source(NamedTuple):
    """What a user gave: the name of the table, its columns, whether it was text, the target."""

    name: str
    frame: pd.DataFrame
    is_text: bool
    target: str | None


def _open(source: Path | pd.DataFrame, target: str | None) -> _Source:
    """Return the columns of a file or of a data frame; the target of an .npz file is 'y'."""
    if isinstance(source, pd.DataFrame):
        return _Source("the table", source.copy(), False, target)
    check_readable(source, "table")
    kind = kind_of_file(source)
    if kind == ".npz" and not target:
        target = "y"
    return _Source(source.name, read_frame(source, target), kind in TEXT_KINDS, target)


def _kept_rows(used: pd.DataFrame, labels: Column, missing: str) -> NDArray[np.bool_]:
    """Return which rows (n,) are used: without "drop-rows" all of them."""
    is_kept = np.full(len(used), True)
    if missing == "drop-rows":
        is_kept = used.notna().all(axis=1).to_numpy() & ~_is_blank(labels)
    if len(used.columns) and not is_kept.any():
        raise InvalidInput("every row has missing values: give --missing fill, or --drop")
    return is_kept


def _missing_counts(used: pd.DataFrame) -> dict[str, int]:
    """Return how many values are missing in each column that misses some."""
    return {str(name): int(count) for name, count in used.isna().sum().items() if count}


class _Columns(NamedTuple):
    """Columns by what they are good for.

    Attributes
    ----------
    used : pandas.DataFrame
    roles : dict
        Of every column: number, category, or the reason why it is left out.
    left_out : dict
        The reasons alone.
    understood : dict
        An example of the text of each column that was read as numbers or as missing.
    """

    used: pd.DataFrame
    roles: dict[str, str]
    left_out: dict[str, str]
    understood: dict[str, str]


def _sorted_columns(features: pd.DataFrame, keep: Sequence[str]) -> _Columns:
    """Return the columns by their roles; text that stands for numbers is replaced in place."""
    missing_words = mark_missing_words(features)
    written_numbers = read_written_numbers(features)
    understood = {name: f"{text!r} as a number" for name, text in written_numbers.items()}
    for name, word in missing_words.items():
        before = f"{understood[name]}, " if name in understood else ""
        understood[name] = f"{before}{word!r} as missing"
    roles = {str(name): column_role(features[name], name in keep, str(name)) for name in features}
    left_out = {name: role for name, role in roles.items() if role not in (NUMBER, CATEGORY)}
    return _Columns(features.drop(columns=list(left_out)), roles, left_out, understood)


def _bare_text(value: Any) -> str:
    """Return a value as text without blanks around it, which tables of aligned columns have."""
    return str(value).strip()


def _plain_labels(labels: Column) -> NDArray[Any]:
    """Return numbers as they are, and anything else as text without blanks around it."""
    y = labels.to_numpy()
    if y.dtype.kind in "iufb":
        return y
    return np.char.strip(y.astype(str))


def _check_names(frame: pd.DataFrame, name: str, target: str | None, others: Sequence[str]) -> str:
    """Return the target if it and all other columns that were named are there."""
    if frame.empty:
        raise InvalidInput(f"{name!r} has no rows")
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


def _missing_values(used: pd.DataFrame, holes: Mapping[str, int], missing: str) -> list[str]:
    """Say which columns have missing values, where they are refused, and what to do about it."""
    if missing != "refuse":
        return []
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


def _wrong_labels(column: Column, name: str, keep: Sequence[str]) -> list[str]:
    """Return all that is wrong with the target."""
    blank = _is_blank(column)
    if blank.any():
        return [
            f"the target {name!r} has {blank.sum()} missing values, the first in data row "
            f"{blank.argmax() + 1}: drop those rows first, or give --missing drop-rows"
        ]
    y = column.to_numpy()
    if name not in keep and _is_a_quantity(y):
        return [
            f"the target {name!r} has {np.unique(y).size} different values in {y.size} rows: that "
            f"is a number to predict, not a class; group it into classes first, or give --keep "
            f"{name} if each number is a class"
        ]
    try:
        class_labels(y, name=f"the target {name!r}")
    except InvalidInput as error:
        return [str(error)]
    return _rare_classes(y, name)


def _is_blank(labels: Column) -> NDArray[np.bool_]:
    """Return which labels (n,) are missing or have no letter."""
    return np.asarray(labels.isna() | labels.astype(str).str.strip().eq(""), dtype=bool)


def _is_a_quantity(y: NDArray[Any]) -> bool:
    """Return whether numbers look like a quantity to predict rather than names of classes."""
    if y.dtype.kind not in "iuf":
        return False
    values = np.unique(y)
    if not np.isfinite(values).all():
        return False  # which is told in words of its own
    if y.dtype.kind == "f" and (values % 1 != 0).any():
        return values.size > max(MOST_NUMERIC_CLASSES, MOST_NUMERIC_CLASSES_SHARE * y.size)
    is_dense = values.size > SHARE_OF_A_DENSE_RANGE * (float(values[-1]) - float(values[0]) + 1)
    is_most_rows = values.size > MOST_NUMERIC_CLASSES_SHARE * y.size
    return values.size > MOST_WHOLE_CLASSES and (is_dense or is_most_rows)


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
