"""Processes that begin with what this one has imported: a start in a second is one in a moment.

They have sessions, signals and deaths of their own, as programs have, and are used as those of
`subprocess` are. Where the start itself is what is tested, a test starts a program.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import sweep_fakes as fakes

from polyceptron.cli import main
from polyceptron.errors import ComputationFailed
from polyceptron.lab import sweep
from polyceptron.lab.engine import Progress

FORK = multiprocessing.get_context("fork")
_REAL_ENGINE = sweep._make_engine  # before any test replaces it


class Forked:
    """A process at work on `work`, at once or when told to `begin`."""

    def __init__(self, work: Callable[..., object], *given: Any, waits: bool = False) -> None:
        read, write = os.pipe()
        gate, self._gate = os.pipe()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        ends = (gate, write, self._errors.fileno())
        self._process = FORK.Process(target=_child, args=(*ends, work, given))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        os.close(gate)
        os.close(write)
        self.stdout = os.fdopen(read)
        if not waits:
            self.begin()

    def begin(self) -> None:
        os.write(self._gate, b"!")

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self.poll()

    def communicate(self) -> tuple[str, str]:
        """The rest of its output, and all that it complained of."""
        out = self.stdout.read()
        self.wait()
        self._errors.seek(0)
        return out, self._errors.read()


def _child(gate: int, out: int, errors: int, work: Callable[..., object], given: Any) -> None:
    parent = os.getppid()
    os.setsid()
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.close(out)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while not select.select([gate], [], [], 1.0)[0]:
        if os.getppid() != parent:
            return
    try:
        work(*given)
    finally:
        sys.stdout.flush()


def shell(*arguments: object) -> SimpleNamespace:
    """The command with these arguments: its exit code and what it says."""
    process = Forked(command, *arguments)
    limit = threading.Timer(300, process.kill)  # no test may hang
    limit.start()
    out, err = process.communicate()
    limit.cancel()
    return SimpleNamespace(returncode=process.poll(), stdout=out, stderr=err)


def command(*arguments: object) -> None:
    """What the program does with these arguments, with worker processes."""
    sweep._make_engine = _REAL_ENGINE
    sys.argv = ["polyceptron", *map(str, arguments)]
    main()


def others(process: Forked) -> list[psutil.Process]:
    """The other processes of its session: workers and their helpers."""
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == process.pid != pid:
                other = psutil.Process(pid)
                if other.status() != psutil.STATUS_ZOMBIE:
                    found.append(other)
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return found


def assert_nothing_left(process: Forked) -> None:
    """Workers look after their parent twice a second."""
    deadline = time.monotonic() + 120
    while (left := others(process)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def fake_sweep(
    spec: Path, store: Path, runner: str, workers: int = 0, cluster: str | None = None
) -> None:
    """Run a sweep, in this process if there are no workers; `ack N`: N rows are on the disk."""

    def acknowledge(now: Progress) -> None:
        sys.stdout.write(f"ack {now.done}\n")
        sys.stdout.flush()

    instant = not workers and cluster is None
    sweep._make_engine = (  # type: ignore[assignment]
        (lambda *given: fakes.InstantEngine(given[-1])) if instant else _REAL_ENGINE
    )
    try:
        sweep.run_sweep(
            spec,
            store,
            workers=workers or None,
            cluster=cluster,
            runner=getattr(fakes, runner),
            progress=acknowledge,
        )
    except sweep.SweepStopped:
        sys.exit(130)


def fill(spec: Path, store: Path, copy: Path, limit: int | None = None) -> None:
    """Sweep until nothing more can be written, copy the disk and end with code 7.

    What is said: the rows that were acknowledged, and the error. `limit`: bytes of any one file.
    """
    sweep._make_engine = lambda *given: fakes.InstantEngine(given[-1])  # type: ignore
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    seen = [0]
    try:
        sweep.run_sweep(
            spec, store, workers=1, runner=fakes.draw, progress=lambda now: seen.append(now.done)
        )
    except ComputationFailed as error:
        sys.stdout.write(f"{seen[-1]} {error}\n")
        shutil.copytree(Path(store).parent, copy)
        sys.exit(7)
