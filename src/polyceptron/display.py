"""How results, durations and progress are shown: one line at a prompt, a table in a notebook.

Whoever knows the parts of a computation counts them, `for alpha in steps(alphas)`; parts of a part
make up its share. Whoever waits, `with waiting("solving")`, sees the share done and the time left.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_ROUGH = ("uncertainty", "residual", "bound")  # names of numbers that have two digits
PATIENCE = 2.0  # seconds without a word
LINE_SECONDS = 30.0
# Who hears of the work of this thread; beginning and size of the share that is counted now.
_heard: ContextVar[tuple[Callable[[float], object], float, float] | None] = ContextVar(
    "heard", default=None
)


class ShortDisplay:
    """`__repr__` and `_repr_html_` from `_facts`, a dict of plain values.

    A dataclass declared with `repr=False` shows its numbers, words and flags, no arrays and nothing
    that is None.
    """

    def _facts(self) -> dict[str, Any]:
        values = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {n: v for n, v in values.items() if isinstance(v, str | bool | int | float)}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={_shown(name, v)}" for name, v in self._facts().items())
        return f"{type(self).__name__}({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td>{html.escape(_shown(name, value, quote=False))}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption>{rows}</table>"


def _shown(name: str, value: Any, *, quote: bool = True) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if name.endswith(_ROUGH) and value else f"{value:.7g}"
    return repr(str(value)) if quote and isinstance(value, str) else str(value)


def describe_seconds(seconds: float) -> str:
    """A duration for people.

    >>> [describe_seconds(s) for s in (0.4, 40, 5400, 200_000)]
    ['0.4 s', '40 s', '90 min', '2.3 days']
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def steps(
    values: Iterable[_Item], count: int | None = None, *, growth: float = 1.0
) -> Iterator[_Item]:
    """The values, one for each part of the work; `count` is how many there are to come.

    A part takes `growth` times as long as the one before.
    """
    heard = _heard.get()
    if heard is None:
        yield from values
        return
    if count is None:
        values = list(values)
        count = len(values)
    tell, low, width = heard
    source, sizes = iter(values), [growth**i for i in range(count)]
    try:
        for size in sizes:
            share = width * size / sum(sizes)
            _heard.set((tell, low, share))
            try:
                item = next(source)
            except StopIteration:
                return
            yield item
            low += share
            tell(min(low, 1.0))
        yield from source
    finally:
        _heard.set(heard)


@contextmanager
def waiting(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` while the block runs, with the share done and the time left once known.

    The function that is given changes the message. On a terminal one line is rewritten; elsewhere
    there is a line after two seconds, and one every half minute.
    """
    said, share, begin, stream = [message], [0.0], time.monotonic(), sys.stderr

    def line() -> str:
        if not 0 < share[0] < 1:
            return said[0]
        left = (time.monotonic() - begin) * (1 / share[0] - 1)
        return f"{said[0]}: {100 * share[0]:.0f} %, about {describe_seconds(left)} left"

    def repeat() -> None:
        pause = PATIENCE
        while not over.wait(pause):
            stream.write(f"{line()} ...\n")
            pause = LINE_SECONDS

    def change(text: str) -> None:
        said[0] = text
        show(line())

    def tell(done: float) -> None:
        share[0] = max(share[0], done)
        show(line())

    token = _heard.set((tell, 0.0, 1.0))
    try:
        if stream.isatty():
            from rich.console import Console

            with Console(stderr=True).status(message) as status:
                show: Callable[[str], object] = status.update
                yield change
        else:
            over, show = threading.Event(), str
            threading.Thread(target=repeat, daemon=True).start()
            try:
                yield change
            finally:
                over.set()
    finally:
        _heard.reset(token)
