"""What a figure is: a name and words, what to compute for it, and its picture of the table.

A `Profile` says how large the experiments are: quick (minutes), paper (hours), tiny (tests). Rows
of a sweep are asked for by grids (`grid`, `with_fits`); everything else (transitions, trajectories,
margins) is a `Computation`: a function of this package with plain arguments, so that it can be
written down, run in any process and shared by figures that ask for the same. What it gives is kept
in a file named by a hash of what was asked, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.experiments.engine import Listener, Progress
from polyceptron.experiments.spec import SweepSpec, parse_spec
from polyceptron.files import write_text
from polyceptron.report.pictures.matplotlib_figure import render_matplotlib
from polyceptron.report.pictures.parts import Picture
from polyceptron.version import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


SEED = 0
Row = dict[str, Any]
Grid = dict[str, Any]


@dataclass(frozen=True)
class Profile:
    """Sizes of the simulations, and how many points lines and series of symbols have."""

    name: str
    amp_dimension: int
    amp_runs: int
    trace_dimension: int  # of the runs that are followed step by step
    erm_dimension: int
    erm_instances: int
    further_instances: int  # the same for the figures that the paper does not have
    line_points: int
    symbols: int
    classes: tuple[int, ...]
    amp_classes: tuple[int, ...]  # those of `classes` that message passing runs for
    amp_classes_dimension: int
    amp_classes_runs: int
    error_tolerance: float  # of the Bayes-optimal error for k ≥ 4
    transition_classes: tuple[int, ...]
    transition_tolerance: float  # for k ≥ 4

    def spread(self, low: float, high: float, count: int, *, log: bool = False) -> list[float]:
        """`count` values from low to high, rounded so that tables and seeds read well."""
        steps = [i / max(count - 1, 1) for i in range(count)]
        if log:
            return [float(f"{low * (high / low) ** s:.4g}") for s in steps]
        return [float(f"{low + (high - low) * s:.4g}") for s in steps]

    def line(self, low: float, high: float, marks: list[float]) -> list[float]:
        """α of a line of theory, which has a value at every symbol too."""
        return sorted({*self.spread(low, high, self.line_points), *marks})

    def fits(self, *, further: bool = False) -> Grid:
        """Dimension and instances of fits; `further` for figures that the paper does not have."""
        instances = self.further_instances if further else self.erm_instances
        return {"dimension": [self.erm_dimension], "instances": instances}

    def thin(self, values: list[float]) -> list[float]:
        """At most `symbols` of the values, ends included."""
        if len(values) <= self.symbols:
            return values
        last = len(values) - 1
        chosen = {round(i * last / (self.symbols - 1)) for i in range(self.symbols)}
        return [values[i] for i in sorted(chosen)]


_SIZES: dict[str, tuple[Any, Any, Any]] = {  # quick, paper, tiny
    "amp_dimension": (500, 1000, 100),
    "amp_runs": (10, 20, 2),
    "trace_dimension": (1000, 1000, 100),
    "erm_dimension": (300, 1000, 60),
    "erm_instances": (20, 250, 2),
    "further_instances": (20, 50, 2),
    "line_points": (60, 120, 12),
    "symbols": (16, 24, 4),
    "classes": ((2, 3, 5, 10, 20, 50), (2, 3, 5, 10, 20, 50), (2, 3, 5)),
    "amp_classes": ((2, 5, 10), (2, 3, 5, 10), (2,)),
    "amp_classes_dimension": (200, 1000, 60),
    "amp_classes_runs": (5, 20, 2),
    "error_tolerance": (1e-3, 2e-4, 0.01),
    "transition_classes": (
        (2, 3, 4, 5, 7, 10, 14, 20, 30, 50),
        (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50),
        (2, 3, 4),
    ),
    "transition_tolerance": (0.02, 0.005, 0.1),
}
QUICK, PAPER, TINY = (
    Profile(name, **{field: sizes[i] for field, sizes in _SIZES.items()})
    for i, name in enumerate(("quick", "paper", "tiny"))
)
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
    """`function(**arguments)` gives rows; `seconds` is about what it takes on one core."""

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

    def toml(self) -> str:
        """The computation as a TOML table."""
        lines = [f'[[computation]]\nfunction = "{self.name}"']
        lines += [f"{name} = {json.dumps(value)}" for name, value in self.arguments.items()]
        return "\n".join(lines) + "\n"

    def kept(self, folder: Path) -> list[Row] | None:
        """The rows that an earlier run has left in the folder; None if there are none."""
        try:
            rows = json.loads((folder / f"{self.key}.json").read_text(encoding="utf-8"))["rows"]
        except (OSError, ValueError, KeyError, TypeError):  # damaged is as good as missing
            return None
        return rows if isinstance(rows, list) else None

    def keep(self, rows: list[Row], folder: Path) -> None:
        """Write the rows and what they answer, in one piece."""
        asked = {"function": self.name, "arguments": self.arguments, "version": VERSION}
        write_text(folder / f"{self.key}.json", json.dumps({**asked, "rows": rows}, default=float))


def run_computations(
    asked: Sequence[Computation], folder: Path, workers: int, tell: Listener | None = None
) -> dict[str, list[Row]]:
    """The rows of each by its key, kept in the folder; equal ones run once, long ones first."""
    folder.mkdir(exist_ok=True)
    results, todo = dict[str, list[Row]](), dict[str, Computation]()
    for one in asked:
        rows = results.get(one.key) or one.kept(folder)
        if rows is None:
            todo[one.key] = one
        else:
            results[one.key] = rows
    now = Progress("lines and laws", len(todo) + len(results), len(results))
    begin = time.monotonic()
    for key, rows in _finished(sorted(todo.values(), key=lambda one: -one.seconds), workers):
        todo[key].keep(rows, folder)
        results[key] = rows
        now.done += 1
        now.computed += 1
        now.seconds = time.monotonic() - begin
        if tell is not None:
            tell(now)
    return results


def _finished(todo: list[Computation], workers: int) -> Iterable[tuple[str, list[Row]]]:
    if workers == 1 or len(todo) < 2:
        return map(_run, todo)
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=min(workers, len(todo)), return_as="generator_unordered", batch_size=1
    )  # loky gives each process one BLAS thread
    return pool(delayed(_run)(one) for one in todo)  # type: ignore[no-any-return]


def _run(one: Computation) -> tuple[str, list[Row]]:
    return one.key, one.function(**one.arguments)


def figure_row(source: str, estimator: str, **more: Any) -> Row:
    """A row of a computation; at k = 3 with Gaussian weights unless `more` says otherwise."""
    base = {"model": "argmax", "n_classes": 3, "prior": "gaussian", "estimator": estimator}
    return {"source": source, **base, **more}


def grid(source: str, estimator: str, alphas: list[float], ridge: Any = None, **more: Any) -> Grid:
    """A grid of one estimator at k = 3 (or what `more` says); no ridge for max-margin and Bayes."""
    found = {"sources": [source], "estimators": [estimator], "classes": [3], "alpha": alphas}
    return found | ({} if ridge is None else {"ridge": [ridge]}) | more


def with_fits(
    risks: Iterable[tuple[str, float | None]],
    lines: list[float],
    marks: list[float],
    sizes: Grid,
    **more: Any,
) -> list[Grid]:
    """For each (loss, ridge) theory at the α of `lines` and fits at those of `marks`."""
    return [
        one
        for name, ridge in risks
        for one in (
            grid("theory", name, lines, ridge, **more),
            grid("erm", name, marks, ridge, **more, **sizes),
        )
    ]  # fmt: skip


def nothing(profile: Profile) -> list[Any]:
    """The grids of a figure without a sweep, the computations of one with nothing else."""
    return []


@dataclass(frozen=True)
class FigureSpec:
    """`grids` and `computations` say what to compute, `picture` is a function of the table."""

    name: str
    title: str
    caption: str
    picture: Callable[[pd.DataFrame], Picture]
    grids: Callable[[Profile], list[Grid]] = nothing
    computations: Callable[[Profile], list[Computation]] = nothing

    def sweep(self, profile: Profile) -> SweepSpec | None:
        """The sweep behind the figure, if any."""
        grids = self.grids(profile)
        return parse_spec(sweep_toml(self.name, grids), self.name) if grids else None

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
            text += (
                f"# Its rows alone: polyceptron sweep {self.name}.toml --store DIR/store.sqlite\n"
            )
            text += f"\n{sweep_toml(self.name, grids)}"
        before = "# " if grids else ""
        for one in self.computations(profile):
            text += "\n" + "".join(f"{before}{line}\n" for line in one.toml().splitlines())
        return text


def sweep_toml(name: str, grids: Sequence[Grid]) -> str:
    """Grids as a sweep in TOML (JSON's numbers, strings and lists are TOML too)."""
    text = f'[sweep]\nname = "{name}"\nseed = {SEED}\n'
    for grid in grids:
        text += "\n[[grid]]\n"
        text += "".join(f"{field} = {json.dumps(value)}\n" for field, value in grid.items())
    return text
