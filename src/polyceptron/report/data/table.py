"""A file of samples as features and labels, or an error message about what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.files import check_archive, check_readable

if TYPE_CHECKING:
    import pandas as pd

_KINDS = (".csv", ".tsv", ".parquet", ".npz")
_SHOWN = 8  # names of columns in a message


@dataclass(frozen=True)
class Table:
    """Features X (n, d) with their names, and labels y (n,)."""

    X: NDArray[np.float64]
    y: NDArray[Any]
    names: list[str]
    source: str


def read_samples(path: Path, target: str | None, drop: Sequence[str] = ()) -> Table:
    """Samples from CSV, TSV, Parquet or .npz; `target` names the labels."""
    check_readable(path, "table")
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise InvalidInput(
            f"cannot read {path.name!r}: a table is a file that ends in {', '.join(_KINDS)}"
        )
    if kind == ".npz":
        frame, target = _from_arrays(path, target or "y")
    else:
        frame = _from_columns(path, kind)
    if frame.empty:
        raise InvalidInput(f"{path.name!r} has no rows")
    if target is None:
        raise InvalidInput(f"name the column of the labels with --target; there are {_list(frame)}")
    missing = [name for name in (target, *drop) if name not in frame.columns]
    if missing:
        raise InvalidInput(f"there is no column {missing[0]!r}: there are {_list(frame)}")
    y = _labels(frame[target], target)
    features = frame.drop(columns=[target, *drop])
    if features.shape[1] == 0:
        raise InvalidInput("there are no features: every column is the target or dropped")
    columns = [_numbers(features[name], str(name)) for name in features.columns]
    return Table(np.column_stack(columns), y, [str(c) for c in features.columns], path.name)


def _from_columns(path: Path, kind: str) -> pd.DataFrame:
    import pandas as pd

    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        frame = pd.read_csv(path, sep="\t" if kind == ".tsv" else ",")
        return pd.read_csv(path, sep=";") if frame.shape[1] == 1 and kind == ".csv" else frame
    except ImportError:
        raise InvalidInput(
            "reading Parquet needs pyarrow: install it, or polyceptron[export]"
        ) from None
    except (ValueError, OSError) as error:  # those of parsing and decoding are ValueErrors
        word = "Parquet" if kind == ".parquet" else "a table"
        raise InvalidInput(f"cannot read {path.name!r} as {word}: {_first_line(error)}") from None


def _from_arrays(path: Path, target: str) -> tuple[pd.DataFrame, str]:
    """The array `X`, or the only matrix of the file, and the labels `target`."""
    import zipfile

    import pandas as pd

    check_archive(path, "table", share=1 / 8)  # it is copied several times
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"cannot read {path.name!r} as .npz: {_first_line(error)}") from None
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
    frame[target] = y
    return frame, target


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
    import pandas as pd

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


def _list(frame: pd.DataFrame) -> str:
    names = [repr(str(name)) for name in frame.columns]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
