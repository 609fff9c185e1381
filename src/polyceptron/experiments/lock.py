"""One sweep at a time writes to a store: a lock that the system releases even after SIGKILL."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from polyceptron.errors import InvalidInput


class StoreLock:
    """Held from `acquire` to `release`, or to the death of the process.

    The lock is on a small file beside the store (`runs.sqlite-lock`), never on the store itself:
    closing a second handle of a database would drop SQLite's own locks on it.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store.with_name(store.name + "-lock")
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock, or say in one sentence who has it."""
        import fcntl

        while self._handle is None:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(handle, 100).decode(errors="replace").strip()
                os.close(handle)
                who = f" (process {holder})" if holder else ""
                raise InvalidInput(
                    f"another sweep{who} is writing to {str(self._store)!r}: wait until it ends, "
                    "or give this one its own store and merge them afterwards"
                ) from None
            if self._is_current(handle):
                self._handle = handle
                os.truncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
            else:  # the previous holder removed the file between our open and our lock
                os.close(handle)

    def release(self) -> None:
        """Remove the lock file and let go; nothing happens if it is not held."""
        if self._handle is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def __enter__(self) -> StoreLock:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
