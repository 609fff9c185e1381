"""Work in other processes: it is really stopped, bounded, and belongs to one visitor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer import jobs as jobs_module
from polyceptron.report.explorer.compute import tasks_of
from polyceptron.report.explorer.jobs import Job, Jobs
from polyceptron.report.explorer.process import Child
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.state import make_state
from polyceptron.report.explorer.theory_queue import TheoryQueue

SHORT = {"dimension": 30, "places": 2, "runs": 2}
LONG = {"dimension": 2500, "places": 40, "runs": 5}
SLOW_THEORY = {"k": 12, "estimators": ["cross-entropy"], "points": 200}


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition; the time is only there to end a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_job_runs_to_its_end_and_its_process_goes() -> None:
    job = Job(1, make_state(SHORT))
    until(lambda: not job.running)
    assert (job.status, job.reason, len(job.rows)) == ("finished", "", 4)
    until(lambda: gone(job.process_id))


def test_cancel_stops_the_process_at_once_and_keeps_what_is_there() -> None:
    job = Job(1, make_state(LONG))
    process = psutil.Process(job.process_id)
    assert process.is_running()
    job.cancel()
    assert gone(job.process_id)
    assert job.status == "cancelled"
    rows = len(job.rows)
    job.cancel()  # twice is once
    assert (job.status, len(job.rows)) == ("cancelled", rows)


def test_a_job_that_takes_too_long_is_stopped_and_says_so() -> None:
    job = Job(1, make_state(LONG), time_limit=0.5)
    until(lambda: not job.running)
    assert job.status == "failed"
    assert "stopped after" in job.reason
    until(lambda: gone(job.process_id))


def test_a_worker_ends_when_its_parent_does() -> None:
    child = Child()
    child.send({"task": {"kind": "nonsense", "k": 3}})
    answer = None
    while answer is None:
        answer = child.receive(1.0)
    assert "unknown work" in answer["error"]
    assert child.process.stdin is not None
    child.process.stdin.close()  # what the operating system does when the parent dies
    child.process.wait(timeout=60)
    child.kill()


def test_the_number_of_jobs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pretended:
        """Always at work, without a process."""

        def __init__(self, number: int, state: object) -> None:
            self.number, self.running = number, True

        def cancel(self) -> None:
            self.running = False

    monkeypatch.setattr(jobs_module, "Job", Pretended)
    state, jobs = make_state(SHORT), Jobs()
    jobs.start(state)
    with pytest.raises(InvalidInput, match="server is busy"):
        jobs.start(state, running_elsewhere=3)
    jobs.start(state)
    with pytest.raises(InvalidInput, match="2 simulations are running"):
        jobs.start(state)
    with pytest.raises(InvalidInput, match="dimension of at most"):
        jobs.start(make_state({"dimension": 5000, "high": 100.0}))
    for number in range(3, 13):
        jobs.all[-1].cancel()
        jobs.start(state)
        assert jobs.all[-1].number == number
    jobs.all[-1].cancel()
    with pytest.raises(InvalidInput, match="remove one first"):
        jobs.start(state)
    jobs.remove(5)
    assert jobs.find(5) is None
    jobs.start(state)


@pytest.fixture(scope="module")
def theory() -> Iterator[TheoryQueue]:
    queue = TheoryQueue()
    yield queue
    queue.close()


def test_theory_is_computed_once_and_kept(theory: TheoryQueue) -> None:
    tasks = tasks_of(make_state({"points": 4, "estimators": ["square"]}))
    keys = theory.request("a", tasks)
    assert theory.wait(keys, 60)
    answer = theory.answer(keys[0])
    assert len(answer.result) == 4
    assert theory.request("b", tasks) == keys
    assert theory.wait(keys, 0)  # at once


def test_what_nobody_wants_any_more_is_stopped_and_the_next_goes_on(
    theory: TheoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyceptron.report.explorer.theory_queue.PATIENCE", 0.0)
    slow = tasks_of(make_state(SLOW_THEORY))[:1]
    (key,) = theory.request("a", slow)
    until(lambda: True in theory._children)
    worker = theory._children[True].process.pid
    quick = tasks_of(make_state({"points": 2, "estimators": ["square"], "prior": "gaussian"}))
    assert theory.wait(theory.request("a", quick), 60)
    until(lambda: gone(worker))
    assert not theory.answer(key).complete


def test_theory_that_takes_too_long_says_so() -> None:
    queue = TheoryQueue(time_limit=0.3)
    try:
        keys = queue.request("a", tasks_of(make_state(SLOW_THEORY))[:1])
        assert queue.wait(keys, 60)
        assert "stopped after" in (queue.answer(keys[0]).error or "")
    finally:
        queue.close()


def test_sessions_do_not_mix_and_names_are_checked(
    theory: TheoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = Sessions(theory)
    one, two = sessions.get(Sessions.new_name()), sessions.get(Sessions.new_name())
    job = sessions.start(one, make_state(LONG))
    assert one.jobs.find(job.number) is job
    assert two.jobs.all == []
    assert two.jobs.find(job.number) is None
    two.jobs.remove(job.number)  # another visitor's number is no handle on it
    assert job.running
    job.cancel()
    for name in (None, 3, "../etc", "A" * 32, "a" * 31):
        with pytest.raises(InvalidInput, match="reload"):
            sessions.get(name)
    monkeypatch.setattr("polyceptron.report.explorer.sessions.MAX_SESSIONS", 5)
    for _ in range(20):
        sessions.get(Sessions.new_name())
    assert len(sessions._all) == 5
    sessions._closed.set()
