"""Arrays from whatever the caller has: numbers, or one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """`values` as an array of real numbers, in its own type if that is a number, else as doubles.

    Text, ragged lists, sparse matrices, complex numbers and masked entries are refused: numpy
    would drop an imaginary part or a mask without a word.

    >>> as_numbers([[1, 2]], "X").shape
    (1, 2)
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} must be an array of numbers, got {_describe(values)}") from None
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must hold real numbers, got {array.dtype} entries")
    if np.ma.is_masked(values):
        raise InvalidInput(f"{name} has masked entries: fill or drop them first")
    return array


def _describe(values: Any) -> str:
    kind = type(values).__name__
    return f"a ragged or non-numeric {kind}" if isinstance(values, list | tuple) else f"a {kind}"
