"""Work in processes of our own: each does one task after another and can be killed at any time.

The two sides speak JSON, one message a line: a task goes to the child's standard input, pieces of
its answer come from its standard output, the last of them {"end": true} or {"error": message}. A
child ends by itself when its input closes, so that nothing is left behind if this process dies.
The operating system bounds the memory that it may take, where it has such a bound (Linux).

`WorkerProcess` is the parent's side of a child, `main` the child's own. `TheoryQueue` is the theory
for all visitors: a cache of answers, and three workers that fill it. Quick tasks have one of them,
so that a slow curve never holds up a slider, and slow ones two. A page wants the tasks of its
latest settings only: what nobody wants any more is dropped from the queue, and stopped if it is
running for long. What a page wants is never dropped for another's sake.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.page_tasks import Task, is_slow, key_of, perform

Message = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MEMORY_LIMIT = 800_000_000  # bytes that a worker may hold
ENDED: Message = {"error": "the worker process has ended"}

MAX_CACHED = 400  # answers
TIME_LIMIT = 180.0  # seconds a task of the theory may take
PATIENCE = 3.0  # seconds an unwanted task may run on, as its tables may serve the next one


class WorkerProcess:
    """A running worker; start it by making one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "polyceptron.report.explorer.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # a Ctrl-C at the terminal is ours to handle
        )
        self._messages: queue.Queue[Message] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self._messages.put(json.loads(line))
        self._messages.put(ENDED)

    def work(
        self, task: Task, seconds: float, cure: str, wanted: Callable[[float], bool]
    ) -> Iterator[Message]:
        """The pieces of a task's answer as they come, the last one with `end` or `error`.

        The process is killed after so many `seconds`, with an error message that names the `cure`;
        and, without a message, as soon as `wanted` is false of the seconds that it has taken.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, as its last message says
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        start = time.monotonic()
        while True:
            message = None
            with contextlib.suppress(queue.Empty):
                message = self._messages.get(timeout=0.1)
            spent = time.monotonic() - start
            if not wanted(spent):
                self.kill()
                return
            if spent > seconds:
                self.kill()
                message = {"error": f"stopped after {seconds:.0f} s: {cure}"}
            if message is not None:
                yield message
                if "end" in message or "error" in message:
                    return

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process now, whatever it is doing, and wait until it is gone."""
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if stream is not None:
                    stream.close()


def answers(task: Task) -> Iterator[Message]:
    """The messages for one task; a failure is a message too."""
    try:
        yield from perform(task)
        yield {"end": True}
    except (InvalidInput, ComputationFailed) as error:
        yield {"error": str(error)}
    except MemoryError:
        words = f"this needs more memory than the {MEMORY_LIMIT / 1e9:.1f} GB allowed here"
        yield {"error": words, "memory": True}
    except Exception as error:  # a defect must not end the worker without a word
        yield {"error": f"{type(error).__name__}: {error}"}


def limit_memory(limit: int = MEMORY_LIMIT) -> None:
    """Ask the operating system to refuse this process more than `limit` bytes."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _listen(tasks: queue.Queue[Task]) -> None:
    """Tasks into the queue; when the parent is gone, so are we, in the middle of whatever."""
    for line in sys.stdin:
        tasks.put(json.loads(line))
    os._exit(0)


def main() -> None:
    """Answer until the input ends; what is asked for most is loaded before the first task."""
    limit_memory()
    tasks: queue.Queue[Task] = queue.Queue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    for name in ("theory.curve", "theory.separability"):
        import_module(f"polyceptron.{name}")
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the messages
    while True:
        for message in answers(tasks.get()):
            out.write(json.dumps(message) + "\n")
            out.flush()


@dataclass
class Answer:
    """What is known about a task: a part of its result or all of it, or why there is none."""

    result: Any = None
    error: str | None = None
    complete: bool = False
    done: int = 0


class TheoryQueue:
    """Ask with `request`, look with `answer`, wait with `wait`; `close` ends the workers."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self.time_limit = time_limit
        self._changed = threading.Condition()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._wanted: dict[str, set[str]] = {}
        self._waiting: dict[str, Task] = {}
        self._running: set[str] = set()
        self._closed = self._prepared = False
        self._children: dict[int, WorkerProcess] = {}
        self._threads = [
            threading.Thread(target=self._serve, args=(lane,), daemon=True) for lane in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def prepare(self) -> None:
        """Start the workers that have nothing to do yet, so that no question waits for them."""
        with self._changed:
            self._prepared = True
            self._changed.notify_all()

    def request(self, page: str, tasks: Iterable[Task]) -> list[str]:
        """Replace what `page` wants; returns the keys of the tasks."""
        asked = {key_of(task): task for task in tasks}
        with self._changed:
            self._wanted[page] = set(asked)
            for key, task in asked.items():
                if not self._answers.setdefault(key, Answer()).complete:
                    self._waiting.setdefault(key, task)
                self._answers.move_to_end(key)
            wanted = set().union(*self._wanted.values())
            self._waiting = {key: task for key, task in self._waiting.items() if key in wanted}
            spare = [key for key in self._answers if key not in wanted]
            for key in spare[: max(0, len(self._answers) - MAX_CACHED)]:
                del self._answers[key]
            self._changed.notify_all()
        return list(asked)

    def forget(self, page: str) -> None:
        """The page is gone."""
        with self._changed:
            self._wanted.pop(page, None)

    def answer(self, key: str) -> Answer:
        """What is known now."""
        with self._changed:
            return replace(self._answers.get(key, Answer()))

    def wait(self, keys: Iterable[str], timeout: float) -> bool:
        """Until all of `keys` are complete or the time is up; returns whether they are."""
        keys = list(keys)
        with self._changed:
            return self._changed.wait_for(
                lambda: all(self._answers.get(key, Answer()).complete for key in keys), timeout
            )

    def wait_for_news(self, timeout: float) -> None:
        """Until a worker has answered anything or the time is up."""
        with self._changed:
            self._changed.wait(timeout)

    def close(self) -> None:
        """End the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for child in list(self._children.values()):
            child.kill()
        for thread in self._threads:
            thread.join(timeout=10)

    def _serve(self, lane: int) -> None:
        """What the thread of one worker does: the first is for quick tasks, the others for slow."""

        def next_key() -> str | None:
            free = (key for key in self._waiting if key not in self._running)
            return next((key for key in free if is_slow(self._waiting[key]) == (lane > 0)), None)

        def has_work() -> bool:
            return bool(self._closed or next_key() or self._prepared > (lane in self._children))

        while True:
            with self._changed:
                self._changed.wait_for(has_work)
                if self._closed:
                    return
                key = next_key()
                if key is None:
                    self._child(lane)
                    continue
                task = self._waiting[key]
                self._running.add(key)
            self._work(lane, key, task)
            with self._changed:
                self._running.discard(key)
                # Wanted again while it was being stopped, it stays in the queue.
                answer = self._answers.get(key)
                if answer is None or answer.complete or not self._is_wanted(key):
                    self._waiting.pop(key, None)

    def _work(self, lane: int, key: str, task: Task) -> None:
        fresh = lane not in self._children or not self._children[lane].alive
        child = self._child(lane)

        def wanted(spent: float) -> bool:
            return not self._closed and (spent <= PATIENCE or self._is_wanted(key))

        cure = "choose fewer points or classes"
        for message in child.work(task, self.time_limit, cure, wanted):
            if message.get("memory"):
                child.kill()  # its tables of earlier tasks go with it
                if not fresh:
                    return self._work(lane, key, task)
            self._record(key, message)
        if not child.alive:
            self._children.pop(lane, None)  # the next one starts at once, if they do here
        return None

    def _child(self, lane: int) -> WorkerProcess:
        child = self._children.get(lane)
        if child is None or not child.alive:
            child = self._children[lane] = WorkerProcess()
            if self._closed:
                child.kill()
        return child

    def _is_wanted(self, key: str) -> bool:
        with self._changed:
            return any(key in keys for keys in self._wanted.values())

    def _record(self, key: str, message: Message) -> None:
        """A piece of an answer; what came before an error stays."""
        with self._changed:
            answer = self._answers.get(key)
            if answer is not None:
                answer.result = message.get("result", answer.result)
                answer.done = message.get("done", answer.done)
                answer.error = message.get("error")
                answer.complete = "end" in message or "error" in message
            self._changed.notify_all()


if __name__ == "__main__":
    main()
