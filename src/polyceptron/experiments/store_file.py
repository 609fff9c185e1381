"""The file of a store: its tables, how it is made, opened and locked.

Nothing but SQLite opens a database that is not ours, and nothing here closes a handle of one that
SQLite has open: SQLite guards a database by record locks, and POSIX drops *all* record locks of a
process on a file when the process closes *any* handle of it. Another process could then remove the
journal that this one still writes to.

    checksum = SHA-256 of (key, task, row, status, reason, provenance), the first 32 digits

A checksum finds damage and careless edits. It is no signature: whoever means to deceive can compute
it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable, check_writable, write_atomically

APPLICATION_ID = 0x706F6C79  # "poly"
SCHEMA_VERSION = 3
FIELDS = ("key", "task", "row", "status", "reason", "provenance")  # of the table `results`
BESIDE = ("-wal", "-shm", "-journal", "-lock")  # files that belong to a store while it is in use
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

    check_beside(path)
    try:
        write_atomically(path, fill)
    except sqlite3.Error as error:
        raise InvalidInput(f"cannot create the store {str(path)!r}: {error}") from None


def inspect_store(path: Path) -> None:
    """Raise unless the file is a store, from its first bytes alone.

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
_connections: dict[Identity, int] = {}
_handles: dict[Identity, list[int]] = {}


def identity_of(info: os.stat_result) -> Identity:
    """What a file is, whatever its name: device and inode."""
    return info.st_dev, info.st_ino


def enter(identity: Identity, inspect: Callable[[], object]) -> None:
    """Count a connection; `inspect` may open and close the file, and runs for the first alone."""
    with _guard:
        if not _connections.get(identity):
            inspect()
        _connections[identity] = _connections.get(identity, 0) + 1


def leave(identity: Identity) -> None:
    """The connection is closed; with the last one, the handles that waited for it."""
    with _guard:
        _connections[identity] -= 1
        if not _connections[identity]:
            del _connections[identity]
            for handle in _handles.pop(identity, []):
                os.close(handle)


@contextmanager
def locked_store(store: str | Path) -> Iterator[Path]:
    """The name of the store without links, while this process alone may write to it.

    A missing store is made. Two locks are taken. One is on a small file beside the store
    (`runs.sqlite-lock`), so that only one process makes the store. The other
    is on the store itself, on what it *is* (device and inode): a store that was renamed while a
    sweep writes to it is still locked.
    """
    check_writable(store)
    path = Path(os.path.realpath(store))
    check_beside(path)
    with _locked_name(path.with_name(path.name + "-lock"), path):
        if not path.exists() or path.stat().st_size == 0:
            create_store(path)
        check_readable(path, "store")
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if not _try_flock(file):
                raise InvalidInput(_BUSY.format(" under another name", str(path)))
            check_links(path)
            if not _is_at(file, path):
                raise InvalidInput(f"the store {str(path)!r} was replaced just now: try again")
            yield path
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
            identity = identity_of(os.fstat(file))
            with _guard:  # closed now, or with the last connection of this process
                if _connections.get(identity):
                    _handles.setdefault(identity, []).append(file)
                else:
                    os.close(file)


_BUSY = (
    "another sweep{} is writing to {!r}: wait until it ends, or give this one its own store and "
    "merge them afterwards"
)


@contextmanager
def _locked_name(beside: Path, store: Path) -> Iterator[None]:
    """A lock on a file beside the store, which is removed afterwards."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            handle = os.open(beside, flags, 0o666)
        except OSError as error:
            raise InvalidInput(f"cannot write {str(beside)!r}: {error.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise InvalidInput(f"{str(beside)!r} is in the way: move it")
            if not _try_flock(handle):
                holder = os.read(handle, 100).decode(errors="replace").strip()
                who = f" (process {holder})" if holder else ""
                raise InvalidInput(_BUSY.format(who, str(store)))
            if not _is_at(handle, beside):  # removed by its holder before we had the lock
                continue
            os.truncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
            try:
                yield
            finally:
                if _is_at(handle, beside):
                    beside.unlink(missing_ok=True)
            return
        finally:
            os.close(handle)


def _try_flock(handle: int) -> bool:
    """Whether nobody else had the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise InvalidInput(
            f"files cannot be locked here ({error.strerror}): keep the store on a local disk"
        ) from None
    return True


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
