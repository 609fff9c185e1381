"""The file of a store: its tables, how it is made, opened and locked.

SQLite does not open a database that is not ours, and nothing here closes a handle of one that it
has open: SQLite guards a database by record locks, and POSIX drops *all* record locks of a process
on a file when the process closes *any* handle of it. Another process could then remove the journal
that this one still writes to. So a process has one handle of each store, to read its header and to
lock it, and keeps it.

    checksum = SHA-256 of (key, task, row, status, reason, provenance), the first 32 digits

A checksum finds damage and careless edits. It is no signature: whoever means to deceive can compute
it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable, check_writable, write_atomically

APPLICATION_ID = 0x706F6C79  # "poly"
SCHEMA_VERSION = 3
FIELDS = ("key", "task", "row", "status", "reason", "provenance")  # of the table `results`
BESIDE = ("-wal", "-shm", "-journal")  # files that belong to a store while it is in use
DAMAGED = (
    "the store {name!r} is damaged and cannot be read ({error}): restore a copy, or give a new "
    "store"
)
# Text travels as bytes: a damaged one may not be text any more.
_BLOBS = ", ".join(f"CAST(results.{name} AS BLOB)" for name in FIELDS)
INTACT = f"results.checksum IS row_checksum({_BLOBS})"  # a row that is as it was written

_TABLES = (
    "CREATE TABLE results (key TEXT PRIMARY KEY, task TEXT NOT NULL, row TEXT NOT NULL, "
    "status TEXT NOT NULL, reason TEXT, provenance TEXT NOT NULL, "
    "checksum TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE timings (kind TEXT PRIMARY KEY, rows INTEGER NOT NULL, expected REAL NOT NULL, "
    "seconds REAL NOT NULL)",
)


def create_store(path: Path) -> None:
    """Make an empty store, complete before it appears under its name."""
    statements = (
        "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "BEGIN",
        f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {SCHEMA_VERSION}",
        *_TABLES, "COMMIT",
    )  # fmt: skip

    def fill(temporary: Path) -> None:
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                for statement in statements:
                    connection.execute(statement)
        finally:
            for suffix in BESIDE:
                temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)

    try:
        write_atomically(path, fill)
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot create the store {str(path)!r}: {error}") from None


def inspect_store(path: Path) -> None:
    """Raise unless the file is a store, from its first bytes alone.

    Nothing is opened by SQLite here: it would leave files beside a database that is not ours.
    """
    name = str(path)
    with _guard:
        file = _handle(path)
        header, size = os.pread(file, 100, 0), os.fstat(file).st_size
    if not header.startswith(b"SQLite format 3\x00"):
        raise InvalidInput(f"{name!r} is not a store of results (not an SQLite file)")
    if len(header) < 100:
        raise InvalidInput(f"the store {name!r} is cut short and cannot be read")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise InvalidInput(f"{name!r} is an SQLite file, but not a store of polyceptron results")
    version = int.from_bytes(header[60:64], "big")
    if version != SCHEMA_VERSION:
        newer = version > SCHEMA_VERSION
        cure = "a newer polyceptron: update this one" if newer else "an older polyceptron than 0.2"
        raise InvalidInput(
            f"the store {name!r} has version {version} where {SCHEMA_VERSION} can be read; it was "
            f"made by {cure}"
        )
    page, pages = (int.from_bytes(header[i:j], "big") for i, j in ((16, 18), (28, 32)))
    whole = (65536 if page == 1 else page) * pages
    journal = path.with_name(path.name + "-wal")
    # A crash during a checkpoint leaves a short file *and* its journal: SQLite repairs it.
    if size < whole and not (journal.exists() and journal.stat().st_size):
        raise InvalidInput(
            f"the store {name!r} is cut short ({size} bytes of {whole}) and cannot be read; "
            "restore a copy, or give a new store"
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


def open_connection(path: Path) -> sqlite3.Connection:
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


Identity = tuple[int, int]

_guard = threading.Lock()
_handles: dict[Identity, int] = {}  # one for each store of this process, open as long as it is
_written: set[Identity] = set()  # by this process, now


def identity_of(info: os.stat_result) -> Identity:
    """What a file is, whatever its name: device and inode."""
    return info.st_dev, info.st_ino


def _handle(path: Path) -> int:
    """This process's own handle of the file; those of files that were deleted are closed."""
    for identity, handle in list(_handles.items()):
        if identity not in _written and not os.fstat(handle).st_nlink:
            os.close(_handles.pop(identity))
    identity = identity_of(os.stat(path))
    if identity not in _handles:
        try:
            _handles[identity] = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise InvalidInput(f"cannot read the store {str(path)!r}: {error.strerror}") from None
    return _handles[identity]


@contextmanager
def locked_store(store: str | Path) -> Iterator[Path]:
    """The name of the store without links, while this process alone may write to it.

    A missing store is made, under a lock of its folder, so that only one process makes it. The lock
    of the store is on what it *is* (device and inode): a store that was renamed while a sweep
    writes to it is still locked.
    """
    check_writable(store)
    path = Path(os.path.realpath(store))
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        _lock(folder, fcntl.LOCK_EX)
        if not path.exists() or path.stat().st_size == 0:
            create_store(path)
    finally:
        os.close(folder)
    check_readable(path, "store")
    check_links(path)
    with _guard:
        file, identity = _handle(path), identity_of(os.stat(path))
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
    """Whether nobody else has the lock."""
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InvalidInput(
            f"files cannot be locked here ({error.strerror}): keep the store on a local disk"
        ) from None
    return True
