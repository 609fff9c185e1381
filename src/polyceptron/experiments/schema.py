"""The tables of a store, how an older one is brought up to date, and what is not a store at all."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable

APPLICATION_ID = 0x706F6C79  # "poly"
SCHEMA_VERSION = 2

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
}


def create_store(path: Path) -> None:
    """Make an empty store, complete before it appears under its name."""
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
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
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot create the store {str(path)!r}: {error}") from None
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(name + suffix).unlink(missing_ok=True)


def inspect_store(path: Path) -> None:
    """Raise a sentence unless the file is a store, from its first bytes alone.

    Nothing is opened by SQLite here: it would leave files beside a database that is not ours.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            header = file.read(100)
            size = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise InvalidInput(f"there is no store {name!r}") from None
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


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring an older store to the current version, in one transaction."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise InvalidInput(_newer(path, version))
    if version == SCHEMA_VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
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
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _newer(path: Path, version: int) -> str:
    return (
        f"the store {str(path)!r} has version {version}, made by a newer polyceptron; this one "
        f"reads versions up to {SCHEMA_VERSION}: update polyceptron"
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
