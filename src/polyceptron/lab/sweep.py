"""Run a sweep: compute what a store does not have yet, and survive whatever happens meanwhile.

    spec → tasks → (skip what is stored) → engine → store

A bounded number of tasks is in flight and results go to the disk as they arrive, so memory does not
grow with the sweep. Whatever ends the run, running it again computes what is missing, failed rows
included. A plan tells before the work how long it should take, corrected by rows already stored.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.lab import engine as engines
from polyceptron.lab import tasks
from polyceptron.lab.members import with_members
from polyceptron.lab.spec import SweepSpec, load_spec
from polyceptron.store import Store, locked_store

MAX_WORKERS = 1024
SECONDS_BETWEEN_LOOKS = 0.2  # at whether the user asked to stop
TASKS_OF_ONE_QUERY = 64  # of which the store is asked at once whether they are done
MAX_BYTES_CHECKED = 2**28  # of a store at the start; a larger one would take many seconds


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
        Address of a Dask scheduler, in place of workers.
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
    if workers is not None and cluster is not None:
        raise InvalidInput("give either workers or a cluster, not both")
    if workers is not None and (isinstance(workers, bool) or not 1 <= workers <= MAX_WORKERS):
        raise InvalidInput(f"workers must be between 1 and {MAX_WORKERS}, got {workers!r}")
    with ExitStack() as stack:
        path = stack.enter_context(locked_store(store_path))
        store = stack.enter_context(Store(path))
        if path.stat().st_size < MAX_BYTES_CHECKED:
            store.check()
        plan = make_plan(spec, store)
        now = engines.Progress(spec.sweep.name, plan.rows, plan.stored, damaged=tuple(plan.damaged))
        tell = stack.enter_context(engines.shown(progress, spec.sweep.name))
        stop = stack.enter_context(_stop_requests())
        if plan.to_do:
            engine = _make_engine(workers, cluster, min(plan.tasks_to_do, MAX_WORKERS), runner)
            stack.callback(engine.close)
            begin = time.monotonic()
            for results in _run(spec, store, engine, stop):
                if results:
                    store.add(results)
                now.count(results, time.monotonic() - begin)
                tell(now)
        if stop:
            raise SweepStopped(now, stop[0])
    return now


def sweep_rows(spec: SweepSpec | str | Path, store_path: str | Path) -> list[dict[str, Any]]:
    """Return the stored rows of a sweep, in the order of its grid; others are left out."""
    if not isinstance(spec, SweepSpec):
        spec = load_spec(spec)
    with Store(store_path) as store:
        return list(store.rows(tasks.sweep_keys(spec)))


def _run(
    spec: SweepSpec, store: Store, engine: engines.LocalEngine | engines.DaskEngine, stop: list[int]
) -> Iterator[list[Any]]:
    """Keep the engine's window full, and yield results as they arrive until done or stopped."""
    pending = (task.only(missing) for task, missing in missing_cases(spec, store) if missing)
    task = next(pending, None)
    while (task or engine.busy) and not stop:
        while engine.free > 0 and task and not stop:  # the first also asks whether it is there
            engine.submit(task)
            task = next(pending, None)
        if engine.busy:
            yield engine.finished(SECONDS_BETWEEN_LOOKS)
        else:
            yield []
    if engine.busy:  # stopped: keep what is ready
        yield engine.finished(0)


def _make_engine(
    workers: int | None, cluster: str | None, most: int, runner: tasks.Runner
) -> engines.LocalEngine | engines.DaskEngine:
    runner = with_members(runner)
    if cluster is not None:
        return engines.DaskEngine(cluster, runner)
    import joblib

    return engines.LocalEngine(min(workers or joblib.cpu_count(), most), runner)


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """A list that a first Ctrl-C or SIGTERM makes non-empty; a second one interrupts at once.

    The loop looks at it between writes, so that a stop never falls into the middle of one.
    """
    received: list[int] = []

    def note(number: int, frame: object) -> None:
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
class SweepPlan:
    """The work of a sweep: how many rows it has, and how many of them are stored.

    `parts` has both for each (source, estimator, dimension or None). `damaged` has the keys of rows
    that count as not stored.
    """

    rows: int = 0
    stored: int = 0
    tasks_to_do: int = 0
    largest_bytes: int = 0
    parts: dict[tuple[str, str, int | None], list[Any]] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @property
    def to_do(self) -> int:
        """Rows still to compute."""
        return self.rows - self.stored


def make_plan(spec: SweepSpec, store: Store | None = None) -> SweepPlan:
    """Walk the whole grid once and count."""
    plan = SweepPlan()
    for task, missing in missing_cases(spec, store):
        content = task.cases[0]
        name = (content["source"], content["estimator"], content.get("dimension"))
        part = plan.parts.setdefault(name, [0, 0])
        part[0] += len(task.cases)
        part[1] += len(task.cases) - len(missing)
        if missing and store is not None:
            plan.damaged += store.damaged(list(missing))
        plan.tasks_to_do += bool(missing)
        d = content.get("dimension", 0)  # X is in float64
        plan.largest_bytes = max(plan.largest_bytes, 8 * round(content["alpha"] * d) * d)
    plan.rows, plan.stored = map(sum, zip(*plan.parts.values(), strict=True))
    return plan


def missing_cases(spec: SweepSpec, store: Store | None) -> Iterator[tuple[tasks.Task, set[str]]]:
    """Yield every task with its keys that have no result; a row of two grids is in the first."""
    new_tasks = _without_repeats(spec)
    while batch := list(islice(new_tasks, TASKS_OF_ONE_QUERY)):
        done: set[str] = set()
        if store is not None:
            done = store.done([key for task in batch for key in task.keys])
        for task in batch:
            yield task, set(task.keys) - done


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
