"""What a column of a table is good for: numbers, categories, or the reason why it is left out."""

from __future__ import annotations

import re
import warnings
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Column: TypeAlias = "pd.Series[Any]"

NUMBER = "number"
CATEGORY = "category"
MOST_CATEGORIES = 30  # different values up to which text is a category
# A column of rising whole numbers may be a count in a shorter table than this.
FEWEST_ROWS_OF_AN_INDEX = 10
# A name that pandas or a spreadsheet gives to an index when it is saved as a column.
NAME_OF_AN_INDEX = re.compile(r"(unnamed: \d+|index|level_\d+|row ?(names?|id)?)", re.IGNORECASE)
CURRENCIES = "$€£¥"
ANYWHERE_MISSING = "?"
MISSING_AMONG_NUMBERS = (ANYWHERE_MISSING, "-", "--", ".", "*")
_THOUSANDS = re.compile(r"^\d{1,3}(,\d{3})+(\.\d+)?$")


def column_role(column: Column, keep: bool, name: str = "") -> str:
    """Return 'number', 'category', or why the column is left out.

    Parameters
    ----------
    column : pandas.Series
    keep : bool
        Whether the user asked for it: then it is used whatever it looks like.
    name : str
    """
    seen = column.dropna()
    n_distinct = seen.nunique()
    if n_distinct <= 1:
        if keep and _holds_numbers(column):
            return NUMBER
        return "constant" if n_distinct else "no values"
    if _holds_numbers(column):
        return _role_of_numbers(column, keep, name)
    if days_since_first(seen) is not None:
        return NUMBER if keep else "dates"
    if n_distinct > MOST_CATEGORIES and not keep:
        return _reason_against_text(column, n_distinct)
    return CATEGORY


def _holds_numbers(column: Column) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)


def _role_of_numbers(column: Column, keep: bool, name: str) -> str:
    """Return 'number', unless the column only numbers the rows or is complex."""
    seen = column.dropna()
    if np.asarray(seen).dtype.kind == "c":
        return "complex numbers"
    if not keep and _numbers_the_rows(column, name):
        return "it numbers the rows"
    return NUMBER


def _numbers_the_rows(column: Column, name: str) -> bool:
    """Return whether every row has a whole number of its own, without gaps or under such a name.

    An index that was saved as a column has gaps where rows were dropped before, and any order where
    they were shuffled.
    """
    n_rows = len(column)
    if n_rows < FEWEST_ROWS_OF_AN_INDEX or column.nunique() != n_rows:
        return False
    if not (column % 1 == 0).all():
        return False
    without_gaps = column.max() - column.min() == n_rows - 1
    has_its_name = NAME_OF_AN_INDEX.fullmatch(name.strip()) is not None
    return bool(without_gaps or has_its_name)


def _reason_against_text(column: Column, n_distinct: int) -> str:
    """Say why text of many values is left out: mostly numbers with some words, or all text."""
    words = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
    if words.sum() < column.notna().sum() / 2:
        example = f"{column[words].iloc[0]!r} in data row {words.argmax() + 1}"
        return f"text in {words.sum()} of {len(column)} rows, {example}"
    return f"text of {n_distinct} values"


def days_since_first(column: Column) -> Column | None:
    """Return the days since the first date of a column, None unless all its values are dates."""
    dates = _as_dates(column)
    if dates is None:
        return None
    days: Column = (dates - dates.dt.normalize().min()) / pd.Timedelta(days=1)
    return days


def _as_dates(column: Column) -> Column | None:
    """Return a column as dates, the month before the day unless only the other order reads."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return column
    if not column.astype(str).str.contains(r"\d[-/.:]\d").all():
        return None
    for day_first in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = pd.to_datetime(column, errors="coerce", utc=True, dayfirst=day_first)
        if not dates.isna().any():
            return dates
    return None


def column_values(column: Column, role: str) -> NDArray[Any]:
    """Return numbers as doubles, and categories as text with None where there is nothing.

    Blanks around the text are left out.
    """
    if role == CATEGORY:
        return np.array([None if pd.isna(v) else str(v).strip() for v in column], dtype=object)
    if not _holds_numbers(column):
        seen = column.dropna()
        days = days_since_first(seen)
        if days is not None:
            seen = days
        column = seen.reindex(column.index)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def mark_missing_words(features: pd.DataFrame) -> dict[str, str]:
    """Replace words for a missing value by missing values, in place.

    "?" stands for one everywhere; "-", "." and "*" where all other values are numbers.

    Returns
    -------
    dict
        For each column with such a word, the word.
    """
    marked: dict[str, str] = {}
    for name in features.select_dtypes(exclude=["number", "bool", "datetime"]):
        words = features[name].astype(str).str.strip()
        is_marked = words.eq(ANYWHERE_MISSING)
        others = words[features[name].notna() & ~words.isin(MISSING_AMONG_NUMBERS)]
        if len(others) and others.map(_written_number).notna().all():
            is_marked |= words.isin(MISSING_AMONG_NUMBERS)
        if is_marked.any():
            marked[str(name)] = str(words[is_marked].iloc[0])
            features[name] = features[name].mask(is_marked)
    return marked


def read_written_numbers(features: pd.DataFrame) -> dict[str, str]:
    """Replace columns of text such as '12 %' or '$1,000' by their numbers, in place.

    Returns
    -------
    dict
        An example of the text of each column that was replaced, but for plain numbers.
    """
    understood: dict[str, str] = {}
    for name in features.select_dtypes(exclude=["number", "bool", "datetime"]):
        text = features[name]
        seen = text.dropna().astype(str)
        numbers = seen.map(_written_number)
        if len(seen) and numbers.notna().all():
            features[name] = numbers.astype(float).reindex(text.index)
            dressed = seen[pd.to_numeric(seen, errors="coerce").isna()]
            if len(dressed):
                understood[str(name)] = str(dressed.iloc[0])
    return understood


def _written_number(text: str) -> float | None:
    """Return the number that a text stands for, None for any other text.

    >>> _written_number("$1,000"), _written_number("12 %"), _written_number("blue")
    (1000.0, 12.0, None)
    """
    bare = text.strip().rstrip("%").strip()
    sign = 1.0
    if bare.startswith("(") and bare.endswith(")"):  # as accountants write what is negative
        sign = -1.0
        bare = bare[1:-1]
    bare = bare.strip(CURRENCIES + " ")
    if bare.startswith("-"):
        sign = -sign
        bare = bare[1:].strip(CURRENCIES + " ")
    if _THOUSANDS.match(bare):
        bare = bare.replace(",", "")
    try:
        return sign * float(bare)
    except ValueError:
        return None
