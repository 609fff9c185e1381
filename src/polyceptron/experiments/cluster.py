"""The same tasks on a Dask cluster: `polyceptron sweep ... --cluster tcp://host:8786`.

Dask moves a task of a lost worker to another one; this engine adds what a sweep needs beyond that:
a bounded window, one clear error when the scheduler goes away, and a failed row for a task that
keeps killing its workers. Only this process writes to the store; workers need no access to it.
"""

from __future__ import annotations

import logging
import queue
import time
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments.engine import Engine
from polyceptron.experiments.tasks import (
    CaseResult,
    Runner,
    Task,
    attempt,
    environment,
    failure,
)

CONNECT_SECONDS = 10.0
WORKER_SECONDS = 60.0  # a batch system may take a while to start the first worker
REFRESH_SECONDS = 2.0


def connect_cluster(address: str, *, default: bool = True) -> Any:
    """A client of the scheduler at `address`, to which Dask sends its work if it is the default."""
    try:
        import distributed
    except ImportError:
        raise InvalidInput("a cluster needs Dask: pip install 'polyceptron[cluster]'") from None
    for name in ("distributed.client", "distributed.core", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # it is reported once, by an error
    make: Any = distributed.Client
    try:
        return make(address, timeout=CONNECT_SECONDS, set_as_default=default)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"no Dask scheduler answers at {address!r}: {reason}") from None


class DaskEngine(Engine):
    """Tasks on the workers of the Dask scheduler at `address`."""

    def __init__(self, address: str, runner: Runner) -> None:
        super().__init__(runner)
        self._address = address
        self._ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._places = 0
        self._next_refresh = 0.0
        self._client: Any = connect_cluster(address, default=False)
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @property
    def free(self) -> int:
        """Two tasks for each thread of the cluster as it is now; workers may come and go."""
        if time.monotonic() >= self._next_refresh:
            self._next_refresh = time.monotonic() + REFRESH_SECONDS
            self._places = 2 * self._threads()
        return self._places - len(self._running)

    def submit(self, task: Task) -> None:
        self._check_connection()
        future = self._client.submit(attempt, self._runner, task, pure=False)
        self._running[future] = task
        future.add_done_callback(self._ended.put)

    def finished(self, timeout: float) -> list[CaseResult]:
        """What has finished; a task lost on the way is submitted again."""
        done = []
        try:
            done.append(self._ended.get(timeout=max(timeout, 1e-3)))
            while True:
                done.append(self._ended.get_nowait())
        except queue.Empty:
            pass
        self._check_connection()
        ready = [future for future in done if future.status == "finished"]
        answers = self._fetch(ready)
        results: list[CaseResult] = []
        for future in done:
            task = self._running.pop(future)
            if future in answers:
                results += answers[future]
            elif future.status == "error":
                results += failure(task, _reason(future.exception()))
            else:  # cancelled, or lost with the worker that had it
                self.submit(task)
        return results

    def close(self) -> None:
        """Take back what has not started; what runs on a worker ends there and is dropped."""
        try:
            if self._client.status == "running" and self._running:
                self._client.cancel(list(self._running), force=True)
            self._running.clear()
            self._client.close(timeout=2)
        except Exception as error:  # the cluster is gone: nothing is left to take back
            logging.getLogger(__name__).debug("closing the client: %s", error)

    def _check_workers(self) -> None:
        """Wait for a worker, and make sure that workers run this version of the code."""
        try:
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError:
            raise InvalidInput(
                f"the Dask scheduler at {self._address!r} has no workers "
                f"(waited {WORKER_SECONDS:.0f} s)"
            ) from None
        try:
            versions = self._client.run(environment)
        except Exception as error:
            raise InvalidInput(
                f"the workers of {self._address!r} cannot run polyceptron: {error}"
            ) from None
        ours = environment()["polyceptron"]
        for worker, theirs in versions.items():
            if theirs["polyceptron"] != ours:
                raise InvalidInput(
                    f"the worker {worker} has polyceptron {theirs['polyceptron']}, this is {ours}: "
                    "install the same version everywhere"
                )

    def _check_connection(self) -> None:
        if self._client.status != "running":
            raise self._lost()

    def _fetch(self, ready: list[Any]) -> dict[Any, list[CaseResult]]:
        """The results of finished futures; empty if they were lost on the way."""
        try:
            return dict(zip(ready, self._client.gather(ready), strict=True))
        except Exception as error:
            logging.getLogger(__name__).debug("fetching results: %s", error)
            time.sleep(0.5)  # a connection breaks a moment before the client notices
            self._check_connection()
            return {}

    def _threads(self) -> int:
        try:
            return int(sum(self._client.nthreads().values()))
        except Exception as error:
            raise self._lost() from error

    def _lost(self) -> ComputationFailed:
        return ComputationFailed(
            f"lost the Dask scheduler at {self._address!r}; every result that arrived is stored: "
            "when a scheduler is back, run the same command again"
        )


def _reason(problem: BaseException | None) -> str:
    name = type(problem).__name__
    if name == "KilledWorker":  # Dask's own text names addresses, which mean nothing in a store
        return "several worker processes died while computing this task (killed, or out of memory?)"
    return f"{name}: {problem}"
