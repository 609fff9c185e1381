"""Run a sweep: compute what a store does not have yet, and survive whatever happens meanwhile.

    spec → tasks → (skip what is stored) → engine → store

A `SweepWalk` looks through the tasks of the grid, a batch at a time, for those that the store does
not have. In a run it goes a bounded way ahead of the workers, so that these begin at once and
memory does not grow with the sweep; results go to the disk as they arrive. Whatever ends the run,
running it again computes what is missing, failed rows included. A plan is a walk without work.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab import engine as engines
from polyceptron.lab import tasks
from polyceptron.lab.members import with_members
from polyceptron.lab.spec import SweepSpec, load_spec
from polyceptron.progress import steps
from polyceptron.rows import Row
from polyceptron.store import CaseResult, Store, locked_store

MAX_WORKERS = 1024
SECONDS_BETWEEN_LOOKS = 0.2  # at whether the user asked to stop
TASKS_OF_ONE_QUERY = 64  # of which the store is asked at once whether they are done
MOST_TASKS_READY = 4096  # that a run holds in memory, found ahead of the workers: some megabytes
MAX_BYTES_CHECKED = 2**28  # of a store; SQLite's check of a larger one would take many seconds
# Rows of a run that are looked for at its end. More than the log of a store usually holds, which
# SQLite empties into the database at every 1000 pages of 4 kB: what is lost of it are the latest.
LATEST_ROWS_CHECKED = 10_000

Engine = engines.LocalEngine | engines.DaskEngine


class SweepStopped(KeyboardInterrupt):
    """The run was asked to stop (Ctrl-C or SIGTERM) and did so cleanly; `report` tells how far."""

    def __init__(self, report: engines.Progress, signal_number: int) -> None:
        super().__init__("stopped")
        self.report = report
        self.signal_number = signal_number


def run_sweep(
    spec: SweepSpec | str | Path,
    store_path: str | Path,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    progress: bool | engines.Listener = False,
    runner: tasks.Runner = tasks.compute_rows,
) -> engines.Progress:
    """Compute every row of a sweep that the store does not have.

    Losses, priors and noises that this program has registered go along to the workers.

    Parameters
    ----------
    spec : SweepSpec or path
        The sweep, or the TOML file that describes it.
    store_path : path
        The SQLite file that keeps the rows, made if it is missing.
    workers : int, optional
        Processes of this machine; all processors if not given.
    cluster : str, optional
        Address of a Dask scheduler, instead of workers.
    progress : bool or callable
        True for a line on standard error, or a function that receives `Progress`.
    runner : callable
        Computes the rows of one task; the default does the real work.

    Returns
    -------
    Progress

    Examples
    --------
    >>> import tempfile
    >>> from polyceptron.lab.spec import parse_spec
    >>> spec = parse_spec("[[grid]]\\nsources = 'theory'\\nalpha = [1, 2]")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = run_sweep(spec, folder + "/runs.sqlite", workers=1)
    >>> report.computed, report.failed
    (2, 0)
    """
    if not isinstance(spec, SweepSpec):
        spec = load_spec(spec)
    _check_workers(workers, cluster)
    with ExitStack() as stack:
        path = stack.enter_context(locked_store(store_path))
        store = stack.enter_context(Store(path))
        if path.stat().st_size < MAX_BYTES_CHECKED:
            store.check()
        tell = stack.enter_context(engines.shown(progress, spec.sweep.name))
        stop = stack.enter_context(_stop_requests())
        run = _SweepRun(
            SweepWalk(spec, store), store, stack, workers, cluster, with_members(runner)
        )
        while not run.is_over and not stop:
            run.look_ahead()
            run.submit()
            run.collect(SECONDS_BETWEEN_LOOKS)
            tell(run.report)
        if stop:
            run.collect(0)  # keep what is ready
        _check_kept(path, run.latest)
        if stop:
            raise SweepStopped(run.report, stop[0])
    return run.report


def _check_workers(workers: int | None, cluster: str | None) -> None:
    """Raise unless the number of processes is possible and there is no cluster beside them."""
    if workers is None:
        return
    if cluster is not None:
        raise InvalidInput("give either workers or a cluster, not both")
    if isinstance(workers, bool) or not 1 <= workers <= MAX_WORKERS:
        raise InvalidInput(f"workers must be between 1 and {MAX_WORKERS}, got {workers!r}")


def sweep_rows(spec: SweepSpec | str | Path, store_path: str | Path) -> list[Row]:
    """Return the stored rows of a sweep, in the order of its grid; others are left out."""
    if not isinstance(spec, SweepSpec):
        spec = load_spec(spec)
    with Store(store_path) as store:
        return list(store.rows(tasks.sweep_keys(spec)))


class _SweepRun:
    """One run of a sweep: tasks found and not begun, an engine with tasks in flight, a report.

    Parameters
    ----------
    walk : SweepWalk
        Finds the tasks.
    store : Store
        Takes the results.
    stack : ExitStack
        Closes the engine, which is made when the first task is found.
    workers, cluster, runner
        As for `run_sweep`.
    """

    def __init__(
        self,
        walk: SweepWalk,
        store: Store,
        stack: ExitStack,
        workers: int | None,
        cluster: str | None,
        runner: tasks.Runner,
    ) -> None:
        self.latest: deque[str] = deque(maxlen=LATEST_ROWS_CHECKED)
        self._walk = walk
        self._store = store
        self._stack = stack
        self._workers = workers
        self._cluster = cluster
        self._runner = runner
        self._ready: deque[tasks.Task] = deque()
        self._engine: Engine | None = None
        self._begin = time.monotonic()
        self.report = engines.Progress(walk.name, walk.plan.rows, walk.plan.stored)

    @property
    def is_over(self) -> bool:
        """Return whether every task was found, and all of them have come back."""
        busy = self._engine is not None and self._engine.busy
        return self._walk.is_over and not self._ready and not busy

    def look_ahead(self) -> None:
        """Look through one more batch of the grid, unless enough tasks are ready."""
        if self._walk.is_over or len(self._ready) >= MOST_TASKS_READY:
            return
        self._ready.extend(self._walk.look())
        plan = self._walk.plan
        self.report.rows = plan.rows
        self.report.already = plan.stored
        self.report.damaged = tuple(plan.damaged)

    def submit(self) -> None:
        """Give the engine what it can take; start it when it is known how many workers it needs."""
        if self._engine is None:
            if not self._ready or not self._is_size_known():
                return
            self._engine = self._start_engine()
        while self._engine.free > 0 and self._ready:  # the first also asks whether it is there
            self._engine.submit(self._ready.popleft())

    def collect(self, most_seconds: float) -> None:
        """Store the results that have arrived; wait for one where there is nothing else to do."""
        if self._engine is None or not self._engine.busy:
            return
        may_look = not self._walk.is_over and len(self._ready) < MOST_TASKS_READY
        results = self._engine.finished(0 if may_look else most_seconds)
        if results:
            self._store.add(results)
        self._count(results)

    def _count(self, results: list[CaseResult]) -> None:
        """Take note of results that are stored."""
        self.latest.extend(result.key for result in results if not result.failed)
        self.report.count(results, time.monotonic() - self._begin)

    def _is_size_known(self) -> bool:
        """Return whether there are as many tasks as workers at most, or all tasks were found."""
        return self._walk.is_over or len(self._ready) >= MAX_WORKERS

    def _start_engine(self) -> Engine:
        """Return an engine, which the stack will close."""
        most = min(len(self._ready), MAX_WORKERS)
        engine = _make_engine(self._workers, self._cluster, most, self._runner)
        self._stack.callback(engine.close)
        return engine


def _make_engine(
    workers: int | None, cluster: str | None, most: int, runner: tasks.Runner
) -> Engine:
    """Return the engine of a cluster, or one of this machine with at most so many workers."""
    runner = with_members(runner)
    if cluster is not None:
        return engines.DaskEngine(cluster, runner)
    return engines.LocalEngine(min(workers or _count_processors(), most), runner)


def _count_processors() -> int:
    """Return how many processors this process may use."""
    import joblib

    try:
        return int(joblib.cpu_count())
    except ValueError:
        given = os.environ.get("LOKY_MAX_CPU_COUNT")
        raise InvalidInput(
            f"LOKY_MAX_CPU_COUNT in the environment must be a whole number above 0, got {given!r}"
        ) from None


def _check_kept(path: Path, keys: Iterable[str]) -> None:
    """Raise unless a fresh look at the store finds the latest rows of a run.

    The log of a store that is in use may be cut or removed by another program; this process would
    go on reading what it remembers.
    """
    wanted = list(keys)
    try:
        with Store(path) as fresh:
            if path.stat().st_size < MAX_BYTES_CHECKED:
                fresh.check()
            lost = len(wanted) - len(fresh.done(wanted))
    except InvalidInput as error:
        raise ComputationFailed(f"the store was damaged while the sweep ran: {error}") from None
    if lost:
        raise ComputationFailed(
            f"{lost} of the latest {len(wanted)} rows are no longer in the store {str(path)!r}: "
            f"its log {path.name + '-wal'!r} was cut or removed while the sweep ran; run the same "
            "command again"
        )


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that a first Ctrl-C or SIGTERM makes non-empty; a second one interrupts at once.

    The loop looks at it between writes, so that a stop never falls into the middle of one.
    """
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        """Take the first signal down, and let a second one end the sweep at once."""
        if received:
            raise KeyboardInterrupt
        received.append(number)

    main = threading.current_thread() is threading.main_thread()  # elsewhere there are no signals
    numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class PlanPart:
    """The rows of one source, estimator and dimension, and how many of them are stored."""

    rows: int = 0
    stored: int = 0


@dataclass
class SweepPlan:
    """The work of a sweep: how many rows it has, and how many of them are stored.

    `parts` has both for each (source, estimator, dimension or None), as far as the grid was looked
    through. `damaged` has the keys of rows that count as not stored.
    """

    rows: int = 0
    stored: int = 0
    tasks_to_do: int = 0
    largest_bytes: int = 0
    parts: dict[tuple[str, str, int | None], PlanPart] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @property
    def to_do(self) -> int:
        """Rows still to compute."""
        return self.rows - self.stored

    def count(self, task: tasks.Task, missing: set[str]) -> None:
        """Take note of a task and of its keys that have no result."""
        content = task.cases[0]
        name = (content["source"], content["estimator"], content.get("dimension"))
        part = self.parts.setdefault(name, PlanPart())
        stored = len(task.cases) - len(missing)
        part.rows += len(task.cases)
        part.stored += stored
        self.stored += stored
        if missing:
            self.tasks_to_do += 1
        d = content.get("dimension", 0)  # X is in float64
        self.largest_bytes = max(self.largest_bytes, 8 * round(content["alpha"] * d) * d)


class SweepWalk:
    """Looks through the tasks of a sweep for the cases that a store does not have.

    The number of rows is known from the lists of the grids before the walk. Where several grids
    have rows in common it falls during the walk: such a row counts in the first grid alone.
    """

    def __init__(self, spec: SweepSpec, store: Store | None) -> None:
        sizes = [tasks.grid_size(spec, grid) for grid in spec.grid]
        self.name = spec.sweep.name
        self.plan = SweepPlan(rows=sum(size.cases for size in sizes))
        self.n_batches = -(-sum(size.tasks for size in sizes) // TASKS_OF_ONE_QUERY)
        self.is_over = False
        self._store = store
        self._tasks = _without_repeats(spec)

    def look(self) -> list[tasks.Task]:
        """Look at the next batch; return its tasks, each with its missing cases alone."""
        batch = list(islice(self._tasks, TASKS_OF_ONE_QUERY))
        if len(batch) < TASKS_OF_ONE_QUERY:
            self.is_over = True
        done: set[str] = set()
        if self._store is not None:
            done = self._store.done([key for task in batch for key in task.keys])
        to_do = []
        for task in batch:
            missing = set(task.keys) - done
            self.plan.count(task, missing)
            if missing:
                to_do.append(task.only(missing))
                if self._store is not None:
                    self.plan.damaged += self._store.damaged(list(missing))
        if self.is_over:
            self.plan.rows = sum(part.rows for part in self.plan.parts.values())
        return to_do


def make_plan(spec: SweepSpec, store: Store | None = None) -> SweepPlan:
    """Walk the whole grid once and count; whoever waits sees how far the walk is."""
    walk = SweepWalk(spec, store)
    for _ in steps(_looks(walk), walk.n_batches):
        pass
    return walk.plan


def _looks(walk: SweepWalk) -> Iterator[None]:
    """Walk to the end, and yield after each batch."""
    while not walk.is_over:
        walk.look()
        yield


def _without_repeats(spec: SweepSpec) -> Iterator[tasks.Task]:
    """Yield the tasks of a sweep, without cases that an earlier grid has."""
    if len(spec.grid) == 1:  # it repeats nothing
        yield from tasks.expand(spec)
        return
    seen: set[str] = set()
    for task in tasks.expand(spec):
        new = task.only(set(task.keys) - seen)
        seen.update(new.keys)
        if new.cases:
            yield new
