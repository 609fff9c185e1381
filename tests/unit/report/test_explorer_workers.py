"""Work in other processes: it is really stopped, bounded, and belongs to one visitor."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from threading import Event
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from programs import Program

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import work_queue, worker_process
from polyceptron.report.explorer.page_content import PageContent, wanted_content
from polyceptron.report.explorer.page_tasks import tasks_of
from polyceptron.report.explorer.sessions import (
    ABSENT,
    FORGOTTEN,
    MAX_PAGES,
    Session,
    Sessions,
)
from polyceptron.report.explorer.settings import make_settings
from polyceptron.report.explorer.work_queue import Job, Limit, Simulation, WorkQueue

pytestmark = [pytest.mark.process, pytest.mark.slow]

SHORT = {"dimension": 30, "places": 2, "runs": 2}
LONG = {"dimension": 1500, "places": 40, "runs": 5}
SLOW_THEORY = {"k": 12, "estimators": ["cross-entropy"], "points": 200}


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for a condition; the time is only there to end a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def work() -> Iterator[WorkQueue]:
    one = WorkQueue()
    yield one
    one.close()


def started(work: WorkQueue, values: dict[str, object]) -> Simulation:
    """A simulation that a process is at work on."""
    one = Simulation(make_settings(values))
    work.add(one)
    until(lambda: one.worker is not None)
    return one


def pid(one: Simulation) -> int:
    assert one.worker is not None
    return one.worker.process.pid


def test_cancel_stops_the_process_at_once_and_keeps_what_is_there(work: WorkQueue) -> None:
    one = started(work, LONG)
    assert psutil.Process(pid(one)).is_running()
    work.cancel(one)
    assert gone(pid(one))
    assert one.status == "cancelled"
    rows = len(one.result)
    work.cancel(one)  # twice is once
    work.add(one)  # and what is over does not begin again
    time.sleep(0.3)
    assert (one.status, len(one.result)) == ("cancelled", rows)
    assert gone(pid(one))


def test_a_simulation_that_takes_too_long_is_stopped_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(work_queue.LIMITS, work_queue.SIMULATION, Limit(0.1, "choose fewer runs"))
    work = WorkQueue()
    one = started(work, LONG)
    until(lambda: one.complete)
    assert one.status == "failed"
    assert one.reason == "stopped after 0 s: choose fewer runs"
    until(lambda: gone(pid(one)))
    work.close()


def _greedy() -> None:
    def perform(task: object) -> Iterator[dict[str, object]]:
        yield {"result": np.ones(200_000_000).sum(), "done": 1}

    worker_process.perform = perform
    worker_process.limit_memory()
    sys.stdout.write(list(worker_process.answers({}))[-1]["error"])


def test_a_worker_that_wants_more_memory_than_allowed_says_so_and_stays_small() -> None:
    """The bound is the operating system's: a request for too much fails inside the worker."""
    said = Program(_greedy).communicate()
    assert said == ("this needs more memory than the 0.8 GB allowed here", "")


@pytest.mark.parametrize(("method", "runs"), [("amp", 2), ("cross-entropy", 1)])
def test_the_largest_simulation_allowed_runs_to_its_end_and_its_process_goes(
    work: WorkQueue, method: str, runs: int
) -> None:
    """It fits into the memory allowed."""
    page = {"simulation": method, "dimension": 1732, "places": 1, "runs": runs, "alpha": 4.0}
    one = started(work, page)
    until(lambda: one.complete, 200)
    assert (one.status, one.reason, len(one.result)) == ("finished", "", runs)
    until(lambda: gone(pid(one)))


class Pretended:
    """A worker without a process, at work on a task until it is told to finish."""

    def __init__(self) -> None:
        self.alive, self.over = True, Event()

    def work(self, *asked: object) -> Iterator[dict[str, object]]:
        self.over.wait(20)
        yield {"end": True}

    def kill(self) -> None:
        self.alive = False
        self.over.set()


def test_simulations_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "WorkerProcess", Pretended)
    page, sessions = make_settings(SHORT), Sessions()
    one, two, three = (sessions.get(name) for name in "123")

    def finish(simulation: Simulation) -> None:
        simulation.worker.over.set()
        until(lambda: simulation.complete)

    mine = [sessions.start(one, page) for _ in range(3)]
    until(lambda: [s.worker is not None for s in mine] == [True, True, False])
    theirs = [sessions.start(owner, page) for owner in (two, two, three)]
    until(lambda: [s.worker is not None for s in theirs] == [True, True, False])
    assert [s.status for s in mine] == ["running", "running", "waiting"]
    assert [s.status for s in theirs] == ["running", "running", "waiting"]
    finish(mine[0])
    until(lambda: mine[2].worker is not None)
    assert (mine[2].status, theirs[2].status) == ("running", "waiting")
    finish(mine[1])
    until(lambda: theirs[2].worker is not None)
    assert theirs[2].status == "running"
    with pytest.raises(InvalidInput, match="dimension of at most"):
        sessions.start(one, make_settings({"dimension": 5000, "high": 100.0}))
    sessions.close()


def test_a_slot_belongs_to_its_simulation_until_it_is_removed(
    work: WorkQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "add", lambda simulation: None)
    sessions, page = Sessions(work), make_settings(SHORT)
    session = sessions.get("page")
    all_of_them = [sessions.start(session, page) for _ in range(12)]
    with pytest.raises(InvalidInput, match="remove one first"):
        sessions.start(session, page)
    session.remove(5)  # it waits: only what is over can be removed
    assert session.slots[5] is all_of_them[5]
    sessions.cancel(session, 5)
    assert [one.status for one in all_of_them].count("cancelled") == 1
    session.remove(5)
    assert session.slots[5] is None
    assert session.slots[6] is all_of_them[6]  # the others stay where they are
    new = sessions.start(session, page)
    assert session.slots[5] is new
    sessions._closed.set()


def test_theory_is_computed_once_and_kept_and_a_worker_ends_when_its_parent_does(
    work: WorkQueue,
) -> None:
    tasks = tasks_of(make_settings({"points": 4, "estimators": ["square"]}))
    work.request("a", tasks)
    assert work.wait(tasks, 300)
    assert len(work.answer(tasks[-1]).result) >= 4
    work.request("b", tasks)
    assert work.wait(tasks, 0)  # at once
    child = work.lanes[0].worker  # the quick one
    assert child is not None
    (answer,) = child.work({"kind": "nonsense", "k": 3}, 60, "", lambda spent: True)
    assert "unknown work" in answer["error"]
    assert child.process.stdin is not None
    child.process.stdin.close()  # what the operating system does when the parent dies
    assert child.process.wait(timeout=300) == 0


def test_what_nobody_wants_any_more_is_stopped_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polyceptron.report.explorer.work_queue.PATIENCE", 0.0)
    work = WorkQueue()
    slow = tasks_of(make_settings(SLOW_THEORY))[-1:]
    work.request("a", slow)
    until(lambda: any(lane.worker is not None for lane in work.lanes))
    (worker,) = (lane.worker.process.pid for lane in work.lanes if lane.worker is not None)
    quick = tasks_of(make_settings({"points": 2, "estimators": ["square"], "prior": "gaussian"}))
    work.request("a", quick)
    assert work.wait(quick, 300)
    until(lambda: gone(worker))
    assert not work.answer(slow[0]).complete
    work.close()


def test_a_curve_is_wanted_without_a_break_once_its_range_is_known() -> None:
    """A worker may look at any moment whether its task is wanted, and stops if not."""
    asked: list[set[str]] = []

    class Known:
        def request(self, page: str, tasks: list[dict[str, str]]) -> None:
            asked.append({task["kind"] for task in tasks})

        def answer(self, task: dict[str, str]) -> Job:
            known = {"alpha_it": 2.4, "alpha_algo": 2.9} if task["kind"] == "limits" else None
            return Job(task, status="finished" if known else "running", result=known)

        def wait(self, tasks: list[dict[str, str]], timeout: float) -> bool:
            return all(self.answer(task).complete for task in tasks)

    wanted_content(SimpleNamespace(work=Known()), Session("a"), make_settings({}), wait=False)
    assert asked
    assert all("curve" in kinds for kinds in asked)


def test_theory_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(work_queue.LIMITS, work_queue.SLOW, Limit(0.3, "choose fewer points"))
    work = WorkQueue()
    try:
        tasks = tasks_of(make_settings(SLOW_THEORY))[-1:]
        work.request("a", tasks)
        assert work.wait(tasks, 300)
        assert "stopped after" in work.answer(tasks[0]).reason
    finally:
        work.close()


def test_a_curve_that_is_stopped_keeps_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(Pretended):
        def work(self, *asked: object) -> Iterator[dict[str, object]]:
            row = {"alpha": 1.0, "generalisation_error": 0.4, "m": 0.3, "q": 0.3, "status": "ok"}
            yield {"result": [row], "done": 1}
            yield {"error": "stopped after 180 s: choose fewer points or classes"}

    monkeypatch.setattr(work_queue, "WorkerProcess", Stopped)
    work = WorkQueue()
    page = make_settings({"estimators": "square", "prior": "gaussian", "range_rule": "set"})
    tasks = [task for task in tasks_of(page) if task["kind"] == "curve"]
    work.request("a", tasks)
    assert work.wait(tasks, 20)
    content = PageContent(work, page)
    assert [row["alpha"] for row in content.curves["square"]] == [1.0]
    assert "square loss: stopped after 180 s: choose fewer points or classes" in content.status[1]
    assert content.figures["learning"]["data"][0]["y"] == [0.4]
    work.close()


def test_a_worker_full_of_old_tables_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of memory counts against a task only if a fresh worker has it too."""
    made = []

    class Worker:
        def __init__(self) -> None:
            made.append(self)
            self.alive, self.sent = True, 0

        def work(self, *asked: object) -> Iterator[dict[str, object]]:
            self.sent += 1
            full = self.sent > 1 or len(made) > 2
            yield {"error": "no memory", "memory": True} if full else {"end": True}

        def kill(self) -> None:
            self.alive = False

    monkeypatch.setattr(work_queue, "WorkerProcess", Worker)
    work = WorkQueue()
    tasks = [{"k": 3, "seed": n} for n in range(3)]
    for task in tasks:
        work.request("a", [task])
        assert work.wait([task], 20)
    assert [work.answer(task).reason for task in tasks] == ["", "", "no memory"]
    work.close()


def test_the_oldest_idle_page_gives_way_and_none_drops_what_another_has_at_work(
    work: WorkQueue,
) -> None:
    sessions = Sessions(work)
    mine = sessions.get("mine")
    mine.slots[0] = Simulation(make_settings(SHORT))  # it waits
    shown = sessions.get("with results")
    shown.slots[0] = Simulation(make_settings(SHORT))
    shown.slots[0].status = "finished"
    for number in range(MAX_PAGES - 2):
        sessions.get(f"other {number}")
    sessions.get("one more")
    assert len(sessions._all) == MAX_PAGES
    assert sessions.get("mine") is mine
    assert sessions.get("with results") is shown
    assert "other 0" not in sessions._all
    sessions.get("other 7").last_seen -= ABSENT + 1  # one without a sign of life goes first
    sessions.get("yet another")
    assert "other 7" not in sessions._all
    assert "other 1" in sessions._all
    for session in sessions._all.values():
        session.slots[0] = mine.slots[0]
    with pytest.raises(InvalidInput, match="200 pages with running simulations"):
        sessions.get("too many")
    sessions._closed.set()


def dying_workers(monkeypatch: pytest.MonkeyPatch, deaths: int) -> list[object]:
    """Let the first workers die of whatever they do; return all that were started."""
    started = []

    class Mortal(Pretended):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)
            self.dies = len(started) <= deaths

        def work(self, *asked: object) -> Iterator[dict[str, object]]:
            if self.dies:  # and still looks alive for a moment
                yield {"error": "the worker process has ended", "died": True}
            else:
                yield {"result": [{"alpha": 1.0}], "done": 1}
                yield {"end": True}

    monkeypatch.setattr(work_queue, "WorkerProcess", Mortal)
    return started


def test_a_task_whose_worker_was_killed_is_done_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = dying_workers(monkeypatch, deaths=1)
    work = WorkQueue()
    tasks = [{"k": 3, "seed": 0}]
    work.request("a", tasks)
    assert work.wait(tasks, 20)
    assert work.answer(tasks[0]).status == "finished"
    assert len(started) == 2
    work.close()


def test_a_task_that_kills_its_workers_has_failed_until_a_page_asks_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = dying_workers(monkeypatch, deaths=2)
    work = WorkQueue()
    tasks = [{"k": 3, "seed": 0}]
    work.request("a", tasks)
    assert work.wait(tasks, 20)
    assert "ended" in work.answer(tasks[0]).reason
    work.request("a", tasks)  # the page looks again, as it does twice a second
    assert work.answer(tasks[0]).status == "failed"
    assert len(started) == 2
    work.request("b", tasks)
    assert work.wait(tasks, 20)
    assert work.answer(tasks[0]).status == "finished"
    work.close()


def test_a_worker_that_cannot_be_started_is_no_answer_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Never:
        def __init__(self) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(work_queue, "WorkerProcess", Never)
    work = WorkQueue()
    tasks = [{"k": 3, "seed": 0}]
    work.request("a", tasks)
    assert work.wait(tasks, 20)
    assert "no worker process can be started" in work.answer(tasks[0]).reason
    monkeypatch.setattr(work_queue, "WorkerProcess", Pretended)
    work.request("b", tasks)
    until(lambda: work.answer(tasks[0]).worker is not None)
    work.answer(tasks[0]).worker.over.set()
    assert work.wait(tasks, 20)
    assert work.answer(tasks[0]).status == "finished"
    work.close()


def test_a_curve_comes_although_its_workers_are_killed_from_outside() -> None:
    """As the out-of-memory killer does it, once, in the middle of a curve."""
    work = WorkQueue()
    tasks = tasks_of(make_settings(SLOW_THEORY | {"k": 4, "points": 6}))[-1:]
    work.request("a", tasks)
    until(lambda: work.answer(tasks[0]).worker is not None)
    first = work.answer(tasks[0]).worker
    psutil.Process(first.process.pid).kill()
    assert work.wait(tasks, 300)
    assert work.answer(tasks[0]).status == "finished"
    assert work.answer(tasks[0]).worker is not first
    work.close()


def test_a_page_that_is_gone_loses_its_work_and_much_later_its_results(
    work: WorkQueue,
) -> None:
    sessions = Sessions(work)
    mine = sessions.get("mine")
    kept = mine.slots[0] = Simulation(make_settings(SHORT))
    sessions.tidy(mine.last_seen + ABSENT - 1)
    assert not kept.complete
    sessions.tidy(mine.last_seen + ABSENT + 1)
    assert kept.status == "cancelled"
    assert mine.simulations == [kept]
    sessions.tidy(mine.last_seen + FORGOTTEN + 1)
    assert len(sessions._all) == 0
    sessions._closed.set()


def test_sessions_do_not_mix(work: WorkQueue) -> None:
    sessions = Sessions(work)
    one, two = sessions.get("1"), sessions.get("2")
    assert isinstance(one, Session)
    running = sessions.start(one, make_settings(LONG))
    assert one.simulations == [running]
    assert two.simulations == []
    sessions.cancel(two, 0)  # another page's number is no handle on it
    assert not running.complete
    sessions.cancel(one, 0)
    assert running.status == "cancelled"
    sessions._closed.set()
