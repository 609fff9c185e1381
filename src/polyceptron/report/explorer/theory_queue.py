"""A process of our own that does one piece of work after another and can be killed at any time.

The two sides speak JSON, one message a line: a request goes to the child's standard input, answers
come from its standard output. The child ends by itself when its input closes, so that nothing is
left behind if this process dies.

Theory for all visitors: a cache of answers, and three worker processes that fill it.

Quick tasks have a worker, so that a slow curve never holds up a slider, and slow ones two. A page
wants the tasks of its latest settings only: what nobody wants any more is dropped from the queue,
and stopped if it is running for long. What a page wants is never dropped for another's sake.
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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from polyceptron.errors import ComputationFailed
from polyceptron.report.explorer.curve_tasks import Task, is_slow, key_of

Message = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerProcess:
    """A running worker; start it by making one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "polyceptron.report.explorer.worker_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # a Ctrl-C at the terminal is ours to handle
        )
        self._messages: queue.Queue[Message | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self._messages.put(json.loads(line))
        self._messages.put(None)

    def send(self, request: Message) -> None:
        """Hand over a piece of work."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            raise ComputationFailed("the worker process has ended") from None

    def receive(self, timeout: float) -> Message | None:
        """The next message, or None if there is none yet; a failure if the process has ended."""
        try:
            message = self._messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is None:
            self._messages.put(None)
            raise ComputationFailed("the worker process has ended")
        return message

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


MAX_CACHED = 400
TIME_LIMIT = 180.0  # seconds a task may take
PATIENCE = 3.0  # seconds an unwanted task may run on, as its tables may serve the next one


@dataclass
class Answer:
    """What is known about a task: a part of its result or all of it, or why there is none."""

    result: Any = None
    error: str | None = None
    complete: bool = False
    done: int = 0
    total: int = 0


_GONE = Answer(complete=True)


class TheoryQueue:
    """Ask with `request`, look with `answer`, wait with `wait`; `close` ends the workers."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self.time_limit = time_limit
        self._changed = threading.Condition()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._wanted: dict[str, set[str]] = {}
        self._waiting: dict[bool, OrderedDict[str, Task]] = {
            False: OrderedDict(),
            True: OrderedDict(),
        }
        self._closed = self._prepared = False
        self._running: set[str] = set()
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
        tasks = list(tasks)
        keys = [key_of(task) for task in tasks]
        with self._changed:
            self._wanted[page] = set(keys)
            for key, task in zip(keys, tasks, strict=True):
                if key in self._answers:
                    self._answers.move_to_end(key)
                    if self._answers[key].complete:
                        continue
                else:
                    self._answers[key] = Answer()
                self._waiting[is_slow(task)].setdefault(key, task)
            wanted = set().union(*self._wanted.values())
            for queue in self._waiting.values():
                for key in [key for key in queue if key not in wanted]:
                    del queue[key]
            self._trim(wanted)
            self._changed.notify_all()
        return keys

    def forget(self, page: str) -> None:
        """The page is gone."""
        with self._changed:
            self._wanted.pop(page, None)

    def answer(self, key: str) -> Answer:
        """What is known now."""
        with self._changed:
            known = self._answers.get(key, Answer())
            return Answer(**vars(known))

    def wait(self, keys: Iterable[str], timeout: float) -> bool:
        """Until all of `keys` are complete or the time is up; says whether they are."""
        keys = list(keys)

        def ready() -> bool:
            return all(key in self._answers and self._answers[key].complete for key in keys)

        with self._changed:
            return self._changed.wait_for(ready, timeout)

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

    def _trim(self, wanted: set[str]) -> None:
        for key in [key for key in self._answers if key not in wanted]:
            if len(self._answers) <= MAX_CACHED:
                break
            del self._answers[key]

    def _serve(self, lane: int) -> None:
        queue = self._waiting[lane > 0]

        def has_work() -> bool:
            alive = lane in self._children
            return bool(self._closed or queue.keys() - self._running or self._prepared > alive)

        while True:
            with self._changed:
                self._changed.wait_for(has_work)
                if self._closed:
                    return
                if not queue.keys() - self._running:
                    self._child(lane)
                    continue
                key = next(key for key in queue if key not in self._running)
                task = queue[key]
                self._running.add(key)
            try:
                self._work(lane, key, task)
            except ComputationFailed as error:
                self._record(key, error=str(error), complete=True)
            with self._changed:
                self._running.discard(key)
                # Wanted again while it was being stopped, it stays in the queue.
                if self._answers.get(key, _GONE).complete or not self._is_wanted(key):
                    queue.pop(key, None)

    def _work(self, lane: int, key: str, task: Task) -> None:
        fresh = lane not in self._children or not self._children[lane].alive
        child = self._child(lane)
        child.send({"task": task})
        start = time.monotonic()
        while True:
            message = child.receive(0.1)
            spent = time.monotonic() - start
            if self._closed or (spent > PATIENCE and not self._is_wanted(key)):
                child.kill()
                del self._children[lane]  # the next one starts at once, if they do here
                return
            if spent > self.time_limit:
                child.kill()
                raise ComputationFailed(
                    f"stopped after {self.time_limit:.0f} s: choose fewer points or classes"
                )
            if message is None:
                continue
            if "result" in message:
                self._record(key, **message)
                continue
            if message.get("memory"):
                child.kill()  # its tables of earlier tasks go with it
                if not fresh:
                    return self._work(lane, key, task)
            self._record(key, error=message.get("error"), complete=True)
            return

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

    def _record(self, key: str, **values: Any) -> None:
        with self._changed, contextlib.suppress(KeyError):
            answer = self._answers[key]
            for name, value in values.items():
                setattr(answer, name, value)
            self._changed.notify_all()
