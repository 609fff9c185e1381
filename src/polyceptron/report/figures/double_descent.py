"""Double descent: error, training error and training loss of the square loss around α = 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.drawing import note, panels, symbols, vertical
from polyceptron.report.figures.erm_curves import Series, risk_grid, select, simulated
from polyceptron.report.figures.profile import Profile
from polyceptron.report.style import ALPHA, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SERIES = (
    Series("square", 0.0, "#CC79A7", "D", r"square, $\lambda\to0^+$"),
    Series("square", 0.01, "#E69F00", "v", r"square, $\lambda=0.01$"),
    Series("square", 1.0, "#D55E00", "s", r"square, $\lambda=1$"),
    Series("cross-entropy", 0.01, "#0072B2", "o", r"cross-entropy, $\lambda=0.01$"),
)
QUANTITIES = (
    ("generalisation_error", r"$\varepsilon_{\mathrm{gen}}$"),
    ("training_error", "training error"),
    ("training_loss", "training loss"),
)
LARGEST_ALPHA = 4.0


def _grids(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0])
    lines = profile.line(0.05, LARGEST_ALPHA, marks)
    lines = sorted({*lines, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1})
    grids = []
    for series in SERIES:
        grids.append(risk_grid(series, ["theory"], lines))
        grids.append(simulated(risk_grid(series, ["erm"], marks), profile))
    return grids


def draw(table: pd.DataFrame) -> Figure:
    """Three panels above one another."""
    with style():
        figure, axes = panels(len(QUANTITIES), height=5.2, sharex=True)
        for ax, (name, label) in zip(axes, QUANTITIES, strict=True):
            for series in SERIES:
                theory, marks = (select(table, series, source) for source in ("theory", "erm"))
                ax.plot(theory["alpha"], theory[name], color=series.colour)
                symbols(ax, marks, "alpha", name, series.colour, series.label, series.marker)
            ax.set_ylabel(label)
            vertical(ax, 1.0, r"$\alpha = 1$" if ax is axes[0] else "")
        axes[-1].set(xlabel=ALPHA, xlim=(0, LARGEST_ALPHA + 0.05))
        axes[0].legend(loc="upper right", **note(table))
    return figure


DOUBLE_DESCENT = FigureSpec(
    "double-descent",
    "Double descent and the training error, k = 3",
    "Without ridge the square loss fits every label up to α = 1, where its error peaks; a ridge "
    "removes the peak. Cross-entropy can always separate the samples and has none. Top: test "
    "error; middle: training error; bottom: mean training loss. Lines: theory; symbols: fits.",
    draw,
    _grids,
)
