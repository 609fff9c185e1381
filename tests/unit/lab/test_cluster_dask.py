"""The same rows on a real Dask scheduler with two worker processes, which are killed in turn."""

from __future__ import annotations

import importlib
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes as fakes
from cluster_fits import the_recipe_survives_the_loss_of_a_worker
from programs import Program, fake_sweep

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.engine import Progress
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep, sweep_rows
from polyceptron.store import Store

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
pytestmark = [pytest.mark.usefixtures("instant"), pytest.mark.process, pytest.mark.slow]


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


def serve(kind: str, *arguments: str) -> None:
    """What `dask scheduler` and `dask worker` do."""
    command = importlib.import_module(f"distributed.cli.dask_{kind}")
    with dask.config.set({"distributed.scheduler.work-stealing": False}):
        command.main([*arguments, "--no-dashboard"])


class Cluster:
    """A scheduler and two single-threaded workers on the loopback address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = Program(serve, "scheduler", "--host", "127.0.0.1", "--port", str(port))
        self.workers = [self.new_worker(), self.new_worker()]
        self.sweeps: list[Program] = []

    def new_worker(self) -> Program:
        options = ["--nthreads", "1", "--no-nanny", "--death-timeout", "120"]
        options += ["--local-directory", str(self.folder)]
        return Program(serve, "worker", self.address, *options)

    def replace_dead_worker(self) -> None:
        """A new worker for the first one, which was killed."""
        self.workers[0] = self.new_worker()

    def new_sweep(self, name: str, instances: int) -> tuple[Path, Path]:
        """The paths of a specification and of a store, in a folder of this name."""
        folder = self.folder / name
        folder.mkdir()
        return fakes.write_spec(folder, instances), folder / "runs.sqlite"

    def start_sweep(self, spec: Path, store: Path, rows: int, number: int) -> Program:
        """Start a sweep on the cluster that sends itself this signal after so many rows."""
        sweep = Program(fake_sweep, spec, store, "slow", 0, self.address, rows, int(number))
        self.sweeps.append(sweep)
        return sweep

    @property
    def processes(self) -> list[Program]:
        return [self.scheduler, *self.workers]

    def stop(self) -> None:
        for process in (*self.sweeps, *self.processes):
            process.kill()
            process.wait()


def stored(path: Path) -> list[dict[str, Any]]:
    with Store(path) as store:
        store.check()
        return list(store.records())


def kill_at(process: Program, rows: int, seen: list[int]) -> Any:
    """A listener that kills a process once this many rows are on the disk."""

    def listen(now: Progress) -> None:
        seen.append(now.done)
        if now.done >= rows and process.poll() is None:
            process.kill()
            process.wait()

    return listen


def test_fits_and_sweeps_and_every_kind_of_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cluster serves all steps: starting it is most of the cost."""
    monkeypatch.chdir(tmp_path)
    cluster = Cluster(tmp_path)
    try:
        the_recipe_survives_the_loss_of_a_worker(cluster)
        cluster.replace_dead_worker()
        a_stopped_sweep_leaves_the_cluster_usable(cluster)
        a_killed_sweep_loses_nothing(cluster)
        rows_are_those_of_this_machine_and_deaths_cost_none(cluster, tmp_path)
    finally:
        cluster.stop()


def a_stopped_sweep_leaves_the_cluster_usable(cluster: Cluster) -> None:
    spec, path = cluster.new_sweep("stopped", instances=15)
    sweep = cluster.start_sweep(spec, path, 10, signal.SIGINT)
    _, err = sweep.communicate()
    assert sweep.poll() == 130
    assert "Traceback" not in err
    done = len(stored(path))
    assert 10 <= done < 64
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed) == (done, 64 - done)


def a_killed_sweep_loses_nothing(cluster: Cluster) -> None:
    """SIGKILL of the process that writes, twice, on one cluster; it serves the next run."""
    spec, path = cluster.new_sweep("killed", instances=20)
    moments = random.Random()
    acknowledged = 0
    for _ in range(2):
        enough = acknowledged + moments.randint(1, 10)
        sweep = cluster.start_sweep(spec, path, enough, signal.SIGKILL)
        out, err = sweep.communicate()
        assert sweep.poll() == -signal.SIGKILL, err
        said = [line.split()[1] for line in out.splitlines() if line.startswith("ack ")]
        acknowledged = max(int(number) for number in said)
        assert acknowledged <= len(stored(path)) < 84
    assert [process.poll() for process in cluster.processes] == [None] * 3
    before = len(stored(path))
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed, report.failed) == (before, 84 - before, 0)
    undisturbed = path.with_name("undisturbed.sqlite")
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
    monkeypatch.setattr("polyceptron.lab.engine.CONNECT_SECONDS", 0.5)
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
