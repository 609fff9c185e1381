"""Figures 4c and 4d: the error against the ridge, k = 3, Gaussian weights."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.computations import Computation, Row
from polyceptron.report.figures.erm_curves import in_one_line, placed, simulated
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.profile import Profile
from polyceptron.report.pictures.curves import curves_panel, star_trace
from polyceptron.report.pictures.parts import Mark, Picture

if TYPE_CHECKING:
    import pandas as pd

ALPHAS = (1.0, 2.0, 3.0, 5.0)
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


def _optima(estimator: str, profile: Profile) -> list[Computation]:
    return [
        Computation(best_ridge_rows, {"estimator": estimator, "alpha": alpha}, 2)
        for alpha in ALPHAS
    ]


def picture(estimator: str, table: pd.DataFrame) -> Picture:
    """Error against λ, one colour for each α, the best λ marked."""
    best = table[table["branch"] == "best-ridge"]
    panel = curves_panel(table[table["branch"] != "best-ridge"], "ridge")
    low, high = RANGES[estimator]
    errors = table["generalisation_error"]
    panel = replace(
        placed(panel, "upper right"),
        x=replace(panel.x, low=low / 1.3, high=high * 1.3),
        y=replace(panel.y, low=errors.min() - 0.02, high=errors.max() + 0.02),
    )
    if best["ridge"].max() < 1.001 * best["ridge"].min():  # the same λ at every α
        value = float(best["ridge"].iloc[0])
        panel = replace(panel, marks=(Mark(value, f"best *λ* = {value:.3f} at every *α*"),))
    else:
        panel = replace(
            in_one_line(placed(panel, "upper center", columns=5)),
            traces=(*panel.traces, star_trace(best, "ridge")),
            y=replace(panel.y, high=errors.max() + 0.075),
        )
    return Picture((panel,))


FIG4C = FigureSpec(
    "fig4c",
    "Figure 4c: cross-entropy against its ridge, k = 3",
    "Error of cross-entropy against λ. Lines: theory; symbols: fits, with standard errors; stars: "
    "the best λ at each α, which falls with α.",
    partial(picture, "cross-entropy"),
    partial(_grids, "cross-entropy"),
    partial(_optima, "cross-entropy"),
)

FIG4D = FigureSpec(
    "fig4d",
    "Figure 4d: square loss against its ridge, k = 3",
    "Error of the square loss against λ. Lines: theory; symbols: fits, with standard errors. The "
    "best λ is the same at every α.",
    partial(picture, "square"),
    partial(_grids, "square"),
    partial(_optima, "square"),
)
