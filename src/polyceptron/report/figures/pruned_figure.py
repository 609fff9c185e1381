"""The figure of choosing data: keep the hard half of the samples, or any half?"""

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from polyceptron.numerics.averages import Average
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR
from polyceptron.problem import ERM, Pruned, Teacher
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import SEED, figure_row, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row, error_column
from polyceptron.students import student_of
from polyceptron.students.seeds import instance_seeds

LOSS = "cross-entropy"
RIDGE = 0.2
KEEP = 0.5  # of the curves of the error
N_CLASSES = 3  # of these curves
ALPHAS = (1.0, 50.0)  # ends of these curves
MARKS = (3.0, 10.0, 30.0)  # where data are drawn
COLOURS = {"hard": "#D55E00", "easy": "#0072B2", "random": "#000000"}
SYMBOLS = {"hard": "square", "easy": "triangle", "random": "circle"}
CLASSES = {2: "solid", 3: "dash", 10: "dot"}  # dashes of the crossings
SHARES = (0.3, 0.5, 0.7, 0.9)
CROSSING_RANGES = {2: (2.0, 64.0), 3: (3.0, 128.0), 10: (8.0, 256.0)}  # of α, by classes
# Of cubic splines of ln error in ln α. Crossings of two and three classes are then known to 0.1 %
# of α, those of ten classes, where each place costs a second, to 5 %.
N_PLACES_OF_HARD = {2: 14, 3: 14, 10: 5}
N_PLACES_OF_RANDOM = 14
ERROR_TOLERANCE = 1e-3  # of the error of ten classes, which is sampled


def _selection(n_classes: int, keep: float, which: str) -> Any:
    """Return a teacher of whose samples a share is kept."""
    return Pruned(Teacher(n_classes), keep, which)


def pruned_rows(which: str, most: int) -> list[Row]:
    """Return rows of theory of one selection, against α of all samples."""
    population = _selection(N_CLASSES, KEEP, which)
    student = student_of(ERM(LOSS, RIDGE))

    def rows_at(alpha: float) -> list[Row]:
        """Return the row of theory at this α."""
        return student.rows(population, [alpha])

    return smooth_rows(rows_at, *ALPHAS, most, MARKS, log=True, y=ERROR)


def fitted_pruned_rows(which: str, alpha: float, dimension: int, instances: int) -> list[Row]:
    """Return the row of a mean over fits to drawn data of one selection."""
    population = _selection(N_CLASSES, KEEP, which)
    student = student_of(ERM(LOSS, RIDGE))
    errors = []
    for seed in instance_seeds(SEED, population.columns, alpha, dimension, instances):
        (row,) = student.simulate(population, alpha, dimension, seed)
        errors.append(row[ERROR])
    average = Average.of(errors)
    numbers = {
        "alpha": alpha,
        "ridge": RIDGE,
        "prune": population.columns["prune"],
        "dimension": dimension,
        "instances": instances,
        ERROR: average.mean,
        error_column(ERROR): average.standard_error,
    }
    return [figure_row("erm", LOSS, n_classes=N_CLASSES, **numbers)]


def crossing_rows(n_classes: int) -> list[Row]:
    """Return, for each share that has one, the α from which hard samples beat random ones."""
    log_error_of_random = _log_error_of_random(n_classes)
    rows = []
    for keep in SHARES:
        crossing = _crossing(n_classes, keep, log_error_of_random)
        if crossing is not None:
            numbers = {"alpha": crossing, "share": keep, "ridge": RIDGE, "branch": "crossing"}
            rows.append(figure_row("theory", LOSS, n_classes=n_classes, **numbers))
    return rows


def _crossing(n_classes: int, keep: float, log_error_of_random: CubicSpline) -> float | None:
    """Return the α from which hard samples of this share are better, None if there is none."""
    alphas = np.geomspace(*CROSSING_RANGES[n_classes], N_PLACES_OF_HARD[n_classes])
    population = _selection(n_classes, keep, "hard")
    log_error_of_hard = _log_errors(population, alphas)
    advantage_of_random = log_error_of_hard - log_error_of_random(np.log(keep * alphas))
    if advantage_of_random[0] < 0 or advantage_of_random[-1] > 0:
        return None
    spline = CubicSpline(np.log(alphas), advantage_of_random)
    return math.exp(brentq(lambda x: float(spline(x)), *np.log(alphas[[0, -1]])))


def _log_error_of_random(n_classes: int) -> CubicSpline:
    """Return the ln of the error as a function of ln α' for α' random samples per dimension."""
    low, high = CROSSING_RANGES[n_classes]
    alphas = np.geomspace(min(SHARES) * low, max(SHARES) * high, N_PLACES_OF_RANDOM)
    return CubicSpline(np.log(alphas), _log_errors(Teacher(n_classes), alphas))


def _log_errors(population: Any, alphas: np.ndarray) -> np.ndarray:
    """Return the ln of the errors at these α, shape (n,)."""
    rows = student_of(ERM(LOSS, RIDGE)).rows(population, alphas, tol=ERROR_TOLERANCE)
    return np.log([float(row[ERROR]) for row in rows])


def _computations(profile: Profile) -> list[Computation]:
    """Return the curves, the fits beside them, and the crossings."""
    most = max(9, profile.line_points // 4)
    curves = [ask(pruned_rows, which=which, most=most) for which in COLOURS]
    fits = [
        ask(
            fitted_pruned_rows,
            which=which,
            alpha=alpha,
            dimension=profile.erm_dimension,
            instances=profile.noisy_instances,
        )
        for which in COLOURS
        for alpha in MARKS
    ]
    crossings = [ask(crossing_rows, n_classes=k) for k in CLASSES]
    return curves + fits + crossings


@figure("choosing-data", "Keeping a part of the samples, chosen by margin", _computations)
def choosing_data(table: pd.DataFrame) -> pic.Picture:
    """Above: error of cross-entropy (*λ* = 0.2, *k* = 3) on the half of the samples with the
    smallest margins (hard), the largest (easy), or on any half. Below: the *α* from which hard
    samples are better than random ones, against the share that is kept. Lines: theory; symbols:
    fits, with standard errors.
    """
    is_crossing = table["branch"] == "crossing"
    return pic.Picture(
        (_errors_panel(table[~is_crossing]), _crossings_panel(table[is_crossing])),
        height=5.2,
    )


def _errors_panel(table: pd.DataFrame) -> pic.Panel:
    """Return the errors of all three selections."""
    is_fit = table["source"] == "erm"
    traces = []
    for which, colour in COLOURS.items():
        chosen = table[table["prune"] == f"{which}:{KEEP:g}"].sort_values("alpha")
        theory = chosen[chosen["source"] == "theory"]
        fits = chosen[chosen["source"] == "erm"]
        traces.append(pic.trace_of(theory, "alpha", ERROR, label=which, colour=colour))
        traces.append(
            pic.trace_of(
                fits,
                "alpha",
                ERROR,
                error_column(ERROR),
                kind="symbols",
                marker=SYMBOLS[which],
                colour=colour,
                in_legend=False,
            )
        )
    x = pic.Axis("*α = n/d* of all samples", "log")
    y = pic.Axis(pic.AXES[ERROR], "log")
    title = f"*k = {N_CLASSES}*, Gaussian weights, cross-entropy, *λ = {RIDGE:g}*, half kept"
    legend = "lines: theory"
    if is_fit.any():
        legend += f"\nsymbols: fits, *d = {int(table.loc[is_fit, 'dimension'].iloc[0])}*"
    panel = pic.Panel(tuple(traces), x, y, title=title)
    return pic.placed(panel, "lower left", title=legend)


def _crossings_panel(table: pd.DataFrame) -> pic.Panel:
    """Return where hard samples win, for each number of classes."""
    traces = []
    for k, dash in CLASSES.items():
        line = table[table["n_classes"] == k].sort_values("share")
        traces.append(
            pic.trace_of(line, "share", "alpha", label=f"*k = {k}*", colour="#222222", dash=dash)
        )
    x = pic.Axis("share that is kept", low=0, high=1)
    y = pic.Axis("*α* from which hard is better", "log")
    title = f"Gaussian weights, cross-entropy, *λ = {RIDGE:g}*, theory"
    return pic.placed(pic.Panel(tuple(traces), x, y, title=title), "upper right")
