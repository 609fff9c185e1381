"""Tables as they come on disk: text, spreadsheets, Parquet, Feather, or arrays in an .npz file.

`read_frame` returns a pandas frame. What pandas would hide is kept in `frame.attrs`: `names` says
how often each column name stands in the file, `read_as` what was assumed to read it.
"""

import codecs
import csv
import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from polyceptron.data.labels import label_values
from polyceptron.errors import InvalidInput
from polyceptron.files import DAMAGED_FILE_ERRORS, check_archive
from polyceptron.numerics import AnyArray

TEXT_KINDS = (".csv", ".tsv", ".txt")
KINDS = (*TEXT_KINDS, ".xlsx", ".parquet", ".feather", ".npz")
# An archive may take this share of the memory: its arrays are copied several times.
SHARE_OF_MEMORY = 1 / 8
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
UTF_8 = "utf-8-sig"  # with or without a mark at the start
UTF_16 = "utf-16"
LATIN_1 = "latin-1"
WINDOWS = "cp1252"
NAMES_OF_ENCODINGS = {UTF_16: "UTF-16", LATIN_1: "Latin-1", WINDOWS: "Latin-1 of Windows"}
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
    try:
        frame = _read_separated(path, separator, encoding)
    except UnicodeDecodeError:  # the first letter that is not UTF-8 comes late in the file
        if encoding != UTF_8 or b"\x00" in start:
            raise
        encoding = LATIN_1
        frame = _read_separated(path, separator, encoding)
    frame.attrs["read_as"] = _words_of_reading(separator, encoding)
    return frame


def _read_separated(path: Path, separator: str, encoding: str) -> pd.DataFrame:
    """Return the columns between separators; beside semicolons a comma is a decimal sign."""
    frame = pd.read_csv(path, sep=separator, encoding=encoding)
    if separator == ";":
        with_decimal_comma = pd.read_csv(path, sep=separator, encoding=encoding, decimal=",")
        numbers = with_decimal_comma.select_dtypes("number")
        frame[numbers.columns] = numbers
    header = pd.read_csv(
        path, sep=separator, encoding=encoding, header=None, nrows=1, dtype=str
    ).iloc[0]
    frame.attrs["names"] = header.value_counts().to_dict()
    return frame


def _first_bytes(path: Path) -> bytes:
    """Return the beginning of a text, which may be compressed."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            return file.read(BYTES_LOOKED_AT)
    with open(path, "rb") as file:
        return file.read(BYTES_LOOKED_AT)


def _encoding(start: bytes) -> str:
    """Return the encoding of a text that begins with these bytes.

    It is UTF-16 if a mark says so, as in the "Unicode text" of spreadsheets, and UTF-8 where the
    bytes are that; else Latin-1, in which every byte is a letter, or its extension by Windows where
    bytes stand for the letters that it adds. Bytes that no text has are left to UTF-8, which
    refuses them.
    """
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return UTF_16
    if b"\x00" in start:
        return UTF_8
    whole_lines = start[: start.rfind(b"\n") + 1]
    for encoding in (UTF_8, WINDOWS):
        try:
            text = whole_lines.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == UTF_8 or text != whole_lines.decode(LATIN_1):
            return encoding
    return LATIN_1


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
    if encoding in NAMES_OF_ENCODINGS:
        words.append(f"letters in {NAMES_OF_ENCODINGS[encoding]}")
    return " and ".join(words)


def _read_arrays(path: Path, target: str) -> pd.DataFrame:
    """Return the array `X`, or the only matrix of the file, with the labels `target`."""
    arrays = _stored_arrays(path)
    name = _name_of_matrix(arrays)
    if target not in arrays or name is None:
        raise InvalidInput(
            f"an .npz file needs a matrix 'X' and labels {target!r} (or --target); "
            f"{path.name!r} has {', '.join(arrays) or 'nothing'}"
        )
    X = arrays[name]
    y = arrays[target]
    if y.dtype.kind != "f":  # how many floats are missing is told with the other complaints
        label_values(y, name=f"the target {target!r}")
    if y.shape != X.shape[:1]:
        raise InvalidInput(f"{target!r} has the shape {y.shape} for {X.shape[0]} rows of {name}")
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(**{target: y})


def _stored_arrays(path: Path) -> dict[str, AnyArray]:
    """Return the arrays of an .npz file by name; one that is too large or damaged is refused."""
    check_archive(path, "table", share=SHARE_OF_MEMORY)
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except DAMAGED_FILE_ERRORS as error:
        raise _unreadable(path, ".npz", error) from None


def _name_of_matrix(arrays: Mapping[str, AnyArray]) -> str | None:
    """Return 'X' or the name of the only matrix; None where there is none, or several."""
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if "X" in matrices:
        return "X"
    if len(matrices) == 1:
        return matrices[0]
    return None


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
