"""Fits on a real Dask scheduler with two worker processes, one of which is killed on the way.

What runs is the recipe of docs/cluster.md itself, with another address and a worker that dies;
test_cluster_dask.py has the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyceptron as pc

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
PAGE = Path(__file__).parents[3] / "docs" / "cluster.md"


def recipe(address: str) -> str:
    """The block of the page that fits a Parquet file on a cluster."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    text = next(block for block in blocks if "read_parquet" in block)
    return text.replace("tcp://127.0.0.1:8786", address)


def the_recipe_survives_the_loss_of_a_worker(cluster: Any) -> None:
    """In the working folder, on a cluster that was started without work stealing."""
    import pandas as pd

    X, y, _ = pc.Teacher(3, noise="gaussian:1").sample(300, 30, 0)
    names = [f"x{i}" for i in range(30)]
    Path("X.parquet").mkdir()
    for i in range(3):
        part = pd.DataFrame(X[100 * i : 100 * i + 100], columns=names)
        part.to_parquet(f"X.parquet/{i}.parquet")
    np.save("y.npy", y)

    def listen(now: pc.FitProgress) -> None:
        if now.iteration == 3 and cluster.workers[0].poll() is None:
            cluster.workers[0].kill()
            cluster.workers[0].wait()

    only_columns_travel(cluster.address)
    space: dict[str, Any] = {"listen": listen}
    exec(recipe(cluster.address), space)
    client = space["client"]
    assert cluster.workers[0].poll() is not None
    assert len(client.scheduler_info()["workers"]) == 1
    client.close()
    result, fit = space["result"], space["fit"]
    here = pc.amp(X, y, noise="gaussian:1")
    assert result.status == fit.status == here.status == "ok"
    assert result.n_iter == here.n_iter
    assert np.abs(result.weights - here.weights).max() < 1e-10
    plain = pc.fit_erm(X, y, "cross-entropy", 10.0, tol=1e-11)
    assert np.abs(fit.weights - plain.weights).max() < 1e-10


def only_columns_travel(address: str) -> None:
    """What leaves the workers' processes, by their own count, is a few columns for each pass."""
    import dask.array

    n, d, k, chunks = 4000, 100, 3, 4
    X, y, _ = pc.Teacher(k, noise="gaussian:1").sample(n, d, 0)
    weights = 1.0 + (y == 0)
    with distributed.Client(address) as client:
        client.wait_for_workers(2)
        kept = dask.array.from_array(X, chunks=(n // chunks, -1)).persist()
        distributed.wait(kept)
        column = 8 * (n + chunks * d)  # bytes: a field of each sample, a direction from each chunk
        for name, fit in {
            "amp": lambda: pc.amp(kept, y, max_iter=3),
            "whitened": lambda: pc.amp(
                kept, y, features="power:0.5:100", max_iter=2, checkpoint="a"
            ),
            "fit_erm": lambda: pc.fit_erm(kept, y, ridge=10.0, tol=0.1),
            "square": lambda: pc.fit_erm(kept, y, "square", 10.0, sample_weight=weights),
            "ERMClassifier": lambda: pc.ERMClassifier(ridge=100.0, tol=0.1).fit(kept, y),
        }.items():
            passes, sent = counted(fit, client)
            gram = 8 * chunks * (d + 1) ** 2  # each chunk's XᵀX, where it is asked for
            assert 0 < sent < passes * (2 * k + 4) * column + gram, (name, passes, sent)
            assert sent / passes < 0.3 * X.nbytes, name
        # The count sees X itself when that is what travels.
        assert counted(kept.compute, client)[1] >= X.nbytes


def counted(work: Callable[[], Any], client: Any) -> tuple[int, int]:
    """How often blocks were worked on, and how many bytes left the workers meanwhile."""
    calls, compute = [], dask.compute
    before = sum(client.run(sent_by).values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask, "compute", lambda *tasks: calls.append(1) or compute(*tasks))
        work()
    return len(calls), sum(client.run(sent_by).values()) - before


def sent_by(dask_worker: Any) -> int:
    """Bytes that a worker has sent, to whomever."""
    return int(dask_worker.transfer_outgoing_bytes_total)
