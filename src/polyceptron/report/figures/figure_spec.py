"""What a figure is: a name and words, what to compute for it, and its picture of the table.

Everything is a `Computation`: a function of this package with plain arguments, so that it can be
written down, run in any process and shared by figures that ask for the same. Its rows are kept, so
that a run that was stopped goes on from there.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import write_text
from polyceptron.lab.engine import Listener, Progress
from polyceptron.pictures.matplotlib_figure import Figure, render_matplotlib
from polyceptron.pictures.parts import Panel, Picture
from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.drawn_curve import N_FIRST_POINTS, bends, drawn_rows
from polyceptron.students import student_of
from polyceptron.students.seeds import instance_seeds
from polyceptron.version import VERSION

SEED = 0
Row = dict[str, Any]
Values = Sequence[float]
Rows = Callable[[float], list[Row]]  # at a place


@dataclass(frozen=True)
class Profile:
    """Sizes of the simulations, and how many points lines and series of symbols have."""

    name: str
    amp_dimension: int = 500
    amp_runs: int = 10
    trace_dimension: int = 1000  # of the runs that are followed step by step
    erm_dimension: int = 300
    erm_instances: int = 20
    further_instances: int = 20  # the same for the figures that the paper does not have
    noisy_instances: int = 5
    line_points: int = 80  # at most, beside the marks
    symbols: int = 16
    classes: tuple[int, ...] = (2, 3, 5, 10, 20, 50)
    amp_classes: tuple[int, ...] = (2, 5, 10)  # those of `classes` that message passing runs for
    amp_classes_dimension: int = 200
    amp_classes_runs: int = 5
    error_tolerance: float = 1e-3  # of the Bayes-optimal error for k ≥ 4
    transition_classes: tuple[int, ...] = (2, 3, 4, 5, 7, 10, 14, 20, 30, 50)
    transition_tolerance: float = 0.02  # for k ≥ 4
    rival_points: int = 16  # of a line whose best ridges take seconds each, at most
    rival_ridge: float | str = "optimal"
    separable_dimension: int = 40
    separable_instances: int = 5

    def thin(self, values: Values) -> list[float]:
        """At most `symbols` of the values, ends included."""
        count = min(len(values), self.symbols)
        return [values[round(i * (len(values) - 1) / max(count - 1, 1))] for i in range(count)]


QUICK = Profile("quick")
PAPER = Profile(
    "paper",
    amp_dimension=1000,
    amp_runs=20,
    erm_dimension=1000,
    erm_instances=250,
    further_instances=50,
    noisy_instances=50,
    line_points=160,
    symbols=24,
    amp_classes=(2, 3, 5, 10),
    amp_classes_dimension=1000,
    amp_classes_runs=20,
    error_tolerance=2e-4,
    transition_tolerance=0.005,
    separable_dimension=300,
    transition_classes=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50),
)
PROFILES = {profile.name: profile for profile in (QUICK, PAPER)}


def as_profile(profile: str | Profile) -> Profile:
    """A profile by its name."""
    if isinstance(profile, str) and profile not in PROFILES:
        raise InvalidInput(f"unknown profile {profile!r}: allowed are {', '.join(PROFILES)}")
    return PROFILES[profile] if isinstance(profile, str) else profile


@dataclass(frozen=True)
class Computation:
    """`function(**arguments)` returns rows."""

    function: Callable[..., list[Row]]
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def key(self) -> str:
        """The same for two that ask the same of the same version; the name of its file."""
        text = json.dumps([VERSION, self.name, self.arguments], sort_keys=True)
        return f"{self.function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"

    def run(self, folder: Path) -> list[Row]:
        """The rows that an earlier run left in the folder, or new ones, which are left there."""
        with contextlib.suppress(OSError, ValueError, KeyError):  # damaged is as good as missing
            return list(json.loads((folder / self.key).read_text(encoding="utf-8"))["rows"])
        rows = self.function(**self.arguments)
        asked = {"function": self.name, "arguments": self.arguments, "version": VERSION}
        write_text(folder / self.key, json.dumps({**asked, "rows": rows}, default=float))
        return rows


def ask(function: Callable[..., list[Row]], **arguments: Any) -> Computation:
    """The computation of these arguments."""
    return Computation(function, arguments)


def run_computations(
    asked: Iterable[Computation], folder: Path, workers: int, tell: Listener = bool
) -> dict[str, list[Row]]:
    """The rows of each by its key, kept in the folder; equal ones run once, the last ones first."""
    from joblib import Parallel, delayed

    folder.mkdir(exist_ok=True)
    every = {one.key: one for one in reversed(list(asked))}
    known = [(folder / key).exists() for key in every]
    now = Progress("lines and laws", len(every), sum(known))
    begin, results = time.monotonic(), dict[str, list[Row]]()
    count = max(min(workers, known.count(False)), 1)
    pool = Parallel(count, return_as="generator", batch_size=1)  # of one BLAS thread each
    calls = (delayed(one.run)(folder) for one in every.values())
    for (key, rows), old in zip(zip(every, pool(calls), strict=True), known, strict=True):
        results[key] = rows
        now.computed += not old
        now.seconds = time.monotonic() - begin
        tell(now)
    return results


def figure_row(source: str, estimator: str, **more: Any) -> Row:
    """A row of a computation; at k = 3 with Gaussian weights unless `more` states otherwise."""
    base = {"model": "argmax", "n_classes": 3, "prior": "gaussian", "estimator": estimator}
    return {"source": source, **base, **more}


def line_rows(
    estimator: str,
    ridge: Any,
    low: float,
    high: float,
    marks: list[float],
    most: int,
    *,
    n_classes: int = 3,
    noise: str = "none",
    log: bool = False,
    tol: float | None = None,
) -> list[Row]:
    """A smooth line of theory with Gaussian weights, at the marks too; `log` is of both axes."""
    teacher, student = Teacher(n_classes, noise=noise), make_estimator(estimator, ridge)
    asked: dict[str, Any] = {
        "log": log,
        "log_y": log,
        "also": marks,
        "first": min(N_FIRST_POINTS, most),
    }
    return drawn_rows(teacher, student, low, high, most=most + len(marks), tol=tol, **asked)


def smooth_rows(
    at: Rows, low: float, high: float, most: int, marks: Values = (), **lines: Any
) -> list[Row]:
    """Rows `at` as many places as smooth `lines` (what `bends` takes) need, at the marks too."""
    space, rows, done = np.geomspace if lines.get("log") else np.linspace, list[Row](), 0
    todo = sorted({*map(float, space(low, high, min(9, most))), *marks})
    while todo:
        rows += [row for place in todo for row in at(place)]
        done += len(todo)
        theory = [row for row in rows if row["source"] == "theory"]
        todo = bends(theory, **lines)[: max(most - done, 0)]
    return rows


def run_rows(
    estimator: str, ridges: list[Any], alpha: float, dimension: int, instances: int, **problem: Any
) -> list[Row]:
    """A row for each instance and ridge (None without one), on the same data for every ridge."""
    teacher = Teacher(**{"n_classes": 3, **problem})
    first, *also = (make_estimator(estimator, ridge) for ridge in ridges)
    seeds = instance_seeds(SEED, teacher.columns, alpha, dimension, instances)
    student = student_of(first)
    found = (student.simulate(teacher, alpha, dimension, seed, also=also) for seed in seeds)
    return [row for rows in found for row in rows]


@dataclass(frozen=True)
class Curves:
    """Learning curves: theory of all at α from low to high, data of `fits` at `marks`.

    An estimator is a name and a ridge or None. `log` is that of both axes, `instances` the field of
    the profile with the number of fits.
    """

    low: float
    high: float
    marks: tuple[float, ...]
    fits: tuple[tuple[str, float | None], ...] = ()
    lines: tuple[tuple[str, float | None], ...] = (("bayes", None),)
    log: bool = False
    noise: str = "none"
    instances: str = "erm_instances"

    def __call__(self, profile: Profile) -> list[Computation]:
        """The lines, at the marks too, and the data."""
        marks, most = profile.thin(self.marks), profile.line_points
        asked: dict[str, Any] = {"low": self.low, "high": self.high, "noise": self.noise}
        asked |= {"marks": marks, "log": self.log, "most": most}
        sizes = {"dimension": profile.erm_dimension, "instances": getattr(profile, self.instances)}
        return [
            ask(line_rows, estimator=name, ridge=ridge, **asked)
            for name, ridge in self.lines + self.fits
        ] + [
            ask(run_rows, estimator=name, ridges=[ridge], alpha=alpha, noise=self.noise, **sizes)
            for name, ridge in self.fits
            for alpha in marks
        ]


Drawn = Callable[[pd.DataFrame], Panel | Picture]
Asked = Callable[[Profile], list[Computation]]


class FigureSpec(NamedTuple):
    """`computations` are what to compute, `drawn` is a function of the table."""

    name: str
    title: str
    caption: str
    drawn: Drawn
    computations: Asked

    def picture(self, table: pd.DataFrame) -> Picture:
        """The picture of the table."""
        found = self.drawn(table)
        return found if isinstance(found, Picture) else Picture((found,))

    def draw(self, table: pd.DataFrame) -> Figure:
        """The picture by matplotlib."""
        return render_matplotlib(self.picture(table))

    def toml(self, profile: Profile) -> str:
        """Everything that made the figure."""
        text = (
            f"# {self.title}\n# polyceptron {VERSION}, profile {profile.name}. Make it again:\n"
            f"#   polyceptron figures --out figures --only {self.name} --profile {profile.name}\n"
        )
        for one in self.computations(profile):
            text += f'\n[[computation]]\nfunction = "{one.name}"\n'
            for name, value in one.arguments.items():
                # JSON's numbers, strings and lists are TOML too.
                text += f"{name} = {json.dumps(value)}\n".replace("null", '"none"')
        return text


def figure(
    name: str, title: str, computations: Asked, caption: str = ""
) -> Callable[[Drawn], FigureSpec]:
    """A figure from the function that draws it, whose docstring is the caption unless given."""
    return lambda drawn: FigureSpec(
        name, title, caption or " ".join((drawn.__doc__ or "").split()), drawn, computations
    )
