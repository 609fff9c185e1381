"""Progress of long computations: loops count their parts, and whoever waits sees the time left.

Two ends of the program take part, and neither knows the other:

    for alpha in steps(alphas):      # a solver, deep inside: "this loop has len(alphas) parts"
        ...
    with waiting("solving"):         # a command, far outside: "a person is waiting for this"
        ...

Between them stands a context variable, which says for which `Share` of the whole work the code
that now runs is responsible. The whole work is the interval [0, 1].

1. `waiting` sets the variable to the whole interval, with the function that shows a number.
2. `steps` reads it and divides its interval into one piece for each item. While an item is worked
   on, the variable holds the piece of that item, so that a loop of `steps` inside divides only this
   piece. After the item it reports the end of the piece: so much is done.
3. Outside `waiting` the variable is None, and `steps` gives the values and does nothing else.

    waiting          [0 ........................................ 1]
    steps, 2 items   [0 ............... 0.5][0.5 .............. 1]
    steps inside     [0 . 0.125 . 0.25 ....]                         reports 0.125, 0.25, ...

Each thread has its own value of a context variable, so that computations in two threads do not
count into each other's line.
"""

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeVar

from polyceptron.display import describe_seconds, visible

_Item = TypeVar("_Item")

SECONDS_TO_FIRST_LINE = 2.0  # where there is no terminal: quick commands print nothing
SECONDS_BETWEEN_LINES = 30.0
SECONDS_TO_TIME_SO_FAR = 3.0  # on a terminal, where no share of the work is known
# The time left is shown between these two shares: before, it would be a guess; after, it is over.
FIRST_SHARE_WITH_TIME_LEFT = 0.01
LAST_SHARE_WITH_TIME_LEFT = 0.995


@dataclass(frozen=True)
class Share:
    """The piece [start, start + size] of the whole work [0, 1], and who is told how much is done.

    Parameters
    ----------
    report : callable
        Takes the share of the whole work that is done, from 0 to 1.
    start, size : float
        The piece that the code which now runs works on.
    """

    report: Callable[[float], object]
    start: float = 0.0
    size: float = 1.0

    @property
    def end(self) -> float:
        """The share of the whole work that is done when this piece is."""
        return min(self.start + self.size, 1.0)


_share_of_this_code: ContextVar[Share | None] = ContextVar("share_of_this_code", default=None)


def steps(
    values: Iterable[_Item],
    count: int | None = None,
    *,
    growth: float = 1.0,
    durations: Sequence[float] | None = None,
) -> Generator[_Item, None, None]:
    """Give the values one by one, and count each as a part of the work while somebody waits.

    Parameters
    ----------
    values : iterable
        One value for each part. A generator that does the work itself is counted too: the time it
        takes to give a value belongs to that part.
    count : int, optional
        How many values there will be; without it `values` are put in a list and counted.
    growth : float
        A part takes `growth` times as long as the one before.
    durations : sequence of float, optional
        How long each part takes, in any unit, in place of `growth`.

    Examples
    --------
    >>> list(steps([1, 2, 3]))
    [1, 2, 3]
    """
    whole = _share_of_this_code.get()
    if whole is None:
        yield from values
        return
    if count is None:
        values = list(values)
        count = len(values)
    source = iter(values)
    if durations is None:
        durations = [growth**i for i in range(count)]
    total = sum(durations)
    start = whole.start
    try:
        for duration in durations:
            part = replace(whole, start=start, size=whole.size * duration / total)
            _share_of_this_code.set(part)
            try:
                item = next(source)
            except StopIteration:
                return
            yield item
            start += part.size
            part.report(part.end)
        yield from source  # more values than were announced
    finally:
        _share_of_this_code.set(whole)


def say(text: str) -> None:
    """Write one line on standard error, if there is one that can be written.

    A daemon or a program without a terminal may have no standard error; it may also be closed, or
    be a file on a full disk. A message is not worth an exception.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"{visible(text)}\n")


class _StatusLine:
    """What is said about the work that runs: a message, the share done, the time left."""

    def __init__(self, message: str) -> None:
        self.message = visible(message)
        self.done = 0.0
        self.begin = time.monotonic()
        self.time_of_report = self.begin
        self.longest_part = 0.0  # seconds between two reports

    @property
    def knows_time_left(self) -> bool:
        """Whether enough is done to say how long the rest takes."""
        return FIRST_SHARE_WITH_TIME_LEFT < self.done < LAST_SHARE_WITH_TIME_LEFT

    def text(self) -> str:
        """Return the line as it is now.

        The time left assumes that parts to come take as long as those that are done. While a part
        takes longer than any before it, this is too short, and the line says so.
        """
        if not self.knows_time_left:
            return self.message
        now = time.monotonic()
        left = describe_seconds((now - self.begin) * (1 / self.done - 1))
        bound = "about"
        if now - self.time_of_report > self.longest_part:
            bound = "at least"
        return f"{self.message}: {100 * self.done:.0f} %, {bound} {left} left"

    def text_on_terminal(self) -> str:
        """Return the line as it is now, with the time so far where the time left is unknown."""
        passed = time.monotonic() - self.begin
        if self.knows_time_left or passed < SECONDS_TO_TIME_SO_FAR:
            return self.text()
        return f"{self.message}, {describe_seconds(passed)} so far"

    def change_message(self, message: str) -> None:
        """Replace the message."""
        self.message = visible(message)

    def report(self, done: float) -> None:
        """Take note of the share that is done."""
        if done > self.done:
            now = time.monotonic()
            self.longest_part = max(self.longest_part, now - self.time_of_report)
            self.time_of_report = now
            self.done = done


@contextmanager
def waiting(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` while the block runs, with the share done and the time left once known.

    On a terminal one line is rewritten; elsewhere a line is printed after two seconds, and another
    one every half minute.

    Yields
    ------
    callable
        Takes a text that replaces the message.
    """
    line = _StatusLine(message)
    shown = _printed_now_and_then(line)
    if sys.stderr is not None and sys.stderr.isatty():
        shown = _rewritten_on_terminal(line)
    token = _share_of_this_code.set(Share(line.report))
    try:
        with shown:
            yield line.change_message
    finally:
        _share_of_this_code.reset(token)


@contextmanager
def _rewritten_on_terminal(line: _StatusLine) -> Iterator[None]:
    """Keep one line of the terminal up to date, with a spinner.

    The line is made anew whenever it is drawn, as the time left changes while a part takes long.
    What is printed on the same terminal appears above the line. Standard output that goes into a
    file is left alone.
    """
    from rich.console import Console  # takes 0.1 s to import
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", line.message, style="status.spinner")

    def line_now() -> Spinner:
        """Return the spinner with the line as it is now."""
        spinner.update(text=line.text_on_terminal())
        return spinner

    prints_on_terminal = sys.stdout is not None and sys.stdout.isatty()
    with Live(
        get_renderable=line_now,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=prints_on_terminal,
    ):
        yield


@contextmanager
def _printed_now_and_then(line: _StatusLine) -> Iterator[None]:
    """Print the line from a thread of its own, as long as the block runs."""
    over = threading.Event()

    def repeat() -> None:
        """Print the line again and again until the work is over."""
        pause = SECONDS_TO_FIRST_LINE
        while not over.wait(pause):
            say(f"{line.text()} ...")
            pause = SECONDS_BETWEEN_LINES

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield
    finally:
        over.set()
