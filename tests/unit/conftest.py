"""Sweeps without worker processes and commands built once, where these are not what is tested."""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

sys.path.append(str(Path(__file__).parent / "lab"))  # stand-ins for work and processes

import sweep_fakes as fakes

from polyceptron.lab import sweep

built = cache(get_command)


@pytest.fixture(autouse=True, scope="module")
def commands_built_once() -> Iterator[None]:
    """Typer makes all options of all commands for each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", built)
        yield


def _run_here(patch: pytest.MonkeyPatch) -> None:
    real = sweep._make_engine

    def engine(workers: Any, cluster: Any, most: int, runner: Any) -> Any:
        if cluster is not None:
            return real(workers, cluster, most, runner)
        return fakes.InstantEngine(runner)

    patch.setattr(sweep, "_make_engine", engine)


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of no cluster run in this process: a worker takes a second to start."""
    _run_here(monkeypatch)


@pytest.fixture(scope="module")
def instant_module() -> Iterator[None]:
    """The same for what a whole file shares."""
    with pytest.MonkeyPatch.context() as patch:
        _run_here(patch)
        yield
