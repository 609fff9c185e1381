"""Fits on a real Dask scheduler with two worker processes, one of which is killed on the way.

What runs is the recipe of docs/cluster.md itself, with another address and a worker that dies.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cluster_dask import Cluster

import polyceptron as pc
from polyceptron.algorithms import dask_design

distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


def recipe(address: str) -> str:
    """The block of the page that fits a Parquet file on a cluster."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    text = next(block for block in blocks if "read_parquet" in block)
    return text.replace("tcp://127.0.0.1:8786", address)


@pytest.mark.slow
def test_the_recipe_survives_the_loss_of_a_worker(tmp_path, monkeypatch) -> None:
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    X, y, _ = pc.Teacher(3, noise="gaussian:1").sample(300, 30, 0)
    names = [f"x{i}" for i in range(30)]
    Path("X.parquet").mkdir()
    for i in range(3):
        part = pd.DataFrame(X[100 * i : 100 * i + 100], columns=names)
        part.to_parquet(f"X.parquet/{i}.parquet")
    np.save("y.npy", y)
    cluster = Cluster(tmp_path)
    travelled: list[int] = []
    wait = dask_design._wait

    def counting(tasks: list[Any], fault: Any) -> list[Any]:
        found = wait(tasks, fault)
        travelled.append(sum(part.nbytes for part in flat(found)))
        return found

    def listen(now: pc.FitProgress) -> None:
        if now.iteration == 3 and cluster.workers[0].poll() is None:
            cluster.workers[0].kill()
            cluster.workers[0].wait()

    monkeypatch.setattr(dask_design, "_wait", counting)
    try:
        space: dict[str, Any] = {"listen": listen}
        exec(recipe(cluster.address), space)
        client = space["client"]
        assert cluster.workers[0].poll() is not None
        assert len(client.scheduler_info()["workers"]) == 1
        client.close()
    finally:
        cluster.stop()
    result, fit = space["result"], space["fit"]
    here = pc.amp(X, y, noise="gaussian:1")
    assert result.status == fit.status == here.status == "ok"
    assert result.n_iter == here.n_iter
    assert np.abs(result.weights - here.weights).max() < 1e-10
    plain = pc.fit_erm(X, y, "cross-entropy", 10.0, tol=1e-11)
    assert np.abs(fit.weights - plain.weights).max() < 1e-10
    # X stays where it is: what comes back from a pass is a few columns of n or d numbers a chunk.
    assert max(travelled) < 0.25 * X.nbytes
    assert len(travelled) > 20


def flat(found: Any) -> list[Any]:
    """The arrays in nested results."""
    if isinstance(found, np.ndarray):
        return [found]
    return [a for part in found for a in flat(part)] if isinstance(found, list | tuple) else []
