"""A worker: a process of our own that computes tasks one by one, and can be killed at any time.

Parent and child speak JSON, one message a line. A task goes to the child's standard input; pieces
of its answer come from its standard output. The last piece is {"end": true} or {"error": message}.
A child ends by itself when its input closes, so that nothing is left behind if this process dies.
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
from collections.abc import Callable, Iterator
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer.page_tasks import Task, perform

Message = dict[str, Any]
"""One piece of an answer: `result` and `done`, or a `row`; at last `end`, or `error` with a reason.

An error may say `memory` (the worker had too little) or `died` (its process has ended).
"""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MEMORY_LIMIT = 800_000_000  # bytes that a worker may hold: several fit into a small machine
TRY_AGAIN = "reload the page to try again"
SECONDS_BETWEEN_LOOKS = 0.1  # at whether a task is still wanted


class WorkerProcess:
    """A running worker; start it by making one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__],
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
        """Take the messages as they come; the last one says that the process is gone."""
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stdout:
                self._messages.put(json.loads(line))
        reason = f"the worker process has ended (killed, or out of memory?): {TRY_AGAIN}"
        self._messages.put({"error": reason, "died": True})

    def work(
        self, task: Task, seconds: float, cure: str, wanted: Callable[[float], bool]
    ) -> Iterator[Message]:
        """Yield the pieces of a task's answer as they come, the last one with `end` or `error`.

        The process is killed after so many `seconds`, with a message that names the `cure`; and
        without one as soon as `wanted` is false of the seconds that it has taken.
        """
        self._send(task)
        start = time.monotonic()
        while True:
            message: Message = {}
            with contextlib.suppress(queue.Empty):
                message = self._messages.get(timeout=SECONDS_BETWEEN_LOOKS)
            spent = time.monotonic() - start
            if not wanted(spent):
                self.kill()
                return
            if spent > seconds:
                self.kill()
                message = {"error": f"stopped after {seconds:.0f} s: {cure}"}
            if message:
                yield message
            if "end" in message or "error" in message:
                return

    def _send(self, task: Task) -> None:
        """Write the task; a process that has ended says so by its last message."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()

    @property
    def alive(self) -> bool:
        """Return whether the process is still there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process now, whatever it is doing, and wait until it is gone."""
        with contextlib.suppress(OSError, ValueError), self.process:  # closes its ends and waits
            self.process.kill()


def answers(task: Task) -> Iterator[Message]:
    """Yield the messages for one task; a failure is a message too."""
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


def limit_memory() -> None:
    """Ask the operating system to refuse this process more memory, where it can (Linux)."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))


def answer_tasks() -> None:
    """Answer tasks on standard input until it ends: what the child does."""
    limit_memory()
    tasks: queue.Queue[Task] = queue.Queue()

    def listen() -> None:
        """Take tasks from the parent, line by line, until it is gone."""
        for line in sys.stdin:
            tasks.put(json.loads(line))
        os._exit(0)  # the parent is gone, and so are we, in the middle of whatever

    threading.Thread(target=listen, daemon=True).start()
    out = sys.stdout
    sys.stdout = sys.stderr  # nothing else may write among the messages
    while True:
        for message in answers(tasks.get()):
            out.write(json.dumps(message) + "\n")
            out.flush()


if __name__ == "__main__":
    answer_tasks()
