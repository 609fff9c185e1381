"""Where tasks run: processes of this machine (here) or a Dask cluster (`cluster`).

An engine takes tasks while it has `free` places and hands back what is finished. Both engines run
the same function, `compute_task.attempt`, so that a row does not depend on where it was computed.

The local engine is joblib's loky pool, with one BLAS thread in each process. What it adds:

- a worker that dies (out of memory, SIGKILL) breaks the whole pool; the tasks it held are tried
  again, one at a time, and only a task that kills a worker when alone is recorded as failed;
- a worker whose parent has died ends itself, so that no process is left behind.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from polyceptron.experiments.compute_task import CaseResult, Runner, attempt, failure
from polyceptron.experiments.tasks import Task

MAX_DEATHS = 2  # a task that kills this many workers when alone has failed
PARENT_CHECK_SECONDS = 0.5
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
)  # fmt: skip


class Engine(Protocol):
    """What a sweep needs of the place where its tasks run."""

    @property
    def free(self) -> int:
        """How many more tasks to submit now; the window keeps the parent's memory bounded."""

    @property
    def busy(self) -> bool:
        """Whether any task is not yet handed back."""

    def submit(self, task: Task) -> None:
        """Take a task."""

    def finished(self, timeout: float) -> list[CaseResult]:
        """What has finished, after waiting up to `timeout` seconds for the first."""

    def close(self) -> None:
        """Stop now; what is not finished is dropped."""


class LocalEngine:
    """`workers` processes of this machine."""

    def __init__(self, workers: int, runner: Runner) -> None:
        self._workers = workers
        self._runner = runner
        self._pool: Any = None
        self._running: dict[Future[list[CaseResult]], Task] = {}
        self._suspects: deque[tuple[Task, int]] = deque()  # (task, deaths when alone)
        self._alone: int | None = None  # deaths so far of the suspect that runs now

    @property
    def free(self) -> int:
        """Two tasks for each worker, so that none waits for the parent; none during a retrial."""
        if self._suspects or self._alone is not None:
            return 0
        return 2 * self._workers - len(self._running)

    @property
    def busy(self) -> bool:
        """Whether any task is not yet handed back."""
        return bool(self._running or self._suspects)

    def submit(self, task: Task) -> None:
        """Take a task."""
        try:
            future = self._ready_pool().submit(attempt, self._runner, task)
        except BrokenProcessPool:  # a worker died while nobody looked
            if self._running:  # `finished` finds out which tasks were lost
                self._suspects.append((task, 0))
                return
            self.close()
            future = self._ready_pool().submit(attempt, self._runner, task)
        self._running[future] = task

    def finished(self, timeout: float) -> list[CaseResult]:
        """What has finished; tasks lost with a dead worker are queued for a retrial."""
        if not self._running and self._suspects:
            task, self._alone = self._suspects.popleft()
            self.submit(task)
        done, _ = wait(self._running, timeout, return_when=FIRST_COMPLETED)
        results: list[CaseResult] = []
        lost: list[Task] = []
        for future in done:
            task = self._running.pop(future)
            try:
                results += future.result()
            except BrokenProcessPool:
                lost.append(task)
            except Exception as error:  # the task or its result could not travel
                results += failure(task, f"{type(error).__name__}: {error}")
        if lost:
            results += self._recover(lost)
        elif done:
            self._alone = None
        return results

    def close(self) -> None:
        """Kill the workers: what they hold is computed again by the next run."""
        if self._pool is not None:
            self._wait_for_handover()
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
        self._running.clear()

    def _wait_for_handover(self) -> None:
        """Until loky has passed on every task it was given, a matter of milliseconds.

        Its manager thread stops with a KeyError if it is shut down before it has seen a new task.
        """
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            if all(future.running() or future.done() for future in self._running):
                return
            time.sleep(0.002)

    def _recover(self, lost: list[Task]) -> list[CaseResult]:
        """After the death of a worker: a new pool, and a retrial for whatever was running."""
        results: list[CaseResult] = []
        for future, task in self._running.items():
            try:
                results += future.result(timeout=30)
            except Exception:
                lost.append(task)
        self.close()
        if self._alone is None:
            self._suspects.extend((task, 0) for task in lost)
        else:
            deaths, self._alone = self._alone + 1, None
            for task in lost:  # exactly one
                if deaths < MAX_DEATHS:
                    self._suspects.appendleft((task, deaths))
                else:
                    results += failure(
                        task,
                        f"the worker process died {deaths} times while computing this task alone "
                        "(killed, or out of memory?)",
                    )
        return results

    def _ready_pool(self) -> Any:
        if self._pool is None:
            from joblib.externals.loky.process_executor import ProcessPoolExecutor

            self._pool = ProcessPoolExecutor(
                self._workers,
                initializer=_start_worker,
                initargs=(os.getpid(),),
                env=dict.fromkeys(_THREAD_VARIABLES, "1"),
            )
        return self._pool


def available_workers() -> int:
    """The processors this process may use."""
    import joblib

    return int(joblib.cpu_count())


def _start_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, args=(parent,), daemon=True).start()


def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
