"""Text for people: results, durations and progress; and lists of numbers read from text.

Whoever knows the parts of a computation counts them, `for alpha in steps(alphas)`; parts of a part
make up its share. Whoever waits, `with waiting("solving")`, sees the share done and the time left.
"""

import html
import math
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypeVar

from polyceptron.errors import InvalidInput

_Item = TypeVar("_Item")
_ROUGH = ("uncertainty", "residual", "bound")  # names of numbers that have two digits
MAX_POINTS = 100_000  # of a range
PATIENCE = 2.0  # seconds without a word
LINE_SECONDS = 30.0
# Who hears of the work of this thread; beginning and size of the share that is counted now.
_heard: ContextVar[tuple[Callable[[float], object], float, float] | None] = ContextVar(
    "heard", default=None
)


class ShortDisplay:
    """Of a dataclass declared with `repr=False`: its numbers, words and flags, and nothing else."""

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
    return f"{seconds / 86400:{'.1f' if seconds < 8e6 else ',.0f'}} days"


def steps(
    values: Iterable[_Item], count: int | None = None, *, growth: float = 1.0
) -> Generator[_Item, None, None]:
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


def say(text: str) -> None:
    """Write one line on standard error; nobody is told where that is closed or full.

    A daemon or a program without a terminal may have no standard error at all.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")


@contextmanager
def waiting(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` while the block runs, with the share done and the time left once known.

    The function that is given changes the message. On a terminal one line is rewritten; elsewhere
    there is a line after two seconds, and one every half minute.
    """
    said, share, begin = [message], [0.0], time.monotonic()

    def line() -> str:
        if not 0.01 < share[0] < 0.995:  # of less nobody can tell the rest
            return said[0]
        left = (time.monotonic() - begin) * (1 / share[0] - 1)
        return f"{said[0]}: {100 * share[0]:.0f} %, about {describe_seconds(left)} left"

    def repeat() -> None:
        pause = PATIENCE
        while not over.wait(pause):
            say(f"{line()} ...")
            pause = LINE_SECONDS

    def change(text: str) -> None:
        said[0] = text
        show(line())

    def tell(done: float) -> None:
        share[0] = max(share[0], done)
        show(line())

    token = _heard.set((tell, 0.0, 1.0))
    try:
        if sys.stderr is not None and sys.stderr.isatty():
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


def cut_text(text: str, length: int) -> str:
    """The text, or its beginning if it is longer: what was given is quoted, not printed in full.

    >>> cut_text("0.5,1,2", 5)
    '0.5,…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def parse_range(text: str, name: str) -> tuple[float, float, bool] | None:
    """The ends of 'start:stop' or 'start:stop:log' and whether it is logarithmic; else None.

    >>> parse_range("0:5", "alpha"), parse_range("0:5:10", "alpha")
    ((0.0, 5.0, False), None)
    """
    parts = text.split(":")
    log = len(parts) == 3 and parts[-1] == "log"
    if len(parts) - log != 2:
        return None
    low, high = parse_numbers(f"{parts[0]}:{parts[1]}:2", name)
    return low, high, log


def parse_numbers(text: str, name: str, *, log: bool = False) -> list[float]:
    """Numbers from '0.5,1,2' or 'start:stop:count', evenly spaced (geometrically if `log`).

    A fourth part, ':log' or ':linear', overrides the spacing.

    >>> parse_numbers("1:3:3", "alpha")
    [1.0, 2.0, 3.0]
    """
    got = repr(cut_text(text, 80))
    form = f"{name} takes numbers such as 0.5,1,2 or a range start:stop:count, got {got}"
    if ":" not in text:
        try:
            values = [float(part) for part in text.split(",") if part.strip()]
        except ValueError:
            raise InvalidInput(form) from None
        if not values or not all(math.isfinite(value) for value in values):
            raise InvalidInput(form)
        return values
    parts = text.split(":")
    if len(parts) == 4 and parts[3] in ("log", "linear"):
        log = parts.pop() == "log"
    try:
        start, stop, count = float(parts[0]), float(parts[1]), int(parts[2])
        if len(parts) != 3 or not (math.isfinite(start) and math.isfinite(stop)):
            raise ValueError
    except (ValueError, IndexError):
        raise InvalidInput(form) from None
    if not 1 <= count <= MAX_POINTS:
        raise InvalidInput(f"{name} must have 1 to {MAX_POINTS} points, got {got}")
    if count > 1 and stop <= start:
        raise InvalidInput(f"{name} must go upwards, got {got}")
    if log and start <= 0:
        raise InvalidInput(f"{name} must start above 0 to be logarithmic, got {got}")
    if count == 1:
        return [start]
    steps = [i / (count - 1) for i in range(count)]
    if log:
        return [start * (stop / start) ** s for s in steps]
    return [start + (stop - start) * s for s in steps]
