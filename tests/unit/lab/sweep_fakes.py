"""Stand-ins for the real work, importable by worker processes: fast, deterministic, or nasty."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.lab.tasks import Runner, Task, attempt
from polyceptron.rows import make_row
from polyceptron.store import CaseResult
from polyceptron.students.seeds import seed_of

SPEC = """
[sweep]
name = "trial"
seed = 7
[[grid]]
classes = [3]
sources = ["theory", "erm"]
estimators = ["cross-entropy"]
ridge = [0.01, 1.0]
alpha = [1, 2]
dimension = [10]
instances = {instances}
"""
POISON = 1.0  # the ridge that the nasty runners choke on


def draw(task: Task) -> list[dict[str, Any]]:
    """Rows whose error is a number drawn from the instance's seed: wrong seeds would show."""
    rows = []
    for content in task.cases:
        path = content.get("seed_path", [0, int(10 * content["alpha"])])
        error = float(np.random.default_rng(seed_of(path)).random()) + content["ridge"]
        names = ("source", "model", "n_classes", "prior", "estimator", "ridge", "alpha")
        values = {name: content[name] for name in names}
        dimension = content.get("dimension")
        rows.append(
            make_row(
                **values,
                dimension=dimension,
                generalisation_error=error,
                uncertainty=0.0,
                status="ok",
            )
        )
    return rows


def slow(task: Task) -> list[dict[str, Any]]:
    """20 ms for each task."""
    time.sleep(0.02)
    return draw(task)


def forever(task: Task) -> list[dict[str, Any]]:
    """The first theory task ends; nothing else does."""
    if task.cases[0]["source"] == "erm":
        time.sleep(600)
    return draw(task)


def fail(task: Task) -> list[dict[str, Any]]:
    """Raises for one ridge of the ERM rows."""
    if task.cases[0]["source"] == "erm" and POISON in [content["ridge"] for content in task.cases]:
        raise ZeroDivisionError("no minimum at this ridge")
    return draw(task)


def suicide(task: Task) -> list[dict[str, Any]]:
    """Its process dies by SIGKILL in one instance, as under the out-of-memory killer."""
    content = task.cases[0]
    if content["source"] == "erm" and content["seed_path"][-1] == 1 and content["alpha"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return draw(task)


class InstantEngine:
    """Computes in this process, with a window of one task."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.tasks: list[Task] = []

    @property
    def free(self) -> int:
        return 1 - len(self.tasks)

    @property
    def busy(self) -> bool:
        return bool(self.tasks)

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def finished(self, timeout: float) -> list[CaseResult]:
        done, self.tasks = self.tasks, []
        return [result for task in done for result in attempt(self.runner, task)]

    def close(self) -> None:
        pass


def write_spec(folder: Path, instances: int) -> Path:
    """A small sweep: 4 theory rows and 4 rows for each instance, in 2 tasks."""
    path = folder / "spec.toml"
    path.write_text(SPEC.format(instances=instances))
    return path
