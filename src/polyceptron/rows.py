"""One tidy row for every result, whatever made it.

Theory, message passing and empirical risk minimisation emit the same columns, so that every
comparison is a group-by. A column that means nothing for a row is absent from it (and is NaN or
None in the table).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

VERSION = "0.1.0"

COLUMNS: tuple[str, ...] = (
    "source",  # theory, amp or erm
    "model",  # argmax or perceptron
    "n_classes",
    "prior",
    "estimator",  # bayes, cross-entropy, square, max-margin
    "ridge",
    "alpha",  # n / d
    "branch",  # optimal, amp, informed, unstable (Bayes-optimal theory only)
    "m",  # overlap of estimate and teacher, per class direction
    "q",  # squared norm of the estimate, per class direction
    "V",  # its variance (Bayes) or rescaled susceptibility (ERM)
    "generalisation_error",
    "uncertainty",  # of the generalisation error, absolute
    "training_error",
    "training_loss",  # mean loss per sample, ridge term excluded
    "free_entropy",
    "status",
    "dimension",
    "n_samples",
    "seed",
    "version",
)


class Status(StrEnum):
    """How far a number can be trusted."""

    OK = "ok"  # converged, and the stated uncertainty is within the asked tolerance
    TOLERANCE_NOT_MET = "tolerance-not-met"  # converged; the uncertainty is larger than asked
    NOT_CONVERGED = "not-converged"  # the best iterate, no guarantee
    DIVERGES = "diverges"  # the quantity is infinite here
    FAILED = "failed"  # no number


def make_row(**values: Any) -> dict[str, Any]:
    """A row with its columns in order, absent ones left out, and the version stamped.

    >>> make_row(source="theory", alpha=1.0, q=None)["alpha"]
    1.0
    """
    unknown = set(values) - set(COLUMNS)
    if unknown:
        raise KeyError(f"not columns of a row: {sorted(unknown)}")
    values.setdefault("version", VERSION)
    return {name: _plain(values[name]) for name in COLUMNS if values.get(name) is not None}


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows as a pandas table, keeping the columns that at least one row has."""
    import pandas as pd

    rows = list(rows)
    present = [name for name in COLUMNS if any(name in row for row in rows)]
    return pd.DataFrame(rows, columns=present)


def json_ready(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with non-finite numbers as null: JSON has no NaN or infinity."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def _plain(value: Any) -> Any:
    """numpy scalars and enums as plain Python, so that a row is JSON- and SQL-ready."""
    if isinstance(value, StrEnum):
        return str(value)
    return value.item() if hasattr(value, "item") else value
