"""Which columns of X (n, d) a test of features is of, and checks of what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polyceptron.checks import as_numbers
from polyceptron.errors import InvalidInput
from polyceptron.fit.feature_reasons import CONSTANT
from polyceptron.numerics import Array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Of entries divided by the roots of both diagonal ones: more than inversion leaves, far less than
# what would change a test.
ASYMMETRY_BY_ROUNDING = 1e-6


def column_indices(
    joint: Mapping[str, Sequence[int | str]], names: NDArray[Any]
) -> dict[str, NDArray[np.int64]]:
    """Return the numbers (m,) of the columns of each joint test, or raise an error message.

    A string is the name of a column, or where none has it the number; an integer is a number.
    """
    numbers = {str(number): number for number in range(names.size)}
    named = numbers | {str(name): number for number, name in enumerate(names)}

    def number_of(column: int | str) -> int | None:
        """Return the number of a column, None where there is none."""
        if isinstance(column, str):
            return named.get(column)
        return numbers.get(str(column))

    indices: dict[str, NDArray[np.int64]] = {}
    used: set[int] = set()
    for group, columns in joint.items():
        found = [number_of(column) for column in columns]
        own = np.array([number for number in found if number is not None], np.int64)
        if own.size < len(columns) or not len(columns):
            raise InvalidInput(f"joint test {group!r} needs columns of X, got {list(columns)}")
        if used & set(own.tolist()) or len(set(own.tolist())) < own.size:
            raise InvalidInput(f"joint test {group!r} has a column that is in a test already")
        used |= set(own.tolist())
        indices[group] = own
    return indices


def with_constant_features(
    table: pd.DataFrame, names: NDArray[Any], members: dict[str, NDArray[np.int64]]
) -> pd.DataFrame:
    """Return the table with a row for each feature that is constant, in the order of the columns.

    Parameters
    ----------
    table : DataFrame
        Rows of features that vary, and of joint tests.
    names : (d,)
        Of all features.
    members : dict of str to (m,)
        Columns of each joint test.
    """
    shown = names.astype(object)
    for group, own in members.items():
        shown[own] = group
    whole = table.reindex(pd.unique(shown))
    whole.index.name = table.index.name
    constant = whole["reason"].isna()  # a row that was not in the table: every other has a string
    whole.loc[constant, "reason"] = CONSTANT
    whole["degrees_of_freedom"] = whole["degrees_of_freedom"].fillna(0).astype(int)
    return whole


def check_precision(precision: ArrayLike, d: int) -> Array:
    """Return the precision matrix (d, d) of the features, or raise an error message."""
    inverse = as_numbers(precision, "precision").astype(float)
    if inverse.shape != (d, d) or not (np.diag(inverse) > 0).all():
        raise InvalidInput(f"precision must be ({d}, {d}) and positive, got {precision!r}")
    scale = np.sqrt(np.diag(inverse))
    partial = inverse / np.outer(scale, scale)  # ±1 at most, whatever the units of the features
    if not np.abs(partial - partial.T).max() <= ASYMMETRY_BY_ROUNDING:
        raise InvalidInput("precision must be symmetric, as the inverse of a covariance is")
    if not np.linalg.eigvalsh(partial)[0] > 0:
        raise InvalidInput("precision must be positive definite, as the inverse of a covariance is")
    return inverse
