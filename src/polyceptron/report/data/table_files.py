"""Tables as they come on disk: text, spreadsheets, Parquet, Feather, or arrays in an .npz file.

`read_frame` returns a pandas frame. What pandas would hide is kept in `frame.attrs`: `names` says
how often each column name stands in the file, `read_as` what was assumed to read it.
"""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd

from polyceptron.data.labels import label_values
from polyceptron.errors import InvalidInput
from polyceptron.files import DAMAGED_FILE_ERRORS, check_archive

TEXT_KINDS = (".csv", ".tsv", ".txt")
KINDS = (*TEXT_KINDS, ".xlsx", ".parquet", ".feather", ".npz")
# An archive may take this share of the memory: its arrays are copied several times.
SHARE_OF_MEMORY = 1 / 8
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
BYTES_LOOKED_AT = 65_536  # of a text, to find its encoding and its separator
INSTALL = {
    ".xlsx": "reading .xlsx needs openpyxl: install it with pip",
    ".parquet": "reading Parquet needs pyarrow: install it, or polyceptron[export]",
    ".feather": "reading Feather needs pyarrow: install it, or polyceptron[export]",
}


def kind_of_file(path: Path) -> str:
    """Return the ending of a table's name, without the .gz of a compressed text.

    >>> kind_of_file(Path("wine.CSV.gz"))
    '.csv'
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind not in KINDS:
        endings = ", ".join(KINDS)
        raise InvalidInput(
            f"cannot read {path.name!r}: a table is a file that ends in {endings}, or in .csv.gz"
        )
    return kind


def read_frame(path: Path, target: str | None) -> pd.DataFrame:
    """Return the table in a file; the labels of an .npz file are its array `target`."""
    kind = kind_of_file(path)
    if kind == ".npz" and target:
        return _read_arrays(path, target)
    try:
        if kind in TEXT_KINDS:
            return _read_text(path)
        if kind == ".xlsx":
            return pd.read_excel(path)
        if kind == ".feather":
            return pd.read_feather(path)
        return pd.read_parquet(path)
    except ImportError:
        raise InvalidInput(INSTALL[kind]) from None
    except DAMAGED_FILE_ERRORS as error:
        raise _unreadable(path, kind, error) from None


def _read_text(path: Path) -> pd.DataFrame:
    """Return a table of text, whatever its separator, encoding and decimal sign."""
    start = _first_bytes(path)
    encoding = _encoding(start)
    separator = _separator(start.decode(encoding, errors="ignore"))
    frame = pd.read_csv(path, sep=separator, encoding=encoding)
    if separator == ";":
        with_decimal_comma = pd.read_csv(path, sep=separator, encoding=encoding, decimal=",")
        numbers = with_decimal_comma.select_dtypes("number")
        frame[numbers.columns] = numbers
    header = pd.read_csv(
        path, sep=separator, encoding=encoding, header=None, nrows=1, dtype=str
    ).iloc[0]
    frame.attrs["names"] = header.value_counts().to_dict()
    frame.attrs["read_as"] = _words_of_reading(separator, encoding)
    return frame


def _first_bytes(path: Path) -> bytes:
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            return file.read(BYTES_LOOKED_AT)
    with open(path, "rb") as file:
        return file.read(BYTES_LOOKED_AT)


def _encoding(start: bytes) -> str:
    """Return UTF-8 where the text is that, else Latin-1, which every text of bytes can be.

    Bytes that no text has are left to UTF-8, which refuses them.
    """
    if b"\x00" in start:
        return "utf-8"
    try:
        start[: start.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8-sig"


def _separator(text: str) -> str:
    """Return the separator of most columns that the first lines agree on; a comma for none."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if len(lines) > 2:
        lines = lines[:-1]  # the last one may be cut
    best = ","
    most_columns = 1
    for separator in SEPARATORS:
        counts = {len(row) for row in csv.reader(lines, delimiter=separator)}
        if len(counts) == 1 and max(counts) > most_columns:
            best = separator
            most_columns = max(counts)
    return best


def _words_of_reading(separator: str, encoding: str) -> str:
    """Return what was assumed of a text that is not UTF-8 with commas; else nothing."""
    words = []
    if separator != ",":
        words.append(f"columns separated by {SEPARATORS[separator]}")
    if encoding == "latin-1":
        words.append("letters in Latin-1")
    return " and ".join(words)


def _read_arrays(path: Path, target: str) -> pd.DataFrame:
    """Return the array `X`, or the only matrix of the file, with the labels `target`."""
    check_archive(path, "table", share=SHARE_OF_MEMORY)
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except DAMAGED_FILE_ERRORS as error:
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


NAMES_OF_KINDS = {".parquet": "Parquet", ".feather": "Feather", ".xlsx": "a spreadsheet"}


def _unreadable(path: Path, kind: str, error: Exception) -> InvalidInput:
    """Return an error message with the first line of the reader's own."""
    name = NAMES_OF_KINDS.get(kind, "a table")
    if kind == ".npz":
        name = ".npz"
    lines = str(error).strip().splitlines()
    reason = lines[0] if lines else type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        reason += "; save it as UTF-8"
    return InvalidInput(f"cannot read {path.name!r} as {name}: {reason}")
