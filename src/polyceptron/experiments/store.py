"""Where results live: one SQLite file, written so that what was acknowledged is never lost.

    results   key, task (JSON: what was asked), row (JSON: the tidy row), status, reason,
              provenance (JSON: versions, tolerance, seed path), checksum of all these; nothing that
              depends on the machine
    timings   how long each kind of row took, against what was expected; it serves estimates only
    meta      name, value

WAL journal with synchronous = FULL: `add` returns after the data has reached the disk. A reader
may read while a sweep writes. Every statement is parameterised; no Python object is stored. A row
that no longer fits its checksum is never given out: it counts as missing, `damaged` names it, and
the next result for its key takes its place.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments import store_file
from polyceptron.experiments.store_file import DAMAGED, FIELDS, INTACT, locked_store
from polyceptron.experiments.tasks import CaseResult, case_cost, cost_kind
from polyceptron.files import check_outputs, check_readable, check_writable
from polyceptron.rows import Row, Status, frame

if TYPE_CHECKING:
    import pandas as pd


_Item = TypeVar("_Item")
_SELECT = f"SELECT {', '.join(FIELDS)} FROM results WHERE {INTACT}"
_UPSERT = (
    f"INSERT INTO results ({', '.join(FIELDS)}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*FIELDS[1:], "checksum"))
    + f" WHERE results.status = 'failed' OR NOT {INTACT}"
)


class Store:
    """A store of results, opened for reading or (`create=True`) also made if it is missing.

    Parameters
    ----------
    path : path
        The SQLite file.
    create : bool
        Make an empty store if there is none.

    Examples
    --------
    >>> import tempfile
    >>> with Store(Path(tempfile.mkdtemp()) / "runs.sqlite", create=True) as store:
    ...     len(store)
    0
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        file = Path(os.path.realpath(path))  # SQLite keeps its journal beside this one
        if create and (not self.path.exists() or self.path.stat().st_size == 0):
            store_file.create_store(check_writable(self.path))
        check_readable(self.path, "store")
        store_file.check_links(self.path)
        self._identity = store_file.identity_of(os.stat(self.path))
        store_file.inspect_store(file)
        with self._readable():
            self._connection = store_file.open_connection(file)

    def add(self, results: Iterable[CaseResult]) -> None:
        """Store results, all or none, and return when they are on the disk.

        A failed result never replaces a good one; a good one replaces a failed one.
        """
        results = list(results)
        with self.transaction():
            self.upsert(
                (
                    one.key, json.dumps(one.content, sort_keys=True), encode_row(one.row),
                    one.row["status"], one.reason, json.dumps(one.provenance, sort_keys=True),
                )
                for one in results
            )  # fmt: skip
            self._connection.executemany(
                "INSERT INTO timings (kind, rows, expected, seconds) VALUES (?, 1, ?, ?) "
                "ON CONFLICT (kind) DO UPDATE SET rows = rows + 1, "
                "expected = expected + excluded.expected, seconds = seconds + excluded.seconds",
                [
                    (cost_kind(one.content), case_cost(one.content), one.seconds)
                    for one in results
                    if not one.failed
                ],
            )

    def time_scale(self) -> dict[str, float]:
        """For each kind of row: seconds taken over seconds expected, so far."""
        with self._readable():
            query = "SELECT kind, seconds / expected FROM timings WHERE expected > 0"
            found = self._connection.execute(query).fetchall()
        return {str(kind): ratio for kind, ratio in found if isinstance(ratio, float)}

    def upsert(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert raw rows in a transaction; what is there gives way if it failed or is damaged."""
        self._connection.executemany(
            _UPSERT, [(*row, store_file.row_checksum(*row)) for row in rows]
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; a full disk is reported as what it is."""
        # SQLite would go on writing into a file that was deleted, where nobody finds it again.
        if not self.path.exists() or store_file.identity_of(os.stat(self.path)) != self._identity:
            raise ComputationFailed(
                f"the store {str(self.path)!r} was deleted or replaced while it was in use; "
                "put it back and run the same command again"
            )
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
        """Those of the keys that have a result; a failed or damaged one counts as missing."""
        query = "SELECT key FROM results WHERE status != 'failed' AND " + INTACT + " AND key IN "
        return {key for (key,) in self._select(query, keys)}

    def damaged(self, keys: Sequence[str] | None = None) -> list[str]:
        """The keys of the rows (or of those asked for) that are not as they were written."""
        query = "SELECT CAST(key AS BLOB) FROM results WHERE NOT " + INTACT
        if keys is not None:
            found = list(self._select(query + " AND key IN ", keys))
        else:
            with self._readable():
                found = self._connection.execute(query + " ORDER BY key").fetchall()
        return [(key or b"without a key").decode(errors="replace") for (key,) in found]

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[Row]:
        """All tidy rows, in the order of their keys; or those of `keys` that are there, in turn."""
        return (decode_row(record["row"]) for record in self.records(keys))

    def frame(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """The tidy table: all rows, sorted by problem, estimator and numbers, or those of `keys`.

        A row that failed has its reason in a column of its own.
        """
        rows: list[Row] = []
        for record in self.records(keys):
            reason = {} if record["reason"] is None else {"reason": record["reason"]}
            rows.append(decode_row(record["row"]) | reason)
        return frame(rows if keys is not None else sorted(rows, key=sort_key))

    def summary(self, quantity: str = "generalisation_error", spec: Any = None) -> pd.DataFrame:
        """Means over instances with theory beside them, z and counts; of a sweep's rows, if given.

        See `polyceptron.experiments.results.summary`.
        """
        import pandas as pd

        from polyceptron.experiments.results import SUMMARY_COLUMNS, summary

        lines = summary(self, quantity=quantity, spec=spec)
        return pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))

    def records(self, keys: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Everything stored about every result, as raw columns, in the order of the keys.

        Or about those of `keys` that are there, each once, in turn.
        """
        if keys is None:
            with self._readable():
                for record in self._connection.execute(f"{_SELECT} ORDER BY key"):
                    yield dict(zip(FIELDS, record, strict=True))
            return
        for batch in _batches(dict.fromkeys(keys)):
            found = {row[0]: row for row in self._select(_SELECT + " AND key IN ", batch)}
            yield from (dict(zip(FIELDS, found[k], strict=True)) for k in batch if k in found)

    def check(self) -> None:
        """Raise unless SQLite's `integrity_check` finds nothing."""
        with self._readable():
            answer = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if answer != "ok":
            raise InvalidInput(DAMAGED.format(name=str(self.path), error=answer))

    def close(self) -> None:
        """Close the file; what was added is on the disk already."""
        self._connection.close()

    def _select(self, query: str, keys: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """What the query, which ends in `key IN `, finds for the keys, a batch at a time."""
        for batch in _batches(keys):
            marks = ",".join("?" * len(batch))
            with self._readable():
                found = self._connection.execute(query + "(" + marks + ")", batch).fetchall()
            yield from found

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InvalidInput(f"cannot use the store {str(self.path)!r}: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: SQLite's message
            raise InvalidInput(DAMAGED.format(name=str(self.path), error=error)) from None

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __len__(self) -> int:
        with self._readable():
            return int(self._connection.execute("SELECT count(*) FROM results").fetchone()[0])

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True)
class MergeReport:
    """What a merge did: rows added, rows the target had already, and those that differ there.

    Two machines may differ in the last digits of a number; the target keeps its own row. `damaged`
    has the keys of the sources' rows that do not fit their checksums: they were not copied.
    """

    added: int
    already: int
    differing: int
    damaged: tuple[str, ...] = ()


def merge_stores(target: str | Path, sources: Sequence[str | Path]) -> MergeReport:
    """Copy into `target` (made if missing) every result of `sources` that it does not have.

    The sources are only read. One source is copied in one transaction: all of it or nothing. A good
    result replaces a failed or damaged one, never the other way round.
    """
    check_outputs(target, inputs=sources)
    with ExitStack() as stack:
        opened = [stack.enter_context(Store(source)) for source in sources]
        into = stack.enter_context(Store(stack.enter_context(locked_store(target))))
        added = already = differing = 0
        damaged: list[str] = []
        for store in opened:
            damaged += store.damaged()
            with into.transaction():
                for batch in _batches(store.records()):
                    there = {r["key"]: r for r in into.records(r["key"] for r in batch)}
                    for record in batch:
                        mine, failed = there.get(record["key"]), record["status"] == Status.FAILED
                        if mine is None or (mine["status"] == Status.FAILED and not failed):
                            added += 1
                            continue
                        already += 1
                        differing += not failed and mine["row"] != record["row"]
                    into.upsert(tuple(record[name] for name in FIELDS) for record in batch)
    return MergeReport(added, already, differing, tuple(damaged))


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    pending = iter(items)
    while batch := list(islice(pending, 500)):  # below SQLite's limit on parameters
        yield batch


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


def sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """By problem, estimator and source, then by the numbers; absent values first."""
    names = "prior noise features shares biases gram estimator class_weight source start branch"
    numbers = (row.get(name) for name in ("ridge", "alpha", "dimension", "seed"))
    return (
        str(row.get("model") or ""),
        row.get("n_classes") or 0,
        *(str(row.get(name) or "") for name in names.split()),
        *(-1.0 if number is None else float(number) for number in numbers),
    )
