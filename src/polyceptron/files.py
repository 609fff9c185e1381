"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from polyceptron.errors import InvalidInput


def check_writable(path: str | Path) -> Path:
    """The path, if a file can be created there; a sentence otherwise. Call it before long work."""
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise InvalidInput(
            f"cannot write {str(target)!r}: the folder {str(folder)!r} does not exist"
        )
    if target.is_dir():
        raise InvalidInput(f"cannot write {str(target)!r}: it is a folder")
    if not os.access(folder, os.W_OK) or (target.exists() and not os.access(target, os.W_OK)):
        raise InvalidInput(f"cannot write {str(target)!r}: permission denied")
    return target


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary)` in the same folder with the same suffix, then move it into place."""
    target = check_writable(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=target.suffix)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(target)!r}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one piece."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
