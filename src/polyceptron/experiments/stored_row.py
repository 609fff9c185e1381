"""One result as a store keeps it: exact JSON, and a checksum that shows any later change.

    checksum = SHA-256 of (key, task, row, status, reason, provenance), the first 32 digits

A checksum finds damage and careless edits. It is no signature: whoever means to deceive can compute
it too.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.rows import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from polyceptron.experiments.compute_task import CaseResult

Row = dict[str, Any]

# True of a row of the table `results` that is as it was written. Text travels as bytes: a damaged
# one may not be text any more.
INTACT = (
    "results.checksum IS row_checksum(CAST(results.key AS BLOB), CAST(results.task AS BLOB), "
    "CAST(results.row AS BLOB), CAST(results.status AS BLOB), CAST(results.reason AS BLOB), "
    "CAST(results.provenance AS BLOB))"
)
_WHOLE = ("n_classes", "dimension", "n_samples", "seed")  # columns of integers


def row_checksum(*values: bytes | str | None) -> str:
    """The checksum of the six columns of a result.

    >>> row_checksum("a", "b") == row_checksum(b"a", b"b") != row_checksum("ab", "")
    True
    """
    digest = hashlib.sha256()
    for value in values:
        content = value.encode() if isinstance(value, str) else value
        digest.update(b"none;" if content is None else b"%d;" % len(content))
        digest.update(content or b"")
    return digest.hexdigest()[:32]


def first_checksum(*values: bytes | None) -> str:
    """The checksum of a row written before rows had one, or nothing if it cannot be read."""
    _, task, row, *_ = values
    try:
        readable = all(isinstance(json.loads(text or b""), dict) for text in (task, row))
    except (ValueError, RecursionError):
        readable = False
    return row_checksum(*values) if readable else ""


def teach_checksums(connection: sqlite3.Connection) -> None:
    """Let SQL statements of this connection use the two functions."""
    for function in (row_checksum, first_checksum):
        connection.create_function(function.__name__, 6, function, deterministic=True)


def encode_result(result: CaseResult) -> tuple[str | None, ...]:
    """The six columns of a result."""
    return (
        result.key,
        json.dumps(result.content, sort_keys=True),
        encode_row(result.row),
        result.row["status"],
        result.reason,
        json.dumps(result.provenance, sort_keys=True),
    )


def encode_row(row: Row) -> str:
    """JSON that keeps every bit: floats by their shortest exact form, non-finite ones as text."""
    plain = {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }
    return json.dumps(plain, allow_nan=False)


def decode_row(text: str) -> Row:
    """The row that `encode_row` wrote.

    >>> decode_row(encode_row({"q": float("inf"), "alpha": 0.1}))
    {'q': inf, 'alpha': 0.1}
    """
    try:
        row: Row = dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("the store holds a damaged row: restore a copy of it") from None
    return {k: float(v) if v in ("inf", "-inf", "nan") else v for k, v in row.items()}


def tidy_table(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a table with the columns that at least one has; integers stay integers."""
    import pandas as pd

    rows = list(rows)
    named = set[str]().union(*rows)
    present = [name for name in (*COLUMNS, "reason") if name in named]
    table = pd.DataFrame(rows, columns=present)
    return table.astype({name: "Int64" for name in _WHOLE if name in present})


def sort_key(row: Row) -> tuple[Any, ...]:
    """By problem, estimator and source, then by the numbers; absent values first."""
    names = ("prior", "noise", "features", "estimator", "source", "start", "branch")
    texts = (row.get(name) for name in names)
    numbers = (row.get(name) for name in ("ridge", "alpha", "dimension", "seed"))
    return (
        str(row.get("model") or ""),
        row.get("n_classes") or 0,
        *(str(text or "") for text in texts),
        *(-1.0 if number is None else float(number) for number in numbers),
    )
