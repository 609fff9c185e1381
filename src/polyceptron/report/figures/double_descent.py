"""Double descent: error, training error and training loss of the square loss around α = 1."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.erm_curves import Risk, in_one_line, placed, risk_grid, simulated
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.profile import Profile
from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.parts import Axis, Mark, Panel, Picture
from polyceptron.report.style import AXES

if TYPE_CHECKING:
    import pandas as pd

SERIES = (
    Risk("square", 0.0), Risk("square", 0.01), Risk("square", 1.0), Risk("cross-entropy", 0.01),
)  # fmt: skip
QUANTITIES = {
    "generalisation_error": "*ε_{gen}*", "training_error": "training error",
    "training_loss": "training loss",
}  # fmt: skip
LARGEST_ALPHA = 4.0


def _grids(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0])
    lines = profile.line(0.05, LARGEST_ALPHA, marks)
    lines = sorted({*lines, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1})
    grids = []
    for series in SERIES:
        grids.append(risk_grid(series, ["theory"], lines))
        grids.append(simulated(risk_grid(series, ["erm"], marks), profile, further=True))
    return grids


def picture(table: pd.DataFrame) -> Picture:
    """Three panels above one another."""
    panels: list[Panel] = []
    for name, label in QUANTITIES.items():
        panel = curves_panel(table, y=name)
        first, last = not panels, len(panels) == len(QUANTITIES) - 1
        panel = replace(
            in_one_line(placed(panel, "upper right", columns=2)) if first
            else replace(panel, legend=None),
            x=Axis(AXES["alpha"] if last else "", low=0, high=LARGEST_ALPHA + 0.05),
            y=Axis(label, low=0.15, high=1.05) if first else replace(panel.y, label=label),
            marks=(Mark(1.0, "*α = 1*" if first else ""),),
        )  # fmt: skip
        panels.append(panel)
    return Picture(tuple(panels), height=5.2)


DOUBLE_DESCENT = FigureSpec(
    "double-descent",
    "Double descent and the training error, k = 3",
    "Without ridge the square loss fits every label up to α = 1, where its error peaks; a ridge "
    "removes the peak. Cross-entropy can always separate the samples and has none. Top: test "
    "error; middle: training error; bottom: mean training loss. Lines: theory; symbols: fits.",
    picture,
    _grids,
)
