"""Rules other than a joint loss, each at its own best ridge: one-vs-rest, LDA, class means."""

from dataclasses import replace

import pandas as pd

from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import curves_panel
from polyceptron.problem import Teacher, make_estimator
from polyceptron.report.figures.bayes_figures import TITLE_GAUSSIAN
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import line_rows, run_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.students import student_of

RULES = ("cross-entropy", "one-vs-rest", "lda", "class-means")
LOW = 0.5  # α
HIGH = 16.0  # α
MARKS = (1.0, 4.0, 16.0)  # α of fits
TOLERANCE = 5e-4  # of an error


def rival_fits(
    estimator: str, ridge: float | str | None, alpha: float, dimension: int, instances: int
) -> list[Row]:
    """Return fits at a ridge; at the theory's best one for "optimal"."""
    if ridge == "optimal":
        student = student_of(make_estimator(estimator, ridge))
        (row,) = student.rows(Teacher(3), [alpha], tol=TOLERANCE)
        ridge = row["ridge"]
    return run_rows(estimator, [ridge], alpha, dimension, instances)


def _rivals(profile: Profile) -> list[Computation]:
    marks = profile.thin(MARKS)
    lines = [
        ask(
            line_rows,
            estimator="bayes",
            ridge=None,
            low=LOW,
            high=HIGH,
            marks=[],
            log=True,
            most=profile.line_points,
        )
    ]
    fits = []
    for rule in RULES:
        ridge = profile.rival_ridge if make_estimator(rule).takes_ridge else None
        lines.append(
            ask(
                line_rows,
                estimator=rule,
                ridge=ridge,
                low=LOW,
                high=HIGH,
                marks=marks,
                log=True,
                tol=TOLERANCE,
                most=profile.rival_points,
            )
        )
        fits += [
            ask(
                rival_fits,
                estimator=rule,
                ridge=ridge,
                alpha=alpha,
                dimension=profile.erm_dimension,
                instances=profile.noisy_instances,
            )
            for alpha in marks
        ]
    return lines + fits


@figure("rivals", "Other rules at their best ridge, k = 3", _rivals)
def rival_rules(table: pd.DataFrame) -> pic.Panel:
    """One-vs-rest loses next to nothing with few samples and errs half as much again as
    cross-entropy at *α = 16*: a class against two others is not a linear rule, and from *α = 13* on
    no ridge helps it. Discriminant analysis is least squares here. Lines: theory, each rule at its
    own best ridge; symbols: fits at these ridges, with standard errors.
    """
    panel = pic.placed(curves_panel(table, log_x=True, log_y=True), "lower left")
    ticks = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    return replace(panel, y=replace(panel.y, ticks=ticks, low=0.03), title=TITLE_GAUSSIAN)
