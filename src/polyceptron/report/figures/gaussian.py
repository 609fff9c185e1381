"""Figure 3: Gaussian weights, k = 3: message passing attains the Bayes-optimal error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.drawing import clear_legend, inset, line, panels, symbols
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.rademacher import add_entries, amp_grid, overlap_jobs
from polyceptron.report.figures.table import only
from polyceptron.report.style import ALPHA, ERROR, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

GREEN, BLUE, ORANGE = "#009E73", "#0072B2", "#D55E00"
LARGEST_ALPHA = 6.0


def _marks(profile: Profile) -> list[float]:
    return profile.thin([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0])


def _grids(profile: Profile) -> list[dict[str, Any]]:
    theory = {
        "sources": ["theory"], "estimators": ["bayes"], "classes": [3], "prior": ["gaussian"],
        "alpha": profile.line(0.05, LARGEST_ALPHA, _marks(profile)),
    }  # fmt: skip
    return [theory, amp_grid(profile, "gaussian", _marks(profile))]


def _jobs(profile: Profile) -> list[Job]:
    return overlap_jobs("gaussian", _marks(profile), profile)


def draw(table: pd.DataFrame) -> Figure:
    """Errors against α, overlaps in the inset."""
    with style():
        figure, (ax,) = panels(height=2.9)
        theory = only(add_entries(table), source="theory")
        line(ax, theory, "alpha", "generalisation_error", "black", "Bayes-optimal", linestyle="--")
        marks = only(table, source="amp")
        marks = marks[marks["generalisation_error"].notna()]
        size = f"AMP, $d = {int(marks['dimension'].iloc[0])}$"
        symbols(ax, marks, "alpha", "generalisation_error", GREEN, size)
        ax.set(xlabel=ALPHA, ylabel=ERROR, xlim=(0, LARGEST_ALPHA + 0.1), ylim=(0, 0.7))
        clear_legend(ax, loc="lower left")
        small = inset(ax, (0.5, 0.5, 0.48, 0.45), r"$\alpha$", "overlaps")
        entries = only(table, source="amp")
        entries = entries[entries["q00"].notna()]
        for name, colour, marker in (("q00", BLUE, "o"), ("q01", ORANGE, "s")):
            small.plot(theory["alpha"], theory[name], color=colour, linewidth=1)
            small.errorbar(
                entries["alpha"],
                entries[name],
                entries[f"{name}_standard_error"].fillna(0),
                color=colour,
                marker=marker,
                markersize=2.2,
                linestyle="none",
                elinewidth=0.7,
                capsize=1,
            )
        small.set(xlim=(0, LARGEST_ALPHA + 0.2), ylim=(0, 2.05))
        small.text(2.5, 1.75, "$q_{00}$", fontsize=7, color=BLUE, ha="right")
        small.text(2.6, 0.45, "$q_{01}$", fontsize=7, color=ORANGE)
    return figure


FIG3 = FigureSpec(
    "fig3",
    "Figure 3: message passing with Gaussian weights, k = 3",
    "With Gaussian weights there is no hard phase: message passing (symbols, with standard errors) "
    "attains the Bayes-optimal error (dashed). Inset: entries of its 2 × 2 overlap matrix, "
    "measured, on the theory's q00 = 2q and q01 = q.",
    draw,
    _grids,
    _jobs,
)
