"""The figure of one-pass SGD: what one look at each sample costs against the best ridge."""

from dataclasses import replace

import pandas as pd

from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import curves_panel
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import line_rows, run_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile

CLASSES = (2, 3, 10)
ALPHAS = (0.3, 30.0)  # ends of the lines
MARKS = (1.0, 3.0, 10.0)  # where one pass is simulated
LINES = (("sgd:optimal", None), ("sgd:1", None), ("cross-entropy", "optimal"))
N_POINTS = 6  # of a line beside the marks: a best rate takes seconds at each α
DIMENSION = 500  # a pass is a loop over samples, whatever the profile


def _computations(profile: Profile) -> list[Computation]:
    """Return the lines, and passes over drawn data at the best rate."""
    lines = [
        ask(
            line_rows,
            estimator=name,
            ridge=ridge,
            low=ALPHAS[0],
            high=ALPHAS[1],
            marks=list(MARKS),
            most=N_POINTS,
            n_classes=k,
            log=True,
        )
        for k in CLASSES
        for name, ridge in LINES
    ]
    passes = [
        ask(
            run_rows,
            estimator="sgd:optimal",
            ridges=[None],
            alpha=alpha,
            dimension=DIMENSION,
            instances=profile.further_instances,
            n_classes=k,
        )
        for k in CLASSES
        for alpha in MARKS
    ]
    return lines + passes


@figure("one-pass", "One pass of stochastic gradient descent", _computations)
def one_pass(table: pd.DataFrame) -> pic.Picture:
    """Error after one pass over the samples, at the best rate and at rate 1, against
    cross-entropy with its best ridge. From above: k = 2, 3, 10.
    Lines: theory; symbols: passes over drawn data, with standard errors.
    """
    panels = []
    for k in CLASSES:
        panel = curves_panel(table[table["n_classes"] == k], log_x=True, log_y=True)
        axis = replace(panel.y, label=f"{panel.y.label}, *k = {k}*")
        panels.append(replace(pic.placed(panel, "lower left"), y=axis))
    return pic.Picture(tuple(panels), height=9.0)
