"""Kill a sweep in every way: nothing acknowledged is lost, nothing is left running."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes as fakes
from programs import Program, assert_nothing_left, fake_sweep, others

from polyceptron.lab.sweep import run_sweep
from polyceptron.store import Store

# Sweeps of this process use no workers; those that are killed do.
pytestmark = [pytest.mark.usefixtures("instant"), pytest.mark.process, pytest.mark.slow]


class Sweep:
    """A sweep in a process and session of its own."""

    def __init__(self, spec: Path, store: Path, runner: str, workers: int = 2) -> None:
        self.acknowledged = 0
        self.process = Program(fake_sweep, spec, store, runner, workers, waits=True)
        self.process.ready()  # a kill after this hits the sweep and not its imports
        self.process.begin()

    def wait_for(self, rows: int) -> None:
        """Until this many rows are acknowledged, or the sweep ends."""
        while self.acknowledged < rows:
            line = self.process.stdout.readline()
            if not line:
                return
            self.acknowledged = int(line.split()[1])

    def send(self, number: int, *, to_all: bool = False) -> tuple[int | None, str]:
        """Send a signal, perhaps to all its processes; the exit code and its standard error."""
        if to_all:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        out, err = self.process.communicate()
        for line in out.splitlines():
            if line.startswith("ack "):
                self.acknowledged = max(self.acknowledged, int(line.split()[1]))
        return self.process.poll(), err


@pytest.fixture
def start() -> Iterator[Callable[..., Sweep]]:
    """Start sweeps; at the end none of them, nor any process of theirs, is left."""
    sweeps: list[Sweep] = []

    def launch(*arguments: Any, **options: Any) -> Sweep:
        sweeps.append(Sweep(*arguments, **options))
        return sweeps[-1]

    yield launch
    for sweep in sweeps:
        if sweep.process.poll() is None:
            sweep.process.kill()
        sweep.process.wait()
        for process in others(sweep.process):
            process.kill()


def stored(path: Path) -> list[dict[str, Any]]:
    with Store(path) as store:
        store.check()
        return list(store.records())


def test_parent_killed_at_random_moments(tmp_path: Path, start: Callable[..., Sweep]) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=20), tmp_path / "runs.sqlite"
    moments = random.Random()
    early = start(spec, path, "slow")
    time.sleep(moments.uniform(0.0, 0.8))  # creation of the store, start of the workers
    early.send(signal.SIGKILL)
    assert_nothing_left(early.process)
    for workers in (1, 2):
        sweep = start(spec, path, "slow", workers)
        before = len(stored(path)) if path.exists() and path.stat().st_size else 0
        sweep.wait_for(before + moments.randint(1, 25))
        time.sleep(moments.uniform(0.0, 0.05))
        sweep.send(signal.SIGKILL)
        assert len(stored(path)) >= sweep.acknowledged
        assert_nothing_left(sweep.process)
    report = run_sweep(spec, path, workers=1, runner=fakes.draw)
    assert report.already + report.computed == report.rows
    undisturbed = tmp_path / "undisturbed.sqlite"
    run_sweep(spec, undisturbed, workers=1, runner=fakes.draw)
    assert stored(path) == stored(undisturbed)


def test_worker_killed_from_outside(tmp_path: Path, start: Callable[..., Sweep]) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=20), tmp_path / "runs.sqlite"
    sweep = start(spec, path, "slow", 1)  # two: test_engine_local
    sweep.wait_for(10)
    workers = [
        one for one in others(sweep.process) if "resource_tracker" not in " ".join(one.cmdline())
    ]
    workers[0].kill()
    sweep.wait_for(84)
    assert sweep.process.wait() == 0
    assert {record["status"] for record in stored(path)} == {"ok"}
    assert len(stored(path)) == 84
    assert_nothing_left(sweep.process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_sweep_is_refused_and_a_stop_is_clean(
    tmp_path: Path, start: Callable[..., Sweep], number: int
) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=2), tmp_path / "runs.sqlite"
    sweep = start(spec, path, "forever", 1)
    sweep.wait_for(4)  # the theory rows; the rest would run for ten minutes
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(ValueError, match="another sweep is writing"):
            run_sweep(spec, name, workers=1, runner=fakes.draw)
    assert len(stored(path)) == 4  # a reader is welcome meanwhile
    # A terminal sends Ctrl-C to the workers as well, a batch system's SIGTERM goes to the parent.
    code, err = sweep.send(number, to_all=number == signal.SIGINT)
    assert code == 130  # the program's own code; the shell command has a test of its own
    assert "Traceback" not in err
    assert_nothing_left(sweep.process)
    assert len(stored(path)) == 4
    assert run_sweep(spec, path, workers=1, runner=fakes.draw).computed == 8
