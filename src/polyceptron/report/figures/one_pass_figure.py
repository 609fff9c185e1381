"""The figure of one-pass SGD: what one look at each sample costs against the best ridge."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, curves_panel
from polyceptron.problem import SGD, Teacher
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import figure_row, line_rows, run_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.theory.one_pass.rows import one_pass_point

CLASSES = (2, 3, 10)
ALPHAS = (0.3, 30.0)  # ends of the lines
MARKS = (1.0, 3.0, 10.0)  # where one pass is simulated
FIXED_RATE = "sgd:1"
RATES_IN_WORDS = {"SGD:1": "rate 1", "SGD:optimal": "best rate"}  # by the end of a label
TINTS = pic.tints(pic.COLOURS["sgd"], 2)
N_POINTS = 8  # of a line of one pass beside the marks
N_RIDGES = {2: 12, 3: 12, 10: 4}  # of the line of best ridges, by classes: at 10 a second each
# Among these rates the best one is looked for; it lies between 0.3 and 5 in all three panels.
RATES = np.geomspace(0.25, 6.0, 7)


def best_rate_rows(n_classes: int) -> list[Row]:
    """Return the line of one pass at the rate of least error, by parabolas in the log of the rate.

    A path at one rate has all α, so that the rates of all points cost no more than those of one.
    """
    teacher = Teacher(n_classes)
    rows = []
    for alpha in np.geomspace(*ALPHAS, N_POINTS + len(MARKS)).tolist():
        errors = [
            one_pass_point(teacher, SGD(rate=rate), alpha).generalisation_error
            for rate in RATES.tolist()
        ]
        log_rate, error = _vertex(np.log(RATES), np.array(errors))
        numbers = {"alpha": alpha, "rate": math.exp(log_rate), ERROR: error}
        rows.append(figure_row("theory", "sgd:optimal", n_classes=n_classes, **numbers))
    return rows


def _vertex(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the least point of the parabola through the lowest of the points and its neighbours.

    >>> x = np.arange(5.0)
    >>> tuple(round(number, 9) for number in _vertex(x, (x - 2.3) ** 2 + 1))
    (2.3, 1.0)
    """
    middle = min(max(int(np.argmin(y)), 1), len(x) - 2)
    around = slice(middle - 1, middle + 2)
    parabola = np.polynomial.Polynomial.fit(x[around], y[around], 2)
    lowest = float(parabola.deriv().roots()[0].real)
    return lowest, float(parabola(lowest))


def _computations(profile: Profile) -> list[Computation]:
    """Return the lines, and passes over drawn data at rate 1."""
    lines = []
    for k in CLASSES:
        lines.append(_line(FIXED_RATE, None, k, N_POINTS))
        lines.append(_line("cross-entropy", "optimal", k, N_RIDGES[k]))
    best_rates = [ask(best_rate_rows, n_classes=k) for k in CLASSES]
    passes = [
        ask(
            run_rows,
            estimator=FIXED_RATE,
            ridges=[None],
            alpha=alpha,
            dimension=profile.erm_dimension,
            instances=profile.noisy_instances,
            n_classes=k,
        )
        for k in CLASSES
        for alpha in MARKS
    ]
    return lines + best_rates + passes


def _line(estimator: str, ridge: str | None, n_classes: int, most: int) -> Computation:
    """Return the computation of a line of theory over α."""
    return ask(
        line_rows,
        estimator=estimator,
        ridge=ridge,
        low=ALPHAS[0],
        high=ALPHAS[1],
        marks=list(MARKS),
        most=most,
        n_classes=n_classes,
        log=True,
    )


@figure("one-pass", "One pass of stochastic gradient descent", _computations)
def one_pass(table: pd.DataFrame) -> pic.Picture:
    """Error after one pass over the samples, at the best rate and at rate 1, against
    cross-entropy with its best ridge. From above: k = 2, 3, 10.
    Lines: theory; symbols: passes over drawn data at rate 1, with standard errors.
    """
    dimension = int(table["dimension"].max())
    legend = f"lines: theory\nsymbols: passes over data, *d = {dimension}*"
    panels = []
    for k in CLASSES:
        panel = curves_panel(table[table["n_classes"] == k], log_x=True, log_y=True)
        panel = pic.placed(panel, "lower left", title=legend)
        traces = tuple(_dressed(trace) for trace in panel.traces)
        panels.append(replace(panel, traces=traces, title=f"*k = {k}*, Gaussian weights"))
    return pic.Picture(tuple(panels), height=9.0)


def _dressed(trace: pic.Trace) -> pic.Trace:
    """Return a trace of one pass with its rate in words and a tint of its own."""
    for written, words, tint in zip(RATES_IN_WORDS, RATES_IN_WORDS.values(), TINTS, strict=True):
        if trace.label.endswith(written):
            return replace(trace, label=f"one pass, {words}", colour=tint)
    return trace
