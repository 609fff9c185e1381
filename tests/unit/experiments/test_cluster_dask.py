"""The same rows on a real Dask scheduler with two worker processes, which are killed in turn."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes as fakes
from cluster_fits import the_recipe_survives_the_loss_of_a_worker

import polyceptron as pc
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments.engine import Progress
from polyceptron.experiments.spec import parse_spec
from polyceptron.experiments.store import Store
from polyceptron.experiments.sweep import run_sweep, sweep_rows

pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("instant")


REAL = """
[[grid]]
classes = 3
sources = "erm"
estimators = ["square", "cross-entropy"]
ridge = [0.1, 1.0]
alpha = [2]
dimension = [40]
instances = 2
"""


class Cluster:
    """A scheduler and two single-threaded workers on the loopback address."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", str(port))
        self.workers = [self.start_worker() for _ in range(2)]

    def start_worker(self) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--death-timeout", "120")
        return self.start("worker", self.address, *options, "--local-directory", str(self.folder))

    def replace_dead_worker(self) -> None:
        """The first one, which was killed."""
        self.processes.remove(self.workers[0])
        self.workers[0] = self.start_worker()

    def start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join(str(Path(m.__file__).parents[i]) for m, i in ((fakes, 0), (pc, 1)))
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard"]
        with (self.folder / f"{kind}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": paths},
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()


def stored(path: Path) -> list[dict[str, Any]]:
    with Store(path) as store:
        store.check()
        return list(store.records())


def kill_at(process: subprocess.Popen[bytes], rows: int, seen: list[int]) -> Any:
    """A listener that kills a process once this many rows are on the disk."""

    def listen(now: Progress) -> None:
        seen.append(now.done)
        if now.done >= rows and process.poll() is None:
            process.kill()
            process.wait()

    return listen


@pytest.mark.slow
def test_fits_and_sweeps_and_every_kind_of_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cluster serves all steps: starting it is most of the cost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING", "False")
    cluster = Cluster(tmp_path)
    try:
        the_recipe_survives_the_loss_of_a_worker(cluster)
        cluster.replace_dead_worker()
        a_stopped_sweep_leaves_the_cluster_usable(cluster, make_folder(tmp_path / "stopped"))
        a_killed_sweep_loses_nothing(cluster, make_folder(tmp_path / "killed"))
        rows_are_those_of_this_machine_and_deaths_cost_none(cluster, tmp_path)
    finally:
        cluster.stop()


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def a_stopped_sweep_leaves_the_cluster_usable(cluster: Cluster, tmp_path: Path) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=15), tmp_path / "runs.sqlite"
    program = [sys.executable, fakes.__file__, str(spec), str(path), "slow", "0", cluster.address]
    sweep = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killer = threading.Timer(300, sweep.kill)
    killer.start()
    assert sweep.stdout is not None
    for line in sweep.stdout:
        if line.startswith("ack ") and int(line.split()[1]) >= 10:
            break
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate()
    killer.cancel()
    assert sweep.returncode == 130
    assert "Traceback" not in err
    done = len(stored(path))
    assert 10 <= done < 64
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed) == (done, 64 - done)


def a_killed_sweep_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """SIGKILL of the process that writes; the cluster serves the next run."""
    spec, path = fakes.write_spec(tmp_path, instances=12), tmp_path / "runs.sqlite"
    program = [sys.executable, fakes.__file__, str(spec), str(path), "slow", "0", cluster.address]
    moments = random.Random()
    acknowledged = 0
    sweep = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = threading.Timer(300, sweep.kill)
    limit.start()
    assert sweep.stdout is not None
    enough = moments.randint(1, 10)
    for line in sweep.stdout:
        if line.startswith("ack "):
            acknowledged = int(line.split()[1])
        if acknowledged >= enough:
            break
    time.sleep(moments.uniform(0.0, 0.05))
    sweep.kill()
    out, err = sweep.communicate()
    limit.cancel()
    assert sweep.returncode == -signal.SIGKILL, err
    for line in out.splitlines():  # what it had said before the kill
        if line.startswith("ack "):
            acknowledged = max(acknowledged, int(line.split()[1]))
    assert acknowledged <= len(stored(path)) < 52
    assert [process.poll() for process in cluster.processes] == [None] * 3
    before = len(stored(path))
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed, report.failed) == (before, 52 - before, 0)
    undisturbed = tmp_path / "undisturbed.sqlite"
    run_sweep(spec, undisturbed, workers=1, runner=fakes.draw)
    assert stored(path) == stored(undisturbed)  # none lost, doubled or changed
    with Store(path) as store:
        assert store.damaged() == []


def rows_are_those_of_this_machine_and_deaths_cost_none(cluster: Cluster, tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=15)
    local, remote = tmp_path / "local.sqlite", tmp_path / "remote.sqlite"
    run_sweep(spec, local, workers=1, runner=fakes.draw)
    report = run_sweep(spec, remote, cluster=cluster.address, runner=fakes.fail)
    assert (report.computed, report.failed) == (64, 30)
    assert {r["reason"] for r in stored(remote) if r["reason"]} == {
        "ZeroDivisionError: no minimum at this ridge"
    }
    assert run_sweep(spec, remote, cluster=cluster.address, runner=fakes.draw).computed == 30
    assert stored(remote) == stored(local)

    real = parse_spec(REAL)
    run_sweep(real, tmp_path / "real-local.sqlite", workers=1)
    run_sweep(real, tmp_path / "real-remote.sqlite", cluster=cluster.address)
    here, there = (sweep_rows(real, tmp_path / f"real-{x}.sqlite") for x in ("local", "remote"))
    assert [row["seed"] for row in here] == [row["seed"] for row in there]
    for mine, theirs in zip(here, there, strict=True):
        assert mine["status"] == theirs["status"] == "ok"
        assert mine["q"] == pytest.approx(theirs["q"], rel=1e-7)  # the solver's tolerance is 1e-8

    lame = tmp_path / "lame.sqlite"
    listen = kill_at(cluster.workers[0], 20, [])
    report = run_sweep(spec, lame, cluster=cluster.address, runner=fakes.slow, progress=listen)
    assert cluster.workers[0].poll() == -signal.SIGKILL
    assert (report.computed, report.failed) == (64, 0)
    assert stored(lame) == stored(local)

    headless, seen = tmp_path / "headless.sqlite", [0]
    listen = kill_at(cluster.scheduler, 20, seen)
    with pytest.raises(ComputationFailed, match=r"lost the Dask scheduler.*run the same command"):
        run_sweep(spec, headless, cluster=cluster.address, runner=fakes.slow, progress=listen)
    assert seen[-1] <= len(stored(headless)) < 64
    assert run_sweep(spec, headless, workers=1, runner=fakes.draw).failed == 0
    assert stored(headless) == stored(local)


def test_no_scheduler_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyceptron.experiments.engine.CONNECT_SECONDS", 0.5)
    spec, start = fakes.write_spec(tmp_path, instances=1), time.monotonic()
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(InvalidInput, match="no Dask scheduler answers at"):
            run_sweep(spec, tmp_path / "runs.sqlite", cluster=address, runner=fakes.draw)
    assert time.monotonic() - start < 30


def test_without_dask_the_sentence_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    spec = fakes.write_spec(tmp_path, instances=1)
    with pytest.raises(InvalidInput, match=r"polyceptron\[cluster\]"):
        run_sweep(spec, tmp_path / "runs.sqlite", cluster="tcp://127.0.0.1:9", runner=fakes.draw)
