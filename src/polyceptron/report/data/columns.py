"""What a column of a table is good for: numbers, categories, or the reason why it is left out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

NUMBER = "number"
CATEGORY = "category"
MOST_CATEGORIES = 30  # different values up to which text is a category
# A column of whole numbers without gaps may be a count in a shorter table than this.
FEWEST_ROWS_OF_AN_INDEX = 10


def column_role(column: pd.Series[Any], keep: bool) -> str:
    """Return 'number', 'category', or why the column is left out.

    Parameters
    ----------
    column : pandas.Series
    keep : bool
        Whether the user asked for it: then it is used whatever it looks like.
    """
    seen = column.dropna()
    n_distinct = seen.nunique()
    if n_distinct <= 1:
        if keep and _holds_numbers(column):
            return NUMBER
        return "constant" if n_distinct else "no values"
    if _holds_numbers(column):
        return _role_of_numbers(column, seen, n_distinct, keep)
    if days_since_first(seen) is not None:
        return NUMBER if keep else "dates"
    if n_distinct > MOST_CATEGORIES and not keep:
        return _reason_against_text(column, n_distinct)
    return CATEGORY


def _holds_numbers(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)


def _role_of_numbers(
    column: pd.Series[Any], seen: pd.Series[Any], n_distinct: int, keep: bool
) -> str:
    """Return 'number', unless the column only numbers the rows or is complex."""
    if np.asarray(seen).dtype.kind == "c":
        return "complex numbers"
    n_rows = len(column)
    if keep or n_rows < FEWEST_ROWS_OF_AN_INDEX or n_distinct != n_rows:
        return NUMBER
    without_gaps = seen.max() - seen.min() == n_rows - 1
    if without_gaps and (seen % 1 == 0).all():
        return "it numbers the rows"
    return NUMBER


def _reason_against_text(column: pd.Series[Any], n_distinct: int) -> str:
    """Say why text of many values is left out: mostly numbers with some words, or all text."""
    words = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
    if words.sum() < column.notna().sum() / 2:
        example = f"{column[words].iloc[0]!r} in data row {words.argmax() + 1}"
        return f"text in {words.sum()} of {len(column)} rows, {example}"
    return f"text of {n_distinct} values"


def days_since_first(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return the days since the first date of a column, None unless all its values are dates."""
    dates = _as_dates(column)
    if dates is None:
        return None
    days: pd.Series[Any] = (dates - dates.dt.normalize().min()) / pd.Timedelta(days=1)
    return days


def _as_dates(column: pd.Series[Any]) -> pd.Series[Any] | None:
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


def column_values(column: pd.Series[Any], role: str) -> NDArray[Any]:
    """Return numbers as doubles, and categories as text with None where there is nothing."""
    if role == CATEGORY:
        return np.array([None if pd.isna(v) else str(v) for v in column], dtype=object)
    if not _holds_numbers(column):
        seen = column.dropna()
        days = days_since_first(seen)
        if days is not None:
            seen = days
        column = seen.reindex(column.index)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def read_percentages(features: pd.DataFrame) -> None:
    """Replace columns of text such as '12 %' by their numbers, where every value is one."""
    for name in features.select_dtypes(exclude=["number", "bool"]):
        text = features[name].astype(str).str.rstrip(" %")
        numbers = pd.to_numeric(text, errors="coerce")
        if numbers.notna().sum() == features[name].notna().sum():
            features[name] = numbers
