"""What a worker does with a task: call theory, message passing or a solver, and never raise.

The answer is one `CaseResult` for each case: a tidy row, or the reason there is none. If a task of
several cases fails, its cases are tried one by one, so that one bad ridge does not cost the others.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from polyceptron.experiments.tasks import Content, Task, seed_of
from polyceptron.model import Estimator, make_estimator
from polyceptron.rows import Status, make_row
from polyceptron.version import VERSION

Row = dict[str, Any]
Runner = Callable[[Task], list[Row]]
MAX_REASON = 2000


@dataclass(frozen=True)
class CaseResult:
    """One case done: its row (status 'failed' and a reason if it could not be computed)."""

    key: str
    content: Content
    row: Row
    reason: str | None
    provenance: dict[str, Any]
    seconds: float

    @property
    def failed(self) -> bool:
        """No number: a later run of the sweep tries again."""
        return bool(self.row["status"] == Status.FAILED)


def compute_rows(task: Task) -> list[Row]:
    """The rows of a task, one for each case, in order."""
    compute = _theory if task.shared["source"] == "theory" else _drawn
    return compute(task)


def attempt(runner: Runner, task: Task) -> list[CaseResult]:
    """Run a task with one BLAS thread and turn whatever happens into results."""
    one_blas_thread()
    start = time.perf_counter()
    try:
        rows = runner(task)
        if len(rows) != len(task.cases):
            raise RuntimeError(f"{len(task.cases)} rows were asked for, {len(rows)} came back")
        seconds = (time.perf_counter() - start) / len(task.cases)
        results = [
            _result(case.key, case.content, row, None, seconds)
            for case, row in zip(task.cases, rows, strict=True)
        ]
        json.dumps([result.row for result in results])  # a row that cannot be stored fails here
        return results
    except Exception as error:
        if len(task.cases) > 1:
            return [result for single in task.split() for result in attempt(runner, single)]
        return failure(task, f"{type(error).__name__}: {error}", time.perf_counter() - start)


def failure(task: Task, reason: str, seconds: float = 0.0) -> list[CaseResult]:
    """A row of status 'failed' and its reason, for every case of the task."""
    results = []
    for case in task.cases:
        row = make_row(**_columns(case.content), status=Status.FAILED)
        results.append(_result(case.key, case.content, row, reason[:MAX_REASON], seconds))
    return results


@cache
def one_blas_thread() -> object:
    """One thread in this process from now on: the sweep itself uses the cores."""
    import scipy.linalg  # noqa: F401  # loads the BLAS that is to be limited
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1)


@cache
def environment() -> dict[str, str]:
    """What can change a number and is not the machine: the versions of the code."""
    import numpy
    import scipy

    major, minor, _ = platform.python_version_tuple()
    return {
        "polyceptron": VERSION,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": f"{major}.{minor}",
    }


def _result(key: str, content: Content, row: Row, reason: str | None, seconds: float) -> CaseResult:
    row = {**row, **_seed(content)}
    if reason is None and row.get("status") == Status.FAILED:
        reason = "the computation gave no number"
    provenance: dict[str, Any] = {"versions": environment()}
    provenance |= {name: content[name] for name in ("tolerance", "seed_path") if name in content}
    return CaseResult(key, content, make_row(**row), reason, provenance, seconds)


def _seed(content: Content) -> dict[str, int]:
    return {"seed": seed_of(content["seed_path"])} if "seed_path" in content else {}


def _columns(content: Content) -> Row:
    """The columns of a row that are known before it is computed."""
    names = (
        "source", "model", "n_classes", "features", "estimator", "ridge", "penalty", "alpha",
        "branch", "dimension",
    )  # fmt: skip
    row = {name: content[name] for name in names if name in content}
    row |= {"prior": content["prior"], "noise": content.get("noise", "none")}
    if row.get("ridge") == "optimal":  # the number is not known
        del row["ridge"]
    if "dimension" in content:
        row["n_samples"] = round(content["alpha"] * content["dimension"])
    return {**row, **_seed(content)}


def _teacher(content: Content) -> Any:
    from polyceptron.model import make_teacher

    features = content.get("features", "isotropic")
    prior, noise = content["prior"], content["noise"]
    return make_teacher(content["model"], content["n_classes"], prior, noise, features)


def _theory(task: Task) -> list[Row]:
    from polyceptron.theory.curve import curve_rows

    content = task.shared
    settings = {name: content[name] for name in ("branch", "scores") if name in content}
    rows: list[Row] = curve_rows(
        _teacher(content), _student(content), task.values, tol=content.get("tolerance"), **settings
    )
    return rows


def _student(content: Content) -> Estimator:
    return make_estimator(content["estimator"], content.get("ridge"), content.get("penalty"))


def _drawn(task: Task) -> list[Row]:
    """Rows of one data set; settings bear the names that `simulate` knows."""
    content = task.shared
    first, *also = (_student(case.content) for case in task.cases)
    names = {
        "tolerance": "tol", "max_iterations": "max_iter", "precision": "dtype", "start": "start",
        "variances": "variances", "solver": "solver", "test_samples": "test_samples",
    }  # fmt: skip
    settings = {short: content[name] for name, short in names.items() if name in content}
    place = content["alpha"], content["dimension"], seed_of(content["seed_path"])
    return first.simulate(_teacher(content), *place, also=also, **settings)
