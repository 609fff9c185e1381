"""One queue for all work of the page, in processes of our own that can be killed at any time.

Theory is shared by all visitors and kept; a `Simulation` belongs to a `Session`, one opened page,
known by a name that only its server and itself know. What a page keeps is never dropped to make
room for another: only what was left alone for long goes. Each kind of work has workers
of its own, so that a slow curve never holds up a slider. Who came first is served first. What
nobody wants any more is not begun, and stopped if it is running for long.

Parent and child speak JSON, one message a line: a task goes to the child's standard input, pieces
of its answer come from its standard output, the last of them {"end": true} or {"error": message}.
A child ends by itself when its input closes, so that nothing is left behind if this process dies.
"""

import contextlib
import copy
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.page_tasks import Task, is_slow, key_of, perform

Message = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MEMORY_LIMIT = 800_000_000  # bytes that a worker may hold

QUICK, SLOW, SIMULATION = "quick", "slow", "simulation"
# Seconds that a task of this kind may take, and what to do about it.
LIMITS = dict.fromkeys((QUICK, SLOW), (180.0, "choose fewer points or classes"))
LIMITS[SIMULATION] = (300.0, "choose fewer runs or a smaller dimension")
MAX_RUNNING = 2  # simulations of one page
PATIENCE = 3.0  # seconds an unwanted task may run on, as its tables may serve the next one


class WorkerProcess:
    """A running worker; start it by making one."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "polyceptron.report.explorer.work_queue"],
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
        self._messages.put({"error": "the worker process has ended"})

    def work(
        self, task: Task, seconds: float, cure: str, wanted: Callable[[float], bool]
    ) -> Iterator[Message]:
        """The pieces of a task's answer as they come, the last one with `end` or `error`.

        The process is killed after so many `seconds`, with a message that names the `cure`; and
        without one as soon as `wanted` is false of the seconds that it has taken.
        """
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, as its last message tells
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
        start = time.monotonic()
        while True:
            message: Message = {}
            with contextlib.suppress(queue.Empty):
                message = self._messages.get(timeout=0.1)
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

    @property
    def alive(self) -> bool:
        """Whether the process is still there."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End the process now, whatever it is doing, and wait until it is gone."""
        with contextlib.suppress(OSError, ValueError), self.process:  # closes its ends and waits
            self.process.kill()


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


def limit_memory() -> None:
    """Ask the operating system to refuse this process more memory, where it can (Linux)."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))


def answer_tasks() -> None:
    """The child's side: answer until the input ends."""
    limit_memory()
    tasks: queue.Queue[Task] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            tasks.put(json.loads(line))
        os._exit(0)  # the parent is gone, and so are we, in the middle of whatever

    threading.Thread(target=listen, daemon=True).start()
    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may write among the messages
    while True:
        for message in answers(tasks.get()):
            out.write(json.dumps(message) + "\n")
            out.flush()


@dataclass(eq=False)
class Job:
    """A task, how far it is, a part of its result or all of it, and why there is no more."""

    task: Task
    page: str = ""  # whose it is, if it is not everybody's
    status: str = "waiting"  # then running, then finished, failed or cancelled
    result: Any = None
    done: int = 0
    reason: str = ""
    worker: WorkerProcess | None = None

    @cached_property
    def kind(self) -> str:
        """Which workers do it."""
        simulated = self.task.get("kind") == SIMULATION
        return SIMULATION if simulated else SLOW if is_slow(self.task) else QUICK

    @cached_property
    def key(self) -> str:
        """One for each piece of theory; every simulation has its own."""
        return str(id(self)) if self.kind == SIMULATION else key_of(self.task)

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        return self.status not in ("waiting", "running")


class Simulation(Job):
    """A job of one page; its result is a list of rows."""

    def __init__(self, settings: form.PageSettings, page: str = "") -> None:
        super().__init__({"kind": SIMULATION, **settings.as_dict()}, page, result=[])
        self.settings, self.total = settings, settings.places * settings.runs


class WorkQueue:
    """Ask for theory with `request`, look with `answer`, wait with `wait`; `add` simulations."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}  # in the order in which they came
        self._wanted: dict[str, set[str]] = {}
        self._workers: dict[int, WorkerProcess] = {}
        self._closed = False
        lanes = enumerate((QUICK, SLOW, SLOW, *[SIMULATION] * 4))
        self._threads = [threading.Thread(target=self._serve, args=n, daemon=True) for n in lanes]
        for thread in self._threads:
            thread.start()

    def request(self, page: str, tasks: Iterable[Task]) -> None:
        """Replace what `page` wants of the theory."""
        asked = {key_of(task): task for task in tasks}
        with self._changed:
            self._wanted[page] = set(asked)
            for key, task in asked.items():
                self._jobs.setdefault(key, Job(task))
            spare = [key for key, job in self._jobs.items() if not self._is_wanted(job)]
            for key in spare[: max(0, len(self._jobs) - 400)]:
                del self._jobs[key]
            self._changed.notify_all()

    def forget(self, page: str) -> None:
        """The page is gone."""
        with self._changed:
            self._wanted.pop(page, None)

    def answer(self, task: Task) -> Job:
        """What is known now."""
        with self._changed:
            return copy.copy(self._jobs.get(key_of(task)) or Job(task))

    def wait(self, tasks: Sequence[Task], timeout: float) -> bool:
        """Until all of `tasks` are complete or the time is up; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(self.answer(task).complete for task in tasks), timeout
            )

    def add(self, simulation: Simulation) -> None:
        """Begin as soon as it is its turn."""
        with self._changed:
            self._jobs[simulation.key] = simulation
            self._changed.notify_all()

    def cancel(self, simulation: Simulation) -> None:
        """End its process; the rows that are there stay. Returns when the process is gone."""
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
        for worker in list(self._workers.values()):
            worker.kill()
        for thread in self._threads:
            thread.join(timeout=10)

    def _serve(self, lane: int, kind: str) -> None:
        """What the thread of one worker does."""
        while True:
            with self._changed:
                while (job := self._next(kind)) is None and not self._closed:
                    self._changed.wait()
                if job is None or self._closed:
                    return
                job.status = "running"
            fresh = lane not in self._workers or not self._workers[lane].alive
            if fresh:
                self._workers[lane] = WorkerProcess()
            if not self._work(job, self._workers[lane], fresh) or self._closed:
                self._workers.pop(lane).kill()

    def _next(self, kind: str) -> Job | None:
        """The first to come of the jobs of this kind that wait, if one may start."""
        busy = [job.page for job in self._jobs.values() if job.status == "running" and job.page]
        for job in self._jobs.values():
            free = job.status == "waiting" and busy.count(job.page) < MAX_RUNNING
            if free and job.kind == kind and self._is_wanted(job):
                return job
        return None

    def _work(self, job: Job, worker: WorkerProcess, fresh: bool) -> bool:
        """Have the worker do the job; returns whether it can do another."""
        job.worker, full = worker, False

        def wanted(spent: float) -> bool:
            with self._changed:
                kept = spent <= PATIENCE or self._is_wanted(job)
                return kept and not job.complete and not self._closed

        for message in worker.work(job.task, *LIMITS[job.kind], wanted):
            full = "memory" in message
            if full and not fresh:  # tables of earlier tasks take the place: do it again
                continue
            with self._changed:
                if job.status == "running":  # what came before an error stays
                    rows = [*job.result, message["row"]] if "row" in message else job.result
                    job.result = message.get("result", rows)
                    job.done, job.reason = message.get("done", job.done), message.get("error", "")
                    if "end" in message or job.reason:
                        job.status = "failed" if job.reason else "finished"
                self._changed.notify_all()
        with self._changed:
            if job.status == "running":
                job.status = "waiting"
            self._changed.notify_all()
        return worker.alive and not full and job.kind != SIMULATION

    def _is_wanted(self, job: Job) -> bool:
        wanted = any(job.key in keys for keys in self._wanted.values())
        return not job.complete if job.kind == SIMULATION else wanted


MAX_PAGES = 200
ABSENT = 150.0  # seconds without a sign of a page before its work is stopped
FORGOTTEN = 12 * 3600.0  # and before its results are


class Session:
    """One opened page, with its simulations, each in a slot that is its own until it is removed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.slots: list[Simulation | None] = [None] * form.MAX_KEPT
        self.link_is_read = False  # the simulations of a link are started once
        self.stamp = 0  # of the newest settings that were asked for
        self.next_stamp = itertools.count(1).__next__
        self.last_seen = time.monotonic()

    @property
    def simulations(self) -> list[Simulation]:
        """Those that are kept, going on or over."""
        return [one for one in self.slots if one is not None]

    def remove(self, slot: int) -> None:
        """Forget the simulation in that slot, if it is over."""
        one = self.slots[slot]
        if one is not None and one.complete:
            self.slots[slot] = None


class Sessions:
    """All of them, with the queue of work that they share."""

    def __init__(self, work: WorkQueue | None = None) -> None:
        self.work = work or WorkQueue()
        self._lock = threading.RLock()
        self._all: dict[str, Session] = {}
        self._closed = threading.Event()

        def sweep() -> None:
            while not self._closed.wait(10.0):
                self.tidy(time.monotonic())

        threading.Thread(target=sweep, daemon=True).start()

    def get(self, name: str) -> Session:
        """The session of that page, new if need be; an error message for too many pages."""
        with self._lock:
            if name not in self._all:
                if len(self._all) >= MAX_PAGES:  # those without a sign of life go first
                    self.tidy(time.monotonic(), ABSENT)
                if len(self._all) >= MAX_PAGES:
                    raise InvalidInput(f"{MAX_PAGES} pages are open already: try again later")
                self._all[name] = Session(name)
            self._all[name].last_seen = time.monotonic()
            return self._all[name]

    def start(self, session: Session, settings: form.PageSettings) -> Simulation:
        """A simulation for this page, started now or when there is room; or an error message."""
        form.check_simulation(settings)
        with self._lock:
            if None not in session.slots:
                raise InvalidInput(f"{form.MAX_KEPT} simulations are kept: remove one first")
            session.slots[session.slots.index(None)] = new = Simulation(settings, session.name)
        self.work.add(new)
        return new

    def cancel(self, session: Session, *slots: int) -> None:
        """End the simulations in these slots, in all of them if none is named."""
        for slot in slots or range(form.MAX_KEPT):
            if (one := session.slots[slot]) is not None:
                self.work.cancel(one)

    def close(self) -> None:
        """End everything that runs."""
        self._closed.set()
        for session in self._all.values():
            self.cancel(session)
        self.work.close()

    def tidy(self, now: float, forgotten: float = FORGOTTEN) -> None:
        """What pages without a sign of life lose: their work, and much later their results."""
        with self._lock:
            for session in list(self._all.values()):
                if now - session.last_seen > ABSENT:
                    self.cancel(session)
                    self.work.forget(session.name)
                if now - session.last_seen > forgotten:
                    del self._all[session.name]


if __name__ == "__main__":
    answer_tasks()
