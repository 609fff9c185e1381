"""One queue for all work of the page, in processes of our own that can be killed at any time.

Theory is shared by all visitors and kept; a `Simulation` belongs to one opened page (`sessions`).
Each kind of work has workers of its own, so that a slow curve never holds up a slider. Who came
first is served first. What nobody wants any more is not begun, and stopped if it is running for
long.

A worker that dies is no answer: its task is tried once more in a new worker. If that one dies too,
the task has failed for those who asked, and is tried again when a page asks for it anew.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.page_tasks import Task, is_slow, key_of
from polyceptron.report.explorer.worker_process import TRY_AGAIN, Message, WorkerProcess
from polyceptron.rows import Row

QUICK = "quick"
SLOW = "slow"
SIMULATION = "simulation"


@dataclass(frozen=True)
class Limit:
    """How many seconds a task may take, and what to do about a task that takes longer."""

    seconds: float
    cure: str


LIMITS = {
    QUICK: Limit(180.0, "choose fewer points or classes"),
    SLOW: Limit(180.0, "choose fewer points or classes"),
    SIMULATION: Limit(300.0, "choose fewer runs or a smaller dimension"),
}
LANES = (QUICK, SLOW, SLOW, SIMULATION, SIMULATION, SIMULATION, SIMULATION)
MAX_RUNNING = 2  # simulations of one page
MAX_JOBS = 400  # kept, wanted or not: an hour of one visitor's moves
PATIENCE = 3.0  # seconds an unwanted task may run on, as its tables may serve the next one
MAX_DEATHS = 2  # workers that may die of one task before it has failed


@dataclass(eq=False)
class Job:
    """A task, how far it is, a part of its result or all of it, and why there is no more."""

    task: Task
    page: str = ""  # whose it is, if it is not everybody's
    status: str = "waiting"  # then running, then finished, failed or cancelled
    result: Any = None  # rows, or what else was found
    done: int = 0
    reason: str = ""
    worker: WorkerProcess | None = None
    deaths: int = 0  # of workers that did it
    died: bool = False  # whether the last of them is the reason why there is no more

    @cached_property
    def kind(self) -> str:
        """Return the kind of the workers that do it."""
        if self.task.get("kind") == SIMULATION:
            return SIMULATION
        if is_slow(self.task):
            return SLOW
        return QUICK

    @cached_property
    def key(self) -> str:
        """One for each piece of theory; every simulation has its own."""
        if self.kind == SIMULATION:
            return str(id(self))
        return key_of(self.task)

    @property
    def complete(self) -> bool:
        """Return whether nothing more is to come."""
        return self.status not in ("waiting", "running")

    @property
    def killed(self) -> bool:
        """Return whether it failed for want of a worker, which says nothing about the task."""
        return self.status == "failed" and self.died

    def take(self, message: Message) -> None:
        """Take note of a piece of the answer; what came before an error stays."""
        if "row" in message:
            self.result = [*self.result, message["row"]]
        self.result = message.get("result", self.result)
        self.done = message.get("done", self.done)
        self.reason = message.get("error", "")
        self.died = "died" in message
        if self.reason:
            self.status = "failed"
        elif "end" in message:
            self.status = "finished"

    def start_again(self) -> None:
        """Wait for another worker."""
        self.status = "waiting"


class Simulation(Job):
    """A job of one page; its result is a list of rows."""

    def __init__(self, settings: form.PageSettings, page: str = "") -> None:
        super().__init__({"kind": SIMULATION, **settings.as_dict()}, page, result=[])
        self.settings = settings
        self.total = settings.places * settings.runs

    @property
    def rows(self) -> list[Row]:
        """The rows of the runs that have ended."""
        return list(self.result)

    def start_again(self) -> None:
        """Wait for another worker, which repeats the runs from their seeds."""
        super().start_again()
        self.result = []


@dataclass
class _Lane:
    """The place of one worker at a time: the kind of its work, and the worker if there is one."""

    kind: str
    worker: WorkerProcess | None = None
    used: bool = field(default=False)  # whether the worker holds tables of earlier tasks

    def ready_worker(self) -> WorkerProcess:
        """Return the worker, a new one if there is none or it has ended."""
        if self.worker is None or not self.worker.alive:
            self.used = False
            self.worker = WorkerProcess()
        return self.worker

    def dismiss(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None


class WorkQueue:
    """Ask for theory with `request`, look with `answer`, wait with `wait`; `add` simulations."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}  # in the order in which they came
        self._wanted: dict[str, set[str]] = {}
        self._closed = False
        self.lanes = [_Lane(kind) for kind in LANES]
        self._threads = [
            threading.Thread(target=self._serve, args=(lane,), daemon=True) for lane in self.lanes
        ]
        for thread in self._threads:
            thread.start()

    def request(self, page: str, tasks: Iterable[Task]) -> None:
        """Replace what `page` wants of the theory."""
        asked = {key_of(task): task for task in tasks}
        with self._changed:
            before = self._wanted.get(page, set())
            self._wanted[page] = set(asked)
            for key, task in asked.items():
                known = self._jobs.get(key)
                if known is None or (known.killed and key not in before):
                    self._jobs[key] = Job(task)
            self._drop_spare_jobs()
            self._changed.notify_all()

    def _drop_spare_jobs(self) -> None:
        """Forget the oldest jobs that nobody wants, where there are many."""
        spare = [key for key, job in self._jobs.items() if not self._is_wanted(job)]
        for key in spare[: max(0, len(self._jobs) - MAX_JOBS)]:
            del self._jobs[key]

    def forget(self, page: str) -> None:
        """Drop what the page wants: it is gone."""
        with self._changed:
            self._wanted.pop(page, None)

    def answer(self, task: Task) -> Job:
        """Return a copy of the job as it is now."""
        with self._changed:
            return copy.copy(self._jobs.get(key_of(task)) or Job(task))

    def wait(self, tasks: Sequence[Task], timeout: float) -> bool:
        """Wait until all of `tasks` are complete or the time is up; return whether they are."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(self.answer(task).complete for task in tasks), timeout
            )

    def add(self, simulation: Simulation) -> None:
        """Begin a simulation as soon as it is its turn."""
        with self._changed:
            self._jobs[simulation.key] = simulation
            self._changed.notify_all()

    def cancel(self, simulation: Simulation) -> None:
        """End its process; the rows that are there stay. Return when the process is gone."""
        with self._changed:
            if not simulation.complete:
                simulation.status = "cancelled"
            self._changed.notify_all()
        if simulation.worker is not None:
            simulation.worker.kill()

    def close(self) -> None:
        """End the workers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for lane in self.lanes:
            if lane.worker is not None:
                lane.worker.kill()
        for thread in self._threads:
            thread.join(timeout=10)

    def _serve(self, lane: _Lane) -> None:
        """Do the jobs of one lane, one after the other: what each thread does."""
        while True:
            with self._changed:
                job = self._next(lane.kind)
                while job is None and not self._closed:
                    self._changed.wait()
                    job = self._next(lane.kind)
                if job is None or self._closed:
                    return
                job.status = "running"
            try:
                worker = lane.ready_worker()
            except OSError as error:
                reason = f"no worker process can be started ({error}): {TRY_AGAIN}"
                self._take(job, {"error": reason, "died": True})
                continue
            serves_on = self._work(job, worker, fresh=not lane.used)
            lane.used = True
            if not serves_on or self._closed:
                lane.dismiss()

    def _next(self, kind: str) -> Job | None:
        """Return the first to come of the jobs of this kind that wait, if one may start."""
        busy = [job.page for job in self._jobs.values() if job.status == "running" and job.page]
        for job in self._jobs.values():
            free = job.status == "waiting" and busy.count(job.page) < MAX_RUNNING
            if free and job.kind == kind and self._is_wanted(job):
                return job
        return None

    def _work(self, job: Job, worker: WorkerProcess, fresh: bool) -> bool:
        """Have the worker do the job; return whether it can do another."""
        job.worker = worker
        limit = LIMITS[job.kind]
        last: Message = {}
        pieces = worker.work(
            job.task, limit.seconds, limit.cure, lambda spent: self._goes_on(job, spent)
        )
        for last in pieces:
            if not self._starts_again(job, last, fresh):
                self._take(job, last)
        with self._changed:
            if job.status == "running":  # unwanted, or to be done by another worker
                job.start_again()
            self._changed.notify_all()
        # A process that has just ended may still look alive, and would never answer again.
        is_spent = "memory" in last or "died" in last or job.kind == SIMULATION
        return worker.alive and not is_spent

    def _goes_on(self, job: Job, spent: float) -> bool:
        """Return whether the worker of a job shall go on after so many seconds."""
        with self._changed:
            kept = spent <= PATIENCE or self._is_wanted(job)
            return kept and not job.complete and not self._closed

    def _starts_again(self, job: Job, message: Message, fresh: bool) -> bool:
        """Return whether another worker shall do the job after this message."""
        if "died" in message:
            job.deaths += 1
            return job.deaths < MAX_DEATHS
        # Tables of earlier tasks take the place: a lack of memory counts in a fresh worker alone.
        return "memory" in message and not fresh

    def _take(self, job: Job, message: Message) -> None:
        """Give a job a piece of its answer, and wake those who wait."""
        with self._changed:
            if job.status == "running":
                job.take(message)
            self._changed.notify_all()

    def _is_wanted(self, job: Job) -> bool:
        """Return whether any page waits for the job; a simulation is wanted until it is over."""
        if job.kind == SIMULATION:
            return not job.complete
        return any(job.key in keys for keys in self._wanted.values())
