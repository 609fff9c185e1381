"""Local processes: the same rows for any number of them, deaths survived, memory bounded."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import sweep_fakes as fakes

from polyceptron import progress
from polyceptron.errors import InvalidInput
from polyceptron.lab import sweep
from polyceptron.lab.engine import LocalEngine, Progress, shown
from polyceptron.lab.spec import load_spec, parse_spec
from polyceptron.lab.sweep import run_sweep, sweep_rows
from polyceptron.lab.tasks import Task, attempt, expand, failure
from polyceptron.store import Store

pytestmark = [pytest.mark.process, pytest.mark.slow]


def stored(path: Path) -> list[dict[str, Any]]:
    with Store(path) as store:
        store.check()
        return list(store.records())


def report_threads(task: Task) -> list[dict[str, Any]]:
    """Rows that carry the number of BLAS threads in the column q; the last task kills its worker.

    The one before it is long: it is lost with the other worker.
    """
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    threads = max(library["num_threads"] for library in threadpool_info())
    if task.cases[0].get("seed_path", [0])[-1] == 1 and task.cases[0]["alpha"] == 1:
        time.sleep(0.5)
    return [{**row, "q": float(threads)} for row in fakes.suicide(task)]


def one_thread(task: Task) -> list[dict[str, Any]]:
    """What rows of a process with one BLAS thread are."""
    return [{**row, "q": 1.0} for row in fakes.draw(task)]


def count_threads(task: Task) -> list[dict[str, Any]]:
    """Rows that carry the number of BLAS threads in the column q."""
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_info

    threads = max(library["num_threads"] for library in threadpool_info())
    return [{**row, "q": float(threads)} for row in fakes.draw(task)]


def test_one_or_two_workers_give_the_same_rows_with_one_blas_thread_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    spec = fakes.write_spec(tmp_path, instances=10)
    for workers in (1, 2):
        path = tmp_path / f"{workers}.sqlite"
        report = run_sweep(spec, path, workers=workers, runner=count_threads)
        assert (report.rows, report.computed, report.failed) == (44, 44, 0)
        assert {row["q"] for row in sweep_rows(spec, path)} == {1.0}
    one, two = stored(tmp_path / "1.sqlite"), stored(tmp_path / "2.sqlite")
    assert one == two  # every column, to the last bit
    assert len({record["row"] for record in one}) == 44  # and not because all are alike


def test_two_workers_give_the_rows_of_this_process_and_a_task_that_kills_its_worker_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a task that was lost with the worker; each worker has one BLAS thread."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    spec, path = fakes.write_spec(tmp_path, instances=2), tmp_path / "two.sqlite"
    report = run_sweep(spec, path, workers=2, runner=report_threads)
    assert (report.rows, report.computed, report.failed) == (12, 12, 2)
    assert workers_of_ours() == []
    failed = [record for record in stored(path) if record["status"] == "failed"]
    assert all("died while computing this task alone" in r["reason"] for r in failed)
    monkeypatch.setattr(sweep, "_make_engine", lambda *given: fakes.InstantEngine(given[-1]))
    run_sweep(spec, tmp_path / "here.sqlite", runner=one_thread)
    here = {record["key"]: record for record in stored(tmp_path / "here.sqlite")}
    for record in stored(path):
        if record["status"] == "ok":
            assert record == here.pop(record["key"])  # every column, to the last bit
    assert set(here) == {record["key"] for record in failed}
    assert len({record["row"] for record in stored(path)}) > 10  # and not because all are alike
    assert run_sweep(spec, tmp_path / "here.sqlite", runner=fakes.fail).computed == 0


def test_a_raising_task_is_a_row_with_its_reason_and_is_tried_again(
    tmp_path: Path, instant: None
) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=3), tmp_path / "runs.sqlite"
    report = run_sweep(spec, path, workers=1, runner=fakes.fail)
    assert (report.computed, report.failed) == (16, 6)
    failed = [record for record in stored(path) if record["status"] == "failed"]
    assert {record["reason"] for record in failed} == {
        "ZeroDivisionError: no minimum at this ridge"
    }
    rows = [row for row in sweep_rows(spec, path) if row["status"] == "failed"]
    assert {(row["ridge"], row["n_samples"]) for row in rows} == {(1.0, 10), (1.0, 20)}
    assert all("seed" in row and "generalisation_error" not in row for row in rows)
    again = run_sweep(spec, path, workers=1, runner=fakes.draw)
    assert (again.already, again.computed, again.failed) == (10, 6, 0)
    assert {record["status"] for record in stored(path)} == {"ok"}


def test_a_worker_that_dies_idle_is_replaced_and_closing_in_a_hurry_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problems: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", problems.append)
    tasks = list(expand(parse_spec(fakes.SPEC.format(instances=2))))
    engine = LocalEngine(1, fakes.slow)
    try:
        for task in tasks[:2]:
            engine.submit(task)
            results: list[Any] = []
            while engine.busy:
                results += engine.finished(1.0)
            assert [result.key for result in results] == list(task.keys)
            if task is tasks[1]:
                break
            for child in psutil.Process().children():
                if "loky" in " ".join(child.cmdline()) and "tracker" not in " ".join(
                    child.cmdline()
                ):
                    child.kill()
                    child.wait(60)
            deadline = time.monotonic() + 60
            while not engine._pool._flags.broken and time.monotonic() < deadline:
                time.sleep(0.01)
        engine.submit(tasks[2])  # to a worker that is there, and closed at once
    finally:
        engine.close()
    assert problems == []
    assert workers_of_ours() == []


def workers_of_ours() -> list[str]:
    """The command lines of our child processes that are workers."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            command = " ".join(child.cmdline())
        except psutil.NoSuchProcess:
            continue
        if "loky" in command and "resource_tracker" not in command:
            found.append(command)
    return found


def test_memory_does_not_grow_with_finished_tasks(tmp_path: Path, instant: None) -> None:
    import gc
    import tracemalloc

    spec = load_spec(fakes.write_spec(tmp_path, instances=40))
    seen: dict[int, int] = {}

    def listen(now: Progress) -> None:
        if now.done in (64, 164):
            gc.collect()
            seen[now.done] = tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        run_sweep(spec, tmp_path / "runs.sqlite", runner=fakes.draw, progress=listen)
    finally:
        tracemalloc.stop()
    # less than 100 bytes for each of 100 rows of about 1 kB
    assert seen[164] - seen[64] < 100 * 100


def test_a_row_that_two_grids_ask_for_is_computed_once(tmp_path: Path, instant: None) -> None:
    text = fakes.SPEC.format(instances=3)
    spec = parse_spec(text + "[[grid]]" + text.split("[[grid]]")[1].replace("[1, 2]", "[2, 3]"))
    seen: list[Progress] = []
    path = tmp_path / "runs.sqlite"
    report = run_sweep(spec, path, runner=fakes.draw, progress=seen.append)
    assert (report.rows, report.computed) == (24, 24)
    assert seen[-1].seconds_left == pytest.approx(0, abs=1e-9)


def test_the_window_bounds_what_is_in_flight() -> None:
    engine = LocalEngine(3, fakes.draw)
    assert engine.free == 6
    assert not engine.busy
    engine.close()


def test_a_result_that_cannot_be_stored_is_a_failure() -> None:
    task = next(expand(parse_spec(fakes.SPEC.format(instances=1))))
    for runner, reason in (
        (lambda task: [], "RuntimeError: 1 rows were asked for, 0 came back"),
        (lambda task: [{**row, "q": object()} for row in fakes.draw(task)], "TypeError"),
        (lambda task: [{**row, "colour": 1} for row in fakes.draw(task)], "KeyError"),
    ):
        results = attempt(runner, task)
        assert [result.key for result in results] == list(task.keys)
        assert all(result.failed and str(result.reason).startswith(reason) for result in results)
    assert len(str(failure(task, "x" * 10**6)[0].reason)) == 2000


def test_wrong_numbers_of_workers(tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=1)
    for workers in (0, -1, 10**6):
        with pytest.raises(InvalidInput, match="workers must be between 1 and"):
            run_sweep(spec, tmp_path / "runs.sqlite", workers=workers)
    with pytest.raises(InvalidInput, match="either workers or a cluster"):
        run_sweep(spec, tmp_path / "runs.sqlite", workers=1, cluster="tcp://127.0.0.1:1")
    assert not (tmp_path / "runs.sqlite").exists()


def test_a_sweep_outside_the_main_thread(tmp_path: Path, instant: None) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=1), tmp_path / "runs.sqlite"
    thread = threading.Thread(
        target=run_sweep, args=(spec, path), kwargs={"workers": 1, "runner": fakes.draw}
    )
    thread.start()
    thread.join(60)
    assert len(stored(path)) == 8


# 20 rows in 10 seconds, 38 to go
HALF_WAY = Progress("trial", rows=100, already=42, computed=20, failed=2, seconds=10.0)


def test_progress_is_a_line_with_rate_time_left_and_failures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "trial: 60 %, 60 of 100 rows, 2 rows/s, about 19 s left, 2 failed"
    assert str(HALF_WAY) == line
    monkeypatch.setattr(progress, "SECONDS_TO_FIRST_LINE", 0.05)
    with shown(True, "trial") as tell:
        tell(HALF_WAY)
        time.sleep(0.2)
    assert capsys.readouterr().err == f"{line} ...\n"
    heard: list[Progress] = []
    with shown(heard.append, "trial") as tell:
        tell(HALF_WAY)
    with shown(False, "trial") as tell:
        tell(HALF_WAY)
    assert heard == [HALF_WAY]


def test_in_a_worker_that_may_not_start_processes_a_sweep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a worker of Dask: it was an AssertionError of Python's own."""
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    spec = fakes.write_spec(tmp_path, instances=1)
    with pytest.raises(InvalidInput, match="may not start processes of its own"):
        run_sweep(spec, tmp_path / "runs.sqlite", workers=2, runner=fakes.draw)
