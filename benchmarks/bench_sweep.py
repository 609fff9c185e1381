"""What a sweep adds to its tasks: the cost of the store, and what a second worker brings.

Tasks of 50 ms hold a processor and do nothing else, so that every difference is the sweep's own.
Other load on the machine limits two workers whatever the sweep does: two bare processes are timed
beside it and reported in the note.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from polyceptron.lab.engine import LocalEngine
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import _run
from polyceptron.lab.tasks import Task
from polyceptron.rows import make_row
from polyceptron.store import Store

TASK_SECONDS = 0.05
SPEC = """
[[grid]]
sources = "amp"
alpha = [1]
dimension = [10]
instances = {instances}
"""
SPIN = """
import sys, time
end = time.process_time() + float(sys.argv[1])
start = time.perf_counter()
while time.process_time() < end:
    pass
print(time.perf_counter() - start)
"""


def spin(task: Task) -> list[dict[str, Any]]:
    """One row after 50 ms of processor time."""
    end = time.process_time() + TASK_SECONDS
    while time.process_time() < end:
        pass
    return wait(task, 0.0)


def wait(task: Task, seconds: float = TASK_SECONDS) -> list[dict[str, Any]]:
    """One row after 50 ms in which the processor is free: other load does not disturb it."""
    time.sleep(seconds)
    return [make_row(source="amp", alpha=1.0, generalisation_error=0.5, status="ok")]


def bench() -> list[dict[str, Any]]:
    """Rows for the table of `make bench`: medians of interleaved runs."""
    stored, bare, one, two, pair, machine = [], [], [], [], [], []
    for _ in range(3):
        stored.append(_sweep_seconds(wait, workers=1, tasks=60))
        bare.append(_sweep_seconds(wait, workers=1, tasks=60, store_results=False))
        pair.append(_sweep_seconds(wait, workers=2, tasks=60))
        one.append(_sweep_seconds(spin, workers=1, tasks=40))
        two.append(_sweep_seconds(spin, workers=2, tasks=40))
        machine.append(2 * _bare_seconds(1) / _bare_seconds(2))
    with_store, without = statistics.median(stored), statistics.median(bare)
    slow, fast = statistics.median(one), statistics.median(two)
    return [
        {
            "name": "sweep of 50 ms tasks: with the store against without",
            "ours_seconds": with_store,
            "rival_seconds": without,
            "ratio": with_store / without,
            "note": f"store overhead {100 * (with_store / without - 1):.1f} %, aim below 2 %",
        },
        {
            "name": "sweep of 50 ms tasks: two workers against one",
            "ours_seconds": fast,
            "rival_seconds": slow,
            "ratio": slow / fast,
            "note": f"aim 1.7; two bare processes now: {statistics.median(machine):.2f}",
        },
        {
            "name": "the same with tasks that wait 50 ms and need no processor",
            "ours_seconds": statistics.median(pair),
            "rival_seconds": with_store,
            "ratio": with_store / statistics.median(pair),
            "note": "what engine and store allow whatever else the machine does; 2 is perfect",
        },
    ]


def _sweep_seconds(runner: Any, workers: int, tasks: int, store_results: bool = True) -> float:
    """Seconds from the first finished tasks, when all workers are up, to the last."""
    spec = parse_spec(SPEC.format(instances=tasks + 2 * workers))
    engine = LocalEngine(workers, runner)
    start = done = 0.0
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Store(Path(folder) / "r", create=True) as store,
        ):
            for results in _run(spec, store, engine, []):
                if results and store_results:
                    store.add(results)
                done += len(results)
                if done >= 2 * workers and not start:
                    start, done = time.perf_counter(), done - 2 * workers
            seconds = time.perf_counter() - start
    finally:
        engine.close()
    return seconds


def _bare_seconds(processes: int) -> float:
    """Seconds that so many processes need for one second of processor time each."""
    command = [sys.executable, "-c", SPIN, "1.0"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    return max(float(process.communicate()[0]) for process in running)


if __name__ == "__main__":
    for row in bench():
        print(row)
