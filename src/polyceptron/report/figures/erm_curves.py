"""Figures 4a and 4b: empirical risk minimisation against the Bayes-optimal error, k = 3, Gaussian.

Figure 4b draws the slopes that the theory has: Bayes α^−1, cross-entropy at fixed λ α^(−2/3) (the
paper says −1/2), square loss α^(−1/2).

Figures 4c and 4d: the error against the ridge, k = 3, Gaussian weights.

Double descent: error, training error and training loss of the square loss around α = 1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from polyceptron.report.figures.figure_spec import Computation, FigureSpec, Profile, Row
from polyceptron.report.pictures.curves import curves_panel, star_trace
from polyceptron.report.pictures.parts import Axis, Legend, Mark, Note, Panel, Picture, Trace
from polyceptron.report.pictures.style import AXES

if TYPE_CHECKING:
    import pandas as pd


class Risk(NamedTuple):
    """One estimator of a figure; no ridge for max-margin."""

    estimator: str
    ridge: float | None


CURVES_4A = (
    Risk("cross-entropy", 0.01), Risk("square", 1.0), Risk("max-margin", None), Risk("square", 0.0),
)  # fmt: skip
CURVES_4B = (Risk("square", 1.0), Risk("cross-entropy", 1.0))
EXPONENTS = {"bayes": 1.0, "cross-entropy": 2 / 3, "square": 0.5}  # of CURVES_4B
LARGEST_ALPHA_4A, LARGEST_ALPHA_4B = 5.0, 1e4


def risk_grid(series: Risk, sources: list[str], alphas: list[float]) -> dict[str, Any]:
    """A grid of one estimator at k = 3."""
    grid: dict[str, Any] = {
        "sources": sources, "estimators": [series.estimator], "classes": [3], "alpha": alphas,
    }  # fmt: skip
    if series.ridge is not None:
        grid["ridge"] = [series.ridge]
    return grid


def simulated(grid: dict[str, Any], profile: Profile, *, further: bool = False) -> dict[str, Any]:
    """The grid with the profile's dimension and instances, those of a further figure perhaps."""
    instances = profile.further_instances if further else profile.erm_instances
    return grid | {"dimension": [profile.erm_dimension], "instances": instances}


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


def placed(panel: Panel, place: str, **changes: Any) -> Panel:
    """The panel with its legend at a place, and with another title or number of columns."""
    return replace(panel, legend=replace(panel.legend or Legend(), place=place, **changes))


def in_one_line(panel: Panel) -> Panel:
    """The panel with the title of its legend in one line."""
    legend = panel.legend or Legend()
    return replace(panel, legend=replace(legend, title=legend.title.replace("\n", "; ")))


def picture_4a(table: pd.DataFrame) -> Picture:
    """Errors against α."""
    panel = replace(
        placed(curves_panel(table), "upper right"),
        x=Axis(AXES["alpha"], low=0, high=LARGEST_ALPHA_4A + 0.1),
        y=Axis(AXES["generalisation_error"], low=0.1, high=0.7),
    )
    return Picture((panel,))


def picture_4b(table: pd.DataFrame) -> Picture:
    """Errors at large α with their slopes: grey pieces below the curves, named at their ends."""
    panel = placed(curves_panel(table, log_x=True, log_y=True), "lower left")
    slopes, notes = [], []
    theory = table[table["source"] == "theory"].sort_values("alpha")
    powers = {"square": "−1/2", "cross-entropy": "−2/3", "bayes": "−1"}
    for name, some in theory.groupby("estimator"):
        last, error = (float(some[c].iloc[-1]) for c in ("alpha", "generalisation_error"))
        x = (last / 60, last)
        y = tuple(0.7 * error * (last / a) ** EXPONENTS[str(name)] for a in x)
        slopes.append(Trace(x, y, colour="#737373", dash="dash", width=0.7))
        colour = next(t.colour for t in panel.traces if t.kind == "line" and error in t.y)
        text = f"*∝ α^{{{powers[str(name)]}}}*"
        notes.append(Note(1.25 * last, 0.85 * error, text, colour))
    panel = replace(
        panel,
        traces=(*panel.traces, *slopes),
        notes=tuple(notes),
        x=replace(panel.x, low=0.85, high=9 * LARGEST_ALPHA_4B),
        y=replace(panel.y, low=5e-5, high=1.0),
    )
    return Picture((panel,))


FIG4A = FigureSpec(
    "fig4a",
    "Figure 4a: empirical risk minimisation, k = 3",
    "Error of cross-entropy (λ = 0.01) and square loss (λ = 1) near their best ridge, and without "
    "ridge (max-margin, and minimum norm with its peak at α = 1), against the Bayes-optimal error. "
    "Lines: theory. Symbols: fits, with standard errors.",
    picture_4a,
    _grids_4a,
)

FIG4B = FigureSpec(
    "fig4b",
    "Figure 4b: plentiful data, k = 3",
    "At λ = 1 the error falls as α^(−1/2) for the square loss and as α^(−2/3) for cross-entropy "
    "(the paper says −1/2), against α^(−1) for Bayes. Lines: theory; grey: these slopes; symbols: "
    "fits, with standard errors.",
    picture_4b,
    _grids_4b,
)


ALPHAS = (1.0, 2.0, 3.0, 5.0)
RANGES = {"cross-entropy": (1e-4, 10.0), "square": (1e-3, 100.0)}


def best_ridge_rows(estimator: str, alpha: float) -> list[Row]:
    """The theory's row at the best ridge; branch 'best-ridge' marks it."""
    from polyceptron.model import ERM, Teacher
    from polyceptron.theory.curve import curve_rows

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


def picture_ridge(estimator: str, table: pd.DataFrame) -> Picture:
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
    partial(picture_ridge, "cross-entropy"),
    partial(_grids, "cross-entropy"),
    partial(_optima, "cross-entropy"),
)

FIG4D = FigureSpec(
    "fig4d",
    "Figure 4d: square loss against its ridge, k = 3",
    "Error of the square loss against λ. Lines: theory; symbols: fits, with standard errors. The "
    "best λ is the same at every α.",
    partial(picture_ridge, "square"),
    partial(_grids, "square"),
    partial(_optima, "square"),
)


SERIES = (
    Risk("square", 0.0), Risk("square", 0.01), Risk("square", 1.0), Risk("cross-entropy", 0.01),
)  # fmt: skip
QUANTITIES = {
    "generalisation_error": "*ε_{gen}*", "training_error": "training error",
    "training_loss": "training loss",
}  # fmt: skip
LARGEST_ALPHA = 4.0


def _grids_double_descent(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0])
    lines = profile.line(0.05, LARGEST_ALPHA, marks)
    lines = sorted({*lines, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1})
    grids = []
    for series in SERIES:
        grids.append(risk_grid(series, ["theory"], lines))
        grids.append(simulated(risk_grid(series, ["erm"], marks), profile, further=True))
    return grids


def picture_descent(table: pd.DataFrame) -> Picture:
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
    picture_descent,
    _grids_double_descent,
)
