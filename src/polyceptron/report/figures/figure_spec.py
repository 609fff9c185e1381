"""A figure is a name and words, the computations behind it, and a picture of their table."""

import json
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from polyceptron.pictures.matplotlib_figure import Figure, render_matplotlib
from polyceptron.pictures.parts import Panel, Picture
from polyceptron.report.figures.computations import Computation
from polyceptron.report.figures.profiles import Profile
from polyceptron.version import VERSION

Draw = Callable[[pd.DataFrame], Panel | Picture]
Ask = Callable[[Profile], list[Computation]]


class FigureSpec(NamedTuple):
    """A figure: `computations` are what to compute, `drawn` is a function of their table."""

    name: str
    title: str
    caption: str
    drawn: Draw
    computations: Ask

    def picture(self, table: pd.DataFrame) -> Picture:
        """Return the picture of the table."""
        drawn = self.drawn(table)
        if isinstance(drawn, Picture):
            return drawn
        return Picture((drawn,))

    def draw(self, table: pd.DataFrame) -> Figure:
        """Return the picture as a figure of matplotlib."""
        return render_matplotlib(self.picture(table))

    def toml(self, profile: Profile) -> str:
        """Return everything that made the figure, as TOML."""
        text = (
            f"# {self.title}\n# polyceptron {VERSION}, profile {profile.name}. Make it again:\n"
            f"#   polyceptron figures --out figures --only {self.name} --profile {profile.name}\n"
        )
        for computation in self.computations(profile):
            text += f'\n[[computation]]\nfunction = "{computation.name}"\n'
            for name, value in computation.arguments.items():
                # JSON's numbers, strings and lists are TOML too.
                text += f"{name} = {json.dumps(value)}\n".replace("null", '"none"')
        return text


def figure(
    name: str, title: str, computations: Ask, caption: str = ""
) -> Callable[[Draw], FigureSpec]:
    """Make a figure of the function that draws it, whose docstring is the caption by default."""

    def make(drawn: Draw) -> FigureSpec:
        """Return the specification of the figure that `drawn` draws."""
        words = caption or " ".join((drawn.__doc__ or "").split())
        return FigureSpec(name, title, words, drawn, computations)

    return make
