"""The tables of a store, how an older one is brought up to date, and what is not a store at all.

One result as a store keeps it: exact JSON, and a checksum that shows any later change.

    checksum = SHA-256 of (key, task, row, status, reason, provenance), the first 32 digits

A checksum finds damage and careless edits. It is no signature: whoever means to deceive can compute
it too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.files import write_atomically
from polyceptron.rows import COLUMNS

if TYPE_CHECKING:
    import pandas as pd

    from polyceptron.experiments.compute_task import CaseResult


APPLICATION_ID = 0x706F6C79  # "poly"
SCHEMA_VERSION = 3
BESIDE = ("-wal", "-shm", "-journal", "-lock")  # files that belong to a store while it is in use
DAMAGED = (
    "the store {name!r} is damaged and cannot be read ({error}): restore a copy, or give a new "
    "store"
)

_TABLES = (
    "CREATE TABLE results (key TEXT PRIMARY KEY, task TEXT NOT NULL, row TEXT NOT NULL, "
    "status TEXT NOT NULL, reason TEXT, provenance TEXT NOT NULL)",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)

# Statements that bring a store of version n to version n + 1.
MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: (
        "CREATE TABLE timings (kind TEXT PRIMARY KEY, rows INTEGER NOT NULL, "
        "expected REAL NOT NULL, seconds REAL NOT NULL)",
    ),
    2: (
        "ALTER TABLE results ADD COLUMN checksum TEXT NOT NULL DEFAULT ''",
        "UPDATE results SET checksum = first_checksum(CAST(key AS BLOB), CAST(task AS BLOB), "
        "CAST(row AS BLOB), CAST(status AS BLOB), CAST(reason AS BLOB), "
        "CAST(provenance AS BLOB))",
    ),
}


def create_store(path: Path) -> None:
    """Make an empty store, complete before it appears under its name."""
    check_beside(path)
    try:
        write_atomically(path, _fill)
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot create the store {str(path)!r}: {error}") from None


def _fill(temporary: Path) -> None:
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            teach_checksums(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            for statement in (*_TABLES, *(s for v in sorted(MIGRATIONS) for s in MIGRATIONS[v])):
                connection.execute(statement)
            connection.execute("COMMIT")
        finally:
            connection.close()
    finally:
        for suffix in BESIDE:
            temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)


def inspect_store(path: Path) -> None:
    """Raise a sentence unless the file is a store, from its first bytes alone.

    Nothing is opened by SQLite here: it would leave files beside a database that is not ours.
    """
    name = str(path)
    check_beside(path)
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InvalidInput(f"cannot read the store {name!r}: {error.strerror}") from None
    if not header.startswith(b"SQLite format 3\x00"):
        raise InvalidInput(f"{name!r} is not a store of results (not an SQLite file)")
    if len(header) < 100:
        raise InvalidInput(f"the store {name!r} is cut short and cannot be read")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InvalidInput(f"{name!r} is an SQLite file, but not a store of polyceptron results")
    version = int.from_bytes(header[60:64], "big")
    if version > SCHEMA_VERSION:
        raise InvalidInput(_newer(path, version))
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    journal = path.with_name(path.name + "-wal")
    # A crash during a checkpoint leaves a short file *and* its journal: SQLite repairs it.
    if size < (65536 if page == 1 else page) * pages and not _has_content(journal):
        raise InvalidInput(
            f"the store {name!r} is cut short ({size} bytes of {page * pages}) and cannot be read; "
            "restore a copy, or give a new store"
        )


def check_beside(path: Path) -> None:
    """SQLite and the lock make and remove files beside the store: they must be files."""
    for suffix in BESIDE:
        beside = path.with_name(path.name + suffix)
        try:
            mode = os.lstat(beside).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not stat.S_ISREG(mode):
            raise InvalidInput(
                f"cannot use the store {str(path)!r}: {str(beside)!r} is in the way and is not a "
                "regular file; move it"
            )


def check_links(path: Path) -> None:
    """A store has one name: SQLite finds the journal of a database by it."""
    links = os.stat(path).st_nlink
    if links > 1:
        raise InvalidInput(
            f"the store {str(path)!r} is one file with {links} names (hard links), under which its "
            "latest rows could be missed or two sweeps could write at once: keep one name, and "
            "make a copy or a symbolic link for the other"
        )


def connect(path: Path) -> sqlite3.Connection:
    """Open a store; where nothing can be written beside it, as an archive that cannot change."""
    if os.access(path.parent, os.W_OK) or path.with_name(path.name + "-wal").exists():
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    else:
        address = path.resolve().as_uri() + "?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        teach_checksums(connection)
        upgrade(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring an older store to the current version, in one transaction, unless it is damaged."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise InvalidInput(_newer(path, version))
    if version == SCHEMA_VERSION:
        return
    check_integrity(connection, path)  # before checksums are made of what it holds
    try:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()  # now under the lock
        for old in range(version, SCHEMA_VERSION):
            if old not in MIGRATIONS:
                raise InvalidInput(
                    f"the store {str(path)!r} has version {old}, which can no longer be upgraded"
                )
            for statement in MIGRATIONS[old]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise InvalidInput(
            f"the store {str(path)!r} has version {version} and must be brought to version "
            f"{SCHEMA_VERSION} where it can be written ({error}): copy it there"
        ) from None
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Raise unless SQLite's `integrity_check` finds nothing."""
    answer = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if answer != "ok":
        raise InvalidInput(DAMAGED.format(name=str(path), error=answer))


def _newer(path: Path, version: int) -> str:
    return (
        f"the store {str(path)!r} has version {version}, made by a newer polyceptron; this one "
        f"reads versions up to {SCHEMA_VERSION}: update polyceptron"
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


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
