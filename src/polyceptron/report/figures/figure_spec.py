"""What a figure is: a name, what it shows, what to compute for it, and its picture of the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polyceptron.experiments.spec import SweepSpec, parse_spec
from polyceptron.report.figures.computations import Computation
from polyceptron.report.figures.profile import Profile
from polyceptron.report.pictures.matplotlib_figure import render_matplotlib
from polyceptron.report.pictures.parts import Picture
from polyceptron.rows import VERSION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SEED = 0


def no_grids(profile: Profile) -> list[dict[str, Any]]:
    """For a figure without rows of a sweep."""
    return []


def no_computations(profile: Profile) -> list[Computation]:
    """For a figure whose table is a sweep and nothing else."""
    return []


@dataclass(frozen=True)
class FigureSpec:
    """`grids` and `computations` say what to compute, `picture` is a function of the table."""

    name: str
    title: str
    caption: str
    picture: Callable[[pd.DataFrame], Picture]
    grids: Callable[[Profile], list[dict[str, Any]]] = no_grids
    computations: Callable[[Profile], list[Computation]] = no_computations

    def sweep(self, profile: Profile) -> SweepSpec | None:
        """The sweep behind the figure, if any."""
        grids = self.grids(profile)
        return parse_spec(sweep_toml(self.name, grids), self.name) if grids else None

    def draw(self, table: pd.DataFrame) -> Figure:
        """The picture by matplotlib."""
        return render_matplotlib(self.picture(table))

    def compute(self, profile: str | Profile = "quick", workers: int | None = None) -> pd.DataFrame:
        """The table behind the figure, computed anew."""
        from polyceptron.report.figures.making import compute_tables

        return compute_tables([self], profile, workers=workers)[self.name]

    def toml(self, profile: Profile) -> str:
        """Everything that made the figure. A file with grids is a sweep: `polyceptron sweep`."""
        grids = self.grids(profile)
        lines = [
            f"# {self.title}",
            f"# polyceptron {VERSION}, profile {profile.name}. Make it again:",
            f"#   polyceptron figures --out figures --only {self.name} --profile {profile.name}",
        ]
        if grids:
            lines.append(
                f"# Its rows alone: polyceptron sweep {self.name}.toml --store DIR/store.sqlite"
            )
        text = "\n".join(lines) + "\n\n"
        if grids:
            text += sweep_toml(self.name, grids)
        for one in self.computations(profile):
            table = one.toml()
            text += "\n" + (
                "".join(f"# {line}\n" for line in table.splitlines()) if grids else table
            )
        return text


def sweep_toml(name: str, grids: Sequence[dict[str, Any]]) -> str:
    """Grids as a sweep in TOML (JSON's numbers, strings and lists are TOML too)."""
    text = f'[sweep]\nname = "{name}"\nseed = {SEED}\n'
    for grid in grids:
        text += "\n[[grid]]\n"
        text += "".join(f"{field} = {json.dumps(value)}\n" for field, value in grid.items())
    return text
