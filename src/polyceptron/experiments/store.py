"""Where results live: one SQLite file, written so that what was acknowledged is never lost.

    results   key, task (JSON: what was asked), row (JSON: the tidy row), status, reason,
              provenance (JSON: versions, tolerance, seed path); nothing that depends on the machine
    timings   how long each kind of row took, against what was expected; it serves estimates only
    meta      name, value

WAL journal with synchronous = FULL: `add` returns after the data has reached the disk. A reader
may read while a sweep writes. Every statement is parameterised; no Python object is stored.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments.cost import case_cost, cost_kind
from polyceptron.experiments.schema import create_store, inspect_store, upgrade
from polyceptron.experiments.work import CaseResult
from polyceptron.rows import Status

Row = dict[str, Any]
_BATCH = 500  # keys in one query, below SQLite's limit on parameters
_NAMES = ("key", "task", "row", "status", "reason", "provenance")
_UNREADABLE = "the store {name!r} is damaged and cannot be read ({error}); it was left as it is"


class Store:
    """A store of results, opened for reading or (`create=True`) also made if it is missing.

    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "runs.sqlite", create=True) as store:
    ...     len(store)
    0
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        self._identity: os.stat_result | None = None
        if create and (not self.path.exists() or self.path.stat().st_size == 0):
            create_store(self.path)
        inspect_store(self.path)
        with self._readable():
            self._connection = _connect(self.path)
            try:
                self._connection.execute("PRAGMA synchronous = FULL")
                upgrade(self._connection, self.path)
                self._identity = os.stat(self.path)
            except BaseException:
                self._connection.close()
                raise

    def add(self, results: Iterable[CaseResult]) -> None:
        """Store results, all or none, and return when they are on the disk.

        A failed result never replaces a good one; a good one replaces a failed one.
        """
        results = list(results)
        rows = [
            (
                result.key,
                json.dumps(result.content, sort_keys=True),
                encode_row(result.row),
                result.row["status"],
                result.reason,
                json.dumps(result.provenance, sort_keys=True),
            )
            for result in results
        ]
        with self.transaction():
            self.upsert(rows)
            self._connection.executemany(
                "INSERT INTO timings (kind, rows, expected, seconds) VALUES (?, 1, ?, ?) "
                "ON CONFLICT (kind) DO UPDATE SET rows = rows + 1, "
                "expected = expected + excluded.expected, seconds = seconds + excluded.seconds",
                [
                    (cost_kind(result.content), case_cost(result.content), result.seconds)
                    for result in results
                    if not result.failed
                ],
            )

    def time_scale(self) -> dict[str, float]:
        """For each kind of row: seconds taken over seconds expected, so far."""
        with self._readable():
            query = "SELECT kind, seconds / expected FROM timings WHERE expected > 0"
            return dict(self._connection.execute(query).fetchall())

    def upsert(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert raw rows inside a transaction; an existing row is replaced only if it failed."""
        self._connection.executemany(
            "INSERT INTO results (key, task, row, status, reason, provenance) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row, "
            "status = excluded.status, reason = excluded.reason, provenance = excluded.provenance "
            "WHERE results.status = 'failed'",
            rows,
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; a full disk becomes a sentence."""
        self._check_in_place()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise ComputationFailed(
                f"cannot write to {str(self.path)!r}: {error}; everything stored before is safe: "
                "free some space or fix the cause, then run the same command again"
            ) from None

    def done(self, keys: Sequence[str]) -> set[str]:
        """Those of the keys that have a result; a failed one counts as missing."""
        found: set[str] = set()
        with self._readable():
            for i in range(0, len(keys), _BATCH):
                batch = keys[i : i + _BATCH]
                marks = ",".join("?" * len(batch))
                query = f"SELECT key FROM results WHERE status != ? AND key IN ({marks})"
                cursor = self._connection.execute(query, (str(Status.FAILED), *batch))
                found.update(key for (key,) in cursor)
        return found

    def rows(self) -> Iterator[Row]:
        """All tidy rows, in the order of their keys."""
        for record in self.records():
            yield decode_row(record["row"])

    def rows_of(self, keys: Iterable[str]) -> Iterator[Row]:
        """The rows of these keys, in the order given; keys without a result are left out."""
        for record in self.records_of(keys):
            yield decode_row(record["row"])

    def records_of(self, keys: Iterable[str]) -> Iterator[dict[str, Any]]:
        """As `rows_of`, with everything stored about each result; a key is given back once."""
        pending = iter(dict.fromkeys(keys))
        while batch := list(islice(pending, _BATCH)):
            marks = ",".join("?" * len(batch))
            query = f"SELECT {', '.join(_NAMES)} FROM results WHERE key IN ({marks})"
            with self._readable():
                found = {row[0]: row for row in self._connection.execute(query, batch)}
            for key in batch:
                if key in found:
                    yield dict(zip(_NAMES, found[key], strict=True))

    def records(self, status: str | None = None) -> Iterator[dict[str, Any]]:
        """Everything stored about every result, as raw columns, in the order of the keys."""
        query = (
            f"SELECT {', '.join(_NAMES)} FROM results WHERE ? IS NULL OR status = ? ORDER BY key"
        )
        with self._readable():
            for record in self._connection.execute(query, (status, status)):
                yield dict(zip(_NAMES, record, strict=True))

    def counts(self) -> dict[str, int]:
        """How many results have each status."""
        with self._readable():
            query = "SELECT status, count(*) FROM results GROUP BY status ORDER BY status"
            return dict(self._connection.execute(query).fetchall())

    def check(self) -> None:
        """Raise unless SQLite's `integrity_check` finds nothing."""
        with self._readable():
            answer = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if answer != "ok":
            raise InvalidInput(_UNREADABLE.format(name=str(self.path), error=answer))

    def close(self) -> None:
        """Close the file; what was added is on the disk already."""
        self._connection.close()

    def _check_in_place(self) -> None:
        """SQLite would go on writing into a file that was deleted, where nobody finds it again."""
        try:
            in_place = os.path.samestat(self._identity or os.stat(self.path), os.stat(self.path))
        except FileNotFoundError:
            in_place = False
        if not in_place:
            raise ComputationFailed(
                f"the store {str(self.path)!r} was deleted or replaced while it was in use; "
                "put it back and run the same command again"
            )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InvalidInput(f"cannot use the store {str(self.path)!r}: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: SQLite's message
            raise InvalidInput(_UNREADABLE.format(name=str(self.path), error=error)) from None

    def __len__(self) -> int:
        return sum(self.counts().values())

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file; where nothing can be written beside it, as an archive that cannot change."""
    if os.access(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists():
        return sqlite3.connect(path, timeout=30, isolation_level=None)
    address = path.resolve().as_uri() + "?mode=ro&immutable=1"
    return sqlite3.connect(address, uri=True, isolation_level=None)


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
    except (TypeError, ValueError):
        raise InvalidInput("the store holds a damaged row: restore a copy of it") from None
    return {k: float(v) if v in ("inf", "-inf", "nan") else v for k, v in row.items()}
