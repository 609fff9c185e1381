"""Tests in several processes that share one collection: `pytest --processes 3`.

Importing the test files takes a fiftieth of the suite's time. Here it is done once, and processes
are forked from what is there; each takes the next file when it has finished one, so that a file's
fixtures are made once. What a test reports goes to the parent, which counts and prints it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import multiprocessing
import os
from collections.abc import Iterator
from itertools import groupby
from multiprocessing.connection import wait
from typing import Any

import pytest

FORK = multiprocessing.get_context("fork")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, default=1, help="how many share the test files")


def run_forked(session: pytest.Session) -> bool | None:
    """All items, or None where one process is enough: then pytest's own loop runs them."""
    count = session.config.getoption("processes")
    if count < 2 or session.config.option.collectonly or session.testsfailed:
        return None
    files = [list(items) for _, items in groupby(session.items, key=lambda item: item.path)]
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    taken, running = FORK.Value("i", 0), dict[Any, str]()  # by pipe: the test it is at
    processes = []
    gc.freeze()  # what was imported stays, and need not be looked through again and again;
    gc.set_threshold(100_000, 20, 100)  # nor what a test has just made: a twentieth of the time
    for number in range(count):
        receive, send = FORK.Pipe(duplex=False)
        processes.append(FORK.Process(target=work, args=(session, number, files, taken, send)))
        processes[-1].start()
        send.close()
        running[receive] = "at its start"
    try:
        while running:
            for pipe in wait(list(running)):
                listen(session, pipe, running)
    finally:
        for one in processes:
            one.terminate()
            one.join()
    return True


def listen(session: pytest.Session, pipe: Any, running: dict[Any, str]) -> None:
    """One message: a test that begins, a report, or None at the end."""
    try:
        told = pipe.recv()
    except EOFError:
        told, session.shouldfail = "", f"a process died: {running[pipe]}"
    if told is None:
        del running[pipe]
    elif isinstance(told, str):
        running[pipe] = told
    else:
        hook = session.config.hook
        report = hook.pytest_report_from_serializable(config=session.config, data=told)
        hook.pytest_runtest_logreport(report=report)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)


def work(
    session: pytest.Session, number: int, files: list[list[pytest.Item]], taken: Any, send: Any
) -> None:
    """Run files, one after another, as long as there are some."""
    config = session.config
    manager, factory = config.pluginmanager, config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"process{number}"
    factory._basetemp.mkdir()
    capture = manager.getplugin("capturemanager")  # its files are shared with the others
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    manager.unregister(manager.getplugin("terminalreporter"))
    manager.register(Teller(config, send))

    def items() -> Iterator[pytest.Item]:
        while True:
            with taken.get_lock():
                place, taken.value = taken.value, taken.value + 1
            if place >= len(files):
                return
            yield from files[place]

    rest = items()
    item = next(rest, None)
    while item is not None:  # the next one tells which fixtures are still wanted
        following = next(rest, None)
        send.send(item.nodeid)
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    with contextlib.suppress(SystemExit):
        atexit._run_exitfuncs()
    send.send(None)
    os._exit(0)


class Teller:
    """Hands reports to the parent."""

    def __init__(self, config: pytest.Config, send: Any) -> None:
        self.config, self.send = config, send

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        self.send.send(hook.pytest_report_to_serializable(config=self.config, report=report))
