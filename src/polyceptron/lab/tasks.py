"""A sweep's grid as tasks, and what a worker does with one.

A *case* is one row to compute, described by a flat dict (its content); its key is a hash of that
content, the same in every sweep, order and machine. A *task* is the unit of work: the cases of one
instance (all its ridges) or of one piece of theory. Each row is computed by itself.

    seed path  = (sweep seed, hash of (model, k, prior, α, d[, noise, features, rest]), instance)
    seed       = first 53 bits of SeedSequence(sweep seed, spawn_key = the rest)

An instance depends on nothing else in the grid, and all estimators see the same data:
`teacher.sample(round(alpha * d), d, seed)` draws it again from the `seed` column of a row.

A worker never raises: the answer is one `CaseResult` for each case, a row or the reason there is
none. The key of a case that uses a loss, prior, noise or penalty of the user's own also has a hash
of what it computes (`lab/members.py`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from heapq import merge
from itertools import product, repeat
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from polyceptron.lab.members import values_of
from polyceptron.numerics import with_one_blas_thread
from polyceptron.problem import AnyTeacher, Estimator, make_estimator, make_population
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.rows import Row, Status, make_row
from polyceptron.store import CaseResult
from polyceptron.students import student_of
from polyceptron.students.seeds import seed_of, seed_path
from polyceptron.version import VERSION

if TYPE_CHECKING:
    from polyceptron.lab.spec import SweepGrid, SweepSpec

KEY_FORMAT = "polyceptron-task-2"
POPULATION = (  # columns from which a population is made again
    "model",
    "n_classes",
    "prior",
    "noise",
    "features",
    "shares",
    "biases",
    "gram",
    "levels",
    "prune",
)
STUDENT = ("ridge", "penalty", "intercept", "class_weight")  # what may be said of an estimator
THEORY_BATCH = 8  # points of one theory task: they share work, yet a task stays short
MAX_REASON = 2000  # characters of the reason of a failure that are stored
_ARGUMENTS_OF_SIMULATE = {  # names of settings in a content, and as `simulate` knows them
    "tolerance": "tol",
    "max_iterations": "max_iter",
    "precision": "dtype",
    "start": "start",
    "variances": "variances",
    "solver": "solver",
    "test_samples": "test_samples",
}

Content = dict[str, Any]

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Task:
    """Cases that one worker computes: they differ in their α, or in their ridge or penalty."""

    cases: tuple[Content, ...]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The hash of each case's content: 32 hexadecimal digits."""
        texts = (KEY_FORMAT + _encode(content) for content in self.cases)
        return tuple(hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts)

    def only(self, keys: Collection[str]) -> Task:
        """The same task with these cases alone."""
        both = zip(self.cases, self.keys, strict=True)
        return Task(tuple(content for content, key in both if key in keys))


Runner = Callable[[Task], list[Row]]


def expand(spec: SweepSpec) -> Iterator[Task]:
    """Yield the tasks of a sweep: theory, then instance 0 of the whole grid, then instance 1, ...

    In this order a sweep that is stopped has been everywhere in the grid.
    """
    for grid in spec.grid:
        yield from _theory_tasks(spec, grid)
    simulated = [grid for grid in spec.grid if {"amp", "erm"} & set(grid.sources)]
    # Sorted pairs (instance, place of the grid in the list) of each grid are merged into one
    # sequence: a gap between the instances of two grids costs nothing.
    instances_of_grids = []
    for place, grid in enumerate(simulated):
        instances = range(grid.first_instance, grid.first_instance + grid.instances)
        instances_of_grids.append(zip(instances, repeat(place)))
    for instance, place in merge(*instances_of_grids):
        yield from _instance_tasks(spec, simulated[place], instance)


class GridSize(NamedTuple):
    """How many cases and tasks a grid has, by its lists alone."""

    cases: int
    tasks: int


def grid_size(spec: SweepSpec, grid: SweepGrid) -> GridSize:
    """Count the cases and the tasks of a grid without making them."""
    n_problems = sum(1 for _ in _problems(spec, grid))
    n_points = n_problems * len(grid.dimension) * len(grid.alpha) * grid.instances
    batches = -(-len(grid.alpha) // THEORY_BATCH)
    cases = 0
    tasks = 0
    for estimator in grid.estimators:
        predictions = len(_variants(grid, estimator, "theory"))
        cases += n_problems * predictions * len(grid.alpha)
        tasks += n_problems * predictions * batches
        source = make_estimator(estimator).source
        runs = len(_variants(grid, estimator, source))
        cases += n_points * runs
        if source == "amp":  # a start is a task of its own
            tasks += n_points * runs
        elif runs:
            tasks += n_points
    return GridSize(cases, tasks)


def sweep_keys(spec: SweepSpec) -> Iterator[str]:
    """Return the keys of all rows of a sweep, in the order of its tasks."""
    return (key for task in expand(spec) for key in task.keys)


def _problems(spec: SweepSpec, grid: SweepGrid) -> Iterator[Content]:
    """Yield the columns of each population of a grid."""
    if spec.population is not None:
        for prior, noise, features in product(grid.prior, grid.noise, grid.features):
            yield spec.population.made(prior=prior, noise=noise, features=features).columns
        return
    lists = grid.model, grid.classes, grid.prior, grid.noise, grid.features
    for model, n_classes, prior, noise, features in product(*lists):
        problem = {"model": model, "n_classes": n_classes, "prior": prior, "noise": noise}
        if features != "isotropic":
            problem["features"] = features
        yield problem


def _values(content: Content) -> Content:
    """Return hashes of the members named in a content that are not the package's own."""
    hashes = {}
    for column in ("estimator", "prior", "noise", "penalty"):
        if column in content:
            hashes[f"{column}_values"] = values_of(column, content[column])
    return {name: value for name, value in hashes.items() if value is not None}


def grid_strengths(grid: SweepGrid, estimator: str) -> list[Content]:
    """Return the columns of each variant of an estimator in a grid, besides its name.

    These are its ridge or penalty, its intercept and its class weights; a ridge that is not given
    is the estimator's default.
    """
    student = make_estimator(estimator)
    strengths: list[Content] = []
    if student.takes_ridge:
        strengths += [{"ridge": ridge} for ridge in grid.ridge]
        strengths += [{"penalty": penalty} for penalty in grid.penalty]
        if not strengths:
            strengths = [{"ridge": student.columns["ridge"]}]
    else:
        strengths = [{}]
    if student.source != "erm":
        return strengths
    variants: list[Content] = []
    for strength, weight in product(strengths, grid.class_weight or ["none"]):
        variant = dict(strength)
        if grid.intercept:
            variant["intercept"] = True
        if weight != "none":
            variant["class_weight"] = weight
        variants.append(variant)
    return variants


def _variants(grid: SweepGrid, estimator: str, source: str) -> list[Content]:
    """Return what a source is asked of an estimator at one point: branches, starts, strengths."""
    if source not in grid.sources:
        return []
    if source == "theory" and make_estimator(estimator).branches:
        return [{"branch": branch} for branch in grid.branches]
    if source == "amp":
        return [{"start": start} for start in grid.start]
    return grid_strengths(grid, estimator)


def _theory_tasks(spec: SweepSpec, grid: SweepGrid) -> Iterator[Task]:
    """Yield the theory of a grid, several α a task."""
    for problem, estimator in product(_problems(spec, grid), grid.estimators):
        for variant in _variants(grid, estimator, "theory"):
            base = {"source": "theory", **problem, "estimator": estimator, **variant}
            base |= spec.theory.model_dump(exclude_none=True) | _values(base)
            for i in range(0, len(grid.alpha), THEORY_BATCH):
                batch = grid.alpha[i : i + THEORY_BATCH]
                yield Task(tuple({**base, "alpha": alpha} for alpha in batch))


def _instance_tasks(spec: SweepSpec, grid: SweepGrid, instance: int) -> Iterator[Task]:
    """Yield the tasks of one instance of a grid: a data set with all variants of an estimator."""
    settings = {
        "amp": spec.amp.model_dump(exclude_none=True),
        "erm": spec.erm.model_dump(exclude_none=True),
    }
    for problem, dimension, alpha in product(_problems(spec, grid), grid.dimension, grid.alpha):
        path = seed_path(spec.sweep.seed, problem, alpha, dimension, instance)
        point = {**problem, "alpha": alpha, "dimension": dimension, "seed_path": list(path)}
        for estimator in grid.estimators:
            source = make_estimator(estimator).source
            base = {"source": source, **point, "estimator": estimator, **settings[source]}
            base |= _values(base)
            cases = tuple({**base, **variant} for variant in _variants(grid, estimator, source))
            if source == "amp":  # a start is a run of its own
                yield from (Task((content,)) for content in cases)
            elif cases:
                yield Task(cases)


def compute_rows(task: Task) -> list[Row]:
    """Return the rows of a task, one for each case, in order.

    Each row is computed by itself, so that it has the same bits in whatever task its case is: a
    sweep that was stopped goes on with the missing cases of a task alone.
    """
    if task.cases[0]["source"] == "theory":
        return _predicted_rows(task)
    return [_simulated_row(content) for content in task.cases]


def _predicted_rows(task: Task) -> list[Row]:
    """Return the theory's rows; points do not depend on the others, and share their tables."""
    shared = task.cases[0]
    more = {name: shared[name] for name in ("branch", "scores") if name in shared}
    alphas = [content["alpha"] for content in task.cases]
    tolerance = shared.get("tolerance")
    return curve_rows(_population(shared), _estimator(shared), alphas, tol=tolerance, **more)


def _simulated_row(content: Content) -> Row:
    """Return the row of one run, or of one fit, on the data of its instance."""
    settings = {}
    for name, argument in _ARGUMENTS_OF_SIMULATE.items():
        if name in content:
            settings[argument] = content[name]
    seed = seed_of(content["seed_path"])
    student = student_of(_estimator(content))
    (row,) = student.simulate(
        _population(content), content["alpha"], content["dimension"], seed, **settings
    )
    return row


def _population(content: Content) -> AnyTeacher:
    """Return the population of a case."""
    columns = {name: content[name] for name in POPULATION if name in content}
    return cast("AnyTeacher", make_population(**columns))


def _estimator(content: Content) -> Estimator:
    """Return the estimator of a case."""
    return make_estimator(content["estimator"], **{name: content.get(name) for name in STUDENT})


def attempt(runner: Runner, task: Task) -> list[CaseResult]:
    """Run a task with one BLAS thread, and turn whatever happens into results.

    Where a task of several cases fails, each of them is tried by itself.
    """
    start = time.perf_counter()
    try:
        rows = with_one_blas_thread(runner)(task)
        if len(rows) != len(task.cases):
            raise RuntimeError(f"{len(task.cases)} rows were asked for, {len(rows)} came back")
        seconds = (time.perf_counter() - start) / len(task.cases)
        answers = zip(task.keys, task.cases, rows, strict=True)
        results = [_result(*answer, None, seconds) for answer in answers]
        json.dumps([result.row for result in results])  # a row that cannot be stored fails here
        return results
    except Exception as error:
        if len(task.cases) > 1:
            alone = [Task((content,)) for content in task.cases]
            return [result for single in alone for result in attempt(runner, single)]
        return failure(task, f"{type(error).__name__}: {error}", time.perf_counter() - start)


def failure(task: Task, reason: str, seconds: float = 0.0) -> list[CaseResult]:
    """Return a row of status 'failed' and its reason, for every case of the task."""
    names = ("source", *POPULATION, "estimator", *STUDENT, "alpha", "branch", "dimension")
    results = []
    for key, content in zip(task.keys, task.cases, strict=True):
        row = {name: content[name] for name in names if name in content}
        if row.get("ridge") == "optimal":  # the number is not known
            del row["ridge"]
        if "dimension" in row:
            row["n_samples"] = round(row["alpha"] * row["dimension"])
        row["status"] = Status.FAILED
        results.append(_result(key, content, row, reason[:MAX_REASON], seconds))
    return results


def _result(key: str, content: Content, row: Row, reason: str | None, seconds: float) -> CaseResult:
    """Return the result of one case, with what is needed to compute it again."""
    provenance: dict[str, object] = {"versions": environment()}
    provenance |= {name: content[name] for name in ("tolerance", "seed_path") if name in content}
    if "seed_path" in content:
        row = {**row, "seed": seed_of(content["seed_path"])}
    if reason is None and row.get("status") == Status.FAILED:
        reason = "the computation gave no number"
    return CaseResult(key, content, make_row(**row), reason, provenance, seconds)


@cache
def environment() -> dict[str, str]:
    """Return the versions of the code: what can change a number and is not the machine."""
    import scipy

    python = platform.python_version().rpartition(".")[0]
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "python": python}
    return {"polyceptron": VERSION, **versions}
