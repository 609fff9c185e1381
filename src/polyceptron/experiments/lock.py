"""Which store files this process has open, and when other handles of them may be closed.

SQLite guards a database by record locks, and POSIX drops *all* record locks of a process on a file
when the process closes *any* handle of it. Another process could then remove the journal that this
one still writes to. So a store that is open here is not opened beside SQLite, and a handle that
was is closed only when no connection is left.

One sweep at a time writes to a store: locks that the system releases even after SIGKILL.
"""

from __future__ import annotations

import fcntl
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from polyceptron.errors import InvalidInput
from polyceptron.experiments.schema import check_beside, check_links, create_store
from polyceptron.files import check_readable, check_writable

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


def close_handle(handle: int) -> None:
    """Close a handle of a store now, or when the last connection of this process is closed."""
    identity = identity_of(os.fstat(handle))
    with _guard:
        if _connections.get(identity):
            _handles.setdefault(identity, []).append(handle)
        else:
            os.close(handle)


class StoreLock:
    """Held from `acquire` to `release`, or to the death of the process; makes a missing store.

    Two locks are taken. One is on a small file beside the store (`runs.sqlite-lock`), so that only
    one process makes the store. The other is on the store itself, on what it *is* (device and
    inode): a store that was renamed while a sweep writes to it is still locked.
    """

    def __init__(self, store: str | Path) -> None:
        self._given = store
        self._store = self._beside = Path(store)
        self._name: int | None = None
        self._file: int | None = None

    def acquire(self) -> Path:
        """Take the lock, or say in one sentence who has it; the name of the store without links."""
        check_writable(self._given)
        self._store = Path(os.path.realpath(self._given))
        self._beside = self._store.with_name(self._store.name + "-lock")
        check_beside(self._store)
        try:
            self._lock_name()
            if not self._store.exists() or self._store.stat().st_size == 0:
                create_store(self._store)
            self._lock_file()
        except BaseException:
            self.release()
            raise
        return self._store

    def release(self) -> None:
        """Let go and remove the lock file; nothing happens if it is not held."""
        if self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            close_handle(self._file)
            self._file = None
        if self._name is not None:
            if _is_at(self._name, self._beside):
                self._beside.unlink(missing_ok=True)
            os.close(self._name)
            self._name = None

    def _lock_name(self) -> None:
        while self._name is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            try:
                handle = os.open(self._beside, flags, 0o666)
            except OSError as error:
                raise InvalidInput(
                    f"cannot write {str(self._beside)!r}: {error.strerror}"
                ) from None
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise InvalidInput(f"{str(self._beside)!r} is in the way: move it")
                if not _try_flock(handle):
                    holder = os.read(handle, 100).decode(errors="replace").strip()
                    raise InvalidInput(self._busy(f" (process {holder})" if holder else ""))
                if _is_at(handle, self._beside):
                    self._name, handle = handle, -1
                    os.truncate(self._name, 0)
                    os.write(self._name, str(os.getpid()).encode())
                # else the previous holder removed the file between our open and our lock
            finally:
                if handle >= 0:
                    os.close(handle)

    def _lock_file(self) -> None:
        check_readable(self._store, "store")
        self._file = os.open(self._store, os.O_RDONLY | os.O_NOFOLLOW)
        if not _try_flock(self._file):
            raise InvalidInput(self._busy(" under another name"))
        check_links(self._store)
        if not _is_at(self._file, self._store):
            raise InvalidInput(f"the store {str(self._store)!r} was replaced just now: try again")

    def _busy(self, who: str) -> str:
        return (
            f"another sweep{who} is writing to {str(self._store)!r}: wait until it ends, "
            "or give this one its own store and merge them afterwards"
        )

    def __enter__(self) -> Path:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


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
