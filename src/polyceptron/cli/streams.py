"""The standard streams of the command line, set up in one place.

| stream | what happens |
| --- | --- |
| closed by the caller, as by `2>&-` | the null device takes its place and its number |
| in an encoding without α or ± | ASCII takes their place: `alpha`, `+-` |
| standard output that cannot be written | `OSError` whose file name is "standard output" |
| standard output whose reader has gone | `ReaderGone`, and what else is printed is dropped |
| standard error that cannot be written | what is said there is dropped: the result counts |

A stream that is no file of the operating system, as in tests and notebooks, is left as it is.
"""

import codecs
import io
import os
import select
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from polyceptron.display import visible

READER_GONE_CODE = 128 + signal.SIGPIPE  # what a shell shows for a program that this signal ended
ASCII_WHERE_NEEDED = "polyceptron-ascii"  # name of the way to encode, as `errors="replace"` is
ASCII_FORMS = {
    "α": "alpha",
    "λ": "lambda",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "≠": "!=",
    "−": "-",
    "–": "-",
    "·": "*",
    "×": "x",
    "√": "sqrt",
    "∞": "inf",
    "→": "->",
    "²": "^2",
    "…": "...",
    "─": "-",
}


class ReaderGone(Exception):
    """The program that read standard output has ended, as `head` does when it has enough."""


class ResultStream(io.FileIO):
    """Standard output: an error names it, and after the first one nothing more is written."""

    failed = False

    def write(self, data: Any, /) -> int:
        """Write, or raise `ReaderGone` or an `OSError` that names the stream."""
        if self.failed:
            return len(data)
        try:
            return self._write_when_ready(data)
        except BrokenPipeError:
            self.failed = True
            raise ReaderGone from None
        except OSError as error:
            self.failed = True
            raise OSError(error.errno, error.strerror, "standard output") from None

    def _write_when_ready(self, data: Any) -> int:
        """Write, waiting for the reader of a pipe that its owner made non-blocking."""
        written = super().write(data)
        while written is None:
            select.select([], [self], [])
            written = super().write(data)
        return written


class MessageStream(io.FileIO):
    """Standard error: what cannot be written is dropped."""

    def write(self, data: Any, /) -> int:
        """Write, or do nothing."""
        try:
            written = super().write(data)
        except OSError:
            return len(data)
        return len(data) if written is None else written


def _as_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the ASCII form of the characters that an encoding lacks, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    forms = []
    for character in error.object[error.start : error.end]:
        escaped = character.encode("ascii", "backslashreplace").decode("ascii")
        forms.append(ASCII_FORMS.get(character, escaped))
    return "".join(forms), error.end


codecs.register_error(ASCII_WHERE_NEEDED, _as_ascii)


def shown_as(text: str, encoding: str | None = None) -> str:
    """Return the text as a stream of this encoding shows it (None: as standard output does).

    What is laid out in columns is converted first, since the ASCII forms are longer. Control
    characters, which may be commands to the terminal, are written as escapes.

    >>> shown_as("α = 2 ± 1", "ascii")
    'alpha = 2 +- 1'
    """
    if encoding is None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return visible(text).encode(encoding, ASCII_WHERE_NEEDED).decode(encoding)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Set up the streams as the module says, and put back those that were there."""
    before = sys.stdout, sys.stderr, warnings.formatwarning
    _fill_closed_descriptors()
    sys.stdout = _set_up(sys.stdout, 1, ResultStream)
    sys.stderr = _set_up(sys.stderr, 2, MessageStream)
    warnings.formatwarning = _one_line
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            _flush(stream)
        sys.stdout, sys.stderr, warnings.formatwarning = before


def _fill_closed_descriptors() -> None:
    """Open the null device under the numbers 0, 1 and 2 that are free.

    Otherwise the next file that is opened, such as a store, would get the number of standard error,
    and whatever writes messages there would write into it. Worker processes inherit all three.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            lowest_free = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(lowest_free, True)


def _set_up(stream: TextIO | None, descriptor: int, raw: type[io.FileIO]) -> TextIO:
    """Return a stream that writes to the same place by way of `raw`."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(raw(os.devnull, "w")), "utf-8")
    buffer = getattr(stream, "buffer", None)
    if not isinstance(stream, io.TextIOWrapper) or not _is_descriptor(buffer, descriptor):
        return stream
    stream.flush()
    errors = stream.errors
    if errors in ("strict", "surrogateescape", "backslashreplace"):  # Python's own choices
        errors = ASCII_WHERE_NEEDED
    return io.TextIOWrapper(
        io.BufferedWriter(raw(descriptor, "w", closefd=False)),
        encoding=stream.encoding,
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _is_descriptor(buffer: Any, descriptor: int) -> bool:
    """Return whether a buffer writes to this file descriptor."""
    raw = getattr(buffer, "raw", buffer)  # unbuffered (python -u), there is no buffer between
    return type(raw) is io.FileIO and raw.fileno() == descriptor


def _flush(stream: TextIO) -> None:
    """Write what is left; a failure has been reported when it first happened."""
    try:
        stream.flush()
    except (OSError, ReaderGone, ValueError):
        return


def _one_line(message: Warning | str, *details: Any, **more: Any) -> str:
    """Return a warning in words, without the line of code that gave it."""
    return f"warning: {message}\n"


def failure_sentence(error: OSError) -> str:
    """Return what the operating system refused, and of which file or stream.

    >>> failure_sentence(OSError(28, "No space left on device", "rows.csv"))
    "cannot use 'rows.csv': No space left on device"
    """
    reason = error.strerror or str(error)
    if error.filename == "standard output":
        return f"cannot write standard output: {reason}"
    names = [name for name in (error.filename, error.filename2) if name is not None]
    if not names:
        return f"the operating system refused: {reason}"
    return f"cannot use {' and '.join(repr(os.fsdecode(name)) for name in names)}: {reason}"
