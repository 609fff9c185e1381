"""Sweeps without worker processes, where these are not what is tested."""

from typing import Any

import pytest
import sweep_fakes as fakes

from polyceptron.experiments import sweep


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of no cluster run in this process: a worker takes a second to start."""

    real = sweep._make_engine

    def engine(workers: Any, cluster: Any, most: int, runner: Any) -> Any:
        if cluster is not None:
            return real(workers, cluster, most, runner)
        return fakes.InstantEngine(runner)

    monkeypatch.setattr(sweep, "_make_engine", engine)
