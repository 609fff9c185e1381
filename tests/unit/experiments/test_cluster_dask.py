"""The same rows on a real Dask scheduler with two worker processes, which are killed in turn."""

from __future__ import annotations

import importlib
import random
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import sweep_fakes as fakes
from cluster_fits import the_recipe_survives_the_loss_of_a_worker
from forked_work import Forked, fake_sweep

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.engine import Progress
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep, sweep_rows
from polyceptron.store import Store
from polyceptron.students import simulate as _simulate  # noqa: F401  forked with the workers

dask = pytest.importorskip("dask")
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


def serve(kind: str, *arguments: str) -> None:
    """What `dask scheduler` and `dask worker` do."""
    command = importlib.import_module(f"distributed.cli.dask_{kind}")
    with dask.config.set({"distributed.scheduler.work-stealing": False}):
        command.main([*arguments, "--no-dashboard"])


class Cluster:
    """A scheduler and two single-threaded workers on the loopback address, and what comes later.

    All processes are forked before Dask has threads here.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = Forked(serve, "scheduler", "--host", "127.0.0.1", "--port", str(port))
        options = ("--nthreads", "1", "--no-nanny", "--death-timeout", "120")
        options += ("--local-directory", str(folder))
        *self.workers, self.spare = (
            Forked(serve, "worker", self.address, *options, waits=waits)
            for waits in (False, False, True)
        )
        self.sweeps = {}
        for name, instances in (("stopped", 8), ("killed", 6)):
            (folder / name).mkdir()
            given = fakes.write_spec(folder / name, instances), folder / name / "runs.sqlite"
            self.sweeps[name] = (
                *given, Forked(fake_sweep, *given, "slow", 0, self.address, waits=True)
            )  # fmt: skip

    def replace_dead_worker(self) -> None:
        """The first one, which was killed."""
        self.spare.begin()
        self.workers[0] = self.spare

    @property
    def processes(self) -> list[Forked]:
        return [self.scheduler, *self.workers]

    def stop(self) -> None:
        for process in (*(sweep[-1] for sweep in self.sweeps.values()), *self.processes):
            process.kill()
            process.wait()


def stored(path: Path) -> list[dict[str, Any]]:
    with Store(path) as store:
        store.check()
        return list(store.records())


def kill_at(process: Forked, rows: int, seen: list[int]) -> Any:
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
    spec, path, sweep = cluster.sweeps["stopped"]
    sweep.begin()
    killer = threading.Timer(300, sweep.kill)
    killer.start()
    for line in sweep.stdout:
        if line.startswith("ack ") and int(line.split()[1]) >= 10:
            break
    sweep.send_signal(signal.SIGINT)
    _, err = sweep.communicate()
    killer.cancel()
    assert sweep.poll() == 130
    assert "Traceback" not in err
    done = len(stored(path))
    assert 10 <= done < 36
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed) == (done, 36 - done)


def a_killed_sweep_loses_nothing(cluster: Cluster) -> None:
    """SIGKILL of the process that writes; the cluster serves the next run."""
    spec, path, sweep = cluster.sweeps["killed"]
    sweep.begin()
    moments = random.Random()
    acknowledged = 0
    limit = threading.Timer(300, sweep.kill)
    limit.start()
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
    assert sweep.poll() == -signal.SIGKILL, err
    for line in out.splitlines():  # what it had said before the kill
        if line.startswith("ack "):
            acknowledged = max(acknowledged, int(line.split()[1]))
    assert acknowledged <= len(stored(path)) < 28
    assert [process.poll() for process in cluster.processes] == [None] * 3
    before = len(stored(path))
    report = run_sweep(spec, path, cluster=cluster.address, runner=fakes.draw)
    assert (report.already, report.computed, report.failed) == (before, 28 - before, 0)
    undisturbed = path.with_name("undisturbed.sqlite")
    run_sweep(spec, undisturbed, workers=1, runner=fakes.draw)
    assert stored(path) == stored(undisturbed)  # none lost, doubled or changed
    with Store(path) as store:
        assert store.damaged() == []


def rows_are_those_of_this_machine_and_deaths_cost_none(cluster: Cluster, tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=8)
    local, remote = tmp_path / "local.sqlite", tmp_path / "remote.sqlite"
    run_sweep(spec, local, workers=1, runner=fakes.draw)
    report = run_sweep(spec, remote, cluster=cluster.address, runner=fakes.fail)
    assert (report.computed, report.failed) == (36, 16)
    assert {r["reason"] for r in stored(remote) if r["reason"]} == {
        "ZeroDivisionError: no minimum at this ridge"
    }
    assert run_sweep(spec, remote, cluster=cluster.address, runner=fakes.draw).computed == 16
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
    listen = kill_at(cluster.workers[0], 12, [])
    report = run_sweep(spec, lame, cluster=cluster.address, runner=fakes.slow, progress=listen)
    assert cluster.workers[0].poll() == -signal.SIGKILL
    assert (report.computed, report.failed) == (36, 0)
    assert stored(lame) == stored(local)

    headless, seen = tmp_path / "headless.sqlite", [0]
    listen = kill_at(cluster.scheduler, 12, seen)
    with pytest.raises(ComputationFailed, match=r"lost the Dask scheduler.*run the same command"):
        run_sweep(spec, headless, cluster=cluster.address, runner=fakes.slow, progress=listen)
    assert seen[-1] <= len(stored(headless)) < 36
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
