"""Tables as they come on disk: CSV, TSV, Parquet, or arrays in an .npz file.

`read_frame` returns a pandas frame. What pandas would hide is kept in `frame.attrs["names"]`: how
often each column name stands in the file.
"""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from polyceptron.data.labels import label_values
from polyceptron.errors import InvalidInput
from polyceptron.files import check_archive

KINDS = (".csv", ".tsv", ".parquet", ".npz")
# An archive may take this share of the memory: its arrays are copied several times.
SHARE_OF_MEMORY = 1 / 8


def read_frame(path: Path, target: str | None) -> pd.DataFrame:
    """Return the table in a file; the labels of an .npz file are its array `target`."""
    kind = path.suffix.lower()
    if kind == ".npz" and target:
        return _read_arrays(path, target)
    try:
        if kind == ".parquet":
            return pd.read_parquet(path)
        return _read_text(path, kind)
    except ImportError:
        text = "reading Parquet needs pyarrow: install it, or polyceptron[export]"
        raise InvalidInput(text) from None
    except (ValueError, OSError) as error:  # errors of parsing and decoding are ValueErrors
        what = "Parquet" if kind == ".parquet" else "a table"
        raise _unreadable(path, what, error) from None


def _read_text(path: Path, kind: str) -> pd.DataFrame:
    """Return a table of text; one with semicolons may have a comma for the decimal point."""
    separator = "\t" if kind == ".tsv" else ","
    frame = pd.read_csv(path, sep=separator)
    if frame.shape[1] == 1 and kind == ".csv":
        separator = ";"
        frame = pd.read_csv(path, sep=";")
        with_decimal_comma = pd.read_csv(path, sep=";", decimal=",").select_dtypes("number")
        frame[with_decimal_comma.columns] = with_decimal_comma
    header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0]
    frame.attrs["names"] = header.value_counts().to_dict()
    return frame


def _read_arrays(path: Path, target: str) -> pd.DataFrame:
    """Return the array `X`, or the only matrix of the file, with the labels `target`."""
    check_archive(path, "table", share=SHARE_OF_MEMORY)
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, ".npz", error) from None
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    chosen = None
    if "X" in matrices:
        chosen = "X"
    elif len(matrices) == 1:
        chosen = matrices[0]
    if target not in arrays or chosen is None:
        raise InvalidInput(
            f"an .npz file needs a matrix 'X' and labels {target!r} (or --target); "
            f"{path.name!r} has {', '.join(arrays) or 'nothing'}"
        )
    X = arrays[chosen]
    y = arrays[target]
    if y.dtype.kind != "f":  # how many floats are missing is told with the other complaints
        label_values(y, name=f"the target {target!r}")
    if y.shape != X.shape[:1]:
        raise InvalidInput(f"{target!r} has the shape {y.shape} for {X.shape[0]} rows of {chosen}")
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(**{target: y})


def _unreadable(path: Path, kind: str, error: Exception) -> InvalidInput:
    """Return an error message with the first line of the reader's own."""
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        reason += "; save it as UTF-8"
    return InvalidInput(f"cannot read {path.name!r} as {kind}: {reason}")
