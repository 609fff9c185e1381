"""Files that are read and written: regular ones only, and a reader never sees half of one.

Output goes to a new name or replaces a regular file; through a link, the regular file it points to.
Anything else is refused before any work: moving a new file over `/dev/null` would destroy it for
every program of the machine. An output is never an input, whatever name or link leads there.
"""

from __future__ import annotations

import math
import os
import stat
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from polyceptron.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

MAX_TEXT_BYTES = 2**24  # of a text file that is read whole
# What readers of arrays, archives and packed tables raise where the bytes are damaged.
DAMAGED_FILE_ERRORS = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def check_writable(path: str | Path) -> Path:
    """Return the path if a file can be written there, raise otherwise; call it before long work."""
    _destination(Path(path))
    return Path(path)


def check_outputs(*outputs: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Raise unless every output can be written, and is neither an input nor another output.

    A link of either kind to an input is that input; so is what lies in a folder that is one.
    """
    taken = [Path(path) for path in inputs if path is not None]
    for output in outputs:
        if output is None:
            continue
        target = check_writable(output)
        folders = Path(os.path.realpath(target)).parents
        for other in taken:
            if _same_file(target, other) or Path(os.path.realpath(other)) in folders:
                raise InvalidInput(
                    f"cannot write {str(output)!r}: it is the same file as {str(other)!r}, which "
                    "would be lost: choose another name"
                )
        taken.append(target)


def _same_file(one: Path, other: Path) -> bool:
    """Return whether two names lead to one file: by hard links, or where neither is there yet."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return os.path.realpath(one) == os.path.realpath(other)


def write_atomically(path: str | Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary)` beside the file, with the suffix of `path`, then move it into place.

    A file that is replaced keeps its permissions; a new one gets those of the umask.
    """
    write_together({Path(path): write})


def write_together(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Write several files as `write_atomically` does one: all of them appear, or none.

    Each is written beside its place, `path: write`. They are moved into place only when all of them
    are written and every place can still take its file.
    """
    drafts: list[_Draft] = []
    try:
        for path, write in writers.items():
            draft = _Draft.beside(path)
            drafts.append(draft)
            draft.fill(write)
        for draft in drafts:
            draft.check_place()
        for draft in drafts:
            draft.move()
    finally:
        for draft in drafts:
            draft.temporary.unlink(missing_ok=True)


def write_new_file(path: str | Path, content: bytes) -> None:
    """Write a small file that is not there yet, or is empty: complete, or not at all.

    Where the system has files without a name (Linux), the file gets its name at the end, and a
    process that is killed before leaves nothing.
    """
    target = _destination(Path(path))
    try:
        handle = os.open(target.parent, os.O_TMPFILE | os.O_WRONLY, 0o666)
    except (AttributeError, OSError):  # another system, or a file system without such files
        write_atomically(path, lambda temporary: temporary.write_bytes(content))
        return
    try:
        written = 0
        while written < len(content):  # a disk that fills up takes a part first, without an error
            written += os.write(handle, content[written:])
        os.fsync(handle)
        if target.exists() and target.stat().st_size == 0:
            target.unlink()
        # With a folder given, Python calls linkat, which follows the link in /proc to the file.
        os.link(f"/proc/self/fd/{handle}", target, src_dir_fd=handle, follow_symlinks=True)
    except OSError as error:
        raise InvalidInput(f"cannot write {str(path)!r}: {_reason(error)}") from error
    finally:
        os.close(handle)


@dataclass(frozen=True)
class _Draft:
    """A file in the making: what it was asked to be called, its real place, and where it is now."""

    path: Path
    target: Path
    temporary: Path

    @classmethod
    def beside(cls, path: Path) -> _Draft:
        """An empty file of a new name in the folder that the file will be in."""
        target = _destination(path)
        try:
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=path.suffix)
        except OSError as error:
            raise InvalidInput(f"cannot write {str(path)!r}: {error.strerror}") from None
        os.close(handle)
        return cls(path, target, Path(name))

    def fill(self, write: Callable[[Path], object]) -> None:
        """Write the content; a full disk is an error message that names the file asked for."""
        try:
            write(self.temporary)
        except OSError as error:
            raise InvalidInput(f"cannot write {str(self.path)!r}: {_reason(error)}") from error

    def check_place(self) -> None:
        """Raise if the place was taken by something else: writing may take minutes."""
        if _destination(self.path) != self.target:
            raise InvalidInput(
                f"cannot write {str(self.path)!r}: it was replaced by a link meanwhile"
            )

    def move(self) -> None:
        """Give the file its permissions and its name."""
        umask = os.umask(0)  # it can only be read by setting it
        os.umask(umask)
        mode = 0o666 & ~umask
        if self.target.exists():
            mode = stat.S_IMODE(self.target.stat().st_mode)
        self.temporary.chmod(mode)
        self.temporary.replace(self.target)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in one piece."""
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def check_readable(path: str | Path, what: str) -> None:
    """Raise unless the path is a regular file, or a link to one. It is not opened."""
    name = str(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InvalidInput(f"cannot read the {what} {name!r}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot read the {what} {name!r}: {_reason(error)}") from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"cannot read the {what} {name!r}: it is {_kind(mode)}, not a file")


def read_text(path: str | Path, what: str) -> str:
    """Return the text of a regular file without a byte-order mark; `what` names it in an error."""
    check_readable(path, what)
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) > MAX_TEXT_BYTES:
            raise InvalidInput(
                f"cannot read the {what} {str(path)!r}: it has more than {MAX_TEXT_BYTES:,} bytes"
            )
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read the {what} {str(path)!r}: {_reason(error)}") from None


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and type of a .npy array that begins here; the file is then at its numbers.

    Raise a ValueError where this is no such array.
    """
    from numpy.lib import format as npy

    try:
        if npy.read_magic(file) == (1, 0):
            shape, _, dtype = npy.read_array_header_1_0(file)
        else:
            shape, _, dtype = npy.read_array_header_2_0(file)
    except tokenize.TokenError:  # numpy reads the header of an old file as Python's words
        raise ValueError("its header has a bracket that is never closed") from None
    if any(isinstance(size, bool) or size < 0 for size in shape):  # numpy takes True for 1
        raise ValueError(f"the shape {shape} of an array must be whole numbers of 0 or more")
    return shape, dtype


def machine_memory() -> int:
    """Return the memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_archive(
    path: str | Path, what: str, share: float = 0.5
) -> dict[str, np.dtype[np.generic]]:
    """Return the type of each array of a .npz file, by name; only their headers are read.

    Raise if the arrays would fill more than this share of the machine's memory: a file of a few
    megabytes may unpack to any size.
    """
    check_readable(path, what)
    allowed = share * machine_memory()
    size = 0
    types: dict[str, np.dtype[np.generic]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                size += member.file_size
                if member.filename.endswith(".npy"):
                    with archive.open(member) as file:
                        shape, dtype = read_npy_header(file)
                    size += max(0, math.prod(shape) * dtype.itemsize - member.file_size)
                    types[member.filename.removesuffix(".npy")] = dtype
    except DAMAGED_FILE_ERRORS as error:
        raise InvalidInput(f"{str(path)!r} is no .npz file, or a damaged one: {error}") from None
    if size > allowed:
        raise InvalidInput(
            f"unpacked, the {what} {str(path)!r} would take {size / 1e9:.3g} GB, and this "
            f"machine's memory allows {allowed / 1e9:.3g} GB: keep fewer rows or columns"
        )
    return types


def _destination(path: Path) -> Path:
    """Return the name that a new file is moved to: that of a regular file, or a free one."""
    name = str(path)
    try:
        there: os.stat_result | None = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        there = None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot write {name!r}: {_reason(error)}") from None
    if there is None and path.is_symlink():
        raise InvalidInput(
            f"cannot write {name!r}: it is a link to {os.readlink(path)!r}, which does not exist"
        )
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise InvalidInput(
            f"cannot write {name!r}: it is {_kind(there.st_mode)}, and only a regular file may be "
            "replaced"
        )
    try:
        target = Path(os.path.realpath(path))
    except OSError:
        raise InvalidInput(f"cannot write {name!r}: the current folder was removed") from None
    folder = target.parent
    if not folder.is_dir():
        raise InvalidInput(f"cannot write {name!r}: the folder {str(path.parent)!r} does not exist")
    if not os.access(folder, os.W_OK) or (there is not None and not _may_replace(target, there)):
        raise InvalidInput(f"cannot write {name!r}: permission denied")
    return target


def _may_replace(file: Path, there: os.stat_result) -> bool:
    """Return whether this process may write a file and put another one in its place.

    In a sticky folder, such as /tmp, only the owner of the file or of the folder may replace it.
    """
    folder = os.stat(file.parent)
    is_sticky = bool(folder.st_mode & stat.S_ISVTX)
    if is_sticky and os.geteuid() not in (0, folder.st_uid, there.st_uid):
        return False
    return os.access(file, os.W_OK)


def _kind(mode: int) -> str:
    """Return what a file of this mode is, in words."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _reason(error: Exception) -> str:
    """Return the reason of an error, without the number and the file that Python adds."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
