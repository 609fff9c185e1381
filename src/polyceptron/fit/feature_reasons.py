"""Why a feature has no test of its own, or one that says less than it seems.

Two features with correlation ±1 explain each other: neither matters given the other, whatever the
label depends on. Of near copies the tests say the same: a large p-value of both means that one of
them is enough, not that neither matters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import Array

CONSTANT = "constant"
DETERMINED = "determined by other features"
IN_ONE_HOT_CODE = f"{DETERMINED}, as in a full one-hot code: test its columns jointly"
# |correlation| of copies, up to the rounding of standardised features.
COPY = 1 - 1e-10
# |correlation| above which the deviation of either feature given the other is below a seventh.
NEAR_COPY = 0.99


def reasons(X: Array, names: NDArray[np.generic], tested: NDArray[np.bool_]) -> list[str]:
    """Return a reason for every feature (d,), empty for one whose test stands for itself.

    Parameters
    ----------
    X : (n, d)
        Features of the samples, none of them constant.
    names : (d,)
    tested : (d,)
        Whether a feature has a test, which one that others determine has not.
    """
    centred = X - X.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=0)
    correlation = np.abs(unit.T @ unit)
    np.fill_diagonal(correlation, 0.0)
    nearest = correlation.argmax(axis=1)
    largest = correlation.max(axis=1)
    return [
        _reason(bool(has_test), float(size), str(names[other]))
        for has_test, size, other in zip(tested, largest, nearest, strict=True)
    ]


def _reason(tested: bool, correlation: float, other: str) -> str:
    """Return the reason of one feature, given its largest correlation and with which other."""
    if correlation >= COPY:
        return f"a copy of {other}: neither matters given the other"
    if not tested:
        return IN_ONE_HOT_CODE
    if correlation >= NEAR_COPY:
        return f"nearly a copy of {other}: a large p-value says that one of them is enough"
    return ""
