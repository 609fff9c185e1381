"""The grid as tasks: what each row asks for, its key, its seed, and its expected cost.

A *case* is one row to compute, described by a flat dict (its content); its key is a hash of that
content, so that the same question has the same key in every sweep, order and machine. A *task* is
the unit of work: the cases that share one data set (all ridges of an instance) or one piece of
theory.

    seed path  = (sweep seed, hash of (model, k, prior, α, d[, noise, features]), instance number)
    seed       = first 53 bits of SeedSequence(sweep seed, spawn_key = the rest)

The noise of the labels and the features are in the hash where there is anything to say. An instance
therefore depends on nothing else in the grid, and all estimators see the same data:
`teacher.sample(round(alpha * d), d, seed)` draws it again from the `seed` column of a row.

How long a row should take: floating-point operations at a rough rate of one core.

Only the proportions matter much: a store remembers how its rows compared with these figures, and a
plan scales them by that (`Store.time_scale`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import merge
from itertools import product, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.experiments.spec_checks import values_of
from polyceptron.model import make_estimator, takes_ridge

if TYPE_CHECKING:
    from polyceptron.experiments.spec import SweepGrid, SweepSpec


KEY_FORMAT = "polyceptron-task-2"
NOISELESS, ISOTROPIC = "none", "isotropic"
THEORY_BATCH = 8  # points of one theory task: they share work, yet a task stays short

Content = dict[str, Any]

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Case:
    """One row to compute: its content and the key of that content."""

    content: Content
    key: str


@dataclass(frozen=True)
class Task:
    """Cases that are computed together and differ in `varies` alone ('ridge' or 'alpha')."""

    varies: str
    cases: tuple[Case, ...]

    @property
    def shared(self) -> Content:
        """What all cases ask for (with the first one's value of what varies)."""
        return self.cases[0].content

    @property
    def values(self) -> list[Any]:
        """The values of what varies, one for each case."""
        return [case.content.get(self.varies) for case in self.cases]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the cases."""
        return tuple(case.key for case in self.cases)

    def only(self, keys: Collection[str]) -> Task:
        """The same task with these cases alone."""
        return replace(self, cases=tuple(case for case in self.cases if case.key in keys))

    def split(self) -> list[Task]:
        """One task for each case."""
        return [replace(self, cases=(case,)) for case in self.cases]


def content_key(content: Content) -> str:
    """The hash of a content: 32 hexadecimal digits."""
    return hashlib.sha256((KEY_FORMAT + _encode(content)).encode()).hexdigest()[:32]


def make_task(varies: str, contents: list[Content]) -> Task:
    """A task from the contents of its cases."""
    return Task(varies, tuple(Case(content, content_key(content)) for content in contents))


@lru_cache(maxsize=4096)
def seed_path(
    seed: int,
    model: str,
    n_classes: int,
    prior: str,
    noise: str,
    alpha: float,
    dimension: int,
    instance: int,
    features: str | None = None,
) -> tuple[int, ...]:
    """(entropy, four words of the problem's hash, instance): the place of an instance's seed."""
    problem = [model, n_classes, prior, float(alpha), dimension]
    if noise != NOISELESS or features is not None:
        problem.append(noise)
    if features is not None:
        problem.append(features)
    digest = hashlib.sha256(_encode(problem).encode()).digest()[:16]
    words = (int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4))
    return (seed, *words, instance)


def seed_of(path: tuple[int, ...] | list[int]) -> int:
    """The seed at a path, below 2**53 so that it survives a float column, JSON and SQL."""
    sequence = np.random.SeedSequence(path[0], spawn_key=tuple(path[1:]))
    return int(sequence.generate_state(1, np.uint64)[0]) >> 11


def expand(spec: SweepSpec) -> Iterator[Task]:
    """All tasks of a sweep, one at a time: theory first, then instance 0 of the whole grid, ...

    Instances come outermost, so that a sweep stopped early has covered every point of its grid.
    """
    for grid in spec.grid:
        yield from _theory_tasks(spec, grid)
    # (instance, place of the grid): a gap between the instances of two grids costs nothing
    numbered = (zip(_numbers(grid), repeat(place)) for place, grid in enumerate(spec.grid))
    for instance, place in merge(*numbered):
        yield from _instance_tasks(spec, spec.grid[place], instance)


def sweep_keys(spec: SweepSpec) -> Iterator[str]:
    """The keys of all rows of a sweep, in the order of its tasks."""
    return (key for task in expand(spec) for key in task.keys)


def count_rows(spec: SweepSpec) -> int:
    """How many rows the grid has, without expanding it (rows of several grids count each time)."""
    total = 0
    for grid in spec.grid:
        problems = len(grid.model) * len(grid.classes) * len(grid.prior) * len(grid.noise)
        problems *= len(grid.features) * len(grid.alpha)
        for name in grid.estimators:
            kind, strengths = make_estimator(name), len(grid_strengths(grid, name))
            drawn = (kind.source in grid.sources) * strengths
            drawn *= len(grid.start) if kind.source == "amp" else 1
            total += problems * len(grid.dimension) * grid.instances * drawn
            curves = len(grid.branches) if kind.branches else strengths
            total += ("theory" in grid.sources) * problems * curves
    return total


def _numbers(grid: SweepGrid) -> range:
    """The numbers of the grid's instances; none if it draws no data."""
    drawn = {"amp", "erm"} & set(grid.sources)
    return range(grid.first_instance, grid.first_instance + grid.instances if drawn else 0)


def _problems(grid: SweepGrid) -> Iterator[Content]:
    lists = grid.model, grid.classes, grid.prior, grid.noise, grid.features
    for model, n_classes, prior, noise, features in product(*lists):
        problem = {"model": model, "n_classes": n_classes, "prior": prior, "noise": noise}
        yield problem | ({} if features == ISOTROPIC else {"features": features})


def _values(content: Content) -> Content:
    """Hashes of the members in the content that are not the package's own."""
    names = ("estimator", "prior", "noise", "penalty")
    return _present(**{f"{c}_values": values_of(c, content[c]) for c in names if c in content})


def grid_strengths(grid: SweepGrid, estimator: str) -> list[Content]:
    """Columns `ridge` or `penalty` of a grid for an estimator; one without any if it has none."""
    if not takes_ridge(estimator):
        return [{}]
    return [{"ridge": r} for r in grid.ridge] + [{"penalty": p} for p in grid.penalty]


def _theory_tasks(spec: SweepSpec, grid: SweepGrid) -> Iterator[Task]:
    if "theory" not in grid.sources:
        return
    for problem, estimator in product(_problems(grid), grid.estimators):
        variants = grid_strengths(grid, estimator)
        if make_estimator(estimator).branches:
            variants = [{"branch": branch} for branch in grid.branches]
        for variant in variants:
            base = {"source": "theory", **problem, "estimator": estimator, **variant}
            base |= _present(**spec.theory.model_dump()) | _values(base)
            for i in range(0, len(grid.alpha), THEORY_BATCH):
                batch = grid.alpha[i : i + THEORY_BATCH]
                yield make_task("alpha", [{**base, "alpha": alpha} for alpha in batch])


def _instance_tasks(spec: SweepSpec, grid: SweepGrid, instance: int) -> Iterator[Task]:
    settings = {name: getattr(spec, name).model_dump(exclude_none=True) for name in ("amp", "erm")}
    for problem, dimension, alpha in product(_problems(grid), grid.dimension, grid.alpha):
        plain = [problem[name] for name in ("model", "n_classes", "prior", "noise")]
        place = (*plain, alpha, dimension, instance, problem.get("features"))
        path = seed_path(spec.sweep.seed, *place)
        point = {**problem, "alpha": alpha, "dimension": dimension, "seed_path": list(path)}
        for estimator in grid.estimators:
            source = make_estimator(estimator).source
            if source not in grid.sources:
                continue
            base = {"source": source, **point, "estimator": estimator, **settings[source]}
            base |= _values(base)
            if source == "amp":
                for start in grid.start:
                    yield make_task("alpha", [{**base, "start": start}])
            else:
                strengths = grid_strengths(grid, estimator)
                yield make_task("ridge", [{**base, **strength} for strength in strengths])


def _present(**values: Any) -> Content:
    return {name: value for name, value in values.items() if value is not None}


def case_cost(content: Content) -> float:
    """Expected seconds of one row."""
    k = int(content["n_classes"])
    estimator = make_estimator(content["estimator"])
    if content["source"] == "theory":
        return estimator.point_cost(k)
    d = int(content["dimension"])
    n = round(float(content["alpha"]) * d)
    return estimator.fit_cost(n, d, k)


def cost_kind(content: Content) -> str:
    """Rows whose cost figures are wrong by about the same factor."""
    return f"{content['source']}/{content['estimator']}"


def instance_bytes(content: Content) -> int:
    """Memory of the data of one instance: X in float64."""
    d = int(content.get("dimension", 0))
    return 8 * round(float(content["alpha"]) * d) * d


def describe_seconds(seconds: float) -> str:
    """A duration for people.

    >>> [describe_seconds(s) for s in (0.4, 40, 5400, 200_000)]
    ['0.4 s', '40 s', '90 min', '2.3 days']
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"
