"""Figures of empirical risk minimisation at k = 3 with Gaussian weights.

Figures 4a and 4b: the error against α beside the Bayes-optimal one. Figure 4b draws the slopes that
the theory has: Bayes α^−1, cross-entropy at fixed λ α^(−2/3) (the paper has −1/2), square loss
α^(−1/2). Figures 4c and 4d: the error against the ridge. Double descent: the square loss with and
without a ridge.
"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, curves_panel, star_trace
from polyceptron.problem import Teacher, make_estimator
from polyceptron.report.figures.bayes_figures import TITLE_GAUSSIAN
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import Curves, run_rows, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.students import student_of

CURVES_4A = Curves(
    low=0,
    high=5.0,
    marks=(0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0),
    fits=(("cross-entropy", 0.01), ("square", 1.0), ("max-margin", None), ("square", 0.0)),
)
CURVES_4B = Curves(
    low=1.0,
    high=1e4,
    marks=(1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    fits=(("square", 1.0), ("cross-entropy", 1.0)),
    log=True,
)


class Slope(NamedTuple):
    """The decay α^(−exponent) of an error, and the exponent in words."""

    exponent: float
    words: str


SLOPES = {
    "bayes": Slope(1.0, "−1"),
    "cross-entropy": Slope(2 / 3, "−2/3"),
    "square": Slope(0.5, "−1/2"),
}
SLOPE_RANGE = 60.0  # the ratio of the ends of a slope in α
SLOPE_BELOW = 0.7  # a slope is drawn at this share of its curve


def in_one_line(panel: pic.Panel) -> pic.Panel:
    """Return the panel with the title of its legend in one line."""
    legend = panel.legend or pic.Legend()
    return replace(panel, legend=replace(legend, title=legend.title.replace("\n", "; ")))


@figure("fig4a", "Figure 4a: empirical risk minimisation, k = 3", CURVES_4A)
def fig4a(table: pd.DataFrame) -> pic.Panel:
    """Error of cross-entropy (λ = 0.01) and square loss (λ = 1) near their best ridge, and without
    ridge (max-margin, and minimum norm with its peak at α = 1), against the Bayes-optimal error.
    Lines: theory. Symbols: fits, with standard errors.
    """
    panel = curves_panel(table, log_x=False)
    panel = pic.placed(panel, "upper right", (0, CURVES_4A.high + 0.1), (0.1, 0.7))
    return replace(panel, title=TITLE_GAUSSIAN)


@figure("fig4b", "Figure 4b: plentiful data, k = 3", computations=CURVES_4B)
def fig4b(table: pd.DataFrame) -> pic.Panel:
    """At λ = 1 the error falls as *α^{−1/2}* for the square loss and as *α^{−2/3}* for
    cross-entropy (the paper has −1/2), against *α^{−1}* for Bayes. Lines: theory; grey: these
    slopes; symbols: fits, with standard errors.
    """
    panel = curves_panel(table, log_x=True, log_y=True)
    panel = pic.placed(panel, "lower left", (0.85, 9 * CURVES_4B.high), (5e-5, 1.0))
    slopes = []
    notes = []
    theory = table[table["source"] == "theory"].sort_values("alpha")
    for estimator, rows in theory.groupby("estimator"):
        slope = SLOPES[str(estimator)]
        alpha = float(rows["alpha"].iloc[-1])
        error = float(rows[ERROR].iloc[-1])
        slopes.append(_slope_trace(slope, alpha, error))
        colour = next(t.colour for t in panel.traces if t.kind == "line" and error in t.y)
        words = f"*∝ α^{{{slope.words}}}*"
        notes.append(pic.Note(1.25 * alpha, 0.85 * error, words, colour))
    return replace(panel, traces=(*panel.traces, *slopes), notes=tuple(notes), title=TITLE_GAUSSIAN)


def _slope_trace(slope: Slope, alpha: float, error: float) -> pic.Trace:
    """Return a grey line of this slope, below the end (alpha, error) of its curve."""
    start = alpha / SLOPE_RANGE
    low = SLOPE_BELOW * error
    high = low * SLOPE_RANGE**slope.exponent
    return pic.Trace((start, alpha), (high, low), colour="#737373", dash="dash", width=0.7)


ALPHAS_OF_RIDGES = (1.0, 2.0, 3.0, 5.0)
RANGES_OF_RIDGES = {"cross-entropy": (1e-4, 10.0), "square": (1e-3, 100.0)}
N_FITTED_RIDGES = 11


def rows_over_ridges(estimator: str, alpha: float, marks: list[float], most: int) -> list[Row]:
    """Return the error against λ, at the marks too, and the row of the best λ."""
    teacher = Teacher(3)

    def rows_at(ridge: float) -> list[Row]:
        """Return the row of theory at this ridge."""
        return student_of(make_estimator(estimator, ridge)).rows(teacher, [alpha])

    low, high = RANGES_OF_RIDGES[estimator]
    rows = smooth_rows(rows_at, low, high, most, marks, log=True, x="ridge")
    best = student_of(make_estimator(estimator, "optimal")).rows(teacher, [alpha])
    return rows + [row | {"branch": "best-ridge"} for row in best]


def _ridges(estimator: str, profile: Profile) -> list[Computation]:
    low, high = RANGES_OF_RIDGES[estimator]
    ridges = [float(f"{ridge:.4g}") for ridge in np.geomspace(low, high, N_FITTED_RIDGES)]
    marks = profile.thin(ridges)
    lines = [
        ask(
            rows_over_ridges,
            estimator=estimator,
            alpha=alpha,
            marks=marks,
            most=profile.line_points // 2,
        )
        for alpha in ALPHAS_OF_RIDGES
    ]
    fits = [
        ask(
            run_rows,
            estimator=estimator,
            ridges=marks,
            alpha=alpha,
            dimension=profile.erm_dimension,
            instances=profile.erm_instances,
        )
        for alpha in ALPHAS_OF_RIDGES
    ]
    return lines + fits


def ridge_panel(table: pd.DataFrame) -> pic.Panel:
    """Draw the error against λ, one colour for each α, with the best λ marked."""
    is_best = table["branch"] == "best-ridge"
    errors = table[ERROR]
    ridge = table["ridge"]
    panel = in_one_line(curves_panel(table[~is_best], "ridge"))
    across = (ridge.min() / 1.3, ridge.max() * 1.3)
    up = (errors.min() - 0.02, errors.max() + 0.075)
    panel = pic.placed(panel, "upper center", across, up, columns=5)
    star = star_trace(table[is_best], "ridge")
    return replace(panel, traces=(*panel.traces, star), title=TITLE_GAUSSIAN)


fig4c = figure(
    "fig4c",
    "Figure 4c: cross-entropy against its ridge, k = 3",
    partial(_ridges, "cross-entropy"),
    "Error of cross-entropy against λ. Lines: theory; symbols: fits, with standard errors; stars: "
    "the best λ at each α, which falls with α.",
)(ridge_panel)
fig4d = figure(
    "fig4d",
    "Figure 4d: square loss against its ridge, k = 3",
    partial(_ridges, "square"),
    "Error of the square loss against λ. Lines: theory; symbols: fits, with standard errors. The "
    "best λ is the same at every α.",
)(ridge_panel)


CURVES_DESCENT = Curves(
    low=0,
    high=4.0,
    marks=(0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0),
    fits=(("square", 0.0), ("square", 0.01), ("square", 1.0), ("cross-entropy", 0.01)),
    lines=(),
    instances="further_instances",
)
QUANTITIES = {
    ERROR: "*ε_{gen}*",
    "training_error": "training error",
    "training_loss": "training loss",
}


@figure("double-descent", "Double descent and the training error, k = 3", CURVES_DESCENT)
def double_descent(table: pd.DataFrame) -> pic.Picture:
    """Without ridge the square loss fits every label up to α = 1, where its error peaks; a ridge
    removes the peak. Cross-entropy can always separate the samples and has none. Top: test error;
    middle: training error; bottom: mean training loss. Lines: theory; symbols: fits.
    """
    across = pic.Axis("", low=0, high=CURVES_DESCENT.high + 0.05)
    panels = []
    for column, label in QUANTITIES.items():
        panel = curves_panel(table, y=column)
        y = replace(panel.y, label=label)
        panels.append(replace(panel, x=across, y=y, marks=(pic.Mark(1.0),)))
    test, training_error, training_loss = panels
    test = replace(
        pic.placed(test, "outside", y=(0.15, 0.75)),
        marks=(pic.Mark(1.0, "*α = 1*"),),
        title=TITLE_GAUSSIAN,
    )
    training_error = replace(training_error, legend=None)
    training_loss = replace(training_loss, x=replace(across, label=pic.AXES["alpha"]), legend=None)
    return pic.Picture((test, training_error, training_loss), width=5.2, height=5.2)
