"""Programs that tests start, listen to and kill.

`Program(function, *arguments)` starts a new Python interpreter that imports the module of
`function` and calls it. The program has a session of its own, so that a test can send a signal to
it and to all of its workers, and look for processes that it left behind.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import sweep_fakes as fakes

from polyceptron.cli import main
from polyceptron.errors import ComputationFailed
from polyceptron.lab import sweep
from polyceptron.lab.engine import Progress

LONGEST_SECONDS = 300  # ends a test that hangs; no test needs a tenth of it


class Program:
    """A Python process that calls one function of a test module.

    Parameters
    ----------
    function
        A function at the top level of a module on `sys.path`.
    *arguments
        Numbers, texts and None are passed on as they are, paths as text.
    waits
        Whether the program, once it has imported everything, waits for `begin`.
    """

    def __init__(
        self, function: Callable[..., object], *arguments: object, waits: bool = False
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        given = json.dumps(arguments, default=os.fspath)
        place = [function.__module__, function.__name__, given]
        if waits:
            place.append("wait")
        self._process = subprocess.Popen(
            [sys.executable, __file__, *place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.stdout = self._process.stdout
        self._limit = threading.Timer(LONGEST_SECONDS, self.kill)
        self._limit.daemon = True
        self._limit.start()

    def ready(self) -> None:
        """Wait until a program with `waits` has imported what it needs."""
        line = self.stdout.readline()
        assert line == "ready\n", self.complaints()

    def begin(self) -> None:
        """Let a program with `waits` call its function."""
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()

    def poll(self) -> int | None:
        return self._process.poll()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        """Wait for the end of the program; its exit code."""
        code = self._process.wait()
        self._limit.cancel()
        return code

    def communicate(self) -> tuple[str, str]:
        """Wait for the end; the rest of standard output, and all of standard error."""
        out = self.stdout.read()
        self.wait()
        return out, self.complaints()

    def complaints(self) -> str:
        """What the program has written to standard error so far."""
        self._errors.seek(0)
        return self._errors.read()


def shell(*arguments: object) -> SimpleNamespace:
    """Run the command `polyceptron` with these arguments: exit code, output and errors."""
    program = Program(command, *[str(one) for one in arguments])
    out, err = program.communicate()
    return SimpleNamespace(returncode=program.wait(), stdout=out, stderr=err)


def others(program: Program) -> list[psutil.Process]:
    """The other living processes of the program's session: workers and their helpers."""
    found = []
    for pid in psutil.pids():
        try:
            if pid != program.pid and os.getsid(pid) == program.pid:
                other = psutil.Process(pid)
                if other.status() != psutil.STATUS_ZOMBIE:
                    found.append(other)
        except (ProcessLookupError, psutil.NoSuchProcess):
            pass
    return found


def assert_nothing_left(program: Program) -> None:
    """No other process of the session is left; workers look for their parent twice a second."""
    deadline = time.monotonic() + 120
    left = others(program)
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = others(program)
    assert not left


# What programs do.


def command(*arguments: str) -> None:
    """What the command `polyceptron` does with these arguments."""
    sys.argv = ["polyceptron", *arguments]
    main()


def commands(lines: list[str]) -> None:
    """Run these command lines in turn, and write the exit code of each to standard error."""
    for line in lines:
        try:
            command(*line.split())
        except SystemExit as ended:
            sys.stderr.write(f"code {ended.code}\n")


def fake_sweep(
    spec: str,
    store: str,
    runner: str,
    workers: int = 0,
    cluster: str | None = None,
    signal_after: int | None = None,
    signal_number: int = signal.SIGKILL,
) -> None:
    """Run a sweep, in this process if there are no workers; `ack N`: N rows are on the disk.

    Up to 0.05 s after row `signal_after` the program sends itself a signal. A signal from the test
    would be late on a busy machine, where the sweep may have ended before the test has its turn.
    """

    sent = threading.Event()

    def acknowledge(now: Progress) -> None:
        sys.stdout.write(f"ack {now.done}\n")
        sys.stdout.flush()
        if signal_after is not None and now.done >= signal_after and not sent.is_set():
            sent.set()  # a second Ctrl-C would end the sweep at once
            delay = random.uniform(0.0, 0.05)
            threading.Timer(delay, os.kill, (os.getpid(), signal_number)).start()

    if not workers and cluster is None:
        use_instant_engine()
    try:
        sweep.run_sweep(
            Path(spec),
            Path(store),
            workers=workers or None,
            cluster=cluster,
            runner=getattr(fakes, runner),
            progress=acknowledge,
        )
    except sweep.SweepStopped:
        sys.exit(130)


def fill(spec: str, store: str, copy: str, limit: int | None = None) -> None:
    """Sweep until nothing more can be written, copy the disk and end with code 7.

    Standard output has the number of rows that were acknowledged, and the error. `limit` is the
    largest size of a file in bytes.
    """
    use_instant_engine()
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    seen = [0]
    try:
        sweep.run_sweep(
            Path(spec),
            Path(store),
            workers=1,
            runner=fakes.draw,
            progress=lambda now: seen.append(now.done),
        )
    except ComputationFailed as error:
        sys.stdout.write(f"{seen[-1]} {error}\n")
        shutil.copytree(Path(store).parent, copy)
        sys.exit(7)


def use_instant_engine() -> None:
    """Sweeps of this process start no workers."""
    sweep._make_engine = lambda *given: fakes.InstantEngine(given[-1])  # type: ignore[assignment]


def run() -> None:
    """Import the function named on the command line and call it."""
    module, name, given, *wait = sys.argv[1:]
    # A shell that runs the tests in the background would have programs ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    function = getattr(importlib.import_module(module), name)
    if wait:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return  # the test has ended
    function(*json.loads(given))


if __name__ == "__main__":
    run()
