"""Which store files this process has open, and when other handles of them may be closed.

SQLite guards a database by record locks, and POSIX drops *all* record locks of a process on a file
when the process closes *any* handle of it. Another process could then remove the journal that this
one still writes to. So a store that is open here is not opened beside SQLite, and a handle that
was is closed only when no connection is left.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

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
