"""What a command is doing, on standard error, when it takes long.

On a terminal a spinner; elsewhere a line after two seconds, and one every half minute.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds without a word
LINE_SECONDS = 30.0


@contextmanager
def waiting(message: str) -> Iterator[Callable[[str], None]]:
    """Say `message` while the block runs; the function that is given changes what is said."""
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(message) as status:
            yield status.update
        return
    said, stream, over = [message], sys.stderr, threading.Event()

    def repeat() -> None:
        pause = PATIENCE
        while not over.wait(pause):
            stream.write(f"{said[0]} ...\n")
            pause = LINE_SECONDS

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield lambda text: said.__setitem__(0, text)
    finally:
        over.set()
