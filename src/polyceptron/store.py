"""Where results live: one SQLite file, written so that what was acknowledged is never lost.

    results   key, task (JSON: what was asked), row (JSON: the tidy row), status, reason,
              provenance (JSON: versions, tolerance, seed path), checksum of all these; nothing that
              depends on the machine
    meta      name, value

WAL journal with synchronous = FULL: `add` returns after the data has reached the disk. A reader
may read while a sweep writes. A row that no longer fits its checksum, the first 32 digits of a
SHA-256, is never given out: it counts as missing, `damaged` names it, and the next result for its
key takes its place. A checksum finds damage and careless edits; it is no signature.

Nothing here closes a handle of a database that SQLite has open: POSIX drops *all* record locks of a
process on a file when the process closes *any* handle of it, and another process could then remove
the journal that this one still writes to. So a process has one handle of each store, to read its
header and to lock it, and keeps it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.files import check_outputs, check_readable, check_writable, write_new_file
from polyceptron.rows import Row, Status, frame

if TYPE_CHECKING:
    import pandas as pd


_Item = TypeVar("_Item")
APPLICATION_ID = 0x706F6C79  # "poly"
SCHEMA_VERSION = 3
FIELDS = ("key", "task", "row", "status", "reason", "provenance")  # of the table `results`
BESIDE = ("-wal", "-shm", "-journal")  # files that belong to a store while it is in use
# Text travels as bytes: a damaged one may not be text any more.
_BLOBS = ", ".join(f"CAST(results.{name} AS BLOB)" for name in FIELDS)
INTACT = f"results.checksum IS row_checksum({_BLOBS})"  # a row that is as it was written
_SELECT = f"SELECT {', '.join(FIELDS)} FROM results WHERE {INTACT}"
_UPSERT = (
    f"INSERT INTO results ({', '.join(FIELDS)}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in (*FIELDS[1:], "checksum"))
    + f" WHERE results.status = 'failed' OR NOT {INTACT}"
)
_CREATE_TABLES = {
    "results": "CREATE TABLE results (key TEXT PRIMARY KEY, task TEXT NOT NULL, row TEXT NOT NULL, "
    "status TEXT NOT NULL, reason TEXT, provenance TEXT NOT NULL, "
    "checksum TEXT NOT NULL DEFAULT '')",
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
}
_UNUSED_TABLES = ("timings",)  # of stores that polyceptron 0.3 made
# The two bytes of the header that say whether a database is kept with a log ahead of it (WAL).
_JOURNAL_BYTES = slice(18, 20)
_WITH_LOG = b"\x02\x02"


_SORTED_WORDS = (  # columns by which rows are sorted, after model and number of classes
    "prior",
    "noise",
    "features",
    "shares",
    "biases",
    "gram",
    "estimator",
    "class_weight",
    "source",
    "start",
    "branch",
)
MAX_KEYS_OF_ONE_QUERY = 500  # below SQLite's limit on parameters, 999 in its older versions


class CaseResult(NamedTuple):
    """One case done: its row (status 'failed' and a reason if it could not be computed)."""

    key: str
    content: Mapping[str, object]
    row: Row
    reason: str | None
    provenance: Mapping[str, object]
    seconds: float

    @property
    def failed(self) -> bool:
        """No number: a later run of the sweep tries again."""
        return bool(self.row["status"] == Status.FAILED)


class StoredRecord(TypedDict):
    """The columns of one result as the table has them; `task`, `row`, `provenance` are JSON."""

    key: str
    task: str
    row: str
    status: str
    reason: str | None
    provenance: str


def _record(values: tuple[Any, ...]) -> StoredRecord:
    """Return the record of a row of the table, whose values are in the order of FIELDS."""
    key, task, row, status, reason, provenance = values
    return StoredRecord(
        key=key, task=task, row=row, status=status, reason=reason, provenance=provenance
    )


def _values(record: StoredRecord) -> tuple[str | None, ...]:
    """Return the values of a record in the order of FIELDS."""
    return (
        record["key"],
        record["task"],
        record["row"],
        record["status"],
        record["reason"],
        record["provenance"],
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
        if create:
            _create_missing(check_writable(self.path))
        check_readable(self.path, "store")
        _inspect(file)
        self._identity = _identity(self.path)
        with self._readable():
            self._connection = _connect(file)
        try:
            with self._readable():
                _check_schema(self._connection, str(self.path))
        except BaseException:
            self._connection.close()
            raise

    def add(self, results: Iterable[CaseResult]) -> None:
        """Store results, all or none, on the disk; a failed one never replaces a good one."""
        results = list(results)
        with self.transaction():
            self.upsert(
                (
                    result.key,
                    json.dumps(result.content, sort_keys=True),
                    encode_row(result.row),
                    result.row["status"],
                    result.reason,
                    json.dumps(result.provenance, sort_keys=True),
                )
                for result in results
            )

    def upsert(self, rows: Iterable[tuple[str | None, ...]]) -> None:
        """Insert raw rows in a transaction; what is there gives way if it failed or is damaged."""
        self._connection.executemany(_UPSERT, [(*row, row_checksum(*row)) for row in rows])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; a full disk is reported as what it is."""
        # SQLite would go on writing into a file that was deleted, where nobody finds it again.
        if not self.path.exists() or _identity(self.path) != self._identity:
            raise ComputationFailed(
                f"the store {str(self.path)!r} was deleted or replaced while it was in use; "
                "put it back and run the same command again"
            )
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:  # commits, or rolls back
                yield
        except sqlite3.Error as error:
            raise ComputationFailed(
                f"cannot write to {str(self.path)!r}: {error}; everything stored before is safe: "
                "free some space or fix the cause, then run the same command again"
            ) from None

    def done(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a result; failed and damaged ones count as missing."""
        query = "SELECT key FROM results WHERE status != 'failed' AND " + INTACT
        return {key for (key,) in self._select(query, keys)}

    def damaged(self, keys: Sequence[str] | None = None) -> list[str]:
        """Return the keys of the rows (or of those asked for) that are not as they were written."""
        found = self._select("SELECT CAST(key AS BLOB) FROM results WHERE NOT " + INTACT, keys)
        return [(key or b"without a key").decode(errors="replace") for (key,) in found]

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[Row]:
        """Yield all tidy rows in the order of their keys, or those of `keys` that are there."""
        return (decode_row(record["row"]) for record in self.records(keys))

    def frame(self, keys: Iterable[str] | None = None) -> pd.DataFrame:
        """Return a table of all rows, sorted by problem, estimator and numbers, or of `keys`.

        A row that failed has its reason in a column of its own.
        """
        rows: list[Row] = []
        for record in self.records(keys):
            row = decode_row(record["row"])
            if record["reason"] is not None:
                row["reason"] = record["reason"]
            rows.append(row)
        if keys is None:
            rows.sort(key=sort_key)
        return frame(rows)

    def records(self, keys: Iterable[str] | None = None) -> Iterator[StoredRecord]:
        """Yield the raw columns of all rows by rising key, or of those of `keys`, each once."""
        if keys is None:
            for values in self._select(_SELECT, None):
                yield _record(values)
            return
        for batch in _batches(dict.fromkeys(keys)):
            by_key = {values[0]: values for values in self._select(_SELECT, batch)}
            for key in batch:
                if key in by_key:
                    yield _record(by_key[key])

    def check(self) -> None:
        """Raise unless SQLite's `integrity_check` finds nothing."""
        with self._readable():
            answer = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if answer != "ok":
                raise sqlite3.DatabaseError(answer)

    def count_good(self) -> int:
        """Return how many rows have a number; all leaves of the table are read for it."""
        query = "SELECT count(*) FROM results WHERE status != 'failed'"
        with self._readable():
            return int(self._connection.execute(query).fetchone()[0])

    def close(self) -> None:
        """Close the file; what was added is on the disk already."""
        self._connection.close()

    def _select(self, query: str, keys: Iterable[str] | None) -> Iterator[tuple[Any, ...]]:
        """Yield what the query finds, in the order of the keys; or of `keys`, a batch at a time."""
        with self._readable():
            if keys is None:
                yield from self._connection.execute(query + " ORDER BY key")
            for batch in _batches(keys or ()):
                marks = ",".join("?" * len(batch))
                yield from self._connection.execute(f"{query} AND key IN ({marks})", batch)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of SQLite into sentences that name the store."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InvalidInput(f"cannot use the store {str(self.path)!r}: {error}") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: SQLite's message
            raise InvalidInput(
                f"the store {str(self.path)!r} is damaged and cannot be read ({error}): restore a "
                "copy, or give a new store"
            ) from None

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __len__(self) -> int:
        with self._readable():
            return int(self._connection.execute("SELECT count(*) FROM results").fetchone()[0])

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class MergeReport(NamedTuple):
    """What a merge did: rows added, rows the target had already, and those that differ there.

    The target keeps its own rows; those of the sources that are `damaged` are not copied.
    """

    added: int
    already: int
    differing: int
    damaged: tuple[str, ...]

    def plus(self, other: MergeReport) -> MergeReport:
        """Return what two merges did together."""
        return MergeReport(
            self.added + other.added,
            self.already + other.already,
            self.differing + other.differing,
            self.damaged + other.damaged,
        )


def merge_stores(target: str | Path, sources: Sequence[str | Path]) -> MergeReport:
    """Copy into `target` (made if missing) every result of `sources` that it does not have.

    A source is copied in one transaction: all of it or nothing. A good result replaces a failed or
    damaged one, never the other way round.
    """
    check_outputs(target, inputs=sources)
    with ExitStack() as stack:
        opened = [stack.enter_context(Store(source)) for source in sources]
        into = stack.enter_context(Store(stack.enter_context(locked_store(target))))
        report = MergeReport(0, 0, 0, ())
        for store in opened:
            report = report.plus(_copy_records(store, into))
    return report


def _copy_records(source: Store, target: Store) -> MergeReport:
    """Copy the records of a store into another in one transaction, and count them."""
    added = 0
    already = 0
    differing = 0
    with target.transaction():
        for batch in _batches(source.records()):
            keys = [record["key"] for record in batch]
            there = {record["key"]: record for record in target.records(keys)}
            for record in batch:
                failed = record["status"] == Status.FAILED
                mine = there.get(record["key"])
                if mine is None or (mine["status"] == Status.FAILED and not failed):
                    added += 1
                    continue
                already += 1
                if not failed and not same_result(mine, record):
                    differing += 1
            target.upsert(_values(record) for record in batch)
    return MergeReport(added, already, differing, tuple(source.damaged()))


def same_result(record: StoredRecord, other: StoredRecord) -> bool:
    """Return whether two records of one key have the same row, numbers within their bars.

    A prediction with a bar of its own may differ by the sum of both bars. Any other number, such
    as an overlap, may differ relatively by the accuracy that was asked for or that the predicted
    error has.
    """
    if record["row"] == other["row"]:
        return True
    rows = [decode_row(record["row"]), decode_row(other["row"])]
    if rows[0].keys() != rows[1].keys():
        return False
    accuracy = 0.0
    for row, provenance in zip(rows, (record["provenance"], other["provenance"]), strict=True):
        accuracy += json.loads(provenance).get("tolerance") or 0.0
        if row["source"] == "theory" and row.get("generalisation_error"):
            accuracy += row.get("uncertainty", 0.0) / row["generalisation_error"]
    return all(
        _same_value(name, rows[0], rows[1], accuracy)
        for name in rows[0]
        if not name.endswith("uncertainty") and name != "version"
    )


def _same_value(name: str, row: Row, other: Row, accuracy: float) -> bool:
    """Return whether a column of two rows is equal within its bars, or to a relative `accuracy`."""
    mine = row[name]
    theirs = other[name]
    if mine == theirs:
        return True
    if not isinstance(mine, float) or not isinstance(theirs, float):
        return False
    if math.isnan(mine) and math.isnan(theirs):
        return True
    bar = f"{name}_uncertainty"
    if name == "generalisation_error":
        bar = "uncertainty"
    if row["source"] == "theory" and bar in row and bar in other:
        return abs(mine - theirs) <= row[bar] + other[bar]
    return abs(mine - theirs) <= accuracy * max(abs(mine), abs(theirs))


def _batches(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield the items in lists that are short enough for one query."""
    pending = iter(items)
    while batch := list(islice(pending, MAX_KEYS_OF_ONE_QUERY)):
        yield batch


def encode_row(row: Row) -> str:
    """Return JSON that keeps every bit: floats by their shortest exact form, non-finite as text."""
    plain = dict(row)
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            plain[name] = str(value)
    return json.dumps(plain, allow_nan=False)


def decode_row(text: str) -> Row:
    """Return the row that `encode_row` wrote."""
    try:
        row: Row = dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("the store holds a damaged row: restore a copy of it") from None
    for name, value in row.items():
        if value in ("inf", "-inf", "nan"):
            row[name] = float(value)
    return row


def sort_key(row: Row) -> tuple[str | float, ...]:
    """Return what rows are sorted by: problem, estimator and source, then numbers; absent first."""
    words = [str(row.get(name) or "") for name in _SORTED_WORDS]
    numbers = []
    for name in ("ridge", "alpha", "dimension", "seed"):
        value = row.get(name)
        if value is None:
            value = -1.0
        numbers.append(float(value))
    return (str(row.get("model") or ""), row.get("n_classes") or 0, *words, *numbers)


def row_checksum(*values: bytes | str | None) -> str:
    """Return the checksum of the six columns of a result: 32 hexadecimal digits.

    >>> row_checksum("a", "b") == row_checksum(b"a", b"b") != row_checksum("ab", "")
    True
    """
    digest = hashlib.sha256()
    for value in values:
        content = value.encode() if isinstance(value, str) else value
        digest.update(b"none;" if content is None else b"%d;" % len(content))
        digest.update(content or b"")
    return digest.hexdigest()[:32]


def _create_missing(path: Path) -> None:
    """Make an empty store if there is none, complete before it appears under its name.

    The content goes to a file without a name, where the system has such files: a process that is
    killed meanwhile leaves nothing behind.
    """
    if path.exists() and path.stat().st_size > 0:
        return
    try:
        content = _empty_store()
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot create the store {str(path)!r}: {error}") from None
    write_new_file(path, content)


def _empty_store() -> bytes:
    """Return the content of a store without results."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        for statement in _CREATE_TABLES.values():
            connection.execute(statement)
        content = bytearray(connection.serialize())
    content[_JOURNAL_BYTES] = _WITH_LOG
    return bytes(content)


def _check_schema(connection: sqlite3.Connection, name: str) -> None:
    """Raise unless the database has the tables of a store, and nothing that acts on its own.

    A trigger would run when a row is written; a view could give out rows that nobody computed.
    """
    schema = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    tables = {}
    for kind, own_name, statement in schema:
        if kind == "index" and statement is None:  # SQLite's own, of a primary key
            continue
        if kind != "table" or own_name not in (*_CREATE_TABLES, *_UNUSED_TABLES):
            raise InvalidInput(
                f"{name!r} is no store that polyceptron made: it has the {kind} {own_name!r}"
            )
        tables[own_name] = statement
    for own_name, statement in _CREATE_TABLES.items():
        if tables.get(own_name) != statement:
            raise InvalidInput(
                f"{name!r} is no store that polyceptron made: its table {own_name!r} is missing "
                "or was defined otherwise"
            )


def _inspect(path: Path) -> None:
    """Raise unless the file is a store: SQLite would leave files beside what is not ours."""
    name = str(path)
    with _guard:
        header = os.pread(_handle(path), 100, 0)
    if not header.startswith(b"SQLite format 3\x00"):
        raise InvalidInput(f"{name!r} is not a store of results (not an SQLite file)")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InvalidInput(f"{name!r} is an SQLite file, but not a store of polyceptron results")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        cure = "an older polyceptron than 0.2"
        if version > SCHEMA_VERSION:
            cure = "a newer polyceptron: update this one"
        raise InvalidInput(
            f"the store {name!r} has version {version} where {SCHEMA_VERSION} can be read; it was "
            f"made by {cure}"
        )
    # A store has one name: SQLite finds the journal of a database by it, and follows a link there.
    links = os.stat(path).st_nlink
    if links > 1:
        raise InvalidInput(
            f"the store {name!r} is one file with {links} names (hard links), under which its "
            "latest rows could be missed or two sweeps could write at once: keep one name, and "
            "make a copy or a symbolic link for the other"
        )
    for beside in (name + suffix for suffix in BESIDE):
        if os.path.islink(beside):
            raise InvalidInput(f"{beside!r} is a link, where the store keeps a file: remove it")


def _connect(path: Path) -> sqlite3.Connection:
    """Open a store; where nothing can be written beside it, as an archive that cannot change."""
    if os.access(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists():
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    else:
        address = path.resolve().as_uri() + "?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.create_function("row_checksum", len(FIELDS), row_checksum, deterministic=True)
    except BaseException:
        connection.close()
        raise
    return connection


_guard = threading.Lock()
_handles: dict[tuple[int, int], int] = {}  # one for each store of this process, kept open
_written: set[tuple[int, int]] = set()  # by this process, now


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode of a file: what it is, whatever its name."""
    info = os.stat(path)
    return info.st_dev, info.st_ino


def _handle(path: Path) -> int:
    """Return this process's own handle of the file; close those of files that were deleted."""
    for identity, handle in list(_handles.items()):
        if identity not in _written and not os.fstat(handle).st_nlink:
            os.close(_handles.pop(identity))
    identity = _identity(path)
    if identity not in _handles:
        try:
            _handles[identity] = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise InvalidInput(f"cannot read the store {str(path)!r}: {error.strerror}") from None
    return _handles[identity]


@contextmanager
def locked_store(store: str | Path) -> Iterator[Path]:
    """Yield the name of the store without links, while this process alone may write to it.

    A missing store is made, under a lock of its folder, so that only one process makes it. What is
    locked is device and inode: a store that was renamed while a sweep writes to it is still locked.
    """
    check_writable(store)
    path = Path(os.path.realpath(store))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        _lock(folder, fcntl.LOCK_EX)
        _create_missing(path)
    finally:
        os.close(folder)
    with _guard:
        file = _handle(path)
        identity = _identity(path)
        if identity in _written or not _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
            raise InvalidInput(
                f"another sweep is writing to {str(path)!r}: wait until it ends, or give this one "
                "its own store and merge them afterwards"
            )
        _written.add(identity)
    try:
        yield path
    finally:
        with _guard:
            _lock(file, fcntl.LOCK_UN)
            _written.remove(identity)


def _lock(handle: int, how: int) -> bool:
    """Lock the file behind a handle (`how` is a flag of `fcntl`); False if another has the lock."""
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InvalidInput(
            f"files cannot be locked here ({error.strerror}): keep the store on a local disk"
        ) from None
    return True
