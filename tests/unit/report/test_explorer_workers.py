"""Work in other processes: it is really stopped, bounded, and belongs to one visitor."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import sessions as sessions_module
from polyceptron.report.explorer import workers
from polyceptron.report.explorer.page_tasks import tasks_of
from polyceptron.report.explorer.sessions import (
    ABSENT,
    FORGOTTEN,
    Session,
    Sessions,
    Simulation,
)
from polyceptron.report.explorer.settings import make_settings
from polyceptron.report.explorer.workers import TheoryQueue, WorkerProcess

SHORT = {"dimension": 30, "places": 2, "runs": 2}
LONG = {"dimension": 1500, "places": 40, "runs": 5}
SLOW_THEORY = {"k": 12, "estimators": ["cross-entropy"], "points": 200}


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
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


def started(values: dict[str, object], **options: float) -> Simulation:
    one = Simulation(make_settings(values), **options)
    one.start()
    return one


def test_a_simulation_runs_to_its_end_and_its_process_goes() -> None:
    one = started(SHORT)
    until(lambda: not one.going_on)
    assert (one.status, one.reason, len(one.rows)) == ("finished", "", 4)
    until(lambda: gone(one.process_id))


def test_cancel_stops_the_process_at_once_and_keeps_what_is_there() -> None:
    one = started(LONG)
    assert psutil.Process(one.process_id).is_running()
    one.cancel()
    assert gone(one.process_id)
    assert one.status == "cancelled"
    rows = len(one.rows)
    one.cancel()  # twice is once
    one.start()  # and what is over does not begin again
    assert (one.status, len(one.rows)) == ("cancelled", rows)


def test_a_simulation_that_takes_too_long_is_stopped_and_says_so() -> None:
    one = started(LONG, time_limit=0.5)
    until(lambda: not one.going_on)
    assert one.status == "failed"
    assert "stopped after" in one.reason
    until(lambda: gone(one.process_id))


def test_a_worker_ends_when_its_parent_does() -> None:
    child = WorkerProcess()
    (answer,) = child.work({"kind": "nonsense", "k": 3}, 60, "", lambda spent: True)
    assert "unknown work" in answer["error"]
    assert child.process.stdin is not None
    child.process.stdin.close()  # what the operating system does when the parent dies
    child.process.wait(timeout=60)
    child.kill()


def test_a_worker_that_wants_more_memory_than_allowed_says_so_and_stays_small() -> None:
    """The bound is the operating system's: a request for too much fails inside the worker."""
    code = (
        "import numpy as np\n"
        "from polyceptron.report.explorer import workers\n"
        "workers.limit_memory()\n"
        "def greedy(task):\n"
        "    yield {'result': np.ones(200_000_000).sum(), 'done': 1}\n"
        "workers.perform = greedy\n"
        "print(list(workers.answers({}))[-1]['error'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "this needs more memory than the 0.8 GB allowed here", done.stderr


@pytest.mark.parametrize("method", ["amp", "cross-entropy", "square"])
def test_the_largest_simulation_allowed_fits_into_the_memory_allowed(method: str) -> None:
    page = {"simulation": method, "dimension": 1732, "places": 1, "runs": 1, "alpha": 4.0}
    one = started(page)
    until(lambda: not one.going_on, 200)
    assert (one.status, one.reason) == ("finished", "")


class Pretended(Simulation):
    """At work as long as wanted, without a process."""

    def start(self, at_end: Callable[[], None] | None = None) -> None:
        self.status, self.at_end = "running", at_end

    def finish(self) -> None:
        self.status = "finished"
        self.at_end()


@pytest.fixture(scope="module")
def theory() -> Iterator[TheoryQueue]:
    queue = TheoryQueue()
    yield queue
    queue.close()


def test_simulations_wait_for_their_turn(
    theory: TheoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "Simulation", Pretended)
    page, sessions = make_settings(SHORT), Sessions(theory)
    one, two, three = (sessions.get("me", name) for name in "123")
    mine = [sessions.start(one, page) for _ in range(3)]
    assert [s.status for s in mine] == ["running", "running", "waiting"]
    theirs = [sessions.start(owner, page) for owner in (two, two, three)]
    assert [s.status for s in theirs] == ["running", "running", "waiting"]
    mine[0].finish()
    assert (mine[2].status, theirs[2].status) == ("running", "waiting")
    mine[1].finish()
    assert theirs[2].status == "running"
    with pytest.raises(InvalidInput, match="dimension of at most"):
        sessions.start(one, make_settings({"dimension": 5000, "high": 100.0}))
    sessions._closed.set()


def test_a_slot_belongs_to_its_simulation_until_it_is_removed() -> None:
    session, page = Session("me", "page"), make_settings(SHORT)
    all_of_them = [session.keep(page) for _ in range(12)]
    with pytest.raises(InvalidInput, match="remove one first"):
        session.keep(page)
    session.remove(5)  # it waits: only what is over can be removed
    assert session.slots[5] is all_of_them[5]
    session.cancel(5)
    assert [one.status for one in all_of_them].count("cancelled") == 1
    session.remove(5)
    assert session.slots[5] is None
    assert session.slots[6] is all_of_them[6]  # the others stay where they are
    new = session.keep(page)
    assert session.slots[5] is new


def test_theory_is_computed_once_and_kept(theory: TheoryQueue) -> None:
    tasks = tasks_of(make_settings({"points": 4, "estimators": ["square"]}))
    keys = theory.request("a", tasks)
    assert theory.wait(keys, 60)
    answer = theory.answer(keys[0])
    assert len(answer.result) == 4
    assert theory.request("b", tasks) == keys
    assert theory.wait(keys, 0)  # at once


def test_what_nobody_wants_any_more_is_stopped_and_the_next_goes_on(
    theory: TheoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyceptron.report.explorer.workers.PATIENCE", 0.0)
    slow = tasks_of(make_settings(SLOW_THEORY))[:1]
    (key,) = theory.request("a", slow)
    until(lambda: bool(theory._children))
    (worker,) = (child.process.pid for child in theory._children.values())
    quick = tasks_of(make_settings({"points": 2, "estimators": ["square"], "prior": "gaussian"}))
    assert theory.wait(theory.request("a", quick), 60)
    until(lambda: gone(worker))
    assert not theory.answer(key).complete


def test_workers_that_wait_for_their_first_question_go_with_the_queue() -> None:
    queue = TheoryQueue()
    assert not queue._children
    queue.prepare()
    until(lambda: len(queue._children) == 3)
    waiting = [child.process.pid for child in queue._children.values()]
    queue.close()
    assert all(map(gone, waiting))


def test_theory_that_takes_too_long_says_so() -> None:
    queue = TheoryQueue(time_limit=0.3)
    try:
        keys = queue.request("a", tasks_of(make_settings(SLOW_THEORY))[:1])
        assert queue.wait(keys, 60)
        assert "stopped after" in (queue.answer(keys[0]).error or "")
    finally:
        queue.close()


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

    monkeypatch.setattr(workers, "WorkerProcess", Worker)
    queue = TheoryQueue()
    tasks = [{"k": 3, "n": n} for n in range(3)]
    for task in tasks:
        assert queue.wait(queue.request("a", [task]), 20)
    assert [queue.answer(workers.key_of(t)).error for t in tasks] == [None, None, "no memory"]
    queue.close()


def test_no_visitor_drops_what_another_keeps(theory: TheoryQueue) -> None:
    sessions = Sessions(theory)
    mine = sessions.get("me", "page")
    kept = mine.keep(make_settings(SHORT))
    for number in range(40):
        for page in range(30):
            sessions.get(f"other {number}", f"page {page}")
    assert sessions.get("me", "page") is mine
    assert mine.simulations == [kept]
    for number in range(23):
        sessions.get(f"another {number}", "page")
    with pytest.raises(InvalidInput, match="64 visitors are here"):
        sessions.get("one more", "page")
    assert sessions.get("me", "page") is mine
    # A visitor's own oldest pages go when there are too many, and what is left alone for long.
    for page in range(16):
        sessions.get("me", f"later {page}")
    assert sessions.get("me", "page") is not mine
    sessions._closed.set()


def test_a_page_that_is_gone_loses_its_work_and_much_later_its_results(
    theory: TheoryQueue,
) -> None:
    sessions = Sessions(theory)
    mine = sessions.get("me", "page")
    kept = mine.keep(make_settings(SHORT))
    sessions.tidy(mine.last_seen + ABSENT - 1)
    assert kept.going_on
    sessions.tidy(mine.last_seen + ABSENT + 1)
    assert kept.status == "cancelled"
    assert mine.simulations == [kept]
    sessions.tidy(mine.last_seen + FORGOTTEN + 1)
    assert len(sessions) == 0
    sessions._closed.set()


def test_sessions_do_not_mix(theory: TheoryQueue) -> None:
    sessions = Sessions(theory)
    one, two = sessions.get("me", "1"), sessions.get("me", "2")
    assert isinstance(one, Session)
    running = sessions.start(one, make_settings(LONG))
    assert one.simulations == [running]
    assert two.simulations == []
    two.cancel(0)  # another page's number is no handle on it
    assert running.running
    running.cancel()
    sessions._closed.set()
