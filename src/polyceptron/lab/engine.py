"""Where tasks run: processes of this machine (`LocalEngine`) or a Dask cluster (`DaskEngine`).

Both run the same function, `tasks.attempt`, so that a row does not depend on where it was computed.
A sweep asks an engine whether it is `busy` and how many tasks it is `free` to take now (a window
that keeps the parent's memory bounded), gives it tasks (`submit`), takes what is `finished` and
ends with `close`, which drops the rest. Only this process writes to the store.

The local engine is joblib's loky pool. A worker that dies (out of memory, SIGKILL) breaks the whole
pool; the tasks it held are tried again, one at a time, and only a task that kills a worker when
alone is recorded as failed. A worker whose parent has died ends itself. Dask moves a task of a lost
worker to another one, and gives up one that keeps killing its workers.
"""

import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import current_process, resource_tracker
from typing import Any, Protocol

from polyceptron.display import describe_seconds
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.tasks import Runner, Task, attempt, environment, failure
from polyceptron.progress import waiting
from polyceptron.store import CaseResult
from polyceptron.version import VERSION


class _Pool(Protocol):
    """A pool of processes, as joblib's loky has it."""

    def submit(
        self, function: Callable[[Runner, Task], list[CaseResult]], runner: Runner, task: Task, /
    ) -> Future[list[CaseResult]]:
        """Have a task computed by one of the processes."""

    def shutdown(self, wait: bool = ..., *, kill_workers: bool = ...) -> None:
        """End the processes."""


_DIED = "died while computing this task{} (killed, or out of memory?)"


class Engine:
    """Tasks in flight, by their futures; where they run is told by `free` and `submit`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._running: dict[Future[list[CaseResult]], Task] = {}
        self._suspects: deque[Task] = deque()  # lost with a worker, to be tried again

    @property
    def busy(self) -> bool:
        """Return whether any task is not yet handed back."""
        return bool(self._running or self._suspects)

    def finished(self, timeout: float) -> list[CaseResult]:
        """Return what has finished, after waiting up to `timeout` seconds for the first."""
        done, _ = wait(self._running, timeout, return_when=FIRST_COMPLETED)
        results: list[CaseResult] = []
        lost: list[Task] = []
        for future in done:
            task = self._running.pop(future)
            try:
                results += future.result()
            except (BrokenProcessPool, CancelledError):
                lost.append(task)
            except Exception as error:  # the task or its result could not travel
                reason = f"{type(error).__name__}: {error}"
                if reason.startswith("KilledWorker"):  # Dask's own text names addresses
                    reason = "several worker processes " + _DIED.format("")
                results += failure(task, reason)
        return results + self._recover(lost)

    def _recover(self, lost: list[Task]) -> list[CaseResult]:
        """Have these tasks computed again, or give them up with the results returned."""
        self._suspects.extend(lost)
        return []


class LocalEngine(Engine):
    """`workers` processes of this machine."""

    def __init__(self, workers: int, runner: Runner) -> None:
        super().__init__(runner)
        self._workers = workers
        self._pool: _Pool | None = None
        self._alone: Task | None = None  # the suspect that is tried again now

    @property
    def free(self) -> int:
        """Two tasks for each worker, so that none waits for the parent; none during a retrial."""
        if self._suspects or self._alone:
            return 0
        return 2 * self._workers - len(self._running)

    def submit(self, task: Task) -> None:
        """Take a task."""
        try:
            future = self._submit(task)
        except BrokenProcessPool:  # a worker died while nobody looked
            if self._running:  # `finished` finds out which tasks were lost
                self._suspects.append(task)
                return
            self.close()
            future = self._submit(task)
        self._running[future] = task

    def finished(self, timeout: float) -> list[CaseResult]:
        """Return what has finished; a suspect is tried when nothing else runs."""
        if self._suspects and not self._running:
            self._alone = self._suspects.popleft()
            self.submit(self._alone)
        return super().finished(timeout)

    def _recover(self, lost: list[Task]) -> list[CaseResult]:
        """Try the tasks of a broken pool again one at a time; give up one that breaks it alone."""
        if lost:  # the pool is broken as a whole
            lost += self._running.values()
            self.close()
        alone = self._alone
        if not self._running:
            self._alone = None
        if lost and alone is not None:
            return failure(alone, "the worker process " + _DIED.format(" alone"))
        return super()._recover(lost)

    def close(self) -> None:
        """Kill the workers: what they hold is computed again by the next run."""
        if self._pool is not None:
            # Until loky has passed on every task it was given, some milliseconds: its manager
            # thread stops with a KeyError if it is shut down before it has seen a new task.
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline and not all(
                future.running() or future.done() for future in self._running
            ):
                time.sleep(0.002)
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None
        self._running.clear()

    def _submit(self, task: Task) -> Future[list[CaseResult]]:
        """Hand a task to the pool, whose workers leave Ctrl-C to this process from their start."""
        if self._pool is None:
            self._pool = _open_pool(self._workers)
            resource_tracker.ensure_running()  # it unblocks the signal when it starts
        # A blocked signal stays blocked in what a process starts, and waits in the process itself.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(attempt, self._runner, task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open_pool(workers: int) -> _Pool:
    """Return a pool of processes; they share semaphores, which Linux keeps in /dev/shm."""
    if current_process().daemon:  # as the workers of Dask and of multiprocessing.Pool are
        raise InvalidInput(
            "this process is a worker that may not start processes of its own: run the sweep from "
            "the main program, or give it the address of a Dask scheduler as cluster"
        )
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    try:
        pool: _Pool = ProcessPoolExecutor(
            workers, initializer=_start_worker, initargs=(os.getpid(),)
        )
        return pool
    except OSError as error:
        raise ComputationFailed(
            "cannot start worker processes: the system refused the semaphores that they share, "
            f"on Linux files in the shared-memory folder '/dev/shm' ({error.strerror}): make it "
            "writable, or compute elsewhere with --cluster"
        ) from error


def _start_worker(parent: int) -> None:
    """End when the parent does."""

    def follow() -> None:
        """Look twice a second whether the parent is there."""
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@dataclass
class Progress:
    """A sweep at one moment, or in the end: rows of the grid, and what became of them.

    `already` were stored by earlier runs; of those `computed` by this one, some have `failed`.
    `damaged` has the keys of stored rows that are computed again.
    """

    name: str
    rows: int
    already: int
    computed: int = 0
    failed: int = 0
    seconds: float = 0.0
    damaged: tuple[str, ...] = ()

    def count(self, results: list[CaseResult], seconds: float) -> None:
        """Take note of results that have arrived, so many seconds after the begin."""
        self.computed += len(results)
        self.failed += sum(1 for result in results if result.failed)
        self.seconds = seconds

    @property
    def done(self) -> int:
        """Rows that are stored with a number."""
        return self.already + self.computed - self.failed

    @property
    def seconds_left(self) -> float | None:
        """The time left at the rate of the rows computed so far; None before any is done."""
        if self.computed == 0:
            return None
        left = self.rows - self.already - self.computed
        return self.seconds * left / self.computed

    def __str__(self) -> str:
        rate = 0.0
        if self.seconds > 0:
            rate = self.computed / self.seconds
        parts = [
            f"{100 * self.done / self.rows:.0f} %, {self.done} of {self.rows} rows",
            f"{rate:.3g} rows/s",
        ]
        if self.seconds_left is not None:
            parts.append(f"about {describe_seconds(self.seconds_left)} left")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return f"{self.name}: {', '.join(parts)}"


Listener = Callable[[Progress], object]


@contextmanager
def shown(progress: bool | Listener, name: str) -> Iterator[Listener]:
    """Yield a function that takes the progress: it shows a line, or is the listener given.

    Parameters
    ----------
    progress : bool or callable
        True for a line on standard error, False for nothing, or who listens.
    name : str
        Stands in the line before anything is done.
    """
    if callable(progress):
        yield progress
    elif progress:
        with waiting(name) as show:
            yield lambda now: show(str(now))
    else:
        yield lambda now: None


CONNECT_SECONDS = 10.0


def connect_cluster(address: str, *, default: bool = True) -> Any:
    """Return a client of the scheduler at `address`, the one Dask works with if `default`."""
    try:
        import distributed
    except ImportError:
        raise InvalidInput("a cluster needs Dask: pip install 'polyceptron[cluster]'") from None
    for name in ("distributed.client", "distributed.core", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it is reported once, by an error
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=default)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"no Dask scheduler answers at {address!r}: {reason}") from None


class DaskEngine(Engine):
    """Tasks on the workers of the Dask scheduler at `address`."""

    def __init__(self, address: str, runner: Runner) -> None:
        super().__init__(runner)
        self._address = address
        self._client: Any = connect_cluster(address, default=False)
        self._executor = self._client.get_executor(pure=False)
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @property
    def free(self) -> int:
        """Two tasks for each thread of the cluster as it is now; workers may come and go."""
        with self._connected():
            return 2 * int(sum(self._client.nthreads().values())) - len(self._running)

    def submit(self, task: Task) -> None:
        """Take a task."""
        with self._connected():
            self._running[self._executor.submit(attempt, self._runner, task)] = task

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn a lost connection into a sentence that says what to do."""
        try:
            if self._client.status != "running":
                raise ConnectionError(self._client.status)
            yield
        except Exception as error:
            if self._client.status == "running" and not isinstance(error, OSError):
                raise
            raise ComputationFailed(
                f"lost the Dask scheduler at {self._address!r}; every result that arrived is "
                "stored: when a scheduler is back, run the same command again"
            ) from error

    def finished(self, timeout: float) -> list[CaseResult]:
        """Return what has finished; lost tasks go out again when what has arrived is stored."""
        while self._suspects:
            self.submit(self._suspects.popleft())
        return super().finished(timeout)

    def close(self) -> None:
        """Take back what has not started; what runs on a worker ends there and is dropped."""
        self._running.clear()
        try:
            if self._client.status == "running":
                self._executor.shutdown(wait=False)
            self._client.close(timeout=2)
        except Exception as error:  # the cluster is gone: nothing is left to take back
            logging.getLogger(__name__).debug("closing the client: %s", error)

    def _check_workers(self) -> None:
        """Wait for a worker, and make sure that workers run this version of the code."""
        where = repr(self._address)
        seconds = 60  # a batch system may take a while to start one
        try:
            self._client.wait_for_workers(1, timeout=seconds)
            versions = self._client.run(environment)
        except TimeoutError:
            problem = f"the Dask scheduler at {where} has no workers (waited {seconds} s)"
            raise InvalidInput(problem) from None
        except Exception as error:
            raise InvalidInput(f"the workers of {where} cannot run polyceptron: {error}") from None
        for worker, theirs in versions.items():
            if theirs["polyceptron"] != VERSION:
                raise InvalidInput(
                    f"the worker {worker} has polyceptron {theirs['polyceptron']}, this is "
                    f"{VERSION}: install the same version everywhere"
                )
