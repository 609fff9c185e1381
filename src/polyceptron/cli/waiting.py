"""What a command is doing, on standard error, when it takes long.

On a terminal a spinner; elsewhere one line, after two seconds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds without a word


@contextmanager
def waiting(message: str) -> Iterator[Callable[[str], None]]:
    """Say `message` while the block runs; the function that is given changes what is said."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(message) as status:
            yield status.update
        return
    said = [message]
    stream = sys.stderr
    timer = threading.Timer(PATIENCE, lambda: stream.write(f"{said[0]} ...\n"))
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: said.__setitem__(0, text)
    finally:
        timer.cancel()
