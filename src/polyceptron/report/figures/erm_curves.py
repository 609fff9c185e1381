"""Figures 4a and 4b: empirical risk minimisation against the Bayes-optimal error, k = 3, Gaussian.

Figure 4b draws the slopes that the theory has: Bayes α^−1, cross-entropy at fixed λ α^(−2/3) (the
paper says −1/2), square loss α^(−1/2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.drawing import clear_legend, line, note, panels, symbols
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.table import only
from polyceptron.report.style import ALPHA, COLOURS, ERROR, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Series(NamedTuple):
    """One estimator of a figure and how it looks."""

    estimator: str
    ridge: float | None
    colour: str
    marker: str
    label: str


CURVES_4A = (
    Series("cross-entropy", 0.01, COLOURS["cross-entropy"], "o", r"cross-entropy, $\lambda=0.01$"),
    Series("square", 1.0, "#D55E00", "s", r"square, $\lambda=1$"),
    Series("max-margin", None, "#009E73", "^", r"cross-entropy, $\lambda\to0^+$"),
    Series("square", 0.0, "#CC79A7", "D", r"square, $\lambda\to0^+$"),
)
CURVES_4B = (
    Series("square", 1.0, "#D55E00", "s", r"square, $\lambda=1$"),
    Series("cross-entropy", 1.0, COLOURS["cross-entropy"], "o", r"cross-entropy, $\lambda=1$"),
)
EXPONENTS = {"bayes": 1.0, "cross-entropy": 2 / 3, "square": 0.5}  # of CURVES_4B
LARGEST_ALPHA_4A, LARGEST_ALPHA_4B = 5.0, 1e4


def risk_grid(series: Series, sources: list[str], alphas: list[float]) -> dict[str, Any]:
    """A grid of one estimator at k = 3."""
    grid: dict[str, Any] = {
        "sources": sources, "estimators": [series.estimator], "classes": [3], "alpha": alphas,
    }  # fmt: skip
    if series.ridge is not None:
        grid["ridge"] = [series.ridge]
    return grid


def simulated(grid: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """The grid with the profile's dimension and instances."""
    return grid | {"dimension": [profile.erm_dimension], "instances": profile.erm_instances}


def bayes_grid(alphas: list[float]) -> dict[str, Any]:
    """The Bayes-optimal line at k = 3."""
    return {"sources": ["theory"], "estimators": ["bayes"], "classes": [3], "alpha": alphas}


def _grids_4a(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0])
    lines = profile.line(0.05, LARGEST_ALPHA_4A, marks)
    # The minimum-norm solution of the square loss has its peak at α = 1, exactly.
    peak = sorted({*lines, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1})
    grids = [bayes_grid(lines)]
    for series in CURVES_4A:
        at = peak if series.ridge == 0 else lines
        grids.append(risk_grid(series, ["theory"], at))
        grids.append(simulated(risk_grid(series, ["erm"], marks), profile))
    return grids


def _grids_4b(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    lines = profile.spread(1.0, LARGEST_ALPHA_4B, max(profile.line_points // 2, 9), log=True)
    lines = sorted({*lines, *marks})
    grids = [bayes_grid(lines)]
    for series in CURVES_4B:
        grids.append(risk_grid(series, ["theory"], lines))
        grids.append(simulated(risk_grid(series, ["erm"], marks), profile))
    return grids


def select(table: pd.DataFrame, series: Series, source: str) -> pd.DataFrame:
    """The rows of a series."""
    rows = only(table, source=source, estimator=series.estimator)
    return rows if series.ridge is None else rows[rows["ridge"] == series.ridge]


def draw_4a(table: pd.DataFrame) -> Figure:
    """Errors against α."""
    with style():
        figure, (ax,) = panels(height=2.9)
        for series in CURVES_4A:
            theory = select(table, series, "theory")
            line(ax, theory, "alpha", "generalisation_error", series.colour)
            marks = select(table, series, "erm")
            symbols(
                ax, marks, "alpha", "generalisation_error", series.colour, series.label,
                series.marker,
            )  # fmt: skip
        bayes = only(table, estimator="bayes")
        line(ax, bayes, "alpha", "generalisation_error", "black", "Bayes-optimal", linestyle="--")
        ax.set(xlabel=ALPHA, ylabel=ERROR, xlim=(0, LARGEST_ALPHA_4A + 0.1), ylim=(0.1, 0.7))
        clear_legend(ax, loc="upper right", **note(table))
    return figure


def draw_4b(table: pd.DataFrame) -> Figure:
    """Errors at large α with their slopes."""
    with style():
        figure, (ax,) = panels(height=2.9)
        for series in CURVES_4B:
            theory = select(table, series, "theory")
            line(ax, theory, "alpha", "generalisation_error", series.colour, series.label)
            marks = select(table, series, "erm")
            symbols(ax, marks, "alpha", "generalisation_error", series.colour, "", series.marker)
        bayes = only(table, estimator="bayes")
        line(ax, bayes, "alpha", "generalisation_error", "black", "Bayes-optimal", linestyle="--")
        ax.set(xlabel=ALPHA, ylabel=ERROR, xscale="log", yscale="log")
        ax.set(xlim=(0.85, 9 * LARGEST_ALPHA_4B), ylim=(5e-5, 1))
        slopes = (("square", "-1/2"), ("cross-entropy", "-2/3"), ("bayes", "-1"))
        colours = {"bayes": "black"} | {series.estimator: series.colour for series in CURVES_4B}
        for name, power in slopes:
            rows = only(table, source="theory", estimator=name)
            text = rf"$\propto\alpha^{{{power}}}$"
            _slope(ax, rows, EXPONENTS[name], text, colours[name])
        clear_legend(ax, loc="lower left", **note(table))
    return figure


def _slope(ax: Axes, rows: pd.DataFrame, exponent: float, text: str, colour: str) -> None:
    """A straight piece of the theory's slope just below the curve, named at the curve's end."""
    end = rows.iloc[-1]
    last, error = float(end["alpha"]), float(end["generalisation_error"])
    x = [last / 60, last]
    y = [0.7 * error * (last / a) ** exponent for a in x]
    ax.plot(x, y, color="0.45", linewidth=0.8, linestyle=(0, (4, 2)))
    ax.text(1.25 * last, 0.85 * error, text, ha="left", va="center", fontsize=7, color=colour)


FIG4A = FigureSpec(
    "fig4a",
    "Figure 4a: empirical risk minimisation, k = 3",
    "Error of cross-entropy (λ = 0.01) and square loss (λ = 1) near their best ridge, and without "
    "ridge (max-margin, and minimum norm with its peak at α = 1), against the Bayes-optimal error. "
    "Lines: theory. Symbols: fits, with standard errors.",
    draw_4a,
    _grids_4a,
)

FIG4B = FigureSpec(
    "fig4b",
    "Figure 4b: plentiful data, k = 3",
    "At λ = 1 the error falls as α^(−1/2) for the square loss and as α^(−2/3) for cross-entropy "
    "(the paper says −1/2), against α^(−1) for Bayes. Lines: theory; grey: these slopes; symbols: "
    "fits, with standard errors.",
    draw_4b,
    _grids_4b,
)
