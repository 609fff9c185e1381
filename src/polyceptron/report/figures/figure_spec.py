"""What a figure is: a name and words, what to compute for it, and its picture of the table.

A `Profile` states how large the experiments are: quick (minutes) or paper (hours). Rows of a sweep
are asked for by grids, mostly those of `Curves`; everything else (transitions, trajectories,
margins) is a `Computation`: a function of this package with plain arguments, so that it can be
written down, run in any process and shared by figures that ask for the same. Its rows are kept in a
file named by a hash of what was asked, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.experiments.engine import Listener, Progress
from polyceptron.experiments.spec import SweepSpec, parse_spec
from polyceptron.files import write_text
from polyceptron.model import Teacher, make_estimator
from polyceptron.report.pictures.matplotlib_figure import render_matplotlib
from polyceptron.report.pictures.parts import Panel, Picture
from polyceptron.theory.curve import bends, drawn_rows
from polyceptron.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SEED = 0
Row = dict[str, Any]
Grid = dict[str, Any]
Values = Sequence[float]


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
    line_points: int = 80  # at most
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
    "paper", amp_dimension=1000, amp_runs=20, erm_dimension=1000, erm_instances=250,
    further_instances=50, noisy_instances=50, line_points=160, symbols=24,
    amp_classes=(2, 3, 5, 10), amp_classes_dimension=1000, amp_classes_runs=20,
    error_tolerance=2e-4, transition_tolerance=0.005, separable_dimension=300,
    transition_classes=(2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50),
)  # fmt: skip
PROFILES = {profile.name: profile for profile in (QUICK, PAPER)}


def as_profile(profile: str | Profile) -> Profile:
    """A profile by its name."""
    if isinstance(profile, Profile):
        return profile
    if profile not in PROFILES:
        raise InvalidInput(f"unknown profile {profile!r}: allowed are {', '.join(PROFILES)}")
    return PROFILES[profile]


@dataclass(frozen=True)
class Computation:
    """`function(**arguments)` returns rows; `seconds` is about what it takes on one core."""

    function: Callable[..., list[Row]]
    arguments: dict[str, Any] = field(default_factory=dict)
    seconds: float = 1.0

    @property
    def name(self) -> str:
        """The function with its module."""
        return f"{self.function.__module__}.{self.function.__name__}"

    @property
    def key(self) -> str:
        """The same for two that ask the same of the same version."""
        text = json.dumps([VERSION, self.name, self.arguments], sort_keys=True)
        return f"{self.function.__name__}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def kept(self, folder: Path) -> list[Row] | None:
        """The rows that an earlier run has left in the folder; None if there are none."""
        try:
            rows = json.loads((folder / f"{self.key}.json").read_text(encoding="utf-8"))["rows"]
        except (OSError, ValueError, KeyError, TypeError):  # damaged is as good as missing
            return None
        return rows if isinstance(rows, list) else None

    def run(self, folder: Path) -> tuple[str, list[Row]]:
        """Compute, and write the rows beside the question, in one piece; with the key."""
        rows = self.function(**self.arguments)
        asked = {"function": self.name, "arguments": self.arguments, "version": VERSION}
        write_text(folder / f"{self.key}.json", json.dumps({**asked, "rows": rows}, default=float))
        return self.key, rows


def run_computations(
    asked: Iterable[Computation], folder: Path, workers: int, tell: Listener = bool
) -> dict[str, list[Row]]:
    """The rows of each by its key, kept in the folder; equal ones run once, long ones first."""
    from joblib import Parallel, delayed

    folder.mkdir(exist_ok=True)
    every = {one.key: one for one in asked}
    results = {key: rows for key, one in every.items() if (rows := one.kept(folder)) is not None}
    todo = [one for key, one in every.items() if key not in results]
    todo.sort(key=lambda one: -one.seconds)
    now = Progress("lines and laws", len(every), len(results))
    begin = time.monotonic()
    pool = Parallel(
        max(min(workers, len(todo)), 1), return_as="generator_unordered", batch_size=1
    )  # loky gives each process one BLAS thread
    for key, rows in pool(delayed(one.run)(folder) for one in todo):
        results[key] = rows
        now.computed += 1
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
    asked: dict[str, Any] = {"log": log, "log_y": log, "also": marks, "most": most, "tol": tol}
    return drawn_rows(teacher, student, low, high, **asked)


def smooth_rows(
    at: Callable[[float], list[Row]],
    low: float,
    high: float,
    most: int,
    marks: Values = (),
    **lines: Any,
) -> list[Row]:
    """Rows `at` as many places from low to high as smooth lines need, at the marks too.

    `lines` says which they are, as `bends` takes it.
    """
    space, rows, done = np.geomspace if lines.get("log") else np.linspace, list[Row](), 0
    todo = sorted({*map(float, space(low, high, min(9, most))), *marks})
    while todo:
        rows += [row for place in todo for row in at(place)]
        done += len(todo)
        theory = [row for row in rows if row["source"] == "theory"]
        todo = bends(theory, **lines)[: max(most - done, 0)]
    return rows


def grid(source: str, estimator: str, alphas: Values, ridge: Any = None, **more: Any) -> Grid:
    """A grid of one estimator at k = 3; no ridge (or ridges) for max-margin and Bayes."""
    found = {"sources": [source], "estimators": [estimator], "classes": [3], "alpha": alphas}
    ridges = {} if ridge is None else {"ridge": ridge if isinstance(ridge, list) else [ridge]}
    return found | ridges | more


@dataclass(frozen=True)
class Curves:
    """Learning curves: theory of all at α from low to high, data of `fits` at `marks`.

    An estimator is a name and a ridge, None for those that have none. `log` is that of both axes,
    `instances` the field of the profile with the number of fits.
    """

    low: float
    high: float
    marks: tuple[float, ...]
    fits: tuple[tuple[str, float | None], ...] = ()
    lines: tuple[tuple[str, float | None], ...] = (("bayes", None),)
    log: bool = False
    noise: str = "none"
    instances: str = "erm_instances"

    def __call__(self, profile: Profile) -> list[Grid]:
        """The grids of the sweep: data."""
        marks, n = profile.thin(self.marks), getattr(profile, self.instances)
        more: Any = {"noise": [self.noise], "dimension": [profile.erm_dimension], "instances": n}
        return [grid("erm", name, marks, ridge, **more) for name, ridge in self.fits]

    def theory(self, profile: Profile) -> list[Computation]:
        """The lines, at the marks too."""
        asked: dict[str, Any] = {"low": self.low, "high": self.high, "noise": self.noise}
        asked |= {"marks": profile.thin(self.marks), "log": self.log, "most": profile.line_points}
        return [
            Computation(line_rows, {"estimator": name, "ridge": ridge, **asked}, 1)
            for name, ridge in self.lines + self.fits
        ]


@dataclass(frozen=True)
class FigureSpec:
    """`grids` and `computations` are what to compute, `drawn` is a function of the table."""

    name: str
    title: str
    caption: str
    drawn: Callable[[pd.DataFrame], Panel | Picture]
    grids: Callable[[Profile], list[Grid]] = lambda profile: []
    computations: Callable[[Profile], list[Computation]] = lambda profile: []

    def picture(self, table: pd.DataFrame) -> Picture:
        """The picture of the table."""
        found = self.drawn(table)
        return found if isinstance(found, Picture) else Picture((found,))

    def draw(self, table: pd.DataFrame) -> Figure:
        """The picture by matplotlib."""
        return render_matplotlib(self.picture(table))

    def toml(self, profile: Profile) -> str:
        """Everything that made the figure. A file with grids is a sweep: `polyceptron sweep`."""
        grids = self.grids(profile)
        text = (
            f"# {self.title}\n# polyceptron {VERSION}, profile {profile.name}. Make it again:\n"
            f"#   polyceptron figures --out figures --only {self.name} --profile {profile.name}\n"
        )
        if grids:
            alone = f"# Its rows alone: polyceptron sweep {self.name}.toml --store DIR/store.sqlite"
            text += f"{alone}\n\n{sweep_toml(self.name, grids)}"
        for one in self.computations(profile):
            lines = [f'[[computation]]\nfunction = "{one.name}"']
            given = {name: value for name, value in one.arguments.items() if value is not None}
            lines += [f"{name} = {json.dumps(value)}" for name, value in given.items()]
            text += "\n" + textwrap.indent("\n".join(lines), "# " if grids else "") + "\n"
        return text


def figure(
    name: str, title: str, caption: str = "", **asked: Any
) -> Callable[[Callable[[pd.DataFrame], Panel | Picture]], FigureSpec]:
    """A figure from the function that draws it, whose docstring is the caption unless one is given.

    `asked` are the `grids` and `computations` of the figure.
    """
    return lambda drawn: FigureSpec(
        name, title, caption or " ".join((drawn.__doc__ or "").split()), drawn, **asked
    )


def merged_sweep(
    figures: Iterable[FigureSpec], profile: Profile, name: str = "rows of the figures"
) -> SweepSpec | None:
    """The grids of all figures as one sweep; a row that several ask for is computed once."""
    grids = [grid for figure in figures for grid in figure.grids(profile)]
    return parse_spec(sweep_toml(name, grids), name) if grids else None


def sweep_toml(name: str, grids: Sequence[Grid]) -> str:
    """Grids as a sweep in TOML (JSON's numbers, strings and lists are TOML too)."""
    text = f'[sweep]\nname = "{name}"\nseed = {SEED}\n'
    for grid in grids:
        text += "\n[[grid]]\n"
        text += "".join(f"{field} = {json.dumps(value)}\n" for field, value in grid.items())
    return text
