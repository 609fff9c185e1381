"""Figures 4c and 4d: the error against the ridge, k = 3, Gaussian weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.drawing import note, panels, symbols, vertical
from polyceptron.report.figures.erm_curves import simulated
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.table import Row, only
from polyceptron.report.style import ERROR, RIDGE, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALPHAS = {1.0: "#0072B2", 2.0: "#D55E00", 3.0: "#009E73", 5.0: "#CC79A7"}
MARKERS = ("o", "s", "^", "D")
RANGES = {"cross-entropy": (1e-4, 10.0), "square": (1e-3, 100.0)}


def best_ridge_rows(estimator: str, alpha: float) -> list[Row]:
    """The theory's row at the best ridge; branch 'best-ridge' marks it."""
    from polyceptron.model import ERM, Teacher
    from polyceptron.theory import curve_rows

    rows = curve_rows(Teacher(3), ERM(estimator, "optimal"), [alpha])  # type: ignore[arg-type]
    return [row | {"branch": "best-ridge"} for row in rows]


def _grids(estimator: str, profile: Profile) -> list[dict[str, Any]]:
    low, high = RANGES[estimator]
    grid: dict[str, Any] = {
        "estimators": [estimator], "classes": [3], "alpha": list(ALPHAS),
    }  # fmt: skip
    marks = profile.thin(profile.spread(low, high, 11, log=True))
    lines = profile.spread(low, high, max(profile.line_points // 2, 9), log=True)
    lines = sorted({*lines, *marks})
    return [
        grid | {"sources": ["theory"], "ridge": lines},
        simulated(grid | {"sources": ["erm"], "ridge": marks}, profile),
    ]


def _jobs(estimator: str, profile: Profile) -> list[Job]:
    return [Job(best_ridge_rows, {"estimator": estimator, "alpha": alpha}, 2) for alpha in ALPHAS]


def draw(estimator: str, table: pd.DataFrame) -> Figure:
    """Error against λ, one colour for each α, the best λ marked."""
    best = table["branch"] == "best-ridge"
    with style():
        figure, (ax,) = panels(height=2.9)
        for (alpha, colour), marker in zip(ALPHAS.items(), MARKERS, strict=True):
            rows = table[~best & (table["alpha"] == alpha)].sort_values("ridge")
            theory, marks = only(rows, source="theory"), only(rows, source="erm")
            ax.plot(
                theory["ridge"], theory["generalisation_error"], color=colour,
                label=rf"$\alpha = {alpha:g}$",
            )  # fmt: skip
            symbols(ax, marks, "ridge", "generalisation_error", colour, "", marker)
            at = table[best & (table["alpha"] == alpha)].iloc[0]
            if estimator != "square":
                ax.plot(
                    at["ridge"], at["generalisation_error"], marker="*", color="black",
                    markersize=5.5, linestyle="none", zorder=4,
                    label=r"best $\lambda$" if alpha == max(ALPHAS) else "_",
                )  # fmt: skip
        if estimator == "square":  # the same λ at every α
            value = float(table.loc[best, "ridge"].iloc[0])
            vertical(ax, value, rf"best $\lambda = {value:.3f}$ at every $\alpha$")
        low, high = RANGES[estimator]
        errors = table["generalisation_error"]
        ax.set(xlabel=RIDGE, ylabel=ERROR, xscale="log", xlim=(low / 1.3, high * 1.3))
        if estimator == "square":
            ax.legend(loc="upper right", **note(table))
        else:
            ax.set_ylim(errors.min() - 0.02, errors.max() + 0.075)
            title = note(table) | {"title": str(note(table)["title"]).replace("\n", "; ")}
            ax.legend(loc="upper center", ncols=5, columnspacing=1.0, handlelength=1.2, **title)
    return figure


FIG4C = FigureSpec(
    "fig4c",
    "Figure 4c: cross-entropy against its ridge, k = 3",
    "Error of cross-entropy against λ. Lines: theory; symbols: fits, with standard errors; stars: "
    "the best λ at each α, which falls with α.",
    partial(draw, "cross-entropy"),
    partial(_grids, "cross-entropy"),
    partial(_jobs, "cross-entropy"),
)

FIG4D = FigureSpec(
    "fig4d",
    "Figure 4d: square loss against its ridge, k = 3",
    "Error of the square loss against λ. Lines: theory; symbols: fits, with standard errors. The "
    "best λ is the same at every α.",
    partial(draw, "square"),
    partial(_grids, "square"),
    partial(_jobs, "square"),
)
