"""Tables of results as pictures read them: from a file, some of the rows, and their words."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable
from polyceptron.pictures.parts import missing
from polyceptron.rows import PLACES
from polyceptron.store import Store

if TYPE_CHECKING:
    import pandas as pd

Row = dict[Hashable, Any]
SQLITE_HEADER = b"SQLite format 3\x00"
PARQUET_HEADER = b"PAR1"
WORDS_OF_COLUMNS = {
    "n_classes": "*k = {:g}*",
    "alpha": "*α = {:g}*",
    "prior": "{} weights",
    "ridge": "*λ = {:.3g}*",
    "dimension": "*d = {:.4g}*",
    "n_samples": "*n = {:.4g}*",
    "intercept": "intercepts",
    "class_weight": "{} class weights",
    "shares": "shares {}",
}
# Columns that say how a row was made or what it found, not which problem it belongs to.
NOT_OF_THE_PROBLEM = (
    "source",
    "estimator",
    "branch",
    "ridge",
    "dimension",
    "n_samples",
    "status",
    "version",
    "reason",
    "table",
    "recall",
    "confusion",
    "intercepts",
)
# Columns of a problem that are too long for a title.
NOT_IN_A_TITLE = (*NOT_OF_THE_PROBLEM, "samples", "biases", "gram", "levels")
GOES_WITHOUT_SAYING = ("", "none", "isotropic", "argmax")


def read_table(path: str | Path) -> pd.DataFrame:
    """Return the rows of a store or of a table, whose first bytes tell which it is."""
    check_readable(path, "file")
    try:
        table = _read_by_header(path)
    except (OSError, ImportError) as error:
        raise InvalidInput(f"cannot read {str(path)!r}: {error}") from None
    except ValueError:  # pandas' own errors are ValueErrors, and so are those of Unicode
        raise InvalidInput(f"{str(path)!r} is neither a store nor a table in CSV") from None
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: {str(path)!r} has no rows")
    return table


def _read_by_header(path: str | Path) -> pd.DataFrame:
    import pandas as pd

    with open(path, "rb") as file:
        start = file.read(len(SQLITE_HEADER))
    if start == SQLITE_HEADER:
        with Store(path) as store:
            return store.frame()
    if start.startswith(PARQUET_HEADER):
        return pd.read_parquet(path)
    return pd.read_csv(path)


def select_rows(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """Return the rows that meet every condition COLUMN=VALUE; raise if there are none."""
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in table:
            known = ", ".join(map(str, table.columns))
            raise InvalidInput(
                f"a condition is COLUMN=VALUE with one of {known}, got {condition!r}"
            )
        wanted = _value_in_column(table, name, value, condition)
        table = table[(table[name] == wanted).fillna(False).astype(bool)]
        if table.empty:
            raise InvalidInput(f"there is nothing to draw: no row has {condition}")
    return table.reset_index(drop=True)


def _value_in_column(table: pd.DataFrame, name: str, value: str, condition: str) -> float | str:
    """Return the value of a condition as the column holds it, a number or a word."""
    if name not in numeric_columns(table):
        return value
    try:
        return float(value)
    except ValueError:
        raise InvalidInput(f"{name} is a number, got {condition!r}") from None


def numeric_columns(table: pd.DataFrame) -> list[str]:
    """Return the names of the columns of numbers."""
    return [str(name) for name in table.select_dtypes(["number", "bool"]).columns]


def check_column(table: pd.DataFrame, name: str) -> None:
    """Raise unless the table has numbers under this name."""
    numeric = [column for column in numeric_columns(table) if column != "table"]
    if not numeric:
        raise InvalidInput(f"there is nothing to draw: the table has no numbers, and no {name!r}")
    if name not in numeric:
        known = ", ".join(numeric)
        raise InvalidInput(f"{name!r} is not a column of numbers of this table: it has {known}")


def text(value: object) -> str:
    """Return the value as text, empty for a missing one."""
    if missing(value):
        return ""
    return str(value)


def fact(name: str, value: Any) -> str:
    """Return a value of a column in words, as *k = 3*; empty where it goes without saying.

    >>> fact("n_classes", 3), fact("noise", "none")
    ('*k = 3*', '')
    """
    if text(value) in ("", "none", "isotropic"):
        return ""
    if name == "shares":
        value = ", ".join(f"{float(share):.3g}" for share in value.split(","))
    if name in WORDS_OF_COLUMNS:
        return WORDS_OF_COLUMNS[name].format(value)
    if isinstance(value, str):
        return value
    return f"*{name} = {value:.4g}*"


def ridge_words(ridge: float) -> str:
    """Return *λ = 1*, or the limit of a ridge of 0.

    >>> ridge_words(0.0)
    '*λ → 0^{+}*'
    """
    if ridge == 0:
        return "*λ → 0^{+}*"
    return fact("ridge", ridge)


def problem_words(table: pd.DataFrame) -> str:
    """Return what all rows share, for a title: *k = 3*, gaussian weights."""
    words = []
    others = [name for name in table.columns if name not in PLACES]
    for name in ("model", "n_classes", *others):
        if name in table and name not in NOT_IN_A_TITLE and table[name].nunique() == 1:
            value = table[name].dropna().iloc[0]
            tells = isinstance(value, str) or name in PLACES
            if tells and value not in GOES_WITHOUT_SAYING:
                words.append(fact(name, value))
    return ", ".join(word for word in dict.fromkeys(words) if word)
