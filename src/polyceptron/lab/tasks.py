"""A sweep's grid as tasks, and what a worker does with one.

A *case* is one row to compute, described by a flat dict (its content); its key is a hash of that
content, the same in every sweep, order and machine. A *task* is the unit of work: the cases that
share one data set (all ridges of an instance) or one piece of theory.

    seed path  = (sweep seed, hash of (model, k, prior, α, d[, noise, features, rest]), instance)
    seed       = first 53 bits of SeedSequence(sweep seed, spawn_key = the rest)

An instance depends on nothing else in the grid, and all estimators see the same data:
`teacher.sample(round(alpha * d), d, seed)` draws it again from the `seed` column of a row.

A worker never raises: the answer is one `CaseResult` for each case, a row or the reason there is
none. The losses, priors and noises that a program registered itself travel with the tasks; a name
tells little about code that its author may change, so a hash of the member's numbers at fixed
points is part of every key that uses it (`values_of`).
"""

from __future__ import annotations

import hashlib
import json
import platform
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from heapq import merge
from itertools import product, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron import problem as md
from polyceptron.numerics import with_one_blas_thread
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
)
STUDENT = ("ridge", "penalty", "intercept", "class_weight")  # what may be said of an estimator
THEORY_BATCH = 8  # points of one theory task: they share work, yet a task stays short

Content = dict[str, Any]

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Task:
    """Cases that are computed together: they differ in their α, or in their ridge or penalty."""

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
    """Theory first, then instance 0 of the whole grid, ...: a stopped sweep has been everywhere."""
    for grid in spec.grid:
        yield from _theory_tasks(spec, grid)
    drawn = [grid for grid in spec.grid if {"amp", "erm"} & set(grid.sources)]
    numbers = (range(one.first_instance, one.first_instance + one.instances) for one in drawn)
    # (instance, place of the grid): a gap between the instances of two grids costs nothing
    for instance, place in merge(*(zip(n, repeat(place)) for place, n in enumerate(numbers))):
        yield from _instance_tasks(spec, drawn[place], instance)


def sweep_keys(spec: SweepSpec) -> Iterator[str]:
    """The keys of all rows of a sweep, in the order of its tasks."""
    return (key for task in expand(spec) for key in task.keys)


def _problems(spec: SweepSpec, grid: SweepGrid) -> Iterator[Content]:
    if spec.population is not None:
        for prior, noise, features in product(grid.prior, grid.noise, grid.features):
            yield spec.population.made(prior=prior, noise=noise, features=features).columns
        return
    lists = grid.model, grid.classes, grid.prior, grid.noise, grid.features
    for model, n_classes, prior, noise, features in product(*lists):
        problem = {"model": model, "n_classes": n_classes, "prior": prior, "noise": noise}
        yield problem | ({} if features == "isotropic" else {"features": features})


def _values(content: Content) -> Content:
    """Hashes of the members in the content that are not the package's own."""
    names = ("estimator", "prior", "noise", "penalty")
    found = {f"{c}_values": values_of(c, content[c]) for c in names if c in content}
    return {name: value for name, value in found.items() if value is not None}


def grid_strengths(grid: SweepGrid, estimator: str) -> list[Content]:
    """What columns of a grid make of an estimator: ridge or penalty, intercept, class weights."""
    given: list[Content] = [{}]
    student = md.make_estimator(estimator)
    if student.takes_ridge:
        given = [{"ridge": r} for r in grid.ridge] + [{"penalty": p} for p in grid.penalty]
        given = given or [{"ridge": student.columns["ridge"]}]
    if student.source != "erm":
        return given
    fitted: Content = {"intercept": True} if grid.intercept else {}
    weights = [{} if w == "none" else {"class_weight": w} for w in grid.class_weight or ["none"]]
    return [{**one, **fitted, **weight} for one, weight in product(given, weights)]


def _variants(grid: SweepGrid, estimator: str, source: str) -> list[Content]:
    """What a source is asked of an estimator at one point: branches, starts, or strengths."""
    if source not in grid.sources:
        return []
    if source == "theory" and md.make_estimator(estimator).branches:
        return [{"branch": branch} for branch in grid.branches]
    if source == "amp":
        return [{"start": start} for start in grid.start]
    return grid_strengths(grid, estimator)


def _theory_tasks(spec: SweepSpec, grid: SweepGrid) -> Iterator[Task]:
    for problem, estimator in product(_problems(spec, grid), grid.estimators):
        for variant in _variants(grid, estimator, "theory"):
            base = {"source": "theory", **problem, "estimator": estimator, **variant}
            base |= spec.theory.model_dump(exclude_none=True) | _values(base)
            for i in range(0, len(grid.alpha), THEORY_BATCH):
                batch = grid.alpha[i : i + THEORY_BATCH]
                yield Task(tuple({**base, "alpha": alpha} for alpha in batch))


def _instance_tasks(spec: SweepSpec, grid: SweepGrid, instance: int) -> Iterator[Task]:
    settings = {name: getattr(spec, name).model_dump(exclude_none=True) for name in ("amp", "erm")}
    for problem, dimension, alpha in product(_problems(spec, grid), grid.dimension, grid.alpha):
        path = seed_path(spec.sweep.seed, problem, alpha, dimension, instance)
        point = {**problem, "alpha": alpha, "dimension": dimension, "seed_path": list(path)}
        for estimator in grid.estimators:
            source = md.make_estimator(estimator).source
            base = {"source": source, **point, "estimator": estimator, **settings[source]}
            base |= _values(base)
            cases = tuple({**base, **variant} for variant in _variants(grid, estimator, source))
            if source == "amp":  # a start is a run of its own
                yield from (Task((content,)) for content in cases)
            elif cases:
                yield Task(cases)


def compute_rows(task: Task) -> list[Row]:
    """The rows of a task, one for each case, in order."""
    content = task.cases[0]
    teacher: Any = md.make_population(**{n: content[n] for n in POPULATION if n in content})
    if content["source"] == "theory":
        more = {name: content[name] for name in ("branch", "scores") if name in content}
        alphas = [content["alpha"] for content in task.cases]
        return curve_rows(teacher, _student(content), alphas, tol=content.get("tolerance"), **more)
    first, *also = map(_student, task.cases)
    names_there = {  # of settings, as `simulate` knows them
        "tolerance": "tol",
        "max_iterations": "max_iter",
        "precision": "dtype",
        "start": "start",
        "variances": "variances",
        "solver": "solver",
        "test_samples": "test_samples",
    }
    settings = {there: content[name] for name, there in names_there.items() if name in content}
    place = content["alpha"], content["dimension"], seed_of(content["seed_path"])
    return student_of(first).simulate(teacher, *place, also=also, **settings)


def _student(content: Content) -> md.Estimator:
    return md.make_estimator(content["estimator"], **{name: content.get(name) for name in STUDENT})


def attempt(runner: Runner, task: Task) -> list[CaseResult]:
    """Run a task with one BLAS thread and turn whatever happens into results."""
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
            return [found for case in task.cases for found in attempt(runner, Task((case,)))]
        return failure(task, f"{type(error).__name__}: {error}", time.perf_counter() - start)


def failure(task: Task, reason: str, seconds: float = 0.0) -> list[CaseResult]:
    """A row of status 'failed' and its reason, for every case of the task."""
    names = ("source", *POPULATION, "estimator", *STUDENT, "alpha", "branch", "dimension")
    results = []
    for key, content in zip(task.keys, task.cases, strict=True):
        row = {name: content[name] for name in names if name in content}
        if row.get("ridge") == "optimal":  # the number is not known
            del row["ridge"]
        if "dimension" in row:
            row["n_samples"] = round(row["alpha"] * row["dimension"])
        row["status"] = Status.FAILED
        results.append(_result(key, content, row, reason[:2000], seconds))
    return results


def _result(key: str, content: Content, row: Row, reason: str | None, seconds: float) -> CaseResult:
    provenance: dict[str, Any] = {"versions": environment()}
    provenance |= {name: content[name] for name in ("tolerance", "seed_path") if name in content}
    if "seed_path" in content:
        row = {**row, "seed": seed_of(content["seed_path"])}
    if reason is None and row.get("status") == Status.FAILED:
        reason = "the computation gave no number"
    return CaseResult(key, content, make_row(**row), reason, provenance, seconds)


@cache
def environment() -> dict[str, str]:
    """What can change a number and is not the machine: the versions of the code."""
    import scipy

    python = platform.python_version().rpartition(".")[0]
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "python": python}
    return {"polyceptron": VERSION, **versions}


_KINDS = (md.LOSSES, md.PENALTIES, md.PRIORS, md.CHANNELS, md.ESTIMATORS)
REGISTRIES: dict[str, md.Registry[Any]] = {registry.kind: registry for registry in _KINDS}
_LABELS = np.array([0, 1, 2, 0, 1])
_FIELDS = np.array([[0.3, -1.1, 0.8], [2.0, 0.1, -0.4], [-0.7, 0.9, 1.6], [4, -3, 0], [0, 0, 0]])

_guard = threading.Lock()
_here: dict[tuple[str, str], str] = {}  # members that came with tasks, and their values


def with_members(runner: Runner) -> Runner:
    """The runner, with every member that is not the package's own: kind, entry, its hash."""
    members = [
        (kind, entry, _hash(kind, entry.make(*entry.example)))
        for kind, registry in REGISTRIES.items()
        for entry in registry.own
        if _from_outside(entry)
    ]
    return partial(_run_with, members, runner) if members else runner


def _run_with(
    members: list[tuple[str, md.Entry[Any], str]], runner: Runner, task: Task
) -> list[Row]:
    """The first task in a process registers the members there."""
    for kind, entry, values in members:
        with _guard:
            if _here.get((kind, entry.name)) != values:  # that very one is not there
                REGISTRIES[kind].remove(entry.name)
                REGISTRIES[kind].add(entry)
                _here[kind, entry.name] = values
    return runner(task)


def values_of(kind: str, name: str) -> str | None:
    """A hash of what the member computes; None for the package's own, whose names are enough."""
    if kind == "estimator" and md.LOSSES.knows(name):
        kind = "loss"
    head = REGISTRIES[kind].head(name)
    entry = next((e for e in REGISTRIES[kind].own if e.name == head), None)
    return _values_once(kind, name, entry) if entry is not None and _from_outside(entry) else None


@lru_cache(maxsize=256)
def _values_once(kind: str, name: str, entry: md.Entry[Any]) -> str:
    return _hash(kind, REGISTRIES[kind].read(name))


def _from_outside(entry: md.Entry[Any]) -> bool:
    return not getattr(entry.make, "__module__", "").startswith("polyceptron.")


def _hash(kind: str, member: Any) -> str:
    """Of nine digits of its numbers: the last ones may differ between machines."""
    numbers = np.concatenate([np.ravel(part) for part in _NUMBERS[kind](member)])
    text = " ".join(f"{number:.8e}" for number in numbers)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_NUMBERS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    md.LOSSES.kind: lambda loss: tuple(
        part(_FIELDS, _LABELS) for part in (loss.value, loss.gradient, loss.hessian)
    ),
    md.PRIORS.kind: lambda prior: prior.tilted(np.array([-2.0, 0.0, 0.3, 1.0, 5.0]), 1.5),
    md.CHANNELS.kind: lambda noise: noise.label_law(np.sort(_FIELDS[:, 1:], axis=1).T, 0.5),
    md.PENALTIES.kind: lambda one: one.denoise(_FIELDS - _FIELDS.mean(1, keepdims=True), 1.5),
    md.ESTIMATORS.kind: lambda one: tuple(
        row[name]
        for row in student_of(one).rows(md.make_teacher("argmax", 3, "gaussian"), [0.7, 3.0])
        for name in ("m", "q", "generalisation_error")
    ),
}
